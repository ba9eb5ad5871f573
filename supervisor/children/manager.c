/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a child by name and plans what follows a change, for all parts of the daemon. Also ends
 * the daemon when its view of the configured directories is out of date, because only a new start
 * can renew it.
 */
#include "supervisor/children/manager.h"

#include "common/log.h"
#include "supervisor/children/child.h"

#define FLUSH_INTERVAL (100 * USEC_PER_MSEC)

struct child *manager_find_child(const struct manager *manager, const char *name)
{
	for (size_t i = 0; i < manager->n_children; i++)
		if (streq(manager->children[i]->resource->name, name))
			return manager->children[i];
	return NULL;
}

void manager_changed(struct manager *manager)
{
	uint64_t at = manager->stopping ? 0 : manager->last_flush + FLUSH_INTERVAL;

	(void)sd_event_source_set_time(manager->flush, at);
	(void)sd_event_source_set_enabled(manager->flush, SD_EVENT_ONESHOT);
}

void manager_check_view(struct manager *manager)
{
	const char *lost = write_access_lost(&manager->write_access, &manager->config->kubelet);

	if (!lost || manager->view_lost)
		return;
	manager->view_lost = true;
	log_error("%s was removed on the host and created again, but this process still sees the "
		  "old directory or a read-only one; exiting, to be restarted with a new view",
		lost);
	(void)sd_event_source_set_enabled(manager->end, SD_EVENT_ONESHOT);
}
