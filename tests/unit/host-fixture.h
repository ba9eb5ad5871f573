/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A directory tree that stands for a machine, a resource declared by a text, what is seen of its
 * devices, and an event loop that runs until something is so.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <systemd/sd-event.h>

#include "configuration/config.h"
#include "drivers/inventory/inventory.h"

/* libconfig 1.5 loses the string before a syntax error. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libconfig.so\n";
}

/* Long enough for any machine; passing it means that what is waited for never comes. */
#define PATIENCE (20 * USEC_PER_SEC)

static char host_root[64];
static sd_event *host_event;

/* The text made from a format, until sixteen later ones. */
_printf_(1, 2) static inline const char *made(const char *format, ...)
{
	static char texts[16][400];
	static unsigned next;
	char *text = texts[next++ % ARRAY_SIZE(texts)];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(texts[0]), format, ap);
	va_end(ap);
	return text;
}

static inline void host_path(char path[static 512], const char *name)
{
	(void)snprintf(path, 512, "%s%s", host_root, name);
}

static inline void host_mkdir(const char *name)
{
	char path[512];

	host_path(path, name);
	for (char *p = path + strlen(host_root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		(void)mkdir(path, 0755);
		*p = '/';
	}
	(void)mkdir(path, 0755);
}

static inline void host_write(const char *name, const char *text)
{
	char path[512];
	FILE *stream;

	host_path(path, name);
	stream = fopen(path, "we");
	assert_non_null(stream);
	(void)fputs(text, stream);
	assert_int_equal(fclose(stream), 0);
}

/* Writes a file beside and puts it in place in one step. */
static inline void host_replace(const char *name, const char *text)
{
	char path[512], beside[520];

	host_path(path, name);
	(void)snprintf(beside, sizeof(beside), "%s.new", path);
	host_write(beside + strlen(host_root), text);
	assert_int_equal(rename(beside, path), 0);
}

/* A character device. Since Linux 5.8, the number 0:0 needs no privilege. */
static inline void host_mknod(const char *name)
{
	char path[512];

	host_path(path, name);
	assert_int_equal(mknod(path, S_IFCHR | 0600, makedev(0, 0)), 0);
}

static inline void host_touch(const char *name)
{
	host_write(name, "");
}

/* How many lines of the file are that one. */
static inline size_t host_count_lines(const char *name, const char *line)
{
	char path[512], text[64];
	size_t n = 0;
	FILE *stream;

	host_path(path, name);
	stream = fopen(path, "re");
	assert_non_null(stream);
	while (fgets(text, sizeof(text), stream))
		n += strncmp(text, line, strlen(line)) == 0 && text[strlen(line)] == '\n';
	(void)fclose(stream);
	return n;
}

/* Neither a device nor a file nor a directory. */
static inline void host_mkfifo(const char *name)
{
	char path[512];

	host_path(path, name);
	assert_int_equal(mkfifo(path, 0600), 0);
}

static inline void host_symlink(const char *target, const char *name)
{
	char path[512];

	host_path(path, name);
	assert_int_equal(symlink(target, path), 0);
}

static inline void host_remove(const char *name)
{
	char path[512];

	host_path(path, name);
	assert_int_equal(remove(path), 0);
}

static inline void host_rename(const char *from, const char *to)
{
	char from_path[512], to_path[512];

	host_path(from_path, from);
	host_path(to_path, to);
	assert_int_equal(rename(from_path, to_path), 0);
}

static inline int host_setup(void **state)
{
	(void)strcpy(host_root, "/tmp/devplugd-test-host.XXXXXX");
	if (!mkdtemp(host_root) || sd_event_new(&host_event) < 0)
		return -1;
	host_mkdir("/dev");
	return 0;
}

static inline int host_remove_one(
	const char *path, const struct stat *st, int type, struct FTW *where)
{
	return remove(path);
}

static inline int host_teardown(void **state)
{
	host_event = sd_event_unref(host_event);
	return nftw(host_root, host_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Reads "driver = ...; match = ...;" and further keys; the name is vendor.example/unit. */
static inline struct config *declare(const char *text)
{
	_cleanup_report_ struct report report = { 0 };
	_cleanup_free_ char *whole = NULL;
	struct config *config = NULL;

	assert_true(asprintf(&whole, "name = \"vendor.example/unit\";\n%s", text) > 0);
	if (config_load_resource(whole, &report, &config) < 0)
		fail_msg("%s", report.count > 0 ? report.entries[0].text : "no reason given");
	return config;
}

/* The first problem that is found in the text, which must have one. */
static inline char *declare_problem(const char *text)
{
	_cleanup_report_ struct report report = { 0 };
	_cleanup_free_ char *whole = NULL;
	struct config *config = NULL;

	assert_true(asprintf(&whole, "name = \"vendor.example/unit\";\n%s", text) > 0);
	assert_int_equal(config_load_resource(whole, &report, &config), -EINVAL);
	assert_null(config);
	assert_true(report.count > 0);
	return strdup(report.entries[0].text);
}

static inline const struct declaration *declaration_of(const struct config *config)
{
	return &config->resources[0].declaration;
}

/* Has the kubelet book offered ids: lines of "ID", or "ID NODE". */
static inline int set_booked(struct inventory *inventory, const char *lines, uint64_t until)
{
	_cleanup_bookings_ struct bookings *bookings = NULL;
	char text[1024], *rest = NULL;

	(void)snprintf(text, sizeof(text), "%s", lines);
	assert_int_equal(bookings_new(&bookings), 0);
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *space = strchr(line, ' ');
		int node = space ? atoi(space + 1) : -1;

		if (space)
			*space = '\0';
		assert_int_equal(bookings_add(bookings, line, BOOKED_IN_PLUGIN, &node, 1, 0), 0);
	}
	assert_int_equal(bookings_sort(bookings), 0);
	return inventory_set_booked(inventory, bookings, until, 0);
}

/* "id", "id!" if unhealthy, and "id?" if removed, each with a space behind it. */
static inline const char *seen_in(struct inventory *inventory)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	static char text[8192];
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < snapshot->n_units && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s ",
			snapshot->units[i].device->id,
			snapshot->units[i].healthy           ? ""
				: snapshot->units[i].present ? "!"
							     : "?");
	return text;
}

/* Runs the loop until the condition holds. */
#define RUN_UNTIL(condition)                                                    \
	do {                                                                    \
		uint64_t _end = now_usec(CLOCK_MONOTONIC) + PATIENCE;           \
		while (!(condition)) {                                          \
			if (now_usec(CLOCK_MONOTONIC) > _end)                   \
				fail_msg("never became so: %s", #condition);    \
			assert_true(sd_event_run(host_event, 100 * 1000) >= 0); \
		}                                                               \
	} while (0)

/* Runs the loop for a time in which nothing is expected to happen. */
static inline void run_for(uint64_t usec)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC) + usec, now;

	while ((now = now_usec(CLOCK_MONOTONIC)) < end)
		assert_true(sd_event_run(host_event, end - now) >= 0);
}
