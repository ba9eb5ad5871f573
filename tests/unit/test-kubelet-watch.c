/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet's directory comes and goes. No resource waits, so nothing is polled: each step is
 * found by its event alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cmocka.h>

#include "directory-fixture.h"
#include "supervisor/kubelet/kubelet-watch.h"
#include "supervisor/kubelet/session-sockets.h"

#define PATIENCE (60 * USEC_PER_SEC)

static sd_event *event;
static struct kubelet_watch *watch;
static bool present;
static unsigned changes;

static void on_kubelet(bool is_present, void *userdata)
{
	present = is_present;
}

static void on_change(void *userdata)
{
	changes++;
	(void)kubelet_watch_number(watch);
}

static void start(void)
{
	assert_true(sd_event_new(&event) >= 0);
	assert_int_equal(
		kubelet_watch_new(event, in_dir("plugins"), on_kubelet, on_change, NULL, &watch),
		0);
}

static void stop(void)
{
	watch = kubelet_watch_free(watch);
	event = sd_event_unref(event);
}

static void await_kubelet(bool wanted)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC) + PATIENCE;

	while (present != wanted) {
		assert_true(sd_event_run(event, USEC_PER_SEC) >= 0);
		assert_true(now_usec(CLOCK_MONOTONIC) < end);
	}
}

/* Returns the listening socket. */
static int start_kubelet(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(mkdir(in_dir("plugins"), 0755), 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%.60s/%s", in_dir("plugins"),
		KUBELET_SOCKET_NAME);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static void test_directory_is_removed_after_the_kubelet_has_ended(void **state)
{
	uint64_t number, last = 0;

	present = false;
	start();
	for (unsigned i = 0; i < 3; i++) {
		int fd = start_kubelet();

		await_kubelet(true);
		number = kubelet_watch_number(watch);
		assert_true(number > last);
		last = number;
		(void)close_fd(fd);
		assert_int_equal(unlink(in_dir("plugins/" KUBELET_SOCKET_NAME)), 0);
		await_kubelet(false);
		assert_int_equal(kubelet_watch_number(watch), number);
		assert_int_equal(rmdir(in_dir("plugins")), 0);
	}
	stop();
}

static void bind_other(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(
		address.sun_path, sizeof(address.sun_path), "%.60s/other.sock", in_dir("plugins"));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

static void rename_other(void)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%.100s", in_dir("plugins/other.sock"));
	assert_int_equal(rename(path, in_dir("plugins/next.sock")), 0);
}

static void remove_other(void)
{
	assert_int_equal(unlink(in_dir("plugins/next.sock")), 0);
}

/* Another plugin may take the name of a resource, and lose it again. */
static void test_sockets_of_others(void **state)
{
	void (*const steps[])(void) = { bind_other, rename_other, remove_other };
	int fd;

	present = false;
	start();
	fd = start_kubelet();
	await_kubelet(true);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		uint64_t end = now_usec(CLOCK_MONOTONIC) + PATIENCE;

		while (sd_event_run(event, 0) > 0)
			;
		changes = 0;
		steps[i]();
		while (changes == 0) {
			assert_true(sd_event_run(event, USEC_PER_SEC) >= 0);
			assert_true(now_usec(CLOCK_MONOTONIC) < end);
		}
	}
	(void)close_fd(fd);
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_directory_is_removed_after_the_kubelet_has_ended),
		TEST(test_sockets_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
