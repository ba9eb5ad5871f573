/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet's plugin watcher against the kubelet client's answers: it asks which plugin a socket
 * belongs to, and reports whether it registered the plugin.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/control-kubelet-client.h"
#include "kubelet/channel.h"
#include "pluginregistration.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "proto/plugin/announcement.h"

#define NAME     "vendor.example/gpu"
#define ENDPOINT "/var/lib/kubelet/plugins_registry/.devplugd-1.sock"
#define PATIENCE (20 * USEC_PER_SEC)

/* One announcement with a client. */
struct side {
	struct announcement *announcement;
	struct channel *client;
	int listener; /* the supervisor's */
	struct sockaddr_un address;
	unsigned registered, refused, unused;
	char why[600];
};

static struct {
	sd_event *event;
	struct mailbox *mailbox;
	struct announcer *announcer;
	uint64_t sessions;

	/* Written on gRPC's thread before `results` is. */
	int status;
	uint8_t data[512];
	size_t size;
	atomic_uint results;
} world;

static void on_status(struct announcement *announcement, const char *why, void *userdata)
{
	struct side *side = userdata;

	assert_ptr_equal(announcement, side->announcement);
	side->registered += why == NULL;
	side->refused += why != NULL;
	(void)snprintf(side->why, sizeof(side->why), "%s", why ?: "");
	side->announcement = announcement_free(announcement);
}

static void on_unused(struct announcement *announcement, void *userdata)
{
	struct side *side = userdata;

	side->unused++;
	side->announcement = announcement_free(announcement);
}

static const struct announcement_events announcement_events = {
	.on_status = on_status,
	.on_unused = on_unused,
};

static void on_result(const struct rpc_result *result, void *userdata)
{
	world.status = result->status;
	world.size = MIN_OF(result->size, sizeof(world.data));
	if (world.size > 0)
		memcpy(world.data, result->data, world.size);
	atomic_fetch_add(&world.results, 1);
}

static void await(const unsigned *counter, unsigned value)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC) + PATIENCE;

	while (*counter < value && now_usec(CLOCK_MONOTONIC) < end)
		assert_true(sd_event_run(world.event, 10 * USEC_PER_MSEC) >= 0);
	assert_int_equal(*counter, value);
}

/* Calls and waits for the answer. */
static void call(struct side *side, const char *path, const uint8_t *data, size_t size)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC) + PATIENCE;
	unsigned before = atomic_load(&world.results);

	assert_int_equal(channel_call(side->client, path, data, size, 0, on_result, NULL), 0);
	while (atomic_load(&world.results) == before && now_usec(CLOCK_MONOTONIC) < end)
		assert_true(sd_event_run(world.event, 10 * USEC_PER_MSEC) >= 0);
	assert_int_equal(atomic_load(&world.results), before + 1);
}

static void pack_status(bool registered, const char *text, uint8_t **ret, size_t *ret_size)
{
	Pluginregistration__RegistrationStatus status =
		PLUGINREGISTRATION__REGISTRATION_STATUS__INIT;

	status.plugin_registered = registered;
	status.error = (char *)(uintptr_t)text;
	assert_int_equal(message_pack(&status.base, ret, ret_size), 0);
}

static void notify(struct side *side, bool registered, const char *text)
{
	_cleanup_free_ uint8_t *data = NULL;
	size_t size;

	pack_status(registered, text, &data, &size);
	call(side, METHOD_NOTIFY_REGISTRATION_STATUS, data, size);
	/* Its answer arrives although the announcement has ended. */
	assert_int_equal(world.status, RPC_OK);
}

static void connect_client(struct side *side)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&side->address, sizeof(side->address)), 0);
	assert_int_equal(channel_new(fd, NULL, &side->client), 0);
}

static int announce(struct side *side, const char *type)
{
	const struct announcement_parameters parameters = {
		.session = ++world.sessions,
		.type = type,
		.name = NAME,
		.endpoint = ENDPOINT,
		.supervisor_uid = getuid(),
	};

	*side = (struct side){ .address.sun_family = AF_UNIX };
	side->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* An abstract address: nothing is left behind. */
	(void)snprintf(side->address.sun_path + 1, sizeof(side->address.sun_path) - 1,
		"devplugd-test-announcement-%d-%llu", (int)getpid(),
		(unsigned long long)world.sessions);
	assert_int_equal(
		bind(side->listener, (struct sockaddr *)&side->address, sizeof(side->address)), 0);
	assert_int_equal(listen(side->listener, 4), 0);
	return announcement_new(world.announcer, dup(side->listener), &parameters,
		&announcement_events, side, &side->announcement);
}

static void begin(struct side *side, const char *type)
{
	assert_int_equal(announce(side, type), 0);
	connect_client(side);
}

static void end(struct side *side)
{
	side->client = channel_free(side->client);
	side->announcement = announcement_free(side->announcement);
	(void)close_fd(side->listener);
}

static void assert_info(struct side *side, const char *type, const char *const *versions, size_t n)
{
	_cleanup_message_ struct message message = { 0 };
	const Pluginregistration__PluginInfo *info;

	call(side, METHOD_GET_INFO, (const uint8_t *)"", 0);
	assert_int_equal(world.status, RPC_OK);
	message = message_unpack(
		&pluginregistration__plugin_info__descriptor, world.data, world.size);
	info = (const void *)message.base;
	assert_non_null(info);
	assert_string_equal(info->type, type);
	assert_string_equal(info->name, NAME);
	assert_string_equal(info->endpoint, ENDPOINT);
	assert_int_equal(info->n_supported_versions, n);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(info->supported_versions[i], versions[i]);
	assert_int_equal(side->registered + side->refused + side->unused, 0);
}

static int setup(void **state)
{
	int r = sd_event_new(&world.event);

	if (r >= 0)
		r = rpc_start();
	if (r >= 0)
		r = mailbox_new(world.event, &world, &world.mailbox);
	return r < 0 ? r : announcer_new(world.event, world.mailbox, &world.announcer);
}

static void test_get_info(void **state)
{
	static const char *const device_versions[] = { "v1beta1" };
	static const char *const dra_versions[] = { "v1.DRAPlugin", "v1beta1.DRAPlugin",
		"v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth" };
	struct side device, driver;

	begin(&device, CLIENT_DEVICE_PLUGIN);
	begin(&driver, CLIENT_DRA_PLUGIN);
	assert_info(&device, "DevicePlugin", device_versions, 1);
	assert_info(&driver, "DRAPlugin", dra_versions, 4);
	end(&device);
	end(&driver);
}

static void test_unknown_type(void **state)
{
	struct side side;

	assert_int_equal(announce(&side, "CSIPlugin"), -EINVAL);
	(void)close_fd(side.listener);
}

static void test_registered(void **state)
{
	struct side side, other;

	begin(&side, CLIENT_DEVICE_PLUGIN);
	begin(&other, CLIENT_DEVICE_PLUGIN);
	notify(&side, true, "");
	await(&side.registered, 1);
	assert_int_equal(side.refused + side.unused, 0);
	assert_int_equal(other.registered + other.refused + other.unused, 0);
	end(&side);
	end(&other);
}

/* The kubelet has its answer only when the supervisor was sent the result: while the main loop does
 * not run, there is none. */
static void test_answer_comes_last(void **state)
{
	_cleanup_free_ uint8_t *data = NULL;
	struct side side;
	unsigned before;
	size_t size;

	begin(&side, CLIENT_DEVICE_PLUGIN);
	call(&side, METHOD_GET_INFO, (const uint8_t *)"", 0);
	before = atomic_load(&world.results);
	pack_status(true, "", &data, &size);
	assert_int_equal(channel_call(side.client, METHOD_NOTIFY_REGISTRATION_STATUS, data, size, 0,
				 on_result, NULL),
		0);
	(void)usleep(200 * USEC_PER_MSEC);
	assert_int_equal(atomic_load(&world.results), before);
	await(&side.registered, 1);
	while (atomic_load(&world.results) == before)
		assert_true(sd_event_run(world.event, 10 * USEC_PER_MSEC) >= 0);
	assert_int_equal(world.status, RPC_OK);
	end(&side);
}

static void test_refused(void **state)
{
	struct side side;

	begin(&side, CLIENT_DEVICE_PLUGIN);
	notify(&side, false, "no handler for \"DevicePlugin\"");
	await(&side.refused, 1);
	assert_string_equal(
		side.why, "the kubelet refused the registration: no handler for \"DevicePlugin\"");
	end(&side);
}

static void test_malformed(void **state)
{
	struct side side;

	begin(&side, CLIENT_DEVICE_PLUGIN);
	call(&side, METHOD_NOTIFY_REGISTRATION_STATUS, (const uint8_t *)"\xff\xff\xff", 3);
	assert_int_equal(world.status, RPC_INVALID_ARGUMENT);
	assert_int_equal(side.registered + side.refused + side.unused, 0);
	end(&side);
}

/* The supervisor ends the session with its own descriptor of the socket. */
static void test_shut_down(void **state)
{
	struct side side;

	begin(&side, CLIENT_DEVICE_PLUGIN);
	assert_int_equal(shutdown(side.listener, SHUT_RDWR), 0);
	await(&side.unused, 1);
	call(&side, METHOD_GET_INFO, (const uint8_t *)"", 0);
	assert_int_equal(world.status, RPC_UNAVAILABLE);
	end(&side);
}

/* A kubelet that connects again has given up its last connection. */
static void test_connects_again(void **state)
{
	struct channel *first;
	struct side side;

	begin(&side, CLIENT_DEVICE_PLUGIN);
	call(&side, METHOD_GET_INFO, (const uint8_t *)"", 0);
	assert_int_equal(world.status, RPC_OK);
	first = TAKE_PTR(side.client);
	connect_client(&side);
	call(&side, METHOD_GET_INFO, (const uint8_t *)"", 0);
	assert_int_equal(world.status, RPC_OK);
	notify(&side, true, "");
	await(&side.registered, 1);
	(void)channel_free(first);
	end(&side);
}

/* As in the client: gRPC's threads are not waited for. */
static int teardown(void **state)
{
	mailbox_close(world.mailbox);
	sd_event_unref(world.event);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_get_info),
		cmocka_unit_test(test_unknown_type),
		cmocka_unit_test(test_registered),
		cmocka_unit_test(test_answer_comes_last),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_shut_down),
		cmocka_unit_test(test_connects_again),
	};
	int failed = cmocka_run_group_tests(tests, setup, teardown);

	(void)fflush(NULL);
	_exit(failed);
}
