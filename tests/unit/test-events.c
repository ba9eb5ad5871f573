/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of events: bounded, in order, and one resource, or one kind of event without a resource,
 * cannot displace other events.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/log.h"
#include "supervisor/children/manager.h"
#include "supervisor/control/events.h"

static struct manager manager;

static int setup(void **state)
{
	manager = (struct manager){ 0 };
	/* Events are kept at any log level. */
	log_setup("test", LOG_TARGET_TEXT, LOG_EMERG);
	return events_new(&manager, &manager.events);
}

static int teardown(void **state)
{
	manager.events = events_free(manager.events);
	return 0;
}

static void log_of_kind(
	const char *message_id, const char *resource, unsigned first, unsigned count)
{
	const struct log_fields fields = { .resource = resource, .message_id = message_id };

	for (unsigned i = first; i < first + count; i++)
		log_full(LOG_NOTICE, &fields, "event %u", i);
}

static void log_events(const char *resource, unsigned first, unsigned count)
{
	log_of_kind("0123", resource, first, count);
}

/* The answer to the arguments; the caller's. */
static json_t *ask(json_t *arguments)
{
	struct request request = { .manager = &manager, .arguments = arguments, .first = true };
	struct error error = { 0 };
	json_t *answer;

	assert_int_equal(events_request(&request, &answer, &error), 0);
	json_decref(arguments);
	return answer;
}

static size_t count_of(const char *resource)
{
	json_t *answer = ask(json_pack("{s:s}", "resource", resource));
	size_t count = json_array_size(json_object_get(answer, "events"));

	json_decref(answer);
	return count;
}

static const char *text_of(const json_t *answer, size_t i)
{
	return json_string_value(
		json_object_get(json_array_get(json_object_get(answer, "events"), i), "text"));
}

static void test_only_what_has_an_identity(void **state)
{
	const struct log_fields fields = {
		.resource = "a/b",
		.device = "d\xff",
		.message_id = "0123",
	};
	json_t *answer, *event;

	log_notice("nothing special");
	log_full(LOG_DEBUG, &fields, "nothing important");
	log_full(LOG_WARNING, &fields, "a\033b");
	answer = ask(json_object());
	assert_int_equal(json_array_size(json_object_get(answer, "events")), 1);
	event = json_array_get(json_object_get(answer, "events"), 0);
	assert_string_equal(json_string_value(json_object_get(event, "text")), "a?b");
	assert_string_equal(json_string_value(json_object_get(event, "device")), "d?");
	assert_string_equal(json_string_value(json_object_get(event, "level")), "warning");
	assert_string_equal(json_string_value(json_object_get(event, "resource")), "a/b");
	assert_string_equal(json_string_value(json_object_get(event, "message_id")), "0123");
	assert_int_equal(json_integer_value(json_object_get(answer, "last")), 1);
	json_decref(answer);
}

static void test_order_and_selection(void **state)
{
	json_t *answer;

	log_events("a/b", 1, 3);
	log_events("c/d", 4, 2);
	answer = ask(json_pack("{s:i}", "after", 2));
	assert_int_equal(json_array_size(json_object_get(answer, "events")), 3);
	assert_string_equal(text_of(answer, 0), "event 3");
	assert_string_equal(text_of(answer, 2), "event 5");
	json_decref(answer);
	assert_int_equal(count_of("a/b"), 3);
	assert_int_equal(count_of("x/y"), 0);
}

static size_t count_all(void)
{
	json_t *answer = ask(json_object());
	size_t count = json_array_size(json_object_get(answer, "events"));

	json_decref(answer);
	return count;
}

static void test_bounds(void **state)
{
	json_t *answer;

	log_of_kind("4567", NULL, 7, 1);
	log_events("quiet/one", 0, 2);
	log_events("loud/one", 0, 3 * EVENTS_MAX);
	assert_int_equal(count_of("quiet/one"), 2);
	assert_int_equal(count_of("loud/one"), EVENTS_SOURCE_MAX);
	log_events(NULL, 0, 3 * EVENTS_MAX);
	assert_int_equal(count_of("quiet/one"), 2);
	assert_int_equal(count_of("loud/one"), EVENTS_SOURCE_MAX);
	assert_int_equal(count_all(), 1 + 2 + 2 * EVENTS_SOURCE_MAX);
	answer = ask(json_object());
	assert_string_equal(text_of(answer, 0), "event 7");
	assert_int_equal(json_integer_value(json_object_get(answer, "last")), 6 * EVENTS_MAX + 3);
	json_decref(answer);
	log_events("loud/two", 0, EVENTS_MAX);
	log_events("loud/three", 0, EVENTS_MAX);
	assert_int_equal(count_all(), EVENTS_MAX);
}

static void test_follow(void **state)
{
	json_t *arguments = json_pack("{s:i, s:b}", "after", 1, "follow", 1), *answer;
	struct request request = { .manager = &manager, .arguments = arguments, .first = true };

	log_events("a/b", 1, 1);
	assert_int_equal(events_request(&request, &answer, NULL), REQUEST_LATER);
	log_events("a/b", 2, 1);
	assert_int_equal(events_request(&request, &answer, NULL), 0);
	assert_string_equal(text_of(answer, 0), "event 2");
	json_decref(answer);
	request.arguments = json_pack("{s:i, s:b}", "after", 2, "follow", 1);
	request.expired = true;
	assert_int_equal(events_request(&request, &answer, NULL), 0);
	assert_int_equal(json_array_size(json_object_get(answer, "events")), 0);
	json_decref(answer);
	json_decref(arguments);
	json_decref((json_t *)request.arguments);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_only_what_has_an_identity),
		TEST(test_order_and_selection),
		TEST(test_bounds),
		TEST(test_follow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
