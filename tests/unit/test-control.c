/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket against a misbehaving peer: the answer to any message is an error, and no
 * descriptor is left behind.
 */
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cmocka.h>

#include "common/control.h"
#include "common/descriptors.h"
#include "common/foreign.h"
#include "common/sealed.h"
#include "tests/unit/lingering-fixture.h"

/* The header on the wire, as an untrusted peer would write it. */
struct wire {
	uint32_t type, text_length;
	uint64_t session, number, code, count;
	uint64_t gone_by, allocated_before;
	uint64_t devices, healthy, ids, healthy_ids;
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

static void send_fds(const void *data, size_t size, int fd, size_t n_fds)
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
		fds[i] = fd;
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

static void send_raw(const void *data, size_t size, size_t n_fds)
{
	send_fds(data, size, STDERR_FILENO, n_fds);
}

static size_t count_sockets(void)
{
	DIR *stream = opendir("/proc/self/fd");
	struct dirent *entry;
	size_t count = 0;

	assert_non_null(stream);
	while ((entry = readdir(stream))) {
		char target[64] = "";

		if (readlinkat(dirfd(stream), entry->d_name, target, sizeof(target) - 1) > 0)
			count += startswith(target, "socket:") != NULL;
	}
	(void)closedir(stream);
	return count;
}

/* What is refused is closed by another process, in its own time. */
static void await_sockets(size_t count)
{
	while (count_sockets() != count)
		(void)poll(NULL, 0, 1);
}

/* The test ends by its time limit if a close() is waited for. */
static void test_descriptors_that_block(void **state)
{
	static const struct {
		struct wire wire;
		size_t n_fds;
	} cases[] = {
		{ { .type = CONTROL_CLAIMS, .number = 1 }, 1 },   /* in the place of a memfd */
		{ { .type = CONTROL_SESSION, .session = 1 }, 1 }, /* not for a child to send */
		{ { .type = CONTROL_ALIVE }, 8 },                 /* more than a message has */
	};
	struct control_message got;
	size_t before = count_sockets();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int peer, fd = lingering_socket(&peer);

		send_fds(&cases[i].wire, sizeof(cases[i].wire), fd, cases[i].n_fds);
		(void)close(fd); /* it is not the last one */
		assert_int_equal(control_receive_from_child(pair[1], &got), -EBADMSG);
		await_sockets(before + 1);
		(void)close(peer);
	}
}

/* Messages that were not received have descriptors, too. */
static void test_unread_descriptors_that_block(void **state)
{
	const struct wire claims = { .type = CONTROL_CLAIMS, .number = 1 };
	size_t before = count_sockets();
	int peer, fd = lingering_socket(&peer);

	send_raw("", 0, 0);
	send_fds(&claims, sizeof(claims), fd, 1);
	(void)close(fd); /* it is not the last one */
	pair[1] = foreign_close_socket(pair[1]);
	await_sockets(before); /* without ours, with the peer's */
	(void)close(peer);
}

/* More than processes that may wait: one of them closes all, so that none stays open. */
static void test_many_descriptors(void **state)
{
	struct descriptors many = { .count = 40 };
	struct iovec iov = { .iov_base = (void *)"x", .iov_len = 1 };
	struct control_message got;
	size_t before = count_sockets();
	int peers[ARRAY_SIZE(many.fds)];

	for (size_t i = 0; i < many.count; i++)
		many.fds[i] = lingering_socket(&peers[i]);
	assert_int_equal(descriptors_send(pair[0], &iov, 1, many.fds, many.count), 0);
	for (size_t i = 0; i < many.count; i++)
		(void)close(many.fds[i]); /* it is not the last one */
	assert_int_equal(control_receive_from_child(pair[1], &got), -EBADMSG);
	for (size_t i = 0; i < many.count; i++)
		(void)close(peers[i]);
	await_sockets(before);
}

static void test_from_child(void **state)
{
	const struct control_message stop = CONTROL_MESSAGE_INIT(CONTROL_STOP);
	struct control_message claims = CONTROL_MESSAGE_INIT(CONTROL_CLAIMS), got;

	assert_int_equal(control_send(pair[0], &stop), 0);
	assert_int_equal(control_receive_from_child(pair[1], &got), -EBADMSG);
	claims.number = 1;
	claims.fds[0] = sealed_new("claims", "", 0);
	assert_int_equal(control_send(pair[0], &claims), 0);
	assert_int_equal(control_receive_from_child(pair[1], &got), 0);
	assert_true(got.fds[0] >= 0);
	control_message_done(&got);
	control_message_done(&claims);
}

/* A message waits for free descriptors. One that has none does not need any. */
static void test_no_free_descriptors(void **state)
{
	const struct control_message alive = CONTROL_MESSAGE_INIT(CONTROL_ALIVE);
	struct control_message claims = CONTROL_MESSAGE_INIT(CONTROL_CLAIMS), got;
	size_t before = count_fds();
	struct rlimit limit, none;

	claims.number = 1;
	claims.fds[0] = sealed_new("claims", "", 0);
	assert_int_equal(control_send(pair[0], &alive), 0);
	assert_int_equal(control_send(pair[0], &claims), 0);
	control_message_done(&claims);

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ 0, limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(control_receive_from_child(pair[1], &got), 0);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(control_receive_from_child(pair[1], &got), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);

	assert_int_equal(control_receive_from_child(pair[1], &got), 0);
	assert_int_equal(got.type, CONTROL_CLAIMS);
	control_message_done(&got);
	assert_int_equal(count_fds(), before);
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
		{ .type = CONTROL_PUBLISHED, .number = 7, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_PUBLISHED,
			.number = 7,
			.text = "disk full",
			.fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_PUBLISH, .number = 7, .fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_OWNERS, .number = 7, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_OWNERS, .number = 7, .fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_CLAIMS, .number = 7, .fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_BOOKED, .fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_BOOKED,
			.gone_by = 7,
			.allocated_before = 8,
			.fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_POD_QUESTION, .text = "list", .fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_GONE, .devices = 3, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_POD_ANSWER, .fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_RELEASE, .code = 1, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_COUNTERS, .fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_READY, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_REFUSED, .text = "no n\xc3\xb6", .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_REGISTERED, .session = 1, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_SERVING, .session = 1, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_SESSION_ENDED, .session = 1, .fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_DEVICES,
			.devices = 9,
			.healthy = 8,
			.ids = 90,
			.healthy_ids = 80,
			.fds = { STDERR_FILENO, -EBADF } },
		{ .type = CONTROL_DEVICES, .fds = { STDERR_FILENO, STDERR_FILENO } },
		{ .type = CONTROL_CALL_FAILED,
			.code = CONTROL_CALL_PREFER,
			.count = 3,
			.text = "a,b why",
			.fds = { -EBADF, -EBADF } },
		{ .type = CONTROL_ALIVE, .fds = { -EBADF, -EBADF } },
	};
	size_t before = count_fds();

	for (size_t i = 0; i < ARRAY_SIZE(sent); i++) {
		struct control_message got;

		assert_int_equal(control_send(pair[0], &sent[i]), 0);
		assert_int_equal(control_receive(pair[1], &got), 0);
		assert_int_equal(got.type, sent[i].type);
		assert_int_equal(got.session, sent[i].session);
		assert_int_equal(got.number, sent[i].number);
		assert_int_equal(got.code, sent[i].code);
		assert_int_equal(got.count, sent[i].count);
		assert_int_equal(got.gone_by, sent[i].gone_by);
		assert_int_equal(got.allocated_before, sent[i].allocated_before);
		assert_int_equal(got.devices, sent[i].devices);
		assert_int_equal(got.healthy, sent[i].healthy);
		assert_int_equal(got.ids, sent[i].ids);
		assert_int_equal(got.healthy_ids, sent[i].healthy_ids);
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
		{ { .type = CONTROL_REGISTERED, .session = 1, .number = 1 }, sizeof(struct wire),
			0 },
		{ { .type = CONTROL_RELEASE }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_RELEASE, .session = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_CALL_FAILED, .code = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_CALL_FAILED, .count = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_ALIVE, .gone_by = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_ALIVE, .allocated_before = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_GONE, .devices = 1, .healthy = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_DEVICES }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_PUBLISH, .number = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_PUBLISH, .number = 1 }, sizeof(struct wire), 2 },
		{ { .type = CONTROL_PUBLISH }, sizeof(struct wire), 1 },
		{ { .type = CONTROL_BOOKED, .number = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_POD_QUESTION }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_GONE, .devices = 1 }, sizeof(struct wire), 1 },
		{ { .type = CONTROL_POD_ANSWER, .session = 1 }, sizeof(struct wire), 1 },
		{ { .type = CONTROL_CLAIMS, .number = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_OWNERS, .number = 1 }, sizeof(struct wire), 2 },
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

static void test_no_message_and_no_peer(void **state)
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
		cmocka_unit_test_setup_teardown(test_from_child, setup, teardown),
		cmocka_unit_test_setup_teardown(test_descriptors_that_block, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_unread_descriptors_that_block, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_descriptors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_free_descriptors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_longest_text, setup, teardown),
		cmocka_unit_test_setup_teardown(test_malformed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_text_is_harmless, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_message_and_no_peer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refuses_to_send_nonsense, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
