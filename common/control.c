/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how a message is sent, and checks it by the rules of its protocol: a received message
 * that breaks one is dropped whole, and its descriptors are closed. One datagram is one message:
 * both ends run on one machine and come from one package, so the header is a plain structure.
 */
#include <fcntl.h>
#include <sys/socket.h>

#include "common/control.h"
#include "common/counters.h"
#include "common/descriptors.h"
#include "common/foreign.h"
#include "common/text.h"

enum {
	NOT_ZERO = 1 << 0, /* where a message has it */
	COUNT = 1 << 1,
};

/* The numbers that a message can have, in the order in which they are sent. */
static const struct {
	size_t offset; /* in struct control_message */
	enum control_field field;
	unsigned flags;
} numbers[] = {
#define NUMBER(member) offsetof(struct control_message, member)
	{ NUMBER(session), FIELD_SESSION, NOT_ZERO },
	{ NUMBER(number), FIELD_NUMBER, NOT_ZERO },
	{ NUMBER(phase), FIELD_PHASE, NOT_ZERO },
	{ NUMBER(call), FIELD_CALL, NOT_ZERO },
	{ NUMBER(count), FIELD_CALL, NOT_ZERO | COUNT },
	{ NUMBER(gone_by), FIELD_TIMES, 0 },
	{ NUMBER(allocated_before), FIELD_TIMES, 0 },
	{ NUMBER(kubelet_restarted), FIELD_TIMES, 0 },
	{ NUMBER(devices), FIELD_DEVICES, COUNT },
	{ NUMBER(healthy), FIELD_DEVICES, COUNT },
	{ NUMBER(ids), FIELD_DEVICES, COUNT },
	{ NUMBER(healthy_ids), FIELD_DEVICES, COUNT },
	{ NUMBER(removed), FIELD_REMOVED, COUNT },
	{ NUMBER(generation), FIELD_POOL, COUNT },
	{ NUMBER(slices), FIELD_POOL, COUNT },
	{ NUMBER(lacks), FIELD_POOL, COUNT },
	{ NUMBER(peer), FIELD_PEER, 0 },
	{ NUMBER(prestart), FIELD_PRESTART, 0 },
	{ NUMBER(driver), FIELD_DRIVER, NOT_ZERO },
	{ NUMBER(until), FIELD_UNTIL, 0 },
	{ NUMBER(again), FIELD_AGAIN, 0 },
#undef NUMBER
};

struct header {
	uint32_t type;
	uint32_t text_length;
	uint64_t numbers[ARRAY_SIZE(numbers)];
};

static uint64_t *number_of(const struct control_message *message, size_t i)
{
	return (uint64_t *)((uintptr_t)message + numbers[i].offset);
}

/* The rule of a message, if the message keeps it; NULL: it is not valid. */
static const struct control_rule *find_rule(
	const struct control_protocol *protocol, const struct header *header, size_t n_fds)
{
	const struct control_rule *rule =
		header->type < protocol->n_rules ? &protocol->rules[header->type] : NULL;

	if (!rule || !rule->name || n_fds < rule->n_fds ||
		n_fds > rule->n_fds + rule->n_optional_fds ||
		(header->text_length > 0 && !(rule->fields & FIELD_TEXT)))
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		bool has = rule->fields & numbers[i].field;

		if (header->numbers[i] == 0 ? has && (numbers[i].flags & NOT_ZERO) : !has)
			return NULL;
	}
	return rule;
}

void control_message_done(struct control_message *message)
{
	if (message->is_foreign)
		foreign_close_all(message->fds, CONTROL_FDS_MAX);
	for (size_t i = 0; i < CONTROL_FDS_MAX; i++)
		message->fds[i] = message->is_foreign ? -EBADF : close_fd(message->fds[i]);
}

int control_send(int fd, const struct control_message *message)
{
	struct header header = {
		.type = message->type,
		.text_length = (uint32_t)strnlen(message->text, sizeof(message->text)),
	};
	struct iovec iov[] = {
		{ .iov_base = &header, .iov_len = sizeof(header) },
		{ .iov_base = (void *)message->text, .iov_len = header.text_length },
	};
	size_t n_fds = 0;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		header.numbers[i] = *number_of(message, i);
	while (n_fds < CONTROL_FDS_MAX && message->fds[n_fds] >= 0)
		n_fds++;
	if (header.text_length >= CONTROL_TEXT_MAX || !find_rule(message->protocol, &header, n_fds))
		return -EBADMSG;

	return descriptors_send(fd, iov, ARRAY_SIZE(iov), message->fds, n_fds);
}

/* Moves received descriptors into the message, unless they are too many: then closes them. */
static void take_fds(struct descriptors *received, struct control_message *message)
{
	if (received->count <= CONTROL_FDS_MAX)
		memcpy(message->fds, received->fds, received->count * sizeof(*received->fds));
	else if (message->is_foreign)
		foreign_close_all(received->fds, received->count);
	else
		for (size_t i = 0; i < received->count; i++)
			(void)close(received->fds[i]);
}

static int refuse(struct control_message *message, int code)
{
	control_message_done(message);
	return code;
}

static bool all_are_memory(const struct control_message *message)
{
	for (size_t i = 0; i < CONTROL_FDS_MAX; i++)
		if (message->fds[i] >= 0 && !foreign_is_memory(message->fds[i]))
			return false;
	return true;
}

/* Whether the next message has descriptors for which this process has no room. The kernel would
 * drop them, and the message would count as malformed. */
static bool lacks_descriptors(int fd)
{
	int fds[CONTROL_FDS_MAX] = { -EBADF, -EBADF };
	struct msghdr msg = { 0 };
	bool lacks = false;

	/* Without a buffer for them the kernel reports that there are some, and opens none. */
	if (RETRY_ON_EINTR(recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT)) < 0 ||
		!(msg.msg_flags & MSG_CTRUNC))
		return false;
	for (size_t i = 0; i < CONTROL_FDS_MAX && !lacks; i++) {
		fds[i] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		lacks = fds[i] < 0;
	}
	for (size_t i = 0; i < CONTROL_FDS_MAX; i++)
		(void)close_fd(fds[i]);
	return lacks;
}

static int receive(int fd, const struct control_protocol *protocol, bool from_child,
	struct control_message *ret_message)
{
	struct control_message message = CONTROL_MESSAGE_INIT(protocol, 0);
	const struct control_rule *rule;
	struct header header;
	struct iovec iov[] = {
		{ .iov_base = &header, .iov_len = sizeof(header) },
		{ .iov_base = message.text, .iov_len = sizeof(message.text) - 1 },
	};
	struct descriptors received;
	ssize_t n = descriptors_receive(fd, iov, ARRAY_SIZE(iov), MSG_DONTWAIT, &received);

	if (n < 0)
		return (int)n;
	message.is_foreign = from_child;
	take_fds(&received, &message);
	if (n == 0)
		return refuse(&message, -ECONNRESET);
	if (received.truncated || (size_t)n < sizeof(header) ||
		(size_t)n - sizeof(header) != header.text_length ||
		strlen(message.text) != header.text_length)
		return refuse(&message, -EBADMSG);
	rule = find_rule(protocol, &header, received.count);
	if (!rule || rule->to_supervisor != from_child || (from_child && !all_are_memory(&message)))
		return refuse(&message, -EBADMSG);

	message.type = header.type;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		*number_of(&message, i) = numbers[i].flags & COUNT
			? MIN_OF(header.numbers[i], COUNT_MAX)
			: header.numbers[i];
	if (message.healthy > message.devices)
		return refuse(&message, -EBADMSG);
	text_sanitize(message.text);

	*ret_message = message;
	return 0;
}

int control_receive(
	int fd, const struct control_protocol *protocol, struct control_message *ret_message)
{
	return receive(fd, protocol, false, ret_message);
}

int control_receive_from_child(
	int fd, const struct control_protocol *protocol, struct control_message *ret_message)
{
	if (lacks_descriptors(fd))
		return -EMFILE;
	return receive(fd, protocol, true, ret_message);
}
