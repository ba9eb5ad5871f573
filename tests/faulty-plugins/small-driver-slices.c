/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver does with an API server, which is the devplug-apiserver of DIR/apiserver: one
 * slice with all devices is compared with the stored one, and written again if it differs. Device
 * d0 has a taint while it has failed, d3 always has one without
 * an effect.
 */
#include "common/json-read.h"
#include "kubelet/control-client.h"
#include "small-driver.h"

#include <limits.h>

#define SLICE  "test-slice"
#define SLICES "/apis/resource.k8s.io/v1/resourceslices"

/* A kubelet may not list claims, a service account may. */
static const char *user_for(const char *path)
{
	return streq(path, DRIVER_ALL_CLAIMS) ? "system:serviceaccount:devplug:driver"
					      : "system:node:" DRIVER_POOL;
}

int driver_ask(const struct driver *driver, const char *method, const char *path, json_t *body,
	json_t **ret)
{
	json_auto_t *request = json_pack("{s:s, s:s, s:s, s:o*}", "method", method, "path", path,
		"user", user_for(path), "body", body);
	json_auto_t *reply = NULL;
	struct error error = {};
	char dir[PATH_MAX];

	(void)snprintf(dir, sizeof(dir), "%s/apiserver", driver->dir);
	if (access(dir, F_OK) < 0)
		return -ENOENT;
	if (client_exchange(dir, "devplug-apiserver", "DIR", request, &reply, &error) < 0)
		return -EIO;
	*ret = json_incref(json_object_get(reply, "body"));
	return (int)json_integer_value(json_object_get(reply, "code"));
}

static json_t *make_taint(const char *effect)
{
	return json_pack("[{s:s, s:s}]", "key", DRIVER_NAME "/state", "effect", effect);
}

static json_t *make_devices(const struct driver *driver)
{
	json_t *devices = json_array();

	for (unsigned i = 0; i < DRIVER_DEVICES; i++) {
		bool last = i == DRIVER_DEVICES - 1;
		bool fails = driver->fault == DRIVER_FAULT_TAINTS_LAST ? last : i == 0;
		json_t *device = json_object();
		char name[16];

		(void)snprintf(name, sizeof(name), "d%u", i);
		(void)json_object_set_new(device, "name", json_string(name));
		if (fails && driver->failed)
			(void)json_object_set_new(device, "taints", make_taint("NoSchedule"));
		else if (last && driver->fault != DRIVER_FAULT_PLAIN_SLICES)
			(void)json_object_set_new(device, "taints", make_taint("None"));
		if (i == 0 && driver->fault == DRIVER_FAULT_INVALID_POOL)
			(void)json_object_set_new(device, "consumesCounters",
				json_pack("[{s:s, s:{s:{s:s}}}]", "counterSet", "card", "counters",
					"slots", "value", "1"));
		(void)json_array_insert_new(devices,
			driver->fault == DRIVER_FAULT_REVERSES && driver->is_restarted
				? MIN_OF(i, 1U)
				: i,
			device);
	}
	return devices;
}

/* Compares without the time of taints: wrong for a server that drops fields. */
static bool is_equal(const json_t *stored, const json_t *wanted)
{
	json_auto_t *copy = json_deep_copy(stored);
	json_t *device, *taint;
	size_t i, k;

	json_array_foreach(copy, i, device)
	{
		json_array_foreach(json_object_get(device, "taints"), k, taint)
		{
			(void)json_object_del(taint, "timeAdded");
		}
	}
	return json_equal(copy, wanted);
}

/* The server's form of what was sent last is the wanted one. */
static bool is_same(const struct driver *driver, const json_t *stored, const json_t *devices)
{
	const json_t *found = json_object_get(json_object_get(stored, "spec"), "devices");

	if (driver->fault == DRIVER_FAULT_WRITES_DROPPED)
		return is_equal(found, devices);
	return json_equal(devices, driver->sent) && json_equal(found, driver->answered);
}

/* The times of equal taints stay. */
static void keep_times(const json_t *stored, json_t *devices)
{
	const json_t *found = json_object_get(json_object_get(stored, "spec"), "devices"), *old;
	json_t *device;
	size_t i, k;

	json_array_foreach(devices, i, device)
	{
		json_array_foreach(found, k, old)
		{
			const json_t *taint = json_array_get(json_object_get(old, "taints"), 0);
			json_t *own = json_array_get(json_object_get(device, "taints"), 0);

			if (taint && own && streq(text_of(old, "name"), text_of(device, "name")) &&
				streq(text_of(taint, "effect"), text_of(own, "effect")))
				(void)json_object_set(
					own, "timeAdded", json_object_get(taint, "timeAdded"));
		}
	}
}

static json_t *make_slice(struct driver *driver, json_t *devices)
{
	json_auto_t *node = NULL;
	json_t *slice;

	slice = json_pack("{s:{s:s}, s:{s:s, s:s, s:{s:s, s:i, s:i}, s:O}}", "metadata", "name",
		SLICE, "spec", "driver", DRIVER_NAME, "nodeName", DRIVER_POOL, "pool", "name",
		DRIVER_POOL, "generation", 1, "resourceSliceCount",
		driver->fault == DRIVER_FAULT_HALF_POOL ? 2 : 1, "devices", devices);
	(void)driver_ask(driver, "GET", "/api/v1/nodes/" DRIVER_POOL, NULL, &node);
	if (driver->fault != DRIVER_FAULT_NO_OWNER)
		(void)json_object_set_new(json_object_get(slice, "metadata"), "ownerReferences",
			json_pack("[{s:s, s:s, s:s, s:s}]", "apiVersion", "v1", "kind", "Node",
				"name", DRIVER_POOL, "uid",
				text_of(json_object_get(node, "metadata"), "uid")));
	return slice;
}

static void write_slice(struct driver *driver, const json_t *stored, json_t *devices)
{
	json_auto_t *body = NULL, *sent = json_deep_copy(devices);
	json_t *slice;
	int code;

	if (stored && driver->fault != DRIVER_FAULT_NEW_TIMES)
		keep_times(stored, devices);
	slice = make_slice(driver, devices);
	code = driver_ask(
		driver, stored ? "PUT" : "POST", stored ? SLICES "/" SLICE : SLICES, slice, &body);
	if (code != 200 && code != 201)
		return;
	driver->published = true;
	json_decref(driver->sent);
	json_decref(driver->answered);
	driver->sent = json_incref(sent);
	driver->answered = json_incref(json_object_get(json_object_get(body, "spec"), "devices"));
}

void driver_publish_slices(struct driver *driver)
{
	json_auto_t *stored = NULL, *devices = NULL;
	const json_t *found;
	bool same;
	int code;

	if (driver->gave_up || (driver->published && driver->fault == DRIVER_FAULT_PUBLISHES_ONCE))
		return;
	code = driver_ask(driver, "GET",
		SLICES "?fieldSelector=spec.nodeName%3D" DRIVER_POOL ",spec.driver%3D" DRIVER_NAME,
		NULL, &stored);
	driver->gave_up = driver->fault == DRIVER_FAULT_GIVES_UP && code >= 400;
	if (code != 200)
		return;
	devices = make_devices(driver);
	found = json_array_get(json_object_get(stored, "items"), 0);
	same = found &&
		(driver->fault == DRIVER_FAULT_KEEPS_CHANGES || is_same(driver, found, devices));
	if (!same || driver->fault == DRIVER_FAULT_WRITES_ALWAYS)
		write_slice(driver, found, devices);
}
