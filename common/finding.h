/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a health probe finds wrong with a device: the reason and severity of its declaration, and
 * the text of its result. A reason becomes the name of a taint's key, so its form is the API's.
 */

#include "common/error.h"

enum probe_severity {
	SEVERITY_NO_NEW_PODS, /* the device is unhealthy */
	SEVERITY_EVICT,       /* it is unhealthy, and its pods are evicted later */
	SEVERITY_NOTICE,      /* it stays healthy, and the finding is shown */
	_SEVERITY_MAX,
};
/* The names of the severities, NULL at the end. */
extern const char *const probe_severities[];

/* The severity of that name; NO_NEW_PODS for any other text, because a process that names none may
 * not hide that a device is unhealthy. */
enum probe_severity finding_severity(const char *name);

/* Reasons that are not a probe's. */
#define REASON_CLEANING  "cleaning"
#define REASON_CORDONED  "cordoned"
#define REASON_MISSING   "missing"
#define REASON_UNHEALTHY "unhealthy"

/* How the reason of an unhealthy device begins if the device needs no repair. */
#define WHY_CLEANING "being cleaned after a pod"
#define WHY_CORDONED "cordoned"
#define WHY_IN_USE   "in use as "

/* How a text about a directory that the host has, but the container does not, ends. */
#define REMEDY_MOUNT "mount it from the host"

#define FINDING_REASON_MAX 63

/* Whether a text can be a probe's reason: the name of a label, and not a word of devplugd's. The
 * second function is for the option tables: returns 0, or -EINVAL with the valid form. */
bool finding_reason_is_valid(const char *reason);
int finding_check_reason(const char *reason, struct error *error);

/* The maximum number of findings about a device that are reported. */
#define FINDINGS_MAX 16

struct finding {
	const char *reason; /* NULL: the probe has none */
	enum probe_severity severity;
	const char *text;
	bool could_not_run; /* the probe itself failed, which proves nothing about the device */
	size_t probe;       /* its place in the resource's list of probes */
};

/* The findings about one device. They never change, so that several threads may read them. */
struct finding_set;

/* Copies them. Returns 0, `ret` NULL if there are none, or -ENOMEM. */
int finding_set_new(const struct finding *findings, size_t count, struct finding_set **ret);
/* They accept NULL. */
struct finding_set *finding_set_ref(struct finding_set *set);
struct finding_set *finding_set_unref(struct finding_set *set);

/* The finding at a position, or NULL. `set` may be NULL. */
const struct finding *finding_set_get(const struct finding_set *set, size_t at);

/* Whether the set has these findings, or those of another set, which may be NULL. */
bool finding_set_is(const struct finding_set *set, const struct finding *findings, size_t count);
bool finding_set_equal(const struct finding_set *a, const struct finding_set *b);
