/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Processes that became children of devplugd because the process that started them has ended.
 * devplugd is a subreaper for the copies of its template and for what children leave behind, and as
 * process 1 of a container it is the parent of every process that has none.
 */

#include <systemd/sd-event.h>

/* Makes this process a subreaper that reaps, from now on, each child that ends and is not watched
 * by sd_event_add_child() on this loop, and kills each that is not watched and has a user of our
 * children (child-user.h). SIGCHLD must be blocked. Returns 0 or negative errno. */
int orphans_reap(sd_event *event);
