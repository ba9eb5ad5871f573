/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members that decide are compared and written; all others stay as they are stored.
 */
#include "dra/model/stored-slice.h"

#include "common/json-read.h"

/* Whether the members are the same, except that one. */
static bool is_same_without(const json_t *a, const json_t *b, const char *except)
{
	size_t n_a = json_object_size(a) - (json_object_get(a, except) != NULL);
	size_t n_b = json_object_size(b) - (json_object_get(b, except) != NULL);
	const char *key;
	json_t *value;

	if (n_a != n_b)
		return false;
	json_object_foreach((json_t *)(uintptr_t)a, key, value)
	{
		if (!streq(key, except) && !json_equal(value, json_object_get(b, key)))
			return false;
	}
	return true;
}

/* The server adds to taints the time when they were added. */
static bool has_same_taints(const json_t *a, const json_t *b)
{
	const json_t *taints = json_object_get(a, "taints"), *others = json_object_get(b, "taints");

	if (!taints != !others || json_array_size(taints) != json_array_size(others))
		return false;
	for (size_t i = 0; i < json_array_size(taints); i++)
		if (!is_same_without(
			    json_array_get(taints, i), json_array_get(others, i), "timeAdded"))
			return false;
	return true;
}

static bool has_same_devices(const json_t *a, const json_t *b)
{
	/* An empty list may not be stored. */
	if (json_array_size(a) != json_array_size(b))
		return false;
	for (size_t i = 0; a != b && i < json_array_size(a); i++)
		if (!is_same_without(json_array_get(a, i), json_array_get(b, i), "taints") ||
			!has_same_taints(json_array_get(a, i), json_array_get(b, i)))
			return false;
	return true;
}

bool stored_slice_is(const json_t *stored, const json_t *wanted)
{
	static const char *const members[] = { "driver", "nodeName", "pool" };
	const json_t *a = json_object_get(stored, "spec"), *b = json_object_get(wanted, "spec");

	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (!json_equal(json_object_get(a, members[i]), json_object_get(b, members[i])))
			return false;
	if (json_array_size(json_object_get(a, "sharedCounters")) +
				json_array_size(json_object_get(b, "sharedCounters")) >
			0 &&
		!json_equal(
			json_object_get(a, "sharedCounters"), json_object_get(b, "sharedCounters")))
		return false;
	return has_same_devices(json_object_get(a, "devices"), json_object_get(b, "devices"));
}

void stored_slice_share(json_t *stored, const json_t *wanted)
{
	json_t *devices = json_object_get(json_object_get(wanted, "spec"), "devices");

	if (json_array_size(devices) > 0)
		(void)json_object_set(json_object_get(stored, "spec"), "devices", devices);
}

static const char *name_of(const json_t *object)
{
	return text_of(json_object_get(object, "metadata"), "name");
}

int stored_slice_settle(json_t *settled, const json_t *sent, const json_t *stored)
{
	const char *name = name_of(stored);

	if (stored_slice_is(stored, sent)) {
		(void)json_object_del(settled, name);
		return 0;
	}
	return json_object_set_new(settled, name,
		       json_pack("{s:O, s:O}", "sent", sent, "stored",
			       json_object_get(stored, "spec"))) < 0
		? -ENOMEM
		: 0;
}

bool stored_slice_is_settled(const json_t *settled, const json_t *stored, const json_t *wanted)
{
	const json_t *pair = json_object_get(settled, name_of(stored));

	return pair && stored_slice_is(json_object_get(pair, "sent"), wanted) &&
		json_equal(json_object_get(pair, "stored"), json_object_get(stored, "spec"));
}

json_t *stored_slice_update(const json_t *stored, const json_t *wanted)
{
	json_auto_t *object = json_deep_copy(stored);
	json_auto_t *spec = json_deep_copy(json_object_get(wanted, "spec"));
	const json_t *owners =
		json_object_get(json_object_get(wanted, "metadata"), "ownerReferences");

	/* A slice has one of them. */
	(void)json_object_del(json_object_get(object, "spec"), "devices");
	(void)json_object_del(json_object_get(object, "spec"), "sharedCounters");
	if (!object || !spec || json_object_update(json_object_get(object, "spec"), spec) < 0 ||
		(owners &&
			json_object_set(json_object_get(object, "metadata"), "ownerReferences",
				(json_t *)(uintptr_t)owners) < 0))
		return NULL;
	return json_incref(object);
}

/* --- times of taints --- */

static bool is_same_taint(const json_t *a, const json_t *b)
{
	static const char *const members[] = { "key", "value", "effect" };

	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (!streq(text_of(a, members[i]), text_of(b, members[i])))
			return false;
	return true;
}

static json_t *devices_of(const json_t *slice)
{
	return json_object_get(json_object_get(slice, "spec"), "devices");
}

int taint_times_take(json_t *times, const json_t *stored)
{
	json_t *device;
	size_t i;
	int r = 0;

	json_array_foreach(devices_of(stored), i, device)
	{
		const char *name = text_of(device, "name");
		json_t *taints = json_object_get(device, "taints");

		if (taints)
			r |= json_object_set(times, name, taints);
		else
			(void)json_object_del(times, name);
	}
	return r < 0 ? -ENOMEM : 0;
}

void taint_times_set(const json_t *times, json_t *slice)
{
	json_t *device, *taint, *old;
	size_t i, k, n;

	json_array_foreach(devices_of(slice), i, device)
	{
		const json_t *known = json_object_get(times, text_of(device, "name"));

		json_array_foreach(json_object_get(device, "taints"), k, taint)
		{
			json_array_foreach(known, n, old)
			{
				if (is_same_taint(old, taint) && json_object_get(old, "timeAdded"))
					(void)json_object_set(taint, "timeAdded",
						json_object_get(old, "timeAdded"));
			}
		}
	}
}

void taint_times_forget(json_t *times, const json_t *names)
{
	json_t *taints;
	const char *name;
	void *next;

	json_object_foreach_safe(times, next, name, taints)
	{
		if (!json_object_get(names, name))
			(void)json_object_del(times, name);
	}
}
