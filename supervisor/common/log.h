/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One way for every program to say something: to the journal with fields where the journal listens,
 * to stderr as text where a person does, and as "<priority>text" lines where a supervisor collects
 * them. Nothing is logged twice: a function either logs or returns an error.
 */

#include <sys/types.h>
#include <syslog.h>

#include "common/util.h"

enum log_target {
	LOG_TARGET_AUTO,   /* the journal if stderr is connected to it, text otherwise */
	LOG_TARGET_TEXT,   /* "program: text" on stderr */
	LOG_TARGET_PARENT, /* "<N>text" on stderr, for a supervisor that adds the fields */
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

/* Parses "error", "warning", "notice", "info" or "debug". Returns the syslog level or -EINVAL. */
int log_level_from_string(const char *name);

/* Writes one record; `fields` may be NULL. Never fails, keeps errno. Text is prefixed by the
 * resource, unless `named`. */
_printf_(3, 4) void log_full(int level, const struct log_fields *fields, const char *format, ...);

#define log_error(...)   log_full(LOG_ERR, NULL, __VA_ARGS__)
#define log_warning(...) log_full(LOG_WARNING, NULL, __VA_ARGS__)
#define log_notice(...)  log_full(LOG_NOTICE, NULL, __VA_ARGS__)
#define log_info(...)    log_full(LOG_INFO, NULL, __VA_ARGS__)
#define log_debug(...)   log_full(LOG_DEBUG, NULL, __VA_ARGS__)
