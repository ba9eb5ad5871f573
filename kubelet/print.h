/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Prints replies for people. Control characters in text from plugins are replaced.
 */

#include <jansson.h>

#include "common/util.h"

void print_status(const json_t *status);
void print_pods(const json_t *pods);

/* Prints a pod and, if it was started, what its container gets. */
void print_pod(const json_t *pod);

/* {name: {"capacity", "allocatable"}} on one line. */
void print_allocatable(const json_t *resources, FILE *to);
