/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the socket for scrapes, and decides whether an existing one may be replaced: only a socket
 * on which no process listens is ever removed.
 */
#include "supervisor/helpers/metrics-socket.h"

#include <netinet/in.h>
#include <sys/stat.h>

#include "configuration/listen-address.h"

#define BACKLOG     256
#define SOCKET_MODE 0660

static bool is_dead(const union listen_address *address, socklen_t length)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0 || lstat(address->local.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	return connect(fd, &address->any, length) < 0 && errno == ECONNREFUSED;
}

static int listen_at(int fd, const union listen_address *address, socklen_t length)
{
	bool local = address->any.sa_family == AF_UNIX;
	int on = 1;

	if (local && is_dead(address, length))
		(void)unlink(address->local.sun_path);
	if (!local)
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* The mode of the socket becomes the mode of the path, so it is never wider. */
	if ((local && fchmod(fd, SOCKET_MODE) < 0) || bind(fd, &address->any, length) < 0 ||
		listen(fd, BACKLOG) < 0)
		return -errno;
	return 0;
}

/* All addresses: "[::]" includes those of IPv4, and stands for them where the kernel lacks IPv6. */
static int open_socket(union listen_address *address, socklen_t *length)
{
	struct sockaddr_in *four = (void *)&address->storage;
	struct sockaddr_in6 six;
	bool all;
	int fd, off = 0;

	memcpy(&six, &address->storage, sizeof(six));
	all = six.sin6_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&six.sin6_addr);
	fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (all && fd >= 0)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (all && fd < 0 && errno == EAFNOSUPPORT) {
		*four = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = six.sin6_port };
		*length = sizeof(*four);
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	}
	return fd < 0 ? -errno : fd;
}

static int note_path(const union listen_address *address, struct metrics_socket *listener)
{
	struct stat st;

	if (address->any.sa_family != AF_UNIX)
		return 0;
	if (lstat(address->local.sun_path, &st) < 0)
		return -errno;
	listener->device = st.st_dev;
	listener->inode = st.st_ino;
	return 0;
}

int metrics_socket_open(const char *text, struct metrics_socket *ret, struct error *error)
{
	_cleanup_(metrics_socket_done) struct metrics_socket listener = METRICS_SOCKET_INIT;
	union listen_address address;
	socklen_t length;
	int r;

	r = listen_address_parse(text, &address, &length, error);
	if (r < 0)
		return r;
	listener.fd = r = open_socket(&address, &length);
	if (r < 0 && address.any.sa_family != AF_UNIX)
		return error_set(error, r,
			"cannot listen on %s: %s; if the service may not open network sockets, use "
			"devplugd-metrics.socket instead of metrics.listen",
			text, strerror(-r));
	if (r >= 0)
		r = listen_at(listener.fd, &address, length);
	if (r >= 0)
		r = note_path(&address, &listener);
	if (r < 0)
		return error_set(error, r, "cannot listen on %s: %s", text, strerror(-r));
	listener.address = strdup(text);
	if (!listener.address)
		return error_set(error, -ENOMEM, "out of memory");
	*ret = listener;
	listener = METRICS_SOCKET_INIT;
	return 0;
}

bool metrics_socket_is_there(const struct metrics_socket *listener)
{
	struct stat st;

	return listener->inode == 0 ||
		(lstat(listener->address, &st) == 0 && st.st_dev == listener->device &&
			st.st_ino == listener->inode);
}

void metrics_socket_done(struct metrics_socket *listener)
{
	if (listener->inode > 0 && metrics_socket_is_there(listener))
		(void)unlink(listener->address);
	(void)close_fd(listener->fd);
	free(listener->address);
	*listener = METRICS_SOCKET_INIT;
}
