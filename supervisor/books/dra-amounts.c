/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the amounts of a device's claims fit: their sum for each capacity, with several
 * shares of one claim, is at most what the device has now.
 */
#include "supervisor/books/dra-amounts.h"

#include "common/json-read.h"
#include "drivers/model/quantity.h"
#include "supervisor/books/dra-claim.h"

/* Holders that a message names. */
#define HOLDERS_MAX 3

struct use {
	json_t *sums; /* {NAME: number} */
	char holders[512];
	size_t n_holders;
};

static int add_claim(struct use *use, const json_t *claim, const json_t *wanted)
{
	bool holds = false;
	int r = 0;

	for (size_t i = 0; i < dra_claim_count(claim) && r >= 0; i++) {
		const json_t *device = dra_claim_device(claim, i);

		if (dra_claim_is_admin(device) || dra_claim_is_forgotten(device) ||
			!dra_claim_is_same_hardware(device, wanted))
			continue;
		holds = true;
		r = dra_claim_add_amounts(device, use->sums);
	}
	return r < 0 ? r : holds;
}

static void name_holder(struct use *use, const json_t *claim)
{
	size_t length = strlen(use->holders);

	if (use->n_holders++ < HOLDERS_MAX)
		(void)snprintf(use->holders + length, sizeof(use->holders) - length, "%s%s/%s",
			length > 0 ? ", " : "", text_of(claim, "namespace"),
			text_of(claim, "name"));
}

static int refuse(const struct use *use, const json_t *device, const char *name, json_int_t wanted,
	struct error *error)
{
	json_int_t of = json_integer_value(json_object_get(json_object_get(device, "of"), name));
	json_int_t used = json_integer_value(json_object_get(use->sums, name));
	char total[QUANTITY_MAX + 1], held[QUANTITY_MAX + 1], more[QUANTITY_MAX + 1],
		others[32] = "";

	quantity_write(of, total);
	quantity_write(used, held);
	quantity_write(wanted, more);
	if (use->n_holders > HOLDERS_MAX)
		(void)snprintf(
			others, sizeof(others), " and %zu more", use->n_holders - HOLDERS_MAX);
	if (use->n_holders == 0)
		return error_set(error, -EINVAL,
			"device %s of %s has %s of \"%s\", and the claim has %s of it; delete the "
			"pod, so that the claim is allocated again",
			text_of(device, "id"), text_of(device, "resource"), total, name, more);
	return error_set(error, -EBUSY,
		"device %s of %s has %s of \"%s\", of which %s are prepared for the claim%s %s%s, "
		"so %s more do not fit; they fit when the pods of these claims have ended, or after "
		"\"devplugctl forget\"",
		text_of(device, "id"), text_of(device, "resource"), total, name, held,
		use->n_holders == 1 ? "" : "s", use->holders, others, more);
}

static int check_sums(
	const struct use *use, const json_t *device, const json_t *own, struct error *error)
{
	json_t *of = json_object_get(device, "of"), *total;
	const char *name;

	json_object_foreach(of, name, total)
	{
		json_int_t used = json_integer_value(json_object_get(use->sums, name));
		json_int_t wanted = json_integer_value(json_object_get(own, name));

		if (used > json_integer_value(total) || wanted > json_integer_value(total) - used)
			return refuse(use, device, name, wanted, error);
	}
	return 0;
}

static int check_device(
	const json_t *claim, const json_t *device, const json_t *others, struct error *error)
{
	json_auto_t *sums = json_object(), *own_sums = json_object();
	struct use use = { .sums = sums }, own = { .sums = own_sums };
	const json_t *other;
	size_t i;
	int r;

	r = sums && own_sums ? add_claim(&own, claim, device) : -ENOMEM;
	json_array_foreach(others, i, other)
	{
		if (r >= 0)
			r = add_claim(&use, other, device);
		if (r > 0)
			name_holder(&use, other);
	}
	return r < 0 ? error_set(error, r, "out of memory")
		     : check_sums(&use, device, own_sums, error);
}

/* Whether the claim has the hardware of the device as a whole, too. */
static bool has_whole(const json_t *claim, const json_t *device)
{
	for (size_t i = 0; i < dra_claim_count(claim); i++) {
		const json_t *other = dra_claim_device(claim, i);

		if (!dra_claim_is_admin(other) && !json_object_get(other, "amounts") &&
			dra_claim_is_same_hardware(other, device))
			return true;
	}
	return false;
}

int dra_amounts_check(const json_t *claim, const json_t *others, struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < dra_claim_count(claim) && r >= 0; i++) {
		const json_t *device = dra_claim_device(claim, i);

		if (!json_object_get(device, "amounts"))
			continue;
		if (has_whole(claim, device))
			return error_set(error, -EBADMSG,
				"the claim has device %s of %s as a whole and by amount",
				text_of(device, "id"), text_of(device, "resource"));
		r = check_device(claim, device, others, error);
	}
	return r;
}
