/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides where a log record goes (journal, terminal, supervisor) and in which form. One record is
 * one system call: a line is written whole or not at all, so records of several processes on one
 * stderr never mix. Untrusted text is made harmless here.
 */
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>

#include "common/log.h"
#include "common/text.h"

#define RECORD_MAX 2048
#define FIELDS_MAX 10

static struct {
	const char *program;
	enum log_target target; /* never LOG_TARGET_AUTO */
	bool journal;
	int max_level;
	log_observer observer;
	void *userdata;
} log_state = { .program = "devplugd", .target = LOG_TARGET_TEXT, .max_level = LOG_INFO };

/* The fields of one journal record: "NAME=value" strings behind each other in one buffer. */
struct record {
	struct iovec fields[FIELDS_MAX];
	int n_fields;
	size_t used;
	char buffer[2 * RECORD_MAX];
};

static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
		fstat(STDERR_FILENO, &st) == 0 && st.st_dev == (dev_t)device &&
		st.st_ino == (ino_t)inode;
}

void log_setup(const char *program, enum log_target target, int max_level)
{
	log_state.program = program;
	log_state.journal = target == LOG_TARGET_AUTO && stderr_is_journal();
	log_state.target = target == LOG_TARGET_AUTO ? LOG_TARGET_TEXT : target;
	log_state.max_level = max_level;
}

void log_set_max_level(int max_level)
{
	log_state.max_level = max_level;
}

bool log_is_journal(void)
{
	return log_state.journal;
}

static const struct {
	const char *name;
	int level;
} levels[] = {
	{ "error", LOG_ERR },
	{ "warning", LOG_WARNING },
	{ "notice", LOG_NOTICE },
	{ "info", LOG_INFO },
	{ "debug", LOG_DEBUG },
};

const char *log_level_name(int level)
{
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(levels) && levels[i].level < level)
		i++;
	return levels[i].name;
}

void log_set_observer(log_observer observer, void *userdata)
{
	log_state.observer = observer;
	log_state.userdata = userdata;
}

/* A field that does not fit is left out rather than cut. */
_printf_(2, 3) static void record_add(struct record *record, const char *format, ...)
{
	size_t room = sizeof(record->buffer) - record->used;
	char *field = record->buffer + record->used;
	va_list ap;
	int n;

	assert(record->n_fields < FIELDS_MAX);

	va_start(ap, format);
	n = vsnprintf(field, room, format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= room)
		return;
	record->fields[record->n_fields++] =
		(struct iovec){ .iov_base = field, .iov_len = (size_t)n };
	record->used += (size_t)n + 1;
}

static void write_journal(int level, const struct log_fields *fields, const char *text)
{
	const char *prefix = fields->named ? NULL : fields->resource;
	struct record record = { 0 };

	record_add(&record, "MESSAGE=%s%s%s", prefix ?: "", prefix ? ": " : "", text);
	record_add(&record, "PRIORITY=%d", level);
	record_add(&record, "SYSLOG_IDENTIFIER=%s", log_state.program);
	if (fields->message_id)
		record_add(&record, "MESSAGE_ID=%s", fields->message_id);
	if (fields->resource)
		record_add(&record, "DEVPLUGD_RESOURCE=%s", fields->resource);
	if (fields->device)
		record_add(&record, "DEVPLUGD_DEVICE=%s", fields->device);
	if (fields->child_pid > 0)
		record_add(&record, "DEVPLUGD_CHILD_PID=%d", (int)fields->child_pid);
	if (fields->generation > 0)
		record_add(&record, "DEVPLUGD_GENERATION=%llu",
			(unsigned long long)fields->generation);
	if (fields->config_file)
		record_add(&record, "CONFIG_FILE=%s", fields->config_file);
	if (fields->config_line > 0)
		record_add(&record, "CONFIG_LINE=%u", fields->config_line);
	(void)sd_journal_sendv(record.fields, record.n_fields);
}

/* The prefix from which the supervisor makes a record with fields. */
static int format_for_parent(
	char *line, size_t size, int level, const struct log_fields *fields, const char *text)
{
	const char *device = fields->device && !strchr(fields->device, '>') ? fields->device : "";

	if (fields->message_id)
		return snprintf(line, size, "<%d;%s>%s\n", level, device, text);
	return snprintf(line, size, "<%d>%s\n", level, text);
}

static void write_line(const char *line, size_t length)
{
	(void)RETRY_ON_EINTR(write(STDERR_FILENO, line, length));
}

void log_full(int level, const struct log_fields *fields, const char *format, ...)
{
	static const struct log_fields none;
	int saved_errno = errno, n;
	char text[RECORD_MAX], line[RECORD_MAX + 512];
	va_list ap;

	bool shown = level <= log_state.max_level;
	bool observed = log_state.observer && level <= LOG_INFO;

	if (!shown && !observed)
		return;
	if (!fields)
		fields = &none;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	text_sanitize(text);

	if (observed)
		log_state.observer(level, fields, text, log_state.userdata);
	if (!shown) {
		errno = saved_errno;
		return;
	}
	if (log_state.journal) {
		write_journal(level, fields, text);
	} else {
		const char *prefix = fields->named ? NULL : fields->resource;

		if (log_state.target == LOG_TARGET_PARENT)
			n = format_for_parent(line, sizeof(line), level, fields, text);
		else
			n = snprintf(line, sizeof(line), "%s: %s%s%s\n", log_state.program,
				prefix ?: "", prefix ? ": " : "", text);
		if (n > 0)
			write_line(line, MIN_OF((size_t)n, sizeof(line) - 1));
	}
	errno = saved_errno;
}

bool log_budget_admits(struct log_budget *budget, const struct log_fields *fields)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (budget->begun == 0 || now - budget->begun >= LOG_BUDGET_INTERVAL)
		*budget = (struct log_budget){ .begun = now };
	if (budget->used > LOG_BUDGET_BURST)
		return false;
	if (budget->used++ < LOG_BUDGET_BURST)
		return true;
	log_full(LOG_WARNING, fields,
		"more than %d messages of this kind in %llu s: further ones are "
		"not logged",
		LOG_BUDGET_BURST, LOG_BUDGET_INTERVAL / USEC_PER_SEC);
	return false;
}

static uint64_t hash_without_line(const char *text)
{
	const char *number = startswith(text, "line ");
	const char *rest = number ? number + strspn(number, "0123456789") : text;

	return hash_string(rest);
}

bool log_once_admits_within(struct log_once *once, struct log_budget *budget,
	const struct log_fields *fields, const char *text)
{
	uint64_t hash = text ? hash_without_line(text) : 0, now = now_usec(CLOCK_MONOTONIC);
	size_t oldest = 0;

	if (!text) {
		*once = (struct log_once){ 0 };
		return false;
	}
	for (size_t i = 0; i < LOG_ONCE_MAX; i++) {
		if (once->texts[i].logged_at > 0 && once->texts[i].hash == hash &&
			now - once->texts[i].logged_at < LOG_ONCE_AGE)
			return false;
		if (once->texts[i].logged_at < once->texts[oldest].logged_at)
			oldest = i;
	}
	if (budget && !log_budget_admits(budget, fields))
		return false;
	once->texts[oldest].hash = hash;
	once->texts[oldest].logged_at = now;
	return true;
}

bool log_once_admits(struct log_once *once, const char *text)
{
	return log_once_admits_within(once, NULL, NULL, text);
}
