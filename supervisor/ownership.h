/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whose a device is: the first resource's, in the order of the configuration, that finds the
 * hardware behind it. Others do not offer it, unless both say `overlap`. Nothing here remembers
 * anything: the same claims give the same answer, in whatever order they came.
 */

#include "common/util.h"

/* What a child may send at most. */
#define CLAIMS_BYTES_MAX (32U << 20)

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
};

/* Reads what a child sent (drivers/claims.h), a sealed memfd. Returns 0, -EBADMSG for something
 * else, -EFBIG, or -ENOMEM. */
int claims_list_read(int fd, struct claims_list **ret);
struct claims_list *claims_list_free(struct claims_list *list);
DEFINE_CLEANUP(struct claims_list *, claims_list_free)

struct claimant {
	const char *name;
	bool overlap;
	const struct claims_list *list; /* NULL: nothing is known of it */
	/* out, malloc'ed: */
	char *owners; /* devices of others, see drivers/claims.h; NULL: none */
	char *note;   /* what people should know of its ids; NULL: nothing */
};

/* Decides for all of them, which are in the order of the configuration. Returns 0, or -ENOMEM with
 * nothing filled. */
int ownership_decide(struct claimant *claimants, size_t n);

void claimants_done(struct claimant *claimants, size_t n);
