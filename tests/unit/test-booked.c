/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Promise P17: every id that the kubelet has booked is listed, even if its device was removed, with
 * the NUMA nodes that it was booked with, until it is no longer booked.
 */
#include "inventory-fixture.h"

#include "common/log.h"
#include "drivers/health/saved-state.h"

static int setup(void **state)
{
	log_setup("test-booked", LOG_TARGET_TEXT, LOG_CRIT);
	return host_setup(state);
}

/* The unit of an offered id. */
static const struct snapshot_unit *unit_of(const char *id)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	unsigned replica;
	size_t unit;

	if (snapshot_find(snapshot, id, &unit, &replica) < 0)
		return NULL;
	return &snapshot->units[unit];
}

static bool saves_allocations(void)
{
	_cleanup_saved_state_ struct saved_state *saved = NULL;

	assert_int_equal(inventory_save(inventory, &saved), 0);
	return saved->allocations;
}

/* The NUMA nodes that an id is listed with, as "0,1". */
static const char *numa_of(const char *id)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	static char text[64];
	size_t unit, n = 0, used = 0;
	const int *numa;
	unsigned replica;

	text[0] = '\0';
	if (snapshot_find(snapshot, id, &unit, &replica) < 0)
		return "not listed";
	numa = snapshot_numa(snapshot, unit, id, &n);
	for (size_t i = 0; i < n; i++)
		used += (size_t)snprintf(
			text + used, sizeof(text) - used, "%s%d", i > 0 ? "," : "", numa[i]);
	return text;
}

/* Puts another configuration into force, as a reload does. */
static void reload(const char *text)
{
	struct inventory *previous = inventory;
	struct config *previous_config = config;
	struct error error;

	config = declare(text);
	assert_int_equal(inventory_new(host_event, declaration_of(config), host_root, on_change,
				 &told, &inventory),
		0);
	assert_int_equal(inventory_inherit(inventory, previous, false), 0);
	if (inventory_start(inventory, &error) < 0)
		fail_msg("%s", error.message);
	(void)inventory_free(previous);
	(void)config_free(previous_config);
}

#define UNITS "driver = \"static\"; match = ( { count = 3; numa = 1; } ); "

/* What a configuration may do to a device; the bookings arrive after it, and before the start. */
static void test_every_cause(void **state)
{
	static const struct {
		const char *text, *id, *reason;
	} rows[] = {
		{ UNITS, "unit-1", "" },
		{ UNITS "exclude = \"unit-1\";", "unit-1", "excluded by the configuration" },
		{ UNITS "share = { replicas = 2; }; exclude = \"unit-1\";", "unit-1#0",
			"excluded by the configuration" },
		{ "driver = \"static\"; match = ( { count = 1; } );", "unit-1", "not found" },
		{ "driver = \"path\"; match = \"/dev/none*\";", "unit-1", "not found" },
		{ UNITS "share = { replicas = 2; };", "unit-1", "because `share` has changed" },
		{ UNITS "share = { replicas = 2; };", "unit-1#1", "" },
		{ UNITS "share = { replicas = 2; };", "unit-1#2", "because `share` has changed" },
		{ UNITS, "unit-1#0", "because `share` has changed" },
		{ UNITS, "GPU-8a3f::4 of somebody's \xc3\xa4", "not found" },
		{ UNITS, "", "not found" },
		{ UNITS, "an-id-that-is-longer-than-any-of-ours-0123456789012345678901234567890123",
			"not found" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_bookings_ struct bookings *bookings = NULL;
		static const int nodes[] = { 0, 1 };

		start(rows[i].text);
		assert_int_equal(bookings_new(&bookings), 0);
		assert_int_equal(
			bookings_add(bookings, rows[i].id, BOOKED_IN_PLUGIN, nodes, 2, 0), 0);
		assert_int_equal(inventory_set_booked(inventory, bookings, 0, 0), 1);
		if (!strstr(reason_of(rows[i].id), rows[i].reason) ||
			!*reason_of(rows[i].id) != !*rows[i].reason)
			fail_msg("\"%s\": %s instead of %s", rows[i].id, reason_of(rows[i].id),
				rows[i].reason);
		assert_string_equal(numa_of(rows[i].id), "0,1");
		/* No container uses it any more. */
		assert_int_equal(set_booked(inventory, "", 0), 1);
		assert_string_equal(reason_of(rows[i].id), *rows[i].reason ? "absent" : "");
		/* As in a child that begins. */
		inventory = inventory_free(inventory);
		assert_int_equal(inventory_new(host_event, declaration_of(config), host_root,
					 on_change, &told, &inventory),
			0);
		assert_true(inventory_set_booked(inventory, bookings, 0, 0) >= 0);
		assert_int_equal(inventory_start(inventory, &(struct error){ 0 }), 0);
		assert_string_equal(numa_of(rows[i].id), "0,1");
	}
}

/* The first list has it even if nothing can be found out about the host. */
static void test_failed_scan(void **state)
{
	struct error error;

	config = declare("driver = \"path\"; match = \"/dev/tty*\";");
	assert_int_equal(inventory_new(host_event, declaration_of(config), host_root, on_change,
				 &told, &inventory),
		0);
	assert_true(set_booked(inventory, "tty1 0\n", 0) >= 0);
	host_rename("/dev", "/dev.old");
	assert_int_equal(inventory_start(inventory, &error), 0);
	assert_string_equal(seen(), "tty1? ");
	assert_string_equal(numa_of("tty1"), "0");
	/* It is found, and is what it was. */
	host_rename("/dev.old", "/dev");
	host_mknod("/dev/tty1");
	RUN_UNTIL(streq(seen(), "tty1 "));
	host_remove("/dev/tty1");
	RUN_UNTIL(streq(seen(), "tty1? "));
	assert_string_equal(reason_of("tty1"), "/dev/tty1 has disappeared");
	/* It is booked, so it stays after any time. */
	assert_int_equal(set_booked(inventory, "tty1 0\n", now_usec(CLOCK_MONOTONIC)), 0);
	assert_int_equal(set_booked(inventory, "", now_usec(CLOCK_MONOTONIC)), 1);
	assert_string_equal(seen(), "");
}

/* A reload keeps what is booked, and the NUMA node of what is. */
static void test_reload(void **state)
{
	start(UNITS);
	assert_int_equal(set_booked(inventory, "unit-0 1\nunit-2 1\n", 0), 0);
	reload(UNITS "topology = false;");
	assert_string_equal(numa_of("unit-0"), "1");
	assert_string_equal(numa_of("unit-1"), "");
	assert_string_equal(reason_of("unit-0"), "");
	assert_int_equal(set_booked(inventory, "unit-2 1\n", 0), 1);
	assert_string_equal(numa_of("unit-0"), "");
	assert_string_equal(numa_of("unit-2"), "1");
	/* What was booked without a node suits any: else the kubelet would refuse the pod. */
	start("driver = \"static\"; match = ( { count = 2; numa = 1; }, { id = \"low\"; numa = 0; } );");
	assert_int_equal(set_booked(inventory, "unit-0\nunit-1 1\nnone\n", 0), 1);
	assert_string_equal(numa_of("unit-0"), "0,1");
	assert_string_equal(numa_of("unit-1"), "1");
	assert_string_equal(numa_of("none"), "0,1");
	start("driver = \"static\"; match = ( { count = 2; } );");
	assert_int_equal(set_booked(inventory, "unit-0\n", 0), 0);
	assert_string_equal(numa_of("unit-0"), "");
}

/* One that another resource has taken over. */
static void test_claimed(void **state)
{
	start(UNITS);
	assert_int_equal(set_booked(inventory, "unit-1 1\n", 0), 0);
	assert_int_equal(
		inventory_set_owners(inventory, "unit-1\tv.e/other\nunit-2\tv.e/other\n"), 1);
	assert_false(unit_of("unit-1")->claimed_by_other);
	assert_string_equal(reason_of("unit-1"), "claimed by v.e/other, but assigned to a pod");
	assert_true(unit_of("unit-2")->claimed_by_other);
	assert_int_equal(set_booked(inventory, "", 0), 1);
	assert_true(unit_of("unit-1")->claimed_by_other);
	assert_string_equal(reason_of("unit-1"), "claimed by v.e/other");
}

static void allocate(const char *id)
{
	_cleanup_snapshot_ struct snapshot *listed = inventory_snapshot(inventory);

	assert_int_equal(inventory_note_allocated(inventory, listed, &id, 1), 0);
}

/* From Allocate until the kubelet is known to have booked it, or not. */
static void test_allocation(void **state)
{
	struct saved_state *saved;
	uint64_t before = now_usec(CLOCK_MONOTONIC);

	start(UNITS);
	allocate("unit-1");
	assert_true(saves_allocations());
	reload(UNITS "exclude = \"unit-1\";");
	assert_int_equal(set_booked(inventory, "", before), 0);
	assert_string_equal(seen(), "unit-0 unit-2 unit-1? ");
	assert_string_equal(numa_of("unit-1"), "1");

	/* The next process knows it, too. */
	assert_int_equal(inventory_save(inventory, &saved), 0);
	start(UNITS "exclude = \"unit-1\";");
	assert_string_equal(seen(), "unit-0 unit-2 ");
	/* In one that begins, this comes first. */
	inventory_restore(inventory, saved);
	assert_int_equal(set_booked(inventory, "", before), 1);
	assert_string_equal(seen(), "unit-0 unit-2 unit-1? ");

	/* The kubelet's data are younger, and count from then on. */
	assert_int_equal(set_booked(inventory, "unit-1 1\n", before), 0);
	assert_true(saves_allocations());
	assert_int_equal(set_booked(inventory, "unit-1 1\n", now_usec(CLOCK_MONOTONIC)), 0);
	assert_false(saves_allocations());
	assert_int_equal(set_booked(inventory, "", before), 1);
	assert_string_equal(seen(), "unit-0 unit-2 ");

	/* The kubelet never booked it. */
	reload(UNITS);
	allocate("unit-0");
	reload(UNITS "exclude = \"unit-0\";");
	assert_int_equal(set_booked(inventory, "", before), 0);
	assert_string_equal(seen(), "unit-1 unit-2 unit-0? ");
	assert_int_equal(set_booked(inventory, "", now_usec(CLOCK_MONOTONIC)), 1);
	assert_string_equal(seen(), "unit-1 unit-2 ");
	/* Allocated while it left the list: it comes back. */
	allocate("unit-0");
	RUN_UNTIL(told == 1);
	assert_string_equal(seen(), "unit-1 unit-2 unit-0? ");
}

static void set_pending(const char *id)
{
	_cleanup_bookings_ struct bookings *pending = NULL;

	assert_int_equal(bookings_new(&pending), 0);
	assert_int_equal(bookings_add(pending, id, BOOKED_IN_PLUGIN, (const int[]){ 1 }, 1, 0), 0);
	assert_int_equal(inventory_set_pending(inventory, pending), 0);
}

/* What is asked for stays listed until the answer, over a reload. */
static void test_pending(void **state)
{
	start(UNITS);
	set_pending("unit-1");
	reload(UNITS "exclude = \"unit-1\";");
	assert_string_equal(seen(), "unit-0 unit-2 unit-1? ");
	assert_string_equal(numa_of("unit-1"), "1");
	/* The kubelet has no data about it. */
	assert_int_equal(set_booked(inventory, "", now_usec(CLOCK_MONOTONIC)), 0);
	assert_string_equal(seen(), "unit-0 unit-2 unit-1? ");
	/* It is answered: once with the device, once with an error. */
	allocate("unit-1");
	assert_int_equal(inventory_set_pending(inventory, NULL), 0);
	assert_string_equal(seen(), "unit-0 unit-2 unit-1? ");
	set_pending("unit-1");
	assert_int_equal(set_booked(inventory, "", now_usec(CLOCK_MONOTONIC)), 0);
	assert_int_equal(inventory_set_pending(inventory, NULL), 0);
	RUN_UNTIL(streq(seen(), "unit-0 unit-2 "));
}

/* Ids that the other way has: "id id", or "" for none; what is not offered of each unit. */
static void check_withheld(const char *text, unsigned uses, const char *ids, const char *withheld)
{
	_cleanup_bookings_ struct bookings *bookings = NULL;
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	char copy[256], offered[OFFERED_ID_MAX + 1], found[256] = "", *rest = NULL;

	(void)snprintf(copy, sizeof(copy), "%s", ids);
	assert_int_equal(bookings_new(&bookings), 0);
	for (char *id = strtok_r(copy, " ", &rest); id; id = strtok_r(NULL, " ", &rest))
		assert_int_equal(bookings_add(bookings, id, uses, NULL, 0, 0), 0);
	assert_int_equal(bookings_sort(bookings), 0);
	start(text);
	assert_true(inventory_set_booked(inventory, bookings, 0, 0) >= 0);
	snapshot = inventory_snapshot(inventory);
	for (size_t i = 0; i < snapshot->n_units; i++)
		for (unsigned k = 0; k < snapshot->units[i].replicas; k++) {
			const char *id = snapshot_offered_id(snapshot, i, k, offered);

			if (snapshot_withholds(snapshot, i, id))
				(void)snprintf(found + strlen(found), sizeof(found) - strlen(found),
					"%s ", id);
		}
	assert_string_equal(found, withheld);
	/* It is free again. */
	assert_true(set_booked(inventory, "", 0) >= 0);
	(void)snapshot_unref(snapshot);
	snapshot = inventory_snapshot(inventory);
	for (size_t i = 0; i < snapshot->n_units; i++)
		assert_true(snapshot->units[i].healthy && snapshot->units[i].withheld == 0);
}

/* The resource has moved between the device plugin and DRA. */
static void test_other_way(void **state)
{
	static const char plugin[] = UNITS, dra[] = UNITS "serve = \"dra\";";
	static const char shared[] = UNITS "share = { replicas = 2; };";

	check_withheld(plugin, BOOKED_BY_CLAIM, "unit-1 other", "unit-1 ");
	check_withheld(plugin, BOOKED_BY_ADMIN, "unit-1", "");
	check_withheld(plugin, BOOKED_IN_PLUGIN, "unit-1", "");
	/* Pods use it in both ways, so it stays listed. */
	check_withheld(plugin, BOOKED_BY_CLAIM | BOOKED_BY_PLUGIN, "unit-1", "");
	check_withheld(dra, BOOKED_IN_PLUGIN, "unit-1", "unit-1 ");
	check_withheld(dra, BOOKED_BY_PLUGIN, "unit-1", "");
	check_withheld(dra, BOOKED_BY_CLAIM, "unit-1", "");
	check_withheld(shared, BOOKED_BY_CLAIM, "unit-0#0 unit-1#0 unit-1#1",
		"unit-0#0 unit-1#0 unit-1#1 ");
	check_withheld(shared, BOOKED_BY_CLAIM, "unit-1", "unit-1#0 unit-1#1 ");
	check_withheld(shared, BOOKED_BY_CLAIM, "unit-1#2", "unit-1#0 unit-1#1 ");
	check_withheld(plugin, BOOKED_BY_CLAIM, "unit-1#1", "unit-1 ");
}

static void test_forget(void **state)
{
	host_mknod("/dev/tty1");
	host_mknod("/dev/tty2");
	start("driver = \"path\"; match = \"/dev/tty*\"; share = { replicas = 2; };");
	allocate("tty1#0");
	allocate("tty2#1");
	host_remove("/dev/tty1");
	RUN_UNTIL(streq(seen(), "tty1? tty2 "));
	assert_int_equal(inventory_forget(inventory, "tty1"), 1);
	assert_string_equal(seen(), "tty2 ");
	assert_true(saves_allocations());
	assert_int_equal(inventory_forget(inventory, "tty2#1"), 0);
	assert_false(saves_allocations());
	assert_string_equal(seen(), "tty2 ");
}

static void test_units(void **state)
{
	static const char *const ids[] = { "a#0", "b", "b-#1", "c#x", "c#01", "d#7#2", "e#10" };
	_cleanup_bookings_ struct bookings *bookings = NULL;

	assert_false(bookings_have_unit(NULL, "a", BOOKED_EVER));
	assert_int_equal(bookings_new(&bookings), 0);
	assert_false(bookings_have_unit(bookings, "a", BOOKED_EVER));
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		assert_int_equal(bookings_add(bookings, ids[i], BOOKED_IN_PLUGIN, NULL, 0, 0), 0);
	assert_int_equal(bookings_sort(bookings), 0);
	for (const char *id = "abe"; *id; id++)
		assert_true(bookings_have_unit(bookings, (const char[]){ *id, '\0' }, BOOKED_EVER));
	assert_true(bookings_have_unit(bookings, "b-", BOOKED_EVER));
	assert_true(bookings_have_unit(bookings, "d#7", BOOKED_EVER));
	assert_false(bookings_have_unit(bookings, "c", BOOKED_EVER));
	assert_false(bookings_have_unit(bookings, "d", BOOKED_EVER));
	assert_false(bookings_have_unit(bookings, "f", BOOKED_EVER));
	assert_false(bookings_have_unit(bookings, "", BOOKED_EVER));
}

static void test_text(void **state)
{
	static const struct {
		const char *text;
		size_t size;
		int r;
	} rows[] = {
		{ "", 0, 0 },
		{ "1 0\ta\0", 6, 0 },
		{ "3 0,1,65535\ta\0f \tb\0", 19, 0 },
		{ "4 \t\n\t\0", 6, 0 },
		{ "1 0\ta", 5, -EBADMSG },
		{ "a\0", 2, -EBADMSG },
		{ "1 -1\ta\0", 7, -EBADMSG },
		{ "1 65536\ta\0", 10, -EBADMSG },
		{ "1 99999999999999999999\ta\0", 25, -EBADMSG },
		{ "1 0 1\ta\0", 8, -EBADMSG },
		{ "1 ,\ta\0", 6, -EBADMSG },
		{ "\0", 1, -EBADMSG },
		{ "0 0\ta\0", 6, -EBADMSG },
		{ "g 0\ta\0", 6, -EBADMSG },
		{ "10 0\ta\0", 7, -EBADMSG },
		{ "\ta\0", 3, -EBADMSG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_bookings_ struct bookings *bookings = NULL;
		_cleanup_free_ char *text = NULL;
		size_t size;

		assert_int_equal(bookings_read(rows[i].text, rows[i].size, &bookings), rows[i].r);
		if (rows[i].r < 0)
			continue;
		assert_int_equal(bookings_write(bookings, &text, &size), 0);
		if (i != 2)
			assert_int_equal(size, rows[i].size);
		if (i != 2 && size > 0)
			assert_memory_equal(text, rows[i].text, size);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, inventory_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_every_cause),
		TEST(test_failed_scan),
		TEST(test_reload),
		TEST(test_claimed),
		TEST(test_allocation),
		TEST(test_pending),
		TEST(test_other_way),
		TEST(test_forget),
		TEST(test_units),
		TEST(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
