/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what a claim gets of a device that others may share. Without a share, a claim that was
 * allocated before the device was shared has all of it, and a part has its own amounts.
 */
#include "dra/dra-shares.h"

#include "common/json-read.h"
#include "dra/model/dra-names.h"
#include "drivers/model/quantity.h"

/* A share id becomes a part of a name in the CDI file. */
static bool share_is_valid(const char *share)
{
	return dra_name_is_valid(share, DRA_SHARE_ID_MAX) && !strchr(share, '.');
}

/* Names of the driver's own domain may be written with it. */
static const char *own_name(const char *name, const char *driver)
{
	const char *rest = startswith(name, driver);

	return rest && *rest == '/' ? rest + 1 : name;
}

static int read_consumed(const json_t *consumed, const json_t *totals, const char *driver,
	json_t *amounts, struct error *error)
{
	const char *key;
	json_t *text;

	json_object_foreach((json_t *)(uintptr_t)consumed, key, text)
	{
		const char *name = own_name(key, driver);
		int64_t amount;

		if (!json_is_string(text) || quantity_read(json_string_value(text), &amount) < 0)
			return error_set(error, -EBADMSG,
				"its amount of \"%.80s\" is not a quantity from 0 on", name);
		if (!json_object_get(totals, name))
			return error_set(error, -ENOENT,
				"it has an amount of \"%.80s\", which the device does not have any "
				"more; delete the pod, so that the claim is allocated again",
				name);
		if (json_object_get(amounts, name))
			return error_set(error, -EBADMSG, "it has two amounts of \"%.80s\"", name);
		if (json_object_set_new(amounts, name, json_integer(amount)) < 0)
			return error_set(error, -ENOMEM, "out of memory");
	}
	json_object_foreach((json_t *)(uintptr_t)totals, key, text)
	{
		if (!json_object_get(amounts, key))
			return error_set(error, -EBADMSG, "it has no amount of \"%.80s\"", key);
	}
	return 0;
}

static bool has_share(const json_t *devices, const char *name, const char *share)
{
	const json_t *device;
	size_t i;

	json_array_foreach(devices, i, device)
	{
		if (streq(text_of(device, "name"), name) && streq(text_of(device, "share"), share))
			return true;
	}
	return false;
}

static int add_amounts(json_t *device, const json_t *devices, const json_t *result,
	const char *driver, const json_t *found, struct error *error)
{
	const json_t *consumed = json_object_get(result, "consumedCapacity");
	const json_t *share = json_object_get(result, "shareID");
	json_t *held = json_object_get(found, "amounts"), *totals = json_object_get(found, "of");
	/* A device that is not listed any more is known as claims hold it. */
	json_t *amounts = json_object_get(found, "share") ? NULL : held;
	json_auto_t *read = NULL;
	int r = 0;

	if (!totals)
		totals = held;
	if (share) {
		const char *id = json_string_value(share) ?: "";

		read = json_object();
		amounts = read;
		if (!share_is_valid(id) || has_share(devices, text_of(device, "name"), id))
			return error_set(
				error, -EBADMSG, "its share id \"%.80s\" is not valid", id);
		if (!totals)
			return error_set(error, -ENODEV,
				"it is a share of a device that is not shared now; if this lasts, "
				"delete the pod, so that the claim is allocated again");
		r = read_consumed(consumed, totals, driver, read, error);
		if (r >= 0 && json_object_set(device, "share", (json_t *)(uintptr_t)share) < 0)
			r = error_set(error, -ENOMEM, "out of memory");
	} else if (json_object_size(consumed) > 0)
		return error_set(error, -EBADMSG, "it has amounts, but no share id");
	if (r >= 0 && totals && amounts &&
		(json_object_set(device, "amounts", amounts) < 0 ||
			json_object_set(device, "of", totals) < 0))
		r = error_set(error, -ENOMEM, "out of memory");
	return r;
}

int dra_share_read(json_t *device, const json_t *devices, const json_t *result, const char *driver,
	const json_t *found, struct error *error)
{
	int r = add_amounts(device, devices, result, driver, found, error);

	if (r < 0)
		error_prefix(error, "device %s was allocated with an invalid result",
			text_of(device, "name"));
	return r;
}
