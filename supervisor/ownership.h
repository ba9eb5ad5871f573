/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides which resource owns a device: the first, in the order of the configuration, that finds
 * the hardware behind it. Others do not offer it, unless both set `overlap`. While a pod has the
 * device from another resource, the first does not offer it either. The decision has no state: the
 * same claims and bookings give the same answer, in any order of arrival.
 */

#include "drivers/model/bookings.h"

/* What a child may send at most. */
#define CLAIMS_BYTES_MAX (16U << 20)
/* Maximum numbers; each device and each claim costs a search in a table at every decision. A list
 * that the kubelet accepts, of 4 MiB, has fewer devices than half of them. */
#define CLAIMS_MAX 300000
/* The same for all children together: the sum of `cost` of their lists. */
#define CLAIMS_COST_MAX (128U << 20)

struct claims_device {
	const char *id;
	const char *const *claims; /* NULL-terminated */
};

/* What one resource has found. */
struct claims_list {
	char *text; /* holds the strings */
	struct claims_device *devices;
	size_t n_devices;
	const char **pool; /* holds the arrays of claims */
	size_t n_claims;
	size_t cost; /* about the bytes that it takes, with its part of the tables of a pass */
};

/* Reads what a child sent (drivers/inventory/claims.h), a sealed memfd. Returns 0, -EBADMSG for
 * something else, -EFBIG, or -ENOMEM. */
int claims_list_read(int fd, struct claims_list **ret);
struct claims_list *claims_list_free(struct claims_list *list);
DEFINE_CLEANUP(struct claims_list *, claims_list_free)

struct decision {
	const char *name;
	bool overlap;
	const struct claims_list *list; /* NULL: nothing is known of it */
	const struct bookings *booked;  /* what the kubelet has booked of it; NULL: nothing */
	/* out, malloc'ed: */
	char *owners; /* devices of others, see drivers/inventory/claims.h; NULL: none */
	char *note;   /* what people should know of its ids; NULL: nothing */
};

/* A pass that decides for all of them, which are in the order of the configuration. They and their
 * lists must not change until it ends. Returns 0 or -ENOMEM. */
struct ownership;
int ownership_new(struct decision *decisions, size_t n, struct ownership **ret);

/* Makes so many steps, each of which is a search in a table. Returns 0 at the end, 1 if there is
 * more to do, or -ENOMEM, after which the pass has no result. */
int ownership_run(struct ownership *ownership, size_t n_steps);

struct ownership *ownership_free(struct ownership *ownership);
DEFINE_CLEANUP(struct ownership *, ownership_free)

/* Frees what was filled. */
void decisions_done(struct decision *decisions, size_t n);
