/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is saved of devices that pods have had: all of it is read again, a file that is invalid
 * proves no device clean, and there is a limit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/boot-id.h"
#include "common/log.h"
#include "supervisor/books/dirty-devices.h"

static char directory[] = "/tmp/test-dirty-devices.XXXXXX";
static struct dirty_devices devices;
static char *path;

static int setup(void **state)
{
	(void)unsetenv("STATE_DIRECTORY");
	if (!path)
		assert_non_null(mkdtemp(directory));
	free(path);
	(void)format_text(&path, "%s/dirty-devices.json", directory);
	(void)unlink(path);
	devices = (struct dirty_devices){ 0 };
	return dirty_devices_load(&devices, directory);
}

static int teardown(void **state)
{
	dirty_devices_done(&devices);
	return 0;
}

static int remove_all(void **state)
{
	(void)unlink(path);
	free(path);
	return rmdir(directory);
}

static void load_again(void)
{
	dirty_devices_done(&devices);
	assert_int_equal(dirty_devices_load(&devices, directory), 0);
}

static struct dirty *add(const char *resource, const char *id)
{
	struct dirty *dirty;

	assert_int_equal(dirty_devices_add(&devices, resource, id, &dirty), 0);
	devices.unsaved = true;
	return dirty;
}

static void write_file(const char *text)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	(void)fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static bool has_in_file(const char *words)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	char text[4096];
	size_t size;

	assert_non_null(file);
	size = fread(text, 1, sizeof(text) - 1, file);
	text[size] = '\0';
	return strstr(text, words);
}

static void test_all_is_read_again(void **state)
{
	struct dirty *dirty = add("v.e/gpu", "gpu-0");

	dirty->clean = false;
	assert_int_equal(strings_add(&dirty->users, "uid-1", 5), 0);
	assert_int_equal(strings_add(&dirty->users, "claim uid-2", 11), 0);
	assert_int_equal(strings_add(&dirty->ended, "uid-3", 5), 0);
	dirty->failure = strdup("it \"burns\"\n\t");
	(void)add("v.e/other", "gpu-1");
	assert_int_equal(dirty_devices_save(&devices), 0);
	load_again();
	assert_int_equal(devices.count, 2);
	dirty = dirty_devices_find(&devices, "v.e/gpu", "gpu-0");
	assert_non_null(dirty);
	assert_false(dirty->clean);
	assert_int_equal(dirty->users.count, 2);
	assert_string_equal(dirty->users.items[1], "claim uid-2");
	assert_string_equal(dirty->ended.items[0], "uid-3");
	assert_string_equal(dirty->failure, "it \"burns\"\n\t");
	assert_true(dirty_devices_find(&devices, "v.e/other", "gpu-1")->clean);
	dirty_devices_remove(&devices, dirty);
	assert_int_equal(dirty_devices_save(&devices), 0);
	load_again();
	assert_null(dirty_devices_find(&devices, "v.e/gpu", "gpu-0"));
}

/* A device that has moved to another resource is forgotten when it was cleaned there. */
static void test_moved_device(void **state)
{
	struct dirty *dirty = add("v.e/gpu", "gpu-0"), *moved;

	dirty->clean = false;
	(void)add("v.e/other", "gpu-1");
	moved = add("v.e/other", "gpu-0");
	assert_int_equal(moved->users.count, 0);
	/* A pod uses it. */
	dirty_devices_remove_elsewhere(&devices, moved);
	assert_int_equal(devices.count, 3);
	dirty->due_at = dirty->number = 1;
	dirty_devices_remove_elsewhere(&devices, moved);
	assert_int_equal(devices.count, 3);
	dirty->number = 0;
	dirty_devices_remove_elsewhere(&devices, moved);
	assert_int_equal(devices.count, 2);
	assert_null(dirty_devices_find(&devices, "v.e/gpu", "gpu-0"));
	assert_ptr_equal(dirty_devices_find(&devices, "v.e/other", "gpu-0"), moved);
}

/* No id keeps the devices of other resources from being saved. */
static void test_id_that_cannot_be_saved(void **state)
{
	struct dirty *dirty = NULL;

	assert_int_equal(dirty_devices_add(&devices, "v.e/gpu", "gpu-\xff", &dirty), -EINVAL);
	assert_null(dirty);
	(void)add("v.e/other", "gpu-0");
	devices.unsaved = true;
	assert_int_equal(dirty_devices_save(&devices), 0);
}

/* A crash of the host leaves the file as it was on the disk. */
static void test_crash_of_the_host(void **state)
{
	static const struct {
		const char *boot, *closed;
		bool lost;
	} cases[] = {
		{ "another", "false", true },
		{ "another", "true", false },
		{ NULL, "false", false },
	};

	(void)add("v.e/gpu", "gpu-0");
	assert_int_equal(dirty_devices_open(&devices), 0);
	load_again();
	assert_false(devices.lost);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL;

		assert_true(
			format_text(&text,
				"{\"version\": 1, \"boot\": \"%s\", \"closed\": %s, \"devices\": "
				"[{\"resource\": \"v.e/gpu\", \"id\": \"gpu-1\", \"clean\": true}]}",
				cases[i].boot ?: boot_id(), cases[i].closed) >= 0);
		write_file(text);
		load_again();
		assert_int_equal(devices.lost, cases[i].lost);
		assert_int_equal(
			dirty_devices_find(&devices, "v.e/gpu", "gpu-1")->clean, !cases[i].lost);
	}
	/* It is noted on the disk before a pod can get a device, and at the stop. */
	assert_int_equal(dirty_devices_open(&devices), 0);
	assert_true(has_in_file("\"closed\":false"));
	assert_int_equal(dirty_devices_close(&devices), 0);
	assert_true(has_in_file("\"closed\":true"));
}

static void test_failed_write_is_repeated(void **state)
{
	char *good = devices.path;

	(void)add("v.e/gpu", "gpu-0");
	devices.path = (char *)"/nowhere/dirty-devices.json";
	assert_int_equal(dirty_devices_save(&devices), -ENOENT);
	devices.path = good;
	assert_int_equal(dirty_devices_save(&devices), 0);
	load_again();
	assert_int_equal(devices.count, 1);
}

static void test_invalid_files(void **state)
{
	static const struct {
		const char *text;
		size_t count;
	} cases[] = {
		{ "", 0 },
		{ "{", 0 },
		{ "[]", 0 },
		{ "{\"version\":1}", 0 },
		{ "{\"version\":1,\"devices\":7}", 0 },
		{ "{\"version\":2,\"devices\":[]}", 0 },
		{ "{\"version\":1,\"closed\":true,\"devices\":[],\"incomplete\":true}", 0 },
		{ "{\"version\":1,\"devices\":[7,{},{\"resource\":\"v.e/x\"}]}", 0 },
		{ "{\"version\":1,\"devices\":[{\"resource\":\"r\",\"id\":\"a\",\"users\":[7,\"u\"],"
		  "\"seen\":\"x\"},{\"resource\":\"r\",\"id\":\"a\"}]}",
			1 },
	};

	log_setup("test-dirty-devices", LOG_TARGET_TEXT, LOG_CRIT);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		write_file(cases[i].text);
		load_again();
		assert_int_equal(devices.count, cases[i].count);
		assert_true(devices.lost);
	}
	/* One that lacks a member counts as dirty. */
	assert_false(devices.items[0]->clean);
	assert_int_equal(devices.items[0]->users.count, 1);
}

/* What the file could not name counts as dirty, also after it was written again. */
static void test_lost(void **state)
{
	struct dirty *dirty;
	char id[32];

	log_setup("test-dirty-devices", LOG_TARGET_TEXT, LOG_CRIT);
	assert_false(devices.lost);
	write_file("");
	load_again();
	assert_int_equal(dirty_devices_add(&devices, "v.e/gpu", "gpu-0", &dirty), 0);
	assert_false(dirty->clean);
	dirty->clean = true;
	assert_int_equal(dirty_devices_save(&devices), 0);
	load_again();
	assert_true(devices.lost);
	assert_true(dirty_devices_find(&devices, "v.e/gpu", "gpu-0")->clean);
	for (size_t i = 1; i < DIRTY_DEVICES_MAX; i++) {
		(void)snprintf(id, sizeof(id), "gpu-%zu", i);
		assert_false(add("v.e/gpu", id)->clean);
	}
	/* A clean one makes room. */
	assert_false(add("v.e/gpu", "one-more")->clean);
	assert_null(dirty_devices_find(&devices, "v.e/gpu", "gpu-0"));
	assert_int_equal(dirty_devices_add(&devices, "v.e/gpu", "two-more", &dirty), -ENOSPC);
}

/* A device that waits to be cleaned may never return: the one that has waited longest makes room,
 * and what is not in the list of that resource counts as dirty from then on. */
static void test_full_list(void **state)
{
	struct dirty *dirty;
	char id[32];

	log_setup("test-dirty-devices", LOG_TARGET_TEXT, LOG_CRIT);
	for (size_t i = 0; i < DIRTY_DEVICES_MAX; i++) {
		(void)snprintf(id, sizeof(id), "gpu-%zu", i);
		dirty = add("v.e/gpu", id);
		dirty->clean = false;
		/* Pods have the first ones. */
		dirty->due_at = i < 4 ? 0 : 2000 - i;
		assert_int_equal(strings_add(&dirty->users, "u", 1), 0);
	}
	assert_false(dirty_devices_incomplete(&devices, "v.e/gpu"));
	dirty = dirty_devices_find(&devices, "v.e/gpu", "gpu-1023");
	dirty->failure = strdup("it burns");
	dirty_devices_find(&devices, "v.e/gpu", "gpu-1022")->number = 1;
	dirty_devices_find(&devices, "v.e/gpu", "gpu-1021")->taken_at = 1;
	assert_int_equal(
		strings_add(
			&dirty_devices_find(&devices, "v.e/gpu", "gpu-1020")->preparing, "c", 1),
		0);
	for (size_t i = 1019; i >= 4; i--) {
		char forgotten[32];

		(void)snprintf(forgotten, sizeof(forgotten), "gpu-%zu", i);
		(void)snprintf(id, sizeof(id), "more-%zu", i);
		assert_non_null(dirty_devices_find(&devices, "v.e/gpu", forgotten));
		assert_int_equal(dirty_devices_add(&devices, "v.e/gpu", id, &dirty), 0);
		assert_null(dirty_devices_find(&devices, "v.e/gpu", forgotten));
		assert_true(dirty_devices_incomplete(&devices, "v.e/gpu"));
		assert_false(dirty->clean);
	}
	assert_int_equal(dirty_devices_add(&devices, "v.e/gpu", "last", &dirty), -ENOSPC);
	/* Also after a restart. The devices of other resources stay clean. */
	for (size_t i = 0; i < 2; i++) {
		assert_true(dirty_devices_incomplete(&devices, "v.e/gpu"));
		assert_true(add("v.e/other", "gpu-4")->clean);
		assert_int_equal(dirty_devices_save(&devices), 0);
		load_again();
	}
	dirty_devices_remove(&devices, devices.items[0]);
	assert_false(add("v.e/gpu", "gpu-4")->clean);
}

static void test_limit(void **state)
{
	struct dirty *dirty;
	char id[32];

	for (size_t i = 0; i < DIRTY_DEVICES_MAX; i++) {
		(void)snprintf(id, sizeof(id), "gpu-%zu", i);
		(void)add("v.e/gpu", id);
	}
	assert_int_equal(dirty_devices_add(&devices, "v.e/gpu", "one-more", &dirty), -ENOSPC);
	assert_int_equal(dirty_devices_add(&devices, "v.e/other", "one-more", &dirty), 0);
	assert_int_equal(dirty_devices_add(&devices, "v.e/gpu", "gpu-7", &dirty), 0);
	dirty_devices_remove(&devices, dirty);
	assert_int_equal(dirty_devices_add(&devices, "v.e/gpu", "one-more", &dirty), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_all_is_read_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moved_device, setup, teardown),
		cmocka_unit_test_setup_teardown(test_id_that_cannot_be_saved, setup, teardown),
		cmocka_unit_test_setup_teardown(test_crash_of_the_host, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failed_write_is_repeated, setup, teardown),
		cmocka_unit_test_setup_teardown(test_invalid_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_list, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, remove_all);
}
