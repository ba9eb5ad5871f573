/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a container may start with its devices: those that its pod has had, or that are
 * clean, or that another pod shares. Any other device is cleaned first.
 */
#include "supervisor/books/cleaning-starts.h"

#include "common/control-child.h"
#include "supervisor/books/booked.h"
#include "supervisor/children/child.h"

/* How many containers of one resource wait for their start. */
#define STARTS_MAX 64

void cleaning_starts_answer(
	const struct child *child, uint64_t number, int metadata_fd, const char *why)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_USED);

	message.number = number;
	message.fds[0] = metadata_fd;
	(void)snprintf(message.text, sizeof(message.text), "%s", why);
	(void)control_send(child->process.control_fd, &message);
}

struct start *cleaning_starts_free(struct cleaning *cleaning, struct start *start)
{
	for (struct start **s = &cleaning->starts; *s; s = &(*s)->next)
		if (*s == start) {
			*s = start->next;
			break;
		}
	strings_done(&start->ids);
	free(start);
	return NULL;
}

/* The pod that the kubelet starts a container of. Returns 0, -ENODATA if the checkpoint does not
 * show it (yet), or negative errno. */
static int find_user(struct cleaning *cleaning, const struct dirty *dirty, const char *offered,
	struct usage *usage, const char **ret)
{
	int r = booked_users(cleaning->manager->booked, dirty->resource, dirty->id, offered,
		&usage->all, &usage->live, &usage->admin);

	if (r < 0)
		return r;
	/* If there are several, it is the new one: another pod may just have ended. */
	*ret = NULL;
	for (size_t i = 0; i < usage->live.count; i++)
		if (!*ret || !strings_contain(&dirty->users, usage->live.items[i]))
			*ret = usage->live.items[i];
	return *ret ? 0 : -ENODATA;
}

/* Whether anyone else has the device, so that it cannot be cleaned. */
static bool is_shared_with(const struct usage *usage, const char *user)
{
	return usage->admin || usage->live.count > 1 ||
		(usage->live.count == 1 && !streq(usage->live.items[0], user));
}

int cleaning_starts_admit(struct cleaning *cleaning, struct dirty *dirty, const char *user,
	const struct usage *usage, struct error *error)
{
	bool known = strings_contain(&dirty->users, user);
	const struct dirty *running;
	int64_t left;

	if (dirty->failure)
		return error_set(error, -ENODEV,
			"device %s could not be cleaned after a pod (devplugctl resume): %s",
			dirty->id, dirty->failure);
	if (!known && !dirty->clean && dirty->users.count > 0 && dirty->number == 0 &&
		!is_shared_with(usage, user)) {
		cleaning_run_hasten(dirty);
		cleaning_run_begin(cleaning, dirty);
	}
	running = dirty_devices_find_running(&cleaning->devices, dirty->id);
	left = running ? cleaning_run_seconds_left(cleaning, running) : 0;
	if (left > (int64_t)(RELEASE_SHORT / USEC_PER_SEC))
		return error_set(error, -EBUSY,
			"device %s is being cleaned after a pod, %lld s left; the kubelet will retry",
			dirty->id, (long long)left);
	return !running &&
		(known || dirty->clean || dirty->users.count == 0 || is_shared_with(usage, user));
}

int cleaning_starts_give(
	struct cleaning *cleaning, struct dirty *dirty, const char *user, struct error *error)
{
	(void)strings_remove(&dirty->ended, user);
	cleaning_run_set_open(dirty, NULL);
	dirty->again = dirty->held = 0;
	if (dirty->clean)
		cleaning->devices.unsaved = true;
	dirty->clean = false;
	return cleaning_run_add_once(&cleaning->devices, &dirty->users, user) < 0
		? error_set(error, -ENOMEM, "out of memory")
		: 0;
}

static int admit_user(struct cleaning *cleaning, struct dirty *dirty, const char *user,
	const struct usage *usage, struct error *error)
{
	int r = cleaning_starts_admit(cleaning, dirty, user, usage, error);

	return r > 0 && cleaning_starts_give(cleaning, dirty, user, error) < 0 ? -ENOMEM : r;
}

static int admit_id(struct cleaning *cleaning, const struct start *start, const char *offered,
	struct error *error)
{
	struct usage own = { 0 }, usage = { 0 };
	const char *user = NULL;
	struct dirty *dirty;
	char id[OFFERED_ID_MAX + 1];
	int r;

	cleaning_run_device_of(start->child, offered, id);
	r = cleaning_run_add(cleaning, start->child, id, &dirty);
	if (r >= 0)
		r = find_user(cleaning, dirty, offered, &own, &user);
	if (r >= 0)
		r = usage_of(cleaning, dirty, &usage);
	if (r >= 0)
		r = admit_user(cleaning, dirty, user, &usage, error);
	else if (r == -ENODATA)
		r = 0;
	else
		(void)error_set(error, r, "cannot determine the pod of device %s: %s", id,
			r == -EAGAIN ? "the kubelet's checkpoint cannot be read" : strerror(-r));
	usage_done(&own);
	usage_done(&usage);
	return r;
}

/* Why a container waits, for the time when it has waited long enough. */
static void explain_wait(
	const struct cleaning *cleaning, const struct start *start, char *ret, size_t size)
{
	(void)snprintf(ret, size,
		"the kubelet's checkpoint does not show the pod that starts; the kubelet will retry");
	for (size_t i = 0; i < start->ids.count; i++) {
		char id[OFFERED_ID_MAX + 1];
		const struct dirty *dirty, *running;

		cleaning_run_device_of(start->child, start->ids.items[i], id);
		running = dirty_devices_find_running(&cleaning->devices, id);
		dirty = dirty_devices_find(&cleaning->devices, start->child->resource->name, id);
		if (running)
			(void)snprintf(ret, size,
				"device %s is being cleaned after a pod, %lld s left; the kubelet will retry",
				id, (long long)cleaning_run_seconds_left(cleaning, running));
		else if (dirty && !dirty->clean && dirty->users.count > 0)
			(void)snprintf(ret, size,
				"device %s waits to be cleaned after a pod%s%s; the kubelet will retry",
				id, dirty->open ? ": " : "", dirty->open ?: "");
	}
}

/* Answers the start of a container, if that is decided. */
static void try_start(struct cleaning *cleaning, struct start *start)
{
	struct error error = { 0 };
	bool waits = false;
	int r = 0;

	for (size_t i = 0; i < start->ids.count && r >= 0; i++) {
		r = admit_id(cleaning, start, start->ids.items[i], &error);
		waits = waits || r == 0;
	}
	if (r >= 0 && !waits)
		r = cleaning_run_save(cleaning, &error);
	if (r >= 0 && waits) {
		if (now_usec(CLOCK_MONOTONIC) < start->deadline)
			return;
		explain_wait(cleaning, start, error.message, sizeof(error.message));
	}
	cleaning_starts_answer(start->child, start->number, -EBADF, error.message);
	(void)cleaning_starts_free(cleaning, start);
}

void cleaning_starts_try(struct cleaning *cleaning)
{
	struct start *next;

	for (struct start *start = cleaning->starts; start; start = next) {
		next = start->next;
		try_start(cleaning, start);
	}
}

void cleaning_starts_take(
	struct cleaning *cleaning, const struct child *child, uint64_t number, struct strings *ids)
{
	struct start *start = NULL;
	size_t n = 0;

	for (const struct start *other = cleaning->starts; other; other = other->next)
		n += other->child == child;
	if (n < STARTS_MAX)
		start = calloc(1, sizeof(*start));

	if (!start) {
		cleaning_starts_answer(child, number, -EBADF,
			"too many containers start at once; the kubelet will retry");
		return;
	}
	start->child = child;
	start->number = number;
	start->deadline = now_usec(CLOCK_MONOTONIC) + CLEANING_WAIT;
	start->ids = *ids;
	*ids = (struct strings){ 0 };
	start->next = cleaning->starts;
	cleaning->starts = start;
	cleaning_run_look_soon(cleaning);
}
