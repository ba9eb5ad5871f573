/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes of files that each take a moment to read: the event loop goes on in between, and all of
 * them are read.
 */
#include "health-fixture.h"
#include "locked-file-fixture.h"

#include "common/log.h"
#include "drivers/host/sysfs-locked.h"

#define FILES 30
#define DELAY (200 * USEC_PER_MSEC)
/* Far less than for all files. */
#define PAUSE_MAX (3 * USEC_PER_SEC)

#define CARDS "/sys/devices/pci0000:00"

static struct locked_file file;
static sd_event_source *beat;
static uint64_t last, longest; /* turn of the loop; the longest time between two */

static int on_beat(sd_event_source *source, uint64_t usec, void *userdata)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	longest = MAX_OF(longest, now - last);
	last = now;
	assert_int_equal(sd_event_source_set_time_relative(source, 10 * USEC_PER_MSEC), 0);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static int setup(void **state)
{
	int r = host_setup(state);

	log_setup("test-slow-files", LOG_TARGET_TEXT, LOG_CRIT);
	if (r < 0)
		return r;
	longest = 0;
	last = now_usec(CLOCK_MONOTONIC);
	return sd_event_add_time_relative(host_event, &beat, CLOCK_MONOTONIC, 0, 1, on_beat, NULL);
}

static int teardown(void **state)
{
	beat = sd_event_source_disable_unref(beat);
	locked_file_close(&file);
	return inventory_teardown(state);
}

static bool place_file(void)
{
	bool placed = locked_file_open(&file, "/slow", "ok\n", false);

	file.delay = DELAY;
	return placed;
}

static void plant_card(unsigned number)
{
	const char *address = made("0000:00:%02x.0", number);

	host_mkdir(made(CARDS "/%s/drm/card%u", address, number));
	host_symlink("../..", made(CARDS "/%s/drm/card%u/device", address, number));
	host_write(made(CARDS "/%s/drm/card%u/uevent", address, number),
		made("DEVNAME=dri/card%u\n", number));
	host_mkdir("/dev/dri");
	host_mknod(made("/dev/dri/card%u", number));
	host_mkdir("/sys/class/drm");
	host_symlink(made("../../devices/pci0000:00/%s/drm/card%u", address, number),
		made("/sys/class/drm/card%u", number));
	host_mkdir("/sys/bus/pci/devices");
	host_symlink(made("../../../devices/pci0000:00/%s", address),
		made("/sys/bus/pci/devices/%s", address));
}

static bool all_healthy(void)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);

	for (size_t i = 0; i < snapshot->n_units; i++)
		if (!snapshot->units[i].healthy)
			return false;
	return true;
}

/* Devices whose file has not been read yet wait for their first result. */
static void expect_all_read(const char *text)
{
	start(text);
	assert_false(all_healthy());
	RUN_UNTIL(all_healthy());
	if (longest > PAUSE_MAX)
		fail_msg("the loop waited for %g s", (double)longest / USEC_PER_SEC);
}

static void test_file_of_each_device(void **state)
{
	if (!place_file())
		skip();
	for (unsigned i = 0; i < FILES; i++) {
		plant_card(i);
		host_symlink("/slow", made(CARDS "/0000:00:%02x.0/state", i));
	}
	expect_all_read("driver = \"drm\"; match = ( {} ); health = ( { probe = \"sysfs\"; file = "
			"\"state\"; } );");
}

static void test_files_of_a_device(void **state)
{
	if (!place_file())
		skip();
	plant_card(0);
	for (unsigned i = 0; i < FILES; i++)
		host_symlink("/slow", made(CARDS "/0000:00:00.0/state%u", i));
	expect_all_read("driver = \"drm\"; match = ( {} ); health = ( { probe = \"sysfs\"; file = "
			"\"state*\"; interval = 1; } );");
}

static void test_health_files(void **state)
{
	if (!place_file())
		skip();
	expect_all_read(made("driver = \"static\"; match = ( { count = %d; } ); health = ( { probe "
			     "= \"file\"; path = \"/slow\"; } );",
		FILES));
}

/* Many files that can be read at once are read before the first list. */
static void test_fast_files(void **state)
{
	host_write("/slow", "ok\n");
	start("driver = \"static\"; match = ( { count = 300; } ); health = ( { probe = \"file\"; "
	      "path = \"/slow\"; } );");
	assert_true(all_healthy());
}

static ssize_t read_serial(unsigned device)
{
	char text[16];

	return sysfs_read_locked(host_root, made("/sys/usb/%u/serial", device), text, sizeof(text));
}

static ssize_t read_within(unsigned device, uint64_t limit)
{
	sysfs_locked_limit(limit);
	return read_serial(device);
}

/* A scan of many devices whose text has to be read for the first time. */
static void test_limit_of_a_scan(void **state)
{
	unsigned refusals;

	if (!place_file())
		skip();
	for (unsigned i = 0; i < 3; i++) {
		host_mkdir(made("/sys/usb/%u", i));
		host_write(made("/sys/usb/%u/devnum", i), "1\n");
		host_symlink("/slow", made("/sys/usb/%u/serial", i));
	}
	refusals = sysfs_locked_refusals();
	RUN_UNTIL(read_within(0, DELAY / 2) == 3);
	RUN_UNTIL(read_within(1, DELAY / 2) == 3);
	file.delay = 0;
	assert_int_equal(read_serial(2), -EBUSY);
	assert_true(sysfs_locked_refusals() > refusals);
	assert_int_equal(read_serial(0), 3);
	sysfs_locked_limit(USEC_INFINITY);
	assert_int_equal(read_serial(2), 3);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_file_of_each_device),
		TEST(test_files_of_a_device),
		TEST(test_health_files),
		TEST(test_fast_files),
		TEST(test_limit_of_a_scan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
