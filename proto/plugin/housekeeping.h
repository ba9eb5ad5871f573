/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The periodic work of a resource's process, which ends processes that programs left behind and
 * returns memory to the kernel.
 */

#include <systemd/sd-event.h>

#include "common/util.h"

#define HOUSEKEEPING_INTERVAL (4 * USEC_PER_SEC)

struct housekeeping {
	void (*on_due)(void *userdata); /* other periodic work */
	void *userdata;
	sd_event_source *timer;
	size_t memory_kept;   /* private memory after the last return */
	size_t memory_in_use; /* maximum that malloc has allocated since then */
	bool orphans_logged;  /* that programs leave processes behind */
};

/* Returns 0 or negative errno. */
int housekeeping_start(struct housekeeping *housekeeping, sd_event *event);

void housekeeping_done(struct housekeeping *housekeeping);
