/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Applying a new configuration while resources are served.
 */

#include "supervisor/control/request.h"

struct manager;

/* Reads and checks the file completely; then either logs its problems and changes nothing, or
 * touches exactly the resources that differ. Logs, and notifies systemd. */
void reload_run(struct manager *manager);

/* The verb "reload": answers {"generation"} when each resource that it touches has taken over its
 * part, refused it, or ended, and the state files show it. */
int reload_request(struct request *request, json_t **ret_answer, struct error *error);

/* The verb "cordons": reads the list that "devplugctl cordon" writes and applies it, and no other
 * change of the files. Answers as "reload" does. */
int cordons_request(struct request *request, json_t **ret_answer, struct error *error);

/* The verb "rescan": {"resource": NAME}, or all. Each child scans for devices and starts its probes
 * again, as after a change of its configuration; answers {"resources": [NAME]} when they have. */
int rescan_request(struct request *request, json_t **ret_answer, struct error *error);
