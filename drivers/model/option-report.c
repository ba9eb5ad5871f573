/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the problems of a configuration, so that one run shows all of them. An entry owns all
 * its text, because a report outlives the configuration, which does not exist after a failure.
 */
#include "drivers/model/option.h"

#include "common/text.h"

static int entry_make(const struct origin *origin, const char *text, struct report_entry *ret_entry)
{
	const char *file = origin && origin->file ? origin->file : "";
	size_t length = strlen(text);
	/* One block holds the text and, behind it, the file's name. */
	char *block = malloc(length + 1 + strlen(file) + 1);

	if (!block)
		return -ENOMEM;
	(void)strcpy(block, text);
	(void)strcpy(block + length + 1, file);
	*ret_entry = (struct report_entry){
		.origin = { .file = block + length + 1, .line = origin ? origin->line : 0 },
		.text = block,
	};
	return 0;
}

int report_add(struct report *report, const struct origin *origin, const char *key,
	const char *format, ...)
{
	_cleanup_free_ char *what = NULL, *text = NULL;
	char entry[32] = "";
	va_list ap;
	int n;

	if (report->entry > 0) {
		key = key && streq(key, "match") ? NULL : key;
		(void)snprintf(
			entry, sizeof(entry), "match[%zu]%s", report->entry - 1, key ? "." : ": ");
	}
	va_start(ap, format);
	n = vformat_text(&what, format, ap);
	va_end(ap);
	if (n < 0)
		goto incomplete;
	n = format_text(&text, "%s%s%s%s%s%s", report->context ? report->context : "",
		report->context ? ": " : "", entry, key ? key : "", key ? ": " : "", what);
	if (n < 0)
		goto incomplete;
	text_sanitize(text);
	if (array_reserve((void **)&report->entries, report->count, sizeof(*report->entries)) < 0 ||
		entry_make(origin, text, &report->entries[report->count]) < 0)
		goto incomplete;
	report->count++;
	return -EINVAL;

incomplete:
	report->incomplete = true;
	return -ENOMEM;
}

void report_done(struct report *report)
{
	for (size_t i = 0; i < report->count; i++)
		free(report->entries[i].text);
	free(report->entries);
	*report = (struct report){ 0 };
}
