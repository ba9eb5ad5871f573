/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what the supervisor and devplugd-exporter may send to each other.
 */
#include "common/control-exporter.h"

static const struct control_rule rules[] = {
	[CONTROL_STOP] = { .name = "STOP" },
	[EXPORTER_CONFIGURE] = { .name = "CONFIGURE", .n_fds = 1, .n_optional_fds = 1 },
	[CONTROL_INVENTORY] = { .name = "INVENTORY", .fields = FIELD_TEXT, .n_fds = 1 },
	[EXPORTER_STATE] = { .name = "STATE", .n_optional_fds = 1 },
	[EXPORTER_PODS] = { .name = "PODS", .n_fds = 1 },

	[CONTROL_ALIVE] = { .name = "ALIVE", .to_supervisor = true },
	[EXPORTER_SCRAPE] = { .name = "SCRAPE", .to_supervisor = true },
	[EXPORTER_TEXTFILE] = { .name = "TEXTFILE", .to_supervisor = true, .n_fds = 1 },
};

const struct control_protocol control_exporter = { rules, ARRAY_SIZE(rules) };
