/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs the problems of a configuration, one record for each, with file and line as fields, so that
 * an editor or a program can go there.
 */
#include "supervisor/log-report.h"

#include "common/log.h"
#include "common/message-id.h"

void log_report(const struct report *report, const char *file)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct origin *origin = &report->entries[i].origin;
		const char *text = report->entries[i].text;
		const struct log_fields fields = {
			.message_id = MESSAGE_ID_CONFIG_REJECTED,
			.config_file = origin->file ?: file,
			.config_line = origin->line,
		};

		if (origin->line > 0)
			log_full(LOG_ERR, &fields, "%s:%u: %s", fields.config_file, origin->line,
				text);
		else
			log_full(LOG_ERR, &fields, "%s: %s", fields.config_file, text);
	}
}
