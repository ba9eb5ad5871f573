/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides who may connect to a socket that the kubelet connects to: root and the supervisor's user,
 * by the credentials of the connection. A burst of connections does not keep the loop from other
 * work.
 */
#include "proto/acceptor.h"

#include <sys/epoll.h>

#include "common/log.h"

#define ACCEPTS_AT_ONCE 16

struct acceptor {
	int fd;
	uid_t supervisor_uid;
	const struct acceptor_events *events;
	void *userdata;
	sd_event_source *source;
	struct log_budget log_budget; /* of refused connections */
};

static void log_refused(struct acceptor *acceptor, const struct ucred *peer, const char *why)
{
	if (log_budget_admits(&acceptor->log_budget, NULL))
		log_warning("refused a connection from process %d of user %u: %s", (int)peer->pid,
			(unsigned)peer->uid, why);
}

/* Returns 1 if a connection was taken or refused, 0 if none waits, negative errno if accepting
 * failed. */
static int accept_one(struct acceptor *acceptor)
{
	_cleanup_close_ int fd = -EBADF;
	struct ucred peer = {};
	socklen_t size = sizeof(peer);
	int r;

	fd = accept4(acceptor->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return errno == EAGAIN ? 0 : errno == ECONNABORTED || errno == EINTR ? 1 : -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return 1;
	if (peer.uid != 0 && peer.uid != acceptor->supervisor_uid) {
		log_refused(acceptor, &peer, "only root may call");
		return 1;
	}
	r = acceptor->events->on_connection(TAKE_FD(fd), &peer, acceptor->userdata);
	if (r < 0)
		log_refused(acceptor, &peer, r == -EMFILE ? "too many connections" : strerror(-r));
	return 1;
}

static int on_readable(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct acceptor *acceptor = userdata;
	unsigned taken = 0;
	int r = 1;

	while (taken < ACCEPTS_AT_ONCE && (r = accept_one(acceptor)) > 0)
		taken++;
	/* The peer would wait in the backlog, and the loop would spin. After one was accepted there
	 * need not be another: the kernel returns EMFILE before it checks. */
	if (taken == 0 && (r < 0 || revents & EPOLLHUP))
		acceptor->events->on_broken(acceptor->userdata);
	return 0;
}

int acceptor_new(sd_event *event, int fd, uid_t supervisor_uid,
	const struct acceptor_events *events, void *userdata, struct acceptor **ret)
{
	_cleanup_(acceptor_freep) struct acceptor *acceptor = calloc(1, sizeof(*acceptor));
	_cleanup_close_ int listener = fd;
	int r;

	if (!acceptor)
		return -ENOMEM;
	acceptor->fd = TAKE_FD(listener);
	acceptor->supervisor_uid = supervisor_uid;
	acceptor->events = events;
	acceptor->userdata = userdata;
	r = sd_event_add_io(event, &acceptor->source, acceptor->fd, EPOLLIN, on_readable, acceptor);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(acceptor);
	return 0;
}

struct acceptor *acceptor_free(struct acceptor *acceptor)
{
	if (!acceptor)
		return NULL;
	sd_event_source_disable_unref(acceptor->source);
	(void)close_fd(acceptor->fd);
	free(acceptor);
	return NULL;
}
