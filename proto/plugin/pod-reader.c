/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kubelet for the devices of containers, in a separate process: one question and one
 * answer, so the main thread just waits, with its own time limit. The kubelet refuses a question
 * when its clients together ask more than 100 in a second; only a failure with that code is tried
 * again.
 */
#include "proto/plugin/pod-reader.h"

#include <poll.h>
#include <pthread.h>
#include <strings.h>

#include "common/child-sandbox.h"
#include "common/control-pods.h"
#include "common/log.h"
#include "common/sealed.h"
#include "common/spawn-request.h"
#include "podresources.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "proto/plugin/pod-answer.h"
#include "proto/rpc.h"

#define RETRY_DELAY_MIN (100 * USEC_PER_MSEC)

/* The gRPC of this process reports a message beyond its limit with the code of the kubelet's rate
 * limit, and this text. */
#define TEXT_TOO_LARGE "larger than max"

enum outcome {
	OUTCOME_NONE,
	OUTCOME_ANSWER,
	OUTCOME_AGAIN, /* the rate limit */
	OUTCOME_FAILURE,
};

struct reader {
	pthread_mutex_t lock;
	pthread_cond_t answered;
	enum pod_question question;
	const char *method;
	uint64_t deadline; /* CLOCK_MONOTONIC */
	enum outcome outcome;
	int memfd;         /* the answer */
	char failure[480]; /* if there is none */
};

/* --- the question --- */

static int understand(struct reader *reader, const char *text)
{
	static const struct {
		const char *text, *method;
	} questions[] = {
		[POD_LIST] = { POD_QUESTION_LIST, METHOD_POD_RESOURCES_LIST },
		[POD_ALLOCATABLE] = { POD_QUESTION_ALLOCATABLE,
			METHOD_POD_RESOURCES_GET_ALLOCATABLE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		if (!streq(text, questions[i].text))
			continue;
		reader->question = (enum pod_question)i;
		reader->method = questions[i].method;
		return 0;
	}
	return -EBADMSG;
}

/* --- the answer; on gRPC's thread --- */

static int write_answer(struct reader *reader, const struct rpc_result *result)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	int r;

	if (!stream)
		return -ENOMEM;
	r = pod_answer_write(reader->question, result->data, result->size, stream);
	if (fclose(stream) != 0 || r < 0)
		return r < 0 ? r : -ENOMEM;
	r = sealed_new("pod-resources", text, size);
	if (r >= 0)
		reader->memfd = r;
	return r;
}

static enum outcome fail(struct reader *reader, const char *text)
{
	(void)snprintf(reader->failure, sizeof(reader->failure), "%s", text);
	return OUTCOME_FAILURE;
}

static enum outcome judge(struct reader *reader, const struct rpc_result *result)
{
	int r;

	if (result->status == RPC_OK) {
		r = write_answer(reader, result);
		if (r == -EBADMSG)
			return fail(reader, "the kubelet's answer cannot be read");
		return r < 0 ? fail(reader, strerror(-r)) : OUTCOME_ANSWER;
	}
	if (result->status == RPC_RESOURCE_EXHAUSTED && strcasestr(result->text, TEXT_TOO_LARGE))
		return fail(reader, "the kubelet's answer is larger than 16 MiB");
	(void)fail(reader, result->text);
	return result->status == RPC_RESOURCE_EXHAUSTED ? OUTCOME_AGAIN : OUTCOME_FAILURE;
}

static void on_result(const struct rpc_result *result, void *userdata)
{
	struct reader *reader = userdata;

	(void)pthread_mutex_lock(&reader->lock);
	reader->outcome = judge(reader, result);
	(void)pthread_cond_signal(&reader->answered);
	(void)pthread_mutex_unlock(&reader->lock);
}

/* --- --- */

static enum outcome await_outcome(struct reader *reader)
{
	const struct timespec until = {
		.tv_sec = (time_t)(reader->deadline / USEC_PER_SEC),
		.tv_nsec = (long)(reader->deadline % USEC_PER_SEC) * 1000,
	};
	enum outcome outcome;
	int r = 0;

	(void)pthread_mutex_lock(&reader->lock);
	while (reader->outcome == OUTCOME_NONE && r == 0)
		r = pthread_cond_timedwait(&reader->answered, &reader->lock, &until);
	if (reader->outcome == OUTCOME_NONE)
		(void)snprintf(reader->failure, sizeof(reader->failure),
			"the kubelet did not answer within %llu s",
			POD_READER_DEADLINE / USEC_PER_SEC);
	outcome = reader->outcome;
	(void)pthread_mutex_unlock(&reader->lock);
	return outcome;
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
	r = rpc_client_new(fd, &client);
	for (uint64_t delay = RETRY_DELAY_MIN; r >= 0; delay *= 2) {
		reader->outcome = OUTCOME_NONE;
		r = rpc_client_call(client, reader->method, NULL, 0, on_result, reader);
		if (r < 0 || await_outcome(reader) != OUTCOME_AGAIN ||
			now_usec(CLOCK_MONOTONIC) + delay >= reader->deadline)
			break;
		(void)usleep((useconds_t)delay);
	}
	return r;
}

static int answer(struct reader *reader)
{
	struct control_message message = PODS_MESSAGE_INIT(PODS_REFUSED);
	int r;

	/* A late result may still come. */
	(void)pthread_mutex_lock(&reader->lock);
	(void)snprintf(message.text, sizeof(message.text), "%s", reader->failure);
	if (reader->memfd >= 0) {
		message = PODS_MESSAGE_INIT(PODS_ANSWER);
		message.fds[0] = reader->memfd;
	}
	r = control_send(CONTROL_FD, &message);
	(void)pthread_mutex_unlock(&reader->lock);
	return r;
}

static int init(struct reader *reader)
{
	pthread_condattr_t attributes;

	reader->memfd = -EBADF;
	reader->deadline = now_usec(CLOCK_MONOTONIC) + POD_READER_DEADLINE;
	(void)pthread_condattr_init(&attributes);
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	return -pthread_cond_init(&reader->answered, &attributes);
}

int pod_reader_run(void)
{
	static struct reader reader = { .lock = PTHREAD_MUTEX_INITIALIZER };
	_cleanup_control_ struct control_message message = PODS_MESSAGE_INIT(0);
	struct pollfd pollfd = { .fd = CONTROL_FD, .events = POLLIN };
	int r;

	if (RETRY_ON_EINTR(poll(&pollfd, 1, -1)) < 0)
		return -errno;
	r = control_receive(CONTROL_FD, &control_pods, &message);
	if (r == -ECONNRESET)
		return 0;
	if (r >= 0 && message.type != PODS_QUESTION)
		r = -EBADMSG;
	if (r >= 0)
		r = init(&reader);
	if (r >= 0)
		r = understand(&reader, message.text);
	/* Before gRPC has threads. */
	if (r >= 0)
		r = sandbox_give_up_programs(false);
	if (r >= 0)
		r = ask(&reader, TAKE_FD(message.fds[0]));
	if (r >= 0)
		r = answer(&reader);
	if (r < 0)
		log_error("cannot ask the kubelet about its pods: %s", strerror(-r));
	return r;
}
