/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Taking a new configuration generation into force while resources are served.
 */

struct manager;

/* Reads and checks the file completely; then either says what is wrong with it and changes nothing,
 * or touches exactly the resources that differ. Logs, and tells systemd. */
void manager_reload(struct manager *manager);
