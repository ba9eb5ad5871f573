/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which amounts of a capacity are valid. A step makes the smallest amount a step by
 * default; a claim that names no amount gets all by default.
 */
#include "drivers/model/capacity.h"

#include <inttypes.h>

#include "drivers/model/device.h"
#include "drivers/model/quantity.h"

/* An amount as a person wrote it, or would write it. */
struct shown {
	char text[QUANTITY_MAX + 1];
};

static struct shown show(int64_t amount)
{
	struct shown shown;

	quantity_write(amount, shown.text);
	return shown;
}

static int check_values(const struct capacity *capacity, struct error *error)
{
	bool listed = false;

	for (size_t i = 0; i < capacity->n_values; i++) {
		if (i > 0 && capacity->values[i] <= capacity->values[i - 1])
			return error_set(error, -EINVAL,
				"\"values\" must ascend, and %s is not more than %s",
				show(capacity->values[i]).text, show(capacity->values[i - 1]).text);
		listed |= capacity->values[i] == capacity->fallback;
	}
	if (capacity->values[0] < 0 || capacity->values[capacity->n_values - 1] > capacity->value)
		return error_set(error, -EINVAL, "\"values\" must be from 0 to the value, %s",
			show(capacity->value).text);
	return listed ? 0
		      : error_set(error, -EINVAL, "\"default\" (%s) must be one of the values",
				show(capacity->fallback).text);
}

static int check_steps(const struct capacity *capacity, struct error *error)
{
	const struct {
		const char *key;
		int64_t amount;
	} multiples[] = { { "min", capacity->min }, { "default", capacity->fallback },
		{ "max", capacity->max } };

	if (capacity->step == CAPACITY_UNSET)
		return 0;
	if (capacity->step <= 0)
		return error_set(error, -EINVAL, "\"step\" must be more than 0");
	for (size_t i = 0; i < ARRAY_SIZE(multiples); i++)
		if (multiples[i].amount != CAPACITY_UNSET &&
			multiples[i].amount % capacity->step != 0)
			return error_set(error, -EINVAL,
				"\"%s\" (%s) must be a multiple of \"step\" (%s)", multiples[i].key,
				show(multiples[i].amount).text, show(capacity->step).text);
	if (capacity->step > capacity->value - capacity->min)
		return error_set(error, -EINVAL,
			"\"min\" (%s) and \"step\" (%s) together must not be more than the value, "
			"which is %s",
			show(capacity->min).text, show(capacity->step).text,
			show(capacity->value).text);
	return 0;
}

static int check_range(const struct capacity *capacity, struct error *error)
{
	int64_t max = capacity->max == CAPACITY_UNSET ? capacity->value : capacity->max;

	if (capacity->min < 0 || max < 0)
		return error_set(error, -EINVAL, "must not be negative");
	if (max > capacity->value)
		return error_set(error, -EINVAL,
			"\"max\" (%s) must not be more than the value, which is %s", show(max).text,
			show(capacity->value).text);
	if (capacity->min > max)
		return error_set(error, -EINVAL, "\"min\" (%s) must not be more than %s (%s)",
			show(capacity->min).text,
			capacity->max == CAPACITY_UNSET ? "the value" : "\"max\"", show(max).text);
	if (capacity->fallback < capacity->min || capacity->fallback > max)
		return error_set(error, -EINVAL, "\"default\" (%s) must be from %s to %s",
			show(capacity->fallback).text, show(capacity->min).text, show(max).text);
	return check_steps(capacity, error);
}

int capacity_check(const struct capacity *capacity, struct error *error)
{
	if (capacity->value <= 0)
		return error_set(error, -EINVAL, "the value must be more than 0");
	if (capacity->fallback <= 0 || capacity->fallback > capacity->value)
		return error_set(error, -EINVAL,
			"\"default\" (%s) must be more than 0, and not more than the value, which "
			"is %s",
			show(capacity->fallback).text, show(capacity->value).text);
	if (capacity->n_values > 0)
		return check_values(capacity, error);
	return capacity->min == CAPACITY_UNSET ? 0 : check_range(capacity, error);
}

/* The form of a declared amount was checked when it was read. */
static int64_t amount_of(const char *text)
{
	int64_t amount;

	return text && quantity_read(text, &amount) >= 0 ? amount : CAPACITY_UNSET;
}

int capacity_make(const struct declared_capacity *declared, int64_t value, struct capacity *ret,
	struct error *error)
{
	struct capacity capacity = {
		.value = value,
		.fallback = amount_of(declared->fallback),
		.min = amount_of(declared->min),
		.step = amount_of(declared->step),
		.max = amount_of(declared->max),
	};
	int r;

	for (size_t i = 0; i < declared->values.count && i < CAPACITY_VALUES_MAX; i++)
		capacity.values[capacity.n_values++] = amount_of(declared->values.items[i]);
	if (capacity.step > 0)
		capacity.value -= capacity.value % capacity.step;
	/* Kubernetes requires a minimum where there is a range. */
	if (capacity.min == CAPACITY_UNSET)
		capacity.min = capacity.step != CAPACITY_UNSET ? capacity.step
			: capacity.max != CAPACITY_UNSET       ? 1
							       : CAPACITY_UNSET;
	if (capacity.fallback == CAPACITY_UNSET)
		capacity.fallback = capacity.value;
	r = capacity_check(&capacity, error);
	if (r < 0)
		return r;
	*ret = capacity;
	return 0;
}

void capacity_check_declared(
	const struct declared_capacity *declared, const char *key, struct report *report)
{
	bool known = declared->value && !strchr(declared->value, '$');
	int64_t value = known ? amount_of(declared->value) : INT64_MAX;
	bool ranged = declared->min || declared->step || declared->max;
	struct capacity capacity;
	struct error error;

	if (known && form_quantity(declared->value, &error) < 0)
		(void)report_add(report, &declared->origin, key, "\"value\" %s", error.message);
	else if (declared->values.count > 0 && ranged)
		(void)report_add(report, &declared->origin, key,
			"has \"values\" and a range: remove \"values\", or \"min\", \"step\" and "
			"\"max\"");
	else if (declared->values.count > CAPACITY_VALUES_MAX)
		(void)report_add(report, &declared->origin, key,
			"has %zu values, the maximum is %d: use a range", declared->values.count,
			CAPACITY_VALUES_MAX);
	else if (!declared->fallback && (declared->max || declared->values.count > 0))
		(void)report_add(report, &declared->origin, key,
			"needs \"default\", because a claim that names no amount cannot get all "
			"with \"%s\"",
			declared->max ? "max" : "values");
	else if (capacity_make(declared, value, &capacity, &error) < 0)
		(void)report_add(report, &declared->origin, key, "%s", error.message);
}

int64_t capacity_of(const struct device *device, const char *prefix, const char *name)
{
	char variable[128];
	const char *value;

	(void)snprintf(variable, sizeof(variable), "%s%s", prefix, name);
	value = device_variable(device, variable);
	return amount_of(value);
}

int64_t amounts_get(const struct amounts *amounts, const struct device *device, const char *name)
{
	for (size_t i = 0; amounts && i < amounts->count; i++)
		if (streq(amounts->items[i].id, device->id) && streq(amounts->items[i].name, name))
			return amounts->items[i].amount;
	return capacity_of(device, CAPACITY_VARIABLE, name);
}
