/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether devplugd's view of the kubelet's directories is old. tests/promises/test_host_view.py has
 * views that are.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "supervisor/kubelet/write-access.h"

/* Another process removes the directory and makes it again, while it is being inspected, too. */
static void test_removed_meanwhile(void **state)
{
	char parent[] = "/tmp/test-write-access.XXXXXX", path[64];
	struct kubelet_config kubelet = { .device_plugin_dir = path,
		.plugins_registry_dir = parent };
	struct write_access access = { 0 };
	const char *lost = NULL;
	pid_t pid;

	assert_non_null(mkdtemp(parent));
	(void)snprintf(path, sizeof(path), "%s/plugins", parent);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		for (;;) {
			(void)mkdir(path, 0700);
			(void)rmdir(path);
		}
	for (unsigned i = 0; i < 100000 && !lost; i++)
		lost = write_access_lost(&access, &kubelet);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)rmdir(path);
	assert_int_equal(rmdir(parent), 0);
	assert_null(lost);
	assert_true(access.writable[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_removed_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
