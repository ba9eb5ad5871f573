/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a child claims: refused or read, and if read, decided upon like any other, also
 * with an answer to Allocate that the kubelet stores.
 */
#include "common/sealed.h"
#include "supervisor/ownership/ownership.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct bookings *make_bookings(void)
{
	static char id[] = "a", replica[] = "b#1", null[] = "/dev/null", none[] = "/dev/none";
	static char value[] = "A=1,2";
	static char *ids[] = { id, replica }, *nodes[] = { null, none }, *values[] = { value };
	const struct booked_answer parts = {
		.nodes = { nodes, ARRAY_SIZE(nodes) },
		.values = { values, ARRAY_SIZE(values) },
	};
	struct strings copy = { 0 };
	struct bookings *bookings;

	if (bookings_new(&bookings) < 0)
		abort();
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		if (strings_add(&copy, ids[i], strlen(ids[i])) < 0)
			abort();
	if (bookings_add_answer(bookings, &copy, &parts) < 0)
		abort();
	return bookings;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_bookings_ struct bookings *bookings = NULL;
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
	bookings = make_bookings();
	decisions[0].booked = decisions[1].booked = bookings;
	if (ownership_decide(decisions, ARRAY_SIZE(decisions)) < 0)
		abort();
	decisions_done(decisions, ARRAY_SIZE(decisions));
	return 0;
}
