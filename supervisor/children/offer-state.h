/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of offer-check.h for each resource.
 */

#include "common/util.h"

/* How often in a row the kubelet offered other devices. */
enum offer_step {
	OFFER_AGREES,
	OFFER_SUSPECT, /* a change may have been on its way */
	OFFER_DIFFERS, /* the session is renewed if this lasts */
};

/* The state of one resource. */
struct offer_state {
	enum offer_step step;
	uint64_t session;      /* the last one that was checked */
	uint64_t reported_at;  /* CLOCK_MONOTONIC of the child's last report, after a list or not */
	uint64_t changed_at;   /* CLOCK_MONOTONIC of the last report that changed healthy_ids */
	uint64_t none_at;      /* CLOCK_MONOTONIC since when it offers none; 0: it offers some */
	uint64_t check_at;     /* CLOCK_MONOTONIC, if `step` is not OFFER_AGREES */
	uint64_t next_renewal; /* CLOCK_MONOTONIC: no renewal before this time */
	uint64_t delay;        /* from the last renewal to the next; 0: none yet */
};
