/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which results of a ResourceClaim are devices of this node. Results of other drivers are
 * ignored. A request with alternatives is named "request/alternative" in a result; containers name
 * the request.
 */
#include "dra/dra-allocation.h"

#include "common/json-read.h"
#include "dra/model/dra-names.h"

static const json_t *find_device(const struct dra_known *known, const char *name)
{
	const json_t *found = json_object_get(known->names, name);
	const json_t *held = json_object_get(known->held, name);

	if (!found && held && streq(text_of(held, "driver"), known->driver))
		return held;
	return found;
}

static int add_result(
	json_t *devices, const json_t *result, const struct dra_known *known, struct error *error)
{
	const char *name = text_of(result, "device"), *request = text_of(result, "request");
	_cleanup_free_ char *outer = strndup(request, strcspn(request, "/"));
	const json_t *found = find_device(known, name);
	json_t *device;

	if (!known->names)
		return error_set(error, -EAGAIN,
			"devplugd has just started and does not know its devices yet");
	if (!streq(text_of(result, "pool"), known->pool))
		return error_set(error, -EXDEV,
			"device %s belongs to the pool %s, but the pool of this node is %s", name,
			text_of(result, "pool"), known->pool);
	if (!outer || !dra_name_is_valid(outer, DRA_OBJECT_NAME_MAX))
		return error_set(error, outer ? -EBADMSG : -ENOMEM,
			"device %s was allocated for a request with the name \"%s\", which is not "
			"valid",
			name, request);
	if (json_array_size(devices) >= DRA_DEVICES_MAX)
		return error_set(error, -E2BIG,
			"the claim contains more than %d devices of this driver; request fewer",
			DRA_DEVICES_MAX);
	if (!found)
		return error_set(error, -ENODEV,
			"device %s is not on this node any more, or its resource has not reported "
			"it yet; if this lasts, delete the pod, so that another device is allocated",
			name);
	device = json_pack("{s:s, s:s, s:s, s:O, s:O, s:b}", "request", outer, "pool", known->pool,
		"name", name, "resource", json_object_get(found, "resource"), "id",
		json_object_get(found, "id"), "admin",
		(int)json_is_true(json_object_get(result, "adminAccess")));
	return json_array_append_new(devices, device) < 0
		? error_set(error, -ENOMEM, "out of memory")
		: 0;
}

/* An ignored parameter would mean a device in another state than the user asked for. */
static int check_parameters(const json_t *config, const char *driver, struct error *error)
{
	const json_t *entry;
	size_t i;

	json_array_foreach(config, i, entry)
	{
		if (streq(text_of(json_object_get(entry, "opaque"), "driver"), driver))
			return error_set(error, -EINVAL,
				"the claim, or its DeviceClass, has parameters for %s, which takes none; remove them from \"config\"",
				driver);
	}
	return 0;
}

int dra_allocation_read(const json_t *claim, const char *uid, const struct dra_known *known,
	json_t **ret, struct error *error)
{
	const json_t *metadata = json_object_get(claim, "metadata");
	const json_t *allocation = json_object_get(json_object_get(claim, "status"), "allocation");
	const json_t *granted = json_object_get(allocation, "devices");
	const json_t *results = json_object_get(granted, "results");
	const char *namespace = text_of(metadata, "namespace"), *name = text_of(metadata, "name");
	json_auto_t *devices = json_array();
	const json_t *result;
	size_t i;
	int r;

	if (!streq(text_of(metadata, "uid"), uid))
		return error_set(error, -ESTALE,
			"the claim was deleted and created again: its uid is %s now",
			text_of(metadata, "uid"));
	if (!allocation)
		return error_set(error, -ENODATA, "the claim is not allocated");
	if (!dra_name_is_valid(namespace, DRA_OBJECT_NAME_MAX) ||
		!dra_name_is_valid(name, DRA_OBJECT_NAME_MAX))
		return error_set(error, -EBADMSG,
			"the API server sent a claim with the namespace \"%s\" and the name \"%s\", which are not both valid",
			namespace, name);
	r = check_parameters(json_object_get(granted, "config"), known->driver, error);
	if (r < 0)
		return r;
	json_array_foreach(results, i, result)
	{
		if (!streq(text_of(result, "driver"), known->driver))
			continue;
		r = add_result(devices, result, known, error);
		if (r < 0)
			return r;
	}
	*ret = json_pack("{s:s, s:s, s:s, s:O}", "uid", uid, "namespace", namespace, "name", name,
		"devices", devices);
	return *ret ? 0 : error_set(error, -ENOMEM, "out of memory");
}
