/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The problems of an inventory's units.
 */

#include "inventory-fixture.h"

/* Why the unit is not healthy; "" if it is. */
static inline const char *reason(size_t unit)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	static char text[512];

	assert_true(unit < snapshot->n_units);
	assert_int_equal(snapshot->units[unit].healthy, !snapshot->units[unit].reason);
	(void)snprintf(text, sizeof(text), "%s", snapshot->units[unit].reason ?: "");
	return text;
}
