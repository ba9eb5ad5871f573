/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts connections to kubelet.sock. A server of the binding supports a fixed number of
 * connections, but a kubelet has no such limit. So servers are added as connections arrive, and
 * each is filled to half, because ends are noticed in no particular order.
 */
#include "kubelet/registrar-parts.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/log.h"
#include "kubelet/connection.h"
#include "kubelet/server-end.h"
#include "proto/methods.h"

#define CALLERS_PER_SERVER (RPC_CONNECTIONS_MAX / 2)
#define ACCEPT_PAUSE       (100 * USEC_PER_MSEC)

static const struct rpc_method methods[] = {
	{ .path = METHOD_REGISTER, .on_call = register_call_arrive },
};

static void caller_free(struct caller *caller)
{
	struct registrar *registrar = caller->registrar;
	struct caller **c = &registrar->callers;

	while (*c != caller)
		c = &(*c)->next;
	*c = caller->next;
	registrar->slots[caller->slot].n_callers--;
	sd_event_source_disable_unref(caller->source);
	close_fd(caller->duplicate);
	free(caller);
}

static int on_hangup(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct caller *caller = userdata;
	struct manager *manager = caller->registrar->manager;
	uint64_t number = caller->number;

	caller_free(caller);
	if (manager->model->version->register_follows_caller)
		connection_caller_gone(manager, number);
	return 0;
}

/* A server that can take one more caller. */
static int find_slot(struct registrar *registrar, size_t *ret)
{
	size_t i;
	int r;

	for (i = 0; i < registrar->n_slots; i++)
		if (registrar->slots[i].n_callers < CALLERS_PER_SERVER) {
			*ret = i;
			return 0;
		}
	r = array_reserve(
		(void **)&registrar->slots, registrar->n_slots, sizeof(*registrar->slots));
	if (r < 0)
		return r;
	registrar->slots[i] = (struct slot){};
	r = rpc_server_new(registrar->manager->event, methods, ARRAY_SIZE(methods), registrar,
		&registrar->slots[i].server);
	if (r < 0)
		return r;
	registrar->n_slots++;
	*ret = i;
	return 0;
}

static int add_caller(struct registrar *registrar, int number)
{
	_cleanup_close_ int fd = number;
	struct caller *caller;
	size_t slot;
	int r;

	r = find_slot(registrar, &slot);
	if (r < 0)
		return r;
	caller = calloc(1, sizeof(*caller));
	if (!caller)
		return -ENOMEM;
	caller->registrar = registrar;
	caller->number = ++registrar->last_caller;
	caller->slot = slot;
	caller->next = registrar->callers;
	registrar->callers = caller;
	registrar->slots[slot].n_callers++;
	caller->duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	r = caller->duplicate < 0 ? -errno : 0;
	if (r >= 0)
		r = sd_event_add_io(registrar->manager->event, &caller->source, caller->duplicate,
			EPOLLRDHUP | EPOLLHUP | EPOLLET, on_hangup, caller);
	if (r >= 0)
		r = rpc_server_add(registrar->slots[slot].server, TAKE_FD(fd), caller->number);
	if (r < 0)
		caller_free(caller);
	return r;
}

static int on_pause_over(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct registrar *registrar = userdata;

	return sd_event_source_set_enabled(registrar->listen_source, SD_EVENT_ON);
}

/* Without descriptors the connection stays in the backlog, and the loop must not spin on it. */
static int pause_accepting(struct registrar *registrar)
{
	int r;

	sd_event_source_disable_unref(TAKE_PTR(registrar->pause_source));
	r = sd_event_add_time_relative(registrar->manager->event, &registrar->pause_source,
		CLOCK_MONOTONIC, ACCEPT_PAUSE, 0, on_pause_over, registrar);
	if (r < 0)
		return r;
	return sd_event_source_set_enabled(registrar->listen_source, SD_EVENT_OFF);
}

static int on_accept(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct registrar *registrar = userdata;
	int connected, r;

	connected = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (connected < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
		log_warning("cannot accept a connection: %s; trying again", strerror(errno));
		return pause_accepting(registrar);
	}
	if (connected < 0)
		return 0;
	r = add_caller(registrar, connected);
	if (r < 0)
		log_warning("cannot serve a connection: %s", strerror(-r));
	return 0;
}

int registrar_new(struct manager *manager, int number, struct registrar **ret)
{
	_cleanup_close_ int fd = number;
	struct registrar *registrar = calloc(1, sizeof(*registrar));
	int r;

	if (!registrar)
		return -ENOMEM;
	(void)pthread_mutex_init(&registrar->lock, NULL);
	registrar->manager = manager;
	registrar->fd = TAKE_FD(fd);
	r = sd_event_add_io(manager->event, &registrar->listen_source, registrar->fd, EPOLLIN,
		on_accept, registrar);
	if (r < 0) {
		(void)registrar_free(registrar);
		return r;
	}
	*ret = registrar;
	return 0;
}

struct registrar *registrar_free(struct registrar *registrar)
{
	if (!registrar)
		return NULL;
	sd_event_source_disable_unref(registrar->listen_source);
	sd_event_source_disable_unref(registrar->pause_source);
	register_calls_stop(registrar);
	while (registrar->callers)
		caller_free(registrar->callers);
	for (size_t i = 0; i < registrar->n_slots; i++) {
		server_end(registrar->slots[i].server);
	}
	free(registrar->slots);
	close_fd(registrar->fd);
	(void)pthread_mutex_destroy(&registrar->lock);
	free(registrar);
	return NULL;
}
