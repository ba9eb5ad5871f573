/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which resources are reported, and which failures of a resource are problems that its
 * process cannot report. Waiting for the kubelet is none: the Node has a condition for that.
 */
#include "supervisor/helpers/cluster-report.h"

#include "common/sealed.h"
#include "configuration/config.h"
#include "supervisor/children/auxiliary.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/eviction/eviction.h"

struct cluster_report {
	struct manager *manager;
	struct auxiliary *process;
	char *sent; /* the resources that the process knows; NULL: none */
	char failure[CONTROL_TEXT_MAX];
};

bool cluster_report_is_wanted(const struct cluster_report *report)
{
	return report->manager->config->cluster.report;
}

void cluster_report_started(struct cluster_report *report)
{
	free(TAKE_PTR(report->sent));
	report->failure[0] = '\0';
}

static json_t *describe(const struct manager *manager, const struct resource *resource)
{
	bool failed = resource->state == RESOURCE_FAILED || resource->state == RESOURCE_BACKOFF;

	return json_pack("{s:s, s:o*}", "failure", failed ? resource->reason : "", "evictions",
		evictions_report(manager->evictions, resource->name));
}

/* The text of CLUSTER_RESOURCES (malloc'ed), or NULL without memory. */
static char *make_text(const struct cluster_report *report)
{
	const struct manager *manager = report->manager;
	json_auto_t *resources = json_object();

	for (size_t i = 0; i < manager->n_children && cluster_report_is_wanted(report); i++) {
		const struct child *child = manager->children[i];

		if (!child->leaving)
			(void)json_object_set_new(resources, child->resource->name,
				describe(manager, child->resource));
	}
	return json_dumps(resources, JSON_COMPACT);
}

bool cluster_report_send(struct cluster_report *report)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_RESOURCES);
	bool wanted = cluster_report_is_wanted(report), first;
	_cleanup_free_ char *text = NULL;

	if (!auxiliary_is_running(report->process) || (!wanted && !report->sent))
		return false;
	text = make_text(report);
	if (!text || (report->sent && streq(text, report->sent)))
		return false;
	message.fds[0] = sealed_new("resources", text, strlen(text));
	if (message.fds[0] < 0 || auxiliary_send(report->process, &message) < 0)
		return false;
	first = wanted && (!report->sent || streq(report->sent, "{}"));
	free(report->sent);
	report->sent = TAKE_PTR(text);
	return first;
}

void cluster_report_take(struct cluster_report *report, const struct control_message *message)
{
	(void)snprintf(report->failure, sizeof(report->failure), "%s", message->text);
}

const char *cluster_report_failure(const struct cluster_report *report)
{
	return report->failure;
}

int cluster_report_new(
	struct manager *manager, struct auxiliary *process, struct cluster_report **ret)
{
	struct cluster_report *report = calloc(1, sizeof(*report));

	if (!report)
		return -ENOMEM;
	report->manager = manager;
	report->process = process;
	*ret = report;
	return 0;
}

struct cluster_report *cluster_report_free(struct cluster_report *report)
{
	if (!report)
		return NULL;
	free(report->sent);
	free(report);
	return NULL;
}
