/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket of the DRA driver in a process that has no more descriptors.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#include "control-fixture.h"

#include "dra/dra-node.h"
#include "proto/rpc.h"

#define WAIT_USEC (10 * USEC_PER_SEC)

struct node_fixture {
	sd_event *event;
	struct dra_node *node;
	int supervisor; /* the other end of CONTROL_FD */
	struct sockaddr_un address;
	socklen_t address_size;
};

static int listen_anywhere(struct node_fixture *f)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	f->address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	f->address_size = sizeof(f->address);
	/* The kernel chooses an abstract name. */
	assert_int_equal(bind(fd, (struct sockaddr *)&f->address, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&f->address, &f->address_size), 0);
	return fd;
}

static void open_session(struct node_fixture *f, uint64_t number)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_SESSION);

	message.driver = 1;
	message.session = number;
	message.fds[0] = listen_anywhere(f);
	dra_node_open_session(f->node, &message);
}

static int connect_to(const struct node_fixture *f)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&f->address, f->address_size), 0);
	return fd;
}

static int setup(void **state)
{
	/* As in the process itself, the node is never freed. */
	static struct node_fixture fixture;
	struct node_fixture *f = &fixture;
	static uint64_t last_question;
	struct dra_node_options options = {
		.number = 1,
		.last_question = &last_question,
	};

	f->supervisor = control_begin();
	assert_true(sd_event_new(&f->event) >= 0);
	options.event = f->event;
	options.supervisor_uid = getuid();
	assert_int_equal(rpc_start(), 0);
	assert_int_equal(dra_node_new(&options, &f->node), 0);
	*state = f;
	return 0;
}

static void test_no_descriptors(void **state)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(0);
	struct node_fixture *f = *state;
	struct rlimit before, none;
	int first, second, r;
	char byte;

	open_session(f, 5);
	first = connect_to(f);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = sd_event_run(f->event, WAIT_USEC);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(r > 0);

	/* devplugd opens another session; nothing keeps the loop busy until then. */
	assert_int_equal(control_receive_from_child(f->supervisor, &control_cluster, &message), 0);
	assert_int_equal(message.type, CLUSTER_SESSION_ENDED);
	assert_int_equal(message.session, 5);
	assert_int_equal(sd_event_run(f->event, 0), 0);
	assert_true(recv(first, &byte, 1, 0) <= 0);
	close_fd(first);

	open_session(f, 6);
	second = connect_to(f);
	assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
	/* The settings of an HTTP/2 server. */
	assert_int_equal(send(second, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24, 0), 24);
	assert_int_equal(recv(second, &byte, 1, 0), 1);
	close_fd(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_no_descriptors, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
