/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pause that the reads of claims share while the API server fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dra/dra-api.h"

static const struct dra_answer failure = { .failure = "no answer" };
static const struct dra_answer success = { .code = 200 };

/* Eight requests of one connection fail one after the other when it breaks. */
static uint64_t break_connection(struct dra_outage *outage, uint64_t now)
{
	for (int i = 0; i < 8; i++)
		assert_true(dra_api_note_outage(outage, &failure, now + i));
	return outage->until - (now + 7);
}

static void test_one_broken_connection(void **state)
{
	struct dra_outage outage = { 0 };
	uint64_t now = 1000 * USEC_PER_SEC;

	assert_int_equal(break_connection(&outage, now), 50 * USEC_PER_MSEC);
	assert_int_equal(break_connection(&outage, outage.until), 100 * USEC_PER_MSEC);
	for (int i = 0; i < 10; i++)
		assert_true(dra_api_note_outage(&outage, &failure, now = outage.until));
	assert_int_equal(outage.until - now, USEC_PER_SEC);
	assert_false(dra_api_note_outage(&outage, &success, now));
	assert_int_equal(outage.until, 0);
	assert_int_equal(break_connection(&outage, now), 50 * USEC_PER_MSEC);
}

static void test_retry_after(void **state)
{
	struct dra_answer busy = { .code = 429, .failure = "429", .retry_after = 3 };
	struct dra_outage outage = { 0 };
	uint64_t now = 1000 * USEC_PER_SEC;

	assert_true(dra_api_note_outage(&outage, &busy, now));
	assert_int_equal(outage.until, now + 3 * USEC_PER_SEC);
	/* Another failure does not end the pause earlier. */
	assert_true(dra_api_note_outage(&outage, &failure, now + 1));
	assert_int_equal(outage.until, now + 3 * USEC_PER_SEC);
	busy.retry_after = UINT64_MAX;
	assert_true(dra_api_note_outage(&outage, &busy, now + 1));
	assert_int_equal(outage.until, now + 1 + 5 * USEC_PER_SEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_broken_connection),
		cmocka_unit_test(test_retry_after),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
