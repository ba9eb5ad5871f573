/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From results of a probe to a verdict: a unit changes sides only after as many equal results in a
 * row as its probe asks for, and one whose probe says so never comes back. Pure, so that the law
 * can be tested without a clock.
 */

#include "drivers/declaration.h"

/* Longest reason kept. */
#define REASON_MAX 240

struct verdict {
	bool known; /* a first result was seen; it counts at once */
	bool healthy;
	unsigned streak; /* results in a row against the verdict */
	char *reason;    /* why unhealthy */
};

/* Takes one result in; `reason` is why it is unhealthy. Returns 1 if the verdict or its reason
 * changed, 0 if not, -ENOMEM. */
int verdict_feed(struct verdict *verdict, const struct declared_probe *probe, bool healthy,
	const char *reason);
void verdict_done(struct verdict *verdict);

/* Reads the file of a probe through the root. Returns 1 healthy, 0 unhealthy with the reason,
 * -EAGAIN if it is being written just now. */
int probe_file(const struct declared_probe *probe, const char *root, const char *path,
	char ret_reason[static REASON_MAX]);

/* Copies text that came from elsewhere: cut to REASON_MAX between characters, with '?' for what
 * does not belong into a line of UTF-8. */
void reason_copy(const char *text, char ret_reason[static REASON_MAX]);
