/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct manager;

/* Keeps the applied configuration as the last accepted one. Logs. */
void keep_configuration(struct manager *manager);
