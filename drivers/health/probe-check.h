/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One check is one probe of one unit. It is in exactly one list at a time, which decides what
 * happens to it next, so that ten thousand checks need neither ten thousand timers nor a search.
 */

#include "common/map.h"
#include "drivers/health/probe-result.h"
#include "drivers/host/command.h"
#include "drivers/host/watch.h"

/* Maximum number of programs of one resource that run at a time. */
#define PROGRAMS_MAX 4

struct check;
struct check_queue;
struct partial_read;
struct program_run;

struct check_list {
	struct check *first, *last;
};

struct check_type {
	/* Prepare a check for a device, and undo that (NULL: nothing to undo). */
	int (*attach)(struct check *check);
	void (*detach)(struct check *check);
	/* Handles a change of the device, which still exists (NULL: by detach and attach). */
	void (*change)(struct check *check);
	/* Ends a run for the check (NULL: there is none). */
	void (*stop)(struct check *check);
	/* Runs what is due. */
	void (*on_due)(struct check_queue *queue, uint64_t now);
};

/* All checks of one declared probe. */
struct check_queue {
	struct health *health;
	const struct declared_probe *probe;
	uint64_t key; /* probe_key() */
	const struct check_type *type;
	struct check_list fresh;   /* without a first result; programs only */
	struct check_list waiting; /* by due time */
	struct check_list resting; /* by due time; files whose changes are all reported */
	size_t n_checks;
	uint64_t next_start; /* programs: spread over the interval */
	sd_event_source *timer;
};

struct check {
	struct check_list *list; /* NULL: in none */
	struct check *previous, *next;
	uint64_t due; /* CLOCK_MONOTONIC, in `waiting`, `resting` and `settling` */
	struct health_unit *unit;
	struct check_queue *queue;
	struct probe_result result;
	uint64_t period; /* finding_period of the device that the result is about */
	/* files of changing content */
	uint64_t content, changed; /* hash of what was read last, and when it changed
				      (CLOCK_MONOTONIC); 0: never */
	/* several files in /sys */
	struct partial_read *partial; /* NULL: none */
	/* files */
	char *path;
	const char *name; /* last component of `path` */
	struct file_directory *directory;
	struct check *next_same, *previous_same; /* that reads the same file */
	bool is_link;
	/* programs */
	struct program_run *run; /* NULL: its program does not run */
	bool outdated;           /* the device has failed or was removed since the run began */
	bool dropped;            /* the result of its last run did not count */
};

struct health_unit {
	struct health *health;
	struct device *device; /* NULL: removed */
	size_t index;
	void *userdata;
	bool ready; /* changes are reported */
	size_t n_checks;
	struct check checks[];
};

struct health {
	sd_event *event;
	const struct declaration *declaration;
	const char *root;
	struct watcher *watcher;
	void (*handler)(void *userdata); /* health_handler */
	/* reading, see health_may_read() */
	uint64_t turn;    /* of the event loop */
	uint64_t reading; /* time spent in it, before the current read */
	uint64_t read_at; /* CLOCK_MONOTONIC; when that began */
	/* files */
	struct map directories;
	struct check_list urgent; /* a file changed */
	struct check_list settling;
	sd_event_source *urgent_source;
	sd_event_source *settling_timer;
	/* programs */
	struct program_run *runs;
	size_t n_running;
	size_t n_queues;
	struct check_queue queues[];
};

/* Moves a check to the end of a list, or before those that are due later. */
void check_move(struct check *check, struct check_list *list, uint64_t due);
void check_leave(struct check *check);

/* Makes a check wait for `delay`, in the list of checks with this delay. */
void check_wait(struct check *check, uint64_t delay);
void check_rest(struct check *check, uint64_t delay);

/* Whether files may be read in this turn of the event loop. All reads of a resource share a time
 * limit in each turn, because any of them may take long; the others follow in the next turns. */
bool health_may_read(struct health *health);

/* Every check reads its files between these two. */
void health_read_begin(struct health *health);
void health_read_end(struct health *health);

/* Sets the timer of a queue by its first check. */
void check_queue_arm(struct check_queue *queue);

/* Takes a result and calls the unit's handler if that changes anything. */
void check_result(struct check *check, enum probe_outcome outcome, const char *reason);

/* Expands a template of the probe for the check's device. */
int check_expand(const struct check *check, const char *text, char **ret, struct error *error);

/* Expands the words of a command, see template_expand_words(). */
int check_expand_words(
	const struct check *check, const struct strings *words, char ***ret, struct error *error);

/* --- probe-recovery.c --- */

/* Prepares a check with on_recovery: a device that has not failed, and is not being tested, is
 * healthy without a test. */
void recovery_attach(struct check *check);

/* Takes the result of its program, as check_result(). `failure`: why it failed; NULL: it has
 * passed. */
void recovery_result(struct check *check, const char *failure);

/* Tries again after the probe's interval, because the program cannot be started now. */
void recovery_delay(struct check *check, const char *reason);

/* --- probe-file.c, probe-exec.c, probe-poll.c --- */

extern const struct check_type file_check_type;
extern const struct check_type exec_check_type;
extern const struct check_type poll_check_type;

/* Frees what files need, once no unit is left. */
void file_checks_done(struct health *health);

/* Leaves a running program to the resource, because the unit of the check is freed. */
void exec_leave(struct check *check);

/* Kills the programs that are left. */
void exec_checks_done(struct health *health);
