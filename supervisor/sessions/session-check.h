/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks that the open sessions still work. The kubelet of a session may have been replaced while
 * its streams stay open, because it hangs; and another process may have removed the socket of a
 * session. Such a session is renewed, but not before the kubelet that would get the next one
 * accepts connections: until then the old one may still serve.
 */

#include "common/util.h"

struct manager;
struct session_check;

/* Nothing is checked before session_check_run(). */
int session_check_new(struct manager *manager, struct session_check **ret);

/* Calls `on_check` with each check, for sessions that belong to no child. */
void session_check_others(
	struct session_check *check, void (*on_check)(void *userdata), void *userdata);

/* Checks all sessions now, and again until every one works. */
void session_check_run(struct session_check *check);

/* Watches the directory of the kubelet's plugin watcher, too. Logs if that is impossible. */
void session_check_watch_registry(struct session_check *check, const char *directory);

/* Ends watching, as kubelet_watch_stop() does and for the same reason. */
void session_check_stop(struct session_check *check);

struct session_check *session_check_free(struct session_check *check);
DEFINE_CLEANUP(struct session_check *, session_check_free)
