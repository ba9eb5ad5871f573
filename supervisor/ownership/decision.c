/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the claims of a child, which is not trusted, and writes results as a text of lines.
 */
#include "supervisor/ownership/decision.h"

#include "common/sealed.h"
#include "common/text.h"
#include "common/utf8.h"

static size_t count(const char *text, char c)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == c;
	return n;
}

static size_t count_claims(const char *text)
{
	size_t n = 0;

	while ((text = strchr(text, '\t')))
		n += is_plain_claim(++text) || *text == MARK_OPTIONAL || *text == MARK_CONTAINER;
	return n;
}

static bool id_is_valid(const char *id)
{
	char valid[DEVICE_ID_MAX + 1];

	device_id_make(id, valid);
	return streq(id, valid);
}

/* Sorts the parts of a line, which ends with a NUL, into claims and marks. Returns the end of what
 * it used of the pool. */
static const char **split_line(char *line, struct hardware_device *device, const char **pool)
{
	const char *entry, *end = line + strlen(line);

	device->claims = pool;
	for (entry = line; (entry = memchr(entry, '\t', (size_t)(end - entry)));) {
		entry++;
		if (is_plain_claim(entry) || *entry == MARK_OPTIONAL)
			*pool++ = entry + (*entry == MARK_OPTIONAL);
	}
	*pool++ = NULL;
	device->containers = pool;
	for (entry = line; (entry = memchr(entry, '\t', (size_t)(end - entry)));) {
		entry++;
		if (*entry == MARK_CONTAINER && pool - device->containers < DEVICE_MARKS_MAX)
			*pool++ = entry + 1;
	}
	*pool++ = NULL;
	device->marks = pool;
	for (char *tab = strchr(line, '\t'); tab; tab = strchr(tab + 1, '\t')) {
		*tab = '\0';
		if (!is_plain_claim(tab + 1) && tab[1] != MARK_CONTAINER &&
			pool - device->marks < DEVICE_MARKS_MAX)
			*pool++ = tab + 1;
	}
	*pool++ = NULL;
	device->id = line;
	return pool;
}

/* Cuts the text into its parts. */
static int split(struct hardware_claims *list)
{
	const char **pool = list->pool;
	char *line = list->text, *rest;

	for (; *line; line = rest) {
		struct hardware_device device;

		rest = strchr(line, '\n');
		if (!rest)
			return -EBADMSG;
		*rest++ = '\0';
		pool = split_line(line, &device, pool);
		if (!device.claims[0] && !device.marks[0] && !device.containers[0])
			return -EBADMSG;
		if (!*device.id && !list->given && !device.claims[0]) {
			list->given = device.marks;
			continue;
		}
		if (!id_is_valid(device.id))
			return -EBADMSG;
		list->devices[list->n_devices++] = device;
	}
	return 0;
}

int hardware_claims_read(int fd, size_t max_claims, size_t max_bytes, struct hardware_claims **ret)
{
	_cleanup_(hardware_claims_freep) struct hardware_claims *list = calloc(1, sizeof(*list));
	size_t lines, tabs;
	int r;

	if (!list)
		return -ENOMEM;
	r = sealed_read(fd, max_bytes, &list->text, &list->size);
	if (r < 0)
		return r;
	if (strlen(list->text) != list->size || !utf8_is_valid(list->text))
		return -EBADMSG;
	lines = count(list->text, '\n');
	tabs = count(list->text, '\t');
	if (lines > tabs)
		return -EBADMSG;
	list->n_claims = count_claims(list->text);
	if (list->n_claims > max_claims)
		return -EFBIG;
	list->devices = calloc(lines + 1, sizeof(*list->devices));
	/* An optional node is a claim and a mark; each list has an end. */
	list->pool = calloc(3 * lines + 2 * tabs + 1, sizeof(*list->pool));
	if (!list->devices || !list->pool)
		return -ENOMEM;
	r = split(list);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(list);
	return 0;
}

struct hardware_claims *hardware_claims_free(struct hardware_claims *list)
{
	if (!list)
		return NULL;
	free(list->pool);
	free(list->devices);
	free(list->text);
	free(list);
	return NULL;
}

/* --- results --- */

/* A stream that stays empty would leave a hole of 8 KiB in the heap. */
int decision_write(struct decision *decision, const char *id, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list arguments;
	int r;

	va_start(arguments, format);
	r = vformat_text(&text, format, arguments);
	va_end(arguments);
	if (r < 0)
		return r;
	/* Other plugins chose some of its words, and must not add lines. */
	text_sanitize(text);
	if (!decision->stream)
		decision->stream = open_memstream(&decision->owners, &decision->size);
	if (!decision->stream)
		return -ENOMEM;
	(void)fprintf(decision->stream, "%s\t%s\n", id, text);
	return 0;
}

int decision_close(struct decision *decision)
{
	FILE *stream = TAKE_PTR(decision->stream);
	bool failed = stream && ferror(stream);

	return stream && (fclose(stream) != 0 || failed) ? -ENOMEM : 0;
}

void decisions_done(struct decision *decisions, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(decisions[i].owners);
		free(decisions[i].note);
		decisions[i].owners = decisions[i].note = NULL;
	}
}
