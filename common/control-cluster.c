/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what the supervisor and devplugd-cluster may send to each other.
 */
#include "common/control-cluster.h"

static const struct control_rule rules[] = {
	[CONTROL_STOP] = { .name = "STOP" },
	[CLUSTER_CONFIGURE] = { .name = "CONFIGURE", .n_fds = 1 },
	[CLUSTER_SESSION] = { .name = "SESSION",
		.fields = FIELD_DRIVER | FIELD_SESSION,
		.n_fds = 1 },
	[CLUSTER_REGISTERED] = { .name = "REGISTERED", .fields = FIELD_DRIVER },
	[CONTROL_INVENTORY] = { .name = "INVENTORY", .fields = FIELD_TEXT, .n_fds = 1 },
	[CLUSTER_FILE] = { .name = "FILE",
		.fields = FIELD_NUMBER | FIELD_TEXT,
		.n_optional_fds = 1 },
	[CLUSTER_PREPARED] = { .name = "PREPARED",
		.fields = FIELD_NUMBER | FIELD_AGAIN | FIELD_TEXT,
		.n_optional_fds = 1 },
	[CLUSTER_HELD] = { .name = "HELD", .n_fds = 1 },
	[CLUSTER_RESOURCES] = { .name = "RESOURCES", .n_fds = 1 },
	[CLUSTER_LABELS] = { .name = "LABELS", .n_fds = 1 },
	[CLUSTER_HOLDERS] = { .name = "HOLDERS", .fields = FIELD_NUMBER, .n_fds = 1 },
	[CLUSTER_LOOK_UP] = { .name = "LOOK_UP", .fields = FIELD_NUMBER, .n_fds = 1 },
	[CLUSTER_EVICT] = { .name = "EVICT", .n_fds = 1 },

	[CONTROL_ALIVE] = { .name = "ALIVE", .to_supervisor = true },
	[CLUSTER_SESSION_ENDED] = { .name = "SESSION_ENDED",
		.to_supervisor = true,
		.fields = FIELD_SESSION | FIELD_TEXT },
	[CLUSTER_FILE_WANTED] = { .name = "FILE_WANTED",
		.to_supervisor = true,
		.fields = FIELD_NUMBER | FIELD_TEXT },
	[CLUSTER_NODE] = { .name = "NODE", .to_supervisor = true, .fields = FIELD_TEXT },
	[CLUSTER_PREPARE] = { .name = "PREPARE",
		.to_supervisor = true,
		.fields = FIELD_DRIVER | FIELD_NUMBER | FIELD_UNTIL,
		.n_fds = 1 },
	[CLUSTER_CANCEL] = { .name = "CANCEL", .to_supervisor = true, .fields = FIELD_NUMBER },
	[CLUSTER_UNPREPARE] = { .name = "UNPREPARE",
		.to_supervisor = true,
		.fields = FIELD_DRIVER | FIELD_NUMBER | FIELD_TEXT },
	[CLUSTER_PUBLISHED] = { .name = "PUBLISHED",
		.to_supervisor = true,
		.fields = FIELD_DRIVER | FIELD_TEXT },
	[CLUSTER_HAPPENED] = { .name = "HAPPENED",
		.to_supervisor = true,
		.fields = FIELD_DRIVER | FIELD_NUMBER | FIELD_TEXT },
	[CLUSTER_REFUSED] = { .name = "REFUSED", .to_supervisor = true, .fields = FIELD_TEXT },
	[CLUSTER_API_FAILED] = { .name = "API_FAILED", .to_supervisor = true },
	[CLUSTER_UNKNOWN] = { .name = "UNKNOWN",
		.to_supervisor = true,
		.fields = FIELD_NUMBER,
		.n_fds = 1 },
	[CLUSTER_ATTRIBUTES] = { .name = "ATTRIBUTES",
		.to_supervisor = true,
		.fields = FIELD_DRIVER,
		.n_fds = 1 },
	[CLUSTER_EVICTED] = { .name = "EVICTED", .to_supervisor = true, .n_fds = 1 },
	[CLUSTER_POOL] = { .name = "POOL",
		.to_supervisor = true,
		.fields = FIELD_DRIVER | FIELD_POOL | FIELD_TEXT },
	[CLUSTER_HOLDERS_WANTED] = { .name = "HOLDERS_WANTED",
		.to_supervisor = true,
		.fields = FIELD_NUMBER },
	[CLUSTER_REPORTED] = { .name = "REPORTED", .to_supervisor = true, .fields = FIELD_TEXT },
	[CLUSTER_LABELLED] = { .name = "LABELLED", .to_supervisor = true, .fields = FIELD_TEXT },
};

const struct control_protocol control_cluster = { rules, ARRAY_SIZE(rules) };

const char *const cluster_events[_CLUSTER_EVENT_MAX] = {
	[CLUSTER_PREPARE_OK] = "prepare ok",
	[CLUSTER_PREPARE_FAILED] = "prepare failed",
	[CLUSTER_UNPREPARE_OK] = "unprepare ok",
	[CLUSTER_UNPREPARE_FAILED] = "unprepare failed",
};

void control_cluster_count(enum cluster_event event, uint64_t driver, uint64_t usec)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_HAPPENED);

	message.driver = driver;
	message.number = MAX_OF(usec, (uint64_t)1);
	(void)snprintf(message.text, sizeof(message.text), "%s", cluster_events[event]);
	(void)control_send(CONTROL_FD, &message);
}
