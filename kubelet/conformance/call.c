/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a call and waits for its result, which arrives on gRPC's thread. The waiting loop reads it.
 * The call is freed when the result has arrived and the owner has released it.
 */
#include "kubelet/conformance/call.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "deviceplugin.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"

#define REFUSAL_PAUSE (10 * USEC_PER_MSEC)

/* After the wait here has ended, so that its end is reported in one way. */
#define DEADLINE_AFTER USEC_PER_SEC

struct call {
	bool done, abandoned;
	struct reply reply;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void reply_done(struct reply *reply)
{
	free(reply->data);
	*reply = (struct reply){};
}

static void call_free(struct call *call)
{
	reply_done(&call->reply);
	free(call);
}

static void on_result(const struct rpc_result *result, void *userdata)
{
	struct call *call = userdata;
	struct reply *reply = &call->reply;
	bool abandoned;

	reply->status = result->status;
	(void)snprintf(reply->text, sizeof(reply->text), "%s", result->text);
	if (result->status == RPC_OK) {
		reply->data = malloc(result->size + 1);
		reply->size = result->size;
		if (reply->data && result->size > 0)
			memcpy(reply->data, result->data, result->size);
		if (!reply->data)
			reply->status = RPC_RESOURCE_EXHAUSTED;
	}
	(void)pthread_mutex_lock(&lock);
	call->done = true;
	abandoned = call->abandoned;
	(void)pthread_mutex_unlock(&lock);
	if (abandoned)
		call_free(call);
	else
		trial_wake();
}

static struct call *start(
	struct trial *trial, const char *method, const void *data, size_t size, uint64_t timeout)
{
	struct channel *client = trial_client(trial);
	struct call *call = client ? calloc(1, sizeof(*call)) : NULL;

	if (!call)
		return NULL;
	if (channel_call(client, method, data ? data : (const void *)"", size, timeout, on_result,
		    call) < 0) {
		free(call);
		return NULL;
	}
	return call;
}

struct call *call_start(struct trial *trial, const char *method, const void *data, size_t size)
{
	return start(trial, method, data, size, 0);
}

void call_cancel(struct trial *trial, struct call *call)
{
	struct channel *client = trial_client(trial);

	if (client)
		channel_cancel(client, call);
}

bool call_is_done(struct call *call)
{
	bool done;

	(void)pthread_mutex_lock(&lock);
	done = call->done;
	(void)pthread_mutex_unlock(&lock);
	return done;
}

void call_take(struct call *call, struct reply *ret)
{
	*ret = call->reply;
	free(call);
}

void call_abandon(struct trial *trial, struct call *call)
{
	bool done;

	call_cancel(trial, call);
	(void)pthread_mutex_lock(&lock);
	done = call->done;
	call->abandoned = true;
	(void)pthread_mutex_unlock(&lock);
	if (done)
		call_free(call);
}

const char *call_dra_method(const struct trial *trial, const char *name, char *buffer)
{
	(void)snprintf(buffer, CALL_METHOD_MAX, "/k8s.io.kubelet.pkg.apis.dra.%.16s.DRAPlugin/%s",
		trial->version, name);
	return buffer;
}

static bool is_done(struct trial *trial, const void *data)
{
	return call_is_done((struct call *)(uintptr_t)data);
}

static void await(struct trial *trial, struct call *call, uint64_t limit, struct reply *ret)
{
	*ret = (struct reply){};
	if (!call) {
		ret->status = -ENOTCONN;
		(void)snprintf(ret->text, sizeof(ret->text), "the plugin is not connected");
	} else if (trial_await_within(trial, is_done, call, limit)) {
		call_take(call, ret);
	} else {
		call_abandon(trial, call);
		ret->status = -ETIMEDOUT;
		(void)snprintf(ret->text, sizeof(ret->text), "no answer within %llu ms",
			(unsigned long long)(limit / USEC_PER_MSEC));
	}
}

void call_bytes(struct trial *trial, const char *method, const void *data, size_t size,
	uint64_t limit, struct reply *ret)
{
	await(trial, call_start(trial, method, data, size), limit, ret);
}

void call_with_deadline(struct trial *trial, const char *method, const void *data, size_t size,
	uint64_t limit, struct reply *ret)
{
	await(trial, start(trial, method, data, size, limit + DEADLINE_AFTER), limit, ret);
}

void call_message(
	struct trial *trial, const char *method, const ProtobufCMessage *request, struct reply *ret)
{
	_cleanup_free_ uint8_t *data = NULL;
	size_t size;

	if (message_pack(request, &data, &size) < 0) {
		*ret = (struct reply){ .status = -ENOMEM, .text = "out of memory" };
		return;
	}
	call_bytes(trial, method, data, size, trial->options->timeout, ret);
}

/* HTTP/2 refused the call before the plugin handled it. The kubelet's gRPC repeats such a call. */
static bool is_refused_stream(const struct reply *reply)
{
	return reply->status == RPC_UNAVAILABLE &&
		strstr(reply->text, "RST_STREAM with error code 7");
}

enum outcome trial_check_alive(struct trial *trial, const char *after)
{
	char buffer[CALL_METHOD_MAX];
	const char *method = trial->options->dra ? call_dra_method(trial, DRA_UNPREPARE, buffer)
						 : METHOD_OPTIONS;
	uint64_t end = now_usec(CLOCK_MONOTONIC) + trial->options->timeout;
	/* A message without fields, which is also a request without claims. */
	V1beta1__Empty empty = V1BETA1__EMPTY__INIT;
	_cleanup_reply_ struct reply reply = {};

	if (trial_owns_plugin(trial) && !plugin_process_is_running(&trial->plugin))
		return trial_fail(trial, "after %s the plugin's process has ended", after);
	call_message(trial, method, &empty.base, &reply);
	while (is_refused_stream(&reply) && now_usec(CLOCK_MONOTONIC) < end) {
		trial_pass(trial, REFUSAL_PAUSE);
		reply_done(&reply);
		call_message(trial, method, &empty.base, &reply);
	}
	if (reply.status == RPC_OK)
		return OUTCOME_OK;
	return trial_fail(trial, "after %s %s on the kubelet's connection: %s", after,
		trial->options->dra ? DRA_UNPREPARE : "GetDevicePluginOptions", reply.text);
}
