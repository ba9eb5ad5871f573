/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kubelet for the devices of containers, and decides which callers share an answer. An
 * inquiry is one question with the process that asks it, its answer, and the waiting callers. It
 * stays as long as its answer may be shared. The process is not trusted: it may send one message,
 * in a bounded time, and its table is checked line by line.
 */
#include "supervisor/books/pod-resources.h"

#include "common/control-pods.h"
#include "supervisor/children/manager.h"
#include "supervisor/process/process.h"

#define INQUIRIES_MAX 16

struct waiter {
	pod_answer_handler on_answer;
	void *userdata;
};

struct inquiry {
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
	struct inquiry *inquiries[INQUIRIES_MAX];
	size_t n_inquiries;
};

static struct inquiry *inquiry_free(struct inquiry *inquiry)
{
	if (!inquiry)
		return NULL;
	process_done(&inquiry->process);
	sd_event_source_disable_unref(inquiry->timer);
	sd_event_source_disable_unref(inquiry->delivery);
	(void)close_fd(inquiry->answer.table_fd);
	(void)pod_table_free(inquiry->table);
	free(inquiry->waiters);
	free(inquiry->question);
	free(inquiry);
	return NULL;
}
DEFINE_CLEANUP(struct inquiry *, inquiry_free)

static void remove_inquiry(struct inquiry *inquiry)
{
	struct pod_resources *pods = inquiry->pods;

	for (size_t i = 0; i < pods->n_inquiries; i++)
		if (pods->inquiries[i] == inquiry) {
			pods->inquiries[i] = pods->inquiries[--pods->n_inquiries];
			break;
		}
	(void)inquiry_free(inquiry);
}

/* --- the answer --- */

static void deliver_soon(struct inquiry *inquiry)
{
	(void)sd_event_source_set_enabled(inquiry->delivery, SD_EVENT_ONESHOT);
}

/* Handlers may ask and cancel others; one that asks the same waits for the next delivery. */
static int on_delivery(sd_event_source *source, void *userdata)
{
	struct inquiry *inquiry = userdata;

	inquiry->delivering = true;
	for (size_t left = inquiry->n_waiters; left > 0 && inquiry->n_waiters > 0; left--) {
		struct waiter first = inquiry->waiters[0];

		memmove(inquiry->waiters, inquiry->waiters + 1,
			--inquiry->n_waiters * sizeof(*inquiry->waiters));
		first.on_answer(&inquiry->answer, first.userdata);
	}
	inquiry->delivering = false;
	if (inquiry->n_waiters > 0)
		deliver_soon(inquiry);
	return 0;
}

static void finish(struct inquiry *inquiry, int error, const char *failure)
{
	if (inquiry->answered)
		return;
	inquiry->answered = true;
	(void)snprintf(inquiry->failure, sizeof(inquiry->failure), "%s", failure);
	inquiry->answer.error = error;
	inquiry->answer.failure = inquiry->failure;
	inquiry->answer.table = inquiry->table;
	process_done(&inquiry->process);
	(void)sd_event_source_set_time(inquiry->timer, now_usec(CLOCK_MONOTONIC) + POD_ANSWER_AGE);
	deliver_soon(inquiry);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct inquiry *inquiry = userdata;

	if (!inquiry->answered)
		finish(inquiry, -ETIMEDOUT,
			"devplugd's PodResources reader did not answer in time");
	else if (inquiry->n_waiters == 0)
		remove_inquiry(inquiry);
	else
		(void)sd_event_source_set_time(source, now_usec(CLOCK_MONOTONIC) + USEC_PER_SEC);
	return 0;
}

static void take_table(struct inquiry *inquiry, struct control_message *message)
{
	int r = pod_table_read(message->fds[0], &inquiry->table);

	if (r < 0) {
		finish(inquiry, r,
			r == -EFBIG ? "the kubelet's answer has too many rows"
				    : "devplugd's PodResources reader sent a malformed answer");
		return;
	}
	inquiry->answer.table_fd = TAKE_FD(message->fds[0]);
	finish(inquiry, 0, "");
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
	struct inquiry *inquiry = userdata;

	if (process_receive(&inquiry->process))
		finish(inquiry, -EMFILE,
			"devplugd has reached its limit of open files; raise LimitNOFILE= of "
			"devplugd.service");
	finish(inquiry, -EIO, "devplugd's PodResources reader failed");
}

static const struct process_events process_events = {
	.on_message = on_message,
	.on_broken = on_broken,
	.on_exit = on_reader_exit,
};

/* --- the question --- */

static int start_process(struct inquiry *inquiry, int kubelet_fd, struct error *error)
{
	struct spawn_options options = inquiry->pods->manager->program;
	struct control_message message = PODS_MESSAGE_INIT(PODS_QUESTION);
	int r;

	options.resource = POD_READER_NAME;
	r = process_start(&inquiry->process, &options, error);
	if (r < 0)
		return r;
	message.fds[0] = kubelet_fd;
	(void)snprintf(message.text, sizeof(message.text), "%s", inquiry->question);
	r = control_send(inquiry->process.control_fd, &message);
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

static int begin(struct inquiry *inquiry, struct error *error)
{
	const struct kubelet_config *kubelet = &inquiry->pods->manager->config->kubelet;
	_cleanup_close_ int fd = -EBADF;
	int r;

	if (!kubelet->pod_resources)
		return error_set(error, -EOPNOTSUPP, "pod_resources is false in the configuration");
	r = connect_kubelet(kubelet->pod_resources_socket, &fd, error);
	return r < 0 ? r : start_process(inquiry, fd, error);
}

static int inquiry_new(struct pod_resources *pods, const char *question, struct inquiry **ret)
{
	_cleanup_(inquiry_freep) struct inquiry *inquiry = calloc(1, sizeof(*inquiry));
	sd_event *event = pods->manager->event;
	int r;

	if (!inquiry)
		return -ENOMEM;
	inquiry->pods = pods;
	process_init(
		&inquiry->process, event, &control_pods, POD_READER_NAME, &process_events, inquiry);
	inquiry->answer.table_fd = -EBADF;
	inquiry->answer.asked_at = now_usec(CLOCK_MONOTONIC);
	inquiry->question = strdup(question);
	if (!inquiry->question)
		return -ENOMEM;
	r = sd_event_add_defer(event, &inquiry->delivery, on_delivery, inquiry);
	if (r >= 0)
		r = sd_event_source_set_enabled(inquiry->delivery, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_add_time_relative(event, &inquiry->timer, CLOCK_MONOTONIC,
			POD_ANSWER_TIMEOUT, USEC_PER_SEC, on_timer, inquiry);
	if (r >= 0)
		r = sd_event_source_set_enabled(inquiry->timer, SD_EVENT_ON);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(inquiry);
	return 0;
}

static struct inquiry *find_inquiry(
	const struct pod_resources *pods, const char *question, uint64_t age)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	for (size_t i = 0; i < pods->n_inquiries; i++) {
		struct inquiry *inquiry = pods->inquiries[i];

		if (streq(inquiry->question, question) &&
			(!inquiry->answered || now - inquiry->answer.asked_at < age))
			return inquiry;
	}
	return NULL;
}

/* Drops an answer that no caller waits for or has. */
static void make_room(struct pod_resources *pods)
{
	for (size_t i = 0; i < pods->n_inquiries && pods->n_inquiries == INQUIRIES_MAX; i++) {
		const struct inquiry *inquiry = pods->inquiries[i];

		if (inquiry->answered && inquiry->n_waiters == 0 && !inquiry->delivering)
			remove_inquiry(pods->inquiries[i]);
	}
}

static int add_inquiry(struct pod_resources *pods, const char *question, struct inquiry **ret)
{
	struct error error = { 0 };
	int r;

	if (strlen(question) >= CONTROL_TEXT_MAX)
		return -EINVAL;
	make_room(pods);
	if (pods->n_inquiries == INQUIRIES_MAX)
		return -EBUSY;
	r = inquiry_new(pods, question, ret);
	if (r < 0)
		return r;
	pods->inquiries[pods->n_inquiries++] = *ret;
	r = begin(*ret, &error);
	if (r < 0)
		finish(*ret, r, error.message);
	return 0;
}

int pod_resources_ask(struct pod_resources *pods, const char *question, uint64_t age,
	pod_answer_handler on_answer, void *userdata)
{
	struct inquiry *inquiry = find_inquiry(pods, question, age);
	int r;

	if (!inquiry) {
		r = add_inquiry(pods, question, &inquiry);
		if (r < 0)
			return r;
	}
	r = array_reserve((void **)&inquiry->waiters, inquiry->n_waiters, sizeof(struct waiter));
	if (r < 0)
		return r;
	inquiry->waiters[inquiry->n_waiters++] =
		(struct waiter){ .on_answer = on_answer, .userdata = userdata };
	if (inquiry->answered)
		deliver_soon(inquiry);
	return 0;
}

void pod_resources_cancel(struct pod_resources *pods, const void *userdata)
{
	for (size_t i = 0; i < pods->n_inquiries; i++) {
		struct inquiry *inquiry = pods->inquiries[i];
		size_t kept = 0;

		for (size_t k = 0; k < inquiry->n_waiters; k++)
			if (inquiry->waiters[k].userdata != userdata)
				inquiry->waiters[kept++] = inquiry->waiters[k];
		inquiry->n_waiters = kept;
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
	for (size_t i = 0; i < pods->n_inquiries; i++)
		(void)inquiry_free(pods->inquiries[i]);
	free(pods);
	return NULL;
}
