/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct manager;

/* Keeps the configuration in force as the last accepted one. Logs. */
void keep_configuration(struct manager *manager);
