/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The plugin's devices for cases: copies of their ids, because the list may be replaced while a
 * case waits, and Allocate calls for them.
 */

#include "kubelet/conformance/call.h"

#define UNKNOWN_ID "devplug-kubelet-conformance-unknown"

struct ids {
	char **list;
	size_t n;
};
void ids_done(struct ids *ids);
#define _cleanup_ids_ _cleanup_(ids_done)

/* The healthy ones. False with a message if there is no memory. */
bool ids_take(struct trial *trial, struct ids *ret);

/* An Allocate request for `n_containers` (at most 2) with the same ids. Malloc'ed, never NULL. */
uint8_t *allocate_pack(char **ids, size_t n_ids, size_t n_containers, size_t *ret_size);

/* Calls it. */
void allocate(struct trial *trial, char **ids, size_t n_ids, size_t n_containers, uint64_t limit,
	struct reply *ret);
