/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names as on the command line.
 */
#include "planted-faults.h"

static const char *const names[FAULTS] = {
	[FAULT_NONE] = "none",
	[FAULT_REGISTERS_ONCE] = "registers-once",
	[FAULT_WATCHES_SOCKET_ONLY] = "watches-socket-only",
	[FAULT_REGISTERS_ON_EVENTS] = "registers-on-events",
	[FAULT_GIVES_UP] = "gives-up",
	[FAULT_SERVES_AFTER_REGISTER] = "serves-after-register",
	[FAULT_SPINS] = "spins",
	[FAULT_IGNORES_SIGTERM] = "ignores-sigterm",
	[FAULT_KEEPS_SOCKET] = "keeps-socket",
	[FAULT_ENDS_STREAM] = "ends-stream",
	[FAULT_DUPLICATE_IDS] = "duplicate-ids",
	[FAULT_CHANGING_IDS] = "changing-ids",
	[FAULT_NUMA_MINUS_ONE] = "numa-minus-one",
	[FAULT_ODD_HEALTH] = "odd-health",
	[FAULT_NOT_UTF8] = "not-utf8",
	[FAULT_OVERSIZE_LIST] = "oversize-list",
	[FAULT_NEVER_RECOVERS] = "never-recovers",
	[FAULT_DROPS_DEVICE] = "drops-device",
	[FAULT_FLOODS_LISTS] = "floods-lists",
	[FAULT_EMPTY_ANSWER] = "empty-answer",
	[FAULT_ONE_ANSWER] = "one-answer",
	[FAULT_SLOW_ALLOCATE] = "slow-allocate",
	[FAULT_DIES] = "dies",
	[FAULT_MIXES_ANSWERS] = "mixes-answers",
	[FAULT_LEAKS] = "leaks",
	[FAULT_PREFERRED_ERROR] = "preferred-error",
	[FAULT_PREFERRED_WRONG] = "preferred-wrong",
	[FAULT_WRONG_OPTIONS] = "wrong-options",
	[FAULT_PRE_START_ONCE] = "pre-start-once",
	[FAULT_TAKES_MALFORMED] = "takes-malformed",
	[FAULT_SERVES_ANYBODY] = "serves-anybody",
};

int fault_from_string(const char *name, enum fault *ret)
{
	for (size_t i = 0; i < FAULTS; i++)
		if (streq(names[i], name)) {
			*ret = (enum fault)i;
			return 0;
		}
	return -EINVAL;
}

const char *fault_to_string(enum fault fault)
{
	return (size_t)fault < FAULTS ? names[fault] : NULL;
}
