/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Proposes the files by which other programs find the devices, before these are offered. A
 * container with a device that is not in a file gets everything in the answer, as if there were no
 * files, because otherwise the pod would not start.
 */

#include "common/control-child.h"
#include "proto/plugin/offer.h"

struct publishing {
	sd_event *event;
	void (*on_answer)(void *userdata); /* devices may be offered */
	void *userdata;
	struct snapshot *snapshot; /* that `text` was made of, with `applied configuration` */
	struct applied_config *applied_config;
	char *text;              /* proposed last */
	struct strings left_out; /* devices that are not in it */
	uint64_t number;
	bool waiting; /* for the answer to `number` */
	bool made;    /* the files were written */
	sd_event_source *retry;
};

/* Proposes the files for the devices to be offered, unless they exist. Returns 1 if the caller has
 * to wait for the answer, or 0. */
int publish_propose(struct publishing *publishing, struct applied_config *applied_config,
	struct snapshot *snapshot);

/* Takes the supervisor's answer. */
void publish_answered(struct publishing *publishing, const struct control_message *message);

void publish_done(struct publishing *publishing);
