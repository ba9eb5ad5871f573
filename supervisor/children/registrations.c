/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the kubelet client runs and what it has. The supervisor keeps a duplicate of each
 * descriptor that the client gets, so that it can end a registration without the client's help. The
 * client answers each message once, and then has nothing of that registration any more.
 */
#include "supervisor/children/registrations.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/control-kubelet-client.h"
#include "common/spawn-request.h"
#include "supervisor/children/auxiliary.h"
#include "supervisor/children/manager.h"

enum registration_state {
	REGISTRATION_IDLE,    /* registered, or nothing has connected to the visible socket */
	REGISTRATION_WAITING, /* for the client, which does not run or has too many */
	REGISTRATION_PENDING, /* the client has it */
};

struct registration {
	struct registration *next;
	struct kubelet_client *client;
	enum registration_state state;
	uint64_t session;
	int fd;
	sd_event_source *readable; /* of a visible socket; NULL: a connection to kubelet.sock */
	bool pre_start_required;
	registration_handler on_result;
	void *userdata;
	char text[]; /* of CLIENT_REGISTER or CLIENT_ANSWER */
};

struct kubelet_client {
	struct manager *manager;
	struct auxiliary *process;
	struct registration *first; /* in the order in which they began */
	size_t n_waiting, n_pending;
	sd_event_source *idle;
};

static void set_state(struct registration *registration, enum registration_state state)
{
	struct kubelet_client *client = registration->client;

	client->n_waiting -= registration->state == REGISTRATION_WAITING;
	client->n_pending -= registration->state == REGISTRATION_PENDING;
	registration->state = state;
	client->n_waiting += state == REGISTRATION_WAITING;
	client->n_pending += state == REGISTRATION_PENDING;
	/* A connection to the visible socket is noticed while the client does not have the socket.
	 */
	if (registration->readable)
		(void)sd_event_source_set_enabled(registration->readable,
			state == REGISTRATION_IDLE ? SD_EVENT_ON : SD_EVENT_OFF);
	(void)sd_event_source_set_time_relative(client->idle, KUBELET_CLIENT_IDLE);
	(void)sd_event_source_set_enabled(client->idle,
		client->n_waiting + client->n_pending > 0 ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

static int on_idle(sd_event_source *source, uint64_t usec, void *userdata)
{
	const struct kubelet_client *client = userdata;

	auxiliary_set_wanted(client->process, false);
	return 0;
}

/* --- to the client --- */

static int send_registration(const struct registration *registration)
{
	struct control_message message =
		CLIENT_MESSAGE_INIT(registration->readable ? CLIENT_ANSWER : CLIENT_REGISTER);

	message.session = registration->session;
	message.prestart = !registration->readable && registration->pre_start_required;
	message.fds[0] = registration->fd;
	(void)snprintf(message.text, sizeof(message.text), "%s", registration->text);
	return auxiliary_send(registration->client->process, &message);
}

static void send_waiting(struct kubelet_client *client)
{
	for (struct registration *r = client->first; r; r = r->next) {
		if (client->n_waiting == 0 || client->n_pending >= CLIENT_REGISTRATIONS_MAX)
			break;
		if (r->state != REGISTRATION_WAITING)
			continue;
		/* If the client is being replaced, its end is reported. */
		if (send_registration(r) < 0)
			break;
		set_state(r, REGISTRATION_PENDING);
	}
}

static void wait_for_client(struct registration *registration)
{
	struct kubelet_client *client = registration->client;

	set_state(registration, REGISTRATION_WAITING);
	if (client->manager->stopping)
		return;
	/* One that is ended because it was idle is started again when it has ended. */
	auxiliary_set_wanted(client->process, true);
	send_waiting(client);
}

/* --- from the client --- */

static struct registration *find(
	const struct kubelet_client *client, enum registration_state state, uint64_t session)
{
	for (struct registration *r = client->first; r; r = r->next)
		if (r->state == state && (session == 0 || r->session == session))
			return r;
	return NULL;
}

static void finish(struct registration *registration, const char *why)
{
	set_state(registration, REGISTRATION_IDLE);
	if (!registration->readable)
		registration->fd = close_fd(registration->fd);
	registration->on_result(why, registration->userdata);
}

/* A listening socket that was shut down would be readable forever. */
static int on_readable(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct registration *registration = userdata;

	if (!(revents & (EPOLLRDHUP | EPOLLHUP))) {
		wait_for_client(registration);
		return 0;
	}
	(void)sd_event_source_set_enabled(source, SD_EVENT_OFF);
	registration->on_result(
		"the socket that the kubelet finds was shut down", registration->userdata);
	return 0;
}

static bool on_message(struct control_message *message, void *userdata)
{
	struct kubelet_client *client = userdata;
	/* One that was freed is answered, too. */
	struct registration *registration = find(client, REGISTRATION_PENDING, message->session);

	if (registration && message->type == CLIENT_UNUSED) {
		if (!registration->readable)
			return false;
		set_state(registration, REGISTRATION_IDLE);
	} else if (registration) {
		finish(registration,
			message->type == CLIENT_REGISTERED ? NULL
				: message->text[0]         ? message->text
							   : "the kubelet gave no reason");
	}
	send_waiting(client);
	return true;
}

static int on_started(struct auxiliary *process, void *userdata)
{
	send_waiting(userdata);
	return 0;
}

/* The next one is started for the next registration, without a delay of its own: each end of a
 * client ends registrations, whose resources wait before they try again. */
static void on_ended(void *userdata)
{
	const struct kubelet_client *client = userdata;
	struct registration *pending;

	if (client->manager->stopping)
		return;
	auxiliary_set_wanted(client->process, false);
	while ((pending = find(client, REGISTRATION_PENDING, 0)))
		finish(pending, "devplugd's kubelet client ended before the kubelet answered");
	if (client->n_waiting > 0)
		auxiliary_set_wanted(client->process, true);
}

/* --- --- */

int registration_begin(struct kubelet_client *client, struct session *session,
	const struct registration_options *options, struct registration **ret)
{
	bool watched = session->visible.fd >= 0;
	_cleanup_(registration_freep) struct registration *registration = NULL;
	struct registration **end = &client->first;
	_cleanup_free_ char *text = NULL;
	int r;

	if (format_text(&text, "%s %s %s%s%s", options->type, options->name,
		    watched ? session->directory : "", watched ? "/" : "",
		    session->socket.name) < 0)
		return -ENOMEM;
	registration = calloc(1, sizeof(*registration) + strlen(text) + 1);
	if (!registration)
		return -ENOMEM;
	(void)strcpy(registration->text, text);
	registration->client = client;
	registration->session = session->number;
	registration->pre_start_required = options->pre_start_required;
	registration->on_result = options->on_result;
	registration->userdata = options->userdata;
	registration->fd = watched ? TAKE_FD(session->visible.fd) : TAKE_FD(session->kubelet_fd);
	while (*end)
		end = &(*end)->next;
	*end = registration;
	if (watched) {
		r = sd_event_add_io(client->manager->event, &registration->readable,
			registration->fd, EPOLLIN | EPOLLRDHUP, on_readable, registration);
		if (r < 0)
			return r;
	} else {
		wait_for_client(registration);
	}
	*ret = TAKE_PTR(registration);
	return 0;
}

int registration_fd(const struct registration *registration)
{
	return registration->fd;
}

struct registration *registration_free(struct registration *registration)
{
	struct kubelet_client *client;

	if (!registration)
		return NULL;
	client = registration->client;
	set_state(registration, REGISTRATION_IDLE);
	for (struct registration **r = &client->first; *r; r = &(*r)->next)
		if (*r == registration) {
			*r = registration->next;
			break;
		}
	registration->readable = sd_event_source_disable_unref(registration->readable);
	if (registration->fd >= 0)
		(void)shutdown(registration->fd, SHUT_RDWR);
	(void)close_fd(registration->fd);
	free(registration);
	return NULL;
}

pid_t kubelet_client_pid(const struct kubelet_client *client)
{
	return auxiliary_pid(client->process);
}

int kubelet_client_new(struct manager *manager, struct kubelet_client **ret)
{
	_cleanup_(kubelet_client_freep) struct kubelet_client *client = calloc(1, sizeof(*client));
	const struct auxiliary_options options = {
		.protocol = &control_client,
		.mode = KUBELET_CLIENT_NAME,
		.on_started = on_started,
		.on_message = on_message,
		.on_ended = on_ended,
		.userdata = client,
	};
	int r;

	if (!client)
		return -ENOMEM;
	client->manager = manager;
	r = auxiliary_new(manager, &options, &client->process);
	if (r >= 0)
		r = sd_event_add_time(manager->event, &client->idle, CLOCK_MONOTONIC, USEC_INFINITY,
			USEC_PER_SEC, on_idle, client);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(client);
	return 0;
}

struct kubelet_client *kubelet_client_free(struct kubelet_client *client)
{
	if (!client)
		return NULL;
	(void)auxiliary_free(client->process);
	sd_event_source_disable_unref(client->idle);
	free(client);
	return NULL;
}
