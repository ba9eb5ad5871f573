/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how claims are written to the kubelet's file, and which files are valid. Members are
 * written in Go's order, and an empty list as null where the kubelet writes null. Whether a claim
 * is prepared is not in the file, as with a kubelet.
 */
#include "kubelet/claim-checkpoint.h"

#include "common/crc32.h"
#include "common/json-read.h"
#include "kubelet/go-json.h"
#include "kubelet/plugin-text.h"

#define KIND    "DRACheckpoint"
#define VERSION "checkpoint.dra.kubelet.k8s.io/v1"

/* --- writing --- */

/* Go writes a list without elements, as it comes by gRPC, as null. */
static json_t *list_of(const json_t *object, const char *key)
{
	json_t *list = json_object_get(object, key);

	return json_array_size(list) > 0 ? json_incref(list) : json_null();
}

static json_t *make_devices(const json_t *devices)
{
	_cleanup_json_ json_t *made = json_array_size(devices) > 0 ? json_array() : json_null();
	const json_t *device;
	size_t i;

	json_array_foreach(devices, i, device)
	{
		json_t *share = json_object_get(device, "share");

		if (json_array_append_new(made,
			    json_pack("{s:O, s:O, s:O, s:o, s:o}", "PoolName",
				    json_object_get(device, "pool"), "DeviceName",
				    json_object_get(device, "device"), "ShareID",
				    share ?: json_null(), "RequestNames",
				    list_of(device, "requests"), "CDIDeviceIDs",
				    list_of(device, "cdi"))) < 0)
			return NULL;
	}
	return json_incref(made);
}

static json_t *make_claim(const json_t *entry)
{
	_cleanup_json_ json_t *pods = json_object(), *drivers = json_object();
	const json_t *pod;
	const char *driver;
	json_t *devices;
	size_t i;

	json_array_foreach(json_object_get(entry, "pods"), i, pod)
	{
		if (json_object_set_new(pods, json_string_value(pod), json_object()) < 0)
			return NULL;
	}
	json_object_foreach(json_object_get(entry, "drivers"), driver, devices)
	{
		if (json_object_set_new(drivers, driver,
			    json_pack("{s:o}", "Devices", make_devices(devices))) < 0)
			return NULL;
	}
	return json_pack("{s:O, s:O, s:O, s:o, s:o}", "ClaimUID", json_object_get(entry, "uid"),
		"ClaimName", json_object_get(entry, "name"), "Namespace",
		json_object_get(entry, "namespace"), "PodUIDs", json_sorted(TAKE_PTR(pods)),
		"DriverState", json_sorted(TAKE_PTR(drivers)));
}

char *claim_checkpoint_make(const json_t *table)
{
	_cleanup_json_ json_t *claims = table ? json_array() : json_null(), *data = NULL,
			      *file = NULL;
	_cleanup_free_ char *text = NULL;
	const char *key;
	json_t *entry;

	json_object_foreach((json_t *)(uintptr_t)table, key, entry)
	{
		if (json_array_append_new(claims, make_claim(entry)) < 0)
			return NULL;
	}
	data = json_pack("{s:s, s:s, s:O}", "kind", KIND, "apiVersion", VERSION,
		"ClaimInfoStateList", claims);
	text = data ? json_dumps(data, JSON_COMPACT) : NULL;
	if (!text)
		return NULL;
	file = json_pack(
		"{s:s, s:I}", "Data", text, "Checksum", (json_int_t)crc32_ieee(text, strlen(text)));
	return file ? json_dumps(file, JSON_COMPACT) : NULL;
}

/* --- reading --- */

static bool is_list_or_null(const json_t *value)
{
	return json_is_array(value) || json_is_null(value);
}

static int read_devices(json_t *drivers, const char *driver, const json_t *devices)
{
	_cleanup_json_ json_t *read = json_array();
	const json_t *device;
	size_t i;

	if (!is_list_or_null(devices))
		return -EBADMSG;
	json_array_foreach(devices, i, device)
	{
		const char *pool = set_text_of(device, "PoolName");
		const char *name = set_text_of(device, "DeviceName");
		json_t *requests = json_object_get(device, "RequestNames");
		json_t *cdi = json_object_get(device, "CDIDeviceIDs");
		json_t *share = json_object_get(device, "ShareID");

		if (!pool || !name || !is_list_or_null(requests) || !is_list_or_null(cdi) ||
			(share && !json_is_string(share) && !json_is_null(share)))
			return -EBADMSG;
		if (json_array_append_new(read,
			    json_pack("{s:o, s:s, s:s, s:o, s:O*}", "requests",
				    json_is_null(requests) ? json_array() : json_incref(requests),
				    "pool", pool, "device", name, "cdi",
				    json_is_null(cdi) ? json_array() : json_incref(cdi), "share",
				    json_is_string(share) ? share : NULL)) < 0)
			return -ENOMEM;
	}
	return json_object_set(drivers, driver, read) < 0 ? -ENOMEM : 0;
}

static int read_claim(json_t *table, const json_t *claim)
{
	const char *name = set_text_of(claim, "ClaimName");
	const char *namespace = set_text_of(claim, "Namespace");
	const char *uid = set_text_of(claim, "ClaimUID"), *key;
	json_t *states = json_object_get(claim, "DriverState"), *state;
	json_t *users = json_object_get(claim, "PodUIDs"), *user;
	_cleanup_json_ json_t *pods = json_array(), *drivers = json_object();
	char place[600];
	int r;

	if (!name || !namespace || !uid || !json_is_object(users) || !json_is_object(states))
		return -EBADMSG;
	json_object_foreach(users, key, user)
	{
		if (json_array_append_new(pods, json_string(key)) < 0)
			return -ENOMEM;
	}
	json_object_foreach(states, key, state)
	{
		r = read_devices(drivers, key, json_object_get(state, "Devices"));
		if (r < 0)
			return r;
	}
	(void)snprintf(place, sizeof(place), "%s/%s", namespace, name);
	return json_object_set_new(table, place,
		       json_pack("{s:s, s:s, s:s, s:b, s:O, s:O}", "namespace", namespace, "name",
			       name, "uid", uid, "prepared", 0, "pods", pods, "drivers", drivers)) <
			0
		? -ENOMEM
		: 0;
}

int claim_checkpoint_read(const char *text, size_t size, json_t **ret)
{
	_cleanup_json_ json_t *file = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	_cleanup_json_ json_t *data = NULL, *table = json_object();
	const char *inner = text_of(file, "Data");
	const json_t *claims, *claim;
	size_t i;
	int r;

	if (json_integer_value(json_object_get(file, "Checksum")) !=
		crc32_ieee(inner, strlen(inner)))
		return -EBADMSG;
	data = json_loads(inner, JSON_REJECT_DUPLICATES, NULL);
	claims = json_object_get(data, "ClaimInfoStateList");
	if (!streq(text_of(data, "kind"), KIND) || !streq(text_of(data, "apiVersion"), VERSION) ||
		!is_list_or_null(claims))
		return -EBADMSG;
	json_array_foreach(claims, i, claim)
	{
		r = read_claim(table, claim);
		if (r < 0)
			return r;
	}
	*ret = json_incref(table);
	return 0;
}
