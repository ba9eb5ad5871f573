/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which callers share an answer of the kubelet about its pods, and what a handler may do while it
 * uses one. No process is started: without `pod_resources` each question is answered with a
 * failure.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/books/pod-resources.h"
#include "supervisor/children/manager.h"

/* INQUIRIES_MAX of pod-resources.c. */
#define MANY 16

static struct config config;
static struct manager manager = { .config = &config };
static unsigned answers;

static int setup(void **state)
{
	answers = 0;
	if (sd_event_new(&manager.event) < 0)
		return -1;
	return pod_resources_new(&manager, &manager.pods);
}

static int teardown(void **state)
{
	manager.pods = pod_resources_free(manager.pods);
	manager.event = sd_event_unref(manager.event);
	return 0;
}

static void assert_failure(const struct pod_answer *answer)
{
	assert_int_equal(answer->error, -EOPNOTSUPP);
	assert_string_equal(answer->failure, "pod_resources is false in the configuration");
	assert_null(answer->table);
	answers++;
}

static void on_answer(const struct pod_answer *answer, void *userdata)
{
	assert_failure(answer);
}

static void ask(const char *question, pod_answer_handler handler)
{
	assert_int_equal(
		pod_resources_ask(manager.pods, question, POD_ANSWER_AGE, handler, NULL), 0);
}

static void ask_numbered(unsigned number, pod_answer_handler handler)
{
	char question[16];

	(void)snprintf(question, sizeof(question), "%u", number);
	ask(question, handler);
}

static void run(void)
{
	while (sd_event_run(manager.event, 0) > 0)
		;
}

static void test_answer_is_shared(void **state)
{
	ask("list", on_answer);
	run();
	assert_int_equal(answers, 1);
	ask("list", on_answer);
	ask("list", on_answer);
	run();
	assert_int_equal(answers, 3);
}

/* An answer for which no caller waits makes room, but not the one that the handler has. */
static void on_answer_ask_another(const struct pod_answer *answer, void *userdata)
{
	assert_failure(answer);
	ask("another", on_answer);
	assert_failure(answer);
}

static void test_handler_asks_another(void **state)
{
	for (unsigned i = 0; i < MANY; i++)
		ask_numbered(i, i == MANY - 1 ? on_answer_ask_another : on_answer);
	run();
	assert_int_equal(answers, MANY + 2);
}

static void on_answer_ask_many(const struct pod_answer *answer, void *userdata)
{
	for (unsigned i = 0; i < MANY - 1; i++)
		ask_numbered(i, on_answer);
	assert_int_equal(
		pod_resources_ask(manager.pods, "another", POD_ANSWER_AGE, on_answer, NULL),
		-EBUSY);
	assert_failure(answer);
}

static void test_handler_asks_too_much(void **state)
{
	ask("list", on_answer_ask_many);
	run();
	assert_int_equal(answers, MANY);
}

static void on_answer_ask_again(const struct pod_answer *answer, void *userdata)
{
	assert_failure(answer);
	ask("list", on_answer);
	assert_int_equal(answers, 1);
}

static void test_handler_asks_again(void **state)
{
	ask("list", on_answer_ask_again);
	run();
	assert_int_equal(answers, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_answer_is_shared, setup, teardown),
		cmocka_unit_test_setup_teardown(test_handler_asks_another, setup, teardown),
		cmocka_unit_test_setup_teardown(test_handler_asks_too_much, setup, teardown),
		cmocka_unit_test_setup_teardown(test_handler_asks_again, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
