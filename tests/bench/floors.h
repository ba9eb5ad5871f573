/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What nothing can be faster than on this machine: two processes that do the least that the kernel
 * allows. Each prints its samples and returns 0 or negative errno.
 */

/* CALLS: round trips over a socket, one after the other. */
int run_ping(int argc, char *argv[]);

/* FILE CHANGES GAP: a process watches the file and sends what is in it; it is written GAP
 * microseconds after each answer. */
int run_notice(int argc, char *argv[]);
