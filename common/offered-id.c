/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes and splits the ids of replicas, so that all programs agree which ids belong to one device.
 */
#include "common/offered-id.h"

const char *offered_id_make(
	const char *id, unsigned replica, char buffer[static OFFERED_ID_MAX + 1])
{
	(void)snprintf(buffer, OFFERED_ID_MAX + 1, "%s%c%u", id, REPLICA_SEPARATOR, replica);
	return buffer;
}

bool offered_id_split(const char *id, size_t *ret_length, unsigned *ret_replica)
{
	const char *mark = strrchr(id, REPLICA_SEPARATOR), *p = mark ? mark + 1 : "";
	uint64_t number = 0;

	if (!*p || (*p == '0' && p[1]))
		return false;
	for (; *p; p++) {
		if (*p < '0' || *p > '9')
			return false;
		number = number * 10 + (uint64_t)(*p - '0');
		if (number > UINT32_MAX)
			return false;
	}
	*ret_length = (size_t)(mark - id);
	*ret_replica = (unsigned)number;
	return true;
}

bool offered_id_is_of(const char *offered_id, const char *id)
{
	unsigned replica;
	size_t length;

	return streq(offered_id, id) ||
		(offered_id_split(offered_id, &length, &replica) && strlen(id) == length &&
			strncmp(offered_id, id, length) == 0);
}
