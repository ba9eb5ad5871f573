/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture of the resources as they are now. Each file of devices is named in the state file, so
 * that readers need not know how names are made.
 */
#include <jansson.h>

#include "common/text.h"
#include "manager.h"
#include "status.h"

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
	n = snprintf(ret, size, "%zu resource%s: %u serving (%llu devices, %llu healthy)",
		manager->n_children, manager->n_children == 1 ? "" : "s", totals.serving,
		(unsigned long long)totals.devices, (unsigned long long)totals.healthy);
	if (n < 0)
		ret[0] = '\0';
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
			" stays in force");
}

static json_t *describe(const struct child *child)
{
	const struct resource *resource = child->resource;
	char since[TEXT_TIME_MAX], file[STATE_NAME_MAX], reason[sizeof(resource->reason)];
	char next_try[TEXT_TIME_MAX] = "";

	text_time(resource->since, since);
	if (resource->next_try > 0)
		text_time(resource->next_try - now_usec(CLOCK_MONOTONIC) + now_usec(CLOCK_REALTIME),
			next_try);
	state_devices_name(resource->name, file);
	(void)snprintf(reason, sizeof(reason), "%s", resource->reason);
	text_sanitize(reason);
	return json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:b, s:I, s:I, s:s, s:s, s:s, s:s, "
			 "s:b, s:s}",
		"name", resource->name, "driver", resource->driver, "state",
		resource_state_name(resource), "reason", reason, "pid", (int)child->pid, "session",
		(json_int_t)resource->session, "restarts", (json_int_t)resource->restarts,
		"registered", (int)resource->registered, "devices_total",
		(json_int_t)resource->devices, "devices_healthy", (json_int_t)resource->healthy,
		"since", since, "devices_file", file, "next_try", next_try, "registration",
		child->registration == REGISTRATION_WATCHER ? "watcher" : "socket", "refused",
		(int)resource->refused, "note", child->claims.note ?: "");
}

int status_json(const struct manager *manager, char **ret)
{
	json_t *resources = json_array(), *root;

	for (size_t i = 0; i < manager->n_children; i++)
		if (json_array_append_new(resources, describe(manager->children[i])) < 0) {
			json_decref(resources);
			return -ENOMEM;
		}
	/* Takes the reference to `resources`, also on failure. */
	root = json_pack("{s:I, s:i, s:s, s:I, s:b, s:b, s:o}", "generation",
		(json_int_t)manager->generation, "pid", (int)getpid(), "config_file",
		manager->config_file, "reloads", (json_int_t)manager->reloads, "reload_failed",
		(int)manager->reload_failed, "on_last_accepted", (int)manager->on_last_accepted,
		"resources", resources);
	if (!root)
		return -ENOMEM;
	*ret = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	return *ret ? 0 : -ENOMEM;
}
