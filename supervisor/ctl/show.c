/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables first, troubles after them, each with its reason: the answer to "what is wrong" must not
 * need a second command.
 */
#include "ctl/show.h"
#include "ctl/table.h"

static const json_t *resources_of(const struct snapshot *snapshot)
{
	return json_object_get(snapshot->root, "resources");
}

static enum colour colour_of_state(const char *state)
{
	return streq(state, "serving")                              ? COLOUR_GOOD
		: streq(state, "failed") || streq(state, "backoff") ? COLOUR_BAD
								    : COLOUR_BETWEEN;
}

static bool is_healthy(const json_t *device)
{
	return streq(snapshot_string(device, "health"), "Healthy");
}

/* By another resource, which is nobody's trouble. */
static bool is_claimed(const json_t *device)
{
	return streq(snapshot_string(device, "health"), "Claimed");
}

static void add_heading(struct table *table, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		table_add(table, COLOUR_NONE, "%s", words[i]);
}

static void add_resource(struct table *table, const json_t *resource)
{
	static const char *const numbers[] = { "devices_total", "devices_healthy", "pid", "session",
		"restarts", "allocations" };
	const char *state = snapshot_string(resource, "state");

	table_add(table, COLOUR_NONE, "%s", snapshot_string(resource, "name"));
	table_add(table, colour_of_state(state), "%s", state);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		long long number = snapshot_integer(resource, numbers[i]);

		if (number == 0 && (streq(numbers[i], "pid") || streq(numbers[i], "session")))
			table_add(table, COLOUR_NONE, "-");
		else
			table_add(table, COLOUR_NONE, "%lld", number);
	}
}

/* Prints what is wrong with one resource; `*gap` separates the first from the table. */
static void print_troubles(const json_t *resource, const char **gap)
{
	const char *name = snapshot_string(resource, "name");
	const char *reason = snapshot_string(resource, "reason");
	const json_t *devices = json_object_get(resource, "devices");
	const json_t *notes = json_object_get(resource, "scan_notes");

	if (*reason) {
		(void)printf("%s%s (%s since %s): %s\n", *gap, name,
			snapshot_string(resource, "state"), snapshot_string(resource, "since"),
			reason);
		*gap = "";
	}
	for (size_t i = 0; i < json_array_size(notes); i++) {
		(void)printf("%s%s: %s\n", *gap, name, json_string_value(json_array_get(notes, i)));
		*gap = "";
	}
	for (size_t i = 0; i < json_array_size(devices); i++) {
		const json_t *device = json_array_get(devices, i);

		if (is_healthy(device) || is_claimed(device))
			continue;
		(void)printf("%s%s, device %s (unhealthy since %s): %s\n", *gap, name,
			snapshot_string(device, "id"), snapshot_string(device, "since"),
			snapshot_string(device, "reason"));
		*gap = "";
	}
}

int show_status(const struct snapshot *snapshot)
{
	static const char *const heading[] = { "RESOURCE", "STATE", "DEVICES", "HEALTHY", "PID",
		"SESSION", "RESTARTS", "ALLOCATIONS" };
	_cleanup_(table_freep) struct table *table = NULL;
	const json_t *resources = resources_of(snapshot);
	const char *gap = "\n";
	int r;

	r = table_new(ARRAY_SIZE(heading), &table);
	if (r < 0)
		return r;
	add_heading(table, heading, ARRAY_SIZE(heading));
	for (size_t i = 0; i < json_array_size(resources); i++)
		add_resource(table, json_array_get(resources, i));
	r = table_print(table);
	if (r < 0)
		return r;
	for (size_t i = 0; i < json_array_size(resources); i++)
		print_troubles(json_array_get(resources, i), &gap);
	if (json_is_true(json_object_get(snapshot->root, "on_last_accepted")))
		(void)printf(
			"\n%s is not valid; devplugd runs on the last accepted configuration. See "
			"\"devplugd --check\", correct it and run \"devplugctl reload\".\n",
			snapshot_string(snapshot->root, "config_file"));
	else if (json_is_true(json_object_get(snapshot->root, "reload_failed")))
		(void)printf("\nThe last reload failed; generation %lld is in force. See the log, "
			     "or \"devplugd --check\".\n",
			(long long)snapshot_integer(snapshot->root, "generation"));
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
	char numa[64];

	join_numa(device, numa, sizeof(numa));
	table_add(table, COLOUR_NONE, "%s", snapshot_string(resource, "name"));
	table_add(table, COLOUR_NONE, "%s", snapshot_string(device, "id"));
	table_add(table,
		is_healthy(device)           ? COLOUR_GOOD
			: is_claimed(device) ? COLOUR_NONE
					     : COLOUR_BAD,
		"%s", snapshot_string(device, "health"));
	table_add(table, COLOUR_NONE, "%s", numa);
	table_add(table, COLOUR_NONE, "%lld", (long long)snapshot_integer(device, "allocations"));
	table_add(table, COLOUR_NONE, "%s", snapshot_string(device, "since"));
	table_add(table, COLOUR_NONE, "%s", snapshot_string(device, "reason"));
}

int show_devices(const struct snapshot *snapshot)
{
	static const char *const heading[] = { "RESOURCE", "DEVICE", "HEALTH", "NUMA",
		"ALLOCATIONS", "SINCE", "REASON" };
	_cleanup_(table_freep) struct table *table = NULL;
	const json_t *resources = resources_of(snapshot);
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
