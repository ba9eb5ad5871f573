/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The daemon's description of itself: one line for systemd, one document for programs.
 */

#include <stddef.h>

#include "supervisor/control/request.h"

struct manager;

/* "5 resources: 4 serving (31 devices, 30 healthy), 1 retrying in 12s", or "no resources are
 * configured". */
void status_summary(const struct manager *manager, char *ret, size_t size);

/* The verb "status". With "pods": true, also "pods_failure", and "assigned" of resources (see
 * pod-assignments.h). With "devices": true, the documents of the devices follow. With "after": N,
 * not before its member "flushes" exceeds N, or 2 s have passed. */
int status_request(struct request *request, json_t **ret_answer, struct error *error);
