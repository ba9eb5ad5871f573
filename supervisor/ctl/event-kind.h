/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the identities of messages mean. docs/monitoring.md has the same table.
 */

#include <stddef.h>

struct event_kind {
	const char *message_id, *kind;
};

/* Every identity of common/message-id.h. */
extern const struct event_kind event_kinds[];
extern const size_t n_event_kinds;

/* "device", "session" and so on; "other" for an identity of a newer daemon. */
const char *event_kind_of(const char *message_id);
