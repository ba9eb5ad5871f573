/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a GetPreferredAllocation call and packs its answer; drivers/allocation/preference.c
 * decides. A size that is negative or above the number of devices gets an empty answer instead of
 * an error.
 */
#include "proto/plugin/preferred.h"

#include "drivers/allocation/preference.h"
#include "proto/message.h"

static int choose(const struct offer *offer,
	const V1beta1__ContainerPreferredAllocationRequest *wish,
	V1beta1__ContainerPreferredAllocationResponse *answer)
{
	const struct declaration *declaration = offer->applied_config->declaration;

	v1beta1__container_preferred_allocation_response__init(answer);
	if (wish->allocation_size <= 0 ||
		(size_t)wish->allocation_size > wish->n_available_deviceids)
		return 0;
	answer->deviceids = calloc((size_t)wish->allocation_size, sizeof(answer->deviceids[0]));
	if (!answer->deviceids)
		return -ENOMEM;
	answer->n_deviceids = preference_choose(declaration, offer->snapshot,
		(const char *const *)wish->available_deviceids, wish->n_available_deviceids,
		(const char *const *)wish->must_include_deviceids, wish->n_must_include_deviceids,
		(size_t)wish->allocation_size, (const char **)answer->deviceids);
	return 0;
}

int preferred_pack(const struct offer *offer, const V1beta1__PreferredAllocationRequest *request,
	uint8_t **ret_data, size_t *ret_size)
{
	V1beta1__PreferredAllocationResponse response =
		V1BETA1__PREFERRED_ALLOCATION_RESPONSE__INIT;
	size_t n = request ? request->n_container_requests : 0;
	_cleanup_free_ V1beta1__ContainerPreferredAllocationResponse *answers =
		calloc(n + 1, sizeof(*answers));
	_cleanup_free_ V1beta1__ContainerPreferredAllocationResponse **pointers =
		calloc(n + 1, sizeof(*pointers));
	int r = answers && pointers ? 0 : -ENOMEM;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		r = choose(offer, request->container_requests[i], &answers[i]);
		pointers[i] = &answers[i];
	}
	response.n_container_responses = n;
	response.container_responses = pointers;
	if (r >= 0)
		r = message_pack(&response.base, ret_data, ret_size);
	for (size_t i = 0; answers && i < n; i++)
		free(answers[i].deviceids);
	return r;
}
