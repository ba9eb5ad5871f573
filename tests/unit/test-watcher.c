/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kubelet's plugin watcher against the whole daemon: it finds the socket, asks, watches, and
 * reports that the resource is registered; then it ends, and there is a new socket for its
 * successor.
 */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <jansson.h>

#include "kubelet/channel.h"
#include "pluginregistration.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "supervisor/control/ask.h"

#define PATIENCE (60 * USEC_PER_SEC)
#define RESOURCE "vendor.example/gpu"

static char directory[] = "/tmp/test-watcher-XXXXXX";
static pid_t daemon_pid;
static atomic_uint results, lists;
static int last_status;
static uint8_t last_data[512];
static size_t last_size;

static void path_of(const char *name, char ret[static 256])
{
	(void)snprintf(ret, 256, "%s/%s", directory, name);
}

static void pause_shortly(uint64_t *end)
{
	const struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };

	if (*end == 0)
		*end = now_usec(CLOCK_MONOTONIC) + PATIENCE;
	if (now_usec(CLOCK_MONOTONIC) > *end)
		fail_msg("waited in vain");
	(void)nanosleep(&pause, NULL);
}

static int start_daemon(void **state)
{
	char config[256], program[4096], registry[256];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 32);
	FILE *stream;

	if (n < 0 || !mkdtemp(directory) || chmod(directory, 0755) < 0)
		return -1;
	program[n] = '\0';
	(void)strcpy(strrchr(program, '/') + 1, "devplugd");
	path_of("registry", registry);
	path_of("conf", config);
	stream = fopen(config, "we");
	if (!stream || mkdir(registry, 0755) < 0)
		return -1;
	(void)fprintf(stream,
		"runtime_dir = \"%s/run\"; kubelet = { device_plugin_dir = \"%s/plugins\";"
		"plugins_registry_dir = \"%s\"; };"
		"resources = ( { name = \"" RESOURCE "\"; driver = \"static\";"
		"match = ( { count = 3; } ); registration = \"watcher\"; } );",
		directory, directory, registry);
	if (fclose(stream) != 0)
		return -1;
	daemon_pid = fork();
	if (daemon_pid == 0) {
		(void)execl(program, program, "-c", config, NULL);
		_exit(127);
	}
	/* Not before the fork. */
	return daemon_pid < 0 ? -1 : rpc_start();
}

static int stop_daemon(void **state)
{
	char command[256];
	int status = 0;

	(void)kill(daemon_pid, SIGTERM);
	(void)RETRY_ON_EINTR(waitpid(daemon_pid, &status, 0));
	(void)snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command) != 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* The only name in the registry, once it is another one than before. */
static void await_socket(char name[static 256])
{
	char registry[256], found[256] = "";
	uint64_t end = 0;

	path_of("registry", registry);
	for (;; pause_shortly(&end)) {
		DIR *stream = opendir(registry);
		struct dirent *entry;
		unsigned count = 0;

		assert_non_null(stream);
		while ((entry = readdir(stream))) {
			if (entry->d_name[0] == '.')
				continue;
			(void)snprintf(
				found, sizeof(found), "%.100s/%.100s", registry, entry->d_name);
			count++;
		}
		(void)closedir(stream);
		if (count == 1 && !streq(found, name))
			break;
	}
	memcpy(name, found, sizeof(found));
}

static struct channel *dial(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct channel *client;

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", path);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(channel_new(fd, NULL, &client), 0);
	return client;
}

static void on_result(const struct rpc_result *result, void *userdata)
{
	last_status = result->status;
	last_size = MIN_OF(result->size, sizeof(last_data));
	if (last_size > 0)
		memcpy(last_data, result->data, last_size);
	atomic_fetch_add(&results, 1);
}

static void on_list(const uint8_t *data, size_t size, void *userdata)
{
	atomic_fetch_add(&lists, 1);
}

static void on_list_end(const struct rpc_result *result, void *userdata)
{
}

/* Returns the status. */
static int try_call(struct channel *client, const char *method, const uint8_t *data, size_t size)
{
	unsigned before = atomic_load(&results);
	uint64_t end = 0;

	assert_int_equal(channel_call(client, method, data, size, 0, on_result, NULL), 0);
	while (atomic_load(&results) == before)
		pause_shortly(&end);
	return last_status;
}

static void call(struct channel *client, const char *method, const uint8_t *data, size_t size)
{
	assert_int_equal(try_call(client, method, data, size), RPC_OK);
}

static void await_state(const char *wanted)
{
	uint64_t end = 0;
	char run[256];
	bool there = false;

	path_of("run", run);
	for (; !there; pause_shortly(&end)) {
		struct error error;
		json_t *root = NULL;
		const json_t *resource;
		const char *found;

		(void)ask_daemon(run, "status", NULL, ASK_TIMEOUT, &root, &error);
		resource = json_array_get(json_object_get(root, "resources"), 0);
		found = json_string_value(json_object_get(resource, "state"));
		there = found && streq(found, wanted);
		json_decref(root);
	}
}

static int notify(struct channel *client, bool registered, const char *text)
{
	Pluginregistration__RegistrationStatus status =
		PLUGINREGISTRATION__REGISTRATION_STATUS__INIT;
	_cleanup_free_ uint8_t *data = NULL;
	size_t size;

	status.plugin_registered = registered;
	status.error = (char *)(uintptr_t)text;
	assert_int_equal(message_pack(&status.base, &data, &size), 0);
	return try_call(client, METHOD_NOTIFY_REGISTRATION_STATUS, data, size);
}

/* The resource is served beside the visible socket, under its name behind a dot. */
static void check_endpoint(const char *endpoint, const char *visible)
{
	const char *name = strrchr(visible, '/') + 1;
	size_t length = (size_t)(name - visible);

	assert_true(strncmp(endpoint, visible, length) == 0);
	assert_int_equal(endpoint[length], '.');
	assert_string_equal(endpoint + length + 1, name);
}

/* Registers as the kubelet does, and returns the connection that watches. */
static struct channel *take_up(const char *path)
{
	_cleanup_message_ struct message message = { 0 };
	const Pluginregistration__PluginInfo *info;
	struct channel *registration = dial(path), *client;
	unsigned before = atomic_load(&lists);
	uint64_t end = 0;

	call(registration, METHOD_GET_INFO, (const uint8_t *)"", 0);
	message =
		message_unpack(&pluginregistration__plugin_info__descriptor, last_data, last_size);
	info = (const void *)message.base;
	assert_non_null(info);
	assert_string_equal(info->name, RESOURCE);
	check_endpoint(info->endpoint, path);
	client = dial(info->endpoint);
	call(client, METHOD_OPTIONS, (const uint8_t *)"", 0);
	assert_int_equal(channel_stream(client, METHOD_LIST_AND_WATCH, (const uint8_t *)"", 0,
				 on_list, on_list_end, NULL),
		0);
	while (atomic_load(&lists) == before)
		pause_shortly(&end);
	assert_int_equal(notify(registration, true, ""), RPC_OK);
	(void)channel_free(registration);
	return client;
}

/* The path of the socket that a kubelet took up last; each test uses another one. */
static char path[256];

static void test_kubelets_come_and_go(void **state)
{
	for (unsigned i = 0; i < 3; i++) {
		struct channel *client;

		await_socket(path);
		client = take_up(path);
		await_state("serving");
		(void)channel_free(client);
		await_state("registering");
	}
}

/* A kubelet that refuses: with a pause, another socket. */
static void test_refusal(void **state)
{
	struct channel *client;

	await_socket(path);
	client = dial(path);
	call(client, METHOD_GET_INFO, (const uint8_t *)"", 0);
	/* Which ends the session, often before the answer has been sent. */
	(void)notify(client, false, "no");
	await_socket(path);
	(void)channel_free(client);
	client = take_up(path);
	await_state("serving");
	(void)channel_free(client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kubelets_come_and_go),
		cmocka_unit_test(test_refusal),
	};
	int failed = cmocka_run_group_tests(tests, start_daemon, stop_daemon);

	(void)fflush(NULL);
	_exit(failed);
}
