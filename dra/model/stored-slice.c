/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members that decide are compared and written; all others stay as they are stored.
 */
#include "dra/model/stored-slice.h"

#include "common/json-read.h"

/* The server adds to taints the time when they were added. */
static json_t *comparable_devices(const json_t *devices)
{
	json_t *copy = json_deep_copy(devices), *device, *taint;
	size_t i, k;

	json_array_foreach(copy, i, device) json_array_foreach(json_object_get(device, "taints"), k,
		taint)(void) json_object_del(taint, "timeAdded");
	return copy;
}

bool stored_slice_is(const json_t *stored, const json_t *wanted)
{
	static const char *const members[] = { "driver", "nodeName", "pool" };
	const json_t *a = json_object_get(stored, "spec"), *b = json_object_get(wanted, "spec");
	json_auto_t *ours = comparable_devices(json_object_get(b, "devices"));
	json_auto_t *theirs = comparable_devices(json_object_get(a, "devices"));

	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (!json_equal(json_object_get(a, members[i]), json_object_get(b, members[i])))
			return false;
	/* An empty list may not be stored. */
	return json_array_size(theirs) == 0 ? json_array_size(ours) == 0 : json_equal(ours, theirs);
}

/* The device with the name of another one; NULL: there is none. */
static const json_t *find_device(const json_t *devices, const json_t *wanted)
{
	const json_t *device;
	size_t i;

	json_array_foreach(devices, i, device)
	{
		if (streq(text_of(device, "name"), text_of(wanted, "name")))
			return device;
	}
	return NULL;
}

static bool is_same_taint(const json_t *a, const json_t *b)
{
	static const char *const members[] = { "key", "value", "effect" };

	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (!streq(text_of(a, members[i]), text_of(b, members[i])))
			return false;
	return true;
}

static void keep_times(const json_t *stored, json_t *device)
{
	const json_t *old;
	json_t *taint;
	size_t i, k;

	json_array_foreach(json_object_get(device, "taints"), i, taint)
	{
		json_array_foreach(json_object_get(stored, "taints"), k, old)
		{
			if (is_same_taint(old, taint) && json_object_get(old, "timeAdded"))
				(void)json_object_set(
					taint, "timeAdded", json_object_get(old, "timeAdded"));
		}
	}
}

/* The wanted spec with the times of the stored one. */
static json_t *make_spec(const json_t *stored, const json_t *wanted)
{
	json_t *spec = json_deep_copy(json_object_get(wanted, "spec")), *device;
	const json_t *old = json_object_get(json_object_get(stored, "spec"), "devices");
	size_t i;

	json_array_foreach(json_object_get(spec, "devices"), i, device)
	{
		keep_times(find_device(old, device), device);
	}
	return spec;
}

json_t *stored_slice_update(const json_t *stored, const json_t *wanted)
{
	json_auto_t *object = json_deep_copy(stored), *spec = make_spec(stored, wanted);
	const json_t *owners =
		json_object_get(json_object_get(wanted, "metadata"), "ownerReferences");

	if (!object || !spec || json_object_update(json_object_get(object, "spec"), spec) < 0 ||
		(owners &&
			json_object_set(json_object_get(object, "metadata"), "ownerReferences",
				(json_t *)(uintptr_t)owners) < 0))
		return NULL;
	return json_incref(object);
}
