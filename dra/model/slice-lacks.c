/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether an API server lacks a field of ResourceSlices, from its answer to a write. One
 * table has every such field: a new field of slices needs a row here, and the place that publishes
 * it asks for the row's bit.
 */
#include "dra/model/slice-lacks.h"

#include "common/json-read.h"

static const struct {
	const char *fields[2]; /* keys joined by ".", with "[]" for each element and for each key of
				* a map; its members belong to it; none: any other */
	const char
		*refused_at; /* where the server refuses such a slice; NULL: it drops the field */
	const char *text;
} lacks[_LACK_MAX] = {
	[LACK_TAINTS] = { { "spec.devices[].taints" }, NULL,
		"device taints (feature gate DRADeviceTaints): unhealthy devices are left out of "
		"the ResourceSlices" },
	[LACK_COUNTERS] = { { "spec.devices[].consumesCounters" }, NULL,
		"counters (feature gate DRAPartitionableDevices): of devices that share hardware "
		"(overlap = \"exclusive\"), only those of the first resource are in the "
		"ResourceSlices" },
	[LACK_NOTICES] = { { "spec.devices[].taints[].effect" }, "spec.devices[].taints[].effect",
		"the effect None of device taints: probes of severity \"notice\" do not show in "
		"the ResourceSlices" },
	[LACK_AMOUNTS] = { { "spec.devices[].allowMultipleAllocations",
				   "spec.devices[].capacity[].requestPolicy" },
		NULL,
		"devices that are shared by amount (feature gate DRAConsumableCapacity): each is "
		"published as devices of the default amount, or as one device" },
	[LACK_LISTS] = { { "spec.devices[].attributes[].ints" }, "spec.devices[].attributes[]",
		"attributes with several values (feature gate DRAListTypeAttributes): the NUMA node "
		"is published as one number" },
	[LACK_SHARED_COUNTERS] = { { NULL }, NULL,
		"counters of devices that are shared by amount (Kubernetes 1.37): of the devices "
		"that share hardware with them (overlap = \"exclusive\"), only those of the first "
		"resource are in the ResourceSlices" },
	[LACK_MANY_TAINTS] = { { NULL }, NULL,
		"more than 4 taints of a device (Kubernetes 1.35): the most important ones are in "
		"the ResourceSlices" },
	[LACK_OTHER] = { { NULL }, NULL,
		"a field that devplugd publishes: the log has its name; devices are published "
		"without it" },
};

const char *slice_lack_text(enum slice_lack lack)
{
	return lacks[lack].text;
}

static bool is_field(const char *path, const char *field)
{
	const char *rest = field ? startswith(path, field) : NULL;

	return rest && (*rest == '\0' || *rest == '.' || *rest == '[');
}

static enum slice_lack find_lack(const char *path, bool refused)
{
	for (size_t i = 0; i < _LACK_MAX; i++)
		for (size_t k = 0; k < ARRAY_SIZE(lacks[i].fields); k++)
			if (!lacks[i].refused_at == !refused && is_field(path, lacks[i].fields[k]))
				return (enum slice_lack)i;
	return LACK_OTHER;
}

/* --- dropped fields --- */

struct comparison {
	char path[SLICE_FIELD_MAX];
	size_t length;
	unsigned found;
	char *other;  /* NULL: fields are only found, not compared */
	bool refused; /* which fields are found: those that a server refuses, or drops */
};

static void compare(struct comparison *comparison, const json_t *sent, const json_t *stored);

static void add_dropped(struct comparison *comparison)
{
	enum slice_lack lack = find_lack(comparison->path, false);

	if (lack == LACK_OTHER && !(comparison->found & 1U << LACK_OTHER))
		(void)snprintf(comparison->other, SLICE_FIELD_MAX, "%s", comparison->path);
	comparison->found |= 1U << lack;
}

/* Compares a member or an element; `key` as in the path. */
static void compare_part(struct comparison *comparison, const char *separator, const char *key,
	const json_t *sent, const json_t *stored)
{
	size_t length = comparison->length, room = sizeof(comparison->path) - length;
	int n = snprintf(comparison->path + length, room, "%s%s", separator, key);

	comparison->length += MIN_OF((size_t)n, room - 1);
	compare(comparison, sent, stored);
	comparison->length = length;
	comparison->path[length] = '\0';
}

/* Servers leave out members with the value that their absence means. */
static bool is_empty(const json_t *value)
{
	return json_is_null(value) || json_is_false(value) ||
		(json_is_string(value) && *json_string_value(value) == '\0') ||
		(json_is_integer(value) && json_integer_value(value) == 0) ||
		(json_is_array(value) && json_array_size(value) == 0) ||
		(json_is_object(value) && json_object_size(value) == 0);
}

/* The element with the name of another one, for lists of named objects; others are compared by
 * their place. */
static const json_t *find_element(const json_t *stored, const json_t *sent, size_t place)
{
	const char *name = text_of(sent, "name");
	const json_t *element;
	size_t i;

	if (!*name)
		return json_array_get(stored, place);
	json_array_foreach(stored, i, element)
	{
		if (streq(text_of(element, "name"), name))
			return element;
	}
	return NULL;
}

/* The keys of these objects are names that a user or a driver chooses. */
static bool is_map(const struct comparison *comparison)
{
	static const char *const maps[] = { ".attributes", ".capacity", ".counters" };

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		size_t length = strlen(maps[i]);

		if (comparison->length >= length &&
			streq(comparison->path + comparison->length - length, maps[i]))
			return true;
	}
	return false;
}

static void compare(struct comparison *comparison, const json_t *sent, const json_t *stored)
{
	json_t *part;
	const char *key;
	size_t i;

	if (is_empty(sent))
		return;
	if (!comparison->other)
		comparison->found |= 1U << find_lack(comparison->path, comparison->refused);
	else if (!stored || json_is_null(stored) ||
		(json_is_object(sent) && !json_is_object(stored)) ||
		(json_is_array(sent) && !json_is_array(stored))) {
		add_dropped(comparison);
		return;
	}
	json_object_foreach((json_t *)(uintptr_t)sent, key, part)
	{
		bool map = is_map(comparison);

		compare_part(comparison, map ? "[" : ".", map ? "]" : key, part,
			json_object_get(stored, key));
	}
	json_array_foreach(sent, i, part)
	{
		compare_part(comparison, "[", "]", part, find_element(stored, part, i));
	}
}

unsigned slice_lacks_dropped(
	const json_t *sent, const json_t *stored, char ret_other[static SLICE_FIELD_MAX])
{
	struct comparison comparison = { .path = "spec", .length = strlen("spec") };

	ret_other[0] = '\0';
	comparison.other = ret_other;
	compare(&comparison, json_object_get(sent, "spec"), json_object_get(stored, "spec"));
	return comparison.found;
}

static unsigned find_used(const json_t *slice, bool refused)
{
	struct comparison comparison = {
		.path = "spec",
		.length = strlen("spec"),
		.refused = refused,
	};

	compare(&comparison, json_object_get(slice, "spec"), NULL);
	return comparison.found & ~(1U << LACK_OTHER);
}

unsigned slice_lacks_used(const json_t *slice)
{
	return find_used(slice, false);
}

/* --- refused values --- */

/* "spec.devices[12].taints[0].effect" without its numbers. */
static void normalize(const char *field, char ret[static SLICE_FIELD_MAX])
{
	size_t length = 0;

	for (; *field && length < SLICE_FIELD_MAX - 1; field++) {
		ret[length++] = *field;
		if (*field == '[')
			field += strcspn(field, "]") - 1;
	}
	ret[length] = '\0';
}

unsigned slice_lacks_refused(const json_t *slice, const json_t *status)
{
	const json_t *causes = json_object_get(json_object_get(status, "details"), "causes"),
		     *cause;
	char path[SLICE_FIELD_MAX];
	unsigned found = 0;
	size_t i;

	json_array_foreach(causes, i, cause)
	{
		normalize(text_of(cause, "field"), path);
		for (size_t k = 0; k < _LACK_MAX; k++)
			if (lacks[k].refused_at && is_field(path, lacks[k].refused_at))
				found |= 1U << k;
	}
	return found & find_used(slice, true);
}
