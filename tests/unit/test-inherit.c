/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One inventory taking the place of another, as at a reload: health found by the same probes goes
 * on, and removed devices stay listed or are dropped as asked.
 */
#include "host-fixture.h"

#include <sys/mman.h>

#include "common/log.h"
#include "drivers/inventory/inventory.h"

struct side {
	struct config *config;
	struct inventory *inventory;
};

static struct side old, new;

static int setup(void **state)
{
	log_setup("test-inherit", LOG_TARGET_TEXT, LOG_CRIT);
	return host_setup(state);
}

static int teardown(void **state)
{
	struct side *sides[] = { &new, &old };

	for (size_t i = 0; i < ARRAY_SIZE(sides); i++) {
		sides[i]->inventory = inventory_free(sides[i]->inventory);
		sides[i]->config = config_free(sides[i]->config);
	}
	return host_teardown(state);
}

static void begin(struct side *side, const char *text)
{
	side->config = declare(text);
	assert_int_equal(inventory_new(host_event, declaration_of(side->config), host_root, NULL,
				 NULL, &side->inventory),
		0);
}

static void start(struct side *side)
{
	struct error error;

	if (inventory_start(side->inventory, &error) < 0)
		fail_msg("%s", error.message);
}

static void replace(const char *text, bool keep_gone)
{
	begin(&new, text);
	assert_int_equal(inventory_inherit(new.inventory, old.inventory, keep_gone), 0);
	start(&new);
}

static size_t count_healthy(struct side *side)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(side->inventory);
	size_t n = 0;

	for (size_t i = 0; i < snapshot->n_units; i++)
		n += snapshot->units[i].healthy;
	return n;
}

static size_t count(struct side *side)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(side->inventory);

	return snapshot->n_units;
}

#define TRUE_PROBE "{ probe = \"exec\"; command = [ \"/bin/true\" ]; interval = 1; "

static void test_probed_devices_stay_healthy(void **state)
{
	_cleanup_snapshot_ struct snapshot *before = NULL, *after = NULL;

	begin(&old,
		"driver = \"static\"; match = ( { count = 3; } ); health = ( " TRUE_PROBE "} );");
	start(&old);
	assert_int_equal(count_healthy(&old), 0);
	RUN_UNTIL(count_healthy(&old) == 3);
	/* Another threshold is no reason to doubt what was found; another command is. */
	replace("driver = \"static\"; match = ( { count = 4; } ); health = ( " TRUE_PROBE
		"fail_after = 2; } );",
		true);
	assert_int_equal(count_healthy(&new), 3);
	before = inventory_snapshot(old.inventory);
	after = inventory_snapshot(new.inventory);
	assert_int_equal(before->units[0].since, after->units[0].since);
	RUN_UNTIL(count_healthy(&new) == 4);
}

static void test_other_probe_starts_again(void **state)
{
	begin(&old,
		"driver = \"static\"; match = ( { count = 1; } ); health = ( " TRUE_PROBE "} );");
	start(&old);
	RUN_UNTIL(count_healthy(&old) == 1);
	replace("driver = \"static\"; match = ( { count = 1; } ); health = ( { probe = \"exec\"; "
		"command = [ \"/bin/false\" ]; } );",
		true);
	assert_int_equal(count_healthy(&new), 0);
}

static void test_recover_never_survives(void **state)
{
	static const char text[] =
		"driver = \"static\"; match = ( { count = 1; } ); health = ( { probe = \"file\"; path "
		"= \"/health\"; healthy = \"ok\"; recover = \"never\"; } );";

	host_write("/health", "broken");
	begin(&old, text);
	start(&old);
	assert_int_equal(count_healthy(&old), 0);
	host_write("/health", "ok");
	replace(text, true);
	assert_int_equal(count_healthy(&new), 0);
}

static void test_removed_devices(void **state)
{
	static const char text[] = "driver = \"path\"; match = \"/dev/tty*\";";

	host_mknod("/dev/tty0");
	host_mknod("/dev/tty1");
	begin(&old, text);
	start(&old);
	host_remove("/dev/tty1");
	RUN_UNTIL(count_healthy(&old) == 1);
	replace(text, true);
	assert_int_equal(count(&new), 2);
	assert_int_equal(count_healthy(&new), 1);
	host_mknod("/dev/tty1");
	RUN_UNTIL(count_healthy(&new) == 2);
	assert_int_equal(count(&new), 2);
}

static void test_removed_devices_are_dropped(void **state)
{
	host_mknod("/dev/tty0");
	host_mknod("/dev/tty1");
	begin(&old, "driver = \"path\"; match = \"/dev/tty*\";");
	start(&old);
	host_remove("/dev/tty1");
	RUN_UNTIL(count_healthy(&old) == 1);
	replace("driver = \"path\"; match = \"/dev/tty0\";", false);
	assert_int_equal(count(&new), 1);
}

/* Through the file that survives a process. */
static void pass_on(struct saved_state **ret)
{
	_cleanup_close_ int fd = memfd_create("saved-state", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(inventory_write(old.inventory, 0, fd), 0);
	assert_int_equal(saved_state_read(fd, ret), 0);
}

static void test_next_process_restores(void **state)
{
	static const char text[] =
		"driver = \"static\"; match = ( { count = 2; } ); health = ( { probe = \"file\"; path "
		"= \"/health/${id}\"; healthy = \"ok\"; recover = \"reboot\"; missing = "
		"\"healthy\"; } );";
	_cleanup_snapshot_ struct snapshot *before = NULL, *after = NULL;
	struct saved_state *saved;

	host_mkdir("/health");
	host_write("/health/unit-1", "ECC error");
	begin(&old, text);
	start(&old);
	assert_int_equal(count_healthy(&old), 1);
	host_remove("/health/unit-1");
	begin(&new, text);
	pass_on(&saved);
	inventory_restore(new.inventory, saved);
	start(&new);
	before = inventory_snapshot(old.inventory);
	after = inventory_snapshot(new.inventory);
	assert_true(after->units[0].healthy);
	assert_false(after->units[1].healthy);
	assert_string_equal(after->units[1].reason, "ECC error");
	assert_int_equal(after->units[1].since, before->units[1].since);
}

/* A program that takes long to answer again is no reason to doubt its last answer. */
static void test_next_process_trusts_what_works(void **state)
{
	static const char text[] =
		"driver = \"static\"; match = ( { count = 1; } ); health = ( { probe = \"exec\"; "
		"command = [ \"/bin/true\" ]; interval = 3600; } );";
	struct saved_state *saved;

	begin(&old, text);
	start(&old);
	RUN_UNTIL(count_healthy(&old) == 1);
	begin(&new, text);
	pass_on(&saved);
	inventory_restore(new.inventory, saved);
	start(&new);
	assert_int_equal(count_healthy(&new), 1);
}

/* Whether the saved result of the only probe of unit-0 is this one. */
static bool is_saved(bool healthy, unsigned streak, const char *reason)
{
	_cleanup_saved_state_ struct saved_state *saved = NULL;
	const struct saved_unit *unit;
	const struct probe_result *result;

	pass_on(&saved);
	assert_int_equal(saved->n_units, 3);
	/* In the same state as the one before, so that the file has only its id. */
	assert_true(saved_state_find(saved, "unit-2")->healthy);
	assert_int_equal(saved_state_find(saved, "unit-2")->n_results, 1);
	assert_int_equal(
		saved_state_find(saved, "unit-2")->since, saved_state_find(saved, "unit-1")->since);
	unit = saved_state_find(saved, "unit-0");
	assert_non_null(unit);
	assert_int_equal(unit->n_results, 1);
	result = &unit->results[0].result;
	assert_int_equal(unit->healthy, result->healthy);
	return result->healthy == healthy && result->streak == streak &&
		(reason ? result->reason && streq(result->reason, reason) : !result->reason);
}

static void test_results_are_saved(void **state)
{
	host_mkdir("/health");
	host_write("/health/unit-0", "ok");
	begin(&old,
		"driver = \"static\"; match = ( { count = 3; } ); health = ( { probe = \"file\"; "
		"path = \"/health/${id}\"; healthy = \"ok\"; missing = \"healthy\"; "
		"recover_after = 2; interval = 3600; } );");
	start(&old);
	assert_true(is_saved(true, 0, NULL));
	host_replace("/health/unit-0", "ECC error");
	RUN_UNTIL(count_healthy(&old) == 2);
	assert_true(is_saved(false, 0, "ECC error"));
	host_replace("/health/unit-0", "another error");
	RUN_UNTIL(is_saved(false, 0, "another error"));
	/* A first good result changes nothing but how many are needed. */
	host_replace("/health/unit-0", "ok");
	RUN_UNTIL(is_saved(false, 1, "another error"));
	host_replace("/health/unit-0", "ok");
	RUN_UNTIL(count_healthy(&old) == 3);
	assert_true(is_saved(true, 0, NULL));
}

static bool has_saved(const char *id)
{
	_cleanup_saved_state_ struct saved_state *saved = NULL;

	pass_on(&saved);
	return saved_state_find(saved, id);
}

/* Until a scan has been complete, saved devices may be missing from it. */
static void test_what_is_not_found_is_not_left_out(void **state)
{
	struct saved_state *remembered;
	struct saved_unit *unit;

	begin(&old, "driver = \"static\"; match = ( { count = 1; } );");
	assert_int_equal(saved_state_new(&remembered), 0);
	assert_int_equal(saved_state_add(remembered, "later", true, 1, &unit), 0);
	inventory_restore(old.inventory, remembered);
	assert_true(has_saved("later"));
	start(&old);
	assert_false(has_saved("later"));
	assert_true(has_saved("unit-0"));
}

static void test_hysteresis_goes_on(void **state)
{
	static const char text[] =
		"driver = \"static\"; match = ( { count = 1; } ); health = ( { probe = \"file\"; path "
		"= \"/health\"; healthy = \"ok\"; recover_after = 2; interval = 3600; } );";
	struct saved_state *saved;

	host_write("/health", "broken");
	begin(&old, text);
	start(&old);
	host_replace("/health", "ok");
	begin(&new, text);
	pass_on(&saved);
	inventory_restore(new.inventory, saved);
	start(&new);
	/* One good result is not two. */
	assert_int_equal(count_healthy(&new), 0);
	host_replace("/health", "ok");
	RUN_UNTIL(count_healthy(&new) == 1);
}

static void test_foreign_memory_is_refused(void **state)
{
	static const struct {
		const char *text;
		int result;
	} cases[] = {
		{ "", -EBADMSG },
		{ "[]", -EBADMSG },
		{ "{\"boot\":\"another\",\"units\":[", -EBADMSG },
		{ "{\"boot\":\"another\",\"units\":[]}{}", -EBADMSG },
		{ "{\"boot\": 1, \"units\": []}", -EBADMSG },
		{ "{\"boot\": \"another\", \"units\": []}", -ESTALE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_close_ int fd = memfd_create("saved-state", MFD_CLOEXEC);
		struct saved_state *saved = NULL;

		assert_int_equal(
			write(fd, cases[i].text, strlen(cases[i].text)), strlen(cases[i].text));
		assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
		assert_int_equal(saved_state_read(fd, &saved), cases[i].result);
		assert_null(saved);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_probed_devices_stay_healthy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_probe_starts_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_recover_never_survives, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removed_devices, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removed_devices_are_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_next_process_restores, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_next_process_trusts_what_works, setup, teardown),
		cmocka_unit_test_setup_teardown(test_results_are_saved, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_what_is_not_found_is_not_left_out, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hysteresis_goes_on, setup, teardown),
		cmocka_unit_test_setup_teardown(test_foreign_memory_is_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
