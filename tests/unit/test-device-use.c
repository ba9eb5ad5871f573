/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a resource's process answers when it is to clean a device.
 */
#include "control-fixture.h"
#include "inventory-fixture.h"
#include "locked-file-fixture.h"

#include "common/log.h"
#include "proto/plugin/device-use.h"

static int supervisor = -EBADF;
static struct device_uses uses;
static struct locked_file file;
static char why[CONTROL_TEXT_MAX]; /* of the last answer */

static int setup(void **state)
{
	log_setup("test-device-use", LOG_TARGET_TEXT, LOG_CRIT);
	supervisor = control_begin();
	assert_int_equal(host_setup(state), 0);
	uses = (struct device_uses){ .event = host_event };
	return 0;
}

static int teardown(void **state)
{
	locked_file_close(&file);
	device_uses_done(&uses);
	(void)close(supervisor);
	return inventory_teardown(state);
}

/* How the process answers that it cleaned the device. */
static uint64_t clean(struct offer *offer, const char *id)
{
	static uint64_t number;
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_CLEAN);
	struct control_message answer;

	message.number = ++number;
	(void)snprintf(message.text, sizeof(message.text), "%s", id);
	device_use_clean(&uses, offer, &message);
	RUN_UNTIL(control_receive_from_child(supervisor, &control_child, &answer) >= 0);
	assert_int_equal(answer.type, CHILD_CLEANED);
	assert_int_equal(answer.number, number);
	(void)snprintf(why, sizeof(why), "%s", answer.text);
	return answer.phase;
}

/* Only a device that is not there is reported as that. */
static void test_answers(void **state)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	struct applied_config applied = { .references = 1 };
	struct offer offer = { .references = 1, .applied_config = &applied };

	host_mknod("/dev/tty1");
	start_booked("driver = \"path\"; match = \"/dev/tty*\"; "
		     "release = { command = ( \"/bin/test\", \"${id}\", \"=\", \"tty1\" ); };",
		"tty2\n");
	applied.declaration = declaration_of(config);
	offer.snapshot = snapshot = inventory_snapshot(inventory);
	assert_int_equal(clean(&offer, "tty1"), CHILD_CLEANED_OK);
	assert_int_equal(clean(&offer, "tty2"), CHILD_CLEANED_ABSENT);
	assert_int_equal(clean(&offer, "tty3"), CHILD_CLEANED_ABSENT);
	assert_int_equal(clean(NULL, "tty1"), CHILD_CLEANED_LATER);
	uses.n_runs = 4;
	assert_int_equal(clean(&offer, "tty1"), CHILD_CLEANED_LATER);
	uses.n_runs = 0;
	host_remove("/dev/tty1");
	RUN_UNTIL(told == 1);
	(void)snapshot_unref(snapshot);
	offer.snapshot = snapshot = inventory_snapshot(inventory);
	assert_int_equal(clean(&offer, "tty1"), CHILD_CLEANED_ABSENT);
}

/* The program of one device hangs in the kernel. */
static void test_hangs(void **state)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	struct applied_config applied = { .references = 1 };
	struct offer offer = { .references = 1, .applied_config = &applied };

	if (!locked_file_open(&file, "/locked", "ok\n", true))
		skip();
	start(made("driver = \"static\"; match = ( { count = 2; } ); release = { timeout = 3; "
		   "command = ( \"/bin/sh\", \"-c\", \"test $$1 != unit-0 || read x <%s/locked\", "
		   "\"sh\", \"${id}\" ); };",
		host_root));
	applied.declaration = declaration_of(config);
	offer.snapshot = snapshot = inventory_snapshot(inventory);
	/* On a busy machine, it may be killed before it hangs, also after the time for that. */
	do
		assert_int_equal(clean(&offer, "unit-0"), CHILD_CLEANED_FAILED);
	while (!strstr(why, "its earlier run still hangs in the kernel"));
	assert_int_equal(clean(&offer, "unit-1"), CHILD_CLEANED_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hangs, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
