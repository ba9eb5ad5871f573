/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of plugin: sends the supervisor the claims of the devices, and receives which devices
 * belong to another resource, before they are offered. See drivers/inventory/claims.h.
 */

#include "common/control.h"
#include "drivers/inventory/inventory.h"

struct plugin;

struct claiming {
	struct snapshot *snapshot; /* that `text` was made of */
	char *text;                /* sent last; NULL: to be sent again */
	bool is_accepted;          /* the text */
	char *accepted;            /* the text before it; NULL: none, or `text` is accepted */
	char *owners;              /* the newest answer, NULL: none yet */
	uint64_t number;
	bool waiting; /* for the answer to `number` */
	bool failed;  /* to ask, last time */
	sd_event_source *retry;
};

/* Sends the claims of the snapshot's devices, unless they were sent. Returns 1 if the answer has to
 * be waited for, which is so if there are any, or 0. */
int claiming_propose(struct plugin *plugin, struct snapshot *snapshot);

/* Takes the supervisor's answer, or an update. Returns 1 if there are devices to offer. */
int claiming_answered(struct plugin *plugin, const struct control_message *message);

/* A new inventory is in force: passes the known owners to it. */
void claiming_renew(struct plugin *plugin);

void claiming_done(struct claiming *claiming);
