/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which results of a ResourceClaim are devices of this node, and which parameters the claim
 * sets for each. Results and parameters of other drivers are ignored; what a resource permits is
 * decided where its declaration is (supervisor/helpers/dra-question.c). A request with alternatives
 * is named "request/alternative" in a result; containers name the request. What
 * they read of the devices, which is their metadata, comes from the slices.
 */
#include "dra/dra-allocation.h"

#include "common/json-read.h"
#include "dra/dra-shares.h"
#include "dra/model/dra-names.h"
#include "drivers/model/parameter.h"

static const json_t *find_device(const struct dra_known *known, const char *name)
{
	const json_t *found = json_object_get(known->names, name);
	const json_t *held = json_object_get(known->held, name);

	if (!found && held && streq(text_of(held, "driver"), known->driver))
		return held;
	return found;
}

/* --- parameters --- */

static bool is_ours(const json_t *entry, const char *driver)
{
	return streq(text_of(json_object_get(entry, "opaque"), "driver"), driver);
}

/* Whether an entry for these requests is for the one of a result: "request" also covers its
 * alternatives, "request/alternative". */
static bool covers(const json_t *requests, const char *request)
{
	for (size_t i = 0; i < json_array_size(requests); i++) {
		const char *name = json_string_value(json_array_get(requests, i));
		const char *rest = name ? startswith(request, name) : NULL;

		if (rest && (*rest == '\0' || *rest == '/'))
			return true;
	}
	return json_array_size(requests) == 0;
}

static int refuse_entry(size_t at, const char *what, struct error *error)
{
	return error_set(
		error, -EINVAL, "the claim's status.allocation.devices.config[%zu] %s", at, what);
}

/* An ignored parameter would mean a device in another state than the user asked for. */
static int check_config(const json_t *config, const char *driver, struct error *error)
{
	const json_t *entry;
	size_t i;

	json_array_foreach(config, i, entry)
	{
		const char *source = text_of(entry, "source");
		char what[64];

		if (!json_object_get(entry, "opaque"))
			return refuse_entry(
				i, "has parameters of another kind than \"opaque\"", error);
		if (!is_ours(entry, driver))
			continue;
		if (!streq(source, "FromClass") && !streq(source, "FromClaim"))
			return refuse_entry(
				i, "has a source other than FromClass and FromClaim", error);
		if (parameters_check_form(
			    json_object_get(json_object_get(entry, "opaque"), "parameters"),
			    PARAMETERS_SENT_MAX, error) >= 0)
			continue;
		(void)snprintf(
			what, sizeof(what), "config[%zu] (%s): opaque.parameters", i, source);
		error_prefix(error, "%s", what);
		return -EINVAL;
	}
	return 0;
}

/* What the claim sets for a request: entries of the class first, so that those of the claim replace
 * them, both in their order. */
static json_t *make_parameters(const json_t *config, const char *driver, const char *request)
{
	static const char *const sources[] = { "FromClass", "FromClaim" };
	json_t *parameters = json_object();
	const json_t *entry;
	size_t i;

	for (size_t k = 0; k < ARRAY_SIZE(sources); k++) {
		json_array_foreach(config, i, entry)
		{
			if (is_ours(entry, driver) && streq(text_of(entry, "source"), sources[k]) &&
				covers(json_object_get(entry, "requests"), request) &&
				json_object_update(parameters,
					json_object_get(json_object_get(entry, "opaque"),
						"parameters")) < 0) {
				json_decref(parameters);
				return NULL;
			}
		}
	}
	return parameters;
}

static int set_parameters(json_t *device, const json_t *config, const char *driver,
	const char *request, struct error *error)
{
	json_auto_t *parameters = make_parameters(config, driver, request);
	int r;

	if (!parameters)
		return error_set(error, -ENOMEM, "out of memory");
	if (json_object_size(parameters) == 0)
		return 0;
	r = parameters_check_form(parameters, PARAMETERS_SENT_MAX, error);
	if (r < 0)
		error_prefix(error, "the parameters for the request %s", request);
	else if (json_object_set(device, "parameters", parameters) < 0)
		r = error_set(error, -ENOMEM, "out of memory");
	return r;
}

/* --- devices --- */

/* A device may have got counters, or lost them, since it was allocated. */
static bool is_pool(const char *name, const struct dra_known *known)
{
	_cleanup_free_ char *parts = NULL;

	return streq(name, known->pool) ||
		(dra_parts_pool(known->pool, known->driver, &parts) >= 0 && streq(name, parts));
}

/* What metadata contains of a device, by dra-claim.h. A device that is only held has no attributes
 * here; the supervisor may know them. */
static int add_metadata(json_t *metadata, const json_t *device, const char *request,
	const json_t *found, struct error *error)
{
	json_t *attributes = json_object_get(found, "attributes");
	const char *outer = text_of(device, "request");
	const char *alternative = startswith(request, outer);
	int r = 0;

	if (attributes)
		r = json_object_set(json_object_get(metadata, DRA_METADATA_ATTRIBUTES),
			text_of(device, "name"), attributes);
	if (r < 0)
		return error_set(error, -ENOMEM, "out of memory");
	if (!alternative || !*alternative)
		return 0;
	if (!dra_name_is_valid(alternative + 1, DRA_REQUEST_NAME_MAX))
		return error_set(error, -EBADMSG,
			"a device was allocated for a request with the name \"%s\", which is not valid",
			request);
	return json_object_set_new(json_object_get(metadata, DRA_METADATA_ALTERNATIVES), outer,
		       json_string(request)) < 0
		? error_set(error, -ENOMEM, "out of memory")
		: 0;
}

static int add_result(json_t *devices, json_t *metadata, const json_t *result, const json_t *config,
	const struct dra_known *known, struct error *error)
{
	const char *name = text_of(result, "device"), *request = text_of(result, "request");
	_cleanup_free_ char *outer = strndup(request, strcspn(request, "/"));
	const json_t *found = find_device(known, name);
	json_auto_t *device = NULL;
	int r;

	if (!known->names)
		return error_set(error, -EAGAIN,
			"devplugd has just started and does not know its devices yet");
	if (!is_pool(text_of(result, "pool"), known))
		return error_set(error, -EXDEV,
			"device %s belongs to the pool %s, but the pool of this node is %s", name,
			text_of(result, "pool"), known->pool);
	if (!outer || !dra_name_is_valid(outer, DRA_REQUEST_NAME_MAX))
		return error_set(error, outer ? -EBADMSG : -ENOMEM,
			"device %s was allocated for a request with the name \"%s\", which is not "
			"valid",
			name, request);
	if (json_array_size(devices) >= DRA_DEVICES_MAX)
		return error_set(error, -E2BIG,
			"the claim contains more than %d devices of this driver; request fewer",
			DRA_DEVICES_MAX);
	if (!found)
		return error_set(error, known->published ? -ENODEV : -EAGAIN,
			"device %s is not on this node any more, or its resource has not reported "
			"it yet; if this lasts, delete the pod, so that another device is allocated",
			name);
	device = json_pack("{s:s, s:s, s:s, s:O, s:O, s:b}", "request", outer, "pool",
		text_of(result, "pool"), "name", name, "resource",
		json_object_get(found, "resource"), "id", json_object_get(found, "id"), "admin",
		(int)json_is_true(json_object_get(result, "adminAccess")));
	if (!device)
		return error_set(error, -ENOMEM, "out of memory");
	r = set_parameters(device, config, known->driver, request, error);
	/* Admin access takes nothing. */
	if (r >= 0 && !json_is_true(json_object_get(result, "adminAccess")))
		r = dra_share_read(device, devices, result, known->driver, found, error);
	if (r >= 0 && json_array_append(devices, device) < 0)
		r = error_set(error, -ENOMEM, "out of memory");
	return r < 0 ? r : add_metadata(metadata, device, request, found, error);
}

/* A claim that the controller made from a template for a pod. */
static json_t *make_metadata(const json_t *claim)
{
	const json_t *annotations =
		json_object_get(json_object_get(claim, "metadata"), "annotations");
	const char *pod_claim = text_of(annotations, "resource.kubernetes.io/pod-claim-name");

	return json_pack("{s:{}, s:{}, s:s*}", DRA_METADATA_ATTRIBUTES, DRA_METADATA_ALTERNATIVES,
		DRA_METADATA_POD_CLAIM,
		dra_name_is_valid(pod_claim, DRA_REQUEST_NAME_MAX) ? pod_claim : NULL);
}

int dra_allocation_read(const json_t *claim, const char *uid, const struct dra_known *known,
	json_t **ret, struct error *error)
{
	const json_t *metadata = json_object_get(claim, "metadata");
	const json_t *allocation = json_object_get(json_object_get(claim, "status"), "allocation");
	const json_t *granted = json_object_get(allocation, "devices");
	const json_t *results = json_object_get(granted, "results");
	const json_t *config = json_object_get(granted, "config");
	const char *namespace = text_of(metadata, "namespace"), *name = text_of(metadata, "name");
	json_auto_t *devices = json_array(), *own_metadata = make_metadata(claim);
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
	r = check_config(config, known->driver, error);
	if (r < 0) {
		error_prefix(error, "claim %s/%s", namespace, name);
		return r;
	}
	json_array_foreach(results, i, result)
	{
		if (!streq(text_of(result, "driver"), known->driver))
			continue;
		r = add_result(devices, own_metadata, result, config, known, error);
		if (r < 0)
			return r;
	}
	*ret = json_pack("{s:s, s:s, s:s, s:O, s:O}", "uid", uid, "namespace", namespace, "name",
		name, "devices", devices, "metadata", own_metadata);
	return *ret ? 0 : error_set(error, -ENOMEM, "out of memory");
}
