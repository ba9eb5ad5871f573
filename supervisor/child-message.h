/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a child says, checked and turned into events of its resource.
 */

#include <stdbool.h>

struct child;

/* Receives and handles one message. Returns false when there is none or no more will come. */
bool child_receive(struct child *child);
