/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a request to a program that runs: the kubelet, or devplug-apiserver. It blocks until the
 * program has answered, because the callers can do nothing without the answer.
 */
#include "kubelet/control-client.h"

#include <limits.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "kubelet/control-socket.h"
#include "kubelet/plugin-text.h"

static int open_control(const char *dir, int *ret_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -EBADF;
	int r;

	r = snprintf(address.sun_path, sizeof(address.sun_path), "%s/" CONTROL_SOCKET_NAME, dir);
	if (r < 0 || (size_t)r >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int send_request(int fd, const json_t *request)
{
	_cleanup_free_ char *text = json_dumps(request, JSON_COMPACT);
	size_t done = 0, size;

	if (!text)
		return -ENOMEM;
	size = strlen(text);
	text[size++] = '\n';
	while (done < size) {
		ssize_t n = RETRY_ON_EINTR(send(fd, text + done, size - done, MSG_NOSIGNAL));

		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return 0;
}

static int receive_reply(int fd, json_t **ret)
{
	_cleanup_free_ char *text = NULL;
	size_t used = 0, size = 0;
	json_t *reply;
	ssize_t n;

	do {
		if (used == size) {
			char *grown;

			size = MAX_OF(size * 2, (size_t)65536);
			grown = realloc(text, size);
			if (!grown)
				return -ENOMEM;
			text = grown;
		}
		n = RETRY_ON_EINTR(recv(fd, text + used, size - used, 0));
		if (n < 0)
			return -errno;
		used += (size_t)n;
	} while (n > 0);
	if (used == 0)
		return -ECONNRESET;
	reply = json_loadb(text, used, 0, NULL);
	if (!json_is_object(reply)) {
		json_decref(reply);
		return -EBADMSG;
	}
	*ret = reply;
	return 0;
}

int client_exchange(const char *dir, const char *program, const char *option, const json_t *request,
	json_t **ret_reply, struct error *error)
{
	_cleanup_close_ int fd = -EBADF;
	int r;

	r = open_control(dir, &fd);
	if (r == -ENAMETOOLONG)
		return error_set(error, r,
			"the path %s/" CONTROL_SOCKET_NAME
			" is too long for a socket: choose a shorter %s",
			dir, option);
	if (r < 0)
		return error_set(error, r,
			"no %s answers at %s/" CONTROL_SOCKET_NAME
			" (%s): start one with \"%s run\", or correct %s",
			program, dir, strerror(-r), program, option);
	r = send_request(fd, request);
	if (r >= 0)
		r = receive_reply(fd, ret_reply);
	return r < 0 ? error_set(error, r, "%s did not answer: %s", program, strerror(-r)) : 0;
}

int client_call(
	const char *state_dir, const json_t *request, json_t **ret_reply, struct error *error)
{
	_cleanup_json_ json_t *reply = NULL;
	const char *text;
	int r;

	r = client_exchange(state_dir, "devplug-kubelet", "--state-dir", request, &reply, error);
	if (r < 0)
		return r;
	text = json_string_value(json_object_get(reply, "error"));
	if (text)
		return error_set(error, -EREMOTEIO, "%s", text);
	*ret_reply = json_incref(reply);
	return 0;
}
