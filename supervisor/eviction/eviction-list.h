/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of eviction: its data, which eviction.c keeps and saves, eviction-orders.c makes into
 * orders for devplugd-cluster, and eviction-view.c shows.
 */

#include <systemd/sd-event.h>

#include "common/log.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/eviction/eviction-plan.h"
#include "supervisor/eviction/eviction.h"

/* One resource that evicts pods. */
struct evicting {
	char *resource;
	struct eviction_plan plan;
	bool reported;             /* by the process that runs now */
	json_t *results;           /* of its pods, as devplugd-cluster reported them last */
	json_t *newest;            /* while these are being read; else NULL */
	uint64_t evicted, deleted; /* pods */
};

struct evictions {
	struct manager *manager;
	struct auxiliary *process; /* devplugd-cluster */
	struct evicting **items;
	size_t n_items;
	sd_event_source *timer;
	bool asking;       /* PodResources */
	bool active;       /* orders were sent that are not empty */
	char *sent;        /* the orders that devplugd-cluster has; NULL: none */
	char problem[256]; /* why the pods of devices are not known */
	char *saved;       /* the content of the file; NULL: not known */
	bool unsaved;      /* the file could not be written */
	struct log_once logged;
	struct log_budget log_budget;
};

/* The resource of that name, or NULL. `evictions` may be NULL. */
struct evicting *eviction_list_find(const struct evictions *evictions, const char *resource);

/* Adds a resource that is not there yet. Returns 0 or -ENOMEM. */
int eviction_list_add(struct evictions *evictions, const char *resource, struct evicting **ret);
void eviction_list_drop(struct evictions *evictions, const struct evicting *evicting);
void eviction_list_done(struct evictions *evictions);
