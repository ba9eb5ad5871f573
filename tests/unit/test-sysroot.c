/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files below a root: no link leaves it, with openat2() and without it, as under systemd's
 * RestrictSUIDSGID=.
 */
#include "host-fixture.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "drivers/host/sysroot.h"

static const struct {
	const char *path;
	const char *resolved; /* NULL: fails */
	int error;
} cases[] = {
	{ "/", "/", 0 },
	{ "/sys/class/npu/npu0", "/sys/devices/card/npu0", 0 },
	{ "/sys/class/npu/npu0/../vendor", "/sys/devices/card/vendor", 0 },
	{ "//sys/./class//npu/", "/sys/class/npu", 0 },
	{ "/etc/absolute/vendor", "/sys/devices/card/vendor", 0 },
	{ "/sys/outside", "/etc", 0 },
	{ "/..", "/", 0 },
	{ "/../../etc/../sys", "/sys", 0 },
	{ "/fifo", "/fifo", 0 },
	{ "/etc/passwd", NULL, -ENOENT },
	{ "/sys/outside/passwd", NULL, -ENOENT },
	{ "/sys/devices/card/vendor/x", NULL, -ENOTDIR },
	{ "/again", NULL, -ELOOP },
	{ "/none/../sys", NULL, -ENOENT },
};

static void make_tree(void)
{
	host_mkdir("/etc");
	host_mkdir("/sys/class/npu");
	host_mkdir("/sys/devices/card/npu0");
	host_write("/sys/devices/card/vendor", "0x1de5\n");
	host_symlink("../../devices/card/npu0", "/sys/class/npu/npu0");
	host_symlink("/sys/class/npu/npu0/..", "/etc/absolute");
	host_symlink("../../../../../../../../../etc", "/sys/outside");
	host_symlink("again", "/again");
	host_mkfifo("/fifo");
}

static void check_tree(void)
{
	char text[16];
	struct stat st;
	int fd;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *resolved = NULL;
		int r = sysroot_resolve(host_root, cases[i].path, &resolved);

		if (r != cases[i].error || (r >= 0 && !streq(resolved, cases[i].resolved)))
			fail_msg("%s: %d %s", cases[i].path, r, resolved);
	}
	assert_int_equal(sysroot_read(host_root, "/etc/absolute/vendor", text, sizeof(text)), 7);
	assert_string_equal(text, "0x1de5\n");
	assert_int_equal(sysroot_read(host_root, "/fifo", text, sizeof(text)), -EINVAL);
	assert_int_equal(sysroot_read(host_root, "/sys", text, sizeof(text)), -EINVAL);
	/* Only a link at the end stays. */
	fd = sysroot_open(host_root, "/etc/absolute/../../class/npu/npu0", O_PATH | O_NOFOLLOW);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close_fd(fd);
	assert_int_equal(sysroot_open(host_root, "/fifo", O_PATH | O_DIRECTORY), -ENOTDIR);
}

static void take_openat2_away(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { ARRAY_SIZE(filter), filter };

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
	assert_int_equal(syscall(SYS_openat2, -1, "", NULL, 0), -1);
	assert_int_equal(errno, ENOSYS);
}

static void test_links(void **state)
{
	make_tree();
	check_tree();
}

static void test_each_link(void **state)
{
	static const char *const ways[] = {
		"/sys/class/npu/npu0/vendor",
		"/sys/class/npu/../../devices/card/npu0/vendor",
		NULL,
		"/etc/absolute",
		"/sys/class/npu/npu0/..",
		"/sys/class/npu/../../devices/card/npu0/..",
		NULL,
		"//gone/x",
		"//none/y/x",
		NULL,
		"/again",
		"/again",
	};

	make_tree();
	host_symlink("none/y", "/gone");
	for (size_t i = 0; i + 1 < ARRAY_SIZE(ways); i++) {
		_cleanup_free_ char *next = NULL;

		if (!ways[i])
			continue;
		assert_int_equal(sysroot_follow_link(host_root, ways[i], &next), 0);
		if (!streq(next ?: "", ways[i + 1] ?: ""))
			fail_msg("%s: %s", ways[i], next);
	}
}

/* The last test, because the filter stays. */
static void test_without_openat2(void **state)
{
	make_tree();
	take_openat2_away();
	check_tree();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_links, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_each_link, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_without_openat2, host_setup, host_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
