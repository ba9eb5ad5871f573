/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which claims a pod keeps, when a claim is prepared for the first time, and when the last
 * pod has released it. The table survives a restart of the program in a file.
 */
#include "kubelet/claim-table.h"

#include <limits.h>

#include "common/json-read.h"
#include "kubelet/claim-checkpoint.h"
#include "kubelet/file.h"
#include "kubelet/plugin-text.h"

#define CLAIM_FILE_MAX (16U << 20)

/* --- claims of a pod --- */

static int add_driver(json_t *drivers, const char *name)
{
	const json_t *driver;
	size_t i;

	json_array_foreach(drivers, i, driver)
	{
		if (streq(json_string_value(driver), name))
			return 0;
	}
	return json_array_append_new(drivers, json_string(name));
}

static int read_claim(
	const struct pod *pod, const json_t *object, json_t **ret, struct error *error)
{
	const json_t *metadata = json_object_get(object, "metadata");
	const json_t *allocation = json_object_get(json_object_get(object, "status"), "allocation");
	const json_t *results = json_object_get(json_object_get(allocation, "devices"), "results");
	const char *name = set_text_of(metadata, "name"), *uid = set_text_of(metadata, "uid");
	const char *namespace = set_text_of(metadata, "namespace");
	const char *extended = set_text_of(json_object_get(metadata, "annotations"),
		"resource.kubernetes.io/extended-resource-claim");
	_cleanup_json_ json_t *drivers = json_array();
	const json_t *result;
	size_t i;

	if (!name || !uid || !namespace)
		return error_set(error, -EBADMSG, "a claim must be a ResourceClaim as JSON");
	if (!streq(namespace, pod->namespace))
		return error_set(
			error, -EINVAL, "the claim %s is in the namespace %s", name, namespace);
	if (!allocation)
		return error_set(error, -ENODATA, "ResourceClaim %s is not allocated", name);
	json_array_foreach(results, i, result)
	{
		const char *driver = set_text_of(result, "driver");

		if (!driver || add_driver(drivers, driver) < 0)
			return error_set(
				error, -EBADMSG, "a result of the claim %s names no driver", name);
	}
	*ret = json_pack("{s:s, s:s, s:O, s:b}", "name", name, "uid", uid, "drivers", drivers,
		"extended", extended && streq(extended, "true"));
	return *ret ? 0 : error_set(error, -ENOMEM, "out of memory");
}

int pod_read_claims(struct pod *pod, const json_t *objects, struct error *error)
{
	_cleanup_json_ json_t *claims = json_array();
	const json_t *object;
	size_t i;

	json_array_foreach(objects, i, object)
	{
		json_t *claim;
		int r = read_claim(pod, object, &claim, error);

		if (r >= 0 && json_array_append_new(claims, claim) < 0)
			r = error_set(error, -ENOMEM, "out of memory");
		if (r < 0)
			return r;
	}
	pod->claims = json_incref(claims);
	return 0;
}

/* --- the table --- */

json_t *claim_table_find(const json_t *table, const struct pod *pod, const json_t *claim)
{
	char key[600];

	(void)snprintf(key, sizeof(key), "%s/%s", pod->namespace, text_of(claim, "name"));
	return json_object_get(table, key);
}

static size_t find_pod(const json_t *entry, const struct pod *pod)
{
	const json_t *pods = json_object_get(entry, "pods");
	size_t i;

	for (i = 0; i < json_array_size(pods); i++)
		if (streq(json_string_value(json_array_get(pods, i)), pod->uid))
			break;
	return i;
}

static int add_claim(json_t *table, const struct pod *pod, const json_t *claim)
{
	_cleanup_json_ json_t *drivers = json_object();
	const json_t *driver;
	char key[600];
	size_t i;

	json_array_foreach(json_object_get(claim, "drivers"), i, driver)
	{
		if (json_object_set_new(drivers, json_string_value(driver), json_array()) < 0)
			return -ENOMEM;
	}
	(void)snprintf(key, sizeof(key), "%s/%s", pod->namespace, text_of(claim, "name"));
	return json_object_set_new(table, key,
		json_pack("{s:s, s:s, s:s, s:b, s:[s], s:O}", "namespace", pod->namespace, "name",
			text_of(claim, "name"), "uid", text_of(claim, "uid"), "prepared", 0, "pods",
			pod->uid, "drivers", drivers));
}

int claim_table_add_pod(json_t *table, const struct pod *pod, struct error *error)
{
	const json_t *claim;
	size_t i;

	json_array_foreach(pod->claims, i, claim)
	{
		json_t *entry = claim_table_find(table, pod, claim);
		int r = 0;

		if (entry && !streq(text_of(entry, "uid"), text_of(claim, "uid")))
			return error_set(error, -EEXIST,
				"old ResourceClaim with same name %s and different UID %s still exists (previous pod force-deleted?!)",
				text_of(claim, "name"), text_of(entry, "uid"));
		if (!entry)
			r = add_claim(table, pod, claim);
		else if (find_pod(entry, pod) == json_array_size(json_object_get(entry, "pods")))
			r = json_array_append_new(
				json_object_get(entry, "pods"), json_string(pod->uid));
		if (r < 0)
			return error_set(error, -ENOMEM, "out of memory");
	}
	return 0;
}

/* Adds the entry to the batch of each of its drivers. */
static int add_to_batches(json_t *batches, json_t *entry)
{
	const char *driver;
	json_t *devices;

	json_object_foreach(json_object_get(entry, "drivers"), driver, devices)
	{
		json_t *batch = json_object_get(batches, driver);

		if (!batch) {
			batch = json_array();
			if (json_object_set_new(batches, driver, batch) < 0)
				return -ENOMEM;
		}
		if (json_array_append(batch, entry) < 0)
			return -ENOMEM;
	}
	return 0;
}

static json_t *make_batches(const json_t *table, const struct pod *pod, bool unprepare)
{
	_cleanup_json_ json_t *batches = json_object();
	const json_t *claim;
	size_t i;

	json_array_foreach(pod->claims, i, claim)
	{
		json_t *entry = claim_table_find(table, pod, claim);
		const json_t *pods = json_object_get(entry, "pods");
		bool wanted = unprepare ? json_array_size(pods) == 1 && find_pod(entry, pod) == 0
					: !json_is_true(json_object_get(entry, "prepared"));

		if (entry && wanted && add_to_batches(batches, entry) < 0)
			return NULL;
	}
	return json_incref(batches);
}

json_t *claim_table_unprepared(const json_t *table, const struct pod *pod)
{
	return make_batches(table, pod, false);
}

json_t *claim_table_last_used(const json_t *table, const struct pod *pod)
{
	return make_batches(table, pod, true);
}

void claim_table_set_prepared(json_t *table, const struct pod *pod)
{
	const json_t *claim;
	size_t i;

	json_array_foreach(pod->claims, i, claim)(void)
		json_object_set_new(claim_table_find(table, pod, claim), "prepared", json_true());
}

void claim_table_forget_prepared(json_t *table)
{
	const char *key;
	json_t *entry;

	json_object_foreach(table, key, entry)(void)
		json_object_set_new(entry, "prepared", json_false());
}

static bool is_same_device(const json_t *a, const json_t *b)
{
	return json_equal(json_object_get(a, "requests"), json_object_get(b, "requests")) &&
		streq(text_of(a, "pool"), text_of(b, "pool")) &&
		streq(text_of(a, "device"), text_of(b, "device")) &&
		streq(text_of(a, "share"), text_of(b, "share"));
}

int claim_table_add_device(json_t *devices, json_t *device)
{
	_cleanup_json_ json_t *owned = device;
	const json_t *known;
	int changed = 0;
	size_t i;

	json_array_foreach(devices, i, known)
	{
		if (json_equal(known, owned))
			return 0;
		changed |= is_same_device(known, owned);
	}
	return owned && json_array_append(devices, owned) >= 0 ? changed : -ENOMEM;
}

void claim_table_remove_pod(json_t *table, const struct pod *pod)
{
	const json_t *claim;
	char key[600];
	size_t i;

	json_array_foreach(pod->claims, i, claim)
	{
		json_t *entry = claim_table_find(table, pod, claim),
		       *pods = json_object_get(entry, "pods");
		size_t at = find_pod(entry, pod);

		if (at < json_array_size(pods))
			(void)json_array_remove(pods, at);
		(void)snprintf(key, sizeof(key), "%s/%s", pod->namespace, text_of(claim, "name"));
		if (entry && json_array_size(pods) == 0)
			(void)json_object_del(table, key);
	}
}

/* --- what a container gets --- */

/* Whether a device of the claim is for the container. */
static bool is_for_container(const json_t *claim, const json_t *device, size_t container)
{
	const json_t *request;
	char prefix[64];
	size_t i;

	if (!json_is_true(json_object_get(claim, "extended")))
		return true;
	(void)snprintf(prefix, sizeof(prefix), "container-%zu-request-", container);
	json_array_foreach(json_object_get(device, "requests"), i, request)
	{
		if (startswith(json_string_value(request), prefix))
			return true;
	}
	return false;
}

static json_t *describe(const char *driver, const json_t *device)
{
	return json_pack("{s:s, s:O, s:O, s:O, s:O*}", "driver_name", driver, "pool_name",
		json_object_get(device, "pool"), "device_name", json_object_get(device, "device"),
		"cdi_devices", json_object_get(device, "cdi"), "share_id",
		json_object_get(device, "share"));
}

static int add_claim_resources(
	const json_t *claim, const json_t *entry, size_t container, json_t *cdi, json_t *resources)
{
	const char *driver;
	json_t *devices;

	json_object_foreach(json_object_get(entry, "drivers"), driver, devices)
	{
		const json_t *device;
		size_t i;

		json_array_foreach(devices, i, device)
		{
			if (!is_for_container(claim, device, container))
				continue;
			if (json_array_extend(cdi, json_object_get(device, "cdi")) < 0 ||
				json_array_append_new(resources, describe(driver, device)) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

int claim_table_container(const json_t *table, const struct pod *pod, size_t container,
	json_t **ret_cdi, json_t **ret_dynamic)
{
	_cleanup_json_ json_t *cdi = json_array(), *dynamic = json_array();
	const json_t *claim;
	size_t i;

	json_array_foreach(pod->claims, i, claim)
	{
		const json_t *entry = claim_table_find(table, pod, claim);
		_cleanup_json_ json_t *resources = json_array();

		if (add_claim_resources(claim, entry, container, cdi, resources) < 0)
			return -ENOMEM;
		if (json_array_size(resources) > 0 &&
			json_array_append_new(dynamic,
				json_pack("{s:s, s:s, s:O}", "claim_name", text_of(claim, "name"),
					"claim_namespace", pod->namespace, "claim_resources",
					resources)) < 0)
			return -ENOMEM;
	}
	*ret_cdi = json_incref(cdi);
	*ret_dynamic = json_incref(dynamic);
	return 0;
}

/* --- the file --- */

int claim_table_write(const json_t *table, const char *state_dir, struct error *error)
{
	_cleanup_free_ char *text = claim_checkpoint_make(table);
	int r = -ENOMEM;

	if (text)
		r = file_replace(state_dir, CLAIM_CHECKPOINT_NAME, text, strlen(text), 0600, false);
	return r < 0 ? error_set(error, r, "cannot write %s/%s: %s", state_dir,
			       CLAIM_CHECKPOINT_NAME, strerror(-r))
		     : 0;
}

int claim_table_read(const char *state_dir, json_t **ret, struct error *error)
{
	_cleanup_json_ json_t *table = NULL;
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	size_t size;
	int r;

	(void)snprintf(path, sizeof(path), "%s/" CLAIM_CHECKPOINT_NAME, state_dir);
	r = file_read(path, CLAIM_FILE_MAX, &text, &size);
	if (r < 0 && r != -ENOENT)
		return error_set(error, r, "cannot read %s: %s", path, strerror(-r));
	if (r == -ENOENT) {
		table = json_object();
		if (!table)
			return error_set(error, -ENOMEM, "out of memory");
		r = claim_table_write(NULL, state_dir, error);
		if (r < 0)
			return r;
	} else {
		r = claim_checkpoint_read(text, size, &table);
		if (r < 0)
			return error_set(error, r,
				r == -EBADMSG ? "%s is corrupt: remove it" : "no memory for %s",
				path);
	}
	*ret = TAKE_PTR(table);
	return 0;
}
