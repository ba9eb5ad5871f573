/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the socket of a session and the connection to the kubelet, and decides which socket may be
 * removed. Each session has a name of its own, never used again: kubelets identify plugins by their
 * path, and the end of an old session must not harm a new one. A path is unlinked only while device
 * and inode are those that were bound.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "supervisor/kubelet/session-sockets.h"
#include "supervisor/kubelet/write-access.h"

void session_instance(char ret[static SESSION_INSTANCE_CHARS + 1])
{
	uint32_t number;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != (ssize_t)sizeof(number))
		number = (uint32_t)(now_usec(CLOCK_REALTIME) ^ (uint64_t)getpid() << 16);
	(void)snprintf(ret, SESSION_INSTANCE_CHARS + 1, "%08x", number);
}

static int fill_address(const char *directory, const char *name, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if ((size_t)snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/%s", directory, name) >=
		sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	return 0;
}

int session_connect(const char *directory, const char *name, int *ret_fd)
{
	_cleanup_close_ int fd = -EBADF;
	struct sockaddr_un address;
	int r;

	r = fill_address(directory, name, &address);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (RETRY_ON_EINTR(connect(fd, (struct sockaddr *)&address, sizeof(address))) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Binds and listens at its name. */
static int bind_socket(struct session_socket *bound, const char *directory)
{
	struct sockaddr_un address;
	struct stat st;
	int r;

	r = fill_address(directory, bound->name, &address);
	if (r < 0)
		return r;
	bound->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (bound->fd < 0)
		return -errno;
	/* The mode of the socket becomes the mode of the path, so it is never wider. */
	if (fchmod(bound->fd, 0600) < 0 ||
		bind(bound->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	if (lstat(address.sun_path, &st) < 0)
		return -errno;
	bound->device = st.st_dev;
	bound->inode = st.st_ino;
	if (listen(bound->fd, SESSION_BACKLOG) < 0)
		return -errno;
	return 0;
}

/* Makes a socket visible that was bound under a hidden name. */
static int unhide(struct session_socket *bound, const char *directory)
{
	const char *name = startswith(bound->name, SESSION_HIDDEN_PREFIX);
	struct sockaddr_un hidden, visible;
	int r;

	r = fill_address(directory, bound->name, &hidden);
	if (r >= 0)
		r = fill_address(directory, name, &visible);
	if (r < 0)
		return r;
	if (rename(hidden.sun_path, visible.sun_path) < 0)
		return -errno;
	memmove(bound->name, name, strlen(name) + 1);
	return 0;
}

static int make_socket(struct session *session, struct session_socket *bound, const char *prefix,
	const char *resource, const char *instance, struct error *error)
{
	const char *directory = session->directory;
	uint64_t hash = hash_string(resource);
	int r;

	(void)snprintf(bound->name, sizeof(bound->name),
		"%s" SESSION_SOCKET_PREFIX "%08x-%s-%llu" SESSION_SOCKET_SUFFIX, prefix,
		(uint32_t)(hash ^ hash >> 32), instance,
		(unsigned long long)(session->number % SESSION_NUMBERS));
	r = bind_socket(bound, directory);
	if (r >= 0 && bound == &session->visible)
		r = unhide(bound, directory);
	if (r >= 0)
		return 0;
	/* Another errno, because the caller would take this one for an absent kubelet. */
	if (r == -ENOENT || r == -ECONNREFUSED || r == -EAGAIN)
		r = -EIO;
	if (r == -EROFS)
		return error_set(error, r, "%s is read-only for devplugd: " WRITE_ACCESS_REMEDY,
			directory, directory, directory);
	return error_set(error, r, "cannot create the socket %s/%s: %s", directory, bound->name,
		strerror(-r));
}

static int begin(
	struct session *session, const char *directory, uint64_t number, struct error *error)
{
	session->number = number;
	session->directory = strdup(directory);
	return session->directory ? 0 : error_set(error, -ENOMEM, "out of memory");
}

int session_open(const char *directory, const char *resource, const char *instance, uint64_t number,
	struct session *ret, struct error *error)
{
	_cleanup_(session_done) struct session session = SESSION_INIT;
	int r;

	r = session_connect(directory, KUBELET_SOCKET_NAME, &session.kubelet_fd);
	if (r == -ENOENT)
		return error_set(error, r,
			"no kubelet: %s/%s does not exist; the kubelet creates it when it starts",
			directory, KUBELET_SOCKET_NAME);
	if (r < 0)
		return error_set(error, r, "cannot connect to the kubelet at %s/%s: %s", directory,
			KUBELET_SOCKET_NAME, strerror(-r));
	r = begin(&session, directory, number, error);
	if (r >= 0)
		r = make_socket(&session, &session.socket, "", resource, instance, error);
	if (r < 0)
		return r;
	*ret = session;
	session = SESSION_INIT;
	return 0;
}

int session_open_watched(const char *directory, const char *resource, const char *instance,
	uint64_t number, struct session *ret, struct error *error)
{
	_cleanup_(session_done) struct session session = SESSION_INIT;
	int r;

	if (access(directory, F_OK) < 0 && errno == ENOENT)
		return error_set(error, -ENXIO,
			"no kubelet: %s does not exist; the kubelet creates it when it starts",
			directory);
	r = begin(&session, directory, number, error);
	/* First the one that is renamed: the name that it leaves is that of the other one. */
	if (r >= 0)
		r = make_socket(&session, &session.visible, SESSION_HIDDEN_PREFIX, resource,
			instance, error);
	if (r >= 0)
		r = make_socket(&session, &session.socket, SESSION_HIDDEN_PREFIX, resource,
			instance, error);
	if (r < 0)
		return r;
	*ret = session;
	session = SESSION_INIT;
	return 0;
}

bool session_has_no_socket(const struct session *session)
{
	return session->number != 0 && !session->directory;
}

pid_t session_peer_pid(int fd)
{
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return 0;
	return peer.pid;
}

/* Whether the socket that was bound is still at its path. */
static bool is_in_place(const struct session *session, const struct session_socket *bound)
{
	struct sockaddr_un address;
	struct stat st;

	return session->directory && bound->inode != 0 &&
		fill_address(session->directory, bound->name, &address) == 0 &&
		lstat(address.sun_path, &st) == 0 && st.st_dev == bound->device &&
		st.st_ino == bound->inode;
}

bool session_is_in_place(const struct session *session)
{
	return is_in_place(session, &session->socket) &&
		(session->visible.name[0] == '\0' || is_in_place(session, &session->visible));
}

static bool has_option(int fd, int option, int value)
{
	int found = 0;
	socklen_t size = sizeof(found);

	return getsockopt(fd, SOL_SOCKET, option, &found, &size) == 0 && found == value;
}

/* Whether it accepts connections at a path. One that was shut down is readable forever. */
static bool is_listener(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLRDHUP };

	return has_option(fd, SO_DOMAIN, AF_UNIX) && has_option(fd, SO_TYPE, SOCK_STREAM) &&
		has_option(fd, SO_ACCEPTCONN, 1) && poll(&poll_fd, 1, 0) == 0;
}

/* Both sockets were bound under the hidden name. */
static int read_bound_name(struct session *session, struct session_socket *bound)
{
	struct sockaddr_un address = { 0 };
	socklen_t size = sizeof(address) - 1;
	const char *name;

	if (!is_listener(bound->fd) ||
		getsockname(bound->fd, (struct sockaddr *)&address, &size) < 0)
		return -EBADF;
	name = startswith(address.sun_path, session->directory);
	name = name ? startswith(name, "/" SESSION_HIDDEN_PREFIX SESSION_SOCKET_PREFIX) : NULL;
	if (!name || strchr(name, '/') ||
		(size_t)snprintf(bound->name, sizeof(bound->name), "%s" SESSION_SOCKET_PREFIX "%s",
			bound == &session->visible ? "" : SESSION_HIDDEN_PREFIX,
			name) >= sizeof(bound->name))
		return -EBADF;
	return fcntl(bound->fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

int session_adopt(const char *directory, struct session *session)
{
	int r;

	session->directory = strdup(directory);
	if (!session->directory)
		return -ENOMEM;
	r = read_bound_name(session, &session->socket);
	if (r >= 0)
		r = read_bound_name(session, &session->visible);
	if (r >= 0 && !streq(session->visible.name, session->socket.name + 1))
		r = -EBADF;
	return r < 0 ? r : session_is_in_place(session) ? 0 : -ESTALE;
}

static void remove_socket(const struct session *session, struct session_socket *bound)
{
	struct sockaddr_un address;

	bound->fd = close_fd(bound->fd);
	if (is_in_place(session, bound) &&
		fill_address(session->directory, bound->name, &address) == 0)
		(void)unlink(address.sun_path);
}

void session_done(struct session *session)
{
	/* First the one that the kubelet watches. */
	remove_socket(session, &session->visible);
	remove_socket(session, &session->socket);
	(void)close_fd(session->kubelet_fd);
	free(session->directory);
	*session = SESSION_INIT;
}

/* Whether another instance made the name: PREFIX hash-INSTANCE-number SUFFIX. */
static bool is_of_another(const char *name, const char *instance)
{
	const char *shown = startswith(name, SESSION_HIDDEN_PREFIX) ?: name;
	const char *rest = startswith(shown, SESSION_SOCKET_PREFIX), *theirs;
	size_t suffix = strlen(SESSION_SOCKET_SUFFIX);

	if (!rest || strlen(rest) <= suffix ||
		!streq(rest + strlen(rest) - suffix, SESSION_SOCKET_SUFFIX))
		return false;
	theirs = strchr(rest, '-');
	return !theirs || !startswith(theirs + 1, instance);
}

static bool is_abandoned(int directory_fd, const char *directory, const char *name)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;

	return fstatat(directory_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode) &&
		session_connect(directory, name, &fd) == -ECONNREFUSED;
}

unsigned session_sweep(const char *directory, const char *instance)
{
	DIR *stream = opendir(directory);
	struct dirent *entry;
	unsigned count = 0;

	if (!stream)
		return 0;
	while ((entry = readdir(stream)))
		if (is_of_another(entry->d_name, instance) &&
			is_abandoned(dirfd(stream), directory, entry->d_name) &&
			unlinkat(dirfd(stream), entry->d_name, 0) == 0)
			count++;
	(void)closedir(stream);
	return count;
}
