/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The claims that children send (drivers/inventory/hardware-claims.h), and what is decided about
 * the devices of a resource.
 */

#include "drivers/inventory/hardware-claims.h"
#include "drivers/model/bookings.h"
#include "drivers/model/declaration.h"
#include "drivers/model/device.h"

/* A device with its claims and marks, at least one of either. */
struct hardware_device {
	const char *id;
	const char *const *claims;     /* NULL-terminated */
	const char *const *containers; /* the same: the hardware that it is a part of */
	const char *const *marks;      /* the same, each with its character in front */
};

/* More marks than a device has; further ones are ignored. */
#define DEVICE_MARKS_MAX 64

/* Whether a claim of the list belongs to a node that the device may lack. In the text, the claim
 * has its mark in front. */
static inline bool claim_is_optional(const char *claim)
{
	return claim[-1] == MARK_OPTIONAL;
}

/* The devices that one resource has found. */
struct hardware_claims {
	char *text;  /* holds the strings */
	size_t size; /* of the text, as it was sent */
	struct hardware_device *devices;
	size_t n_devices;
	const char *const *given; /* marks of any device; NULL: none */
	const char **pool;        /* holds the arrays of claims and marks */
	size_t n_claims;
};

/* Reads a child's list (drivers/inventory/hardware-claims.h), a sealed memfd. Returns 0, -EBADMSG
 * for something else, -EFBIG for more than so many claims or bytes, or -ENOMEM. */
int hardware_claims_read(int fd, size_t max_claims, size_t max_bytes, struct hardware_claims **ret);
struct hardware_claims *hardware_claims_free(struct hardware_claims *list);
DEFINE_CLEANUP(struct hardware_claims *, hardware_claims_free)

#define USER_NAME_MAX 352

/* The decisions about one resource. */
struct decision {
	const char *name;
	int overlap;                        /* enum overlap */
	const char *root;                   /* see declaration_root(); NULL: the host's */
	const struct hardware_claims *list; /* NULL: nothing is known of it */
	const struct bookings *booked;      /* the bookings of it; NULL: none */
	const struct map *taken;    /* devices that were allocated just now, by id; NULL: none */
	const struct strings *held; /* those of claims that are being prepared; NULL: none */
	/* Names who uses a device that is booked: "default/a", "a pod". NULL: "a pod". */
	void (*name_user)(const void *userdata, const char *id, char ret[static USER_NAME_MAX]);
	const void *userdata;
	bool foreign; /* no resource of ours has the name; it only has bookings */
	/* out, malloc'ed: */
	char *owners; /* devices of other resources, see drivers/inventory/hardware-claims.h; NULL:
		       * none */
	char *note;   /* a note about its ids for the administrator; NULL: none */
	bool replays; /* an answer for its devices is outdated, see replayed.h */
	/* private: */
	FILE *stream; /* writes the owners */
	size_t size;
};

/* Adds a line to the result about a resource. For a device with several, the first one counts.
 * Returns 0 or -ENOMEM. */
_printf_(3, 4) int decision_write(
	struct decision *decision, const char *id, const char *format, ...);

/* Whether both may offer the same hardware. */
static inline bool decision_shares(const struct decision *a, const struct decision *b)
{
	return a->overlap != OVERLAP_NONE && a->overlap == b->overlap;
}

/* Ends the result, after which it can be used. Returns 0 or -ENOMEM. */
int decision_close(struct decision *decision);

/* Frees the results. */
void decisions_done(struct decision *decisions, size_t n);
