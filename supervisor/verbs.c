/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of clients over the control socket: one row for each verb, documented in
 * docs/contributing/control-socket.md. Verbs with `.needs_root` are for root and the daemon's own
 * user only.
 */
#include "supervisor/books/booked.h"
#include "supervisor/books/pod-view.h"
#include "supervisor/control/events.h"
#include "supervisor/control/request.h"
#include "supervisor/eviction/eviction.h"
#include "supervisor/release.h"
#include "supervisor/reload.h"
#include "supervisor/status.h"

const struct verb verbs[] = {
	{ "status", .timeout = 2, .handle = status_request },
	{ "pod", .timeout = 2, .handle = pod_view_request },
	{ "events", .timeout = EVENTS_FOLLOW_TIMEOUT, .handle = events_request },
	{ "rescan", .needs_root = true, .timeout = 30, .handle = rescan_request },
	{ "release", .needs_root = true, .timeout = 2, .handle = release_request },
	{ "forget", .needs_root = true, .timeout = 2, .handle = forget_request },
	{ "evict", .needs_root = true, .timeout = 2, .handle = evict_request },
	{ "reload", .needs_root = true, .timeout = 30, .handle = reload_request },
	{ "cordons", .needs_root = true, .timeout = 30, .handle = cordons_request },
};
const size_t n_verbs = ARRAY_SIZE(verbs);
