/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Results as they come: TAP (version 14 takes it, 13 too) on standard output, and JUnit XML for
 * machines that collect tests.
 */

#include "kubelet/conformance/conformance.h"

struct report;

/* `junit` is a file, "-" for standard output in the place of TAP, or NULL. */
int report_new(const char *junit, size_t n_results, struct report **ret, struct error *error);

/* One result; on failure with what was seen: the trial's message and last events. */
void report_add(struct report *report, const struct conformance_case *self,
	const struct trial *trial, enum verdict verdict, uint64_t took);

/* The run ends before its end. */
void report_bail_out(struct report *report, const char *why);

/* Writes the rest out. Returns 0 or negative errno. */
int report_finish(struct report *report, struct error *error);
struct report *report_free(struct report *report);
DEFINE_CLEANUP(struct report *, report_free)
