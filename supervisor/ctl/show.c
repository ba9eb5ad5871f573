/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the state for people ("devplugctl status" and others): first tables, then problems with
 * their reasons, so that a diagnosis needs no second command.
 */
#include "supervisor/ctl/show.h"
#include "configuration/config.h"
#include "supervisor/ctl/evictions.h"
#include "supervisor/ctl/notices.h"
#include "supervisor/ctl/show-usage.h"
#include "supervisor/ctl/table.h"
#include "supervisor/ctl/wrap.h"

/* The indent of a reason's continuation lines. */
#define INDENT 4
/* How many devices or resources that share a reason are named. */
#define NAMES_SHOWN 3

static const json_t *resources_of(const struct daemon_state *daemon)
{
	return json_object_get(daemon->root, "resources");
}

enum colour colour_of_state(const char *state)
{
	return streq(state, "serving")                              ? COLOUR_GOOD
		: streq(state, "failed") || streq(state, "backoff") ? COLOUR_BAD
								    : COLOUR_BETWEEN;
}

enum colour colour_of_health(const char *health)
{
	return streq(health, "Healthy")    ? COLOUR_GOOD
		: streq(health, "Claimed") ? COLOUR_NONE
					   : COLOUR_BAD;
}

static bool is_healthy(const json_t *device)
{
	return streq(text_of(device, "health"), "Healthy");
}

/* The device is claimed by another resource, which is not a problem. */
static bool is_claimed(const json_t *device)
{
	return streq(text_of(device, "health"), "Claimed");
}

static void add_heading(struct table *table, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		table_add(table, COLOUR_NONE, "%s", words[i]);
}

static void add_resource(struct table *table, const json_t *resource)
{
	static const char *const numbers[] = { "offered", "healthy", "in_use", "free", "pid",
		"session", "restarts" };
	const char *state = text_of(resource, "state");

	table_add(table, COLOUR_NONE, "%s", text_of(resource, "name"));
	table_add(table, colour_of_state(state), "%s", state);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		long long number = integer_of(resource, numbers[i]);

		if (json_is_null(json_object_get(resource, numbers[i])) ||
			(number == 0 && (streq(numbers[i], "pid") || streq(numbers[i], "session"))))
			table_add(table, COLOUR_NONE, "-");
		else
			table_add(table, COLOUR_NONE, "%lld", number);
	}
}

/* A failure that is older than the last success of its kind is only shown by "explain". The last
 * success is known for registrations only. */
static bool is_over(const json_t *resource, const json_t *failure)
{
	return streq(text_of(failure, "call"), "registration") &&
		json_is_true(json_object_get(resource, "registered"));
}

static void print_failures(const json_t *resource, const char **gap)
{
	const json_t *failures = json_object_get(resource, "failures"), *failure;
	size_t i;

	json_array_foreach(failures, i, failure)
	{
		if (is_over(resource, failure))
			continue;
		(void)fputs(*gap, stdout);
		print_wrapped(INDENT, "%s, last failed %s (%s, %lld in all): %s",
			text_of(resource, "name"), text_of(failure, "call"),
			text_of(failure, "last"), (long long)integer_of(failure, "count"),
			text_of(failure, "text"));
		*gap = "";
	}
}

/* Adds to `groups`, which has the names that share a text, and since when the earliest of them has
 * it: {TEXT: {"names": [NAME], "since": TIME}}. */
static void add_to_group(json_t *groups, const char *text, const char *name, const char *since)
{
	json_t *group = json_object_get(groups, text);

	if (!group) {
		group = json_pack("{s:[], s:s}", "names", "since", since);
		(void)json_object_set_new(groups, text, group);
	}
	if (strcmp(since, text_of(group, "since")) < 0)
		(void)json_object_set_new(group, "since", json_string(since));
	(void)json_array_append_new(json_object_get(group, "names"), json_string(name));
}

/* "gpu-0, gpu-1, gpu-2 and 5 more" (malloc'ed) */
static char *join_names(const json_t *group)
{
	const json_t *names = json_object_get(group, "names");
	size_t n = json_array_size(names), size;
	char *text = NULL;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return NULL;
	for (size_t i = 0; i < n && i < NAMES_SHOWN; i++)
		(void)fprintf(stream, "%s%s", i > 0 ? ", " : "",
			json_string_value(json_array_get(names, i)));
	if (n > NAMES_SHOWN)
		(void)fprintf(stream, " and %zu more", n - NAMES_SHOWN);
	(void)fclose(stream);
	return text;
}

/* Prints the reasons of problems with resources; a kubelet that does not run is a reason for
 * all. */
static void print_reasons(const json_t *resources, const char **gap)
{
	json_auto_t *groups = json_object();
	const char *text;
	json_t *group;

	for (size_t i = 0; i < json_array_size(resources); i++) {
		const json_t *resource = json_array_get(resources, i);
		const char *reason = text_of(resource, "reason");
		_cleanup_free_ char *key = NULL;

		if (!*reason)
			continue;
		(void)format_text(&key, "%s\n%s", text_of(resource, "state"), reason);
		if (key)
			add_to_group(
				groups, key, text_of(resource, "name"), text_of(resource, "since"));
	}
	json_object_foreach(groups, text, group)
	{
		_cleanup_free_ char *names = join_names(group);
		const char *reason = strchr(text, '\n') + 1;

		(void)fputs(*gap, stdout);
		print_wrapped(INDENT, "%s (%.*s since %s): %s", names ?: "",
			(int)(reason - 1 - text), text, text_of(group, "since"), reason);
		*gap = "";
	}
}

static void print_unhealthy(const json_t *resource, const char **gap)
{
	const json_t *devices = json_object_get(resource, "devices");
	json_auto_t *groups = json_object();
	const char *reason;
	json_t *group;

	for (size_t i = 0; i < json_array_size(devices); i++) {
		const json_t *device = json_array_get(devices, i);

		if (!is_healthy(device) && !is_claimed(device))
			add_to_group(groups, text_of(device, "reason"), text_of(device, "id"),
				text_of(device, "since"));
	}
	json_object_foreach(groups, reason, group)
	{
		_cleanup_free_ char *names = join_names(group);
		bool many = json_array_size(json_object_get(group, "names")) > 1;

		(void)fputs(*gap, stdout);
		print_wrapped(INDENT, "%s, device%s %s (unhealthy since %s): %s",
			text_of(resource, "name"), many ? "s" : "", names ?: "",
			text_of(group, "since"), reason);
		*gap = "";
	}
}

/* The keys of the groups are "notice REASON\nTEXT". */
static void group_notices(const json_t *device, json_t *groups)
{
	for (size_t i = 0; i < json_array_size(json_object_get(device, "findings")); i++) {
		const json_t *notice = notices_get(device, i);
		_cleanup_free_ char *name = notice ? notices_name(notice) : NULL, *key = NULL;

		if (name && format_text(&key, "%s\n%s", name, text_of(notice, "text")) >= 0)
			add_to_group(groups, key, text_of(device, "id"), "");
	}
}

static void print_notices(const json_t *resource, const char **gap)
{
	const json_t *devices = json_object_get(resource, "devices"), *device;
	json_auto_t *groups = json_object();
	const char *text;
	json_t *group;
	size_t i;

	json_array_foreach(devices, i, device)
	{
		if (!is_claimed(device))
			group_notices(device, groups);
	}
	json_object_foreach(groups, text, group)
	{
		_cleanup_free_ char *names = join_names(group);
		bool many = json_array_size(json_object_get(group, "names")) > 1;

		(void)fputs(*gap, stdout);
		print_wrapped(INDENT, "%s, device%s %s (%.*s): %s", text_of(resource, "name"),
			many ? "s" : "", names ?: "", (int)strcspn(text, "\n"), text,
			strchr(text, '\n') + 1);
		*gap = "";
	}
}

/* What lacks of the number of devices that the resource should have. */
static void print_expected(const json_t *resource, const char **gap)
{
	const char *reason = text_of(json_object_get(resource, "expect"), "reason");

	if (!*reason)
		return;
	(void)fputs(*gap, stdout);
	print_wrapped(INDENT, "%s: %s", text_of(resource, "name"), reason);
	*gap = "";
}

static void print_labels_failure(const json_t *resource, const char **gap)
{
	const char *failure = text_of(resource, "labels_failure");

	if (!*failure)
		return;
	(void)fputs(*gap, stdout);
	print_wrapped(INDENT, "%s: the labels of the node cannot be written: %s",
		text_of(resource, "name"), failure);
	*gap = "";
}

/* Prints the problems of one resource; `*gap` separates the first one from the table. */
static void print_troubles(const json_t *resource, const char **gap)
{
	const char *name = text_of(resource, "name");
	const json_t *devices = json_object_get(resource, "devices");
	const json_t *notes = json_object_get(resource, "scan_notes");

	print_expected(resource, gap);
	print_labels_failure(resource, gap);
	print_failures(resource, gap);
	for (size_t i = 0; i < json_array_size(notes); i++) {
		(void)fputs(*gap, stdout);
		print_wrapped(INDENT, "%s: %s", name, json_string_value(json_array_get(notes, i)));
		*gap = "";
	}
	for (size_t i = 0; i < json_array_size(devices); i++) {
		const json_t *device = json_array_get(devices, i);
		_cleanup_free_ char *conflict = usage_find_conflict(device);

		if (conflict) {
			(void)fputs(*gap, stdout);
			print_wrapped(INDENT,
				"%s, device %s: assigned to two pods, %s, by an error of the kubelet; recreate one of them",
				name, text_of(device, "id"), conflict);
			*gap = "";
		}
	}
	print_unhealthy(resource, gap);
	print_notices(resource, gap);
	evictions_print(resource, gap);
}

/* Where the name of the node is from. */
static const char *node_source(const json_t *dra)
{
	const char *source = text_of(dra, "node_source");

	return streq(source, "certificate") ? "the client certificate"
		: streq(source, "host")     ? "the host's name"
					    : source;
}

/* `answer`: of the daemon, about what asks the API server. */
static void show_identity(const json_t *answer)
{
	if (*text_of(answer, "identity"))
		(void)printf("  identity: %s (%s); the node's name is from %s\n",
			text_of(answer, "credentials"), text_of(answer, "identity"),
			node_source(answer));
}

/* `first`: the identity, which all drivers have in common, is shown, too. */
static void show_driver(const json_t *dra, const json_t *driver, bool first, const char *gap)
{
	const char *registration = text_of(driver, "registration_failure");
	const char *api = text_of(driver, "api_failure");
	long long slices = integer_of(driver, "slices"), claims = integer_of(driver, "claims");
	const json_t *lacks = json_object_get(driver, "lacks");

	(void)printf(
		"%sDRA driver %s on node %s: %s, %lld ResourceSlice%s of generation %lld, %lld "
		"claim%s prepared.\n",
		gap, text_of(driver, "driver"), text_of(dra, "node"),
		json_is_true(json_object_get(driver, "registered")) ? "registered"
								    : "not registered",
		slices, slices == 1 ? "" : "s", (long long)integer_of(driver, "generation"), claims,
		claims == 1 ? "" : "s");
	if (first)
		show_identity(dra);
	if (*registration)
		(void)printf("  registration: %s\n", registration);
	if (*api)
		(void)printf("  api: %s\n", api);
	for (size_t i = 0; i < json_array_size(lacks); i++)
		print_wrapped(INDENT, "  the API server lacks %s",
			json_string_value(json_array_get(lacks, i)));
}

void show_dra(const struct daemon_state *daemon, const char *name, const char *gap)
{
	const json_t *dra = json_object_get(daemon->root, "dra"), *driver;
	bool first = true;
	size_t i;

	json_array_foreach(json_object_get(dra, "drivers"), i, driver)
	{
		if (name && !streq(text_of(driver, "driver"), name))
			continue;
		show_driver(dra, driver, first, first ? gap : "");
		first = false;
	}
}

/* The identity is shown with the driver, if there is one. */
static void show_cluster(const struct daemon_state *daemon)
{
	const json_t *cluster = json_object_get(daemon->root, "cluster");
	const char *failure = text_of(cluster, "report_failure");

	if (!cluster)
		return;
	(void)printf("\n%s node %s.\n",
		!json_is_true(json_object_get(cluster, "report")) ? "Labels are written to"
			: json_is_true(json_object_get(cluster, "labels"))
			? "Problems and labels are written to"
			: "Problems are reported on",
		text_of(cluster, "node"));
	if (!json_object_get(daemon->root, "dra"))
		show_identity(cluster);
	if (*failure)
		(void)printf("  api: %s\n", failure);
}

/* Only matters if a kubelet runs. */
static void show_pods_failure(const struct daemon_state *daemon)
{
	const char *failure = text_of(daemon->root, "pods_failure");
	const json_t *resources = resources_of(daemon), *resource;
	bool served = false;
	size_t i;

	json_array_foreach(resources, i, resource) served |=
		streq(text_of(resource, "state"), "serving");
	if (!served || !*failure)
		return;
	(void)puts("");
	(void)printf("IN USE and FREE are not known, because the kubelet does not report which pod "
		     "uses which device: %s\n",
		failure);
}

static void show_metrics_failure(const struct daemon_state *daemon)
{
	const char *failure = text_of(daemon->root, "metrics_failure");

	if (*failure)
		(void)printf("\nMetrics: %s\n", failure);
}

static void print_reload_failure(const json_t *root)
{
	const char *file = text_of(root, "config_file");
	bool other = !streq(file, DEFAULT_CONFIG_FILE);
	const char *option = other ? " -c " : "", *path = other ? file : "";

	if (json_is_true(json_object_get(root, "on_last_accepted")))
		(void)printf("\n%s is not valid; devplugd runs on the last accepted configuration. "
			     "See \"devplugd%s%s --check\", correct it and run "
			     "\"devplugctl%s%s reload\".\n",
			file, option, path, option, path);
	else if (json_is_true(json_object_get(root, "reload_failed")))
		(void)printf(
			"\nThe last reload failed; generation %lld stays applied. See the log, "
			"or \"devplugd%s%s --check\".\n",
			(long long)integer_of(root, "generation"), option, path);
}

int show_status(const struct daemon_state *daemon, const struct command_line *line)
{
	static const char *const heading[] = { "RESOURCE", "STATE", "OFFERED", "HEALTHY", "IN USE",
		"FREE", "PID", "SESSION", "RESTARTS" };
	_cleanup_(table_freep) struct table *table = NULL;
	const json_t *resources = resources_of(daemon);
	const char *gap = "\n";
	int r;

	r = table_new(ARRAY_SIZE(heading), &table);
	if (r < 0)
		return r;
	add_heading(table, heading, ARRAY_SIZE(heading));
	for (size_t i = 0; i < json_array_size(resources); i++)
		add_resource(table, json_array_get(resources, i));
	if (json_array_size(resources) > 0)
		r = table_print(table);
	else
		(void)puts("no resources are configured; \"devplugctl discover\" prints those "
			   "that find devices on this host");
	if (r < 0)
		return r;
	print_reasons(resources, &gap);
	for (size_t i = 0; i < json_array_size(resources); i++)
		print_troubles(json_array_get(resources, i), &gap);
	show_pods_failure(daemon);
	show_metrics_failure(daemon);
	show_dra(daemon, NULL, "\n");
	show_cluster(daemon);
	print_reload_failure(daemon->root);
	return 0;
}

static void join_numa(const json_t *device, char *ret, size_t size)
{
	const json_t *nodes = json_object_get(device, "numa");
	size_t length = 0;

	(void)snprintf(ret, size, "-");
	for (size_t i = 0; i < json_array_size(nodes) && length < size; i++)
		length += (size_t)snprintf(ret + length, size - length, "%s%lld", i > 0 ? "," : "",
			(long long)json_integer_value(json_array_get(nodes, i)));
}

static void add_device(struct table *table, const json_t *resource, const json_t *device)
{
	_cleanup_free_ char *holders = usage_describe(resource, device);
	_cleanup_free_ char *reason = notices_add(device);
	char numa[64];

	join_numa(device, numa, sizeof(numa));
	table_add(table, COLOUR_NONE, "%s", text_of(resource, "name"));
	table_add(table, COLOUR_NONE, "%s", text_of(device, "id"));
	table_add(table, colour_of_health(text_of(device, "health")), "%s",
		text_of(device, "health"));
	table_add(table, COLOUR_NONE, "%s", numa);
	table_add(table, COLOUR_NONE, "%s", holders ?: "");
	table_add(table, COLOUR_NONE, "%s", text_of(device, "since"));
	table_add(table, COLOUR_NONE, "%s", reason ?: "");
}

int show_devices(const struct daemon_state *daemon, const struct command_line *line)
{
	static const char *const heading[] = { "RESOURCE", "DEVICE", "HEALTH", "NUMA", "USED BY",
		"SINCE", "REASON" };
	_cleanup_(table_freep) struct table *table = NULL;
	const json_t *resources = resources_of(daemon);
	int r;

	r = table_new(ARRAY_SIZE(heading), &table);
	if (r < 0)
		return r;
	add_heading(table, heading, ARRAY_SIZE(heading));
	for (size_t i = 0; i < json_array_size(resources); i++) {
		const json_t *resource = json_array_get(resources, i);
		const json_t *devices = json_object_get(resource, "devices");

		for (size_t k = 0; k < json_array_size(devices); k++)
			add_device(table, resource, json_array_get(devices, k));
	}
	return table_print(table);
}
