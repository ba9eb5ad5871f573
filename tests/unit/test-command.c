/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs and how they end.
 */
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#include "host-fixture.h"

#include "drivers/host/command-spawn.h"
#include "drivers/host/command.h"

static const struct strings subjects;
static struct command *command;
static unsigned ended;
static int status;
static struct error last;

static int setup(void **state)
{
	ended = 0;
	return host_setup(state);
}

static int teardown(void **state)
{
	command = command_free(command);
	return host_teardown(state);
}

static void on_end(int result, const struct error *error, void *userdata)
{
	assert_ptr_equal(userdata, &ended);
	ended++;
	status = result;
	if (result < 0)
		last = *error;
	command = command_free(command);
}

/* Runs a script, with the root of the tree as $1. */
static void start(const char *script, uint64_t timeout)
{
	char shell[] = "/bin/sh", flag[] = "-c", name[] = "sh", text[1024];
	char *argv[] = { shell, flag, text, name, host_root, NULL };
	struct error error;

	(void)snprintf(text, sizeof(text), "%s", script);
	if (command_start(host_event, argv, &subjects, timeout, on_end, &ended, &command, &error) <
		0)
		fail_msg("%s", error.message);
}

static void expect(const char *script, int expected, const char *message)
{
	ended = 0;
	start(script, 10 * USEC_PER_SEC);
	RUN_UNTIL(ended > 0);
	assert_int_equal(ended, 1);
	if (status != expected)
		fail_msg("%s: %d %s", script, status, last.message);
	if (message)
		assert_string_equal(last.message, message);
}

static void test_ends(void **state)
{
	expect("exit 0", 0, NULL);
	expect("exit 3", -EIO, "/bin/sh failed with exit status 3");
	expect("echo one; echo two >&2; exit 1", -EIO, "/bin/sh failed with exit status 1: two");
	expect("printf 'last'; echo; echo; exit 1", -EIO,
		"/bin/sh failed with exit status 1: last");
	expect("kill -KILL $$", -ECANCELED, "/bin/sh was killed by signal 9 (Killed)");
	expect("yes | head -c 3000000; echo; echo end; exit 1", -EIO,
		"/bin/sh failed with exit status 1: end");
	expect("printf '\\377\\033x\\n'; exit 1", -EIO, "/bin/sh failed with exit status 1: ??x");
}

static void test_surroundings(void **state)
{
	int careless = dup(STDIN_FILENO);
	sigset_t blocked;

	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGUSR1);
	assert_int_equal(sigprocmask(SIG_BLOCK, &blocked, NULL), 0);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)setenv("LD_PRELOAD_OF_THE_DAEMON", "x", 1);
	expect("test -z \"$LD_PRELOAD_OF_THE_DAEMON\" && test \"$LANG\" = C.UTF-8 && "
	       "test -n \"$PATH\" && test -z \"$(cat)\"",
		0, NULL);
	/* Nothing of ours is open but what a program has: 0, 1, 2, and the directory listed. */
	expect("test \"$(ls /proc/self/fd | wc -l)\" = 4", 0, NULL);
	/* Signals 32 and 33 are the C library's own. */
	expect("grep -q '^SigBlk:.0*$' /proc/self/status && "
	       "grep -q '^SigIgn:.*[08]0000000$' /proc/self/status",
		0, NULL);
	close_fd(careless);
	(void)signal(SIGPIPE, SIG_DFL);
	assert_int_equal(sigprocmask(SIG_UNBLOCK, &blocked, NULL), 0);
}

static void test_cannot_start(void **state)
{
	char program[] = "/nonexistent/program";
	char *argv[] = { program, NULL };
	struct error error;

	assert_int_equal(command_start(host_event, argv, &subjects, USEC_PER_SEC, on_end, &ended,
				 &command, &error),
		-ENOENT);
	assert_string_equal(
		error.message, "/nonexistent/program cannot be started: No such file or directory");
	assert_null(command);
}

/* What a program leaves behind becomes our child. */
static bool alive(const char *file)
{
	char path[512], text[32] = "";
	FILE *stream;
	pid_t pid;

	host_path(path, file);
	stream = fopen(path, "re");
	assert_non_null(stream);
	assert_non_null(fgets(text, sizeof(text), stream));
	(void)fclose(stream);
	pid = (pid_t)atoi(text);
	return waitpid(pid, NULL, WNOHANG) != pid && kill(pid, 0) == 0;
}

static bool exists(const char *file)
{
	char path[512];

	host_path(path, file);
	return access(path, F_OK) == 0;
}

#define LEAVES_CHILDREN "trap '' TERM; sleep 1000 & echo $! > $1/new; mv $1/new $1/child; "

static void test_timeout(void **state)
{
	start(LEAVES_CHILDREN "echo waiting; wait", 500 * USEC_PER_MSEC);
	RUN_UNTIL(ended > 0);
	assert_int_equal(status, -ETIMEDOUT);
	assert_string_equal(
		last.message, "/bin/sh did not exit within 0.5 s and was killed: waiting");
	RUN_UNTIL(!alive("/child"));
}

static void test_leftovers_are_killed(void **state)
{
	expect(LEAVES_CHILDREN "exit 0", 0, NULL);
	RUN_UNTIL(!alive("/child"));
}

static void test_free_kills(void **state)
{
	start(LEAVES_CHILDREN "wait", 100 * USEC_PER_SEC);
	RUN_UNTIL(exists("/child"));
	command = command_free(command);
	RUN_UNTIL(!alive("/child"));
	run_for(100 * USEC_PER_MSEC);
	assert_int_equal(ended, 0);
}

static size_t count_descriptors(void)
{
	DIR *stream = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(stream);
	while (readdir(stream))
		n++;
	(void)closedir(stream);
	return n;
}

struct reading {
	char text[64];
	size_t size;
	size_t most;
};

static struct reading reading;

static bool on_data(const char *data, size_t size, void *userdata)
{
	size_t room = sizeof(reading.text) - 1 - MIN_OF(reading.size, sizeof(reading.text) - 1);

	assert_ptr_equal(userdata, &ended);
	memcpy(reading.text + MIN_OF(reading.size, sizeof(reading.text) - 1), data,
		MIN_OF(size, room));
	reading.size += size;
	return reading.most == 0 || reading.size < reading.most;
}

static void start_reading(const char *script, uint64_t timeout, size_t most)
{
	char shell[] = "/bin/sh", flag[] = "-c", name[] = "sh", text[1024];
	char *argv[] = { shell, flag, text, name, host_root, NULL };
	struct error error;

	reading = (struct reading){ .most = most };
	ended = 0;
	(void)snprintf(text, sizeof(text), "%s", script);
	if (command_start_reading(host_event, argv, &subjects, -EBADF, timeout, on_data, on_end,
		    &ended, &command, &error) < 0)
		fail_msg("%s", error.message);
}

static void test_reading(void **state)
{
	start_reading("echo one; echo two >&2; echo three", 10 * USEC_PER_SEC, 0);
	RUN_UNTIL(ended > 0);
	assert_int_equal(status, 0);
	assert_string_equal(reading.text, "one\nthree\n");
	start_reading("echo one; echo two >&2; echo three; exit 1", 10 * USEC_PER_SEC, 0);
	RUN_UNTIL(ended > 0);
	assert_string_equal(last.message, "/bin/sh failed with exit status 1: two");
	/* All of it, however fast the program ends. */
	for (unsigned i = 0; i < 10; i++) {
		start_reading("head -c 60000 /dev/zero; exit 0", 10 * USEC_PER_SEC, 0);
		RUN_UNTIL(ended > 0);
		assert_int_equal(reading.size, 60000);
	}
	start_reading("head -c 3000000 /dev/zero", 10 * USEC_PER_SEC, 0);
	RUN_UNTIL(ended > 0);
	assert_int_equal(reading.size, 3000000);
}

static void test_enough_is_read(void **state)
{
	start_reading("trap '' TERM; " LEAVES_CHILDREN "cat /dev/zero", 100 * USEC_PER_SEC, 100000);
	RUN_UNTIL(ended > 0);
	assert_int_equal(ended, 1);
	assert_int_equal(status, -EBADMSG);
	assert_true(reading.size < 100000 + 8192);
	RUN_UNTIL(!alive("/child"));
}

static void test_forgotten_timeout(void **state)
{
	start_reading("sleep 1; echo late", 300 * USEC_PER_MSEC, 0);
	command_forget_timeout(command);
	RUN_UNTIL(ended > 0);
	assert_int_equal(status, 0);
	assert_string_equal(reading.text, "late\n");
}

/* No process is left to kill it. */
static void test_killed_with_us(void **state)
{
	char shell[] = "/bin/sh", flag[] = "-c", name[] = "sh";
	char text[] = "echo $$ > $1/new; mv $1/new $1/child; exec sleep 1000";
	char *argv[] = { shell, flag, text, name, host_root, NULL };
	pid_t pid = fork(), program;

	assert_true(pid >= 0);
	if (pid == 0) {
		if (command_spawn(argv, -EBADF, STDERR_FILENO, STDERR_FILENO, &program) < 0)
			_exit(EXIT_FAILURE);
		while (!exists("/child"))
			(void)usleep(1000);
		(void)kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	RUN_UNTIL(!alive("/child"));
}

/* What leaves the process group is ended all the same, and running programs are not. */
static void test_orphans(void **state)
{
	start("setsid sh -c 'echo $$ > '$1'/new; mv '$1'/new '$1'/child; exec sleep 1000' & "
	      "while ! [ -e $1/child ]; do sleep 0.01; done",
		10 * USEC_PER_SEC);
	RUN_UNTIL(ended > 0);
	assert_int_equal(status, 0);
	start("sleep 1000", 1000 * USEC_PER_SEC);
	assert_true(command_end_orphans());
	RUN_UNTIL(!alive("/child") && !command_end_orphans());
	assert_int_equal(ended, 1);
	command = command_free(command);
	RUN_UNTIL(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

static void test_nothing_is_left(void **state)
{
	size_t before;

	expect("exit 0", 0, NULL);
	before = count_descriptors();
	for (unsigned i = 0; i < 20; i++)
		expect("exit 1", -EIO, NULL);
	for (unsigned i = 0; i < 20; i++) {
		start("sleep 1000", USEC_PER_SEC);
		command = command_free(command);
	}
	RUN_UNTIL(count_descriptors() == before);
	RUN_UNTIL(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	expect("exit 0", 0, NULL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_ends),
		TEST(test_surroundings),
		TEST(test_cannot_start),
		TEST(test_timeout),
		TEST(test_leftovers_are_killed),
		TEST(test_free_kills),
		TEST(test_reading),
		TEST(test_enough_is_read),
		TEST(test_forgotten_timeout),
		TEST(test_orphans),
		TEST(test_killed_with_us),
		TEST(test_nothing_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
