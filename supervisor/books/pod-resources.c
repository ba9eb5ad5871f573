/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kubelet for the devices of containers, and decides which callers share an answer. A
 * query is one question with the process that asks it, its answer, and the waiting callers. It
 * stays as long as its answer may be shared. The process is not trusted: it may send one message,
 * in a bounded time, and its table is checked line by line.
 */
#include "supervisor/books/pod-resources.h"

#include "common/control-pods.h"
#include "supervisor/children/manager.h"
#include "supervisor/process/process.h"

#define QUERIES_MAX 16

struct waiter {
	pod_answer_handler on_answer;
	void *userdata;
};

struct pod_query {
	struct pod_resources *pods;
	char *question;
	struct waiter *waiters;
	size_t n_waiters;

	struct process process; /* until it has answered */
	sd_event_source *timer; /* the end of the wait for the answer, and then of its use */

	bool answered;
	struct pod_answer answer;
	struct pod_table *table;
	char failure[CONTROL_TEXT_MAX];
	sd_event_source *delivery; /* to those who wait */
	bool delivering;           /* a handler is running */
};

struct pod_resources {
	struct manager *manager;
	struct pod_query *queries[QUERIES_MAX];
	size_t n_queries;
};

static struct pod_query *pod_query_free(struct pod_query *query)
{
	if (!query)
		return NULL;
	process_done(&query->process);
	sd_event_source_disable_unref(query->timer);
	sd_event_source_disable_unref(query->delivery);
	(void)close_fd(query->answer.table_fd);
	(void)pod_table_free(query->table);
	free(query->waiters);
	free(query->question);
	free(query);
	return NULL;
}
DEFINE_CLEANUP(struct pod_query *, pod_query_free)

static void remove_query(struct pod_query *query)
{
	struct pod_resources *pods = query->pods;

	for (size_t i = 0; i < pods->n_queries; i++)
		if (pods->queries[i] == query) {
			pods->queries[i] = pods->queries[--pods->n_queries];
			break;
		}
	(void)pod_query_free(query);
}

/* --- the answer --- */

static void deliver_soon(struct pod_query *query)
{
	(void)sd_event_source_set_enabled(query->delivery, SD_EVENT_ONESHOT);
}

/* Handlers may ask and cancel others; one that asks the same waits for the next delivery. */
static int on_delivery(sd_event_source *source, void *userdata)
{
	struct pod_query *query = userdata;

	query->delivering = true;
	for (size_t left = query->n_waiters; left > 0 && query->n_waiters > 0; left--) {
		struct waiter first = query->waiters[0];

		memmove(query->waiters, query->waiters + 1,
			--query->n_waiters * sizeof(*query->waiters));
		first.on_answer(&query->answer, first.userdata);
	}
	query->delivering = false;
	if (query->n_waiters > 0)
		deliver_soon(query);
	return 0;
}

static void finish(struct pod_query *query, int error, const char *failure)
{
	if (query->answered)
		return;
	query->answered = true;
	(void)snprintf(query->failure, sizeof(query->failure), "%s", failure);
	query->answer.error = error;
	query->answer.failure = query->failure;
	query->answer.table = query->table;
	process_done(&query->process);
	(void)sd_event_source_set_time(query->timer, now_usec(CLOCK_MONOTONIC) + POD_ANSWER_AGE);
	deliver_soon(query);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct pod_query *query = userdata;

	if (!query->answered)
		finish(query, -ETIMEDOUT, "devplugd's PodResources reader did not answer in time");
	else if (query->n_waiters == 0)
		remove_query(query);
	else
		(void)sd_event_source_set_time(source, now_usec(CLOCK_MONOTONIC) + USEC_PER_SEC);
	return 0;
}

static void take_table(struct pod_query *query, struct control_message *message)
{
	int r = pod_table_read(message->fds[0], &query->table);

	if (r < 0) {
		finish(query, r,
			r == -EFBIG ? "the kubelet's answer has too many rows"
				    : "devplugd's PodResources reader sent a malformed answer");
		return;
	}
	query->answer.table_fd = TAKE_FD(message->fds[0]);
	finish(query, 0, "");
}

static void on_broken(const char *what, void *userdata)
{
	char failure[64];

	(void)snprintf(failure, sizeof(failure), "devplugd's PodResources reader %s", what);
	finish(userdata, -EBADMSG, failure);
}

static void on_message(struct control_message *message, void *userdata)
{
	if (message->type == PODS_ANSWER)
		take_table(userdata, message);
	else if (message->type == PODS_REFUSED)
		finish(userdata, -EIO, message->text);
	else
		on_broken("sent a malformed message", userdata);
}

static void on_reader_exit(const siginfo_t *info, void *userdata)
{
	struct pod_query *query = userdata;

	if (process_receive(&query->process))
		finish(query, -EMFILE,
			"devplugd has reached its limit of open files; raise LimitNOFILE= of "
			"devplugd.service");
	finish(query, -EIO, "devplugd's PodResources reader failed");
}

static const struct process_events process_events = {
	.on_message = on_message,
	.on_broken = on_broken,
	.on_exit = on_reader_exit,
};

/* --- the question --- */

static int start_process(struct pod_query *query, int kubelet_fd, struct error *error)
{
	struct spawn_options options = query->pods->manager->program;
	struct control_message message = PODS_MESSAGE_INIT(PODS_QUESTION);
	int r;

	options.resource = POD_READER_NAME;
	r = process_start(&query->process, &options, error);
	if (r < 0)
		return r;
	message.fds[0] = kubelet_fd;
	(void)snprintf(message.text, sizeof(message.text), "%s", query->question);
	r = control_send(query->process.control_fd, &message);
	if (r < 0)
		return error_set(error, r, "cannot send to devplugd's PodResources reader: %s",
			strerror(-r));
	return 0;
}

static int connect_kubelet(const char *path, int *ret_fd, struct error *error)
{
	_cleanup_free_ char *directory = strdup(path);
	char *slash = directory ? strrchr(directory, '/') : NULL;
	int r;

	if (!slash)
		return error_set(error, -ENOMEM, "out of memory");
	*slash = '\0';
	r = session_connect(directory, slash + 1, ret_fd);
	if (r < 0)
		return error_set(error, r, "cannot connect to %s: %s", path, strerror(-r));
	return 0;
}

static int begin(struct pod_query *query, struct error *error)
{
	const struct kubelet_config *kubelet = &query->pods->manager->config->kubelet;
	_cleanup_close_ int fd = -EBADF;
	int r;

	if (!kubelet->pod_resources)
		return error_set(error, -EOPNOTSUPP, "pod_resources is false in the configuration");
	r = connect_kubelet(kubelet->pod_resources_socket, &fd, error);
	return r < 0 ? r : start_process(query, fd, error);
}

static int pod_query_new(struct pod_resources *pods, const char *question, struct pod_query **ret)
{
	_cleanup_(pod_query_freep) struct pod_query *query = calloc(1, sizeof(*query));
	sd_event *event = pods->manager->event;
	int r;

	if (!query)
		return -ENOMEM;
	query->pods = pods;
	process_init(
		&query->process, event, &control_pods, POD_READER_NAME, &process_events, query);
	query->answer.table_fd = -EBADF;
	query->answer.asked_at = now_usec(CLOCK_MONOTONIC);
	query->question = strdup(question);
	if (!query->question)
		return -ENOMEM;
	r = sd_event_add_defer(event, &query->delivery, on_delivery, query);
	if (r >= 0)
		r = sd_event_source_set_enabled(query->delivery, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_add_time_relative(event, &query->timer, CLOCK_MONOTONIC,
			POD_ANSWER_TIMEOUT, USEC_PER_SEC, on_timer, query);
	if (r >= 0)
		r = sd_event_source_set_enabled(query->timer, SD_EVENT_ON);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(query);
	return 0;
}

static struct pod_query *find_query(
	const struct pod_resources *pods, const char *question, uint64_t age)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	for (size_t i = 0; i < pods->n_queries; i++) {
		struct pod_query *query = pods->queries[i];

		if (streq(query->question, question) &&
			(!query->answered || now - query->answer.asked_at < age))
			return query;
	}
	return NULL;
}

/* Drops an answer that no caller waits for or has. */
static void make_room(struct pod_resources *pods)
{
	for (size_t i = 0; i < pods->n_queries && pods->n_queries == QUERIES_MAX; i++) {
		const struct pod_query *query = pods->queries[i];

		if (query->answered && query->n_waiters == 0 && !query->delivering)
			remove_query(pods->queries[i]);
	}
}

static int add_query(struct pod_resources *pods, const char *question, struct pod_query **ret)
{
	struct error error = { 0 };
	int r;

	if (strlen(question) >= CONTROL_TEXT_MAX)
		return -EINVAL;
	make_room(pods);
	if (pods->n_queries == QUERIES_MAX)
		return -EBUSY;
	r = pod_query_new(pods, question, ret);
	if (r < 0)
		return r;
	pods->queries[pods->n_queries++] = *ret;
	r = begin(*ret, &error);
	if (r < 0)
		finish(*ret, r, error.message);
	return 0;
}

int pod_resources_ask(struct pod_resources *pods, const char *question, uint64_t age,
	pod_answer_handler on_answer, void *userdata)
{
	struct pod_query *query = find_query(pods, question, age);
	int r;

	if (!query) {
		r = add_query(pods, question, &query);
		if (r < 0)
			return r;
	}
	r = array_reserve((void **)&query->waiters, query->n_waiters, sizeof(struct waiter));
	if (r < 0)
		return r;
	query->waiters[query->n_waiters++] =
		(struct waiter){ .on_answer = on_answer, .userdata = userdata };
	if (query->answered)
		deliver_soon(query);
	return 0;
}

void pod_resources_cancel(struct pod_resources *pods, const void *userdata)
{
	for (size_t i = 0; i < pods->n_queries; i++) {
		struct pod_query *query = pods->queries[i];
		size_t kept = 0;

		for (size_t k = 0; k < query->n_waiters; k++)
			if (query->waiters[k].userdata != userdata)
				query->waiters[kept++] = query->waiters[k];
		query->n_waiters = kept;
	}
}

int pod_resources_new(struct manager *manager, struct pod_resources **ret)
{
	struct pod_resources *pods = calloc(1, sizeof(*pods));

	if (!pods)
		return -ENOMEM;
	pods->manager = manager;
	*ret = pods;
	return 0;
}

struct pod_resources *pod_resources_free(struct pod_resources *pods)
{
	if (!pods)
		return NULL;
	for (size_t i = 0; i < pods->n_queries; i++)
		(void)pod_query_free(pods->queries[i]);
	free(pods);
	return NULL;
}
