/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The template's side of supervisor/process/spawn-template.h. It must run before threads, an event
 * loop or gRPC are started, because these do not survive a fork.
 */

/* Serves the supervisor's requests with main()'s arguments. Returns 1 in each child, as which the
 * process has entered and whose name is at `ret_resource`, and 0 or negative errno in the template
 * when the supervisor has ended. Logs. */
int spawn_template_serve(int argc, char *argv[], const char **ret_resource);
