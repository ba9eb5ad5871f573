/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inventories over real directories and real inotify: what is reported, when, and what a snapshot
 * has. complaints.md: R8.
 */
#include "inventory-fixture.h"

#include <sys/resource.h>

#include "common/log.h"
#include "common/pace.h"
#include "drivers/inventory/list-size.h"

static int setup(void **state)
{
	log_setup("test-inventory", LOG_TARGET_TEXT, LOG_CRIT);
	return host_setup(state);
}

static void test_hotplug(void **state)
{
	_cleanup_snapshot_ struct snapshot *before = NULL, *after = NULL;

	host_mknod("/dev/tty1");
	start("driver = \"path\"; match = \"/dev/tty*\";");
	before = inventory_snapshot(inventory);
	assert_string_equal(seen(), "tty1 ");
	host_mknod("/dev/other");
	host_mknod("/dev/tty0");
	RUN_UNTIL(told == 1);
	assert_string_equal(seen(), "tty0 tty1 ");

	host_remove("/dev/tty1");
	RUN_UNTIL(told == 2);
	assert_string_equal(seen(), "tty0 tty1? ");
	after = inventory_snapshot(inventory);
	assert_string_equal(after->units[1].reason, "/dev/tty1 has disappeared");
	assert_true(after->units[1].since >= before->units[0].since);
	assert_int_equal(after->generation, before->generation + 2);

	host_mknod("/dev/tty1");
	RUN_UNTIL(told == 3);
	assert_string_equal(seen(), "tty0 tty1 ");
	/* An older snapshot stays as it was. */
	assert_int_equal(before->n_units, 1);
	assert_false(after->units[1].healthy);
}

/* A removed device leaves the list when no container uses it, and not before it is certain that
 * none got it last. */
static void test_drop_removed(void **state)
{
	uint64_t before;

	host_mknod("/dev/tty1");
	host_mknod("/dev/tty2");
	host_mknod("/dev/tty3");
	start("driver = \"path\"; match = \"/dev/tty*\"; share = { replicas = 2; };");
	before = now_usec(CLOCK_MONOTONIC);
	run_for(2 * USEC_PER_MSEC);
	host_remove("/dev/tty1");
	host_remove("/dev/tty2");
	RUN_UNTIL(streq(seen(), "tty1? tty2? tty3 "));
	assert_int_equal(set_booked(inventory, "", before), 0);
	/* The list is the same, but pods lose these devices now. */
	assert_int_equal(set_booked(inventory, "tty1#0\ntty2#1\n", now_usec(CLOCK_MONOTONIC)), 1);
	assert_string_equal(seen(), "tty1? tty2? tty3 ");
	assert_int_equal(set_booked(inventory, "tty2#1\ntty2#0\n", now_usec(CLOCK_MONOTONIC)), 1);
	assert_string_equal(seen(), "tty2? tty3 ");
	assert_int_equal(set_booked(inventory, "", now_usec(CLOCK_MONOTONIC)), 1);
	assert_string_equal(seen(), "tty3 ");
	host_mknod("/dev/tty1");
	RUN_UNTIL(streq(seen(), "tty1 tty3 "));
}

static void test_nothing_there_yet(void **state)
{
	start("driver = \"path\"; match = \"/dev/a/b/c*\";");
	assert_string_equal(seen(), "");
	host_mkdir("/dev/a");
	run_for(50 * USEC_PER_MSEC);
	host_mkdir("/dev/a/b");
	run_for(50 * USEC_PER_MSEC);
	host_mknod("/dev/a/b/c");
	/* Why there is none was reported, too, and has changed on the way. */
	RUN_UNTIL(streq(seen(), "a:b:c "));
	told = 1;

	/* A directory that is replaced is another one at the same path. */
	host_rename("/dev/a", "/dev/old");
	RUN_UNTIL(told == 2);
	assert_string_equal(seen(), "a:b:c? ");
	host_mkdir("/dev/a/b");
	host_mknod("/dev/a/b/c2");
	RUN_UNTIL(told == 3);
	assert_string_equal(seen(), "a:b:c? a:b:c2 ");
	host_remove("/dev/old/b/c");
	host_mknod("/dev/a/b/c");
	RUN_UNTIL(told == 4);
	assert_string_equal(seen(), "a:b:c a:b:c2 ");
}

static void test_link_to_elsewhere(void **state)
{
	host_mkdir("/dev/by-id");
	host_mkdir("/dev/bus");
	host_mknod("/dev/bus/1");
	host_symlink("../bus/1", "/dev/by-id/disk");
	start("driver = \"path\"; match = \"/dev/by-id/*\";");
	host_remove("/dev/bus/1");
	RUN_UNTIL(told == 1);
	assert_string_equal(seen(), "by-id:disk? ");
}

static void test_exclusion_and_topology(void **state)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;

	start("driver = \"static\"; match = ( { count = 12; numa = 1; } ); topology = false;\n"
	      "exclude = ( { id = \"unit-1*\"; }, { id = \"unit-[3-9]\"; } );");
	assert_string_equal(seen(), "unit-0 unit-2 ");
	snapshot = inventory_snapshot(inventory);
	assert_int_equal(snapshot->units[0].device->n_numa, 0);
}

static void test_replicas(void **state)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	char buffer[OFFERED_ID_MAX + 1];
	unsigned replica;
	size_t unit;

	start("driver = \"static\"; match = ( { count = 300; } ); share = { replicas = 12; };");
	snapshot = inventory_snapshot(inventory);
	for (size_t i = 0; i < snapshot->n_units; i++)
		for (unsigned k = 0; k < 12; k++) {
			const char *id = snapshot_offered_id(snapshot, i, k, buffer);

			assert_int_equal(snapshot_find(snapshot, id, &unit, &replica), 0);
			assert_int_equal(unit, i);
			assert_int_equal(replica, k);
		}
	static const char *const wrong[] = { "unit-0", "unit-0#12", "unit-0#", "unit-0#01",
		"unit-0#-1", "unit-0#1 ", "unit-300#0", "#0", "", "unit#0", "unit-0#99999999999999",
		"unit-0#4294967296" };
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(snapshot_find(snapshot, wrong[i], &unit, &replica), -ENOENT);
}

/* A node that many pods share is removed, and is back. */
static void test_shared_node_is_removed(void **state)
{
	_cleanup_snapshot_ struct snapshot *after = NULL;
	char buffer[OFFERED_ID_MAX + 1];

	host_mknod("/dev/kvm");
	start("preset = \"kvm\"; share = { replicas = 81920; };");
	assert_string_equal(seen(), "kvm ");
	host_remove("/dev/kvm");
	RUN_UNTIL(streq(seen(), "kvm? "));
	host_mknod("/dev/kvm");
	RUN_UNTIL(streq(seen(), "kvm "));
	after = inventory_snapshot(inventory);
	assert_int_equal(after->units[0].replicas, 81920);
	assert_string_equal(snapshot_offered_id(after, 0, 81919, buffer), "kvm#81919");
}

static void test_unshared_ids(void **state)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	char buffer[OFFERED_ID_MAX + 1];
	unsigned replica = 7;
	size_t unit;

	start("driver = \"static\"; match = ( \"a\", \"b\" );");
	snapshot = inventory_snapshot(inventory);
	assert_string_equal(snapshot_offered_id(snapshot, 1, 0, buffer), "b");
	assert_int_equal(snapshot_find(snapshot, "b", &unit, &replica), 0);
	assert_int_equal(unit, 1);
	assert_int_equal(replica, 0);
	assert_int_equal(snapshot_find(snapshot, "b#0", &unit, &replica), -ENOENT);
}

/* The rule of reporting: at once, then never twice within the quiet time, and the last state
 * always. */
static void test_coalescing(void **state)
{
	uint64_t begin;
	unsigned n = 0;

	start("driver = \"path\"; match = \"/dev/tty*\";");
	begin = now_usec(CLOCK_MONOTONIC);
	while (told < 5) {
		char name[64];

		/* A hundred come, and go again in the same order. */
		(void)snprintf(name, sizeof(name), "/dev/tty%u", n % 100);
		if (n++ % 200 < 100)
			host_mknod(name);
		else
			host_remove(name);
		assert_true(sd_event_run(host_event, 1000) >= 0);
		assert_true(now_usec(CLOCK_MONOTONIC) - begin < PATIENCE);
	}
	assert_true(told <= (now_usec(CLOCK_MONOTONIC) - begin) / INVENTORY_QUIET + 1);

	/* What takes longer is done less often. */
	telling_takes = INVENTORY_QUIET / 2;
	told = 0;
	n = 0;
	begin = now_usec(CLOCK_MONOTONIC);
	while (told < 4) {
		if (n++ % 2 == 0)
			host_mknod("/dev/tty-more");
		else
			host_remove("/dev/tty-more");
		assert_true(sd_event_run(host_event, 1000) >= 0);
	}
	assert_true(now_usec(CLOCK_MONOTONIC) - begin >= (3 * PACE_FACTOR + 4) * telling_takes);
	telling_takes = 0;

	host_mknod("/dev/tty-last");
	RUN_UNTIL(strstr(seen(), "tty-last "));
	run_for(2 * INVENTORY_QUIET);
	told = 0;
	host_remove("/dev/tty-last");
	RUN_UNTIL(told == 1);
	assert_non_null(strstr(seen(), "tty-last? "));
}

/* A device that disappears before its owner is known was never offered. */
static void test_removed_before_answer(void **state)
{
	host_mknod("/dev/tty1");
	start("driver = \"path\"; match = \"/dev/tty*\";");
	inventory_await_owners(inventory);
	assert_true(inventory_set_owners(inventory, "") >= 0);
	for (unsigned i = 0; i < 2; i++) {
		host_mknod("/dev/tty2");
		RUN_UNTIL(streq(seen(), "tty1 tty2 "));
		inventory_await_owners(inventory);
		if (i > 0)
			assert_true(inventory_set_owners(inventory, "") >= 0);
		host_remove("/dev/tty2");
		RUN_UNTIL(!streq(seen(), "tty1 tty2 "));
		assert_string_equal(seen(), i > 0 ? "tty1 tty2? " : "tty1 ");
	}
	/* One that was offered before stays listed; so does one that a pod has. */
	host_mknod("/dev/tty3");
	RUN_UNTIL(strstr(seen(), "tty3 "));
	(void)set_booked(inventory, "tty3\n", 0);
	inventory_await_owners(inventory);
	host_remove("/dev/tty1");
	host_remove("/dev/tty3");
	RUN_UNTIL(streq(seen(), "tty1? tty2? tty3? "));
}

static unsigned scanned, told_before;

static void on_scanned(struct inventory *of, void *userdata)
{
	assert_ptr_equal(of, inventory);
	scanned++;
	told_before = told;
}

/* Who asks for a scan learns of its end after its changes. */
static void test_scan_on_request(void **state)
{
	host_mknod("/dev/tty1");
	start("driver = \"path\"; match = \"/dev/tty*\";");
	scanned = 0;
	inventory_scan(inventory, on_scanned);
	RUN_UNTIL(scanned == 1);
	assert_int_equal(told, 0);
	/* The second change is within INVENTORY_QUIET of the first one. */
	for (unsigned i = 1; i <= 2; i++) {
		host_mknod(i == 1 ? "/dev/tty2" : "/dev/tty3");
		inventory_scan(inventory, on_scanned);
		RUN_UNTIL(scanned == 1 + i);
		assert_int_equal(told_before, i);
	}
	assert_string_equal(seen(), "tty1 tty2 tty3 ");
	run_for(2 * INVENTORY_QUIET);
	assert_int_equal(scanned, 3);
}

static void test_too_many(void **state)
{
	char name[128];
	struct error error;

	/* Found things are counted like declared ones. */
	for (unsigned i = 0; i < 60; i++) {
		(void)snprintf(name, sizeof(name), "/dev/x%u", i);
		host_mknod(name);
	}
	config = declare("driver = \"path\"; match = \"/dev/x*\"; share = { replicas = 5000; };");
	assert_int_equal(inventory_new(host_event, declaration_of(config), host_root, on_change,
				 &told, &inventory),
		0);
	assert_int_equal(inventory_start(inventory, &error), -E2BIG);
	assert_non_null(strstr(error.message, "60 devices"));
	assert_non_null(strstr(error.message, "4194304"));
}

static void test_too_many_later(void **state)
{
	char name[128];

	for (unsigned i = 0; i < 30; i++) {
		(void)snprintf(name, sizeof(name), "/dev/x%u", i);
		host_mknod(name);
	}
	start("driver = \"path\"; match = \"/dev/x*\"; share = { replicas = 4000; };");
	for (unsigned i = 30; i < 60; i++) {
		(void)snprintf(name, sizeof(name), "/dev/x%u", i);
		host_mknod(name);
	}
	run_for(300 * USEC_PER_MSEC);
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	assert_int_equal(snapshot->n_units, 30);

	/* Removed devices make room. */
	for (unsigned i = 0; i < 30; i++) {
		(void)snprintf(name, sizeof(name), "/dev/x%u", i);
		host_remove(name);
	}
	RUN_UNTIL(startswith(seen(), "x30 "));
}

/* Without a descriptor for inotify, periodic scans must do, until there is one. */
static void test_without_inotify(void **state)
{
	struct rlimit limit, none;
	char text[256];
	struct error error;
	int r;

	host_mknod("/dev/tty0");
	(void)snprintf(
		text, sizeof(text), "driver = \"path\"; match = \"%s/dev/tty0\";", host_root);
	config = declare(text);
	assert_int_equal(
		inventory_new(host_event, declaration_of(config), "", on_change, &told, &inventory),
		0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = inventory_start(inventory, &error);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(r, 0);
	assert_int_equal(strlen(seen()) > 0, 1);

	host_remove("/dev/tty0");
	RUN_UNTIL(told == 1);
	host_mknod("/dev/tty0");
	RUN_UNTIL(told == 2);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, inventory_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_hotplug),
		TEST(test_drop_removed),
		TEST(test_nothing_there_yet),
		TEST(test_link_to_elsewhere),
		TEST(test_exclusion_and_topology),
		TEST(test_replicas),
		TEST(test_unshared_ids),
		TEST(test_shared_node_is_removed),
		TEST(test_coalescing),
		TEST(test_removed_before_answer),
		TEST(test_scan_on_request),
		TEST(test_too_many),
		TEST(test_too_many_later),
		TEST(test_without_inotify),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
