/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet's plugin watcher against a session without a connection to kubelet.sock: it asks what
 * the socket is, opens ListAndWatch, and reports whether it registered the resource.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "kubelet/channel.h"
#include "pluginregistration.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "proto/plugin/plugin-session.h"

#define RESOURCE "vendor.example/gpu"
#define ENDPOINT "/var/lib/kubelet/plugins_registry/devplugd-1.sock"
#define PATIENCE (20 * USEC_PER_SEC)

static struct {
	sd_event *event;
	struct service *service;
	struct session *session;
	struct channel *client;
	char address[64];
	unsigned registered, serving, ended;
	char why[600];

	/* Written on gRPC's thread before `results` is. */
	int status;
	char text[256];
	uint8_t data[512];
	size_t size;
	atomic_uint results;
} world;

static void on_registered(struct session *session, void *userdata)
{
	world.registered++;
}

static void on_serving(struct session *session, void *userdata)
{
	world.serving++;
}

static void on_ended(struct session *session, const char *why, void *userdata)
{
	world.ended++;
	(void)snprintf(world.why, sizeof(world.why), "%s", why);
	world.session = session_free(session);
}

static const struct session_events session_events = {
	.on_registered = on_registered,
	.on_serving = on_serving,
	.on_ended = on_ended,
};

static void on_stream(uint64_t label, bool opened, void *userdata)
{
	if (world.session)
		session_on_stream(world.session, label, opened);
}

static void on_verdict(uint64_t label, bool registered, const char *text, void *userdata)
{
	if (world.session)
		session_on_registration(world.session, label, registered, text);
}

static const struct service_events service_events = {
	.on_stream = on_stream,
	.on_verdict = on_verdict,
};

static void on_result(const struct rpc_result *result, void *userdata)
{
	world.status = result->status;
	(void)snprintf(world.text, sizeof(world.text), "%s", result->text);
	world.size = MIN_OF(result->size, sizeof(world.data));
	if (world.size > 0)
		memcpy(world.data, result->data, world.size);
	atomic_fetch_add(&world.results, 1);
}

static void on_list(const uint8_t *data, size_t size, void *userdata)
{
}

static void on_list_end(const struct rpc_result *result, void *userdata)
{
}

static void await(const unsigned *counter, unsigned value)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC) + PATIENCE;

	while (*counter < value && now_usec(CLOCK_MONOTONIC) < end)
		assert_true(sd_event_run(world.event, 10 * USEC_PER_MSEC) >= 0);
	assert_int_equal(*counter, value);
}

/* Calls and waits for the answer. */
static void call(const char *path, const uint8_t *data, size_t size)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC) + PATIENCE;
	unsigned before = atomic_load(&world.results);

	assert_int_equal(channel_call(world.client, path, data, size, 0, on_result, NULL), 0);
	while (atomic_load(&world.results) == before && now_usec(CLOCK_MONOTONIC) < end)
		assert_true(sd_event_run(world.event, 10 * USEC_PER_MSEC) >= 0);
	assert_int_equal(atomic_load(&world.results), before + 1);
}

static void notify(bool registered, const char *text)
{
	Pluginregistration__RegistrationStatus status =
		PLUGINREGISTRATION__REGISTRATION_STATUS__INIT;
	_cleanup_free_ uint8_t *data = NULL;
	size_t size;

	status.plugin_registered = registered;
	status.error = (char *)(uintptr_t)text;
	assert_int_equal(message_pack(&status.base, &data, &size), 0);
	call(METHOD_NOTIFY_REGISTRATION_STATUS, data, size);
	/* A refusal ends the session, and with it the connection, maybe before the answer is out.
	 */
	if (registered || world.status != RPC_UNAVAILABLE)
		assert_int_equal(world.status, RPC_OK);
}

static void open_session(uint64_t number)
{
	const struct session_parameters parameters = {
		.number = number,
		.supervisor_uid = getuid(),
		.resource = RESOURCE,
		.endpoint = ENDPOINT,
	};
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), fd;

	/* An abstract address: nothing is left behind. */
	(void)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
		"devplugd-test-announcement-%d-%llu", (int)getpid(), (unsigned long long)number);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 4), 0);
	assert_int_equal(session_new(world.event, world.service, &parameters, listener, -EBADF,
				 &session_events, NULL, &world.session),
		0);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(channel_new(fd, NULL, &world.client), 0);
	world.registered = world.serving = world.ended = 0;
}

static void close_session(void)
{
	world.client = channel_free(world.client);
	world.session = session_free(world.session);
}

static int setup(void **state)
{
	int r = sd_event_new(&world.event);

	return r < 0 ? r : service_new(world.event, &service_events, NULL, &world.service);
}

static void test_get_info(void **state)
{
	_cleanup_message_ struct message message = { 0 };
	const Pluginregistration__PluginInfo *info;

	open_session(1);
	call(METHOD_GET_INFO, (const uint8_t *)"", 0);
	assert_int_equal(world.status, RPC_OK);
	message = message_unpack(
		&pluginregistration__plugin_info__descriptor, world.data, world.size);
	info = (const void *)message.base;
	assert_non_null(info);
	assert_string_equal(info->type, "DevicePlugin");
	assert_string_equal(info->name, RESOURCE);
	assert_string_equal(info->endpoint, ENDPOINT);
	assert_int_equal(info->n_supported_versions, 1);
	assert_string_equal(info->supported_versions[0], "v1beta1");
	assert_int_equal(world.registered, 0);
	close_session();
}

/* Without such a session there is no status. */
static void test_not_announced(void **state)
{
	open_session(2);
	assert_int_equal(service_announce(world.service, NULL, NULL), 0);
	call(METHOD_GET_INFO, (const uint8_t *)"", 0);
	assert_int_equal(world.status, RPC_FAILED_PRECONDITION);
	close_session();
}

static void test_registered(void **state)
{
	open_session(3);
	assert_int_equal(channel_stream(world.client, METHOD_LIST_AND_WATCH, (const uint8_t *)"", 0,
				 on_list, on_list_end, NULL),
		0);
	await(&world.serving, 1);
	notify(true, "");
	await(&world.registered, 1);
	assert_int_equal(world.ended, 0);
	/* The kubelet goes: its stream ends, and so does the session. */
	world.client = channel_free(world.client);
	await(&world.ended, 1);
	assert_null(world.session);
}

static void test_refused(void **state)
{
	open_session(4);
	notify(false, "no handler for \"DevicePlugin\"");
	await(&world.ended, 1);
	assert_non_null(strstr(world.why, "no handler for \"DevicePlugin\""));
	assert_int_equal(world.registered, 0);
	close_session();
}

static void test_malformed(void **state)
{
	open_session(5);
	call(METHOD_NOTIFY_REGISTRATION_STATUS, (const uint8_t *)"\xff\xff\xff", 3);
	assert_int_equal(world.status, RPC_INVALID_ARGUMENT);
	assert_int_equal(world.registered + world.ended, 0);
	close_session();
}

/* As in the plugin: gRPC's threads are not waited for. */
static int teardown(void **state)
{
	service_stop(world.service, 0);
	sd_event_unref(world.event);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_get_info),
		cmocka_unit_test(test_not_announced),
		cmocka_unit_test(test_registered),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_malformed),
	};
	int failed = cmocka_run_group_tests(tests, setup, teardown);

	(void)fflush(NULL);
	_exit(failed);
}
