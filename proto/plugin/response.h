/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Packs an AllocateResponse from allocations.
 */

#include "deviceplugin.pb-c.h"
#include "drivers/allocation/allocation.h"
#include "proto/plugin/offer.h"
#include "proto/rpc.h"

/* Packs one container response for each allocation. Returns 0, -ENOMEM, -EILSEQ for text that is
 * not UTF-8 (a kubelet refuses the whole message), or -E2BIG above the size that a kubelet
 * accepts. */
int response_pack(const struct allocation *allocations, size_t n, uint8_t **ret_data,
	size_t *ret_size, struct error *error);

/* Allocates for every container of the request and packs the answers. All or nothing: an error of
 * one container is the error of the call. `answers` contains the programs' answers for each
 * container; NULL: no program was run. `metadata` has the host's path of the metadata of each
 * container; NULL or empty: they get none. Errors are as in allocation_build() and response_pack().
 */
int response_allocate(const struct offer *offer, const V1beta1__AllocateRequest *request,
	const struct allocation_answers *const *answers, const struct strings *metadata,
	uint8_t **ret_data, size_t *ret_size, struct error *error);

/* Answers an Allocate call with the reason of a failure, which the pod shows, and reports it.
 * `request` may be NULL. */
void response_refuse(
	struct rpc_call *call, const V1beta1__AllocateRequest *request, const struct error *error);
