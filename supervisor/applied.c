/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which declaration applies to a resource's files, claims and owners: not the one in the
 * newest file, which its child may refuse, but the one that the child has accepted. Files that a
 * resource no longer publishes are removed when the child accepts, not earlier.
 */
#include "supervisor/applied.h"

#include "common/log.h"
#include "supervisor/books/booked.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/files/published-files.h"
#include "supervisor/helpers/dra.h"
#include "supervisor/ownership/arbiter.h"

static bool all_accepted(const struct manager *manager)
{
	for (size_t i = 0; i < manager->n_children; i++) {
		const struct child *child = manager->children[i];

		if (!child->leaving && !child->resource->accepted)
			return false;
	}
	return true;
}

void applied_configure(struct manager *manager)
{
	_cleanup_free_ const struct declaration **declarations =
		calloc(manager->n_children + 1, sizeof(*declarations));
	struct published_judges judges = {
		.declarations = declarations,
		.complete = all_accepted(manager),
	};

	if (!declarations) {
		log_error("cannot remove files that are no longer needed: out of memory");
		return;
	}
	for (size_t i = 0; i < manager->n_children; i++) {
		const struct declaration *judge = child_declaration(manager->children[i]);

		if (judge)
			declarations[judges.count++] = judge;
	}
	published_configure(manager->published, manager->config, &judges);
	booked_checkpoint_changed(manager->booked);
}

/* Another resource may be waiting for the name of a file. */
static void publish_failed_again(const struct manager *manager)
{
	for (size_t i = 0; i < manager->n_children; i++)
		if (proposal_failure(manager->children[i]->proposal))
			proposal_publish_again(manager->children[i]->proposal);
}

static bool has_other_driver(
	const struct resource_config *before, const struct resource_config *now)
{
	const char *a = resource_config_driver(before), *b = resource_config_driver(now);

	return a && b ? !streq(a, b) : a != b;
}

void applied_changed(
	struct manager *manager, struct child *child, const struct resource_config *before)
{
	const struct resource_config *now = resource_applied(child->resource);

	if (child->leaving)
		return;
	if (before->declaration.overlap != now->declaration.overlap) {
		claimant_set_overlap(child->claimant, now->declaration.overlap);
		arbiter_decide(manager->arbiter);
	}
	if (!streq(before->text, now->text)) {
		published_judge(manager->published, &now->declaration);
		booked_checkpoint_changed(manager->booked);
		publish_failed_again(manager);
	}
	if (before->registration != now->registration || has_other_driver(before, now)) {
		dra_configure(manager->dra);
		child->devices_passed_on = false;
		manager_changed(manager);
	}
	if (!published_is_complete(manager->published) && all_accepted(manager))
		applied_configure(manager);
}
