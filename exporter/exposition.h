/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The text format of Prometheus, version 0.0.4. A family is begun once, and its samples follow; a
 * family without samples is left out. If there is not enough memory, no text is made.
 */

#include "common/util.h"

#define EXPOSITION_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct exposition {
	char *text;
	size_t size, capacity;
	bool failed; /* out of memory */
	/* The current family. */
	const char *name, *type, *help;
	bool shown; /* has a sample */
};

struct label {
	const char *name, *value; /* a value NULL or "" is left out */
};

/* `type` is "counter", "gauge", "summary" or "histogram". The texts must exist until the next
 * family begins. */
void exposition_begin(
	struct exposition *exposition, const char *name, const char *type, const char *help);

/* Adds a sample of the family, with `suffix` ("_sum", or "") behind its name. */
void exposition_add(struct exposition *exposition, const char *suffix, const struct label *labels,
	size_t n_labels, uint64_t value);

/* As exposition_add(); writes microseconds as seconds. */
void exposition_add_seconds(struct exposition *exposition, const char *suffix,
	const struct label *labels, size_t n_labels, uint64_t usec);

/* Frees the text. */
void exposition_done(struct exposition *exposition);
