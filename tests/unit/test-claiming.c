/* SPDX-License-Identifier: Apache-2.0 */
/*
 * If an answer cannot be used, such as without memory, the question is repeated.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/plugin/claiming.h"

static void on_answer(void *userdata)
{
	fail();
}

static void test_answer_that_cannot_be_read(void **state)
{
	_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(CHILD_OWNERS);
	struct claiming claiming = { .number = 7, .waiting = true, .on_answer = on_answer };
	int enabled = SD_EVENT_OFF;

	assert_int_equal(sd_event_new(&claiming.event), 0);
	claiming.text = strdup("claims");
	message.number = 7;
	message.fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	claiming_answered(&claiming, NULL, &message);
	assert_true(claiming.waiting);
	assert_null(claiming.text);
	assert_non_null(claiming.retry);
	assert_true(sd_event_source_get_enabled(claiming.retry, &enabled) > 0);
	/* An answer to an older question. */
	message.number = 6;
	claiming_answered(&claiming, NULL, &message);
	claiming_done(&claiming);
	sd_event_unref(claiming.event);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answer_that_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
