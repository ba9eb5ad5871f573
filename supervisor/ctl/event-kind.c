/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides of which kind an event is, by the identity of its message.
 */
#include "supervisor/ctl/event-kind.h"

#include "common/message-id.h"
#include "common/util.h"

const struct event_kind event_kinds[] = {
	{ MESSAGE_ID_DEVICE_CHANGED, "device" },
	{ MESSAGE_ID_CALL_FAILED, "refusal" },
	{ MESSAGE_ID_SERVING, "session" },
	{ MESSAGE_ID_SESSION_ENDED, "session" },
	{ MESSAGE_ID_KUBELET_APPEARED, "kubelet" },
	{ MESSAGE_ID_KUBELET_GONE, "kubelet" },
	{ MESSAGE_ID_CHILD_STARTED, "process" },
	{ MESSAGE_ID_CHILD_DIED, "process" },
	{ MESSAGE_ID_CHILD_HUNG, "process" },
	{ MESSAGE_ID_CONFIG_ACCEPTED, "configuration" },
	{ MESSAGE_ID_CONFIG_REJECTED, "configuration" },
	{ MESSAGE_ID_CONFIG_PLAN, "configuration" },
	{ MESSAGE_ID_CONFIG_LAST_ACCEPTED, "configuration" },
	{ MESSAGE_ID_RESOURCE_REFUSED, "configuration" },
};
const size_t n_event_kinds = ARRAY_SIZE(event_kinds);

const char *event_kind_of(const char *message_id)
{
	for (size_t i = 0; i < n_event_kinds; i++)
		if (streq(event_kinds[i].message_id, message_id))
			return event_kinds[i].kind;
	return "other";
}
