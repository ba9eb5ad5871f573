/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocate calls that wait for programs: how many, how large, cancelled before their turn, and
 * their answers when the process stops.
 */
#include "host-fixture.h"

#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "deviceplugin.pb-c.h"
#include "kubelet/channel.h"
#include "proto/methods.h"
#include "proto/plugin/allocate.h"
#include "proto/plugin/service.h"

/* The length of each id in a large request. */
#define LONG_ID_SIZE 1000

static struct config *config;
static struct inventory *inventory;
static struct service *service;
static struct channel *client;
static struct allocates allocates;
static unsigned n_allocated, n_offers_possible;

/* Written on gRPC's thread. */
static atomic_uint n_results, n_ok, n_refused, n_cancelled, n_stopped;

static void on_allocated(const char *const *ids, size_t n_ids, void *userdata)
{
	n_allocated++;
}

static void on_offer_possible(void *userdata)
{
	n_offers_possible++;
}

static void on_pending(struct bookings *pending, void *userdata)
{
	assert_int_equal(inventory_set_pending(inventory, pending), 0);
}

static void on_stream(uint64_t label, bool opened, void *userdata)
{
}

static void on_allocate(struct mailbox *mailbox, struct offer *offer, struct rpc_call *call,
	struct message *request, size_t size, void *userdata)
{
	allocate_post(&allocates, mailbox, offer, call, request, size);
}

static void on_cancelled(const struct rpc_call *call, void *userdata)
{
	allocates_cancel(&allocates, call);
}

static const struct service_events service_events = {
	.on_stream = on_stream,
	.on_allocated = on_allocated,
	.on_offer_possible = on_offer_possible,
	.on_allocate = on_allocate,
	.on_cancelled = on_cancelled,
};

static void on_result(const struct rpc_result *result, void *userdata)
{
	atomic_fetch_add(&n_ok, result->status == RPC_OK);
	atomic_fetch_add(&n_refused,
		result->status == RPC_RESOURCE_EXHAUSTED &&
			strstr(result->text, "programs of vendor.example/unit are running for"));
	atomic_fetch_add(&n_cancelled, result->status == RPC_CANCELLED);
	atomic_fetch_add(&n_stopped, result->status == RPC_UNAVAILABLE);
	atomic_fetch_add(&n_results, 1);
}

static void script(const char *name, const char *text)
{
	_cleanup_free_ char *whole = NULL;
	char path[512];

	assert_true(asprintf(&whole, "#!/bin/sh\ncd %s\n%s\n", host_root, text) > 0);
	host_write(name, whole);
	host_path(path, name);
	assert_int_equal(chmod(path, 0755), 0);
}

static size_t count_programs(void)
{
	_cleanup_fclose_ FILE *stream = NULL;
	char path[512];
	size_t n = 0;

	host_path(path, "/started");
	stream = fopen(path, "re");
	while (stream && !feof(stream))
		n += fgetc(stream) == '\n';
	return n;
}

/* A resource whose devices a program lists, and another one prepares, or none. */
static char *settings(bool prepares)
{
	char *text;

	assert_true(asprintf(&text,
			    "driver = \"exec\"; match = ( { command = \"%s/list\"; "
			    "interval = 3600; %s%s%s } );",
			    host_root, prepares ? "allocate = \"" : "", prepares ? host_root : "",
			    prepares ? "/allocate\"; allocate_timeout = 10;" : "") > 0);
	return text;
}

static int offer(bool prepares)
{
	_cleanup_(applied_config_unrefp) struct applied_config *applied_config = NULL;
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	_cleanup_offer_ struct offer *offer = NULL;
	_cleanup_free_ char *text = settings(prepares);

	assert_int_equal(applied_config_new(declare(text), &applied_config), 0);
	assert_int_equal(offer_new(applied_config, snapshot, &offer), 0);
	return service_offer(service, offer);
}

/* Device "a", whose program ends when there is a file. */
static void offer_device(void)
{
	_cleanup_free_ char *text = settings(true);
	struct error error;

	script("/list", "echo '{\"version\": 1, \"devices\": [{\"id\": \"a\"}]}'");
	script("/allocate",
		"echo >> started; until [ -e go ]; do sleep 0.05; done; echo '{\"version\": 1}'");
	config = declare(text);
	assert_int_equal(
		inventory_new(host_event, declaration_of(config), "", NULL, NULL, &inventory), 0);
	if (inventory_start(inventory, &error) < 0)
		fail_msg("%s", error.message);
	RUN_UNTIL(streq(seen_in(inventory), "a "));
	assert_true(offer(true) >= 0);
}

static void connect_client(void)
{
	int pair[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(rpc_server_add(service_server(service), pair[0], 1), 0);
	assert_int_equal(channel_new(pair[1], NULL, &client), 0);
}

static int setup(void **state)
{
	log_setup("test-allocate", LOG_TARGET_TEXT, LOG_CRIT);
	if (host_setup(state) < 0 || service_new(host_event, &service_events, NULL, &service) < 0)
		return -1;
	allocates.event = host_event;
	allocates.on_allocated = on_allocated;
	allocates.on_pending = on_pending;
	offer_device();
	connect_client();
	return 0;
}

/* Nothing of gRPC's is freed, as in the program. */
static int teardown(void **state)
{
	client = channel_free(client);
	inventory = inventory_free(inventory);
	config = config_free(config);
	return host_teardown(state);
}

/* Asks for a device, or for many that no scan found; `userdata` is what the call is cancelled
 * by. */
static void call_as(size_t n_long_ids, void *userdata)
{
	V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
	V1beta1__ContainerAllocateRequest *containers[] = { &container };
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
	_cleanup_free_ char **ids = calloc(n_long_ids + 1, sizeof(*ids));
	_cleanup_free_ uint8_t *data = NULL;
	char short_id[] = "a", long_id[LONG_ID_SIZE + 1];
	size_t size;

	assert_non_null(ids);
	memset(long_id, 'x', LONG_ID_SIZE);
	long_id[LONG_ID_SIZE] = '\0';
	for (size_t i = 0; i < n_long_ids; i++)
		ids[i] = long_id;
	if (n_long_ids == 0)
		ids[0] = short_id;
	container.devices_ids = ids;
	container.n_devices_ids = MAX_OF(n_long_ids, (size_t)1);
	request.container_requests = containers;
	request.n_container_requests = 1;
	assert_int_equal(message_pack(&request.base, &data, &size), 0);
	assert_int_equal(
		channel_call(client, METHOD_ALLOCATE, data, size, 0, on_result, userdata), 0);
}

static void call(size_t n_long_ids)
{
	call_as(n_long_ids, NULL);
}

static void fill(void)
{
	for (size_t i = 0; i < ALLOCATE_RUNNING_MAX; i++)
		call(0);
	RUN_UNTIL(count_programs() == ALLOCATE_RUNNING_MAX);
}

static void end_programs(void)
{
	host_write("/go", "");
}

static void test_large_requests(void **state)
{
	const size_t half = ALLOCATE_BYTES_MAX / 2 / LONG_ID_SIZE;

	fill();
	/* Two more than the existing ones exceed the limit. */
	call(half);
	call(half);
	RUN_UNTIL(n_results == 1);
	assert_int_equal(n_refused, 1);
	end_programs();
	/* All are answered, the large one with an error of its own. */
	RUN_UNTIL(n_results == ALLOCATE_RUNNING_MAX + 2);
	assert_int_equal(n_ok, ALLOCATE_RUNNING_MAX);
	assert_int_equal(n_allocated, ALLOCATE_RUNNING_MAX);
	assert_int_equal(allocates.n_calls, 0);
	assert_int_equal(allocates.n_bytes, 0);
	/* One alone may be larger than all together. */
	call(3 * half);
	RUN_UNTIL(n_results == ALLOCATE_RUNNING_MAX + 3);
	assert_int_equal(n_refused, 1);
	host_remove("/go");
}

static void test_given_up(void **state)
{
	unsigned ok = n_ok;

	host_write("/started", "");
	fill();
	call_as(0, &ok);
	call_as(0, &ok);
	RUN_UNTIL(allocates.n_calls == ALLOCATE_RUNNING_MAX + 2);
	/* First those whose turn has not come: where one that runs is cancelled, they are started.
	 */
	channel_cancel(client, &ok);
	RUN_UNTIL(allocates.n_calls == ALLOCATE_RUNNING_MAX);
	client = channel_free(client);
	RUN_UNTIL(n_cancelled == ALLOCATE_RUNNING_MAX + 2);
	RUN_UNTIL(allocates.n_calls == 0);
	assert_int_equal(allocates.n_running, 0);
	assert_null(allocates.first);
	run_for(100 * USEC_PER_MSEC);
	assert_int_equal(count_programs(), ALLOCATE_RUNNING_MAX);
	assert_int_equal(n_ok, ok);
	connect_client();
}

static bool is_offered(void)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);

	return !snapshot->units[0].claimed_by_other;
}

/* What a running call asks for stays listed, also if it becomes another resource's meanwhile. */
static void test_P17_pending(void **state)
{
	unsigned results = n_results;

	host_write("/started", "");
	call(0);
	call(0);
	RUN_UNTIL(count_programs() == 2);
	assert_int_equal(inventory_set_owners(inventory, "a\tv.e/other\n"), 1);
	assert_true(is_offered());
	end_programs();
	RUN_UNTIL(n_results == results + 2);
	/* Nothing noted here that the container uses it. */
	RUN_UNTIL(!is_offered());
	host_remove("/go");
	assert_int_equal(inventory_set_owners(inventory, ""), 0);
	RUN_UNTIL(is_offered());
}

static void lose_device(void)
{
	assert_int_equal(inventory_set_owners(inventory, "a\tv.e/other\n"), 1);
	assert_false(is_offered());
}

static void return_device(void)
{
	assert_int_equal(inventory_set_owners(inventory, ""), 0);
	RUN_UNTIL(is_offered());
	assert_true(offer(true) >= 0);
}

/* Without the main loop, for as long as a machine may take. */
#define WAIT_UNTIL(condition)                                                     \
	for (uint64_t _end = now_usec(CLOCK_MONOTONIC) + PATIENCE; !(condition);) \
	assert_true(now_usec(CLOCK_MONOTONIC) < _end && usleep(1000) == 0)

/* No list may lack a device that gRPC's thread has just given to a container. */
static void test_P17_unsettled(void **state)
{
	unsigned allocated = n_allocated, ok = n_ok;

	assert_true(offer(false) >= 0);
	call(0);
	WAIT_UNTIL(n_ok == ok + 1);
	lose_device();
	assert_int_equal(offer(false), -EBUSY);
	RUN_UNTIL(n_offers_possible == 1);
	assert_int_equal(n_allocated, allocated + 1);
	assert_true(offer(false) >= 0);
	return_device();
}

/* Nor one for which programs are about to start. */
static void test_P17_unsettled_programs(void **state)
{
	unsigned ok = n_ok;

	call(0);
	WAIT_UNTIL(allocates.n_calls == 1);
	lose_device();
	assert_int_equal(offer(true), -EBUSY);
	RUN_UNTIL(n_offers_possible == 2);
	/* It counts as booked now. */
	assert_true(is_offered());
	assert_true(offer(true) >= 0);
	end_programs();
	RUN_UNTIL(n_ok == ok + 1);
	host_remove("/go");
	return_device();
}

static void test_stop(void **state)
{
	unsigned results = n_results;

	host_write("/started", "");
	fill();
	call(0);
	RUN_UNTIL(allocates.n_calls == ALLOCATE_RUNNING_MAX + 1);
	allocates_done(&allocates);
	/* Calls that come later, or are on their way, find no service. */
	service_stop(service, PATIENCE);
	call(0);
	WAIT_UNTIL(n_results == results + ALLOCATE_RUNNING_MAX + 2 && allocates.n_calls == 0);
	assert_int_equal(n_stopped, ALLOCATE_RUNNING_MAX + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_large_requests),
		cmocka_unit_test(test_given_up),
		cmocka_unit_test(test_P17_pending),
		cmocka_unit_test(test_P17_unsettled),
		cmocka_unit_test(test_P17_unsettled_programs),
		cmocka_unit_test(test_stop),
	};
	int failed = cmocka_run_group_tests(tests, setup, teardown);

	(void)fflush(NULL);
	_exit(failed);
}
