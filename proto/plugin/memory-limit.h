/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The ceiling of the memory of a process that serves a resource. gRPC buffers what a peer sends of
 * a call's headers for as long as it goes on (CVE-2023-33953) and offers no bound. The kernel has
 * one: beyond it an allocation fails. Our own code bears that. gRPC does not: it aborts or uses the
 * pointer, which is turned into a message and an exit here, and the supervisor starts another
 * process.
 */

/* Bytes of private writable memory, in use or not; see docs/limits.md for how it was chosen. */
#define MEMORY_MAX (512UL << 20)

/* Bounds this process and what it forks; drivers/command-spawn.c lifts it for programs. Does
 * nothing in a build with sanitizers, which reserve more than any bound. */
void memory_limit_set(void);
