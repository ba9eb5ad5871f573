/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which lines of a child's output reach the log, so that a child cannot flood it. The pipe
 * is read even where lines are too many: they are counted and left out, and the child goes on. Only
 * a flood of bytes makes the child wait for moments, so that reading cannot starve the event loop.
 */
#include "supervisor/process/relay.h"
#include "common/log.h"
#include "common/message-id.h"
#include "common/text.h"

struct relay {
	sd_event_source *source;
	int fd;
	const char *resource;
	pid_t pid;
	char line[RELAY_LINE_MAX + 1];
	size_t length;
	bool overlong; /* the rest of the line is left out */
	char last[RELAY_LINE_MAX + 1];
	uint64_t window_start;
	unsigned in_window, dropped;
};

static void report_dropped(struct relay *relay)
{
	struct log_fields fields = { .resource = relay->resource, .child_pid = relay->pid };

	if (relay->dropped > 0)
		log_full(LOG_WARNING, &fields,
			"dropped %u line%s of the child's output (limit: %d in %llu s)",
			relay->dropped, relay->dropped == 1 ? "" : "s", RELAY_BURST,
			RELAY_INTERVAL / USEC_PER_SEC);
	relay->dropped = 0;
}

static bool within_rate(struct relay *relay)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (now - relay->window_start >= RELAY_INTERVAL) {
		report_dropped(relay);
		relay->window_start = now;
		relay->in_window = 0;
	}
	if (relay->in_window >= RELAY_BURST) {
		relay->dropped++;
		return false;
	}
	relay->in_window++;
	return true;
}

/* "<N>", or "<N;DEVICE>" of a change of devices, the one identity that a child can use. Returns the
 * text behind it. */
static const char *take_prefix(char *line, int *level, struct log_fields *fields)
{
	char *end = strchr(line, '>');

	if (!end || line[0] != '<' || line[1] < '0' || line[1] > '7' ||
		(line[2] != ';' && end != line + 2))
		return line;
	/* A child's most urgent level is "error", because it cannot report failures of the
	 * system. */
	*level = MAX_OF(line[1] - '0', LOG_ERR);
	if (line[2] == ';') {
		*end = '\0';
		text_sanitize(line + 3);
		fields->message_id = MESSAGE_ID_DEVICE_CHANGED;
		fields->device = line[3] ? line + 3 : NULL;
	}
	return end + 1;
}

static void finish_line(struct relay *relay)
{
	struct log_fields fields = { .resource = relay->resource, .child_pid = relay->pid };
	const char *text;
	bool overlong = relay->overlong;
	int level = LOG_INFO;

	relay->line[relay->length] = '\0';
	relay->length = 0;
	relay->overlong = false;
	text = take_prefix(relay->line, &level, &fields);
	if (*text == '\0')
		return;
	(void)snprintf(relay->last, sizeof(relay->last), "%s", text);
	text_sanitize(relay->last);
	if (within_rate(relay))
		log_full(level, &fields, "%s%s", text, overlong ? " ..." : "");
}

static void take_bytes(struct relay *relay, const char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes[i] == '\n')
			finish_line(relay);
		else if (relay->length < RELAY_LINE_MAX)
			relay->line[relay->length++] = bytes[i] ?: '?';
		else
			relay->overlong = true;
	}
}

/* Returns false at the end of the pipe. */
static bool read_some(struct relay *relay)
{
	char buffer[4096];

	for (size_t total = 0; total < RELAY_READ_LIMIT;) {
		ssize_t n = RETRY_ON_EINTR(read(relay->fd, buffer, sizeof(buffer)));

		if (n < 0 && errno == EAGAIN)
			return true;
		if (n <= 0)
			return false;
		take_bytes(relay, buffer, (size_t)n);
		total += (size_t)n;
	}
	return true;
}

static int on_output(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	if (!read_some(userdata))
		(void)sd_event_source_set_enabled(source, SD_EVENT_OFF);
	return 0;
}

int relay_new(sd_event *event, int fd, const char *resource, pid_t pid, struct relay **ret)
{
	_cleanup_(relay_freep) struct relay *relay = calloc(1, sizeof(*relay));
	int r;

	if (!relay) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	relay->fd = fd;
	relay->resource = resource;
	relay->pid = pid;
	relay->window_start = now_usec(CLOCK_MONOTONIC);
	r = sd_event_add_io(event, &relay->source, fd, EPOLLIN, on_output, relay);
	if (r < 0)
		return r;
	r = sd_event_source_set_ratelimit(relay->source, RELAY_TURNS_INTERVAL, RELAY_TURNS);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(relay);
	return 0;
}

void relay_drain(struct relay *relay)
{
	(void)read_some(relay);
	if (relay->length > 0)
		finish_line(relay);
	report_dropped(relay);
}

const char *relay_last_line(const struct relay *relay)
{
	return relay->last;
}

struct relay *relay_free(struct relay *relay)
{
	if (!relay)
		return NULL;
	sd_event_source_disable_unref(relay->source);
	(void)close_fd(relay->fd);
	free(relay);
	return NULL;
}
