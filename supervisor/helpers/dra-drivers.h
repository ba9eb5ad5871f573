/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The DRA drivers by name. Each resource has one (resource_config_driver()), and so does each
 * claim, which keeps its driver when the resource gets another one.
 */

#include <jansson.h>

#include "supervisor/helpers/dra-registrant.h"

struct child;
struct dra_claims;

/* How long a driver stays after its last resource and claim: its slices no longer contain the
 * devices, and a kubelet that has not received the answer about the last claim asks again. */
#define DRA_LINGER_TIME (60 * USEC_PER_SEC)

struct dra_drivers {
	struct manager *manager;
	struct auxiliary *process;
	const struct dra_claims *claims;
	dra_registrant_handler on_change;
	void *userdata;
	struct dra_registrant **items;
	size_t n_items;
	/* private */
	uint64_t last_number;
};

/* The driver with that number or name, or NULL. */
struct dra_registrant *dra_drivers_find(const struct dra_drivers *all, uint64_t number);
struct dra_registrant *dra_drivers_find_name(const struct dra_drivers *all, const char *name);

/* The driver of a resource, or NULL: DRA does not serve it. */
struct dra_registrant *dra_drivers_find_of(
	const struct dra_drivers *all, const struct child *child);

/* Adds drivers that resources and claims need, and notes the resources of each. Returns 0 or
 * -ENOMEM. */
int dra_drivers_update(struct dra_drivers *all);

/* Whether any resource is served by DRA. */
bool dra_drivers_any_resource(const struct dra_drivers *all);

/* Drops drivers that were not needed for DRA_LINGER_TIME. Returns whether there were any: then the
 * process has to be replaced, because gRPC cannot end one of its servers. */
bool dra_drivers_drop_unused(struct dra_drivers *all);

/* When to update, and drop, next (CLOCK_MONOTONIC); USEC_INFINITY: not because of the time. */
uint64_t dra_drivers_next(const struct dra_drivers *all);

/* The drivers for the settings of devplugd-cluster, a new reference. NULL: no memory. */
json_t *dra_drivers_settings(const struct dra_drivers *all);

/* Open the sessions of those that have none; keep them for the next process; end all of them. */
void dra_drivers_open(const struct dra_drivers *all);
void dra_drivers_suspend(const struct dra_drivers *all, const char *why);
void dra_drivers_close(const struct dra_drivers *all, const char *why);

/* See dra_registrant_check(). */
void dra_drivers_check(const struct dra_drivers *all);

/* For display: an object for each driver, the one with that name first, a new reference. NULL: no
 * memory. */
json_t *dra_drivers_describe(const struct dra_drivers *all, const char *first);

/* For metrics: the member "drivers" of dra_numbers(), a new reference. NULL: no memory. */
json_t *dra_drivers_numbers(const struct dra_drivers *all);

void dra_drivers_done(struct dra_drivers *all);
