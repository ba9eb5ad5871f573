/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the kubelet waits for the end of a claim whose devices are cleaned, with a clock that
 * moves only when the test moves it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "supervisor/books/cleaning.h"
#include "supervisor/children/manager.h"
#include "supervisor/helpers/dra-ends.h"

static uint64_t now = 1000000 * USEC_PER_SEC;
static struct manager manager;
static struct dra_ends *ends;
static bool cleaned;
static void (*on_look)(void *userdata);
static void *look_userdata;

/* Takes the place of libc's, also for libsystemd. */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
	if (clock != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, clock, ret);
	*ret = (struct timespec){ .tv_sec = (time_t)(now / USEC_PER_SEC),
		.tv_nsec = (long)(now % USEC_PER_SEC) * 1000 };
	return 0;
}

/* --- in place of cleaning --- */

void cleaning_observe(struct cleaning *cleaning, void (*handler)(void *userdata), void *userdata)
{
	on_look = handler;
	look_userdata = userdata;
}

int cleaning_end_claim(struct cleaning *cleaning, const char *claim_uid, struct error *error)
{
	return cleaned ? 0 : error_set(error, -EBUSY, "%s is being cleaned", claim_uid);
}

/* --- --- */

static struct {
	uint64_t request, at;
	char text[512];
} answers[4];
static size_t n_answers;

static void on_end(uint64_t number, const struct error *error, void *userdata)
{
	answers[n_answers].request = number;
	answers[n_answers].at = now;
	(void)snprintf(answers[n_answers].text, sizeof(answers[0].text), "%s",
		error ? error->message : "");
	n_answers++;
}

static void run(void)
{
	while (sd_event_run(manager.event, 0) > 0)
		;
}

static void test_ends(void **state)
{
	const uint64_t begin = now;

	assert_true(sd_event_new(&manager.event) >= 0);
	assert_int_equal(dra_ends_new(&manager, on_end, NULL, &ends), 0);
	dra_ends_add(ends, 1, "a");
	now += 5 * USEC_PER_SEC;
	dra_ends_add(ends, 2, "b");
	while (n_answers < 1) {
		now += 100 * USEC_PER_MSEC;
		run();
	}
	/* The kubelet ends a call after 45 s, and asks again after an error. */
	assert_int_equal(answers[0].request, 1);
	assert_in_range(answers[0].at - begin, 39 * USEC_PER_SEC, 43 * USEC_PER_SEC);
	assert_string_equal(answers[0].text, "a is being cleaned");
	dra_ends_add(ends, 3, "a");
	assert_int_equal(n_answers, 1);
	/* No call waits after the cleaning. */
	cleaned = true;
	on_look(look_userdata);
	assert_int_equal(n_answers, 3);
	for (size_t i = 1; i < n_answers; i++) {
		assert_int_equal(answers[i].at, now);
		assert_string_equal(answers[i].text, "");
	}
	dra_ends_add(ends, 4, "a");
	assert_int_equal(n_answers, 4);
	assert_string_equal(answers[3].text, "");
	(void)dra_ends_free(ends);
	sd_event_unref(manager.event);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
