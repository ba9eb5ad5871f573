/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides the type of the Node's condition for a resource: letters and digits, each word of the
 * name with an upper-case letter.
 */
#include "common/node-condition.h"

void node_condition_type(const char *resource, char ret[static NODE_CONDITION_TYPE_MAX + 1])
{
	size_t length = strlen(NODE_CONDITION_PREFIX);
	bool begins = true;

	memcpy(ret, NODE_CONDITION_PREFIX, length);
	for (const char *p = resource; *p && length < NODE_CONDITION_TYPE_MAX; p++) {
		bool lower = *p >= 'a' && *p <= 'z';

		if (lower || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9')) {
			ret[length++] = lower && begins ? (char)(*p - 'a' + 'A') : *p;
			begins = false;
		} else
			begins = true;
	}
	ret[length] = '\0';
}
