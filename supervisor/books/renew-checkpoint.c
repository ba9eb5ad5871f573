/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts, for each resource whose bookings matter, the answers of PodResources that do not name
 * what the checkpoint books, and decides when the kubelet is sent the list again.
 */
#include "supervisor/books/renew-checkpoint.h"

#include "common/control-child.h"
#include "common/map.h"
#include "common/pod-table.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"

static bool has_rows(const struct kubelet_checkpoint *checkpoint, const char *resource)
{
	for (size_t i = 0; checkpoint && i < checkpoint->count; i++)
		if (streq(checkpoint->rows[i].resource, resource))
			return true;
	return false;
}

/* Whether a device of the resource may be unhealthy until its pod has ended. */
static bool awaits_end(const struct child *child)
{
	const struct declaration *declaration = child_declaration(child);

	return declaration && child->resource->healthy < child->resource->devices &&
		(declaration_tests(declaration) ||
			declaration->missing.on_return == ON_RETURN_EVICT);
}

bool renewal_matters(const struct child *child)
{
	return claimant_replays(child->claimant) || claimant_excludes(child->claimant) ||
		awaits_end(child);
}

bool renewal_is_wanted(const struct manager *manager, const struct kubelet_checkpoint *checkpoint)
{
	for (size_t i = 0; i < manager->n_children; i++) {
		const struct child *child = manager->children[i];

		if (claimant_replays(child->claimant) ||
			(renewal_matters(child) && has_rows(checkpoint, child->resource->name)))
			return true;
	}
	return false;
}

/* Whether the checkpoint books a device of the resource that the answer does not name. */
static bool has_unnamed(const struct kubelet_checkpoint *checkpoint, const struct pod_table *pods,
	const char *resource)
{
	_cleanup_(map_done) struct map named = { 0 };
	int r = 0;

	for (size_t i = 0; i < pods->n_devices && r >= 0; i++)
		if (streq(pods->devices[i].resource, resource)) {
			r = map_put(&named, pods->devices[i].id, &named);
			r = r == -EEXIST ? 0 : r;
		}
	for (size_t i = 0; i < checkpoint->count && r >= 0; i++)
		if (streq(checkpoint->rows[i].resource, resource) &&
			!map_get(&named, checkpoint->rows[i].id))
			return true;
	return false;
}

static bool is_power_of_two(unsigned number)
{
	return number > 0 && (number & (number - 1)) == 0;
}

void renew_checkpoint(struct manager *manager, const struct kubelet_checkpoint *checkpoint,
	const struct pod_table *pods)
{
	const struct control_message message = CHILD_MESSAGE_INIT(CHILD_LIST_AGAIN);

	for (size_t i = 0; i < manager->n_children; i++) {
		struct child *child = manager->children[i];

		if (!checkpoint || !pods || !renewal_matters(child) ||
			!has_unnamed(checkpoint, pods, child->resource->name)) {
			child->unnamed = 0;
			continue;
		}
		child->unnamed++;
		if (child->unnamed > 1 && is_power_of_two(child->unnamed) && child->process.pid > 0)
			(void)control_send(child->process.control_fd, &message);
	}
}
