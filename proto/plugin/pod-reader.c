/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question and one answer, so the main thread just waits. The supervisor ends a process that
 * takes too long.
 */
#include "proto/plugin/pod-reader.h"

#include <poll.h>
#include <pthread.h>

#include "common/control.h"
#include "common/log.h"
#include "common/sealed.h"
#include "podresources.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "proto/rpc.h"

#define CALL_TIMEOUT (10 * USEC_PER_SEC)

struct reader {
	pthread_mutex_t lock;
	pthread_cond_t answered;
	bool done;
	char *text; /* the answer */
	size_t size;
	char failure[480]; /* if there is none */
};

static bool is_plain(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ')
			return false;
	return true;
}

static void write_container(FILE *stream, const V1__ContainerResources *container)
{
	for (size_t i = 0; i < container->n_devices; i++) {
		const V1__ContainerDevices *devices = container->devices[i];

		for (size_t k = 0; k < devices->n_device_ids; k++)
			if (is_plain(devices->resource_name) && is_plain(devices->device_ids[k]))
				(void)fprintf(stream, "%s\t%s\n", devices->resource_name,
					devices->device_ids[k]);
	}
}

static int write_answer(struct reader *reader, const uint8_t *data, size_t size)
{
	_cleanup_message_ struct message message =
		message_unpack(&v1__list_pod_resources_response__descriptor, data, size);
	const V1__ListPodResourcesResponse *response = (const void *)message.base;
	FILE *stream;

	if (!response)
		return -EBADMSG;
	stream = open_memstream(&reader->text, &reader->size);
	if (!stream)
		return -ENOMEM;
	for (size_t i = 0; i < response->n_pod_resources; i++)
		for (size_t k = 0; k < response->pod_resources[i]->n_containers; k++)
			write_container(stream, response->pod_resources[i]->containers[k]);
	return fclose(stream) != 0 ? -ENOMEM : 0;
}

/* gRPC's thread. */
static void on_result(const struct rpc_result *result, void *userdata)
{
	struct reader *reader = userdata;
	int r = 0;

	(void)pthread_mutex_lock(&reader->lock);
	if (result->status == RPC_OK)
		r = write_answer(reader, result->data, result->size);
	if (result->status != RPC_OK || r < 0)
		(void)snprintf(reader->failure, sizeof(reader->failure), "%s",
			r < 0 ? "the kubelet's answer cannot be read" : result->text);
	reader->done = true;
	(void)pthread_cond_signal(&reader->answered);
	(void)pthread_mutex_unlock(&reader->lock);
}

static int ask(struct reader *reader, int fd)
{
	struct rpc_client *client;
	int r;

	r = rpc_start();
	if (r < 0) {
		(void)close_fd(fd);
		return r;
	}
	r = rpc_client_new_large(fd, &client);
	if (r >= 0)
		r = rpc_client_call(client, METHOD_POD_RESOURCES_LIST, NULL, 0, CALL_TIMEOUT,
			on_result, reader);
	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&reader->lock);
	while (!reader->done)
		(void)pthread_cond_wait(&reader->answered, &reader->lock);
	(void)pthread_mutex_unlock(&reader->lock);
	return 0;
}

static int answer(struct reader *reader)
{
	_cleanup_control_ struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_REFUSED);
	int r;

	(void)snprintf(message.text, sizeof(message.text), "%s", reader->failure);
	if (!reader->failure[0]) {
		r = sealed_new("assigned", reader->text, reader->size);
		if (r < 0)
			return r;
		message.type = CONTROL_ASSIGNED;
		message.fds[0] = r;
	}
	return control_send(CONTROL_FD, &message);
}

int pod_reader_run(void)
{
	static struct reader reader = {
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.answered = PTHREAD_COND_INITIALIZER,
	};
	_cleanup_control_ struct control_message message = CONTROL_MESSAGE_INIT(0);
	struct pollfd pollfd = { .fd = CONTROL_FD, .events = POLLIN };
	int r;

	if (RETRY_ON_EINTR(poll(&pollfd, 1, -1)) < 0)
		return -errno;
	r = control_receive(CONTROL_FD, &message);
	if (r == -ECONNRESET)
		return 0;
	if (r >= 0 && message.type != CONTROL_LOOK)
		r = -EBADMSG;
	if (r >= 0)
		r = ask(&reader, TAKE_FD(message.fds[0]));
	if (r >= 0)
		r = answer(&reader);
	if (r < 0)
		log_error("the kubelet cannot be asked which devices are in use: %s", strerror(-r));
	free(reader.text);
	return r;
}
