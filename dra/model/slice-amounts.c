/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how a device with capacities is offered. The API server refuses a whole slice for one
 * rule that is broken, and a faulty process may report any, so the rules are checked here again.
 */
#include "dra/model/slice-amounts.h"

#include "common/json-read.h"
#include "common/offered-id.h"
#include "dra/model/slice-lacks.h"
#include "drivers/model/capacity.h"
#include "drivers/model/dra-attribute.h"
#include "drivers/model/quantity.h"

/* --- what was reported --- */

static int64_t read_amount(const json_t *rules, const char *key)
{
	const json_t *amount = json_object_get(rules, key);

	return json_is_integer(amount) ? json_integer_value(amount) : CAPACITY_UNSET;
}

static bool read_rules(const json_t *rules, struct capacity *ret)
{
	const json_t *values = json_object_get(rules, "values");
	struct capacity capacity = {
		.value = read_amount(rules, "value"),
		.fallback = read_amount(rules, "default"),
		.min = read_amount(rules, "min"),
		.step = read_amount(rules, "step"),
		.max = read_amount(rules, "max"),
	};

	if (json_array_size(values) > CAPACITY_VALUES_MAX)
		return false;
	for (size_t i = 0; i < json_array_size(values); i++)
		capacity.values[capacity.n_values++] =
			json_integer_value(json_array_get(values, i));
	*ret = capacity;
	return capacity_check(&capacity, &(struct error){ 0 }) >= 0;
}

/* Names with the driver's own domain would be second ones without it. */
static bool is_name(const char *name, const char *driver)
{
	return attribute_name_is_valid(name) && !attribute_is_of(name, driver) &&
		!attribute_is_built_in(name);
}

static bool is_by_amount(const json_t *device, const char *driver)
{
	json_t *capacities = json_object_get(device, "capacity"), *rules;
	struct capacity capacity;
	const char *name;

	if (!json_is_true(json_object_get(device, "by_amount")) ||
		json_object_size(capacities) > CAPACITIES_MAX)
		return false;
	json_object_foreach(capacities, name, rules)
	{
		if (!is_name(name, driver) || !read_rules(rules, &capacity))
			return false;
	}
	return json_object_size(capacities) > 0;
}

enum slice_use slice_use_of(const json_t *device, const char *driver, unsigned lacks)
{
	if (json_is_true(json_object_get(device, "shared")))
		return SLICE_REPLICA;
	if (!is_by_amount(device, driver))
		return SLICE_WHOLE;
	if (!(lacks & 1U << LACK_AMOUNTS))
		return SLICE_SHARE;
	return slice_part_count(device, driver) > 1 ? SLICE_PART : SLICE_WHOLE;
}

size_t slice_part_count(const json_t *device, const char *driver)
{
	json_t *rules;
	const char *name;
	int64_t n = SLICE_PARTS_MAX;

	if (!is_by_amount(device, driver))
		return 1;
	json_object_foreach(json_object_get(device, "capacity"), name, rules) n =
		MIN_OF(n, read_amount(rules, "value") / read_amount(rules, "default"));
	return (size_t)n;
}

enum slice_use slice_use_of_held(const json_t *held)
{
	unsigned replica;
	size_t length;

	if (json_is_true(json_object_get(held, "share")))
		return SLICE_SHARE;
	if (json_object_get(held, "amounts"))
		return SLICE_PART;
	return offered_id_split(text_of(held, "id"), &length, &replica) ? SLICE_REPLICA
									: SLICE_WHOLE;
}

/* --- what is published --- */

static json_t *quantity(int64_t amount)
{
	char text[QUANTITY_MAX + 1];

	if (amount == CAPACITY_UNSET)
		return NULL;
	quantity_write(amount, text);
	return json_string(text);
}

/* NULL: any amount is possible. */
static json_t *make_policy(const struct capacity *capacity)
{
	json_t *values = capacity->n_values > 0 ? json_array() : NULL;
	json_t *range = NULL;

	for (size_t i = 0; i < capacity->n_values; i++)
		(void)json_array_append_new(values, quantity(capacity->values[i]));
	if (capacity->n_values == 0 && capacity->min != CAPACITY_UNSET)
		range = json_pack("{s:o, s:o*, s:o*}", "min", quantity(capacity->min), "max",
			quantity(capacity->max), "step", quantity(capacity->step));
	return json_pack("{s:o, s:o*, s:o*}", "default", quantity(capacity->fallback),
		"validValues", values, "validRange", range);
}

static json_t *make_one(const json_t *rules, enum slice_use use)
{
	struct capacity capacity;

	if (!read_rules(rules, &capacity))
		return NULL;
	if (use == SLICE_PART)
		capacity.value = capacity.fallback;
	return json_pack("{s:o, s:o*}", "value", quantity(capacity.value), "requestPolicy",
		use == SLICE_SHARE ? make_policy(&capacity) : NULL);
}

json_t *slice_capacity(const json_t *device, const char *driver, enum slice_use use)
{
	json_auto_t *made = json_object();
	json_t *rules, *one;
	const char *name;

	json_object_foreach(json_object_get(device, "capacity"), name, rules)
	{
		one = is_name(name, driver) && json_object_size(made) < CAPACITIES_MAX
			? make_one(rules, use)
			: NULL;
		if (one)
			(void)json_object_set_new(made, name, one);
	}
	return json_object_size(made) > 0 ? json_incref(made) : NULL;
}

json_t *slice_capacity_held(const json_t *held)
{
	json_auto_t *made = json_object();
	json_t *amount;
	const char *name;

	json_object_foreach(json_object_get(held, "amounts"), name, amount)(void)
		json_object_set_new(made, name,
			json_pack("{s:o}", "value", quantity(json_integer_value(amount))));
	return json_object_size(made) > 0 ? json_incref(made) : NULL;
}

static json_t *take_amounts(const json_t *device, const char *driver, const char *key)
{
	json_t *amounts = json_object(), *rules;
	const char *name;

	json_object_foreach(json_object_get(device, "capacity"), name, rules)
	{
		if (is_name(name, driver) && read_amount(rules, key) > 0)
			(void)json_object_set(amounts, name, json_object_get(rules, key));
	}
	return amounts;
}

json_t *slice_totals(const json_t *device, const char *driver)
{
	return take_amounts(device, driver, "value");
}

json_t *slice_part_amounts(const json_t *device, const char *driver)
{
	return take_amounts(device, driver, "default");
}
