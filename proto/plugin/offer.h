/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's offer at one moment: a configuration and a snapshot of its devices, together and
 * immutable, so that a handler on gRPC's thread sees one consistent state while the main thread
 * goes on.
 */

#include "common/map.h"
#include "configuration/config.h"
#include "drivers/inventory/inventory.h"

/* A configuration that several offers share. */
struct applied_config {
	atomic_uint references;
	struct config *config;
	const struct declaration *declaration; /* its only resource */
};

/* Takes the configuration on success. */
int applied_config_new(struct config *config, struct applied_config **ret);
struct applied_config *applied_config_ref(struct applied_config *applied_config);
struct applied_config *applied_config_unref(struct applied_config *applied_config);
DEFINE_CLEANUP(struct applied_config *, applied_config_unref)

struct offer {
	atomic_uint references;
	struct applied_config *applied_config;
	struct snapshot *snapshot;
	bool cdi;          /* containers get devices by their CDI names */
	struct map no_cdi; /* but not these */
	struct strings no_cdi_ids;
	struct bookings *readmitted; /* see offer_readmit(); NULL: none */
};

/* Takes a reference of each. */
int offer_new(struct applied_config *applied_config, struct snapshot *snapshot, struct offer **ret);

/* Uses CDI names for all devices except those with these ids. Returns 0 or -ENOMEM. */
int offer_use_cdi(struct offer *offer, const struct strings *but_for);

/* The kubelet is admitting again the pods that use these offered ids. It would fail a pod whose
 * finished init container uses a device that is listed as unhealthy (kubelet
 * cm/devicemanager/manager.go, devicesToAllocate()), so a device that only failed or is cordoned is
 * listed as healthy. If the pod has ended, the kubelet may choose the device for another one. Its
 * Allocate call is then refused, and the id is among `but_for` from then on: it has no pod to
 * admit. May take a reference. Returns 0 or -ENOMEM. */
int offer_readmit(struct offer *offer, struct bookings *booked, const struct strings *but_for);

/* Whether the offered id is listed as healthy only because of offer_readmit(). */
bool offer_is_readmitted(const struct offer *offer, const char *offered_id);

/* Whether the offered id of that unit is listed as healthy. */
bool offer_is_listed_healthy(const struct offer *offer, size_t unit, const char *offered_id);

/* Whether CDI names may be used for all of the offered ids. */
bool offer_has_cdi(const struct offer *offer, const char *const *ids, size_t n_ids);
struct offer *offer_ref(struct offer *offer);
struct offer *offer_unref(struct offer *offer);
DEFINE_CLEANUP(struct offer *, offer_unref)
#define _cleanup_offer_ _cleanup_(offer_unrefp)
