/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One resource with its inventory, on the host of the test.
 */

#include "host-fixture.h"

static struct config *config;
static struct inventory *inventory;
static unsigned told;          /* how often a change was */
static uint64_t telling_takes; /* processor time of each, in microseconds */

static inline int inventory_teardown(void **state)
{
	inventory = inventory_free(inventory);
	config = config_free(config);
	told = 0;
	telling_takes = 0;
	return host_teardown(state);
}

static inline void on_change(struct inventory *changed, void *userdata)
{
	uint64_t end = now_usec(CLOCK_THREAD_CPUTIME_ID) + telling_takes;

	assert_ptr_equal(changed, inventory);
	assert_ptr_equal(userdata, &told);
	told++;
	while (now_usec(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

/* Starts the inventory of "driver = ...; match = ...;" and further keys, in place of an earlier
 * one. The kubelet has booked the ids, see set_booked(). */
static inline void start_booked(const char *text, const char *ids)
{
	struct error error;

	inventory = inventory_free(inventory);
	config = config_free(config);
	config = declare(text);
	told = 0;
	assert_int_equal(inventory_new(host_event, declaration_of(config), host_root, on_change,
				 &told, &inventory),
		0);
	assert_true(set_booked(inventory, ids, 0) >= 0);
	if (inventory_start(inventory, &error) < 0)
		fail_msg("%s", error.message);
	assert_int_equal(told, 0);
}

static inline void start(const char *text)
{
	start_booked(text, "");
}

static inline const char *seen(void)
{
	return seen_in(inventory);
}

/* Why the last list has a device as unhealthy; "" if it is healthy, "absent" if it is not listed.
 * Valid until the next call. */
static inline const char *reason_of(const char *id)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	static char text[1024];
	unsigned replica;
	size_t unit;

	if (snapshot_find(snapshot, id, &unit, &replica) < 0)
		return "absent";
	(void)snprintf(text, sizeof(text), "%s", snapshot->units[unit].reason ?: "");
	return text;
}

/* Whether the last scan found the device. */
static inline bool is_present(const char *id)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	unsigned replica;
	size_t unit;

	return snapshot_find(snapshot, id, &unit, &replica) >= 0 && snapshot->units[unit].present;
}

/* The reason of a listed device that the last scan did not find; "" if it did. */
static inline const char *loss_of(const char *id)
{
	static char text[512];
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	unsigned replica;
	size_t unit;

	assert_int_equal(snapshot_find(snapshot, id, &unit, &replica), 0);
	(void)snprintf(text, sizeof(text), "%s", snapshot->units[unit].reason ?: "");
	return snapshot->units[unit].present ? "" : text;
}
