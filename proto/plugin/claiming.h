/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends the supervisor the claims of the devices, and receives which devices belong to another
 * resource, before they are offered. See drivers/inventory/hardware-claims.h.
 */

#include "common/control-child.h"
#include "drivers/inventory/inventory.h"

struct claiming {
	sd_event *event;
	const char *resource;
	void (*on_answer)(void *userdata); /* devices may be offered */
	void *userdata;
	struct snapshot *snapshot; /* that `text` was made of */
	char *text;                /* sent last; NULL: to be sent again */
	bool is_accepted;          /* the supervisor has accepted `text` */
	char *accepted;            /* the last accepted text, if it is not `text`; NULL: none */
	char *owners;              /* the newest answer, NULL: none yet */
	uint64_t number;
	bool waiting; /* for the answer to `number` */
	bool failed;  /* the last question could not be sent */
	sd_event_source *retry;
};

/* Sends the claims of the snapshot's devices, unless they were sent. Returns 1 if the caller has to
 * wait for the answer, which is the case if there are claims, or 0. */
int claiming_propose(struct claiming *claiming, const struct declaration *declaration,
	struct snapshot *snapshot);

/* Whether the answer to claims is missing. */
bool claiming_waits(const struct claiming *claiming);

/* Takes the supervisor's answer, or an update. */
void claiming_answered(struct claiming *claiming, struct inventory *inventory,
	const struct control_message *message);

/* To be called when a new inventory is applied: passes the known owners to it. */
void claiming_renew(const struct claiming *claiming, struct inventory *inventory);

void claiming_done(struct claiming *claiming);
