/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What only the start of a program needs: code that has run for the last time, symbols and
 * relocations that have been read. A process that waits for days keeps none of it in its memory.
 */

/* Unmaps programs and libraries as far as nobody has written to them, so that only what is used
 * from now on counts as memory of this process. The page cache keeps the pages as long as the
 * kernel has room, and each is mapped again at its next use. Does nothing without /proc. */
void release_unused_code(void);
