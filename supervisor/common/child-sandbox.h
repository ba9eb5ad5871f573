/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a child may not do whoever it runs as and whatever it executes, such as a health probe: use
 * the parts of the kernel that a device plugin has no business with, and touch other processes,
 * siblings of the same user included. Under systemd this comes on top of the unit's own sandbox.
 */

/* Confines the process for good; no-new-privileges must be set. What the kernel does not have, or
 * whoever started us forbids, is left out. Async-signal-safe. Returns 0 or negative errno. */
int sandbox_enter(void);
