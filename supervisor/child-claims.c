/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All is decided anew at every change: that is a pass over what is in memory, and never more often
 * than its cost allows.
 */
#include "child-claims.h"

#include "common/log.h"
#include "common/sealed.h"
#include "manager.h"

#define COST_FACTOR 4
/* While somebody waits for others, or does not read. */
#define LOOK_AGAIN (20 * USEC_PER_MSEC)

static int on_due(sd_event_source *source, uint64_t usec, void *userdata);

static void come_again(struct manager *manager, uint64_t at)
{
	at = MAX_OF(at, manager->owners_not_before);
	if (!manager->owners_timer)
		(void)sd_event_add_time(manager->event, &manager->owners_timer, CLOCK_MONOTONIC, at,
			1, on_due, manager);
	else if (sd_event_source_set_time(manager->owners_timer, at) >= 0)
		(void)sd_event_source_set_enabled(manager->owners_timer, SD_EVENT_ONESHOT);
}

void manager_decide_owners(struct manager *manager)
{
	come_again(manager, now_usec(CLOCK_MONOTONIC));
}

/* Whether it has said what it found, or will not say it soon. */
static bool is_known(const struct child *child)
{
	return child->claims.list ||
		(child->resource->state != RESOURCE_STARTING &&
			child->resource->state != RESOURCE_RESTARTING);
}

static int send_owners(struct child *child, const char *owners)
{
	_cleanup_control_ struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_OWNERS);
	int r;

	message.session = child->claims.number;
	if (*owners) {
		r = sealed_new("owners", owners, strlen(owners));
		if (r < 0)
			return r;
		message.fds[0] = r;
	}
	return control_send(child->control_fd, &message);
}

/* Tells a child what it does not know; `settled`: those before it are known. Returns whether it has
 * to be tried again. */
static bool tell(struct child *child, const char *owners, bool settled)
{
	struct child_claims *claims = &child->claims;
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	char *copy;

	if (child->control_fd < 0 || claims->number == 0)
		return false;
	if (!claims->asked && streq(claims->told, owners))
		return false;
	if (claims->asked && now < claims->asked_at + CLAIMS_PATIENCE && !settled)
		return true;
	copy = strdup(owners);
	if (!copy || send_owners(child, owners) < 0) {
		free(copy);
		return true;
	}
	free(claims->told);
	claims->told = copy;
	claims->asked = false;
	return false;
}

static void note(struct child *child, char *text)
{
	const struct log_fields fields = { .resource = child->resource->name };
	char *old = child->claims.note;

	if (text && (!old || !streq(text, old)))
		log_full(LOG_WARNING, &fields, "%s", text);
	if (!text != !old || (text && !streq(text, old)))
		manager_changed(child->manager);
	free(old);
	child->claims.note = text;
}

static void read_claims(struct child *child)
{
	_cleanup_close_ int fd = TAKE_FD(child->claims.fd);
	struct claims_list *list;

	if (fd < 0)
		return;
	if (claims_list_read(fd, &list) < 0) {
		child_claims_forget(child);
		resource_handle(
			child->resource, RESOURCE_BROKEN, "the child sent claims that are none");
		return;
	}
	(void)claims_list_free(child->claims.list);
	child->claims.list = list;
}

/* Returns whether to come again. */
static bool decide(struct manager *manager)
{
	_cleanup_free_ struct claimant *claimants =
		calloc(manager->n_children + 1, sizeof(*claimants));
	bool again = false, settled = true;

	for (size_t i = 0; claimants && i < manager->n_children; i++) {
		struct child *child = manager->children[i];

		read_claims(child);
		claimants[i] = (struct claimant){
			.name = child->resource->name,
			.overlap = child->overlap,
			.list = child->claims.list,
		};
	}
	if (!claimants || ownership_decide(claimants, manager->n_children) < 0)
		return true;
	for (size_t i = 0; i < manager->n_children; i++) {
		struct child *child = manager->children[i];

		again = tell(child, claimants[i].owners ?: "", settled) || again;
		note(child, TAKE_PTR(claimants[i].note));
		settled = settled && is_known(child);
	}
	claimants_done(claimants, manager->n_children);
	return again;
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct manager *manager = userdata;
	uint64_t begin = now_usec(CLOCK_MONOTONIC), end;
	bool again;

	if (manager->stopping)
		return 0;
	again = decide(manager);
	end = now_usec(CLOCK_MONOTONIC);
	manager->owners_not_before = end + COST_FACTOR * (end - begin);
	if (again)
		come_again(manager, end + LOOK_AGAIN);
	return 0;
}

void child_claim(struct child *child, struct control_message *message)
{
	struct child_claims *claims = &child->claims;

	(void)close_fd(claims->fd);
	claims->fd = TAKE_FD(message->fds[0]);
	claims->number = message->session;
	claims->asked = true;
	claims->asked_at = now_usec(CLOCK_MONOTONIC);
	manager_decide_owners(child->manager);
}

void child_claims_forget(struct child *child)
{
	child->claims.fd = close_fd(child->claims.fd);
	child->claims.number = 0;
	child->claims.asked = false;
	free(child->claims.told);
	child->claims.told = NULL;
}

void manager_drop_claims_of_failed(struct manager *manager)
{
	for (size_t i = 0; i < manager->n_children; i++) {
		struct child *child = manager->children[i];

		if (child->resource->state != RESOURCE_FAILED || !child->claims.list)
			continue;
		child->claims.list = claims_list_free(child->claims.list);
		manager_decide_owners(manager);
	}
}
