/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet's side of what is timed, in C: unary calls one after the other, lists that follow a
 * change, and what nothing can be faster than (floors.h, http2-answer.h). Prints one JSON object.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "deviceplugin.pb-c.h"
#include "fetch.h"
#include "floors.h"
#include "http2-answer.h"
#include "kubelet/channel.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "samples.h"

#define REPLY_TIMEOUT  (10 * USEC_PER_SEC)
#define LIST_TIMEOUT   10
#define CLIENTS_MAX    64
#define FIRST_LIST_GAP (300 * USEC_PER_MSEC)

/* Between gRPC's thread and the one that measures. */
struct signal_box {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned count;
	int status;
	uint64_t at; /* nanoseconds, CLOCK_MONOTONIC */
};

struct caller {
	pthread_t thread;
	struct channel *client;
	struct signal_box box;
	const char *method;
	const uint8_t *data;
	size_t size;
	uint64_t *samples;
	unsigned n_samples;
	int result;
};

static void box_init(struct signal_box *box)
{
	memset(box, 0, sizeof(*box));
	(void)pthread_mutex_init(&box->lock, NULL);
	(void)pthread_cond_init(&box->changed, NULL);
}

static void box_signal(struct signal_box *box, int status)
{
	uint64_t at = now_nsec();

	(void)pthread_mutex_lock(&box->lock);
	box->count++;
	box->status = status;
	box->at = at;
	(void)pthread_cond_signal(&box->changed);
	(void)pthread_mutex_unlock(&box->lock);
}

/* Returns the time of the newest signal when there have been `count`, 0 if that takes too long. */
static uint64_t box_wait(struct signal_box *box, unsigned count)
{
	struct timespec limit;
	uint64_t at;
	int r = 0;

	(void)clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += LIST_TIMEOUT;
	(void)pthread_mutex_lock(&box->lock);
	while (box->count < count && r == 0)
		r = pthread_cond_timedwait(&box->changed, &box->lock, &limit);
	at = box->count < count ? 0 : box->at;
	(void)pthread_mutex_unlock(&box->lock);
	return at;
}

static int connect_to(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int client_to(const char *path, struct channel **ret)
{
	int fd = connect_to(path);

	return fd < 0 ? fd : channel_new(fd, NULL, ret);
}

/* --- calls --- */

static void on_result(const struct rpc_result *result, void *userdata)
{
	box_signal(userdata, result->status);
}

static void *call_in_turn(void *arg)
{
	struct caller *caller = arg;

	for (unsigned i = 0; i < WARM_UP + caller->n_samples; i++) {
		uint64_t began = now_nsec(), ended;

		caller->result = channel_call(caller->client, caller->method, caller->data,
			caller->size, REPLY_TIMEOUT, on_result, &caller->box);
		if (caller->result < 0)
			break;
		ended = box_wait(&caller->box, i + 1);
		if (ended == 0 || caller->box.status != RPC_OK) {
			caller->result = -EIO;
			break;
		}
		if (i >= WARM_UP)
			caller->samples[i - WARM_UP] = ended - began;
	}
	return NULL;
}

static int pack_allocate(char **ids, size_t n, uint8_t **ret, size_t *ret_size)
{
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
	V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
	V1beta1__ContainerAllocateRequest *containers[] = { &container };

	container.devices_ids = ids;
	container.n_devices_ids = n;
	request.container_requests = containers;
	request.n_container_requests = 1;
	return message_pack(&request.base, ret, ret_size);
}

/* One of all. */
static int pack_preferred(char **ids, size_t n, uint8_t **ret, size_t *ret_size)
{
	V1beta1__PreferredAllocationRequest request = V1BETA1__PREFERRED_ALLOCATION_REQUEST__INIT;
	V1beta1__ContainerPreferredAllocationRequest container =
		V1BETA1__CONTAINER_PREFERRED_ALLOCATION_REQUEST__INIT;
	V1beta1__ContainerPreferredAllocationRequest *containers[] = { &container };

	container.available_deviceids = ids;
	container.n_available_deviceids = n;
	container.allocation_size = 1;
	request.container_requests = containers;
	request.n_container_requests = 1;
	return message_pack(&request.base, ret, ret_size);
}

/* SOCKET METHOD CLIENTS CALLS ID... */
static int run_call(int argc, char *argv[])
{
	unsigned n_clients = (unsigned)atoi(argv[2]), n_calls = (unsigned)atoi(argv[3]);
	bool allocate = streq(argv[1], "Allocate");
	_cleanup_free_ uint64_t *samples = NULL;
	_cleanup_free_ uint8_t *data = NULL;
	struct caller callers[CLIENTS_MAX];
	size_t size;
	int r;

	if (n_clients == 0 || n_clients > CLIENTS_MAX || n_calls == 0)
		return -EINVAL;
	samples = calloc(n_clients * n_calls, sizeof(*samples));
	r = samples ? (allocate ? pack_allocate : pack_preferred)(
			      argv + 4, (size_t)argc - 4, &data, &size)
		    : -ENOMEM;
	for (unsigned i = 0; i < n_clients && r >= 0; i++) {
		callers[i] = (struct caller){
			.method = allocate ? METHOD_ALLOCATE : METHOD_PREFERRED_ALLOCATION,
			.data = data,
			.size = size,
			.samples = samples + i * n_calls,
			.n_samples = n_calls,
		};
		box_init(&callers[i].box);
		r = client_to(argv[0], &callers[i].client);
	}
	if (r < 0)
		return r;
	for (unsigned i = 0; i < n_clients; i++)
		if (pthread_create(&callers[i].thread, NULL, call_in_turn, &callers[i]) != 0)
			return -EAGAIN;
	for (unsigned i = 0; i < n_clients; i++) {
		(void)pthread_join(callers[i].thread, NULL);
		(void)channel_free(callers[i].client);
		r = MIN_OF(r, callers[i].result);
	}
	return r < 0 ? r : print_samples(samples, n_clients * n_calls);
}

/* --- lists --- */

static void on_list(const uint8_t *data, size_t size, void *userdata)
{
	box_signal(userdata, RPC_OK);
}

static void on_stream_end(const struct rpc_result *result, void *userdata)
{
}

/* SOCKET FILE CHANGES GAP: writes "bad" and "ok" in turn, GAP microseconds after each list. */
static int run_watch(int argc, char *argv[])
{
	unsigned n = (unsigned)atoi(argv[2]);
	useconds_t gap = (useconds_t)atoi(argv[3]);
	_cleanup_free_ uint64_t *samples = calloc(n ?: 1, sizeof(*samples));
	struct channel *client;
	struct signal_box box;
	int r;

	if (!samples || n == 0)
		return -EINVAL;
	box_init(&box);
	r = client_to(argv[0], &client);
	if (r >= 0)
		r = channel_stream(client, METHOD_LIST_AND_WATCH, (const uint8_t *)"", 0, on_list,
			on_stream_end, &box);
	if (r < 0)
		return r;
	if (box_wait(&box, 1) == 0)
		return -ETIMEDOUT;
	(void)usleep(FIRST_LIST_GAP);
	for (unsigned i = 0; i < n && r >= 0; i++) {
		unsigned seen = box.count;
		uint64_t began = now_nsec(), ended;

		r = write_health(argv[1], i % 2 ? "ok\n" : "bad");
		ended = r < 0 ? 0 : box_wait(&box, seen + 1);
		if (r >= 0 && ended == 0)
			r = -ETIMEDOUT;
		samples[i] = ended - began;
		(void)usleep(gap);
	}
	(void)channel_free(client);
	return r < 0 ? r : print_samples(samples, n);
}

int main(int argc, char *argv[])
{
	static const struct {
		const char *name, *usage;
		int least;
		bool rpc;
		int (*run)(int argc, char *argv[]);
	} verbs[] = {
		{ "call", "SOCKET METHOD CLIENTS CALLS ID...", 5, true, run_call },
		{ "watch", "SOCKET FILE CHANGES GAP", 4, true, run_watch },
		{ "ping", "CALLS", 1, false, run_ping },
		{ "notice", "FILE CHANGES GAP", 3, false, run_notice },
		{ "answer", "SOCKET", 1, false, run_answer },
		{ "fetch", "SERVER CA CERTIFICATE KEY FOLDER", 5, false, run_fetch },
	};
	int r = -EINVAL;

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (argc < 2 || !streq(argv[1], verbs[i].name) || argc - 2 < verbs[i].least)
			continue;
		r = verbs[i].rpc ? rpc_start() : 0;
		if (r >= 0)
			r = verbs[i].run(argc - 2, argv + 2);
		(void)fflush(stdout);
		if (r < 0)
			(void)fprintf(stderr, "bench-client %s: %s\n", verbs[i].name, strerror(-r));
		/* What gRPC's threads hold is of no interest. */
		_exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
	}
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		(void)fprintf(stderr, "usage: bench-client %s %s\n", verbs[i].name, verbs[i].usage);
	return 2;
}
