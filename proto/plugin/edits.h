/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a container gets for devices that DRA has allocated: the supervisor asks for it when a claim
 * is prepared (CHILD_EDIT), with the JSON
 *
 *   { "ids": [ OFFERED ID, ... ], "parameters": { NAME: TEXT, ... },
 *     "amounts": { OFFERED ID: { CAPACITY: NUMBER, ... }, ... } }
 *
 * and receives
 *
 *   { "containerEdits": EDITS, "cdi": [ NAME, ... ], "hash": HASH }
 *
 * with the edits of CDI, absent if there are none, and the CDI names of others. It is what Allocate
 * and PreStartContainer would do, with the same programs; a claim with admin access runs no
 * prestart. The hash is of what containers would get without the answers of programs. While it is
 * the same, a claim that is prepared needs no other edits, and no program is run again.
 */

#include "common/control-child.h"

/* Maximum size of a question in a CHILD_EDIT. */
#define EDITS_QUESTION_MAX (256U << 10)

struct edits;
struct plugin;
struct snapshot;

/* Answers with CHILD_EDITS, at once or when all programs have ended. */
void edits_begin(struct plugin *plugin, struct control_message *message);

/* To be called when devices are offered: sends CHILD_EDITS_CHANGED unless they and their
 * configuration are the same as before, and none could not be built. */
void edits_offered(struct plugin *plugin, struct snapshot *snapshot);

/* Ends the running programs. Their questions are no longer answered. */
void edits_done(struct plugin *plugin);
