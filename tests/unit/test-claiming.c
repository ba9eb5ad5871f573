/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer that cannot be used, for want of memory or otherwise, is asked for again.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/plugin/claiming.h"
#include "proto/plugin/plugin.h"

/* What the process's main() has, which is not asked for anything here. */
const struct service_events plugin_service_events;

void plugin_send(struct plugin *plugin, const struct control_message *message)
{
	fail();
}

void plugin_end_session(struct plugin *plugin, const char *why)
{
	fail();
}

static void test_answer_that_cannot_be_read(void **state)
{
	_cleanup_control_ struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_OWNERS);
	struct plugin plugin = { .claiming = { .number = 7, .waiting = true } };
	int enabled = SD_EVENT_OFF;

	assert_int_equal(sd_event_new(&plugin.event), 0);
	plugin.claiming.text = strdup("claims");
	message.number = 7;
	message.fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(claiming_answered(&plugin, &message), 0);
	assert_true(plugin.claiming.waiting);
	assert_null(plugin.claiming.text);
	assert_non_null(plugin.claiming.retry);
	assert_true(sd_event_source_get_enabled(plugin.claiming.retry, &enabled) > 0);
	/* Of an older question. */
	message.number = 6;
	assert_int_equal(claiming_answered(&plugin, &message), 0);
	claiming_done(&plugin.claiming);
	sd_event_unref(plugin.event);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answer_that_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
