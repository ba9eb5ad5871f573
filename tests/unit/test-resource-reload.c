/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a new configuration does to a resource that runs.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "resource-fixture.h"

static void test_reload_keeps_the_child(void **state)
{
	bring_to(RESOURCE_SERVING);
	update("one", NULL);
	assert_int_equal(world.configures, 0);
	update("two", NULL);
	update("three", NULL);
	update("four", NULL);
	assert_int_equal(world.configures, 1); /* one at a time */
	assert_string_equal(world.text, "two");
	assert_int_equal(wait_of(RESOURCE_TIMER_ANSWER), 30 * USEC_PER_SEC);
	tell(RESOURCE_READY);
	assert_string_equal(world.text, "four"); /* the newest only */
	tell(RESOURCE_READY);
	assert_int_equal(world.timers[RESOURCE_TIMER_ANSWER], USEC_INFINITY);
	expect(RESOURCE_SERVING);
	assert_int_equal(world.starts, 1);
	assert_int_equal(world.sessions, 1);
	tell(RESOURCE_READY); /* unasked */
	assert_int_equal(world.configures, 2);
	update("five", NULL);
	fire(RESOURCE_TIMER_ANSWER);
	expect(RESOURCE_DYING);
	end();
}

static void test_another_user_needs_another_process(void **state)
{
	bring_to(RESOURCE_SERVING);
	update("one", "nobody");
	expect(RESOURCE_RESTARTING);
	assert_int_equal(world.stops, 1);
	tell(RESOURCE_EXIT);
	expect(RESOURCE_STARTING); /* at once */
	assert_string_equal(world.resource->user, "nobody");
	assert_int_equal(world.resource->restarts, 1);
	end();
}

static void test_refused_reload_keeps_the_old(void **state)
{
	bring_to(RESOURCE_SERVING);
	update("bad", NULL);
	tell(RESOURCE_REFUSED);
	expect(RESOURCE_SERVING);
	assert_non_null(strstr(world.resource->reason, "because"));
	tell(RESOURCE_EXIT);
	fire(RESOURCE_TIMER_STATE);
	assert_string_equal(world.text, "one"); /* also after a crash */
	tell(RESOURCE_READY);
	assert_int_equal(world.configures, 1);
	update("bad", NULL); /* tried again at each reload */
	assert_string_equal(world.text, "bad");
	tell(RESOURCE_READY);
	assert_false(world.resource->refused);
	end();

	bring_to(RESOURCE_SERVING);
	update("bad", NULL);
	update("good", NULL);
	tell(RESOURCE_REFUSED); /* of what is not wanted any more */
	assert_string_equal(world.text, "good");
	tell(RESOURCE_READY);
	assert_string_equal(world.resource->reason, "");
	end();
}

/* The child dies before it could answer: the new text must not displace one that was accepted. */
static void test_refused_after_a_crash(void **state)
{
	bring_to(RESOURCE_SERVING);
	update("bad", NULL);
	tell(RESOURCE_EXIT);
	fire(RESOURCE_TIMER_STATE);
	assert_string_equal(world.text, "bad");
	tell(RESOURCE_REFUSED);
	expect(RESOURCE_STARTING);
	assert_string_equal(world.text, "one");
	tell(RESOURCE_REFUSED); /* the hardware was removed, too */
	expect(RESOURCE_FAILED);
	fire(RESOURCE_TIMER_STATE);
	expect(RESOURCE_STARTING);
	assert_string_equal(world.text, "bad");
	end();
}

static void update_programs(const char *text, bool runs_programs)
{
	struct resource_config *config = config_of(text, NULL);
	enum resource_event event;

	config->declaration.allocate.command.count = runs_programs;
	event = resource_update(world.resource, config);
	if (event != _RESOURCE_EVENT_MAX)
		tell(event);
}

/* What the resource is judged by is what a child has accepted, also while another is tried. */
static void test_applied_is_what_was_accepted(void **state)
{
	bring_to(RESOURCE_SERVING);
	assert_string_equal(resource_applied(world.resource)->text, "one");
	assert_int_equal(world.applied, 1); /* the first */
	update("bad", NULL);
	resource_publishes(world.resource); /* still files of "one" */
	assert_string_equal(resource_applied(world.resource)->text, "one");
	tell(RESOURCE_REFUSED);
	assert_string_equal(resource_applied(world.resource)->text, "one");
	tell(RESOURCE_EXIT);
	fire(RESOURCE_TIMER_STATE);
	tell(RESOURCE_READY);
	update("bad", NULL);
	tell(RESOURCE_EXIT);
	fire(RESOURCE_TIMER_STATE);
	assert_string_equal(world.text, "bad");
	assert_string_equal(resource_applied(world.resource)->text, "one");
	assert_int_equal(world.applied, 1);
	tell(RESOURCE_READY);
	assert_string_equal(resource_applied(world.resource)->text, "bad");
	assert_int_equal(world.applied, 2);
	end();

	/* Before its first READY a process publishes files of what it was sent. */
	bring_to(RESOURCE_SERVING);
	tell(RESOURCE_EXIT);
	update("two", NULL);
	assert_string_equal(resource_applied(world.resource)->text, "one");
	resource_publishes(world.resource);
	assert_string_equal(resource_applied(world.resource)->text, "two");
	tell(RESOURCE_READY);
	assert_int_equal(world.applied, 2);
	end();

	/* Without any, it is the newest. */
	begin();
	update("two", NULL);
	assert_string_equal(resource_applied(world.resource)->text, "two");
	end();
}

/* The process was started as another user, for a configuration that it then refused. */
static void test_refused_user_needs_another_process(void **state)
{
	bring_to(RESOURCE_SERVING);
	update("bad", "nobody");
	tell(RESOURCE_EXIT);
	assert_string_equal(world.resource->user, "nobody");
	assert_string_equal(world.text, "bad");
	tell(RESOURCE_REFUSED);
	expect(RESOURCE_RESTARTING);
	tell(RESOURCE_EXIT);
	assert_string_equal(world.text, "one");
	assert_null(world.resource->user);
	tell(RESOURCE_READY);
	expect(RESOURCE_REGISTERING);
	end();

	/* It could not run the programs of the one that is applied. */
	bring_to(RESOURCE_SERVING);
	update_programs("one with programs", true);
	tell(RESOURCE_EXIT);
	tell(RESOURCE_READY);
	update("bad", "nobody");
	tell(RESOURCE_EXIT);
	tell(RESOURCE_REFUSED);
	expect(RESOURCE_RESTARTING);
	tell(RESOURCE_EXIT);
	assert_string_equal(world.text, "one with programs");
	assert_false(world.resource->confined);
	end();
}

/* A child that was sent a text without programs before it was ready can run none. */
static void test_programs_after_a_refusal(void **state)
{
	bring_to(RESOURCE_SERVING);
	update_programs("bad", true);
	expect(RESOURCE_RESTARTING);
	tell(RESOURCE_EXIT);
	assert_string_equal(world.text, "bad");
	tell(RESOURCE_REFUSED);
	assert_string_equal(world.text, "one");
	tell(RESOURCE_READY);
	update_programs("good", true);
	expect(RESOURCE_RESTARTING);
	tell(RESOURCE_EXIT);
	assert_string_equal(world.text, "good");
	tell(RESOURCE_READY);
	/* One that was ready before keeps them. */
	update_programs("two", false);
	tell(RESOURCE_READY);
	update_programs("three", true);
	assert_string_equal(world.text, "three");
	assert_int_equal(world.starts, 3);
	end();

	/* The text of before is refused, too. */
	bring_to(RESOURCE_SERVING);
	update_programs("bad", true);
	tell(RESOURCE_EXIT);
	tell(RESOURCE_REFUSED);
	assert_string_equal(world.text, "one");
	tell(RESOURCE_REFUSED);
	expect(RESOURCE_FAILED);
	fire(RESOURCE_TIMER_STATE);
	expect(RESOURCE_RESTARTING);
	tell(RESOURCE_EXIT);
	assert_string_equal(world.text, "bad");
	end();

	/* A reload before the refusal. */
	begin();
	update_programs("bad", true);
	tell(RESOURCE_START);
	update_programs("one", false);
	tell(RESOURCE_REFUSED);
	assert_string_equal(world.text, "one");
	tell(RESOURCE_READY);
	update_programs("good", true);
	expect(RESOURCE_RESTARTING);
	tell(RESOURCE_EXIT);
	end();
}

/* What is logged from here to end_log(). */
static int saved_stderr, log_fd;

static void begin_log(void)
{
	saved_stderr = dup(STDERR_FILENO);
	log_fd = memfd_create("log", MFD_CLOEXEC);
	assert_true(saved_stderr >= 0 && log_fd >= 0);
	assert_true(dup2(log_fd, STDERR_FILENO) >= 0);
	log_set_max_level(LOG_ERR);
}

/* Ends with how often a sentence is in it. */
static unsigned end_log(const char *sentence)
{
	char text[4096];
	unsigned n = 0;
	ssize_t size;

	log_set_max_level(LOG_CRIT);
	assert_true(dup2(saved_stderr, STDERR_FILENO) >= 0);
	close_fd(saved_stderr);
	size = pread(log_fd, text, sizeof(text) - 1, 0);
	assert_true(size >= 0);
	text[size] = '\0';
	close_fd(log_fd);
	for (const char *p = text; (p = strstr(p, sentence)); p++)
		n++;
	return n;
}

static void be_refused(const char *why)
{
	resource_handle(world.resource, RESOURCE_REFUSED, why);
}

static void test_refusal_is_logged_once(void **state)
{
	begin_log();
	bring_to(RESOURCE_FAILED);
	for (unsigned i = 0; i < 3; i++) {
		fire(RESOURCE_TIMER_STATE);
		tell(RESOURCE_REFUSED);
		expect(RESOURCE_FAILED);
	}
	assert_int_equal(end_log("configuration refused: because; retried every 60 s"), 1);

	begin_log();
	fire(RESOURCE_TIMER_STATE);
	be_refused("another cause");
	assert_int_equal(end_log("refused"), 1);

	begin_log();
	update("one", NULL); /* the caller of the reload gets the reason */
	be_refused("another cause");
	assert_int_equal(end_log("refused"), 1);

	begin_log();
	fire(RESOURCE_TIMER_STATE);
	tell(RESOURCE_READY);
	tell(RESOURCE_EXIT);
	fire(RESOURCE_TIMER_STATE);
	be_refused("another cause"); /* it was well in between */
	assert_int_equal(end_log("refused"), 1);
	end();
}

static void test_configuration_cannot_be_sent(void **state)
{
	bring_to(RESOURCE_SERVING);
	world.configure_result = -EMFILE;
	update("two", NULL);
	expect(RESOURCE_SERVING);
	assert_int_equal(wait_of(RESOURCE_TIMER_ANSWER), 10 * USEC_PER_SEC);
	fire(RESOURCE_TIMER_ANSWER);
	expect(RESOURCE_SERVING);
	world.configure_result = 0;
	fire(RESOURCE_TIMER_ANSWER);
	assert_string_equal(world.text, "two");
	tell(RESOURCE_READY);
	expect(RESOURCE_SERVING);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reload_keeps_the_child),
		cmocka_unit_test(test_refused_reload_keeps_the_old),
		cmocka_unit_test(test_refused_after_a_crash),
		cmocka_unit_test(test_applied_is_what_was_accepted),
		cmocka_unit_test(test_refused_user_needs_another_process),
		cmocka_unit_test(test_programs_after_a_refusal),
		cmocka_unit_test(test_refusal_is_logged_once),
		cmocka_unit_test(test_configuration_cannot_be_sent),
		cmocka_unit_test(test_another_user_needs_another_process),
	};

	log_setup("test-resource-reload", LOG_TARGET_TEXT, LOG_CRIT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
