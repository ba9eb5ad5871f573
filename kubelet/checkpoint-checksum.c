/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the kubelet's checksum. It is the FNV-1a hash of the text that go-spew prints for Go's
 * structures, on one line, with types, sorted keys and no quotes (pkg/util/hash, DeepHashObject). A
 * list or map that is null is printed differently from an empty one.
 */
#include "kubelet/checkpoint-checksum.h"

#include "common/base64.h"

#define FNV_OFFSET 2166136261U
#define FNV_PRIME  16777619U
#define NIL        "<nil>"

static void add(uint32_t *hash, const char *text)
{
	for (; *text; text++)
		*hash = (*hash ^ (unsigned char)*text) * FNV_PRIME;
}

static void add_string(uint32_t *hash, const json_t *string)
{
	const char *text = json_string_value(string);

	add(hash, text ? text : "");
}

static void add_list(uint32_t *hash, const json_t *list)
{
	const json_t *string;
	size_t i;

	if (!json_is_array(list)) {
		add(hash, NIL);
		return;
	}
	add(hash, "[");
	json_array_foreach(list, i, string)
	{
		add(hash, i > 0 ? " " : "");
		add_string(hash, string);
	}
	add(hash, "]");
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int compare_numbers(const void *a, const void *b)
{
	long long x = strtoll(*(const char *const *)a, NULL, 10),
		  y = strtoll(*(const char *const *)b, NULL, 10);

	return (x > y) - (x < y);
}

static int add_map(uint32_t *hash, const json_t *map, int (*compare)(const void *a, const void *b))
{
	_cleanup_free_ const char **keys = NULL;
	size_t n = 0;
	const char *key;
	json_t *list;

	if (!json_is_object(map)) {
		add(hash, NIL);
		return 0;
	}
	keys = calloc(json_object_size(map) + 1, sizeof(*keys));
	if (!keys)
		return -ENOMEM;
	json_object_foreach((json_t *)(uintptr_t)map, key, list) keys[n++] = key;
	qsort(keys, n, sizeof(*keys), compare);
	add(hash, "map[");
	for (size_t i = 0; i < n; i++) {
		add(hash, i > 0 ? " " : "");
		add(hash, keys[i]);
		add(hash, ":");
		add_list(hash, json_object_get(map, keys[i]));
	}
	add(hash, "]");
	return 0;
}

static int add_bytes(uint32_t *hash, const json_t *base64)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t size;
	int r;

	if (!json_is_string(base64)) {
		add(hash, NIL);
		return 0;
	}
	r = base64_decode(json_string_value(base64), &bytes, &size);
	if (r < 0)
		return r == -EINVAL ? -EBADMSG : r;
	add(hash, "[");
	for (size_t i = 0; i < size; i++) {
		char text[8];

		(void)snprintf(text, sizeof(text), "%s%u", i > 0 ? " " : "", bytes[i]);
		add(hash, text);
	}
	add(hash, "]");
	return 0;
}

static int add_entry(uint32_t *hash, const json_t *entry)
{
	static const char *const strings[] = { "PodUID", "ContainerName", "ResourceName" };
	int r;

	add(hash, "{");
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++) {
		add(hash, strings[i]);
		add(hash, ":(string)");
		add_string(hash, json_object_get(entry, strings[i]));
		add(hash, " ");
	}
	add(hash, "DeviceIDs:(checkpoint.DevicesPerNUMA)");
	r = add_map(hash, json_object_get(entry, "DeviceIDs"), compare_numbers);
	if (r < 0)
		return r;
	add(hash, " AllocResp:([]uint8)");
	r = add_bytes(hash, json_object_get(entry, "AllocResp"));
	add(hash, "}");
	return r;
}

int checkpoint_checksum(const json_t *data, uint32_t *ret)
{
	const json_t *entries = json_object_get(data, "PodDeviceEntries"), *entry;
	uint32_t hash = FNV_OFFSET;
	size_t i;
	int r;

	add(&hash, "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)");
	add(&hash, json_is_array(entries) ? "[" : NIL);
	json_array_foreach(entries, i, entry)
	{
		add(&hash, i > 0 ? " " : "");
		r = add_entry(&hash, entry);
		if (r < 0)
			return r;
	}
	add(&hash, json_is_array(entries) ? "]" : "");
	add(&hash, " RegisteredDevices:(map[string][]string)");
	r = add_map(&hash, json_object_get(data, "RegisteredDevices"), compare_texts);
	if (r < 0)
		return r;
	add(&hash, "}");
	*ret = hash;
	return 0;
}
