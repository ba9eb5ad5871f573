/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the kubelet is offered at one moment: a configuration and a snapshot of its devices,
 * together and immutable, so that a handler on gRPC's thread sees one consistent state while the
 * main thread goes on.
 */

#include "config/config.h"
#include "drivers/inventory.h"
#include "drivers/map.h"

/* A configuration that several offers share. */
struct edition {
	atomic_uint references;
	struct config *config;
	const struct declaration *declaration; /* its only resource */
};

/* Takes the configuration on success. */
int edition_new(struct config *config, struct edition **ret);
struct edition *edition_ref(struct edition *edition);
struct edition *edition_unref(struct edition *edition);
DEFINE_CLEANUP(struct edition *, edition_unref)

struct offer {
	atomic_uint references;
	struct edition *edition;
	struct snapshot *snapshot;
	bool cdi;          /* devices are given to containers by their CDI names */
	struct map no_cdi; /* but not these */
	struct strings no_cdi_ids;
};

/* Takes a reference of each. */
int offer_new(struct edition *edition, struct snapshot *snapshot, struct offer **ret);

/* Has devices given by their CDI names, but for those of these ids. Returns 0 or -ENOMEM. */
int offer_use_cdi(struct offer *offer, const struct strings *but_for);

/* Whether all of the offered ids may be given by CDI name. */
bool offer_has_cdi(const struct offer *offer, const char *const *ids, size_t n_ids);
struct offer *offer_ref(struct offer *offer);
struct offer *offer_unref(struct offer *offer);
DEFINE_CLEANUP(struct offer *, offer_unref)
#define _cleanup_offer_ _cleanup_(offer_unrefp)
