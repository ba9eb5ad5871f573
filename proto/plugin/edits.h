/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a container gets for devices that DRA has allocated: the supervisor asks for it when a claim
 * is prepared (CHILD_EDIT), and receives as JSON
 *
 *   { "containerEdits": EDITS, "cdi": [ NAME, ... ] }
 *
 * with the edits of CDI, absent if there are none, and the CDI names of others. It is what Allocate
 * and PreStartContainer would do, with the same programs.
 */

#include "common/control-child.h"

/* Maximum size of the ids in a CHILD_EDIT, and of an answer. */
#define EDITS_IDS_MAX   (64U << 10)
#define EDITS_BYTES_MAX (1U << 20)

struct plugin;
struct edits;

/* Answers with CHILD_EDITS, at once or when all programs have ended. */
void edits_begin(struct plugin *plugin, struct control_message *message);

/* Ends the running programs. Their questions are no longer answered. */
void edits_done(struct plugin *plugin);
