/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores the applied configuration in the file that a daemon uses when its own file is broken
 * (configuration/last-accepted.h).
 */
#include "supervisor/keep-configuration.h"

#include "common/log.h"
#include "configuration/last-accepted.h"
#include "supervisor/children/manager.h"
#include "supervisor/files/runtime-files.h"

void keep_configuration(struct manager *manager)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	int r;

	r = last_accepted_text(manager->config, &text, &size);
	if (r >= 0)
		r = runtime_files_write(manager->files, LAST_ACCEPTED_FILE, text, size);
	/* An older one would be taken for this one. */
	if (r < 0)
		runtime_files_remove(manager->files, LAST_ACCEPTED_FILE);
	if (r < 0 && !manager->keep_failed)
		log_warning(
			"cannot save the configuration in %s/%s: %s; if %s is not valid at the next start, devplugd will not start",
			manager->config->runtime_dir, LAST_ACCEPTED_FILE, strerror(-r),
			manager->config_file);
	manager->keep_failed = r < 0;
}
