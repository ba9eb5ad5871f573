/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Telling the supervisor what hardware is behind the devices, and learning from it which of them
 * belong to another resource, before they are offered. See drivers/claims.h.
 */

#include "common/control.h"
#include "drivers/inventory.h"

struct plugin;

struct claiming {
	struct snapshot *snapshot; /* that `text` was made of */
	char *text;                /* sent last */
	char *owners;              /* the newest answer, NULL: none yet */
	uint64_t number;
	bool waiting; /* for the answer to `number` */
	bool failed;  /* to ask, last time */
	sd_event_source *retry;
};

/* Sends what is behind the devices of the snapshot, unless it was sent. Returns 1 if the answer has
 * to be waited for, or 0. */
int claiming_propose(struct plugin *plugin, struct snapshot *snapshot);

/* The supervisor's answer, or news. Returns 1 if there is something to be offered. */
int claiming_answered(struct plugin *plugin, const struct control_message *message);

/* A new inventory is in force: tells it what is known. */
void claiming_renew(struct plugin *plugin);

void claiming_done(struct claiming *claiming);
