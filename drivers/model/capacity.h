/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The key `capacity`: what a device has of something that claims of Dynamic Resource Allocation
 * share by amount, and which amounts they may get. The rules are those of k8s.io/api/resource/v1
 * (CapacityRequestPolicy): the API server refuses a whole ResourceSlice that breaks one.
 */

#include "common/error.h"
#include "drivers/model/option.h"

struct device;

/* An entry of the key. Amounts are quantities; NULL: not given. */
struct declared_capacity {
	struct origin origin;
	char *name;
	char *value; /* template; NULL: the driver reports it */
	char *min, *step, *max, *fallback;
	struct strings values;
};

/* CapacityRequestPolicyDiscreteMaxOptions. */
#define CAPACITY_VALUES_MAX 10
#define CAPACITY_UNSET      (-1)

/* How many capacities a resource may declare, and a program may print for a device. */
#define CAPACITIES_MAX 8

struct capacity {
	int64_t value; /* what the device has */
	/* The amount of a claim that names none; and the amounts that others may name: from min to
	 * max in steps, or one of the values. Any amount if all are CAPACITY_UNSET. */
	int64_t fallback;
	int64_t min, step, max;
	int64_t values[CAPACITY_VALUES_MAX];
	size_t n_values;
};

/* What the device has with that value and those rules: the value is rounded down to a multiple of
 * the step. Returns 0, or -EINVAL with the broken rule: `"min" ... is ...`. */
int capacity_make(const struct declared_capacity *declared, int64_t value, struct capacity *ret,
	struct error *error);

/* Checks what may come from anywhere, by the same rules. */
int capacity_check(const struct capacity *capacity, struct error *error);

/* Adds to the report which rules the declaration breaks, independent of devices that are not
 * known. `key`: its place. */
void capacity_check_declared(
	const struct declared_capacity *declared, const char *key, struct report *report);

/* The device's own variable for a capacity: what it has of it, as a number. */
#define CAPACITY_VARIABLE "capacity:"
/* And what its program has printed. */
#define CAPACITY_PRINTED "printed:"

/* What a container gets of a device's capacities, if that is not all. */
struct amount {
	const char *id; /* of the device */
	const char *name;
	int64_t amount;
};
struct amounts {
	struct amount *items;
	size_t count;
};

/* What the container gets of the device's capacity; CAPACITY_UNSET: the device does not have it.
 * `amounts` may be NULL. */
int64_t amounts_get(const struct amounts *amounts, const struct device *device, const char *name);

/* What the device has of the capacity; CAPACITY_UNSET: that is unknown. */
int64_t capacity_of(const struct device *device, const char *prefix, const char *name);
