/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a discovery program runs and which of its outputs counts. A source is either between
 * two runs or has a program running, and one timer is enough for both: it starts the next run, or
 * takes the line that a watching program wrote last. Lines in between are dropped, because each
 * line is complete, so a program that writes without end costs a bounded share of a processor.
 * Neither starting nor reading blocks.
 */
#include "drivers/exec/exec-source.h"

#include <inttypes.h>

#include "common/pace.h"
#include "drivers/exec/exec-fields.h"
#include "drivers/exec/exec-program.h"

/* Watching programs that end are started again like children of the supervisor. */
#define BACKOFF_FIRST (100 * USEC_PER_MSEC)
#define BACKOFF_MAX   (60 * USEC_PER_SEC)
#define STABLE_AFTER  (60 * USEC_PER_SEC)
/* The minimum time between two documents, so that reading them takes at most a fifth of a
 * processor. */
#define READ_SPACING (100 * USEC_PER_MSEC)
/* The minimum time between two messages about failures, because invalid output differs each
 * time. */
#define FAILURE_QUIET USEC_PER_SEC

struct failure {
	char *text;  /* NULL: there is none */
	char *fault; /* what is wrong with a document, if the failure is about one */
};

struct exec_source {
	sd_event *event;
	const struct exec_match *match;
	const char *program_root;
	void (*on_change)(void *userdata);
	void *userdata;

	struct exec_list *list;
	bool answered;
	struct failure failure, waiting; /* reported; to be reported later */
	uint64_t failure_reported;

	sd_event_source *timer, *quiet_timer;
	struct command *command;
	uint64_t started;
	uint64_t backoff;
	struct pace reading;
	struct exec_text text; /* poll: all output so far; watch: the incomplete line */
	bool too_long;
	/* watch */
	size_t line; /* number of lines read */
	struct exec_text complete;
	size_t complete_line; /* its number; 0: none waits */
};

static void arm(struct exec_source *source, uint64_t at)
{
	(void)sd_event_source_set_time(source->timer, at);
	(void)sd_event_source_set_enabled(source->timer, SD_EVENT_ONESHOT);
}

/* --- what came of it --- */

static void failure_done(struct failure *failure)
{
	free(failure->text);
	free(failure->fault);
	*failure = (struct failure){ 0 };
}

static void set_failure(struct exec_source *source, struct failure *failure)
{
	failure_done(&source->failure);
	source->failure = *failure;
	*failure = (struct failure){ 0 };
	source->failure_reported = now_usec(CLOCK_MONOTONIC);
	source->on_change(source->userdata);
}

/* The same fault in successive lines is reported for the first only. */
static bool is_same(const struct failure *a, const struct failure *b)
{
	if (a->fault && b->fault)
		return streq(a->fault, b->fault);
	return a->text && streq(a->text, b->text);
}

/* Reports a failure, or delays it if the last report was too recent. `fault`: the fault in a
 * document, or NULL. */
_printf_(3, 4) static void fail(
	struct exec_source *source, const char *fault, const char *format, ...)
{
	uint64_t allowed = source->failure_reported + FAILURE_QUIET;
	struct failure failure = { 0 };
	va_list ap;
	int n;

	failure_done(&source->waiting);
	va_start(ap, format);
	n = vformat_text(&failure.text, format, ap);
	va_end(ap);
	/* Without memory the next run reports it. */
	if (n < 0)
		return;
	failure.fault = fault ? strdup(fault) : NULL;
	if (is_same(&source->failure, &failure)) {
		failure_done(&failure);
		return;
	}
	if (source->failure_reported == 0 || allowed <= now_usec(CLOCK_MONOTONIC)) {
		set_failure(source, &failure);
		return;
	}
	source->waiting = failure;
	(void)sd_event_source_set_time(source->quiet_timer, allowed);
	(void)sd_event_source_set_enabled(source->quiet_timer, SD_EVENT_ONESHOT);
}

static int on_quiet(sd_event_source *timer, uint64_t usec, void *userdata)
{
	struct exec_source *source = userdata;

	if (source->waiting.text)
		set_failure(source, &source->waiting);
	return 0;
}

/* Takes the list, which is good. */
static void succeed(struct exec_source *source, struct exec_list *list)
{
	bool same = source->list && exec_list_equal(source->list, list);
	bool changed = !same || !source->answered || source->failure.text;

	source->answered = true;
	failure_done(&source->failure);
	failure_done(&source->waiting);
	(void)exec_list_unref(source->list);
	source->list = list;
	if (changed)
		source->on_change(source->userdata);
}

static void fail_by_document(struct exec_source *source, size_t line, const char *what)
{
	const char *program = source->match->command.items[0];

	if (line > 0)
		fail(source, what, "line %zu of %s is invalid: %s", line, program, what);
	else
		fail(source, what, "the output of %s is invalid: %s", program, what);
}

static void read_document(struct exec_source *source, const struct exec_text *text, size_t line)
{
	struct exec_list *list;
	struct error error;
	int r;

	pace_begin(&source->reading);
	r = exec_document_read(text->data ?: "", text->size,
		(enum exec_properties)source->match->properties, &list, &error);
	if (r >= 0)
		succeed(source, list);
	else
		fail_by_document(source, line, error.message);
	(void)pace_end(&source->reading, READ_SPACING);
}

static void read_complete_line(struct exec_source *source)
{
	size_t line = source->complete_line;

	source->complete_line = 0;
	read_document(source, &source->complete, line);
	exec_text_done(&source->complete);
}

/* --- what it writes --- */

static bool is_blank(const struct exec_text *text)
{
	for (size_t i = 0; i < text->size; i++)
		if (!strchr(" \t\r", text->data[i]) || text->data[i] == '\0')
			return false;
	return true;
}

static void end_line(struct exec_source *source)
{
	struct exec_text line = source->text;

	source->line++;
	source->text = (struct exec_text){ 0 };
	if (source->match->heartbeat > 0)
		command_set_timeout(source->command, source->match->heartbeat);
	else
		command_forget_timeout(source->command);
	if (is_blank(&line)) {
		exec_text_done(&line);
		return;
	}
	exec_text_done(&source->complete);
	source->complete = line;
	source->complete_line = source->line;
	arm(source, pace_next(&source->reading));
}

static bool on_data(const char *data, size_t size, void *userdata)
{
	struct exec_source *source = userdata;

	while (size > 0) {
		const char *newline =
			source->match->mode == EXEC_WATCH ? memchr(data, '\n', size) : NULL;
		size_t length = newline ? (size_t)(newline - data) : size;

		source->too_long = source->text.size + length > EXEC_DOCUMENT_MAX;
		if (source->too_long || !exec_text_add(&source->text, data, length))
			return false;
		if (newline) {
			end_line(source);
			length++;
		}
		data += length;
		size -= length;
	}
	return true;
}

/* --- runs --- */

static void plan_next(struct exec_source *source)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (source->match->mode == EXEC_POLL) {
		arm(source, MAX_OF(now + source->match->interval, source->reading.not_before));
		return;
	}
	if (source->backoff == 0 || now - source->started >= STABLE_AFTER)
		source->backoff = BACKOFF_FIRST;
	arm(source, now + source->backoff);
	source->backoff = MIN_OF(2 * source->backoff, BACKOFF_MAX);
}

static void end_of_poll(struct exec_source *source, int status, const struct error *error)
{
	if (status < 0)
		fail(source, NULL, "%s", error->message);
	else
		read_document(source, &source->text, 0);
}

static void end_of_watch(struct exec_source *source, int status, const struct error *error)
{
	const char *program = source->match->command.items[0];

	if (source->complete_line > 0)
		read_complete_line(source);
	if (status == -ETIMEDOUT)
		fail(source, NULL, "%s wrote no line within %g s and was killed", program,
			(double)(source->line > 0 ? source->match->heartbeat
						  : source->match->timeout) /
				(double)USEC_PER_SEC);
	else if (status < 0)
		fail(source, NULL, "%s", error->message);
	else
		fail(source, NULL,
			"%s exited%s; it must keep running and write a line for every change",
			program, source->text.size > 0 ? " within a line" : "");
}

static void on_end(int status, const struct error *error, void *userdata)
{
	struct exec_source *source = userdata;

	source->command = command_free(source->command);
	if (source->too_long)
		fail(source, NULL, "%s was killed: it wrote more than %zu bytes%s",
			source->match->command.items[0], EXEC_DOCUMENT_MAX,
			source->match->mode == EXEC_WATCH ? " without a newline" : "");
	else if (source->match->mode == EXEC_WATCH)
		end_of_watch(source, status, error);
	else
		end_of_poll(source, status, error);
	exec_text_done(&source->text);
	plan_next(source);
}

static uint64_t hash_words(char *const *words)
{
	uint64_t hash = 0;

	while (*words)
		hash = hash * 31 + hash_string(*words++);
	return hash;
}

static int start(struct exec_source *source, struct error *error)
{
	_cleanup_free_ char **argv =
		exec_program_words(&source->match->command, source->program_root);
	_cleanup_strings_ struct strings subjects = { 0 };

	/* Another source may run the same command, after a reload or a restart. */
	if (!argv || command_subject(&subjects, "list %" PRIx64, hash_words(argv)) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	return command_start_reading(source->event, argv, &subjects, -EBADF, source->match->timeout,
		on_data, on_end, source, &source->command, error);
}

static void run(struct exec_source *source)
{
	struct error error;

	source->started = now_usec(CLOCK_MONOTONIC);
	source->line = 0;
	source->too_long = false;
	if (start(source, &error) < 0) {
		fail(source, NULL, "%s", error.message);
		plan_next(source);
	}
}

static int on_timer(sd_event_source *timer, uint64_t usec, void *userdata)
{
	struct exec_source *source = userdata;

	if (source->complete_line > 0)
		read_complete_line(source);
	else if (!source->command)
		run(source);
	return 0;
}

/* --- the whole --- */

int exec_source_new(sd_event *event, const struct exec_match *match, const char *program_root,
	struct exec_list *list, void (*on_change)(void *userdata), void *userdata,
	struct exec_source **ret)
{
	struct exec_source *source = calloc(1, sizeof(*source));
	int r;

	if (!source)
		return -ENOMEM;
	source->event = event;
	source->match = match;
	source->program_root = program_root;
	source->on_change = on_change;
	source->userdata = userdata;
	source->list = list ? exec_list_ref(list) : NULL;
	r = sd_event_add_time(event, &source->timer, CLOCK_MONOTONIC, 0, 1, on_timer, source);
	if (r >= 0)
		r = sd_event_add_time(event, &source->quiet_timer, CLOCK_MONOTONIC, USEC_INFINITY,
			1, on_quiet, source);
	if (r < 0) {
		(void)exec_source_free(source);
		return r;
	}
	*ret = source;
	return 0;
}

struct exec_source *exec_source_free(struct exec_source *source)
{
	if (!source)
		return NULL;
	(void)command_free(source->command);
	(void)sd_event_source_disable_unref(source->timer);
	(void)sd_event_source_disable_unref(source->quiet_timer);
	(void)exec_list_unref(source->list);
	exec_text_done(&source->text);
	exec_text_done(&source->complete);
	failure_done(&source->failure);
	failure_done(&source->waiting);
	free(source);
	return NULL;
}

const struct exec_match *exec_source_match(const struct exec_source *source)
{
	return source->match;
}

struct exec_list *exec_source_list(const struct exec_source *source)
{
	return source->list;
}

bool exec_source_answered(const struct exec_source *source)
{
	return source->answered;
}

const char *exec_source_failure(const struct exec_source *source)
{
	return source->failure.text;
}
