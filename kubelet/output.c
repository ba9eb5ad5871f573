/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues bytes and writes them when standard output is ready, in pieces that a pipe takes at once.
 * The descriptor is shared with other processes, so it is never made non-blocking.
 */
#include "kubelet/output.h"

#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>

#include "common/text.h"
#include "common/utf8.h"

#define QUEUE_MAX    (16U << 20)
#define REDRAW_DELAY (100 * USEC_PER_MSEC)
#define LAST_MAX     120

struct output {
	struct manager *manager;
	bool table;
	bool direct; /* a file: always ready */
	char *queue;
	size_t begin, end, size;
	uint64_t lost; /* events that found the queue full */
	sd_event_source *ready_source, *redraw_source;
	char last[LAST_MAX]; /* event, for the table */
};

/* Writes one piece. Returns 0 when the reader has closed. */
static int write_piece(struct output *output)
{
	size_t piece = MIN_OF(output->end - output->begin, (size_t)PIPE_BUF);
	ssize_t n = write(STDOUT_FILENO, output->queue + output->begin, piece);

	if (n < 0 && errno != EINTR && errno != EAGAIN)
		return 0;
	output->begin += n > 0 ? (size_t)n : 0;
	return 1;
}

static int on_ready(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct output *output = userdata;

	/* The reader has hung up, so the rest is dropped. */
	if ((revents & EPOLLOUT) == 0 || write_piece(output) == 0)
		output->begin = output->end;
	if (output->begin < output->end)
		return 0;
	output->begin = output->end = 0;
	return sd_event_source_set_enabled(source, SD_EVENT_OFF);
}

static int reserve(struct output *output, size_t n)
{
	size_t size = MAX_OF(output->size, (size_t)4096);
	char *grown;

	if (output->begin > 0) {
		memmove(output->queue, output->queue + output->begin, output->end - output->begin);
		output->end -= output->begin;
		output->begin = 0;
	}
	while (size < output->end + n)
		size *= 2;
	if (size > QUEUE_MAX)
		return -ENOBUFS;
	if (size == output->size)
		return 0;
	grown = realloc(output->queue, size);
	if (!grown)
		return -ENOMEM;
	output->queue = grown;
	output->size = size;
	return 0;
}

static int enqueue(struct output *output, const char *text, size_t n)
{
	if (output->size - output->end < n) {
		int r = reserve(output, n);

		if (r < 0)
			return r;
	}
	memcpy(output->queue + output->end, text, n);
	output->end += n;
	if (!output->direct)
		return sd_event_source_set_enabled(output->ready_source, SD_EVENT_ON);
	while (output->begin < output->end && write_piece(output) > 0)
		;
	output->begin = output->end = 0;
	return 0;
}

static int add_lost(struct output *output)
{
	char text[80];
	int n, r;

	if (output->lost == 0)
		return 0;
	n = snprintf(text, sizeof(text), "{\"event\": \"events-lost\", \"count\": %llu}\n",
		(unsigned long long)output->lost);
	r = enqueue(output, text, (size_t)n);
	if (r >= 0)
		output->lost = 0;
	return r;
}

static void remember(struct output *output, const char *line)
{
	size_t size = MIN_OF(strlen(line), sizeof(output->last) - 1);

	size = utf8_valid_length(line, size);
	memcpy(output->last, line, size);
	output->last[size] = '\0';
	text_sanitize(output->last);
}

void output_event(struct output *output, const json_t *event)
{
	_cleanup_free_ char *text = json_dumps(event, JSON_COMPACT);
	size_t n;

	if (!text)
		return;
	if (output->table) {
		remember(output, text);
		output_changed(output);
		return;
	}
	n = strlen(text);
	text[n] = '\n';
	if (add_lost(output) < 0 || enqueue(output, text, n + 1) < 0)
		output->lost++;
}

static void print_table(struct output *output, FILE *to)
{
	const struct model *model = output->manager->model;

	(void)fprintf(to, "\033[H\033[J%-48s %8s %11s %9s  %s\n", "RESOURCE", "CAPACITY",
		"ALLOCATABLE", "ALLOCATED", "ENDPOINT");
	for (size_t i = 0; i < model->n_resources; i++) {
		const struct resource *resource = model->resources[i];
		const struct endpoint *endpoint = &resource->endpoint;
		char state[NAME_MAX + 1];

		(void)snprintf(state, sizeof(state), "%s",
			!endpoint->present          ? "-"
				: endpoint->stopped ? "stopped"
						    : strrchr(endpoint->path, '/') + 1);
		text_sanitize(state);
		(void)fprintf(to, "%-48s %8zu %11zu %9zu  %s\n", resource->name,
			resource_capacity(resource), resource_allocatable(resource),
			resource->allocated.count, state);
	}
	(void)fprintf(to, "\n%s\n", output->last);
}

static int on_redraw(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct output *output = userdata;
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *to;

	sd_event_source_disable_unref(TAKE_PTR(output->redraw_source));
	to = open_memstream(&text, &size);
	if (!to)
		return 0;
	print_table(output, to);
	if (fclose(to) == 0)
		(void)enqueue(output, text, size);
	return 0;
}

void output_changed(struct output *output)
{
	if (!output->table || output->redraw_source)
		return;
	(void)sd_event_add_time_relative(output->manager->event, &output->redraw_source,
		CLOCK_MONOTONIC, REDRAW_DELAY, 0, on_redraw, output);
}

int output_new(struct manager *manager, bool force_json, struct output **ret)
{
	struct output *output = calloc(1, sizeof(*output));
	int r;

	if (!output)
		return -ENOMEM;
	output->manager = manager;
	output->table = !force_json && isatty(STDOUT_FILENO);
	r = sd_event_add_io(
		manager->event, &output->ready_source, STDOUT_FILENO, EPOLLOUT, on_ready, output);
	if (r == -EPERM)
		output->direct = true;
	else if (r >= 0)
		r = sd_event_source_set_enabled(output->ready_source, SD_EVENT_OFF);
	if (r < 0 && !output->direct) {
		(void)output_free(output);
		return r;
	}
	*ret = output;
	return 0;
}

static bool is_ready(void)
{
	struct pollfd reader = { .fd = STDOUT_FILENO, .events = POLLOUT };

	return poll(&reader, 1, 0) > 0 && (reader.revents & POLLOUT) != 0;
}

struct output *output_free(struct output *output)
{
	if (!output)
		return NULL;
	sd_event_source_disable_unref(output->ready_source);
	sd_event_source_disable_unref(output->redraw_source);
	while (output->begin < output->end && is_ready() && write_piece(output) > 0)
		;
	free(output->queue);
	free(output);
	return NULL;
}
