/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a device that could not be cleaned is tried again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/control-child.h"
#include "supervisor/books/cleaning-run.h"
#include "supervisor/children/child.h"

static struct cleaning cleaning;
static struct resource resource = { .name = (char *)"v.e/gpu" },
		       other = { .name = (char *)"v.e/other" };
static struct child child = { .resource = &resource }, other_child = { .resource = &other };

static int teardown(void **state)
{
	dirty_devices_done(&cleaning.devices);
	return 0;
}

static struct dirty *add(const char *id)
{
	struct dirty *dirty;

	assert_int_equal(dirty_devices_add(&cleaning.devices, resource.name, id, &dirty), 0);
	dirty->clean = false;
	return dirty;
}

/* In how many seconds a device is tried again after that answer. */
static uint64_t pause_after(struct dirty *dirty, enum child_cleaned how)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_CLEANED);
	uint64_t before = now_usec(CLOCK_MONOTONIC);

	message.phase = how;
	message.number = dirty->number = ++cleaning.number;
	assert_true(cleaning_take(&cleaning, &child, &message));
	assert_int_equal(dirty->number, 0);
	assert_true(dirty->again >= before);
	return (dirty->again - before) / USEC_PER_SEC;
}

/* The pause grows only for a device that is not there, until its process reports its devices. */
static void test_pauses(void **state)
{
	static const uint64_t pauses[] = { 2, 4, 8, 16, 32, 60, 60 };
	struct dirty *absent = add("gpu-0"), *late = add("gpu-1");

	for (size_t round = 0; round < 2; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(pauses); i++) {
			assert_int_equal(pause_after(absent, CHILD_CLEANED_ABSENT), pauses[i]);
			assert_int_equal(pause_after(late, CHILD_CLEANED_LATER), 1);
		}
		cleaning_changed(&cleaning, &other_child);
		assert_true(absent->again > now_usec(CLOCK_MONOTONIC));
		cleaning_changed(&cleaning, &child);
		assert_int_equal(absent->again, 0);
	}
	assert_true(late->again > now_usec(CLOCK_MONOTONIC));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_pauses, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
