/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Configuration files in a directory of their own, and what loading them gives.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "configuration/config.h"

/* libconfig 1.5 loses the string before a syntax error. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libconfig.so\n";
}

static char directory[] = "/tmp/devplugd-test-config.XXXXXX";
static char main_file[128];

static inline int make_directory(void **state)
{
	if (!mkdtemp(directory))
		return -1;
	(void)snprintf(main_file, sizeof(main_file), "%s/main.conf", directory);
	return 0;
}

static inline int remove_directory(void **state)
{
	char command[128];

	(void)snprintf(command, sizeof(command), "rm -rf '%s'", directory);
	return system(command);
}

static inline void write_bytes(const char *path, const char *bytes, size_t size)
{
	FILE *stream = fopen(path, "we");

	assert_non_null(stream);
	assert_int_equal(fwrite(bytes, 1, size, stream), size);
	assert_int_equal(fclose(stream), 0);
}

static inline void write_file(const char *name, const char *text)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	write_bytes(path, text, strlen(text));
}

/* Loads a text that must be accepted. */
static inline struct config *load(const char *text)
{
	_cleanup_report_ struct report report = { 0 };
	struct config *config = NULL;

	write_bytes(main_file, text, strlen(text));
	if (config_load(main_file, &report, &config) < 0)
		fail_msg("%s:%u: %s", report.entries[0].origin.file, report.entries[0].origin.line,
			report.entries[0].text);
	assert_int_equal(report.count, 0);
	return config;
}

/* The problems of the file, "LINE: TEXT" each with a newline behind it. */
static inline char *problems(const char *path, int expected)
{
	_cleanup_report_ struct report report = { 0 };
	struct config *config = NULL;
	char *text = NULL;
	size_t size;
	FILE *stream;

	assert_int_equal(config_load(path, &report, &config), expected);
	assert_null(config);
	assert_null(report.context);
	stream = open_memstream(&text, &size);
	assert_non_null(stream);
	for (size_t i = 0; i < report.count; i++) {
		const struct report_entry *entry = &report.entries[i];

		if (!streq(entry->origin.file, path))
			(void)fprintf(stream, "%s:", strrchr(entry->origin.file, '/') + 1);
		(void)fprintf(stream, "%u: %s\n", entry->origin.line, entry->text);
	}
	assert_int_equal(fclose(stream), 0);
	return text;
}

/* The beginning of a resource that lacks nothing, and the end of it. */
#define ONE(keys) \
	"resources = (\n{ name = \"v.e/x\"; driver = \"path\"; match = \"/dev/x\";\n" keys "\n} );"
#define SAID(text) "3: resources[0] \"v.e/x\": " text "\n"
#define ABSOLUTE   "must be an absolute path beginning with \"/\", not "
