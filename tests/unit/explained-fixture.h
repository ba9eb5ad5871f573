/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a scan of the tree that stands for a machine explains: entries that find nothing.
 */

#include "host-fixture.h"

#include "drivers/inventory/listing.h"

/* The explanations of a declaration, "\n" behind each. */
static inline void expect_explained(const char *text, const char *expected)
{
	_cleanup_config_ struct config *declared = declare(text);
	_cleanup_scan_ struct scan listed = { .root = host_root };
	char explained[4096] = "";
	struct error error;

	if (list_devices(declaration_of(declared), &listed, &error) < 0)
		fail_msg("%s", error.message);
	for (size_t i = 0; i < listed.explanations.count; i++)
		(void)strcat(strcat(explained, listed.explanations.items[i]), "\n");
	assert_string_equal(explained, expected);
}
