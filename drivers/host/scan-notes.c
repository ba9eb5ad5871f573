/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which problems of a scan are logged, and when: the notes that scan.c collected are
 * compared with the notes of the previous scan, so that each is logged once.
 */
#include "drivers/host/scan-notes.h"
#include "common/error.h"
#include "drivers/host/watch.h"

/* Whether the texts differ only in numbers that are words, such as a number of devices. */
static bool differs_in_counts(const char *a, const char *b)
{
	for (; *a == *b && *a; a++, b++)
		if (*a == ' ') {
			size_t x = strspn(a + 1, "0123456789"), y = strspn(b + 1, "0123456789");

			if (x > 0 && y > 0 && a[x + 1] == b[y + 1]) {
				a += x;
				b += y;
			}
		}
	return *a == *b;
}

static bool explains_already(const struct strings *texts, const char *text)
{
	for (size_t i = 0; i < texts->count; i++)
		if (differs_in_counts(texts->items[i], text))
			return true;
	return false;
}

/* Devices that appear and disappear change the numbers; each change would be a line of the log. */
static void take_explanations(struct scan_notes *notes, struct scan *scan)
{
	for (size_t i = 0; i < scan->explanations.count; i++) {
		const char *text = scan->explanations.items[i];

		if (!explains_already(&notes->notes, text) &&
			log_once_admits(&notes->logged_notes, text))
			log_full(LOG_NOTICE, &notes->fields, "%s", text);
		(void)strings_add(&scan->notes, text, strlen(text));
	}
}

bool scan_notes_take(struct scan_notes *notes, struct scan *scan)
{
	struct strings old = notes->notes;

	if (scan->notes.count == 0 && scan->explanations.count == 0)
		(void)log_once_admits(&notes->logged_notes, NULL);
	for (size_t i = 0; i < scan->notes.count; i++)
		if (!strings_contain(&old, scan->notes.items[i]) &&
			log_once_admits(&notes->logged_notes, scan->notes.items[i]))
			log_full(LOG_WARNING, &notes->fields, "%s", scan->notes.items[i]);
	take_explanations(notes, scan);
	notes->notes = scan->notes;
	scan->notes = old;
	return !strings_equal(&notes->notes, &old);
}

void scan_notes_take_missing(struct scan_notes *notes, const struct scan *scan, uint64_t interval)
{
	unsigned long long seconds = interval / USEC_PER_SEC;

	if (scan->watch_error < 0 && !notes->watches_missing)
		log_full(LOG_WARNING, &notes->fields,
			"Directories cannot be watched (%s), so they are scanned every %llu s",
			watch_strerror(scan->watch_error), seconds);
	if (scan->events_error < 0 && !notes->events_missing)
		log_full(LOG_WARNING, &notes->fields,
			"Device events of the kernel cannot be received (%s), so devices are scanned every "
			"%llu s; the service needs RestrictAddressFamilies= with AF_NETLINK",
			strerror(-scan->events_error), seconds);
	notes->watches_missing = scan->watch_error < 0;
	notes->events_missing = scan->events_error < 0;
}

bool scan_notes_take_end(struct scan_notes *notes, const struct error *error)
{
	if (!notes->failure && !error)
		return false;
	if (notes->failure && error && streq(notes->failure, error->message))
		return false;
	if (log_once_admits(&notes->logged_failures, error ? error->message : NULL))
		log_full(LOG_ERR, &notes->fields,
			"Devices could not be listed, the last list stays in use: %s",
			error->message);
	else if (!error)
		log_full(LOG_NOTICE, &notes->fields, "Devices can be listed again");
	free(notes->failure);
	notes->failure = error ? strdup(error->message) : NULL;
	return true;
}

void scan_notes_done(struct scan_notes *notes)
{
	strings_done(&notes->notes);
	free(notes->failure);
	*notes = (struct scan_notes){ 0 };
}
