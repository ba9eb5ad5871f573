/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The template: devplugd-plugin executed once, with its libraries loaded and relocated and gRPC
 * never initialised, which makes children by copying itself. A copy starts in a third of the time
 * and shares the pages that relocation wrote.
 *
 * A copy must be our own child (reaping, parent-death signal), and it lives long and has threads.
 * clone(CLONE_PARENT) would do the first and break the second: only the C library's fork() renews
 * the library's data about the calling thread. So the template makes a process with vfork(), which
 * calls fork() and ends, and its orphan becomes our child because we are a subreaper.
 *
 * Copies have one address-space layout and one stack canary, as in any pre-forking server; only
 * root can send them data.
 */

#include <systemd/sd-event.h>

#include "supervisor/process/spawn.h"

/* A template that does not answer within this time is killed. */
#define SPAWN_TEMPLATE_TIMEOUT_MSEC 2000
/* After a template that failed, the next one is started no earlier than this. */
#define SPAWN_TEMPLATE_RETRY (60 * USEC_PER_SEC)

/* Makes a template of the program, which must stay open and named as long as the template lives,
 * and fills in `copy` and `template`. Its process is started now, and again by spawn_child() when
 * it has died. Returns 0 or negative errno; failing to start the process is not an error. */
int spawn_template_new(sd_event *event, struct spawn_options *program);

/* Ends the process, for which spawn_template_free() waits; no more children are made. */
void spawn_template_dismiss(struct spawn_template *template);

struct spawn_template *spawn_template_free(struct spawn_template *template);
DEFINE_CLEANUP(struct spawn_template *, spawn_template_free)
