/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders members as Go does, so that a file of this program has the text of a kubelet's.
 */
#include "kubelet/go-json.h"

#include "common/util.h"
#include "kubelet/plugin-text.h"

static int compare_keys(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

json_t *json_sorted(json_t *stolen)
{
	_cleanup_json_ json_t *map = stolen, *copy = json_object();
	_cleanup_free_ const char **keys = calloc(json_object_size(map) + 1, sizeof(*keys));
	const char *key;
	json_t *value;
	size_t n = 0;

	if (!keys)
		return NULL;
	json_object_foreach(map, key, value) keys[n++] = key;
	qsort(keys, n, sizeof(*keys), compare_keys);
	for (size_t i = 0; i < n; i++)
		if (json_object_set(copy, keys[i], json_object_get(map, keys[i])) < 0)
			return NULL;
	return json_incref(copy);
}
