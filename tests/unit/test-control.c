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

#include "common/control-child.h"
#include "common/control-cluster.h"
#include "common/control-exporter.h"
#include "common/control-kubelet-client.h"
#include "common/control-node-users.h"
#include "common/control-pods.h"
#include "common/descriptors.h"
#include "common/foreign.h"
#include "common/sealed.h"
#include "tests/unit/lingering-fixture.h"

/* The header on the wire, as an untrusted peer would write it. */
struct wire {
	uint32_t type, text_length;
	uint64_t session, number, phase, call, count;
	uint64_t gone_by, allocated_before, kubelet_restarted;
	uint64_t devices, healthy, ids, healthy_ids;
	uint64_t removed, generation, slices, lacks;
	uint64_t peer, prestart, driver;
	uint64_t until, again;
};

static int pair[2];

/* Our open descriptors, or only the sockets. The handles of the processes that close what is
 * refused do not count: each is open until one of the next such processes starts. */
static size_t count_fds(bool sockets_only)
{
	DIR *stream = opendir("/proc/self/fd");
	struct dirent *entry;
	size_t count = 0;

	assert_non_null(stream);
	while ((entry = readdir(stream))) {
		char target[64] = "";

		(void)readlinkat(dirfd(stream), entry->d_name, target, sizeof(target) - 1);
		count += sockets_only ? startswith(target, "socket:") != NULL
				      : !strstr(target, "pidfd");
	}
	(void)closedir(stream);
	return count;
}

/* What is refused is closed by another process, in its own time. */
static void await_fds(bool sockets_only, size_t count)
{
	while (count_fds(sockets_only) != count)
		(void)poll(NULL, 0, 1);
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

/* The test ends by its time limit if a close() is waited for. */
static void test_descriptors_that_block(void **state)
{
	static const struct {
		struct wire wire;
		size_t n_fds;
	} cases[] = {
		{ { .type = CHILD_CLAIMS, .number = 1 }, 1 },   /* in the place of a memfd */
		{ { .type = CHILD_SESSION, .session = 1 }, 1 }, /* not for a child to send */
		{ { .type = CONTROL_ALIVE }, 8 },               /* more than a message has */
	};
	struct control_message got;
	size_t before = count_fds(true);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int peer, fd = lingering_socket(&peer);

		send_fds(&cases[i].wire, sizeof(cases[i].wire), fd, cases[i].n_fds);
		(void)close(fd); /* it is not the last one */
		assert_int_equal(
			control_receive_from_child(pair[1], &control_child, &got), -EBADMSG);
		await_fds(true, before + 1);
		(void)close(peer);
	}
}

/* Messages that were not received have descriptors, too. */
static void test_unread_descriptors_that_block(void **state)
{
	const struct wire claims = { .type = CHILD_CLAIMS, .number = 1 };
	size_t before = count_fds(true);
	int peer, fd = lingering_socket(&peer);

	send_raw("", 0, 0);
	send_fds(&claims, sizeof(claims), fd, 1);
	(void)close(fd); /* it is not the last one */
	pair[1] = foreign_close_socket(pair[1]);
	await_fds(true, before); /* without ours, with the peer's */
	(void)close(peer);
}

/* More than processes that may wait: one of them closes all, so that none stays open. */
static void test_many_descriptors(void **state)
{
	struct descriptors many = { .count = 40 };
	struct iovec iov = { .iov_base = (void *)"x", .iov_len = 1 };
	struct control_message got;
	size_t before = count_fds(true);
	int peers[ARRAY_SIZE(many.fds)];

	for (size_t i = 0; i < many.count; i++)
		many.fds[i] = lingering_socket(&peers[i]);
	assert_int_equal(descriptors_send(pair[0], &iov, 1, many.fds, many.count), 0);
	for (size_t i = 0; i < many.count; i++)
		(void)close(many.fds[i]); /* it is not the last one */
	assert_int_equal(control_receive_from_child(pair[1], &control_child, &got), -EBADMSG);
	for (size_t i = 0; i < many.count; i++)
		(void)close(peers[i]);
	await_fds(true, before);
}

static void test_from_child(void **state)
{
	const struct control_message stop = CHILD_MESSAGE_INIT(CONTROL_STOP);
	struct control_message claims = CHILD_MESSAGE_INIT(CHILD_CLAIMS), got;

	assert_int_equal(control_send(pair[0], &stop), 0);
	assert_int_equal(control_receive_from_child(pair[1], &control_child, &got), -EBADMSG);
	claims.number = 1;
	claims.fds[0] = sealed_new("claims", "", 0);
	assert_int_equal(control_send(pair[0], &claims), 0);
	assert_int_equal(control_receive_from_child(pair[1], &control_child, &got), 0);
	assert_true(got.fds[0] >= 0);
	control_message_done(&got);
	control_message_done(&claims);
}

/* A message waits for free descriptors. One that has none does not need any. */
static void test_no_free_descriptors(void **state)
{
	const struct control_message alive = CHILD_MESSAGE_INIT(CONTROL_ALIVE);
	struct control_message claims = CHILD_MESSAGE_INIT(CHILD_CLAIMS), got;
	size_t before = count_fds(false);
	struct rlimit limit, none;

	claims.number = 1;
	claims.fds[0] = sealed_new("claims", "", 0);
	assert_int_equal(control_send(pair[0], &alive), 0);
	assert_int_equal(control_send(pair[0], &claims), 0);
	control_message_done(&claims);

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ 0, limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(control_receive_from_child(pair[1], &control_child, &got), 0);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(
			control_receive_from_child(pair[1], &control_child, &got), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);

	assert_int_equal(control_receive_from_child(pair[1], &control_child, &got), 0);
	assert_int_equal(got.type, CHILD_CLAIMS);
	control_message_done(&got);
	assert_int_equal(count_fds(false), before);
}

static const struct {
	const char *name;
	const struct control_protocol *protocol;
} protocols[] = {
	{ "child", &control_child },
	{ "client", &control_client },
	{ "cluster", &control_cluster },
	{ "exporter", &control_exporter },
	{ "node-users", &control_node_users },
	{ "pods", &control_pods },
};

/* A message with all that its rule allows, or only what it demands. */
static struct control_message make(
	const struct control_protocol *protocol, uint32_t type, bool full, int fd)
{
	const struct control_rule *rule = &protocol->rules[type];
	struct control_message message = CONTROL_MESSAGE_INIT(protocol, type);
	size_t n_fds = rule->n_fds + (full ? rule->n_optional_fds : 0);

	if (rule->fields & FIELD_SESSION)
		message.session = full ? UINT64_MAX : 1;
	if (rule->fields & FIELD_NUMBER)
		message.number = full ? UINT64_MAX : 1;
	if (rule->fields & FIELD_PHASE)
		message.phase = CHILD_RELEASE_END;
	if (rule->fields & FIELD_CALL) {
		message.call = CHILD_CALL_PREFER;
		message.count = 3;
	}
	if (rule->fields & FIELD_TIMES && full) {
		message.gone_by = 7;
		message.allocated_before = 8;
		message.kubelet_restarted = 9;
	}
	if (rule->fields & FIELD_DEVICES && full) {
		message.devices = 9;
		message.healthy = 8;
		message.ids = 90;
		message.healthy_ids = 80;
	}
	if (rule->fields & FIELD_REMOVED && full)
		message.removed = 3;
	if (rule->fields & FIELD_POOL && full) {
		message.generation = 4;
		message.slices = 5;
		message.lacks = 3;
	}
	if (rule->fields & FIELD_PEER && full)
		message.peer = 6;
	if (rule->fields & FIELD_PRESTART && full)
		message.prestart = 1;
	if (rule->fields & FIELD_DRIVER)
		message.driver = full ? UINT64_MAX : 1;
	if (rule->fields & FIELD_UNTIL && full)
		message.until = 10;
	if (rule->fields & FIELD_AGAIN && full)
		message.again = CLUSTER_A_FEW_TIMES;
	if (rule->fields & FIELD_TEXT && full)
		(void)strcpy(message.text, "n\xc3\xb6");
	for (size_t i = 0; i < n_fds; i++)
		message.fds[i] = fd;
	return message;
}

static int receive_from(
	bool child, const struct control_protocol *protocol, struct control_message *ret_message)
{
	return child ? control_receive_from_child(pair[1], protocol, ret_message)
		     : control_receive(pair[1], protocol, ret_message);
}

static void assert_same(const struct control_message *got, const struct control_message *sent)
{
	assert_int_equal(got->type, sent->type);
	assert_int_equal(got->session, sent->session);
	assert_int_equal(got->number, sent->number);
	assert_int_equal(got->driver, sent->driver);
	assert_int_equal(got->until, sent->until);
	assert_int_equal(got->again, sent->again);
	assert_int_equal(got->phase, sent->phase);
	assert_int_equal(got->call, sent->call);
	assert_int_equal(got->count, sent->count);
	assert_int_equal(got->gone_by, sent->gone_by);
	assert_int_equal(got->allocated_before, sent->allocated_before);
	assert_int_equal(got->kubelet_restarted, sent->kubelet_restarted);
	assert_int_equal(got->devices, sent->devices);
	assert_int_equal(got->healthy, sent->healthy);
	assert_int_equal(got->ids, sent->ids);
	assert_int_equal(got->healthy_ids, sent->healthy_ids);
	assert_int_equal(got->removed, sent->removed);
	assert_int_equal(got->generation, sent->generation);
	assert_int_equal(got->slices, sent->slices);
	assert_int_equal(got->lacks, sent->lacks);
	assert_int_equal(got->peer, sent->peer);
	assert_int_equal(got->prestart, sent->prestart);
	assert_string_equal(got->text, sent->text);
	for (size_t k = 0; k < CONTROL_FDS_MAX; k++) {
		assert_int_equal(got->fds[k] >= 0, sent->fds[k] >= 0);
		if (got->fds[k] >= 0)
			assert_true(fcntl(got->fds[k], F_GETFD) & FD_CLOEXEC);
	}
}

/* Every message of every protocol, in its direction and not in the other. */
static void test_round_trip(void **state)
{
	_cleanup_close_ int fd = sealed_new("test", "", 0);
	size_t before = count_fds(false), n = 0;

	for (size_t p = 0; p < ARRAY_SIZE(protocols); p++) {
		const struct control_protocol *protocol = protocols[p].protocol;

		for (uint32_t type = 0; type < protocol->n_rules; type++) {
			const struct control_rule *rule = &protocol->rules[type];

			for (size_t full = 0; rule->name && full < 2; full++) {
				struct control_message sent = make(protocol, type, full, fd), got;

				assert_int_equal(control_send(pair[0], &sent), 0);
				assert_int_equal(
					receive_from(rule->to_supervisor, protocol, &got), 0);
				assert_same(&got, &sent);
				control_message_done(&got);
				assert_int_equal(control_send(pair[0], &sent), 0);
				assert_int_equal(receive_from(!rule->to_supervisor, protocol, &got),
					-EBADMSG);
				n++;
			}
		}
	}
	assert_true(n > 60);
	await_fds(false, before);
}

/* No field that a rule does not name, and none too few. */
static void test_rules(void **state)
{
	_cleanup_close_ int fd = sealed_new("test", "", 0);

	for (size_t p = 0; p < ARRAY_SIZE(protocols); p++)
		for (uint32_t type = 0; type < protocols[p].protocol->n_rules; type++) {
			const struct control_protocol *protocol = protocols[p].protocol;
			const struct control_rule *rule = &protocol->rules[type];
			uint64_t *numbers[22];
			struct control_message message;

			if (!rule->name)
				continue;
			message = make(protocol, type, true, fd);
			numbers[0] = &message.session;
			numbers[1] = &message.number;
			numbers[2] = &message.phase;
			numbers[3] = &message.call;
			numbers[4] = &message.count;
			numbers[5] = &message.gone_by;
			numbers[6] = &message.allocated_before;
			numbers[7] = &message.kubelet_restarted;
			numbers[8] = &message.devices;
			numbers[9] = &message.healthy;
			numbers[10] = &message.ids;
			numbers[11] = &message.healthy_ids;
			numbers[12] = &message.removed;
			numbers[13] = &message.generation;
			numbers[14] = &message.slices;
			numbers[15] = &message.lacks;
			numbers[16] = &message.peer;
			numbers[17] = &message.prestart;
			numbers[18] = &message.driver;
			numbers[19] = &message.until;
			numbers[20] = &message.again;
			numbers[21] = NULL;
			for (size_t i = 0; numbers[i]; i++) {
				uint64_t value = *numbers[i];
				int expected = 0;

				/* The first five, and the driver, may not be 0 where a message
				 * has them. */
				*numbers[i] = value == 0;
				if (value == 0 || i < 5 || i == 18)
					expected = -EBADMSG;
				assert_int_equal(control_send(pair[0], &message), expected);
				*numbers[i] = value;
			}
			if (!(rule->fields & FIELD_TEXT)) {
				message.text[0] = 'x';
				assert_int_equal(control_send(pair[0], &message), -EBADMSG);
				message.text[0] = '\0';
			}
			if (rule->n_fds > 0) {
				message.fds[0] = -EBADF;
				assert_int_equal(control_send(pair[0], &message), -EBADMSG);
			} else if (rule->n_optional_fds == 0) {
				message.fds[0] = fd;
				assert_int_equal(control_send(pair[0], &message), -EBADMSG);
			}
		}
}

/* What one kind of process may send, another may not. */
static void test_other_protocol(void **state)
{
	static const struct control_message sent[] = {
		{ .protocol = &control_cluster,
			.type = CLUSTER_UNPREPARE,
			.driver = 1,
			.number = 1,
			.text = "uid",
			.fds = { -EBADF, -EBADF } },
		{ .protocol = &control_cluster,
			.type = CLUSTER_POOL,
			.driver = 1,
			.generation = 1,
			.fds = { -EBADF, -EBADF } },
		{ .protocol = &control_child,
			.type = CHILD_GONE,
			.removed = 1,
			.fds = { -EBADF, -EBADF } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(sent); i++)
		for (size_t p = 0; p < ARRAY_SIZE(protocols); p++) {
			struct control_message got;

			if (protocols[p].protocol == sent[i].protocol)
				continue;
			assert_int_equal(control_send(pair[0], &sent[i]), 0);
			assert_int_equal(
				control_receive_from_child(pair[1], protocols[p].protocol, &got),
				-EBADMSG);
		}
}

static void test_longest_text(void **state)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_REFUSED), got;

	memset(message.text, 'x', sizeof(message.text) - 1);
	assert_int_equal(control_send(pair[0], &message), 0);
	assert_int_equal(control_receive_from_child(pair[1], &control_child, &got), 0);
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
		{ { .type = CHILD_EDITS_CHANGED + 1 }, sizeof(struct wire), 0 },
		{ { .type = UINT32_MAX }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_ALIVE }, sizeof(struct wire), 1 },
		{ { .type = CONTROL_ALIVE }, sizeof(struct wire), 8 },
		{ { .type = CONTROL_ALIVE, .session = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_ALIVE, .devices = 1 }, sizeof(struct wire), 0 },
		{ { .type = CHILD_SERVING }, sizeof(struct wire), 0 },
		{ { .type = CHILD_SERVING, .session = 1, .number = 1 }, sizeof(struct wire), 0 },
		{ { .type = CHILD_RELEASE }, sizeof(struct wire), 0 },
		{ { .type = CHILD_RELEASE, .session = 1 }, sizeof(struct wire), 0 },
		{ { .type = CHILD_CALL_FAILED, .call = 1 }, sizeof(struct wire), 0 },
		{ { .type = CHILD_CALL_FAILED, .count = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_ALIVE, .gone_by = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_ALIVE, .allocated_before = 1 }, sizeof(struct wire), 0 },
		{ { .type = CONTROL_ALIVE, .kubelet_restarted = 1 }, sizeof(struct wire), 0 },
		{ { .type = CHILD_GONE, .removed = 1, .healthy = 1 }, sizeof(struct wire), 0 },
		{ { .type = CHILD_DEVICES }, sizeof(struct wire), 0 },
		{ { .type = CHILD_PUBLISH, .number = 1 }, sizeof(struct wire), 0 },
		{ { .type = CHILD_PUBLISH, .number = 1 }, sizeof(struct wire), 2 },
		{ { .type = CHILD_PUBLISH }, sizeof(struct wire), 1 },
		{ { .type = CHILD_BOOKED, .number = 1 }, sizeof(struct wire), 0 },
		{ { .type = CHILD_GONE, .removed = 1 }, sizeof(struct wire), 1 },
		{ { .type = CHILD_CLAIMS, .number = 1 }, sizeof(struct wire), 0 },
		{ { .type = CHILD_OWNERS, .number = 1 }, sizeof(struct wire), 2 },
		{ { .type = CHILD_OWNERS }, sizeof(struct wire), 0 },
		{ { .type = CHILD_DEVICES }, sizeof(struct wire), 3 },
		{ { .type = CHILD_DEVICES, .healthy = 1, .number = 1 }, sizeof(struct wire), 1 },
		{ { .type = CHILD_REFUSED, .text_length = 5 }, sizeof(struct wire), 0 },
		{ { .type = CHILD_REFUSED, .text_length = 5 }, sizeof(struct wire) + 4, 0 },
		{ { .type = CHILD_READY, .text_length = 5 }, sizeof(struct wire) + 5, 0 },
		{ { .type = CHILD_REFUSED, .text_length = UINT32_MAX }, sizeof(struct wire) + 5,
			0 },
		{ { .type = CHILD_REFUSED, .text_length = CONTROL_TEXT_MAX },
			sizeof(struct wire) + CONTROL_TEXT_MAX, 0 },
		{ { .type = CHILD_SESSION, .session = 1 }, sizeof(struct wire), 0 },
		{ { .type = CHILD_SESSION, .session = 1 }, sizeof(struct wire), 8 },
		{ { .type = CHILD_REFUSED, .text_length = CONTROL_TEXT_MAX - 1 },
			sizeof(struct wire) + CONTROL_TEXT_MAX + 50, 0 },
		{ { .type = CHILD_REFUSED, .text_length = 4000 }, sizeof(struct wire) + 4000, 8 },
	};
	size_t before = count_fds(false);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint32_t type = cases[i].wire.type;
		bool child =
			type < control_child.n_rules && control_child.rules[type].to_supervisor;
		struct control_message got = { .type = 99 };
		char bytes[8192];

		memset(bytes, 'x', sizeof(bytes));
		memcpy(bytes, &cases[i].wire, sizeof(cases[i].wire));
		send_raw(bytes, cases[i].size, cases[i].n_fds);
		if (receive_from(child, &control_child, &got) != -EBADMSG)
			fail_msg("case %zu was accepted", i);
		assert_int_equal(got.type, 99);
		await_fds(false, before);
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
		.wire = { .type = CHILD_REFUSED, .text_length = sizeof(evil) - 1 },
	};
	struct control_message got;

	memcpy(raw.text, evil, sizeof(raw.text));
	send_raw(&raw, sizeof(raw), 0);
	assert_int_equal(control_receive_from_child(pair[1], &control_child, &got), 0);
	assert_string_equal(got.text, "a?b?[31m???c");

	raw.text[3] = '\0';
	send_raw(&raw, sizeof(raw), 0);
	assert_int_equal(control_receive_from_child(pair[1], &control_child, &got), -EBADMSG);
}

static void test_no_message_and_no_peer(void **state)
{
	const struct control_message alive = CHILD_MESSAGE_INIT(CONTROL_ALIVE);
	struct control_message got;
	int r;

	assert_int_equal(control_receive_from_child(pair[1], &control_child, &got), -EAGAIN);
	do {
		r = control_send(pair[0], &alive);
	} while (r == 0);
	assert_int_equal(r, -EAGAIN);
	while (control_receive_from_child(pair[1], &control_child, &got) == 0)
		;
	pair[0] = close_fd(pair[0]);
	assert_int_equal(control_receive_from_child(pair[1], &control_child, &got), -ECONNRESET);
	assert_true(control_send(pair[1], &alive) < 0);
}

static void test_refuses_to_send_nonsense(void **state)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_READY);

	message.session = 1;
	assert_int_equal(control_send(pair[0], &message), -EBADMSG);
	message = CHILD_MESSAGE_INIT(CHILD_CONFIGURE);
	assert_int_equal(control_send(pair[0], &message), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rules, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_protocol, setup, teardown),
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
