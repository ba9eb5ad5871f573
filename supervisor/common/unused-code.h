/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What only the start of a program needs: code that has run for the last time, symbols and
 * relocations that have been read. A process that waits for days keeps none of it in its memory.
 */

/* Unmaps the pages of programs and libraries that nobody has written to, so that only what is used
 * from now on counts as memory of this process. The page cache keeps them as long as the kernel has
 * room, and a page is mapped again at its next use. Breakpoints that a debugger has set before are
 * lost. */
void release_unused_code(void);
