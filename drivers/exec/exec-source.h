/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One configured program that lists devices. It runs at intervals or all the time. If it fails, the
 * last good list stays.
 */

#include <systemd/sd-event.h>

#include "drivers/exec/exec-document.h"
#include "drivers/model/declaration.h"

enum exec_mode { EXEC_POLL, EXEC_WATCH };

struct exec_match {
	struct origin origin;
	int mode; /* enum exec_mode */
	struct strings command;
	uint64_t interval;  /* poll: from the end of a run to the next, microseconds */
	uint64_t timeout;   /* poll: for a run; watch: until the first line */
	uint64_t heartbeat; /* watch: from one line to the next; 0: no limit */
	int properties;     /* enum exec_properties */
	struct allocate_program allocate;
};

struct exec_source;

/* Prepares a program; it is started when the event loop runs. `match` and `root` (the directory
 * that stands for "/" and contains the program) must outlive it. `list` (NULL: none) is used until
 * the program answers. `on_change` is called when the list or the description of a failure has
 * changed. Returns 0 or negative errno. */
int exec_source_new(sd_event *event, const struct exec_match *match, const char *root,
	struct exec_list *list, void (*on_change)(void *userdata), void *userdata,
	struct exec_source **ret);

/* Kills the program if it runs. Returns NULL. */
struct exec_source *exec_source_free(struct exec_source *source);

const struct exec_match *exec_source_match(const struct exec_source *source);

/* The newest good list, NULL if there was none yet. It belongs to the source. */
struct exec_list *exec_source_list(const struct exec_source *source);

/* Whether the program itself has printed a list. */
bool exec_source_answered(const struct exec_source *source);

/* The reason why the list may be old, as a sentence; NULL: the last answer was valid. */
const char *exec_source_failure(const struct exec_source *source);
