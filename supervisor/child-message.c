/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every message is a claim by a process that may have gone mad: what is malformed, not a child's to
 * say, or too much ends the child, and what concerns a session that is over is left aside.
 */
#include <fcntl.h>

#include "child-claims.h"
#include "child-memory.h"
#include "child-message.h"
#include "child-publish.h"
#include "child.h"
#include "common/control.h"
#include "manager.h"

/* What a message from the child means to the state table. Others are not for us to receive. */
static const struct {
	enum resource_event event;
	bool expected, session;
} message_events[] = {
	[CONTROL_READY] = { RESOURCE_READY, .expected = true },
	[CONTROL_REFUSED] = { RESOURCE_REFUSED, .expected = true },
	[CONTROL_REGISTERED] = { RESOURCE_REGISTERED, .expected = true, .session = true },
	[CONTROL_SERVING] = { RESOURCE_WATCHED, .expected = true, .session = true },
	[CONTROL_SESSION_ENDED] = { RESOURCE_SESSION_ENDED, .expected = true, .session = true },
	[CONTROL_ALIVE] = { RESOURCE_ALIVE, .expected = true },
};

static void stop_listening(struct child *child)
{
	(void)sd_event_source_set_enabled(child->control_source, SD_EVENT_OFF);
}

static void on_broken(struct child *child, const char *why)
{
	stop_listening(child);
	resource_handle(child->resource, RESOURCE_BROKEN, why);
}

static bool is_flood(struct child *child)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (now - child->window_start >= USEC_PER_SEC) {
		child->window_start = now;
		child->in_window = 0;
	}
	return ++child->in_window > CHILD_MESSAGES_MAX;
}

static void on_devices(struct child *child, struct control_message *message)
{
	bool grown = message->type == CONTROL_CHANGES;

	/* Only a memfd has seals; reading any other file could block. */
	if (fcntl(message->fds[0], F_GET_SEALS) < 0 || message->devices > CONTROL_DEVICES_MAX) {
		on_broken(child, "the child sent an inventory that is none");
		return;
	}
	if (!child_memory_take(child, TAKE_FD(message->fds[1]), grown)) {
		on_broken(child, "the child sent a memory that is none");
		return;
	}
	child->devices_fd = close_fd(child->devices_fd);
	child->devices_fd = TAKE_FD(message->fds[0]);
	child->devices_new = true;
	if (!grown)
		child->devices_size = 0;
	child->resource->devices = message->devices;
	child->resource->healthy = message->healthy;
	manager_changed(child->manager);
}

static void on_message(struct child *child, struct control_message *message)
{
	if (message->type == CONTROL_DEVICES || message->type == CONTROL_CHANGES) {
		on_devices(child, message);
		return;
	}
	if (message->type == CONTROL_GONE) {
		child->gone = message->devices;
		pod_resources_look(child->manager->pods);
		return;
	}
	if (message->type == CONTROL_CLAIMS) {
		child_claim(child, message);
		return;
	}
	if (message->type == CONTROL_PUBLISH) {
		child_publish(child, message);
		return;
	}
	if ((size_t)message->type >= ARRAY_SIZE(message_events) ||
		!message_events[message->type].expected) {
		on_broken(child, "the child sent a message that only devplugd sends");
		return;
	}
	/* Late words about a session that is over. */
	if (message_events[message->type].session && message->session != child->resource->session)
		return;
	resource_handle(child->resource, message_events[message->type].event,
		message->text[0] ? message->text : "the child gave no reason");
}

bool child_receive(struct child *child)
{
	_cleanup_control_ struct control_message message = CONTROL_MESSAGE_INIT(0);
	int r;

	r = control_receive(child->control_fd, &message);
	if (r == -EAGAIN)
		return false;
	if (r == -ECONNRESET) {
		stop_listening(child);
		resource_handle(child->resource, RESOURCE_HANGUP, NULL);
		return false;
	}
	if (r < 0) {
		on_broken(child, "the child sent a malformed message");
		return false;
	}
	if (is_flood(child)) {
		on_broken(child, "the child floods its control socket");
		return false;
	}
	on_message(child, &message);
	return true;
}
