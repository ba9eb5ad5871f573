/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit that kills a process is reached in wall-clock time, after its messages were read, and
 * begins again whenever the supervisor was paused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "common/control-exporter.h"
#include "common/log.h"
#include "supervisor/process/process-timer.h"

#define LIMIT (30 * USEC_PER_SEC)

static sd_event *event;
static struct process process;
static struct process_timer timer;
static int peer;
static unsigned received, fired;

static void on_message(struct control_message *message, void *userdata)
{
	received++;
	process_timer_set(&timer, LIMIT, true);
}

static void on_broken(const char *what, void *userdata)
{
	fail();
}

static void on_time(struct process_timer *fires, void *userdata)
{
	assert_ptr_equal(fires, &timer);
	fired++;
}

static int on_readable(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	return 0;
}

static int setup(void **state)
{
	static const struct process_events events = { .on_message = on_message,
		.on_broken = on_broken };
	int pair[2];

	log_setup("test-process-timer", LOG_TARGET_TEXT, LOG_EMERG);
	if (sd_event_new(&event) < 0 ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	peer = pair[1];
	process_init(&process, event, &control_exporter, NULL, &events, NULL);
	process.control_fd = pair[0];
	received = fired = 0;
	/* Only timers receive here. */
	if (sd_event_add_io(event, &process.control_source, pair[0], EPOLLIN, on_readable, NULL) <
			0 ||
		sd_event_source_set_priority(process.control_source, SD_EVENT_PRIORITY_IDLE) < 0)
		return -1;
	return process_timer_init(&timer, &process, on_time, NULL);
}

static int teardown(void **state)
{
	process_timer_done(&timer);
	process_done(&process);
	(void)close(peer);
	event = sd_event_unref(event);
	return 0;
}

/* As if the timer had been due that long ago. */
static void let_fire(uint64_t late)
{
	uint64_t due = now_usec(CLOCK_MONOTONIC) - late;

	assert_true(sd_event_source_set_time(timer.source, due) >= 0);
	assert_true(sd_event_run(event, 0) > 0);
}

/* The whole limit lies ahead. */
static void assert_set_again(uint64_t since)
{
	uint64_t due;

	assert_int_equal(fired, 0);
	assert_true(sd_event_source_get_enabled(timer.source, NULL) > 0);
	assert_true(sd_event_source_get_time(timer.source, &due) >= 0);
	assert_true(due + USEC_PER_MSEC >= since + LIMIT);
}

static void test_limit(void **state)
{
	process_timer_set(&timer, LIMIT, true);
	let_fire(0);
	assert_int_equal(fired, 1);
	assert_int_equal(sd_event_source_get_enabled(timer.source, NULL), 0);
}

static void test_P19_each_pause(void **state)
{
	process_timer_set(&timer, LIMIT, true);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t now = now_usec(CLOCK_MONOTONIC);

		let_fire(2 * USEC_PER_SEC);
		assert_set_again(now);
	}
	let_fire(0);
	assert_int_equal(fired, 1);
}

/* They wait for free descriptors. */
static void test_P19_unread_messages(void **state)
{
	struct control_message message = EXPORTER_MESSAGE_INIT(EXPORTER_TEXTFILE);
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	struct rlimit limit, none;

	message.fds[0] = memfd_create("test", MFD_CLOEXEC);
	process_timer_set(&timer, LIMIT, true);
	assert_int_equal(control_send(peer, &message), 0);
	control_message_done(&message);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	let_fire(0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(received, 0);
	assert_set_again(now);
	let_fire(0);
	assert_int_equal(received, 1);
	let_fire(0);
	assert_int_equal(fired, 1);
}

/* The answer lay in the socket when the timer fired. */
static void test_P19_answer_is_read_first(void **state)
{
	const struct control_message message = EXPORTER_MESSAGE_INIT(CONTROL_ALIVE);
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	process_timer_set(&timer, LIMIT, true);
	assert_int_equal(control_send(peer, &message), 0);
	let_fire(0);
	assert_int_equal(received, 1);
	assert_set_again(now);
}

/* What is only due does not wait again. */
static void test_late_delay(void **state)
{
	process_timer_set(&timer, LIMIT, false);
	let_fire(2 * USEC_PER_SEC);
	assert_int_equal(fired, 1);
}

static void test_off(void **state)
{
	process_timer_set(&timer, LIMIT, true);
	process_timer_set(&timer, USEC_INFINITY, true);
	assert_int_equal(sd_event_source_get_enabled(timer.source, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P19_each_pause, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P19_unread_messages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P19_answer_is_read_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_late_delay, setup, teardown),
		cmocka_unit_test_setup_teardown(test_off, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
