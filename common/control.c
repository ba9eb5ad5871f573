/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which messages between the supervisor and a child are valid. Each row of the table below
 * has the rules for one type; a received message that breaks one is dropped whole and its
 * descriptors are closed. One datagram is one message: both ends run on one machine and come from
 * one package, so the header is a plain structure.
 */
#include <fcntl.h>
#include <sys/socket.h>

#include "common/control.h"
#include "common/counters.h"
#include "common/descriptors.h"
#include "common/foreign.h"
#include "common/text.h"

/* What a message of a type has. */
enum {
	SESSION = 1 << 0,
	NUMBER = 1 << 1,
	CODE = 1 << 2,
	COUNT = 1 << 3,
	TIMES = 1 << 4,
	DEVICES = 1 << 5,
	HEALTH = 1 << 6,
	TEXT = 1 << 7,
};

struct header {
	uint32_t type;
	uint32_t text_length;
	uint64_t session, number, code, count;
	uint64_t gone_by, allocated_before;
	uint64_t devices, healthy, ids, healthy_ids;
};

struct rule {
	bool known;
	unsigned has;
	size_t n_fds, n_optional_fds;
};

static const struct rule rules[] = {
	[CONTROL_CONFIGURE] = { .known = true, .n_fds = 1, .n_optional_fds = 1 },
	[CONTROL_SESSION] = { .known = true,
		.has = SESSION | TEXT,
		.n_fds = 1,
		.n_optional_fds = 1 },
	[CONTROL_END_SESSION] = { .known = true, .has = SESSION },
	[CONTROL_STOP] = { .known = true },
	[CONTROL_PUBLISHED] = { .known = true, .has = NUMBER | TEXT },
	[CONTROL_OWNERS] = { .known = true, .has = NUMBER | TEXT, .n_optional_fds = 1 },
	[CONTROL_BOOKED] = { .known = true, .has = TIMES, .n_fds = 1 },
	[CONTROL_FORGET] = { .known = true, .has = TEXT },
	[CONTROL_POD_QUESTION] = { .known = true, .has = TEXT, .n_fds = 1 },
	[CONTROL_RELEASE] = { .known = true, .has = CODE | TEXT },
	[CONTROL_COUNTERS] = { .known = true, .n_fds = 1 },
	[CONTROL_SNAPSHOT] = { .known = true, .n_optional_fds = 1 },
	[CONTROL_EDIT] = { .known = true, .has = NUMBER, .n_fds = 1 },
	[CONTROL_INVENTORY] = { .known = true, .has = TEXT, .n_fds = 1 },
	[CONTROL_FILE] = { .known = true, .has = TEXT, .n_optional_fds = 1 },
	[CONTROL_PREPARED] = { .known = true, .has = NUMBER | TEXT, .n_optional_fds = 1 },
	[CONTROL_READY] = { .known = true },
	[CONTROL_REFUSED] = { .known = true, .has = TEXT },
	[CONTROL_REGISTERED] = { .known = true, .has = SESSION },
	[CONTROL_SERVING] = { .known = true, .has = SESSION },
	[CONTROL_SESSION_ENDED] = { .known = true, .has = SESSION | TEXT },
	[CONTROL_DEVICES] = { .known = true,
		.has = DEVICES | HEALTH,
		.n_fds = 1,
		.n_optional_fds = 1 },
	[CONTROL_PUBLISH] = { .known = true, .has = NUMBER, .n_fds = 1 },
	[CONTROL_CLAIMS] = { .known = true, .has = NUMBER, .n_fds = 1 },
	[CONTROL_GONE] = { .known = true, .has = DEVICES },
	[CONTROL_POD_ANSWER] = { .known = true, .n_fds = 1 },
	[CONTROL_CALL_FAILED] = { .known = true, .has = CODE | COUNT | TEXT },
	[CONTROL_EDITS] = { .known = true, .has = NUMBER | TEXT, .n_optional_fds = 1 },
	[CONTROL_FILE_WANTED] = { .known = true, .has = TEXT },
	[CONTROL_PREPARE] = { .known = true, .has = NUMBER, .n_fds = 1 },
	[CONTROL_UNPREPARE] = { .known = true, .has = NUMBER | TEXT },
	[CONTROL_POOL] = { .known = true, .has = DEVICES | HEALTH | TEXT },
	[CONTROL_ALIVE] = { .known = true },
	[CONTROL_SCRAPE] = { .known = true },
	[CONTROL_TEXTFILE] = { .known = true, .n_fds = 1 },
};

static bool header_is_valid(const struct header *header, size_t n_fds)
{
	const struct rule *rule;

	if (header->type >= ARRAY_SIZE(rules) || !rules[header->type].known)
		return false;
	rule = &rules[header->type];
	return n_fds >= rule->n_fds && n_fds <= rule->n_fds + rule->n_optional_fds &&
		(header->session != 0) == ((rule->has & SESSION) != 0) &&
		(header->number != 0) == ((rule->has & NUMBER) != 0) &&
		(header->code != 0) == ((rule->has & CODE) != 0) &&
		(header->count != 0) == ((rule->has & COUNT) != 0) &&
		(rule->has & TIMES || (header->gone_by == 0 && header->allocated_before == 0)) &&
		(rule->has & DEVICES || header->devices == 0) &&
		(rule->has & HEALTH ||
			(header->healthy == 0 && header->ids == 0 && header->healthy_ids == 0)) &&
		(rule->has & TEXT || header->text_length == 0) &&
		header->healthy <= header->devices;
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
		.type = (uint32_t)message->type,
		.text_length = (uint32_t)strnlen(message->text, sizeof(message->text)),
		.session = message->session,
		.number = message->number,
		.code = message->code,
		.count = message->count,
		.gone_by = message->gone_by,
		.allocated_before = message->allocated_before,
		.devices = message->devices,
		.healthy = message->healthy,
		.ids = message->ids,
		.healthy_ids = message->healthy_ids,
	};
	struct iovec iov[] = {
		{ .iov_base = &header, .iov_len = sizeof(header) },
		{ .iov_base = (void *)message->text, .iov_len = header.text_length },
	};
	size_t n_fds = 0;

	while (n_fds < CONTROL_FDS_MAX && message->fds[n_fds] >= 0)
		n_fds++;
	if (header.text_length >= CONTROL_TEXT_MAX || !header_is_valid(&header, n_fds))
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

static bool is_from_child(uint32_t type, const struct control_message *message)
{
	if (type < CONTROL_FROM_CHILD)
		return false;
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

static int receive(int fd, bool from_child, struct control_message *ret_message)
{
	struct control_message message = CONTROL_MESSAGE_INIT(0);
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
		strlen(message.text) != header.text_length ||
		!header_is_valid(&header, received.count) ||
		(from_child && !is_from_child(header.type, &message)))
		return refuse(&message, -EBADMSG);

	message.type = (enum control_type)header.type;
	message.session = header.session;
	message.number = header.number;
	message.code = header.code;
	message.count = MIN_OF(header.count, COUNT_MAX);
	message.gone_by = header.gone_by;
	message.allocated_before = header.allocated_before;
	message.devices = MIN_OF(header.devices, COUNT_MAX);
	message.healthy = MIN_OF(header.healthy, COUNT_MAX);
	message.ids = MIN_OF(header.ids, COUNT_MAX);
	message.healthy_ids = MIN_OF(header.healthy_ids, COUNT_MAX);
	text_sanitize(message.text);

	*ret_message = message;
	return 0;
}

int control_receive(int fd, struct control_message *ret_message)
{
	return receive(fd, false, ret_message);
}

int control_receive_from_child(int fd, struct control_message *ret_message)
{
	if (lacks_descriptors(fd))
		return -EMFILE;
	return receive(fd, true, ret_message);
}
