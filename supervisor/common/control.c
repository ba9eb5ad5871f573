/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One datagram, one message: both ends run on one machine and come from one package, so the header
 * is a plain structure. Every rule about a type is a row of the table below, and a received message
 * is either all right or none of it is kept: no descriptor survives a refusal.
 */
#include <sys/socket.h>
#include <sys/uio.h>

#include "common/control.h"
#include "common/text.h"

struct header {
	uint32_t type;
	uint32_t text_length;
	uint64_t session, devices, healthy;
};

struct rule {
	bool known, session, text, counts;
	size_t n_fds, n_optional_fds;
};

static const struct rule rules[] = {
	[CONTROL_CONFIGURE] = { .known = true, .n_fds = 1, .n_optional_fds = 1 },
	[CONTROL_SESSION] = { .known = true,
		.session = true,
		.text = true,
		.n_fds = 1,
		.n_optional_fds = 1 },
	[CONTROL_END_SESSION] = { .known = true, .session = true },
	[CONTROL_STOP] = { .known = true },
	[CONTROL_PUBLISHED] = { .known = true, .session = true, .text = true },
	[CONTROL_OWNERS] = { .known = true, .session = true, .n_optional_fds = 1 },
	[CONTROL_IN_USE] = { .known = true, .session = true, .n_fds = 1 },
	[CONTROL_LOOK] = { .known = true, .n_fds = 1 },
	[CONTROL_READY] = { .known = true },
	[CONTROL_REFUSED] = { .known = true, .text = true },
	[CONTROL_REGISTERED] = { .known = true, .session = true },
	[CONTROL_SERVING] = { .known = true, .session = true },
	[CONTROL_SESSION_ENDED] = { .known = true, .session = true, .text = true },
	[CONTROL_DEVICES] = { .known = true, .counts = true, .n_fds = 1, .n_optional_fds = 1 },
	[CONTROL_CHANGES] = { .known = true, .counts = true, .n_fds = 1, .n_optional_fds = 1 },
	[CONTROL_PUBLISH] = { .known = true, .session = true, .n_fds = 1 },
	[CONTROL_CLAIMS] = { .known = true, .session = true, .n_fds = 1 },
	[CONTROL_GONE] = { .known = true, .counts = true },
	[CONTROL_ASSIGNED] = { .known = true, .n_fds = 1 },
	[CONTROL_ALIVE] = { .known = true },
};

union fd_buffer {
	char bytes[CMSG_SPACE(sizeof(int) * CONTROL_FDS_MAX)];
	struct cmsghdr align;
};

static bool header_valid(const struct header *header, size_t n_fds)
{
	const struct rule *rule;

	if (header->type >= ARRAY_SIZE(rules) || !rules[header->type].known)
		return false;
	rule = &rules[header->type];
	return n_fds >= rule->n_fds && n_fds <= rule->n_fds + rule->n_optional_fds &&
		(header->session != 0) == rule->session &&
		(rule->text || header->text_length == 0) &&
		(rule->counts || (header->devices == 0 && header->healthy == 0)) &&
		header->healthy <= header->devices;
}

void control_message_done(struct control_message *message)
{
	for (size_t i = 0; i < CONTROL_FDS_MAX; i++)
		message->fds[i] = close_fd(message->fds[i]);
}

int control_send(int fd, const struct control_message *message)
{
	struct header header = {
		.type = (uint32_t)message->type,
		.text_length = (uint32_t)strnlen(message->text, sizeof(message->text)),
		.session = message->session,
		.devices = message->devices,
		.healthy = message->healthy,
	};
	struct iovec iov[] = {
		{ .iov_base = &header, .iov_len = sizeof(header) },
		{ .iov_base = (void *)message->text, .iov_len = header.text_length },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = ARRAY_SIZE(iov) };
	union fd_buffer control = { 0 };
	size_t n_fds = 0;
	ssize_t n;

	while (n_fds < CONTROL_FDS_MAX && message->fds[n_fds] >= 0)
		n_fds++;
	if (header.text_length >= CONTROL_TEXT_MAX || !header_valid(&header, n_fds))
		return -EBADMSG;

	if (n_fds > 0) {
		struct cmsghdr *cmsg;

		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(cmsg), message->fds, sizeof(int) * n_fds);
	}

	n = RETRY_ON_EINTR(sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL));
	return n < 0 ? -errno : 0;
}

/* Moves received descriptors into the message, closing those beyond its room. Returns how many
 * there were. */
static size_t take_fds(struct msghdr *msg, struct control_message *message)
{
	size_t n_fds = 0;

	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
			if (n_fds < CONTROL_FDS_MAX)
				message->fds[n_fds] = fd;
			else
				(void)close_fd(fd);
			n_fds++;
		}
	}
	return n_fds;
}

int control_receive(int fd, struct control_message *ret_message)
{
	_cleanup_control_ struct control_message message = CONTROL_MESSAGE_INIT(0);
	struct header header;
	struct iovec iov[] = {
		{ .iov_base = &header, .iov_len = sizeof(header) },
		{ .iov_base = message.text, .iov_len = sizeof(message.text) - 1 },
	};
	union fd_buffer control;
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = ARRAY_SIZE(iov),
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	size_t n_fds;
	ssize_t n;

	n = RETRY_ON_EINTR(recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC));
	if (n < 0)
		return -errno;
	n_fds = take_fds(&msg, &message);
	if (n == 0)
		return -ECONNRESET;
	if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || (size_t)n < sizeof(header) ||
		(size_t)n - sizeof(header) != header.text_length ||
		strlen(message.text) != header.text_length || !header_valid(&header, n_fds))
		return -EBADMSG;

	message.type = (enum control_type)header.type;
	message.session = header.session;
	message.devices = header.devices;
	message.healthy = header.healthy;
	text_sanitize(message.text);

	*ret_message = message;
	message = CONTROL_MESSAGE_INIT(0);
	return 0;
}
