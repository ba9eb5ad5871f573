/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reports results as they arrive: TAP (valid for versions 13 and 14) on standard output, and JUnit
 * XML for CI systems.
 */

#include "kubelet/conformance/conformance.h"

struct report;

/* `junit` is a file, "-" for standard output instead of TAP, or NULL. */
int report_new(const char *junit, size_t n_results, struct report **ret, struct error *error);

/* Reports one result; a failure includes the trial's message and last events. */
void report_add(struct report *report, const struct conformance_case *self,
	const struct trial *trial, enum outcome outcome, uint64_t took);

/* Reports that the run ended early. */
void report_bail_out(struct report *report, const char *why);

/* Writes the rest. Returns 0 or negative errno. */
int report_finish(struct report *report, struct error *error);
struct report *report_free(struct report *report);
DEFINE_CLEANUP(struct report *, report_free)
