/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Logging for every program: to the journal with fields if the journal listens, to stderr as text
 * for a terminal, and as "<priority>text" lines for a supervisor that collects them. Nothing is
 * logged twice: a function either logs or returns an error.
 */

#include <sys/types.h>
#include <syslog.h>

#include "common/util.h"

enum log_target {
	LOG_TARGET_AUTO,   /* the journal if stderr is connected to it, text otherwise */
	LOG_TARGET_TEXT,   /* "program: text" on stderr */
	LOG_TARGET_PARENT, /* "<N>text" on stderr, for a supervisor that adds the fields;
			      "<N;DEVICE>text" where there is a message_id */
};

/* What a record is about; absent members are NULL or 0. Becomes journal fields DEVPLUGD_RESOURCE=,
 * DEVPLUGD_DEVICE=, DEVPLUGD_CHILD_PID=, DEVPLUGD_GENERATION=, CONFIG_FILE=, CONFIG_LINE=,
 * MESSAGE_ID=. */
struct log_fields {
	const char *resource;
	bool named; /* the text names the resource itself and needs no prefix */
	const char *device;
	const char *message_id; /* 32 hexadecimal digits, from common/message-id.h */
	const char *config_file;
	unsigned config_line;
	pid_t child_pid;
	uint64_t generation;
};

/* Program name for text output, target, and the least urgent syslog level (LOG_ERR .. LOG_DEBUG)
 * shown. */
void log_setup(const char *program, enum log_target target, int max_level);
void log_set_max_level(int max_level);

/* Whether records go to the journal. */
bool log_is_journal(void);

/* The name of the level in a configuration; "error" for more urgent levels. */
const char *log_level_name(int level);

/* Called with each record down to LOG_INFO, independent of the level shown. `fields` is never NULL.
 * Must not log. There is one observer at a time; NULL removes it. */
typedef void (*log_observer)(
	int level, const struct log_fields *fields, const char *text, void *userdata);
void log_set_observer(log_observer observer, void *userdata);

/* Writes one record; `fields` may be NULL. Never fails, keeps errno. Text is prefixed by the
 * resource, unless `named`. */
_printf_(3, 4) void log_full(int level, const struct log_fields *fields, const char *format, ...);

#define log_error(...)   log_full(LOG_ERR, NULL, __VA_ARGS__)
#define log_warning(...) log_full(LOG_WARNING, NULL, __VA_ARGS__)
#define log_notice(...)  log_full(LOG_NOTICE, NULL, __VA_ARGS__)
#define log_info(...)    log_full(LOG_INFO, NULL, __VA_ARGS__)
#define log_debug(...)   log_full(LOG_DEBUG, NULL, __VA_ARGS__)

/* Limits how many records one other process can cause with its messages. Zeroed: none yet. */
#define LOG_BUDGET_BURST    100 /* records in each interval */
#define LOG_BUDGET_INTERVAL (10 * USEC_PER_SEC)

struct log_budget {
	uint64_t begun; /* CLOCK_MONOTONIC */
	unsigned used;
};

/* Whether a record may be logged now. The first one beyond the limit is replaced by a notice about
 * `fields`. */
bool log_budget_admits(struct log_budget *budget, const struct log_fields *fields);

/* The last texts of one kind that were logged, so that failures that alternate are logged once
 * each. Zeroed: none. */
#define LOG_ONCE_MAX 16
#define LOG_ONCE_AGE (3600 * USEC_PER_SEC) /* then it is logged again */

struct log_once {
	struct {
		uint64_t hash, logged_at; /* CLOCK_MONOTONIC; 0: free */
	} texts[LOG_ONCE_MAX];
};

/* Whether the text may be logged, because it is not one of the last texts; if so, it is added to
 * them. The number in "line 3 of" at its beginning is ignored. NULL: nothing fails now, so later
 * failures are logged again; returns false. */
bool log_once_admits(struct log_once *once, const char *text);

/* As the function above, for a record that also counts against a budget. A text beyond the budget
 * is not added, so it is logged when the budget allows it again. */
bool log_once_admits_within(struct log_once *once, struct log_budget *budget,
	const struct log_fields *fields, const char *text);
