/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pods exist, from the names of the directories of their logs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "supervisor/kubelet/pod-logs.h"

static char directory[64];

static int setup(void **state)
{
	(void)strcpy(directory, "/tmp/devplugd-test-pod-logs.XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
	return remove(path);
}

static int teardown(void **state)
{
	return nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make(const char *name)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

static const char *json_member(const json_t *pods, const char *uid, const char *name)
{
	return json_string_value(json_object_get(json_object_get(pods, uid), name));
}

static void test_names(void **state)
{
	static const char *const invalid[] = {
		"default",
		"default_uid",
		"_p_uid",
		"default__uid",
		"default_p_",
		"Default_p_uid",
		"default_p q_uid",
		"default_p_\033[2J",
		"name.space_p_uid",
		"a123456789012345678901234567890123456789012345678901234567890123_p_uid",
		"default_p_q_uid",
	};
	char path[512];
	json_t *pods;
	FILE *stream;

	make("kube-system_kube-proxy.1-x_b0b3e1c2-0000-4000-8000-000000000001");
	make("default_web-0_5f2a");
	for (size_t i = 0; i < ARRAY_SIZE(invalid); i++)
		make(invalid[i]);
	(void)snprintf(path, sizeof(path), "%s/default_file_f11e", directory);
	stream = fopen(path, "we");
	assert_non_null(stream);
	assert_int_equal(fclose(stream), 0);
	pods = pod_logs_read(directory);
	assert_int_equal(json_object_size(pods), 2);
	assert_string_equal(json_member(pods, "b0b3e1c2-0000-4000-8000-000000000001", "namespace"),
		"kube-system");
	assert_string_equal(
		json_member(pods, "b0b3e1c2-0000-4000-8000-000000000001", "pod"), "kube-proxy.1-x");
	assert_string_equal(json_member(pods, "5f2a", "pod"), "web-0");
	json_decref(pods);
}

static void test_absent(void **state)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/none", directory);
	assert_null(pod_logs_read(path));
}

/* As a mount shows a directory that was removed on the host. */
static void test_removed(void **state)
{
	_cleanup_close_ int fd = -EBADF;
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/logs", directory);
	assert_int_equal(mkdir(path, 0700), 0);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(rmdir(path), 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_null(pod_logs_read(path));
}

/* What cannot be read is not empty. */
static void test_not_a_directory(void **state)
{
	assert_null(pod_logs_read("/dev/null"));
}

static void test_many(void **state)
{
	json_t *pods;

	for (int i = 0; i < POD_LOGS_MAX + 10; i++) {
		char name[64];

		(void)snprintf(name, sizeof(name), "default_p%d_u%d", i, i);
		make(name);
	}
	pods = pod_logs_read(directory);
	assert_in_range(json_object_size(pods), POD_LOGS_MAX - 2, POD_LOGS_MAX);
	json_decref(pods);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_absent, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removed, setup, teardown),
		cmocka_unit_test(test_not_a_directory),
		cmocka_unit_test_setup_teardown(test_many, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
