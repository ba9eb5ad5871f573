/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names as on the command line.
 */
#include "driver-faults.h"

static const char *const names[DRIVER_FAULTS] = {
	[DRIVER_FAULT_NONE] = "none",
	[DRIVER_FAULT_WRITES_YAML] = "writes-yaml",
	[DRIVER_FAULT_WRONG_TYPE] = "wrong-type",
	[DRIVER_FAULT_NO_SERVICE] = "no-service",
	[DRIVER_FAULT_RELATIVE_ENDPOINT] = "relative-endpoint",
	[DRIVER_FAULT_ANNOUNCES_MORE] = "announces-more",
	[DRIVER_FAULT_ANSWERS_ONCE] = "answers-once",
	[DRIVER_FAULT_STALE_SOCKET] = "stale-socket",
	[DRIVER_FAULT_IGNORES_SIGTERM] = "ignores-sigterm",
	[DRIVER_FAULT_CLEANS_AT_STOP] = "cleans-at-stop",
	[DRIVER_FAULT_CLEANS_AT_START] = "cleans-at-start",
	[DRIVER_FAULT_LATE_FILE] = "late-file",
	[DRIVER_FAULT_BAD_CDI_NAME] = "bad-cdi-name",
	[DRIVER_FAULT_WRONG_DEVICE] = "wrong-device",
	[DRIVER_FAULT_CHANGING_IDS] = "changing-ids",
	[DRIVER_FAULT_SKIPS_CLAIMS] = "skips-claims",
	[DRIVER_FAULT_FAILS_ALL] = "fails-all",
	[DRIVER_FAULT_PREPARES_UNKNOWN] = "prepares-unknown",
	[DRIVER_FAULT_IGNORES_UID] = "ignores-uid",
	[DRIVER_FAULT_IGNORES_NAME] = "ignores-name",
	[DRIVER_FAULT_SHARES_DEVICES] = "shares-devices",
	[DRIVER_FAULT_TIRES] = "tires",
	[DRIVER_FAULT_UNPREPARES_ONCE] = "unprepares-once",
	[DRIVER_FAULT_KEEPS_FILES] = "keeps-files",
	[DRIVER_FAULT_FORGETS] = "forgets",
	[DRIVER_FAULT_LEAKS] = "leaks",
	[DRIVER_FAULT_NO_HEALTH] = "no-health",
	[DRIVER_FAULT_PARTIAL_HEALTH] = "partial-health",
	[DRIVER_FAULT_HEALTH_STAYS] = "health-stays",
	[DRIVER_FAULT_NEVER_RECOVERS] = "never-recovers",
	[DRIVER_FAULT_TAKES_MALFORMED] = "takes-malformed",
	[DRIVER_FAULT_DIES] = "dies",
	[DRIVER_FAULT_TRUSTS_NAMES] = "trusts-names",
	[DRIVER_FAULT_TRUSTS_FILES] = "trusts-files",
	[DRIVER_FAULT_KEEPS_ALTERNATIVE] = "keeps-alternative",
	[DRIVER_FAULT_HALF_POOL] = "half-pool",
	[DRIVER_FAULT_NO_OWNER] = "no-owner",
	[DRIVER_FAULT_PUBLISHES_ONCE] = "publishes-once",
	[DRIVER_FAULT_KEEPS_CHANGES] = "keeps-changes",
	[DRIVER_FAULT_WRITES_ALWAYS] = "writes-always",
	[DRIVER_FAULT_WRITES_DROPPED] = "writes-dropped",
	[DRIVER_FAULT_GIVES_UP] = "gives-up",
	[DRIVER_FAULT_NEW_TIMES] = "new-times",
	[DRIVER_FAULT_TAKES_UNALLOCATED] = "takes-unallocated",
	[DRIVER_FAULT_TAKES_ANY_DEVICE] = "takes-any-device",
	[DRIVER_FAULT_TAKES_ALL_RESULTS] = "takes-all-results",
	[DRIVER_FAULT_IGNORES_ADMIN] = "ignores-admin",
	[DRIVER_FAULT_IGNORES_PARAMETERS] = "ignores-parameters",
	[DRIVER_FAULT_REFUSES_PARAMETERS] = "refuses-parameters",
	[DRIVER_FAULT_READS_AT_UNPREPARE] = "reads-at-unprepare",
	[DRIVER_FAULT_DIES_WITHOUT_API] = "dies-without-api",
	[DRIVER_FAULT_DIES_UNALLOCATED] = "dies-unallocated",
	[DRIVER_FAULT_WAITS_FOR_API] = "waits-for-api",
	[DRIVER_FAULT_TRUSTS_DELETION] = "trusts-deletion",
	[DRIVER_FAULT_REVERSES] = "reverses",
	[DRIVER_FAULT_INVALID_POOL] = "invalid-pool",
	[DRIVER_FAULT_TAINTS_LAST] = "taints-last",
	[DRIVER_FAULT_PLAIN_SLICES] = "plain-slices",
};

int driver_fault_from_string(const char *name, enum driver_fault *ret)
{
	for (size_t i = 0; i < DRIVER_FAULTS; i++)
		if (streq(names[i], name)) {
			*ret = (enum driver_fault)i;
			return 0;
		}
	return -EINVAL;
}

const char *driver_fault_to_string(enum driver_fault fault)
{
	return (size_t)fault < DRIVER_FAULTS ? names[fault] : NULL;
}
