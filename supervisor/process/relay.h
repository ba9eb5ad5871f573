/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Copies a child's stdout and stderr line by line into our log, under the child's name. A "<N>" in
 * front of a line is its priority. Length and rate are bounded: if a child floods, lines are
 * dropped and the log shows their number.
 */

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "common/util.h"

#define RELAY_LINE_MAX       1024
#define RELAY_BURST          500 /* lines in each RELAY_INTERVAL */
#define RELAY_INTERVAL       (10 * USEC_PER_SEC)
#define RELAY_READ_LIMIT     65536 /* bytes in one turn of the loop */
#define RELAY_TURNS          10    /* in each RELAY_TURNS_INTERVAL; beyond, the child has to wait */
#define RELAY_TURNS_INTERVAL (100 * USEC_PER_MSEC)

struct relay;

/* Takes the descriptor, also on failure. `resource` must outlive the relay. */
int relay_new(sd_event *event, int fd, const char *resource, pid_t pid, struct relay **ret);

/* Reads the remaining output at the child's end. */
void relay_drain(struct relay *relay);

/* The last line, "" if there was none. */
const char *relay_last_line(const struct relay *relay);

struct relay *relay_free(struct relay *relay);
DEFINE_CLEANUP(struct relay *, relay_free)
