/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The least that can answer a gRPC call: what a server in C could reach if it did nothing else.
 */

/* SOCKET: listens there and serves each connection in a process of its own, until it is killed.
 * Prints a line when it listens. Returns negative errno. */
int run_answer(int argc, char *argv[]);
