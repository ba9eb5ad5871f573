/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which problems a resource has, and what its condition contains. A resource that has not
 * reported its devices keeps its condition for a while, so that a start changes nothing.
 */
#include "dra/node-report.h"

#include "common/json-read.h"
#include "common/node-condition.h"
#include "common/offered-id.h"
#include "common/sealed.h"
#include "common/text.h"
#include "dra/model/device-problems.h"
#include "dra/node-conditions.h"
#include "dra/node-events.h"

/* How long a resource may take to report its devices. */
#define REPORT_WAIT (30 * USEC_PER_SEC)
#define MESSAGE_MAX 1024
/* A failure in the first report is new if it began so recently, perhaps while no process ran. */
#define NEW_FAILURE (300 * USEC_PER_SEC)

/* What fails in reporting. */
enum part { PART_CONDITIONS, PART_EVENTS, _PART_MAX };

/* What happens to a device, of which the Node and its pods get an Event. */
enum happening {
	HAPPENING_FAILED,
	HAPPENING_RECOVERED,
	HAPPENING_HELD,
	HAPPENING_CONFIRMED,
	HAPPENING_STARTED,
};

static const struct {
	const char *reason;
	bool warning;
	const char *state; /* of an eviction that has come to that */
} happenings[] = {
	[HAPPENING_FAILED] = { .reason = "DeviceFailed", .warning = true },
	[HAPPENING_RECOVERED] = { .reason = "DeviceRecovered" },
	[HAPPENING_HELD] = { .reason = "EvictionHeld", .warning = true, .state = "held" },
	[HAPPENING_CONFIRMED] = { .reason = "EvictionConfirmed" },
	[HAPPENING_STARTED] = { .reason = "EvictionStarted", .warning = true, .state = "evicting" },
};

struct node_report {
	struct node_conditions *conditions;
	struct node_events *events;
	sd_event_source *wait;
	bool waited;
	json_t *resources; /* of CLUSTER_RESOURCES; NULL: not known yet */
	json_t *devices; /* by resource: {"total", "problems": see device_problems(), "expect": why
			  * the number of devices is wrong, or empty} */
	json_t *changes; /* {"happening", "resource", "device", "text"}: their pods are not known
			  */
	uint64_t question; /* number of the last HOLDERS_WANTED */
	size_t asked;      /* changes that it is about, the first ones; 0: it was answered */
	char failures[_PART_MAX][CONTROL_TEXT_MAX];
	char *failure; /* that the supervisor knows; NULL: it knows nothing */
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

static void take_result(struct node_report *report, enum part part, const char *text)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_REPORTED);
	const char *failure;

	(void)snprintf(report->failures[part], sizeof(report->failures[part]), "%s", text);
	failure = report->failures[*report->failures[PART_CONDITIONS] ? PART_CONDITIONS
								      : PART_EVENTS];
	if (report->failure && streq(report->failure, failure))
		return;
	(void)snprintf(message.text, sizeof(message.text), "%s", failure);
	if (control_send(CONTROL_FD, &message) < 0)
		return;
	free(report->failure);
	report->failure = strdup(failure);
}

static void on_conditions(const char *failure, void *userdata)
{
	take_result(userdata, PART_CONDITIONS, failure);
}

static void on_events(const char *failure, void *userdata)
{
	take_result(userdata, PART_EVENTS, failure);
}

/* --- events --- */

static void write_event(
	struct node_report *report, const json_t *change, const char *namespace, const char *pod)
{
	size_t happening = (size_t)json_integer_value(json_object_get(change, "happening"));
	const struct node_event event = {
		.reason = happenings[happening].reason,
		.warning = happenings[happening].warning,
		.resource = text_of(change, "resource"),
		.device = text_of(change, "device"),
		.text = text_of(change, "text"),
		.namespace = namespace,
		.pod = pod,
	};

	node_events_add(report->events, &event);
}

/* Writes an Event on the Node, and keeps the change until the pods are known. */
static void add_change(struct node_report *report, enum happening happening, const char *resource,
	const char *device, const char *what)
{
	_cleanup_free_ char *text = NULL;
	json_t *change;

	if (format_text(&text, "%s: %s", resource, what) < 0)
		return;
	change = json_pack("{s:I, s:s, s:s, s:s}", "happening", (json_int_t)happening, "resource",
		resource, "device", device, "text", text);
	write_event(report, change, NULL, NULL);
	if (json_array_size(report->changes) < NODE_EVENTS_MAX)
		(void)json_array_append_new(report->changes, change);
	else
		json_decref(change);
}

static void add_health_change(
	struct node_report *report, const char *resource, const char *device, const char *failure)
{
	_cleanup_free_ char *text = NULL;

	if (format_text(&text, "device %s %s%s", device, failure ? "has failed: " : "works again",
		    failure ?: "") >= 0)
		add_change(report, failure ? HAPPENING_FAILED : HAPPENING_RECOVERED, resource,
			device, text);
}

static bool is_healthy(const json_t *devices, const char *id)
{
	const json_t *device;
	size_t i;

	json_array_foreach(devices, i, device)
	{
		if (streq(text_of(device, "id"), id))
			return streq(text_of(device, "health"), "Healthy");
	}
	return false;
}

static bool is_new(const json_t *failure)
{
	uint64_t time = now_usec(CLOCK_REALTIME);
	char recent[TEXT_TIME_MAX];

	text_time(time - MIN_OF(time, NEW_FAILURE), recent);
	return strcmp(text_of(failure, "since"), recent) >= 0;
}

/* `before`: the problems of the report before, NULL: this is the first one. */
static void find_changes(struct node_report *report, const char *resource, json_t *before,
	json_t *now, const json_t *devices)
{
	const json_t *problem;
	const char *id;
	size_t n = 0;

	json_object_foreach(now, id, problem)
	{
		if (before ? !json_object_get(before, id) : is_new(problem))
			add_health_change(report, resource, id, text_of(problem, "reason"));
	}
	json_object_foreach(before, id, problem)
	{
		/* Each one costs a search. */
		if (!json_object_get(now, id) && n++ < NODE_EVENTS_MAX && is_healthy(devices, id))
			add_health_change(report, resource, id, NULL);
	}
}

static void add_confirmation(struct node_report *report, const char *resource, const char *device)
{
	_cleanup_free_ char *text = NULL;

	if (format_text(&text, "the eviction of the pods of device %s is confirmed", device) >= 0)
		add_change(report, HAPPENING_CONFIRMED, resource, device, text);
}

/* The evictions of a resource; `before`: as it was reported before, NULL: it was not. */
static void find_evictions(
	struct node_report *report, const char *resource, const json_t *before, const json_t *now)
{
	json_t *evictions = json_object_get(now, "evictions"), *eviction;
	const char *device;

	json_object_foreach(evictions, device, eviction)
	{
		const json_t *earlier =
			json_object_get(json_object_get(before, "evictions"), device);
		const char *state = text_of(eviction, "state");

		if (!before && !is_new(eviction))
			continue;
		if (json_is_true(json_object_get(eviction, "confirmed")) &&
			!json_is_true(json_object_get(earlier, "confirmed")))
			add_confirmation(report, resource, device);
		for (size_t i = 0; i < ARRAY_SIZE(happenings); i++)
			if (streq(state, happenings[i].state ?: "-") &&
				!streq(text_of(earlier, "state"), state))
				add_change(report, (enum happening)i, resource, device,
					text_of(eviction, "text"));
	}
}

static void ask_for_holders(struct node_report *report)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_HOLDERS_WANTED);

	/* One at a time, so that a device that fails again and again does not outdate each one. */
	if (report->asked > 0 || json_array_size(report->changes) == 0)
		return;
	message.number = ++report->question;
	if (control_send(CONTROL_FD, &message) >= 0)
		report->asked = json_array_size(report->changes);
}

/* The containers of a pod, and replicas of a device, are one. */
static void write_pod_events(struct node_report *report, const json_t *change, const json_t *rows)
{
	json_auto_t *done = json_object();
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const char *namespace = text_of(row, "namespace"), *pod = text_of(row, "pod");
		_cleanup_free_ char *key = NULL;

		if (!offered_id_is_of(text_of(row, "id"), text_of(change, "device")) || !*pod ||
			format_text(&key, "%s/%s", namespace, pod) < 0 ||
			json_object_get(done, key))
			continue;
		(void)json_object_set_new(done, key, json_true());
		write_event(report, change, namespace, pod);
	}
}

void node_report_take_pod(struct node_report *report, const struct evictor_pod *pod)
{
	static const struct {
		const char *reason, *form;
		bool warning;
	} results[_EVICTION_RESULT_MAX] = {
		[EVICTION_RESULT_REFUSED] = { .reason = "PodNotEvicted", .warning = true },
		[EVICTION_RESULT_SKIPPED] = { .reason = "PodNotEvicted", .warning = true },
		[EVICTION_RESULT_EVICTED] = { .reason = "PodEvicted", .form = "evicted" },
		[EVICTION_RESULT_DELETED] = { .reason = "PodEvicted", .form = "deleted" },
	};
	struct node_event event = {
		.reason = results[pod->result].reason,
		.warning = results[pod->result].warning,
		.resource = pod->resource,
		.device = pod->device,
	};
	_cleanup_free_ char *text = NULL;
	int r;

	if (!event.reason || !json_object_get(report->resources, pod->resource))
		return;
	r = event.warning
		? format_text(&text, "%s: pod %s/%s, which has device %s, is not evicted: %s",
			  pod->resource, pod->namespace, pod->name, pod->device, pod->text)
		: format_text(&text, "%s: %s pod %s/%s, which had device %s", pod->resource,
			  results[pod->result].form, pod->namespace, pod->name, pod->device);
	if (r < 0)
		return;
	event.text = text;
	node_events_add(report->events, &event);
	event.namespace = pod->namespace;
	event.pod = pod->name;
	event.uid = pod->uid;
	node_events_add(report->events, &event);
}

int node_report_take_holders(struct node_report *report, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	json_auto_t *holders = NULL;
	const json_t *change;
	size_t size, i;
	int r;

	if (message->number != report->question)
		return 0;
	r = sealed_read(message->fds[0], CONTROL_DEVICES_MAX, &text, &size);
	if (r < 0)
		return r;
	holders = json_loadb(text, size, 0, NULL);
	if (!json_is_object(holders))
		return -EBADMSG;
	json_array_foreach(report->changes, i, change)
	{
		if (i == report->asked)
			break;
		write_pod_events(
			report, change, json_object_get(holders, text_of(change, "resource")));
	}
	for (; report->asked > 0; report->asked--)
		(void)json_array_remove(report->changes, 0);
	ask_for_holders(report);
	return 0;
}

/* --- --- */

int node_report_take_resources(struct node_report *report, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	const char *name;
	json_t *resources, *resource, *devices;
	void *next;
	size_t size;
	int r;

	r = sealed_read(message->fds[0], CONTROL_DEVICES_MAX, &text, &size);
	if (r < 0)
		return r;
	resources = json_loadb(text, size, 0, NULL);
	if (!json_is_object(resources)) {
		json_decref(resources);
		return -EBADMSG;
	}
	json_object_foreach(resources, name, resource)
	{
		find_evictions(report, name, json_object_get(report->resources, name), resource);
	}
	json_decref(report->resources);
	report->resources = resources;
	ask_for_holders(report);
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
	json_t *before = json_object_get(json_object_get(report->devices, resource), "problems");
	json_t *problems;
	size_t total;

	/* Reports are off. The supervisor sends all devices again when they are on. */
	if (json_object_size(report->resources) == 0)
		return;
	problems = device_problems(devices, &total);
	find_changes(report, resource, before, problems, devices);
	(void)json_object_set_new(report->devices, resource,
		json_pack("{s:I, s:o, s:s}", "total", (json_int_t)total, "problems", problems,
			"expect", text_of(expect, "reason")));
	ask_for_holders(report);
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
	report->changes = json_array();
	r = node_conditions_new(event, api, node, on_conditions, report, &report->conditions);
	if (r >= 0)
		r = node_events_new(event, api, node, on_events, report, &report->events);
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
	(void)node_events_free(report->events);
	sd_event_source_disable_unref(report->wait);
	json_decref(report->resources);
	json_decref(report->devices);
	json_decref(report->changes);
	free(report->failure);
	free(report);
	return NULL;
}
