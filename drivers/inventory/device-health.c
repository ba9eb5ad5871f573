/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a device is healthy, and the reason if not: the first cause in the order below.
 * The results of probes come last (drivers/health/probes.c). Also decides when a device
 * that has failed can be tested (drivers/health/probe-recovery.c).
 */
#include "drivers/inventory/unit.h"

const char *unit_cause_name(enum unit_cause cause)
{
	static const char *const names[_CAUSE_MAX] = {
		[CAUSE_NONE] = "",
		[CAUSE_GONE] = "gone",
		[CAUSE_CLAIMED] = "claimed",
		[CAUSE_IN_USE] = "in_use",
		[CAUSE_STALE] = "stale",
		[CAUSE_RETURNED] = "returned",
		[CAUSE_CORDONED] = "cordoned",
		[CAUSE_DEVICE] = "device",
		[CAUSE_PROBE] = "probe",
		[CAUSE_UNPROBED] = "probe",
		[CAUSE_BOOKED] = "booked",
		[CAUSE_CLEANING] = "cleaning",
	};

	return names[cause];
}

/* Returns 0 or -ENOMEM. */
static int gone_reason(const struct unit *unit, char **ret)
{
	if (unit->loss)
		return format_text(ret, "%s", unit->loss);
	return format_text(ret, "%s is not listed any more: it was removed, or no longer matches",
		unit->device->id);
}

static int claimed_reason(const struct unit *unit, char **ret)
{
	if (unit->companion && !unit->owner_name && !unit_is_withheld(unit))
		return format_text(ret, "in use by a pod, with %s of the same %s", unit->companion,
			unit->device->whole ?: "device");
	return format_text(ret, "%s %s%s", unit->owner_name ? "claimed by" : "in use by",
		unit->owner_name ?: declaration_other_way(unit->list->declaration),
		unit->booked ? ", but assigned to a pod" : "");
}

/* Returns 1 if the findings of its probes have changed, 0 or -ENOMEM. */
static int take_findings(struct unit *unit)
{
	struct finding findings[FINDINGS_MAX];
	size_t n = unit->health ? health_unit_findings(unit->health, findings) : 0;
	struct finding_set *set;
	int r;

	if (finding_set_is(unit->findings, findings, n))
		return 0;
	r = finding_set_new(findings, n, &set);
	if (r < 0)
		return r;
	(void)finding_set_unref(unit->findings);
	unit->findings = set;
	return 1;
}

/* A device that has failed is tested when it works again and is free. Returns 0 or -ENOMEM. */
static int have_tested(struct unit *unit)
{
	const struct device *device = unit->device;
	bool failed;

	if (!unit->health)
		return 0;
	failed = !unit->present || device->problem || (device->absence && !unit->in_use) ||
		health_unit_failed(unit->health);
	return health_unit_recover(unit->health, failed,
		!unit->in_use && !unit->owner_name && !unit_is_withheld(unit) && !unit->companion &&
			!unit->stale && !unit->cordon && !unit->dirty);
}

/* Whether the pod that uses the device is to be evicted, because the device was missing. */
static bool is_lost(const struct unit *unit)
{
	return unit->lost && unit->list->declaration->missing.on_return == ON_RETURN_EVICT;
}

int unit_evaluate(struct unit *unit)
{
	int changed = have_tested(unit) < 0 ? -ENOMEM : take_findings(unit);
	_cleanup_free_ char *copy = NULL;
	enum unit_cause cause = CAUSE_NONE;
	const char *reason = NULL;
	bool healthy = true;

	if (changed < 0)
		return changed;
	unit->lost = !unit->dirty &&
		(unit->lost || (!unit->present && !unit->undecided && unit->in_use));
	if (!unit->present) {
		healthy = false;
		cause = CAUSE_GONE;
		if (gone_reason(unit, &copy) < 0)
			return -ENOMEM;
		reason = copy;
	} else if (unit->owner_name || unit_is_withheld(unit) || unit->companion) {
		healthy = false;
		cause = CAUSE_CLAIMED;
		if (claimed_reason(unit, &copy) < 0)
			return -ENOMEM;
		reason = copy;
	} else if (unit->stale) {
		healthy = false;
		cause = unit->stale_in_use ? CAUSE_IN_USE : CAUSE_STALE;
		reason = unit->stale;
	} else if (is_lost(unit)) {
		healthy = false;
		cause = CAUSE_RETURNED;
		reason =
			"it was disconnected while a pod had it, and is offered again when that pod has ended";
	} else if (unit->cordon) {
		healthy = false;
		cause = CAUSE_CORDONED;
		if (format_text(&copy, WHY_CORDONED "%s%s", unit->cordon->reason ? ": " : "",
			    unit->cordon->reason ?: "") < 0)
			return -ENOMEM;
		reason = copy;
	} else if (unit->dirty && *unit->dirty) {
		healthy = false;
		cause = CAUSE_CLEANING;
		reason = unit->dirty;
	} else if (unit->device->problem) {
		healthy = false;
		cause = CAUSE_DEVICE;
		reason = unit->device->problem;
	} else if (unit->device->absence && !unit->in_use) {
		healthy = false;
		cause = CAUSE_DEVICE;
		reason = unit->device->absence;
	} else if (unit->health) {
		bool known;

		healthy = health_unit_healthy(unit->health, &known, &reason);
		cause = healthy ? CAUSE_NONE : known ? CAUSE_PROBE : CAUSE_UNPROBED;
	}

	if (unit->healthy == healthy && (healthy || streq(unit->reason, reason)))
		return changed;
	if (!healthy && !copy) {
		copy = strdup(reason);
		if (!copy)
			return -ENOMEM;
	}
	if (unit->healthy != healthy) {
		unit->since = now_usec(CLOCK_REALTIME);
		unit->changes++;
	}
	unit->healthy = healthy;
	unit->cause = cause;
	free(unit->reason);
	unit->reason = TAKE_PTR(copy);
	return 1;
}
