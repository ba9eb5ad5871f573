/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Plays the supervisor of a process whose parts are tested in the process of the test.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/control.h"

/* Makes CONTROL_FD one end of a socket. Returns the supervisor's, which does not block. */
static inline int control_begin(void)
{
	int pair[2], supervisor;

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	supervisor = fcntl(pair[1], F_DUPFD_CLOEXEC, CONTROL_FD + 1);
	assert_true(supervisor >= 0);
	assert_int_equal(dup2(pair[0], CONTROL_FD), CONTROL_FD);
	return supervisor;
}
