/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a child claims: refused or read, and if read, decided upon like any other.
 */
#include "common/sealed.h"
#include "supervisor/ownership/ownership.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(hardware_claims_freep) struct hardware_claims *list = NULL;
	_cleanup_close_ int fd = sealed_new("claims", data, size);
	struct decision decisions[2] = { { .name = "a" }, { .name = "b" } };

	if (fd < 0)
		abort();
	if (hardware_claims_read(fd, CLAIMS_MAX, CLAIMS_BYTES_MAX, &list) < 0)
		return 0;
	decisions[0].list = decisions[1].list = list;
	if (ownership_decide(decisions, ARRAY_SIZE(decisions)) < 0 || decisions[0].owners)
		abort();
	/* Every claim belongs to the first one. */
	if (!decisions[1].owners != (list->n_claims == 0))
		abort();
	decisions_done(decisions, ARRAY_SIZE(decisions));
	return 0;
}
