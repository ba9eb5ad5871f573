/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which problems a resource has, and what its condition contains. A resource that has not
 * reported its devices keeps its condition for a while, so that a start changes nothing.
 */
#include "dra/node-report.h"

#include "common/json-read.h"
#include "common/node-condition.h"
#include "common/sealed.h"
#include "common/text.h"
#include "dra/model/device-problems.h"
#include "dra/node-conditions.h"

/* How long a resource may take to report its devices. */
#define REPORT_WAIT        (30 * USEC_PER_SEC)
#define RESOURCES_SIZE_MAX (4U << 20)
#define MESSAGE_MAX        1024

struct node_report {
	struct node_conditions *conditions;
	sd_event_source *wait;
	bool waited;
	json_t *resources; /* of CLUSTER_RESOURCES; NULL: not known yet */
	json_t *devices; /* by resource: {"total", "problems": see device_problems(), "expect": why
			  * the number of devices is wrong, or empty} */
	char *failure;   /* that the supervisor knows; NULL: it knows nothing */
};

/* --- conditions --- */

static json_t *pack_condition(const char *status, const char *reason, char *message)
{
	text_sanitize(message);
	return json_pack("{s:s, s:s, s:s}", "status", status, "reason", reason, "message", message);
}

static bool are_missing(json_t *problems)
{
	const json_t *problem;
	const char *id;

	json_object_foreach(problems, id, problem)
	{
		if (!json_is_true(json_object_get(problem, "missing")))
			return false;
	}
	return true;
}

static json_t *describe_devices(const json_t *devices)
{
	json_t *problems = json_object_get(devices, "problems");
	long long total = json_integer_value(json_object_get(devices, "total"));
	const char *expect = text_of(devices, "expect");
	size_t n = json_object_size(problems);
	char message[MESSAGE_MAX];
	int length;

	/* The text names missing devices. */
	if (*expect && are_missing(problems)) {
		(void)snprintf(message, sizeof(message), "%s", expect);
		text_sanitize_cut(message, sizeof(message));
		return pack_condition("True", "DevicesNotAsExpected", message);
	}
	if (n == 0) {
		(void)snprintf(message, sizeof(message), "%lld device%s, no problem", total,
			total == 1 ? "" : "s");
		return pack_condition("False", "DevicesHealthy", message);
	}
	length = snprintf(message, sizeof(message), "%zu of %lld device%s: ", n, total,
		total == 1 ? "" : "s");
	device_problems_text(problems, message + length, sizeof(message) - (size_t)length);
	return pack_condition(
		"True", are_missing(problems) ? "DevicesMissing" : "DevicesUnhealthy", message);
}

static json_t *describe(const struct node_report *report, const char *name, const json_t *resource)
{
	const json_t *devices = json_object_get(report->devices, name);
	const char *failure = text_of(resource, "failure");
	char message[MESSAGE_MAX];

	if (*failure) {
		(void)snprintf(message, sizeof(message), "%s", failure);
		text_sanitize_cut(message, sizeof(message));
		return pack_condition("True", "ResourceFailed", message);
	}
	if (devices)
		return describe_devices(devices);
	if (!report->waited)
		return json_null();
	(void)snprintf(message, sizeof(message), "the resource has not reported its devices");
	return pack_condition("Unknown", "NoReport", message);
}

static void update(const struct node_report *report)
{
	char type[NODE_CONDITION_TYPE_MAX + 1];
	const json_t *resource;
	json_t *wanted;
	const char *name;

	if (!report->resources)
		return;
	wanted = json_object();
	json_object_foreach(report->resources, name, resource)
	{
		node_condition_type(name, type);
		(void)json_object_set_new(wanted, type, describe(report, name, resource));
	}
	node_conditions_set(report->conditions, wanted);
}

static int on_wait(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct node_report *report = userdata;

	report->waited = true;
	update(report);
	return 0;
}

static void on_result(const char *failure, void *userdata)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_REPORTED);
	struct node_report *report = userdata;

	if (report->failure && streq(report->failure, failure))
		return;
	(void)snprintf(message.text, sizeof(message.text), "%s", failure);
	if (control_send(CONTROL_FD, &message) < 0)
		return;
	free(report->failure);
	report->failure = strdup(failure);
}

/* --- --- */

int node_report_take_resources(struct node_report *report, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	const char *name;
	json_t *resources, *devices;
	void *next;
	size_t size;
	int r;

	r = sealed_read(message->fds[0], RESOURCES_SIZE_MAX, &text, &size);
	if (r < 0)
		return r;
	resources = json_loadb(text, size, 0, NULL);
	if (!json_is_object(resources)) {
		json_decref(resources);
		return -EBADMSG;
	}
	json_decref(report->resources);
	report->resources = resources;
	/* A resource of that name that comes later is another one. */
	json_object_foreach_safe(report->devices, next, name, devices)
	{
		if (!json_object_get(resources, name))
			(void)json_object_del(report->devices, name);
	}
	update(report);
	return 0;
}

void node_report_set_devices(struct node_report *report, const char *resource,
	const json_t *devices, const json_t *expect)
{
	size_t total;
	json_t *problems = device_problems(devices, &total);

	(void)json_object_set_new(report->devices, resource,
		json_pack("{s:I, s:o, s:s}", "total", (json_int_t)total, "problems", problems,
			"expect", text_of(expect, "reason")));
	update(report);
}

int node_report_new(
	sd_event *event, struct dra_api *api, const char *node, struct node_report **ret)
{
	_cleanup_(node_report_freep) struct node_report *report = calloc(1, sizeof(*report));
	int r;

	if (!report)
		return -ENOMEM;
	report->devices = json_object();
	r = node_conditions_new(event, api, node, on_result, report, &report->conditions);
	if (r >= 0)
		r = sd_event_add_time_relative(event, &report->wait, CLOCK_MONOTONIC, REPORT_WAIT,
			USEC_PER_SEC, on_wait, report);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(report);
	return 0;
}

struct node_report *node_report_free(struct node_report *report)
{
	if (!report)
		return NULL;
	(void)node_conditions_free(report->conditions);
	sd_event_source_disable_unref(report->wait);
	json_decref(report->resources);
	json_decref(report->devices);
	free(report->failure);
	free(report);
	return NULL;
}
