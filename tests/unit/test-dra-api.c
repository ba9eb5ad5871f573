/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often requests to the API server load the credentials: with a clock that moves only when the
 * test moves it. The test takes the place of devplugd, and no request lives until it is sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "control-fixture.h"

#include "common/log.h"
#include "common/sealed.h"
#include "dra/dra-api.h"
#include "dra/dra-credentials-store.h"

#define TICK (100 * USEC_PER_MSEC)

static const char kubeconfig[] = "current-context: c\n"
				 "contexts:\n- name: c\n  context: {cluster: k, user: u}\n"
				 "clusters:\n- name: k\n  cluster: {server: https://server}\n"
				 "users:\n- name: u\n  user: {token: t}\n";

static uint64_t now = 1000000 * USEC_PER_SEC;
static sd_event *event;
static struct dra_api *api;
static int supervisor; /* its end of the socket */

/* Takes the place of libc's, also for libsystemd. */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
	if (clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME)
		return (int)syscall(SYS_clock_gettime, clock, ret);
	*ret = (struct timespec){ .tv_sec = (time_t)(now / USEC_PER_SEC),
		.tv_nsec = (long)(now % USEC_PER_SEC) * 1000 };
	return 0;
}

static int setup(void **state)
{
	log_setup("test-dra-api", LOG_TARGET_TEXT, LOG_CRIT);
	supervisor = control_begin();
	assert_true(sd_event_new(&event) >= 0);
	return dra_api_new(event, &api);
}

static int teardown(void **state)
{
	api = dra_api_free(api);
	event = sd_event_unref(event);
	return 0;
}

/* The number of a request for the kubeconfig file; 0: there is none. */
static uint64_t take_wanted(void)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(0);
	int r = control_receive_from_child(supervisor, &control_cluster, &message);

	if (r == -EAGAIN)
		return 0;
	assert_int_equal(r, 0);
	if (message.type != CLUSTER_FILE_WANTED)
		return take_wanted();
	assert_string_equal(message.text, "");
	return message.number;
}

/* `failure` NULL: the file can be read. */
static void answer(uint64_t number, const char *failure)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_FILE);

	message.number = number;
	(void)snprintf(message.text, sizeof(message.text), "%s", failure ?: "/etc/kubeconfig");
	if (!failure) {
		message.fds[0] = sealed_new("file", kubeconfig, strlen(kubeconfig));
		assert_true(message.fds[0] >= 0);
	}
	dra_api_take_file(api, &message);
}

static void on_answer(const struct dra_answer *given, void *userdata)
{
}

static void request(void)
{
	assert_int_equal(dra_api_request(api, "GET", "/x", NULL, on_answer, &now), 0);
	dra_api_cancel(api, &now);
}

/* Makes requests for a while, and answers each request for the file two ticks later. Returns how
 * many there were. */
static unsigned count_loads(uint64_t time, const char *failure)
{
	uint64_t end = now + time, wanted = 0, answer_at = 0;
	unsigned n = 0;

	while (now < end) {
		request();
		while (sd_event_run(event, 0) > 0)
			;
		if (wanted > 0 && now >= answer_at) {
			answer(wanted, failure);
			wanted = 0;
		}
		if (wanted == 0) {
			wanted = take_wanted();
			answer_at = now + 2 * TICK;
			n += wanted > 0;
		}
		now += TICK;
	}
	return n;
}

static void test_steady_requests(void **state)
{
	assert_int_equal(count_loads(DRA_CREDENTIALS_AGE, NULL), 1);
	assert_in_range(count_loads(10 * DRA_CREDENTIALS_AGE, NULL), 9, 10);
}

/* They are loaded again soon, although the old ones are used. */
static void test_file_that_cannot_be_read(void **state)
{
	assert_int_equal(count_loads(DRA_CREDENTIALS_AGE, NULL), 1);
	assert_true(count_loads(10 * USEC_PER_SEC, "no such file") > 10);
	assert_int_equal(count_loads(DRA_CREDENTIALS_AGE, NULL), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_steady_requests, setup, teardown),
		cmocka_unit_test_setup_teardown(test_file_that_cannot_be_read, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
