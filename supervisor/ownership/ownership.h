/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides which resource owns a device: the first, in the order of the configuration, that finds
 * the hardware behind it. Others do not offer it, unless both set `overlap`. While the device is
 * assigned to a pod through another resource, the first one does not offer it either. The decision
 * has no state: the same claims and bookings give the same answer, in any order of arrival.
 */

#include "drivers/model/bookings.h"
#include "drivers/model/device.h"

/* A device with its claims, at least one. */
struct hardware_device {
	const char *id;
	const char *const *claims; /* NULL-terminated */
};

/* The devices that one resource has found. */
struct hardware_claims {
	char *text;  /* holds the strings */
	size_t size; /* of the text, as it was sent */
	struct hardware_device *devices;
	size_t n_devices;
	const char **pool; /* holds the arrays of claims */
	size_t n_claims;
};

/* Reads a child's list (drivers/inventory/hardware-claims.h), a sealed memfd. Returns 0, -EBADMSG
 * for something else, -EFBIG for more than so many claims or bytes, or -ENOMEM. */
int hardware_claims_read(int fd, size_t max_claims, size_t max_bytes, struct hardware_claims **ret);
struct hardware_claims *hardware_claims_free(struct hardware_claims *list);
DEFINE_CLEANUP(struct hardware_claims *, hardware_claims_free)

/* The decisions about one resource. */
struct decision {
	const char *name;
	bool overlap;
	const struct hardware_claims *list; /* NULL: nothing is known of it */
	const struct bookings *booked;      /* the kubelet's bookings of it; NULL: none */
	/* out, malloc'ed: */
	char *owners; /* devices of other resources, see drivers/inventory/hardware-claims.h; NULL:
		       * none */
	char *note;   /* a note about its ids for the administrator; NULL: none */
	/* private: */
	FILE *stream; /* writes the owners */
	size_t size;
};

/* Decides about all resources, which are in the order of the configuration. Returns 0 or -ENOMEM,
 * after which there are no results. */
int ownership_decide(struct decision *decisions, size_t n);

/* Frees the results. */
void decisions_done(struct decision *decisions, size_t n);
