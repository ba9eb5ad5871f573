/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what the metadata of a claim may contain: attributes as the API server accepts them, and
 * names that become parts of a path, of devices and requests that the claim has.
 */
#include "supervisor/books/dra-metadata-form.h"

#include "common/json-read.h"
#include "dra/model/dra-names.h"
#include "dra/model/dra-slices.h"

static bool are_attributes(const json_t *attributes)
{
	const char *name;
	json_t *attribute;

	if (!json_is_object(attributes) || json_object_size(attributes) > ATTRIBUTES_MAX)
		return false;
	json_object_foreach((json_t *)(uintptr_t)attributes, name, attribute)
	{
		if (!attribute_name_is_valid(name) || !dra_attribute_is_valid(attribute))
			return false;
	}
	return true;
}

bool dra_metadata_form_check(const json_t *devices, size_t maximum)
{
	const char *name;
	json_t *attributes;

	if (!json_is_object(devices) || json_object_size(devices) > maximum)
		return false;
	json_object_foreach((json_t *)(uintptr_t)devices, name, attributes)
	{
		if (!dra_name_is_valid(name, DRA_DEVICE_NAME_MAX) || !are_attributes(attributes))
			return false;
	}
	return true;
}

/* Whether a device of the claim has that member. */
static bool has_device(const json_t *claim, const char *key, const char *value)
{
	const json_t *devices = json_object_get(claim, "devices"), *device;
	size_t i;

	json_array_foreach(devices, i, device)
	{
		if (streq(text_of(device, key), value))
			return true;
	}
	return false;
}

static bool are_of_devices(const json_t *claim, const json_t *attributes)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)attributes, name, value)
	{
		if (!has_device(claim, "name", name))
			return false;
	}
	return true;
}

static bool are_alternatives(const json_t *claim, const json_t *alternatives)
{
	const char *request;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)alternatives, request, value)
	{
		const char *rest = startswith(json_string_value(value) ?: "", request);

		if (!rest || *rest != '/' || !dra_name_is_valid(rest + 1, DRA_REQUEST_NAME_MAX) ||
			!has_device(claim, "request", request))
			return false;
	}
	return json_is_object(alternatives);
}

static bool are_generations(const json_t *claim, const json_t *generations)
{
	const char *request;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)generations, request, value)
	{
		if (json_integer_value(value) < 1 || !has_device(claim, "request", request))
			return false;
	}
	return json_is_object(generations);
}

#define FORMAT "s:o, s:o, s?s"

int dra_metadata_form_read(json_t *claim, json_t *metadata, bool saved)
{
	json_t *attributes, *alternatives, *generations = NULL;
	const char *pod_claim = NULL;
	json_auto_t *copy = NULL;

	if (json_unpack(metadata, saved ? "{" FORMAT ", s?o}" : "{" FORMAT "!}",
		    DRA_METADATA_ATTRIBUTES, &attributes, DRA_METADATA_ALTERNATIVES, &alternatives,
		    DRA_METADATA_POD_CLAIM, &pod_claim, DRA_METADATA_GENERATIONS,
		    &generations) < 0 ||
		!dra_metadata_form_check(attributes, DRA_DEVICES_MAX) ||
		!are_of_devices(claim, attributes) || !are_alternatives(claim, alternatives) ||
		(pod_claim && !dra_name_is_valid(pod_claim, DRA_REQUEST_NAME_MAX)) ||
		(generations && !are_generations(claim, generations)))
		return -EBADMSG;
	copy = json_pack("{s:O, s:O, s:O*, s:s*}", DRA_METADATA_ATTRIBUTES, attributes,
		DRA_METADATA_ALTERNATIVES, alternatives, DRA_METADATA_GENERATIONS, generations,
		DRA_METADATA_POD_CLAIM, pod_claim);
	return copy && json_object_set(claim, "metadata", copy) >= 0 ? 0 : -ENOMEM;
}
