/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket against a peer that has gone mad: whatever arrives, the answer is an error and
 * no descriptor is left behind.
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cmocka.h>

#include "common/control.h"

/* The header on the wire, as a stranger would write it. */
struct wire {
	uint32_t type, text_length;
	uint64_t session, devices, healthy;
};

static int pair[2];

static size_t count_fds(void)
{
	DIR *stream = opendir("/proc/self/fd");
	size_t count = 0;

	assert_non_null(stream);
	while (readdir(stream))
		count++;
	(void)closedir(stream);
	return count;
}

static int setup(void **state)
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int teardown(void **state)
{
	for (size_t i = 0; i < 2; i++)
		pair[i] = close_fd(pair[i]);
	return 0;
}

static void send_raw(const void *data, size_t size, size_t n_fds)
{
	int fds[8];
	union {
		char bytes[CMSG_SPACE(sizeof(fds))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { (void *)data, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	assert_true(n_fds <= ARRAY_SIZE(fds));
	for (size_t i = 0; i < n_fds; i++)
		fds[i] = STDERR_FILENO;
	if (n_fds > 0) {
		struct cmsghdr *cmsg;

		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * n_fds);
	}
	assert_int_equal(sendmsg(pair[0], &msg, 0), size);
}

static void test_round_trip(void **state)
{
	static const struct control_message sent[] = {
		{ .type = CONTROL_CONFIGURE, .fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_SESSION,
			.session = 7,
			.text = "devplugd-1.sock",
			.fds = { STDERR_FILENO, STDERR_FILENO } },
		{ .type = CONTROL_SESSION,
			.session = 8,
			.text = "/registry/devplugd-2.sock",
			.fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_END_SESSION, .session = UINT64_MAX, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_STOP, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_PUBLISHED, .session = 7, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_PUBLISHED,
			.session = 7,
			.text = "disk full",
			.fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_PUBLISH, .session = 7, .fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_OWNERS, .session = 7, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_OWNERS, .session = 7, .fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_CLAIMS, .session = 7, .fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_IN_USE, .session = 7, .fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_LOOK, .fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_GONE, .devices = 3, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_ASSIGNED, .fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_READY, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_REFUSED, .text = "no n\xc3\xb6", .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_REGISTERED, .session = 1, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_SERVING, .session = 1, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_SESSION_ENDED, .session = 1, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_DEVICES,
			.devices = 9,
			.healthy = 9,
			.fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_DEVICES, .fds = { STDERR_FILENO, STDERR_FILENO } },
		{ .type = CONTROL_ALIVE, .fds = { -EBADF, -EBADF } },
	};
	size_t before = count_fds();

	for (size_t i = 0; i < ARRAY_SIZE(sent); i++) {
		struct control_message got;

		assert_int_equal(control_send(pair[0], &sent[i]), 0);
		assert_int_equal(control_receive(pair[1], &got), 0);
		assert_int_equal(got.type, sent[i].type);
		assert_int_equal(got.session, sent[i].session);
		assert_int_equal(got.devices, sent[i].devices);
		assert_int_equal(got.healthy, sent[i].healthy);
		assert_string_equal(got.text, sent[i].text);
		for (size_t k = 0; k < CONTROL_FDS_MAX; k++) {
			assert_int_equal(got.fds[k] >= 0, sent[i].fds[k] >= 0);
			if (got.fds[k] >= 0)
				assert_true(fcntl(got.fds[k], F_GETFD) & FD_CLOEXEC);
		}
		control_message_done(&got);
	}
	assert_int_equal(count_fds(), before);
}

static void test_longest_text(void **state)
{
	struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_REFUSED), got;

	memset(message.text, 'x', sizeof(message.text) - 1);
	assert_int_equal(control_send(pair[0], &message), 0);
	assert_int_equal(control_receive(pair[1], &got), 0);
	assert_int_equal(strlen(got.text), CONTROL_TEXT_MAX - 1);
	message.text[sizeof(message.text) - 1] = 'x';
	assert_int_equal(control_send(pair[0], &message), -EBADMSG);
}

static void test_malformed(void **state)
{
	static const struct {
		struct wire wire;
		size_t size, n_fds;
	} cases[] = {
		{ { .type = CONTROL_ALIVE }, 1, 0 },
		{ { .type = CONTROL_ALIVE }, sizeof(struct wire) - 1, 0 },
		{ { .type = CONTROL_ALIVE }, sizeof(struct wire) + 1, 0 },
		{ { .type = 0 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_ALIVE + 1 }, sizeof(struct wire), 0 },
		{ { .type = UINT32_MAX }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_ALIVE }, sizeof(struct wire), 1 },
		{ { .type = CONTROL_ALIVE }, sizeof(struct wire), 8 },
		{ { .type = CONTROL_ALIVE, .session = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_ALIVE, .devices = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_REGISTERED }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_DEVICES }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_PUBLISH, .session = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_PUBLISH, .session = 1 }, sizeof(struct wire), 2 },
		{ { .type = CONTROL_PUBLISH }, sizeof(struct wire), 1 },
		{ { .type = CONTROL_IN_USE, .session = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_LOOK }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_GONE, .devices = 1 }, sizeof(struct wire), 1 },
		{ { .type = CONTROL_ASSIGNED, .session = 1 }, sizeof(struct wire), 1 },
		{ { .type = CONTROL_CLAIMS, .session = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_OWNERS, .session = 1 }, sizeof(struct wire), 2 },
		{ { .type = CONTROL_OWNERS }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_DEVICES }, sizeof(struct wire), 3 },
		{ { .type = CONTROL_DEVICES, .healthy = 1 }, sizeof(struct wire), 1 },
		{ { .type = CONTROL_REFUSED, .text_length = 5 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_REFUSED, .text_length = 5 }, sizeof(struct wire) + 4, 0 },
		{ { .type = CONTROL_READY, .text_length = 5 }, sizeof(struct wire) + 5, 0 },
		{ { .type = CONTROL_REFUSED, .text_length = UINT32_MAX }, sizeof(struct wire) + 5,
			0 },
		{ { .type = CONTROL_REFUSED, .text_length = CONTROL_TEXT_MAX },
			sizeof(struct wire) + CONTROL_TEXT_MAX, 0 },
		{ { .type = CONTROL_SESSION, .session = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_SESSION, .session = 1 }, sizeof(struct wire), 8 },
		{ { .type = CONTROL_REFUSED, .text_length = CONTROL_TEXT_MAX - 1 },
			sizeof(struct wire) + CONTROL_TEXT_MAX + 50, 0 },
		{ { .type = CONTROL_REFUSED, .text_length = 4000 }, sizeof(struct wire) + 4000, 8 },
	};
	size_t before = count_fds();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct control_message got = { .type = 99 };
		char bytes[8192];

		memset(bytes, 'x', sizeof(bytes));
		memcpy(bytes, &cases[i].wire, sizeof(cases[i].wire));
		send_raw(bytes, cases[i].size, cases[i].n_fds);
		if (control_receive(pair[1], &got) != -EBADMSG)
			fail_msg("case %zu was accepted", i);
		assert_int_equal(got.type, 99);
		assert_int_equal(count_fds(), before);
	}
}

static void test_text_is_harmless(void **state)
{
	static const char evil[] = "a\nb\033[31m\xff\xc2\x9b"
				   "c";
	struct {
		struct wire wire;
		char text[sizeof(evil) - 1];
	} __attribute__((packed)) raw = {
		.wire = { .type = CONTROL_REFUSED, .text_length = sizeof(evil) - 1 },
	};
	struct control_message got;

	memcpy(raw.text, evil, sizeof(raw.text));
	send_raw(&raw, sizeof(raw), 0);
	assert_int_equal(control_receive(pair[1], &got), 0);
	assert_string_equal(got.text, "a?b?[31m???c");

	raw.text[3] = '\0';
	send_raw(&raw, sizeof(raw), 0);
	assert_int_equal(control_receive(pair[1], &got), -EBADMSG);
}

static void test_nothing_and_nobody(void **state)
{
	const struct control_message alive = CONTROL_MESSAGE_INIT(CONTROL_ALIVE);
	struct control_message got;
	int r;

	assert_int_equal(control_receive(pair[1], &got), -EAGAIN);
	do {
		r = control_send(pair[0], &alive);
	} while (r == 0);
	assert_int_equal(r, -EAGAIN);
	while (control_receive(pair[1], &got) == 0)
		;
	pair[0] = close_fd(pair[0]);
	assert_int_equal(control_receive(pair[1], &got), -ECONNRESET);
	assert_true(control_send(pair[1], &alive) < 0);
}

static void test_refuses_to_send_nonsense(void **state)
{
	struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_READY);

	message.session = 1;
	assert_int_equal(control_send(pair[0], &message), -EBADMSG);
	message = CONTROL_MESSAGE_INIT(CONTROL_CONFIGURE);
	assert_int_equal(control_send(pair[0], &message), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
		cmocka_unit_test_setup_teardown(test_longest_text, setup, teardown),
		cmocka_unit_test_setup_teardown(test_malformed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_text_is_harmless, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing_and_nobody, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refuses_to_send_nonsense, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
