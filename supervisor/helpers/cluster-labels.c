/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which labels the Node shall have. The process of a resource has reported them, and they
 * were checked when they arrived. One that has not reported yet keeps its labels.
 */
#include "supervisor/helpers/cluster-labels.h"

#include <jansson.h>

#include "common/sealed.h"
#include "configuration/config.h"
#include "drivers/model/node-label.h"
#include "supervisor/children/auxiliary.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"

/* As node-feature-discovery does it. */
static void add_label(json_t *labels, const char *name, const char *value)
{
	char full[NODE_LABEL_NAME_MAX + 1];

	(void)snprintf(
		full, sizeof(full), "%s%s", strchr(name, '/') ? "" : NODE_LABEL_DOMAIN "/", name);
	(void)json_object_set_new(labels, full, json_string(value));
}

static json_t *describe(const struct child *child)
{
	_cleanup_free_ char *text = child->labels ? strdup(child->labels) : NULL;
	char *rest = text, *line, *value;
	json_t *labels;

	if (!text)
		return json_null();
	labels = json_object();
	while ((line = strsep(&rest, "\n"))) {
		value = strchr(line, '=');
		if (!value)
			continue;
		*value = '\0';
		add_label(labels, line, value + 1);
	}
	return labels;
}

/* The text of CLUSTER_LABELS (malloc'ed), or NULL without memory. */
static char *make_text(const struct manager *manager)
{
	json_auto_t *labels = json_object();

	for (size_t i = 0; i < manager->n_children && manager->config->cluster.labels; i++) {
		const struct child *child = manager->children[i];

		if (!child->leaving &&
			resource_applied(child->resource)->declaration.labels.count > 0)
			(void)json_object_set_new(labels, child->resource->name, describe(child));
	}
	return json_dumps(labels, JSON_COMPACT | JSON_SORT_KEYS);
}

void cluster_labels_send(
	struct cluster_labels *labels, const struct manager *manager, struct auxiliary *process)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_LABELS);
	_cleanup_free_ char *text = NULL;

	if (!auxiliary_is_running(process) || (!manager->config->cluster.labels && !labels->sent))
		return;
	text = make_text(manager);
	if (!text || (labels->sent && streq(text, labels->sent)))
		return;
	message.fds[0] = sealed_new("labels", text, strlen(text));
	if (message.fds[0] < 0 || auxiliary_send(process, &message) < 0)
		return;
	free(labels->sent);
	labels->sent = TAKE_PTR(text);
}

void cluster_labels_take(const struct manager *manager, const struct control_message *message)
{
	for (size_t i = 0; i < manager->n_children; i++) {
		struct child *child = manager->children[i];

		free(TAKE_PTR(child->labels_failure));
		if (message->text[0] && manager->config->cluster.labels &&
			resource_applied(child->resource)->declaration.labels.count > 0)
			child->labels_failure = strdup(message->text);
	}
}

void cluster_labels_done(struct cluster_labels *labels)
{
	free(TAKE_PTR(labels->sent));
}
