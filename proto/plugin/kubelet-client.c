/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what the supervisor's messages to the kubelet client begin, and answers each registration
 * once. A peer that blocks gRPC ends the process: all of its registrations would wait for that
 * peer, and a new process costs little.
 */
#include "proto/plugin/kubelet-client.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/child-sandbox.h"
#include "common/control-kubelet-client.h"
#include "common/log.h"
#include "proto/plugin/announcement.h"
#include "proto/plugin/registration.h"
#include "proto/rpc.h"

struct client {
	sd_event *event;
	sd_event_source *alive;
	uid_t supervisor_uid;
	struct mailbox *mailbox;
	struct announcer *announcer;
	struct entry *entries;
};

/* What one message has begun: one of the two. */
struct entry {
	struct entry *next;
	struct client *client;
	uint64_t session;
	struct registration *registration;
	struct announcement *announcement;
};

/* The words of the text. */
struct words {
	char type[32], name[512];
	const char *endpoint;
};

static void answer(const struct client *client, uint64_t session, uint32_t type, const char *why)
{
	struct control_message message = CLIENT_MESSAGE_INIT(type);

	message.session = session;
	(void)snprintf(message.text, sizeof(message.text), "%s", why);
	/* Without the answer, the resource would wait for its time limit. */
	if (control_send(CONTROL_FD, &message) < 0)
		(void)sd_event_exit(client->event, -EIO);
}

static void entry_free(struct entry *entry)
{
	for (struct entry **e = &entry->client->entries; *e; e = &(*e)->next)
		if (*e == entry) {
			*e = entry->next;
			break;
		}
	(void)registration_free(entry->registration);
	(void)announcement_free(entry->announcement);
	free(entry);
}

static void finish(struct entry *entry, uint32_t type, const char *why)
{
	answer(entry->client, entry->session, type, why);
	entry_free(entry);
}

static void on_registration_end(struct registration *registration, const char *why, void *userdata)
{
	finish(userdata, why ? CLIENT_REFUSED : CLIENT_REGISTERED, why ?: "");
}

static void on_status(struct announcement *announcement, const char *why, void *userdata)
{
	finish(userdata, why ? CLIENT_REFUSED : CLIENT_REGISTERED, why ?: "");
}

static void on_unused(struct announcement *announcement, void *userdata)
{
	finish(userdata, CLIENT_UNUSED, "");
}

static const struct announcement_events announcement_events = {
	.on_status = on_status,
	.on_unused = on_unused,
};

/* --- messages --- */

/* Sets the words, of which the endpoint may contain spaces and stays in the text. */
static int split(const char *text, struct words *ret)
{
	int end = 0;

	if (sscanf(text, "%31s %511s %n", ret->type, ret->name, &end) != 2 || end == 0)
		return -EBADMSG;
	ret->endpoint = text + end;
	return 0;
}

static int begin_register(
	struct entry *entry, struct control_message *message, const struct words *words)
{
	struct client *client = entry->client;
	const struct registration_parameters parameters = {
		.name = words->name,
		.endpoint = words->endpoint,
		.pre_start_required = message->prestart != 0,
	};

	return registration_new(client->event, client->mailbox, TAKE_FD(message->fds[0]),
		&parameters, on_registration_end, entry, &entry->registration);
}

static int begin_answer(
	struct entry *entry, struct control_message *message, const struct words *words)
{
	struct client *client = entry->client;
	const struct announcement_parameters parameters = {
		.session = entry->session,
		.type = words->type,
		.name = words->name,
		.endpoint = words->endpoint,
		.supervisor_uid = client->supervisor_uid,
	};

	return announcement_new(client->announcer, TAKE_FD(message->fds[0]), &parameters,
		&announcement_events, entry, &entry->announcement);
}

static int begin(struct client *client, struct control_message *message)
{
	struct entry *entry;
	struct words words;
	int r = split(message->text, &words);

	if (r < 0)
		return r;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	entry->client = client;
	entry->session = message->session;
	entry->next = client->entries;
	client->entries = entry;
	r = message->type == CLIENT_REGISTER ? begin_register(entry, message, &words)
					     : begin_answer(entry, message, &words);
	if (r < 0)
		finish(entry, CLIENT_REFUSED, strerror(-r));
	return 0;
}

static int on_control(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	_cleanup_control_ struct control_message message = CLIENT_MESSAGE_INIT(0);
	struct client *client = userdata;
	int r = control_receive(fd, &control_client, &message);

	if (r == -EAGAIN)
		return 0;
	if (r == -ECONNRESET || (r >= 0 && message.type == CONTROL_STOP))
		return sd_event_exit(client->event, 0);
	if (r >= 0)
		r = begin(client, &message);
	if (r < 0) {
		log_error("the kubelet client cannot register: %s", strerror(-r));
		return sd_event_exit(client->event, r);
	}
	return 0;
}

static int on_alive(sd_event_source *source, uint64_t usec, void *userdata)
{
	const struct control_message message = CLIENT_MESSAGE_INIT(CONTROL_ALIVE);
	struct client *client = userdata;

	if (rpc_is_held_up()) {
		log_error("a peer floods the kubelet client, so resources cannot be registered; "
			  "the client ends and is started again");
		return sd_event_exit(client->event, -EIO);
	}
	(void)control_send(CONTROL_FD, &message);
	return sd_event_source_set_time_relative(source, CONTROL_ALIVE_INTERVAL);
}

/* --- --- */

static int start(struct client *client)
{
	struct ucred supervisor = { 0 };
	socklen_t size = sizeof(supervisor);
	int r;

	if (getsockopt(CONTROL_FD, SOL_SOCKET, SO_PEERCRED, &supervisor, &size) < 0)
		return -errno;
	client->supervisor_uid = supervisor.uid;
	/* Before gRPC has threads. */
	r = sandbox_give_up_programs(false);
	if (r >= 0)
		r = rpc_start();
	if (r >= 0)
		r = sd_event_default(&client->event);
	if (r >= 0)
		r = mailbox_new(client->event, client, &client->mailbox);
	if (r >= 0)
		r = announcer_new(client->event, client->mailbox, &client->announcer);
	if (r >= 0)
		r = sd_event_add_io(client->event, NULL, CONTROL_FD, EPOLLIN, on_control, client);
	if (r >= 0)
		r = sd_event_add_time(client->event, &client->alive, CLOCK_MONOTONIC, 0,
			100 * USEC_PER_MSEC, on_alive, client);
	if (r >= 0)
		r = sd_event_source_set_enabled(client->alive, SD_EVENT_ON);
	return r;
}

int kubelet_client_run(void)
{
	/* gRPC's thread may use it until the process has ended. */
	static struct client client;
	int r = start(&client);

	if (r < 0) {
		log_error("the kubelet client cannot start: %s", strerror(-r));
		return r;
	}
	return sd_event_loop(client.event);
}
