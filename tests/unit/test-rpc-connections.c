/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gRPC binding: how many connections a server takes, and what peers that speak no gRPC do to
 * it.
 */
#include "rpc-fixture.h"

#include <semaphore.h>
#include <sys/ioctl.h>

#include "proto/rpc-queue.h"

static void test_garbage_peer(void **state)
{
	struct fixture *f = *state;
	static const char *const garbage[] = {
		"GET / HTTP/1.1\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"\n\n\n\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		char buffer[512];
		int pair[2];

		assert_int_equal(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
			0);
		assert_int_equal(rpc_server_add_unknown(f->server, pair[0], 7), 0);
		assert_true(send(pair[1], garbage[i], strlen(garbage[i]), MSG_NOSIGNAL) > 0);
		(void)recv(pair[1], buffer, sizeof(buffer), 0);
		close_fd(pair[1]);
	}
	call(f, "/t.T/Echo", "fine", 0);
	wait_for(f, &f->results, 1);
	assert_string_equal(f->reply, "fine");
}

static void test_other_clients_are_served(void **state)
{
	struct fixture *f = *state;
	struct channel *client;
	int pair[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(rpc_server_add_unknown(f->server, pair[0], 7), 0);
	assert_int_equal(channel_new(pair[1], NULL, &client), 0);
	assert_int_equal(
		channel_call(client, "/t.T/Echo", (const uint8_t *)"hello", 5, 0, on_result, f), 0);
	wait_for(f, &f->results, 1);
	assert_string_equal(f->reply, "hello");
	assert_false(rpc_is_held_up());
	channel_free(client);
	/* Another one may not have been passed to gRPC when the server is freed. */
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(rpc_server_add_unknown(f->server, pair[0], 7), 0);
	close_fd(pair[1]);
}

static void test_connections_are_bounded(void **state)
{
	struct fixture *f = *state;
	int ends[RPC_CONNECTIONS_MAX + 1];
	int pair[2], n = 0, r = 0;

	while (r >= 0 && n < RPC_CONNECTIONS_MAX + 1) {
		assert_int_equal(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
			0);
		r = rpc_server_add(f->server, pair[0], 8);
		ends[n++] = pair[1];
	}
	assert_int_equal(r, -EMFILE);
	/* The fixture's connection counts. */
	assert_int_equal(n, RPC_CONNECTIONS_MAX);
	/* Room for one more at the price of the oldest; others are not touched. */
	assert_true(rpc_server_is_full(f->server));
	assert_int_equal(rpc_server_evict(f->server, 7), -ENOENT);
	assert_int_equal(rpc_server_evict(f->server, 8), 0);
	assert_false(rpc_server_is_full(f->server));
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(rpc_server_add(f->server, pair[0], 8), 0);
	close_fd(pair[1]);
	call(f, "/t.T/Echo", "still here", 0);
	wait_for(f, &f->results, 1);
	assert_string_equal(f->reply, "still here");
	for (int i = 0; i < n; i++)
		close_fd(ends[i]);
	/* Room again once the ends were noticed. */
	do {
		assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
		assert_int_equal(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
			0);
		r = rpc_server_add(f->server, pair[0], 8);
		close_fd(pair[1]);
	} while (r == -EMFILE);
	assert_int_equal(r, 0);
}

struct holder {
	struct tag tag;
	sem_t free;
};

static void on_hold(struct tag *tag, bool ok)
{
	(void)sem_wait(&TAG_OWNER(tag, struct holder, tag)->free);
}

/* gRPC frees nothing while its thread does something else. */
static void test_connections_that_end(void **state)
{
	struct holder holder = { .tag.on_event = on_hold };
	struct fixture *f = *state;
	int ends[RPC_ENDING_MAX];
	int pair[2];

	assert_int_equal(sem_init(&holder.free, 0, 0), 0);
	rpc_queue_post(&holder.tag);
	for (int i = 0; i < RPC_ENDING_MAX; i++) {
		assert_false(rpc_server_is_behind(f->server));
		assert_int_equal(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
			0);
		assert_int_equal(rpc_server_add(f->server, pair[0], 8), 0);
		assert_int_equal(rpc_server_evict(f->server, 8), 0);
		ends[i] = pair[1];
	}
	assert_true(rpc_server_is_behind(f->server));
	/* The kubelet's are still taken. */
	assert_false(rpc_server_is_full(f->server));
	(void)sem_post(&holder.free);
	call(f, "/t.T/Echo", "served again", 0);
	wait_for(f, &f->results, 1);
	assert_string_equal(f->reply, "served again");
	while (rpc_server_is_behind(f->server))
		assert_true(sd_event_run(f->event, USEC_PER_MSEC) >= 0);
	for (int i = 0; i < RPC_ENDING_MAX; i++)
		close_fd(ends[i]);
	(void)sem_destroy(&holder.free);
}

/* The server cannot write its answers, and the end of the connection does not wait for that. */
static void test_end_beside_a_peer_that_does_not_read(void **state)
{
	enum { PINGS = 2000, SMALL = 2048 };
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	static const char settings[] = { 0, 0, 0, 4, 0, 0, 0, 0, 0 };
	static const char ping[17] = { 0, 0, 8, 6 };
	struct fixture *f = *state;
	char flood[PINGS * sizeof(ping)];
	const int size = SMALL;
	int pair[2], waiting = 0;

	for (size_t i = 0; i < PINGS; i++)
		memcpy(flood + i * sizeof(ping), ping, sizeof(ping));
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	assert_int_equal(rpc_server_add(f->server, pair[0], 8), 0);
	assert_true(send(pair[1], preface, strlen(preface), 0) > 0);
	assert_true(send(pair[1], settings, sizeof(settings), 0) > 0);
	assert_int_equal(send(pair[1], flood, sizeof(flood), 0), sizeof(flood));
	while (waiting < SMALL / 2) {
		assert_true(sd_event_run(f->event, USEC_PER_MSEC) >= 0);
		assert_int_equal(ioctl(pair[1], FIONREAD, &waiting), 0);
	}
	server_end(TAKE_PTR(f->server));
	close_fd(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_garbage_peer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_clients_are_served, setup, teardown),
		cmocka_unit_test_setup_teardown(test_connections_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_connections_that_end, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_end_beside_a_peer_that_does_not_read, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
