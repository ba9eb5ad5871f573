/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Programs on the host of the test that name devices and are asked about them, one inquiry at a
 * time, and how it ended.
 */

#include "inventory-fixture.h"

#include "drivers/allocation/allocation-inquiry.h"

static struct inquiry *inquiry;
static struct snapshot *snapshot;
static unsigned ended;
static int end_status;
static struct error end_error;

static inline int inquiry_setup(void **state)
{
	ended = 0;
	return host_setup(state);
}

static inline int inquiry_teardown(void **state)
{
	inquiry = inquiry_free(inquiry);
	snapshot = snapshot_unref(snapshot);
	return inventory_teardown(state);
}

/* A shell script, which runs in the root of the host. */
static inline void program(const char *name, const char *script)
{
	_cleanup_free_ char *text = NULL;
	char path[512];

	assert_true(asprintf(&text, "#!/bin/sh\ncd %s\n%s\n", host_root, script) > 0);
	host_write(name, text);
	host_path(path, name);
	assert_int_equal(chmod(path, 0755), 0);
}

/* One that names devices, or answers. */
static inline void writes(const char *name, const char *document)
{
	_cleanup_free_ char *script = NULL;

	assert_true(
		asprintf(&script, "cat > told%s\ncat <<'END'\n%s\nEND", name + 1, document) > 0);
	program(name, script);
}

static inline void names(const char *name, const char *devices)
{
	_cleanup_free_ char *document = NULL;

	assert_true(asprintf(&document, "{\"version\": 1, \"devices\": [%s]}", devices) > 0);
	writes(name, document);
}

static inline const struct snapshot *renewed_snapshot(void)
{
	(void)snapshot_unref(snapshot);
	snapshot = inventory_snapshot(inventory);
	return snapshot;
}

/* Declares the entries of match and waits until all devices are there. */
static inline void begin(const char *entries, const char *more, size_t n_devices)
{
	_cleanup_free_ char *text = NULL;

	snapshot = snapshot_unref(snapshot);
	assert_true(asprintf(&text, "driver = \"exec\"; match = ( %s ); %s", entries, more) > 0);
	start(text);
	RUN_UNTIL(renewed_snapshot()->n_units >= n_devices);
}

static inline void on_end(int status, const struct error *error, void *userdata)
{
	ended++;
	end_status = status;
	end_error = *error;
}

static inline int ask(const char *const *ids, size_t n_ids, struct error *error)
{
	int r = inquiry_new(
		declaration_of(config), snapshot, host_root, ids, n_ids, NULL, &inquiry, error);

	if (r >= 0 && inquiry_count(inquiry) > 0)
		r = inquiry_start(
			inquiry, host_event, now_usec(CLOCK_MONOTONIC), on_end, NULL, error);
	return r;
}

#define ASK(...)                                              \
	do {                                                  \
		const char *_ids[] = { __VA_ARGS__ };         \
		struct error _error;                          \
		if (ask(_ids, ARRAY_SIZE(_ids), &_error) < 0) \
			fail_msg("%s", _error.message);       \
	} while (0)

static inline char *read_file(const char *name)
{
	static char text[4096];
	char path[512];
	FILE *stream;

	host_path(path, name);
	stream = fopen(path, "re");
	if (!stream || !fgets(text, sizeof(text), stream))
		text[0] = '\0';
	if (stream)
		(void)fclose(stream);
	return text;
}

#define ENTRY                                                                              \
	"{ command = \"/list\"; interval = 3600; allocate = [ \"/allocate\", \"word\" ]; " \
	"allocate_timeout = 10; }"
#define OTHER_ENTRY                                                             \
	"{ command = \"/other-list\"; interval = 3600; allocate = \"/other\"; " \
	"allocate_timeout = 10; }"
