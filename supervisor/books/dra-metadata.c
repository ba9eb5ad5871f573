/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what a container can read of its devices, and when that is another generation. The form
 * is that of k8s.io/dynamic-resource-allocation/api/metadata; both versions of the API have the
 * same members, and readers of an old Kubernetes release know only the older one.
 */
#include "supervisor/books/dra-metadata.h"

#include "common/json-read.h"
#include "dra/model/dra-names.h"
#include "supervisor/books/dra-claim.h"
#include "supervisor/books/dra-metadata-form.h"

static const char *const versions[] = {
	"metadata.resource.k8s.io/v1beta1",
	"metadata.resource.k8s.io/v1alpha1",
};

/* --- members --- */

/* The number of the first device whose member has that value, or the number of devices. */
static size_t find_device(const json_t *claim, const char *key, const char *value)
{
	size_t i = 0;

	while (i < dra_claim_count(claim) &&
		!streq(text_of(dra_claim_device(claim, i), key), value))
		i++;
	return i;
}

static json_t *attributes_of(const json_t *claim)
{
	return json_object_get(json_object_get(claim, "metadata"), DRA_METADATA_ATTRIBUTES);
}

static json_int_t generation_of(const json_t *claim, const char *request)
{
	const json_t *generations =
		json_object_get(json_object_get(claim, "metadata"), DRA_METADATA_GENERATIONS);

	return json_integer_value(json_object_get(generations, request)) ?: 1;
}

static void set_generation(json_t *claim, const char *request, json_int_t generation)
{
	json_t *metadata = json_object_get(claim, "metadata");

	if (!json_object_get(metadata, DRA_METADATA_GENERATIONS))
		(void)json_object_set_new(metadata, DRA_METADATA_GENERATIONS, json_object());
	(void)json_object_set_new(json_object_get(metadata, DRA_METADATA_GENERATIONS), request,
		json_integer(generation));
}

/* --- changes --- */

static bool begins_request(const json_t *claim, size_t at)
{
	const char *request = text_of(dra_claim_device(claim, at), "request");

	return find_device(claim, "request", request) == at;
}

/* Whether the file of a request is the same with attributes `before` and `now`. */
static bool is_same(
	const json_t *claim, const char *request, const json_t *before, const json_t *now)
{
	for (size_t i = 0; i < dra_claim_count(claim); i++) {
		const json_t *device = dra_claim_device(claim, i);
		const char *name = text_of(device, "name");
		const json_t *a = json_object_get(before, name), *b = json_object_get(now, name);

		if (streq(text_of(device, "request"), request) && a != b && !json_equal(a, b))
			return false;
	}
	return true;
}

/* Counts the requests whose files differ from what they were with attributes `before`. */
static bool count_changes(json_t *claim, const json_t *before)
{
	bool changed = false;

	for (size_t i = 0; i < dra_claim_count(claim); i++) {
		const char *request = text_of(dra_claim_device(claim, i), "request");

		if (!begins_request(claim, i) ||
			is_same(claim, request, before, attributes_of(claim)))
			continue;
		set_generation(claim, request, generation_of(claim, request) + 1);
		changed = true;
	}
	return changed;
}

void dra_metadata_follow(json_t *claim, const json_t *known)
{
	const json_t *before = attributes_of(known);
	json_t *attributes = attributes_of(claim);

	if (!attributes || !dra_claim_has_same_devices(claim, known))
		return;
	if (!before) {
		(void)json_object_del(claim, "metadata");
		return;
	}
	(void)json_object_update_missing(attributes, (json_t *)(uintptr_t)before);
	for (size_t i = 0; i < dra_claim_count(claim); i++) {
		const char *request = text_of(dra_claim_device(claim, i), "request");

		if (generation_of(known, request) > 1)
			set_generation(claim, request, generation_of(known, request));
	}
	(void)count_changes(claim, before);
}

bool dra_metadata_set(json_t *claim, const json_t *devices)
{
	json_t *attributes = attributes_of(claim), *value;
	json_auto_t *before = json_copy(attributes);
	const char *name;

	if (!before)
		return false;
	json_object_foreach((json_t *)(uintptr_t)devices, name, value)
	{
		if (find_device(claim, "name", name) < dra_claim_count(claim))
			(void)json_object_set(attributes, name, value);
	}
	return count_changes(claim, before);
}

/* --- files --- */

/* Whether an earlier device is another share of this one, for the same request. */
static bool is_repeated(const json_t *claim, size_t at)
{
	const json_t *device = dra_claim_device(claim, at);

	for (size_t i = 0; i < at; i++)
		if (dra_claim_is_group(dra_claim_device(claim, i), device) &&
			streq(text_of(dra_claim_device(claim, i), "name"), text_of(device, "name")))
			return true;
	return false;
}

/* Devices of other drivers, which the claim may have for the same request, are in their files. */
static json_t *make_devices(const json_t *claim, const char *request)
{
	json_t *made = json_array();

	for (size_t i = 0; i < dra_claim_count(claim); i++) {
		const json_t *device = dra_claim_device(claim, i);
		json_t *attributes = json_object_get(attributes_of(claim), text_of(device, "name"));

		if (streq(text_of(device, "request"), request) && !is_repeated(claim, i))
			(void)json_array_append_new(made,
				json_pack("{s:s, s:s, s:s, s:O*}", "driver",
					text_of(claim, "driver"), "pool", text_of(device, "pool"),
					"name", text_of(device, "name"), "attributes", attributes));
	}
	return made;
}

char *dra_metadata_stream(json_t *object)
{
	char *text = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		_cleanup_free_ char *before = TAKE_PTR(text), *one = NULL;

		if (!object ||
			json_object_set_new(object, "apiVersion", json_string(versions[i])) < 0)
			return NULL;
		one = json_dumps(object, JSON_COMPACT);
		if (!one || format_text(&text, "%s%s\n", before ?: "", one) < 0)
			return NULL;
	}
	return text;
}

static char *make_text(const json_t *claim, const char *request)
{
	const json_t *metadata = json_object_get(claim, "metadata");
	const char *full =
		set_text_of(json_object_get(metadata, DRA_METADATA_ALTERNATIVES), request);
	json_auto_t *object = json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:I}, s:s*, s:[{s:s, s:o}]}",
		"apiVersion", versions[0], "kind", "DeviceMetadata", "metadata", "name",
		text_of(claim, "name"), "namespace", text_of(claim, "namespace"), "uid",
		text_of(claim, "uid"), "generation", generation_of(claim, request), "podClaimName",
		set_text_of(metadata, DRA_METADATA_POD_CLAIM), "requests", "name", full ?: request,
		"devices", make_devices(claim, request));

	return dra_metadata_stream(object);
}

bool dra_metadata_is_mounted(const json_t *claim, size_t at)
{
	return attributes_of(claim) && begins_request(claim, at);
}

int dra_metadata_make(const json_t *claim, struct published_metadata **ret, size_t *ret_n)
{
	struct published_metadata *files = calloc(dra_claim_count(claim) + 1, sizeof(*files));
	size_t n = 0;

	if (!files)
		return -ENOMEM;
	for (size_t i = 0; i < dra_claim_count(claim); i++) {
		if (!dra_metadata_is_mounted(claim, i))
			continue;
		files[n].request = text_of(dra_claim_device(claim, i), "request");
		files[n].text = make_text(claim, files[n].request);
		if (!files[n++].text) {
			dra_metadata_done(files, n);
			return -ENOMEM;
		}
	}
	*ret = files;
	*ret_n = n;
	return 0;
}

void dra_metadata_done(struct published_metadata *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(files[i].text);
	free(files);
}

/* --- mounts --- */

static char *container_path(const json_t *claim, const char *request)
{
	const char *pod_claim =
		set_text_of(json_object_get(claim, "metadata"), DRA_METADATA_POD_CLAIM);
	char *path;

	return format_text(&path, "%s/%s/%s/%s/%s-metadata.json", DRA_METADATA_DIRECTORY,
		       pod_claim ? "resourceclaimtemplates" : "resourceclaims",
		       pod_claim ?: text_of(claim, "name"), request, text_of(claim, "driver")) < 0
		? NULL
		: path;
}

static json_t *find_edits(const json_t *devices, const char *name)
{
	json_t *device;
	size_t i;

	json_array_foreach(devices, i, device)
	{
		if (streq(text_of(device, "name"), name))
			return json_object_get(device, "containerEdits");
	}
	return NULL;
}

int dra_metadata_mount(const json_t *claim, const char *request, const char *host, json_t *devices,
	const char *name)
{
	_cleanup_free_ char *path = container_path(claim, request);
	json_t *edits = find_edits(devices, name);

	if (!path)
		return -ENOMEM;
	if (!edits) {
		if (json_array_append_new(
			    devices, json_pack("{s:s, s:{}}", "name", name, "containerEdits")) < 0)
			return -ENOMEM;
		edits = find_edits(devices, name);
	}
	if (!json_object_get(edits, "mounts") &&
		json_object_set_new(edits, "mounts", json_array()) < 0)
		return -ENOMEM;
	return json_array_append_new(json_object_get(edits, "mounts"),
		       json_pack("{s:s, s:s, s:[s, s]}", "hostPath", host, "containerPath", path,
			       "options", "ro", "bind")) < 0
		? -ENOMEM
		: 0;
}
