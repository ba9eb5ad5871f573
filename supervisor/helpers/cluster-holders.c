/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the question is answered: with the kubelet's list of a time after the question, or
 * with no pods if it does not answer.
 */
#include "supervisor/helpers/cluster-holders.h"

#include <jansson.h>

#include "common/sealed.h"
#include "supervisor/books/pod-assignments.h"
#include "supervisor/children/auxiliary.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"

void cluster_holders_take(struct cluster_holders *holders, const struct control_message *message)
{
	holders->number = message->number;
	holders->asked_at = now_usec(CLOCK_MONOTONIC);
}

void cluster_holders_send(
	struct cluster_holders *holders, const struct manager *manager, struct auxiliary *process)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_HOLDERS);
	json_auto_t *resources = NULL;
	_cleanup_free_ char *text = NULL;

	if (holders->number == 0 || !auxiliary_is_running(process) ||
		!assignments_ready_since(manager->assignments, holders->asked_at))
		return;
	resources = json_object();
	for (size_t i = 0; i < manager->n_children; i++) {
		const char *name = manager->children[i]->resource->name;
		json_t *rows = assignments_of(manager->assignments, name);

		if (rows)
			(void)json_object_set(resources, name, rows);
	}
	text = json_dumps(resources, JSON_COMPACT);
	message.number = holders->number;
	message.fds[0] = text ? sealed_new("holders", text, strlen(text)) : -EBADF;
	if (message.fds[0] >= 0 && auxiliary_send(process, &message) >= 0)
		holders->number = 0;
}
