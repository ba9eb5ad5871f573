/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in force goes into the file that a daemon uses when it finds its own broken; see
 * config/last-accepted.h.
 */
#include "common/log.h"
#include "config/last-accepted.h"
#include "manager.h"
#include "state.h"

void manager_keep_configuration(struct manager *manager)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	int r;

	r = last_accepted_text(manager->config, &text, &size);
	if (r >= 0)
		r = state_write_private(manager->state, LAST_ACCEPTED_FILE, text, size);
	if (r < 0) {
		/* An older one would be taken for this one. */
		state_remove(manager->state, LAST_ACCEPTED_FILE);
		log_warning(
			"cannot keep the configuration in %s/%s: %s; if %s is broken at the next "
			"start, devplugd will not start",
			manager->config->runtime_dir, LAST_ACCEPTED_FILE, strerror(-r),
			manager->config_file);
	}
}
