/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What must hold for every error text, with any bytes in names.
 */

#include "common/utf8.h"

/* The error has these words, and nothing that a journal or a pod's event cannot show. */
static inline void expect_words(const char *said, const char *words)
{
	assert_true(utf8_is_valid(said));
	for (const char *p = said; *p; p++)
		assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
	if (!strstr(said, words))
		fail_msg("\"%s\" is not in \"%s\"", words, said);
}
