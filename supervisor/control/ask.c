/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the daemon for devplugctl. One connection for each request: devplugctl rarely has a second
 * one.
 */
#include <fcntl.h>

#include "common/json-read.h"
#include "common/request-message.h"
#include "supervisor/control/ask.h"

#define CONNECT_TIMEOUT 1 /* seconds; more than none is needed only if many clients connect */

static int connect_daemon(
	const char *runtime_dir, unsigned timeout, int *ret_fd, struct error *error)
{
	_cleanup_close_ int directory_fd = open(runtime_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r, view = -ENOENT;

	if (directory_fd < 0 && errno != ENOENT)
		return error_set(error, -errno, "cannot open %s: %s", runtime_dir, strerror(errno));
	r = directory_fd < 0
		? -ENOENT
		: request_connect(directory_fd, REQUEST_SOCKET, CONNECT_TIMEOUT, timeout);
	if (r == -EACCES)
		view = request_connect(directory_fd, REQUEST_VIEW_SOCKET, CONNECT_TIMEOUT, timeout);
	/* A daemon of an earlier release has one socket. */
	if (r == -EACCES && view != -ENOENT)
		r = view;
	if (r == -ENOENT || r == -ECONNREFUSED)
		return error_set(error, -ESRCH, NOT_RUNNING_FORMAT, runtime_dir);
	if (r == -EACCES || r == -EPERM)
		return error_set(error, -EACCES,
			"only root and members of the group " REQUEST_GROUP
			" can use the control socket of devplugd");
	if (r == -EAGAIN)
		return error_set(error, -ETIMEDOUT, "devplugd accepts no connections");
	if (r < 0)
		return error_set(error, r, "cannot connect to %s/%s: %s", runtime_dir,
			REQUEST_SOCKET, strerror(-r));
	*ret_fd = r;
	return 0;
}

static int explain(int r, unsigned timeout, struct error *error)
{
	if (r == -EAGAIN)
		return error_set(error, -ETIMEDOUT,
			"devplugd runs, but does not answer within %u s; see its log, and if that continues, run \"systemctl restart devplugd\"",
			timeout);
	if (r == -ECONNRESET || r == -EPIPE)
		return error_set(error, -ECONNRESET,
			"devplugd closed the connection: it is stopping, or has too many clients");
	return error_set(error, r, "cannot read devplugd's answer: %s", strerror(-r));
}

/* The number of "ENOENT" and the like; negative. */
static int number_of(const char *name)
{
	for (int i = 1; name && i < 200; i++)
		if (strerrorname_np(i) && streq(strerrorname_np(i), name))
			return -i;
	return -EIO;
}

static int read_answer(const char *text, json_t **ret, struct error *error)
{
	json_auto_t *answer = json_loads(text, 0, NULL);
	const char *failure = json_string_value(json_object_get(answer, "error"));

	if (json_integer_value(json_object_get(answer, "version")) != REQUEST_VERSION)
		return error_set(error, -EPROTO,
			"devplugd answered in an unsupported version (expected %d); devplugctl and devplugd must be of the same release",
			REQUEST_VERSION);
	if (failure)
		return error_set(error,
			number_of(json_string_value(json_object_get(answer, "errno"))), "%s",
			failure);
	*ret = TAKE_PTR(answer);
	return 0;
}

/* A document that is not valid counts as none: it is its resource's own. */
static int receive_devices(int fd, json_t *devices)
{
	char packet[REQUEST_MAX + 1];

	for (;;) {
		_cleanup_free_ char *text = NULL;
		json_auto_t *head = NULL;
		json_t *document;
		size_t size;
		int r;

		r = request_receive_devices(fd, packet, &text, &size);
		if (r <= 0)
			return r;
		head = json_loads(packet, 0, NULL);
		document = json_loadb(text, size, 0, NULL);
		if (document)
			(void)json_object_set_new(devices, text_of(head, "resource"), document);
	}
}

/* `devices` NULL: none are asked for. */
static int ask(const char *runtime_dir, const char *verb, json_t *arguments, unsigned timeout,
	json_t *devices, json_t **ret_answer, struct error *error)
{
	json_auto_t *request = arguments ?: json_object(), *answer = NULL;
	_cleanup_free_ char *text = NULL, *answer_text = NULL;
	_cleanup_close_ int fd = -EBADF;
	size_t size;
	int r;

	(void)json_object_set_new(request, "version", json_integer(REQUEST_VERSION));
	(void)json_object_set_new(request, "verb", json_string(verb));
	text = json_dumps(request, JSON_COMPACT);
	if (!text)
		return error_set(error, -ENOMEM, "out of memory");
	r = connect_daemon(runtime_dir, timeout, &fd, error);
	if (r < 0)
		return r;
	r = request_send(fd, text, strlen(text));
	if (r >= 0)
		r = request_receive_answer(fd, &answer_text, &size);
	if (r < 0)
		return explain(r, timeout, error);
	r = read_answer(answer_text, &answer, error);
	if (r < 0)
		return r;
	if (devices && !json_is_true(json_object_get(answer, "devices_follow")))
		return error_set(error, -EPROTO,
			"devplugd is older than devplugctl; run \"systemctl restart devplugd\"");
	r = devices ? receive_devices(fd, devices) : 0;
	if (r < 0)
		return explain(r, timeout, error);
	*ret_answer = TAKE_PTR(answer);
	return 0;
}

int ask_daemon(const char *runtime_dir, const char *verb, json_t *arguments, unsigned timeout,
	json_t **ret_answer, struct error *error)
{
	return ask(runtime_dir, verb, arguments, timeout, NULL, ret_answer, error);
}

static int ask_with_devices(const char *runtime_dir, const char *verb, json_t *arguments,
	json_t **ret_answer, json_t **ret_devices, struct error *error)
{
	json_auto_t *devices = json_object();
	int r;

	r = ask(runtime_dir, verb, arguments, ASK_TIMEOUT, devices, ret_answer, error);
	if (r >= 0)
		*ret_devices = TAKE_PTR(devices);
	return r;
}

int ask_status(
	const char *runtime_dir, json_t **ret_answer, json_t **ret_devices, struct error *error)
{
	return ask_with_devices(runtime_dir, "status",
		json_pack("{s:b, s:b}", "pods", 1, "devices", 1), ret_answer, ret_devices, error);
}

int ask_pod(const char *runtime_dir, const char *namespace, const char *pod, json_t **ret_answer,
	json_t **ret_devices, struct error *error)
{
	json_t *arguments = json_pack("{s:s, s:s, s:b}", "namespace", namespace, "pod", pod,
		"devices", ret_devices != NULL);

	return ret_devices
		? ask_with_devices(runtime_dir, "pod", arguments, ret_answer, ret_devices, error)
		: ask_daemon(runtime_dir, "pod", arguments, ASK_TIMEOUT, ret_answer, error);
}
