/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that ends at once: whether that is before or after its configuration is sent, the
 * administrator reads the same reason.
 */
#include "host-fixture.h"

#include <signal.h>
#include <sys/wait.h>

#include "common/log.h"
#include "supervisor/children/child.h"
#include "supervisor/files/published-files.h"
#include "supervisor/files/runtime-files.h"

static struct child_host host;

/* Between the start of a process and its configuration. */
static int await_exit(struct child *started, void *userdata)
{
	siginfo_t info;

	return waitid(P_PID, (id_t)started->process.pid, &info, WEXITED | WNOWAIT);
}

static void ignore(void *userdata)
{
}

static void ignore_child(struct child *child, void *userdata)
{
}

static void ignore_applied(
	struct child *child, const struct resource_config *before, void *userdata)
{
}

static void ignore_answer(
	const struct child *ended, struct control_message *message, void *userdata)
{
}

static bool ignore_cleaning(
	struct child *ended, const struct control_message *message, void *userdata)
{
	return true;
}

static int setup(void **state)
{
	static const uint64_t generation = 1;
	char run_dir[128];
	struct error error;
	sigset_t mask;

	log_setup("test-child", LOG_TARGET_TEXT, LOG_EMERG);
	if (host_setup(state) < 0)
		return -1;
	(void)snprintf(run_dir, sizeof(run_dir), "%s/run", host_root);
	host = (struct child_host){
		/* It complains of its argument, the name of the resource. */
		.program = { .executable = "/bin/cat",
			.executable_fd = open("/bin/cat", O_PATH | O_CLOEXEC) },
		.generation = &generation,
		.send_booked = await_exit,
		.on_changed = ignore,
		.on_devices = ignore_child,
		.on_edits = ignore_answer,
		.on_cleaning = ignore_cleaning,
		.on_applied = ignore_applied,
		.on_gone = ignore,
	};
	/* As in the daemon, exits are read from a descriptor. */
	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0 || sd_event_new(&host.event) < 0 ||
		runtime_files_open(run_dir, &host.files, &error) < 0 ||
		published_new(run_dir, &host.published) < 0)
		return -1;
	return arbiter_new(host.event, &host.arbiter);
}

static int teardown(void **state)
{
	host.published = published_free(host.published);
	host.arbiter = arbiter_free(host.arbiter);
	host.files = runtime_files_free(host.files);
	host.event = sd_event_unref(host.event);
	(void)close_fd(host.program.executable_fd);
	return host_teardown(state);
}

static void test_exit_before_the_configuration(void **state)
{
	const struct resource_config config = {
		.declaration = { .name = (char *)"vendor.example/gpu",
			.driver_name = (char *)"static",
			.user = (char *)"0" },
		.text = (char *)"",
	};
	_cleanup_(child_freep) struct child *child = NULL;

	/* Only root can give a process its user. */
	if (geteuid() != 0)
		skip();
	assert_int_equal(child_new(&host, &config, &child), 0);
	resource_handle(child->resource, RESOURCE_START, NULL);
	while (child->process.pid > 0)
		assert_true(sd_event_run(host.event, UINT64_MAX) >= 0);
	assert_int_equal(child->resource->state, RESOURCE_BACKOFF);
	assert_int_equal(child->resource->counts.exits[EXIT_CAUSE_CRASH], 1);
	assert_non_null(strstr(child->resource->reason, ") exited with status 1 after "));
	assert_non_null(strstr(child->resource->reason,
		"; its last log line: devplugd-plugin: vendor.example/gpu: No such file"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_exit_before_the_configuration, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
