/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which changes of devices are logged, and how.
 */
#include "inventory-fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/log.h"
#include "proto/plugin/log-changes.h"

#define UNITS    "driver = \"static\"; match = ( { count = 4; } ); "
#define ASSIGNED "excluded by the configuration, but assigned to a pod\n"

/* The list of a configuration while the kubelet has booked these ids, one on each line. */
static struct snapshot *list(const char *text, const char *booked)
{
	start(text);
	assert_true(set_booked(inventory, booked, 0) >= 0);
	return inventory_snapshot(inventory);
}

static const char *logged(const struct snapshot *before, const struct snapshot *after)
{
	_cleanup_close_ int fd = memfd_create("log", MFD_CLOEXEC);
	_cleanup_close_ int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	static char text[4096];
	ssize_t n;

	assert_true(fd >= 0 && saved >= 0);
	assert_true(dup2(fd, STDERR_FILENO) >= 0);
	log_setup("t", LOG_TARGET_TEXT, LOG_INFO);
	changes_log(before, after);
	log_setup("t", LOG_TARGET_TEXT, LOG_CRIT);
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	n = pread(fd, text, sizeof(text) - 1, 0);
	assert_true(n >= 0);
	text[n] = '\0';
	return text;
}

static void expect(const char *text_before, const char *booked_before, const char *text_after,
	const char *booked_after, const char *records)
{
	_cleanup_snapshot_ struct snapshot *before = list(text_before, booked_before);
	_cleanup_snapshot_ struct snapshot *after = list(text_after, booked_after);

	assert_string_equal(logged(before, after), records);
}

/* An excluded device stays listed for its pod; that of another device is no news. */
static void test_exclude(void **state)
{
	expect(UNITS, "unit-1", UNITS "exclude = \"unit-1\";", "unit-1",
		"t: device \"unit-1\" is unhealthy: " ASSIGNED);
	expect(UNITS "exclude = \"unit-1\";", "unit-1", UNITS, "unit-1",
		"t: device \"unit-1\" is healthy again\n");
	expect(UNITS "exclude = \"unit-1\";", "unit-1",
		UNITS "exclude = ( \"unit-1\", \"unit-3\" );", "unit-1",
		"t: device \"unit-3\" is no longer offered\n");
	expect(UNITS "exclude = ( \"unit-1\", \"unit-3\" );", "unit-1\nunit-3",
		UNITS "exclude = \"unit-1\";", "unit-1\nunit-3",
		"t: device \"unit-3\" is healthy again\n");
	/* No pod uses it any more. */
	expect(UNITS "exclude = \"unit-1\";", "unit-1", UNITS "exclude = \"unit-1\";", "",
		"t: device \"unit-1\" is no longer offered\n");
}

static void test_exclude_shared(void **state)
{
#define SHARED UNITS "share = { replicas = 2; }; "
	expect(SHARED, "unit-1#1", SHARED "exclude = \"unit-1\";", "unit-1#1",
		"t: device \"unit-1#1\" is unhealthy: " ASSIGNED);
	expect(SHARED "exclude = \"unit-1\";", "unit-1#1", SHARED, "unit-1#1",
		"t: device \"unit-1\" is healthy again\n");
	expect(SHARED "exclude = \"unit-1\";", "unit-1#1",
		SHARED "exclude = ( \"unit-0\", \"unit-1\" );", "unit-1#1",
		"t: device \"unit-0\" is no longer offered\n");
	/* The unit is listed beside an id that it had. */
	expect(UNITS, "unit-1", SHARED, "unit-1",
		"t: device \"unit-1\" is unhealthy: not offered under this id, because `share` has "
		"changed, but assigned to a pod\n");
}

/* A device that another resource gives up does not appear: it was there all the time. */
static void test_owner(void **state)
{
	_cleanup_snapshot_ struct snapshot *before = NULL, *after = NULL, *less = NULL;

	less = list(UNITS "exclude = \"unit-0\";", "");
	before = list(UNITS, "");
	assert_string_equal(logged(less, before), "t: device \"unit-0\" appeared\n");
	assert_int_equal(inventory_set_owners(inventory, "unit-1\tv.e/other\n"), 1);
	after = inventory_snapshot(inventory);
	assert_string_equal(logged(before, after),
		"t: device \"unit-1\" is not offered: claimed by v.e/other\n");
	assert_string_equal(logged(after, before), "t: device \"unit-1\" is offered\n");
}

static void test_notices(void **state)
{
#define NOTICES                                                                                     \
	UNITS "health = ( { probe = \"exists\"; path = \"/none\"; severity = \"notice\"; reason = " \
	      "\"temperature\"; } );"
	expect(UNITS, "", NOTICES "cordon = ( \"unit-1\", \"unit-2\", \"unit-3\" );", "",
		"t: device \"unit-0\" has a notice: temperature: /none is missing\n"
		"t: device \"unit-1\" is unhealthy: cordoned\n"
		"t: device \"unit-2\" is unhealthy: cordoned\n"
		"t: device \"unit-3\" is unhealthy: cordoned\n");
	expect(NOTICES "exclude = ( \"unit-1\", \"unit-2\", \"unit-3\" );", "",
		UNITS "exclude = ( \"unit-1\", \"unit-2\", \"unit-3\" );", "",
		"t: device \"unit-0\" has no notice any more\n");
	expect(NOTICES, "", NOTICES, "", "");
}

/* A device that waits for the first result of its probe has neither failed nor recovered. */
static void test_not_probed_yet(void **state)
{
	_cleanup_snapshot_ struct snapshot *waiting = NULL, *healthy = NULL, *failed = NULL;

	waiting = list(UNITS "health = ( { probe = \"exec\"; command = \"/bin/true\"; } );", "");
	assert_string_equal(waiting->units[0].reason, "not probed yet");
	healthy = list(UNITS, "");
	failed = list(UNITS "exclude = \"unit-1\";", "unit-1");
	assert_string_equal(logged(NULL, waiting), "");
	assert_string_equal(logged(waiting, healthy), "");
	assert_string_equal(logged(healthy, waiting), "");
	/* It is not known any more whether it has failed. */
	assert_string_equal(
		logged(failed, waiting), "t: device \"unit-1\" waits for a result of its probes\n");
	assert_string_equal(
		logged(waiting, failed), "t: device \"unit-1\" is unhealthy: " ASSIGNED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_exclude, host_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(
			test_exclude_shared, host_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_owner, host_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_notices, host_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(
			test_not_probed_yet, host_setup, inventory_teardown),
	};

	log_setup("t", LOG_TARGET_TEXT, LOG_CRIT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
