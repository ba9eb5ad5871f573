/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes the current state of the resources for systemd, devplugctl and other programs. Which
 * devices a resource has is in the document of its process.
 */
#include <jansson.h>

#include "common/text.h"
#include "drivers/model/parameter.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/books/pod-assignments.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/eviction/eviction.h"
#include "supervisor/helpers/dra.h"
#include "supervisor/helpers/metrics.h"
#include "supervisor/ownership/arbiter.h"
#include "supervisor/status.h"

struct totals {
	unsigned serving, retrying, waiting, failed, other;
	uint64_t devices, healthy;
	uint64_t next_try; /* the soonest, 0: none */
};

static bool is_retrying(const struct resource *resource)
{
	return resource->state == RESOURCE_BACKOFF || resource->state == RESOURCE_DYING;
}

static void count(struct totals *totals, const struct resource *resource)
{
	if (resource->state == RESOURCE_SERVING) {
		totals->serving++;
		totals->devices += resource->devices;
		totals->healthy += resource->healthy;
	} else if (is_retrying(resource)) {
		totals->retrying++;
		if (resource->next_try > 0 &&
			(totals->next_try == 0 || resource->next_try < totals->next_try))
			totals->next_try = resource->next_try;
	} else if (resource->state == RESOURCE_WAITING || resource->state == RESOURCE_STARTING) {
		totals->waiting++;
	} else if (resource->state == RESOURCE_FAILED) {
		totals->failed++;
	} else {
		totals->other++;
	}
}

/* Adds "<before><number><after>", or nothing for 0. */
static void append(char *text, size_t size, const char *before, uint64_t number, const char *after)
{
	size_t length = strlen(text);

	if (number > 0)
		(void)snprintf(text + length, size - length, "%s%llu%s", before,
			(unsigned long long)number, after);
}

void status_summary(const struct manager *manager, char *ret, size_t size)
{
	struct totals totals = { 0 };
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	int n;

	for (size_t i = 0; i < manager->n_children; i++)
		count(&totals, manager->children[i]->resource);
	n = snprintf(ret, size, "%zu resource%s: %u serving (%llu device%s, %llu healthy)",
		manager->n_children, manager->n_children == 1 ? "" : "s", totals.serving,
		(unsigned long long)totals.devices, totals.devices == 1 ? "" : "s",
		(unsigned long long)totals.healthy);
	if (n < 0)
		ret[0] = '\0';
	if (manager->n_children == 0)
		(void)snprintf(ret, size, "no resources are configured");
	append(ret, size, ", ", totals.waiting, " waiting");
	append(ret, size, ", ", totals.other, " registering or stopping");
	append(ret, size, ", ", totals.failed, " failed");
	append(ret, size, ", ", totals.retrying, " retrying");
	if (totals.next_try > now)
		append(ret, size, " in ", (totals.next_try - now + USEC_PER_SEC - 1) / USEC_PER_SEC,
			"s");
	if (manager->on_last_accepted) {
		size_t length = strlen(ret);

		(void)snprintf(ret + length, size - length,
			"; %s is not valid, the last accepted configuration is used",
			manager->config_file);
	} else if (manager->reload_failed)
		append(ret, size, "; reload failed, generation ", manager->generation,
			" stays applied");
}

/* NULL if there are none. */
static json_t *describe_parameters(const struct groups *declared)
{
	return declared->count > 0 ? parameters_shown(declared) : NULL;
}

/* What was checked when it arrived; NULL: the resource has no labels. */
static json_t *describe_labels(const struct child *child)
{
	_cleanup_free_ char *text = strdup(child->labels ?: "");
	json_t *labels = json_object();
	char *rest = NULL;

	if (resource_applied(child->resource)->declaration.labels.count == 0) {
		json_decref(labels);
		return NULL;
	}
	for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
		line = strtok_r(NULL, "\n", &rest)) {
		char *equals = strchr(line, '=');

		*equals = '\0';
		(void)json_object_set_new(labels, line, json_string(equals + 1));
	}
	return labels;
}

static json_t *describe(const struct child *child)
{
	static const char *const registrations[_REGISTRATION_MAX] = {
		[REGISTRATION_SOCKET] = "socket",
		[REGISTRATION_WATCHER] = "watcher",
		[REGISTRATION_DEFAULT] = "default",
		[REGISTRATION_DRA] = "dra",
	};
	const bool dra = child_registration(child) == REGISTRATION_DRA;
	const char *driver = resource_config_driver(resource_applied(child->resource));
	const struct resource *resource = child->resource;
	char since[TEXT_TIME_MAX], next_try[TEXT_TIME_MAX] = "", reason[sizeof(resource->reason)];

	text_time(resource->since, since);
	if (resource->next_try > 0)
		text_time(resource->next_try - now_usec(CLOCK_MONOTONIC) + now_usec(CLOCK_REALTIME),
			next_try);
	(void)snprintf(reason, sizeof(reason), "%s", resource->reason);
	if (!*reason && proposal_failure(child->proposal))
		(void)snprintf(reason, sizeof(reason),
			"the files for the container runtime cannot be published: %.500s; until then containers get device nodes instead of CDI names",
			proposal_failure(child->proposal));
	text_sanitize(reason);
	return json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:b, s:I, s:I, s:s, s:s, s:s, "
			 "s:b, s:s, s:o, s:o*, s:s*, s:I, s:o*, s:o*, s:s}",
		"name", resource->name, "driver",
		resource_applied(resource)->declaration.driver_name, "state",
		resource_state_name(resource), "reason", reason, "pid", (int)child->process.pid,
		"session", (json_int_t)resource->session, "restarts",
		(json_int_t)resource->restarts, "registered", (int)resource->registered,
		"devices_total", (json_int_t)resource->devices, "devices_healthy",
		(json_int_t)resource->healthy, "since", since, "next_try", next_try, "registration",
		registrations[child_registration(child)], "refused", (int)resource->refused, "note",
		claimant_note(child->claimant) ?: "", "failures",
		failure_describe(resource->failures), "published",
		dra ? json_boolean(child->published) : NULL, "dra_driver", driver, "expect",
		(json_int_t)resource_applied(resource)->declaration.expect, "parameters",
		describe_parameters(&resource_applied(resource)->declaration.parameters), "labels",
		describe_labels(child), "labels_failure", child->labels_failure ?: "");
}

/* Describes a resource with its evictions. */
static json_t *describe_child(const struct manager *manager, const struct child *child)
{
	json_t *resource = describe(child);
	json_t *eviction = evictions_describe(manager->evictions, child->resource->name);

	if (eviction && json_object_set_new(resource, "eviction", eviction) < 0) {
		json_decref(resource);
		return NULL;
	}
	return resource;
}

static int add_claims(const struct manager *manager, const struct child *child, json_t *resource)
{
	json_t *claims;

	if (!manager->dra_claims)
		return 0;
	claims = dra_claims_of(manager->dra_claims, child->resource->name);
	/* Claims may outlive the time when DRA served the resource. */
	if (child_registration(child) != REGISTRATION_DRA && json_array_size(claims) == 0) {
		json_decref(claims);
		return 0;
	}
	return json_object_set_new(resource, "claims", claims) < 0 ? -ENOMEM : 0;
}

/* Adds the devices of pods and claims. */
static int add_assignments(const struct manager *manager, json_t *root)
{
	json_t *resources = json_object_get(root, "resources");

	for (size_t i = 0; i < manager->n_children; i++) {
		const char *name = manager->children[i]->resource->name;
		json_t *resource = json_array_get(resources, i);
		json_t *assigned = assignments_of(manager->assignments, name);
		json_t *booked = assignments_booked(manager->assignments, name);

		if ((assigned && json_object_set(resource, "assigned", assigned) < 0) ||
			(booked && json_object_set(resource, "booked", booked) < 0) ||
			add_claims(manager, manager->children[i], resource) < 0)
			return -ENOMEM;
	}
	return json_object_set_new(root, "pods_failure",
		       json_string(assignments_failure(manager->assignments))) < 0 ||
			json_object_set_new(root, "pods_waited",
				json_integer((json_int_t)(assignments_waited(manager->assignments) /
					USEC_PER_SEC))) < 0
		? -ENOMEM
		: 0;
}

static json_t *describe_all(const struct manager *manager)
{
	/* Names of files can have any bytes, JSON cannot. */
	_cleanup_free_ char *config_file = strdup(manager->config_file);
	_cleanup_free_ char *metrics = strdup(metrics_failure(manager->metrics) ?: "");
	json_t *resources = json_array();

	if (config_file)
		text_sanitize(config_file);
	if (metrics)
		text_sanitize(metrics);
	for (size_t i = 0; i < manager->n_children; i++)
		if (json_array_append_new(
			    resources, describe_child(manager, manager->children[i])) < 0) {
			json_decref(resources);
			return NULL;
		}
	/* Takes the references, also on failure. */
	return json_pack("{s:I, s:i, s:s, s:I, s:b, s:b, s:s, s:o*, s:o*, s:o}", "generation",
		(json_int_t)manager->generation, "pid", (int)getpid(), "config_file",
		config_file ?: "", "reloads", (json_int_t)manager->reloads, "reload_failed",
		(int)manager->reload_failed, "on_last_accepted", (int)manager->on_last_accepted,
		"metrics_failure", metrics ?: "", "dra", dra_describe(manager->dra), "cluster",
		dra_describe_cluster(manager->dra), "resources", resources);
}

int status_request(struct request *request, json_t **ret_answer, struct error *error)
{
	const struct manager *manager = request->manager;
	bool pods = json_is_true(json_object_get(request->arguments, "pods"));
	json_int_t after = json_integer_value(json_object_get(request->arguments, "after"));
	/* Begins to ask, if need be. */
	bool ready = !pods || assignments_ready(manager->assignments);
	json_t *root;

	if (!request->expired && (!ready || (after > 0 && manager->n_flushes <= (uint64_t)after)))
		return REQUEST_LATER;
	root = describe_all(manager);
	if (!root || (pods && add_assignments(manager, root) < 0) ||
		json_object_set_new(root, "flushes", json_integer((json_int_t)manager->n_flushes)) <
			0) {
		json_decref(root);
		return error_set(error, -ENOMEM, "out of memory");
	}
	request->devices_follow = json_is_true(json_object_get(request->arguments, "devices"));
	(void)json_object_set_new(root, "devices_follow", json_boolean(request->devices_follow));
	*ret_answer = root;
	return 0;
}
