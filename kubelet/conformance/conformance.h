/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Black-box cases for device plugins and DRA drivers: each creates one situation that occurs on
 * real nodes, and checks the plugin's reaction. The cases are tables, one for each subject; a case
 * is known by its number, which never changes.
 */

#include "kubelet/conformance/trial.h"

/* The needs of a case. If one is not met, the case is skipped, or not ok if the plugin is
 * responsible for it. */
enum {
	NEEDS_SERVING = 1 << 0, /* the resource is served when the case begins */
	NEEDS_COMMAND = 1 << 1, /* the plugin can be started and killed */
	NEEDS_DEVICE = 1 << 2,  /* a healthy device */
	NEEDS_HEALTH = 1 << 3,  /* the hooks fail and heal */
	NEEDS_PLUG = 1 << 4,    /* the hooks unplug and plug */
	NEEDS_ROOT = 1 << 5,
	NEEDS_CLAIM = 1 << 7,    /* a claim with a device of the driver */
	NEEDS_REGISTER = 1 << 6, /* the plugin calls Register, and is not found by the watcher */
	NEEDS_API = 1 << 8,      /* the driver's API server is a devplug-apiserver */
};

struct conformance_case {
	unsigned number;
	const char *name;
	const char *title;  /* the claim that it tests */
	const char *reason; /* why it matters */
	unsigned issue;     /* of kubernetes/kubernetes; 0: there is none */
	unsigned needs;
	enum outcome (*run)(struct trial *trial, const struct conformance_case *self);
	const void *data; /* for run() */
};

struct case_table {
	const struct conformance_case *cases;
	size_t n;
};

/* Each table is in a file of its name: cases-registration.c, ... */
extern const struct case_table registration_cases, list_cases, allocation_cases, preference_cases,
	restart_cases, hostile_cases;

/* The cases for DRA drivers. */
extern const struct case_table dra_registration_cases, dra_claim_cases, dra_health_cases,
	dra_slice_cases, dra_server_cases;

/* Runs the cases and reports. Returns 0 if none was not ok, 1 if some were, or a negative errno if
 * the run could not take place. */
int conformance_run(const struct conformance_options *options, struct error *error);

/* Whether the list consists of numbers and ranges ("3,7-9") and names at least one case. */
bool conformance_selects(const char *list);

/* Prints the cases with reasons and links. */
void conformance_list(void);
