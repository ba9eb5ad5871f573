/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the running kernel, which sends one for a write to a device's `uevent` file.
 * complaints.md: R7.
 */
#include "drivers/host/uevent.h"

#include "host-fixture.h"

#define FILE_OF_NULL "/sys/devices/virtual/mem/null/uevent"
#define FILE_OF_TTY  "/sys/devices/virtual/tty/tty/uevent"

static unsigned told;

static void on_uevent(void *userdata)
{
	told++;
}

static bool trigger(const char *file)
{
	_cleanup_close_ int fd = open(file, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, "change", 6) == 6;
}

static struct uevents *listen_for(const char *subsystem)
{
	struct uevents *uevents;

	assert_int_equal(uevents_new(host_event, on_uevent, NULL, &uevents), 0);
	assert_false(uevents_wanted(uevents));
	assert_int_equal(uevents_want(uevents, subsystem), 0);
	assert_true(uevents_wanted(uevents));
	told = 0;
	return uevents;
}

static void test_events_arrive(void **state)
{
	struct uevents *uevents = listen_for("mem");

	if (!trigger(FILE_OF_NULL)) {
		uevents_free(uevents);
		skip();
	}
	RUN_UNTIL(told > 0);
	uevents_free(uevents);
}

static void test_filtered(void **state)
{
	struct uevents *uevents = listen_for("mem");
	unsigned before;

	if (!trigger(FILE_OF_TTY)) {
		uevents_free(uevents);
		skip();
	}
	run_for(200 * USEC_PER_MSEC);
	assert_int_equal(told, 0);

	/* One more subsystem; events of the earlier ones still arrive. */
	assert_int_equal(uevents_want(uevents, "tty"), 0);
	assert_true(trigger(FILE_OF_TTY));
	RUN_UNTIL(told > 0);
	before = told;
	assert_true(trigger(FILE_OF_NULL));
	RUN_UNTIL(told > before);
	uevents_free(uevents);
}

static void test_all(void **state)
{
	struct uevents *uevents = listen_for("mem");

	assert_int_equal(uevents_want(uevents, NULL), 0);
	assert_int_equal(uevents_want(uevents, "mem"), 0);
	if (!trigger(FILE_OF_TTY)) {
		uevents_free(uevents);
		skip();
	}
	RUN_UNTIL(told > 0);
	uevents_free(uevents);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_events_arrive, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_filtered, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_all, host_setup, host_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
