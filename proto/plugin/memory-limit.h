/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Limits the memory of a process that serves a resource. gRPC buffers the headers of a call for as
 * long as the peer sends them (CVE-2023-33953), without a limit. Above the kernel's limit, an
 * allocation fails. Our own code handles that; gRPC aborts or uses the pointer. This file turns
 * both into a message and an exit, and the supervisor starts another process.
 */

/* Bytes of private writable memory, used or not; docs/contributing/limits.md explains the choice.
 */
#define MEMORY_MAX (512UL << 20)

/* Limits this process and the processes that it forks; drivers/host/command-spawn.c removes the
 * limit for programs. Does nothing in a build with sanitizers, which reserve more than any
 * limit. */
void memory_limit_set(void);
