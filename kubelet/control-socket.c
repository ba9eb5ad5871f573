/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives requests and sends replies. A request exists from accept until the last byte of its
 * reply, or until the peer hangs up. While a command handles it, a hang-up only closes the
 * descriptor.
 */
#include "kubelet/control-socket.h"

#include <limits.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "kubelet/control-command.h"
#include "kubelet/file.h"
#include "kubelet/plugin-dir.h"
#include "kubelet/view.h"

#define REQUESTS_MAX  256
#define REQUEST_FIRST 4096 /* initial bytes of a request's buffer, which doubles */

struct control_request {
	struct control *control;
	struct control_request *next;
	int fd;
	sd_event_source *io_source, *timeout_source;
	char *buffer;        /* the request as it arrives, then the reply as it leaves */
	size_t size;         /* of the buffer, while the request arrives */
	size_t done, length; /* of the buffer */
	bool dispatched;     /* complete; a reply will follow */
	bool replied;
	json_t *wanted; /* waits for these; NULL: does not wait */
};

struct control {
	struct manager *manager;
	int fd;
	sd_event_source *source;
	struct control_request *requests;
	size_t n_requests;
};

static void request_free(struct control_request *request)
{
	struct control *control = request->control;
	struct control_request **r = &control->requests;

	while (*r != request)
		r = &(*r)->next;
	*r = request->next;
	control->n_requests--;
	sd_event_source_disable_unref(request->io_source);
	sd_event_source_disable_unref(request->timeout_source);
	close_fd(request->fd);
	json_decref(request->wanted);
	free(request->buffer);
	free(request);
}

/* The peer has closed the connection or received its answer. */
static void hang_up(struct control_request *request)
{
	/* The reply of the command that still handles it is discarded. */
	if (request->dispatched && !request->replied && !request->wanted) {
		sd_event_source_disable_unref(TAKE_PTR(request->io_source));
		request->fd = close_fd(request->fd);
		return;
	}
	request_free(request);
}

static void send_more(struct control_request *request)
{
	ssize_t n = send(request->fd, request->buffer + request->done,
		request->length - request->done, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		hang_up(request);
		return;
	}
	request->done += n > 0 ? (size_t)n : 0;
	if (request->done == request->length)
		hang_up(request);
}

void control_reply(struct control_request *request, json_t *reply)
{
	char *text = reply ? json_dumps(reply, JSON_COMPACT) : NULL;

	json_decref(reply);
	request->replied = true;
	free(request->buffer);
	request->buffer = text;
	request->done = 0;
	if (!text || request->fd < 0) {
		request_free(request);
		return;
	}
	request->length = strlen(text);
	text[request->length++] = '\n';
	if (sd_event_source_set_io_events(request->io_source, EPOLLOUT) < 0)
		request_free(request);
	else
		send_more(request);
}

void control_fail(struct control_request *request, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		text = NULL;
	va_end(ap);
	control_reply(request, json_pack("{s:s}", "error", text ? text : "out of memory"));
}

static bool is_reached(const struct model *model, const json_t *wanted)
{
	const char *name;
	json_t *count;

	json_object_foreach((json_t *)(uintptr_t)wanted, name, count)
	{
		const struct resource *resource = model_find_resource(model, name);

		if (!resource || !resource->published ||
			(json_int_t)resource_allocatable(resource) != json_integer_value(count))
			return false;
	}
	return true;
}

static void reply_to_wait(struct control_request *request, bool reached)
{
	const struct model *model = request->control->manager->model;
	_cleanup_(json_decrefp) json_t *wanted = TAKE_PTR(request->wanted);

	control_reply(request,
		json_pack("{s:b, s:o}", "reached", reached, "resources",
			view_allocatable(model, wanted)));
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	reply_to_wait(userdata, false);
	return 0;
}

int control_wait(struct control_request *request, json_t *wanted, uint64_t timeout)
{
	struct manager *manager = request->control->manager;
	int r;

	r = sd_event_add_time_relative(manager->event, &request->timeout_source, CLOCK_MONOTONIC,
		timeout, 1, on_timeout, request);
	if (r < 0)
		return r;
	request->wanted = json_incref(wanted);
	if (is_reached(manager->model, wanted))
		reply_to_wait(request, true);
	return 0;
}

void control_changed(struct control *control)
{
	struct control_request *next;

	for (struct control_request *r = control->requests; r; r = next) {
		next = r->next;
		if (r->wanted && is_reached(control->manager->model, r->wanted))
			reply_to_wait(r, true);
	}
}

static void dispatch(struct control_request *request)
{
	_cleanup_(json_decrefp) json_t *json =
		json_loadb(request->buffer, request->length, JSON_REJECT_DUPLICATES, NULL);

	request->dispatched = true;
	if (json_is_object(json))
		command_run(request->control->manager, request, json);
	else
		control_fail(request, "the request is not a JSON object");
}

/* The buffer starts small, because few requests are longer than a line. */
static int make_room(struct control_request *request)
{
	size_t size = MAX_OF(request->size * 2, (size_t)REQUEST_FIRST);
	char *grown;

	if (request->length < request->size)
		return 0;
	if (size > REQUEST_MAX)
		return -EMSGSIZE;
	grown = realloc(request->buffer, size);
	if (!grown)
		return -ENOMEM;
	request->buffer = grown;
	request->size = size;
	return 0;
}

static void receive_more(struct control_request *request)
{
	ssize_t n;

	/* A peer that has sent its request and sends more, or closes, no longer waits for the
	 * answer. */
	if (request->dispatched || make_room(request) < 0) {
		hang_up(request);
		return;
	}
	n = recv(request->fd, request->buffer + request->length, request->size - request->length,
		MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		hang_up(request);
		return;
	}
	request->length += (size_t)n;
	if (memchr(request->buffer + request->length - n, '\n', (size_t)n))
		dispatch(request);
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct control_request *request = userdata;

	if (request->replied)
		send_more(request);
	else
		receive_more(request);
	return 0;
}

static int on_accept(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct control *control = userdata;
	_cleanup_close_ int connected = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct control_request *request;

	if (connected < 0 || control->n_requests >= REQUESTS_MAX)
		return 0;
	request = calloc(1, sizeof(*request));
	if (!request)
		return 0;
	request->control = control;
	request->next = control->requests;
	control->requests = request;
	control->n_requests++;
	request->fd = TAKE_FD(connected);
	if (sd_event_add_io(control->manager->event, &request->io_source, request->fd, EPOLLIN,
		    on_io, request) < 0)
		request_free(request);
	return 0;
}

static int listen_in(const char *state_dir, bool replace, int *ret_fd, struct error *error)
{
	_cleanup_close_ int other = -EBADF;
	char path[PATH_MAX];
	mode_t mask;
	int r;

	r = snprintf(path, sizeof(path), "%s/%s", state_dir, CONTROL_SOCKET_NAME);
	if (r < 0 || (size_t)r >= sizeof(path))
		return error_set(error, -ENAMETOOLONG, "%s: the path is too long", state_dir);
	if (!replace && socket_connect(path, &other) >= 0)
		return error_set(error, -EADDRINUSE,
			"devplug-kubelet already runs with the state in %s: stop it, or choose another --state-dir",
			state_dir);
	r = make_directory(state_dir, 0755);
	if (r < 0)
		return error_set(error, r, "cannot make %s: %s", state_dir, strerror(-r));
	mask = umask(0177);
	r = socket_publish(path, ret_fd);
	(void)umask(mask);
	if (r < 0)
		return error_set(error, r, "cannot listen on %s: %s", path, strerror(-r));
	return 0;
}

int control_new(struct manager *manager, struct control **ret, struct error *error)
{
	_cleanup_close_ int fd = -EBADF;
	struct control *control;
	int r;

	r = listen_in(manager->options->state_dir, manager->options->replace, &fd, error);
	if (r < 0)
		return r;
	control = calloc(1, sizeof(*control));
	if (!control)
		return error_set(error, -ENOMEM, "out of memory");
	control->manager = manager;
	control->fd = TAKE_FD(fd);
	r = sd_event_add_io(
		manager->event, &control->source, control->fd, EPOLLIN, on_accept, control);
	if (r < 0) {
		(void)control_free(control);
		return error_set(error, r, "cannot serve the control socket: %s", strerror(-r));
	}
	*ret = control;
	return 0;
}

struct control *control_free(struct control *control)
{
	if (!control)
		return NULL;
	while (control->requests)
		request_free(control->requests);
	sd_event_source_disable_unref(control->source);
	close_fd(control->fd);
	free(control);
	return NULL;
}
