/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes TAP line by line, so that a run can be watched. JUnit needs the totals first and is kept
 * in memory until the end.
 */
#include "kubelet/conformance/trial-report.h"

#include "common/text.h"

#define ISSUES "https://github.com/kubernetes/kubernetes/issues/"

struct report {
	const char *junit;
	FILE *file; /* of that name; NULL: standard output, or no JUnit */
	bool tap;
	unsigned n, counts[3]; /* results, by kind */
	FILE *body;            /* of the JUnit file */
	char *body_text;
	size_t body_size;
};

int report_new(const char *junit, size_t n_results, struct report **ret, struct error *error)
{
	struct report *report = calloc(1, sizeof(*report));

	if (!report)
		return error_set(error, -ENOMEM, "out of memory");
	report->junit = junit;
	report->tap = !junit || !streq(junit, "-");
	report->body = open_memstream(&report->body_text, &report->body_size);
	if (!report->body) {
		free(report);
		return error_set(error, -ENOMEM, "out of memory");
	}
	/* An invalid file is reported now, not after the whole run. */
	if (junit && report->tap)
		report->file = fopen(junit, "we");
	if (junit && report->tap && !report->file) {
		int code = errno;

		(void)report_free(report);
		return error_set(error, -code, "cannot write %s: %s", junit, strerror(code));
	}
	if (report->tap)
		(void)printf("TAP version 13\n1..%zu\n", n_results);
	*ret = report;
	return 0;
}

/* The plugin's name for the resource, which may be any text. */
static char *resource_text(const struct trial *trial, char *buffer, size_t size)
{
	(void)snprintf(buffer, size, "%s", trial->resource ? trial->resource : "(no resource)");
	text_sanitize(buffer);
	return buffer;
}

#define RESOURCE(trial) resource_text(trial, (char[320]){ 0 }, 320)

/* A reader of TAP treats the text after a '#' as a directive. */
static void print_description(const char *text)
{
	for (; *text; text++) {
		if (*text == '#' || *text == '\\')
			(void)putchar('\\');
		(void)putchar(*text);
	}
}

static size_t first_trace(const struct trial *trial)
{
	return trial->n_traced > TRACE_MAX ? trial->n_traced - TRACE_MAX : 0;
}

static const char *trace_line(const struct trial *trial, size_t i)
{
	const char *line = trial->trace[i % TRACE_MAX];

	return line ? line : "";
}

static void add_tap(const struct report *report, const struct conformance_case *self,
	const struct trial *trial, enum outcome outcome)
{
	(void)printf("%s %u - %u %s ", outcome == OUTCOME_NOT_OK ? "not ok" : "ok", report->n,
		self->number, self->name);
	print_description(RESOURCE(trial));
	(void)printf(": %s", self->title);
	if (outcome == OUTCOME_SKIP)
		(void)printf(" # SKIP %s", trial->message);
	(void)putchar('\n');
	if (outcome == OUTCOME_SKIP)
		return;
	(void)printf("#   why: %s\n", self->reason);
	if (self->issue > 0)
		(void)printf("#   issue: " ISSUES "%u\n", self->issue);
	if (outcome == OUTCOME_OK)
		return;
	(void)printf("#   seen: %s\n", trial->message);
	for (size_t i = first_trace(trial); i < trial->n_traced; i++)
		(void)printf("#   event: %s\n", trace_line(trial, i));
}

/* Takes text without control characters; XML does not allow U+FFFE and U+FFFF either. */
static void print_xml(FILE *to, const char *text)
{
	static const struct {
		const char *text, *instead;
	} replaced[] = {
		{ "&", "&amp;" },
		{ "<", "&lt;" },
		{ ">", "&gt;" },
		{ "\"", "&quot;" },
		{ "\xef\xbf\xbe", "?" },
		{ "\xef\xbf\xbf", "?" },
	};

	while (*text) {
		size_t i = 0;

		while (i < ARRAY_SIZE(replaced) && !startswith(text, replaced[i].text))
			i++;
		if (i < ARRAY_SIZE(replaced)) {
			(void)fputs(replaced[i].instead, to);
			text += strlen(replaced[i].text);
		} else {
			(void)fputc(*text++, to);
		}
	}
}

static void add_junit(const struct report *report, const struct conformance_case *self,
	const struct trial *trial, enum outcome outcome, uint64_t took)
{
	FILE *to = report->body;

	(void)fprintf(to, "  <testcase classname=\"");
	print_xml(to, RESOURCE(trial));
	(void)fprintf(to, "\" name=\"%u %s: ", self->number, self->name);
	print_xml(to, self->title);
	(void)fprintf(to, "\" time=\"%llu.%03llu\">\n", (unsigned long long)(took / USEC_PER_SEC),
		(unsigned long long)(took % USEC_PER_SEC / USEC_PER_MSEC));
	if (outcome != OUTCOME_OK) {
		(void)fprintf(
			to, "    <%s message=\"", outcome == OUTCOME_SKIP ? "skipped" : "failure");
		print_xml(to, trial->message);
		(void)fprintf(to, "\"/>\n");
	}
	(void)fprintf(to, "    <system-out>");
	print_xml(to, self->reason);
	if (self->issue > 0)
		(void)fprintf(to, " " ISSUES "%u", self->issue);
	for (size_t i = first_trace(trial); outcome == OUTCOME_NOT_OK && i < trial->n_traced; i++) {
		(void)fputc('\n', to);
		print_xml(to, trace_line(trial, i));
	}
	(void)fprintf(to, "</system-out>\n  </testcase>\n");
}

void report_add(struct report *report, const struct conformance_case *self,
	const struct trial *trial, enum outcome outcome, uint64_t took)
{
	report->n++;
	report->counts[outcome]++;
	add_junit(report, self, trial, outcome, took);
	if (!report->tap)
		return;
	add_tap(report, self, trial, outcome);
	(void)fflush(stdout);
}

void report_bail_out(struct report *report, const char *why)
{
	if (report->tap)
		(void)printf("Bail out! %s\n", why);
}

static int write_junit(struct report *report)
{
	FILE *to = report->tap ? TAKE_PTR(report->file) : stdout;

	(void)fprintf(to,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<testsuite name=\"devplug-kubelet conformance\" tests=\"%u\" failures=\"%u\" skipped=\"%u\">\n",
		report->n, report->counts[OUTCOME_NOT_OK], report->counts[OUTCOME_SKIP]);
	(void)fwrite(report->body_text, 1, report->body_size, to);
	(void)fprintf(to, "</testsuite>\n");
	if ((report->tap ? fclose(to) : fflush(to)) != 0)
		return -errno;
	return 0;
}

int report_finish(struct report *report, struct error *error)
{
	int r;

	if (report->tap) {
		(void)printf("# %u ok, %u not ok, %u skipped\n", report->counts[OUTCOME_OK],
			report->counts[OUTCOME_NOT_OK], report->counts[OUTCOME_SKIP]);
		if (fflush(stdout) != 0)
			return error_set(
				error, -errno, "cannot write the report: %s", strerror(errno));
	}
	if (!report->junit)
		return 0;
	r = fflush(report->body) == 0 ? write_junit(report) : -ENOMEM;
	if (r < 0)
		return error_set(error, r, "cannot write %s: %s", report->junit, strerror(-r));
	return 0;
}

struct report *report_free(struct report *report)
{
	if (!report)
		return NULL;
	if (report->file)
		(void)fclose(report->file);
	(void)fclose(report->body);
	free(report->body_text);
	free(report);
	return NULL;
}
