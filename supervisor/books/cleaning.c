/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a device is cleaned, and who waits for it. Everything is decided again from the
 * kubelet's data whenever these change, so no event can be missed. What is not saved is not
 * answered, and a device counts as clean only after its program has succeeded.
 */
#include "supervisor/books/cleaning.h"

#include <systemd/sd-event.h>

#include "common/control-child.h"
#include "common/log.h"
#include "common/offered-id.h"
#include "common/sealed.h"
#include "common/text.h"
#include "supervisor/books/booked.h"
#include "supervisor/books/dirty-devices.h"
#include "supervisor/books/pod-resources.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"

/* As many as the process of a resource runs at a time. */
#define RUNS_MAX 4
#define RETRY    USEC_PER_SEC
/* The maximum time from the answer to Allocate until the kubelet has booked the devices. */
#define BOOKING_DELAY (200 * USEC_PER_MSEC)
/* How many containers of one resource wait for their start. */
#define STARTS_MAX 64

/* A container that is about to start. */
struct start {
	struct start *next;
	const struct child *child;
	uint64_t number, deadline;
	struct strings ids;
};

struct cleaning {
	struct manager *manager;
	struct dirty_devices devices;
	struct start *starts;
	uint64_t number; /* of the last CHILD_CLEAN */
	sd_event_source *look, *timer;
	uint64_t asked_at; /* when PodResources was asked last; CLOCK_MONOTONIC */
	bool asking;
	struct log_once save_logged;
};

/* Who has a device. */
struct usage {
	struct strings all, live;
	bool admin;
};

static void usage_done(struct usage *usage)
{
	strings_done(&usage->all);
	strings_done(&usage->live);
}

static int usage_of(struct cleaning *cleaning, const struct dirty *dirty, struct usage *ret)
{
	int r = booked_users(cleaning->manager->booked, dirty->resource, dirty->id, NULL, &ret->all,
		&ret->live, &ret->admin);

	for (size_t i = 0; i < dirty->ended.count && r >= 0; i++)
		(void)strings_remove(&ret->live, dirty->ended.items[i]);
	return r;
}

static bool is_used(const struct dirty *dirty, const struct usage *usage)
{
	return usage->live.count > 0 || usage->admin || dirty->taken_at > 0;
}

static int add_once(struct dirty_devices *devices, struct strings *strings, const char *text)
{
	if (strings_contain(strings, text))
		return 0;
	devices->unsaved = true;
	return strings_add(strings, text, strlen(text));
}

static int64_t seconds_left(const struct dirty *dirty, const struct declaration *declaration)
{
	uint64_t end = dirty->since + declaration->release.timeout;
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	return (int64_t)((end - MIN_OF(end, now) + USEC_PER_SEC - 1) / USEC_PER_SEC);
}

/* --- saving --- */

/* Returns 0, or negative errno with the error filled. */
static int save(struct cleaning *cleaning, struct error *error)
{
	int r = dirty_devices_save(&cleaning->devices);

	if (log_once_admits(&cleaning->save_logged, r < 0 ? strerror(-r) : NULL))
		log_error(
			"cannot save which devices are dirty in %s: %s; no pod gets a device of a resource with `release` until that works",
			cleaning->devices.path, strerror(-r));
	if (r < 0)
		return error_set(error, r,
			"cannot save that the device is in use in %s: %s; make room there",
			cleaning->devices.path, strerror(-r));
	return 0;
}

static void look_soon(struct cleaning *cleaning)
{
	(void)sd_event_source_set_enabled(cleaning->look, SD_EVENT_ONESHOT);
}

/* --- the program --- */

static const struct child *ready_child(const struct cleaning *cleaning, const char *resource)
{
	const struct child *child = manager_find_child(cleaning->manager, resource);
	const struct declaration *declaration = child ? child_declaration(child) : NULL;

	return declaration && declaration_cleans(declaration) &&
			(child->devices_fd >= 0 || child->devices_too_large)
		? child
		: NULL;
}

static size_t count_running(const struct cleaning *cleaning, const char *resource)
{
	size_t n = 0;

	for (size_t i = 0; i < cleaning->devices.count; i++)
		n += cleaning->devices.items[i]->number > 0 &&
			streq(cleaning->devices.items[i]->resource, resource);
	return n;
}

/* Begins to clean a device, unless that is impossible now. */
static void begin(struct cleaning *cleaning, struct dirty *dirty)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_CLEAN);
	const struct child *child = ready_child(cleaning, dirty->resource);
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (!child || dirty->again > now || count_running(cleaning, dirty->resource) >= RUNS_MAX)
		return;
	dirty->again = now + RETRY;
	message.number = ++cleaning->number;
	(void)snprintf(message.text, sizeof(message.text), "%s", dirty->id);
	if (control_send(child->process.control_fd, &message) < 0)
		return;
	dirty->number = message.number;
	dirty->since = now;
}

static void note_failure(struct cleaning *cleaning, struct dirty *dirty,
	const struct log_fields *fields, const char *why)
{
	free(dirty->failure);
	dirty->failure = strdup(*why ? why : "the program gave no reason");
	cleaning->devices.unsaved = true;
	log_full(LOG_WARNING, fields,
		"device %s could not be cleaned after a pod, and is not offered until \"devplugctl resume %s %s\": %s",
		dirty->id, dirty->resource, dirty->id, dirty->failure ?: "");
}

/* No pod that had it until now matters any more. */
static void note_clean(struct cleaning *cleaning, struct dirty *dirty)
{
	struct usage usage = { 0 };

	strings_done(&dirty->users);
	strings_done(&dirty->seen);
	dirty->clean = dirty->taken_at <= dirty->since;
	cleaning->devices.unsaved = true;
	(void)usage_of(cleaning, dirty, &usage);
	/* It may have been allocated meanwhile. */
	dirty->clean = dirty->clean && usage.live.count == 0;
	usage_done(&usage);
}

static void take_result(struct cleaning *cleaning, const struct child *child, struct dirty *dirty,
	const struct control_message *message)
{
	const struct log_fields fields = { .resource = dirty->resource, .device = dirty->id };
	struct error error = { 0 };

	dirty->number = 0;
	if (message->phase == CHILD_CLEANED_FAILED)
		note_failure(cleaning, dirty, &fields, message->text);
	else if (message->phase == CHILD_CLEANED_OK) {
		note_clean(cleaning, dirty);
		log_full(LOG_INFO, &fields, "cleaned device %s after a pod", dirty->id);
	}
	(void)save(cleaning, &error);
	look_soon(cleaning);
}

/* --- starts of containers --- */

static void answer(const struct child *child, uint64_t number, const char *why)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_USED);

	message.number = number;
	(void)snprintf(message.text, sizeof(message.text), "%s", why);
	(void)control_send(child->process.control_fd, &message);
}

static struct start *start_free(struct cleaning *cleaning, struct start *start)
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

/* The device of an offered id. */
static void device_of(const struct child *child, const char *offered, char ret[OFFERED_ID_MAX + 1])
{
	const struct declaration *declaration = child_declaration(child);
	size_t length = strlen(offered);
	unsigned replica;

	if (declaration && declaration_is_shared(declaration))
		(void)offered_id_split(offered, &length, &replica);
	(void)snprintf(ret, OFFERED_ID_MAX + 1, "%.*s", (int)MIN_OF(length, (size_t)OFFERED_ID_MAX),
		offered);
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

/* Lets the user have the device, or has it cleaned. Returns 1 if the user may have it, 0 if not
 * yet, or negative errno with the error filled. */
static int admit(struct cleaning *cleaning, struct dirty *dirty, const char *user,
	const struct usage *usage, struct error *error)
{
	const struct child *child = ready_child(cleaning, dirty->resource);
	bool known = strings_contain(&dirty->users, user);
	int64_t left;

	if (dirty->failure)
		return error_set(error, -EIO,
			"device %s could not be cleaned after a pod (devplugctl resume): %s",
			dirty->id, dirty->failure);
	if (!known && !dirty->clean && dirty->users.count > 0 && dirty->number == 0 &&
		!is_shared_with(usage, user))
		begin(cleaning, dirty);
	left = dirty->number > 0 && child ? seconds_left(dirty, child_declaration(child)) : 0;
	if (left > (int64_t)(RELEASE_SHORT / USEC_PER_SEC))
		return error_set(error, -EBUSY,
			"device %s is being cleaned after a pod, %lld s left; the kubelet will retry",
			dirty->id, (long long)left);
	if (dirty->number > 0 ||
		(!known && !dirty->clean && dirty->users.count > 0 && !is_shared_with(usage, user)))
		return 0;
	(void)strings_remove(&dirty->ended, user);
	if (dirty->clean)
		cleaning->devices.unsaved = true;
	dirty->clean = false;
	return add_once(&cleaning->devices, &dirty->users, user) < 0
		? error_set(error, -ENOMEM, "out of memory")
		: 1;
}

static int admit_id(struct cleaning *cleaning, const struct start *start, const char *offered,
	struct error *error)
{
	struct usage own = { 0 }, usage = { 0 };
	const char *user = NULL;
	struct dirty *dirty;
	char id[OFFERED_ID_MAX + 1];
	int r;

	device_of(start->child, offered, id);
	r = dirty_devices_add(&cleaning->devices, start->child->resource->name, id, &dirty);
	if (r >= 0)
		r = find_user(cleaning, dirty, offered, &own, &user);
	if (r >= 0)
		r = usage_of(cleaning, dirty, &usage);
	if (r >= 0)
		r = admit(cleaning, dirty, user, &usage, error);
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
	const struct declaration *declaration = child_declaration(start->child);

	(void)snprintf(ret, size,
		"the kubelet's checkpoint does not show the pod that starts; the kubelet will retry");
	for (size_t i = 0; i < start->ids.count && declaration; i++) {
		char id[OFFERED_ID_MAX + 1];
		const struct dirty *dirty;

		device_of(start->child, start->ids.items[i], id);
		dirty = dirty_devices_find(&cleaning->devices, start->child->resource->name, id);
		if (dirty && dirty->number > 0)
			(void)snprintf(ret, size,
				"device %s is being cleaned after a pod, %lld s left; the kubelet will retry",
				id, (long long)seconds_left(dirty, declaration));
		else if (dirty && !dirty->clean && dirty->users.count > 0)
			(void)snprintf(ret, size,
				"device %s waits to be cleaned after a pod; the kubelet will retry",
				id);
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
		r = save(cleaning, &error);
	if (r >= 0 && waits) {
		if (now_usec(CLOCK_MONOTONIC) < start->deadline)
			return;
		explain_wait(cleaning, start, error.message, sizeof(error.message));
	}
	answer(start->child, start->number, error.message);
	(void)start_free(cleaning, start);
}

static void try_starts(struct cleaning *cleaning)
{
	struct start *next;

	for (struct start *start = cleaning->starts; start; start = next) {
		next = start->next;
		try_start(cleaning, start);
	}
}

/* --- devices of pods that have ended --- */

/* A kubelet that was just started may not know its pods yet. */
static bool is_decided_by(const struct cleaning *cleaning, const char *resource, uint64_t asked_at)
{
	const struct child *child = manager_find_child(cleaning->manager, resource);
	uint64_t interval = cleaning->manager->config->kubelet.pod_resources_interval;

	return child && child->resource->state == RESOURCE_SERVING &&
		child->resource->serving_since + interval <= asked_at;
}

/* Whether PodResources names the device for the pod. */
static bool is_named(struct cleaning *cleaning, const struct dirty *dirty, const char *user,
	const struct pod_table *pods)
{
	bool found = false;

	for (size_t i = 0; i < pods->n_devices && !found; i++) {
		const struct pod_device *device = &pods->devices[i];
		struct usage usage = { 0 };

		if (!streq(device->resource, dirty->resource) ||
			!offered_id_is_of(device->id, dirty->id))
			continue;
		found = booked_users(cleaning->manager->booked, dirty->resource, dirty->id,
				device->id, &usage.all, &usage.live, &usage.admin) < 0 ||
			strings_contain(&usage.live, user);
		usage_done(&usage);
	}
	return found;
}

/* PodResources omits plain init containers, so only a pod that it has named can have ended. */
static void note_named(struct cleaning *cleaning, struct dirty *dirty, const struct pod_table *pods,
	uint64_t asked_at)
{
	bool decided = is_decided_by(cleaning, dirty->resource, asked_at);
	struct usage usage = { 0 };

	if (usage_of(cleaning, dirty, &usage) < 0)
		usage.live.count = 0;
	for (size_t i = 0; i < usage.live.count; i++) {
		const char *user = usage.live.items[i];

		if (startswith(user, BOOKED_CLAIM))
			continue;
		if (is_named(cleaning, dirty, user, pods))
			(void)add_once(&cleaning->devices, &dirty->seen, user);
		else if (decided && strings_contain(&dirty->seen, user))
			(void)add_once(&cleaning->devices, &dirty->ended, user);
	}
	if (decided && dirty->taken_at > 0 &&
		dirty->taken_at + cleaning->manager->config->kubelet.pod_resources_interval <=
			asked_at)
		dirty->taken_at = 0;
	usage_done(&usage);
}

static void on_pods(const struct pod_answer *pods, void *userdata)
{
	struct cleaning *cleaning = userdata;
	uint64_t written_at;

	cleaning->asking = false;
	(void)booked_checkpoint(cleaning->manager->booked, &written_at);
	for (size_t i = 0; pods->table && i < cleaning->devices.count; i++)
		note_named(cleaning, cleaning->devices.items[i], pods->table, pods->asked_at);
	look_soon(cleaning);
}

static bool awaits_pods(const void *userdata)
{
	const struct cleaning *cleaning = userdata;

	for (size_t i = 0; i < cleaning->devices.count; i++)
		if (!cleaning->devices.items[i]->clean)
			return true;
	return false;
}

/* Asks about pods from time to time, while any has a device. Returns when to ask next. */
static uint64_t ask_pods(struct cleaning *cleaning)
{
	const struct kubelet_config *kubelet = &cleaning->manager->config->kubelet;
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (!kubelet->pod_resources || cleaning->asking || !awaits_pods(cleaning))
		return USEC_INFINITY;
	if (cleaning->asked_at + kubelet->pod_resources_interval <= now) {
		cleaning->asked_at = now;
		cleaning->asking = pod_resources_ask(cleaning->manager->pods, POD_QUESTION_LIST, 0,
					   on_pods, cleaning) >= 0;
	}
	return cleaning->asked_at + kubelet->pod_resources_interval;
}

/* --- what follows from the kubelet's data --- */

/* Forgets pods that the checkpoint no longer contains. */
static void prune(struct cleaning *cleaning, struct strings *strings, const struct strings *all)
{
	for (size_t i = strings->count; i > 0; i--) {
		if (strings_contain(all, strings->items[i - 1]))
			continue;
		(void)strings_remove(strings, strings->items[i - 1]);
		cleaning->devices.unsaved = true;
	}
}

static void follow(struct cleaning *cleaning, struct dirty *dirty, const struct usage *usage)
{
	prune(cleaning, &dirty->ended, &usage->all);
	prune(cleaning, &dirty->seen, &usage->all);
	/* Others have no directory any more, or were forgotten by an administrator. */
	for (size_t i = 0; i < usage->all.count; i++)
		if (!strings_contain(&usage->live, usage->all.items[i]))
			(void)add_once(&cleaning->devices, &dirty->ended, usage->all.items[i]);
	/* The first that have it after it was clean, or since `release` is configured. */
	if ((dirty->clean || dirty->users.count == 0) && usage->live.count > 0 &&
		dirty->number == 0) {
		dirty->clean = false;
		for (size_t i = 0; i < usage->live.count; i++)
			(void)add_once(&cleaning->devices, &dirty->users, usage->live.items[i]);
	}
}

/* Returns whether it is free and dirty. */
static bool look_at(struct cleaning *cleaning, struct dirty *dirty, uint64_t written_at)
{
	struct usage usage = { 0 };
	bool due = false;

	if (dirty->taken_at > 0 && written_at > dirty->taken_at + BOOKING_DELAY)
		dirty->taken_at = 0;
	if (usage_of(cleaning, dirty, &usage) >= 0) {
		/* The time of a file is the last tick of the kernel's clock. */
		if (usage.live.count > 0 && written_at + 10 * USEC_PER_MSEC >= dirty->taken_at)
			dirty->taken_at = 0;
		follow(cleaning, dirty, &usage);
		due = !dirty->clean && !is_used(dirty, &usage);
	}
	usage_done(&usage);
	return due;
}

/* Notes devices that pods have had since before `release` was configured. */
static void find_unknown(struct cleaning *cleaning)
{
	uint64_t written_at;
	const struct kubelet_checkpoint *checkpoint =
		booked_checkpoint(cleaning->manager->booked, &written_at);

	for (size_t i = 0; checkpoint && i < checkpoint->count; i++) {
		const struct child *child = ready_child(cleaning, checkpoint->rows[i].resource);
		char id[OFFERED_ID_MAX + 1];
		struct dirty *dirty;

		if (!child)
			continue;
		device_of(child, checkpoint->rows[i].id, id);
		(void)dirty_devices_add(
			&cleaning->devices, checkpoint->rows[i].resource, id, &dirty);
	}
}

static void plan(struct cleaning *cleaning, uint64_t next)
{
	for (const struct start *start = cleaning->starts; start; start = start->next)
		next = MIN_OF(next, start->deadline);
	for (size_t i = 0; i < cleaning->devices.count; i++)
		if (cleaning->devices.items[i]->again > now_usec(CLOCK_MONOTONIC) &&
			cleaning->devices.items[i]->number == 0)
			next = MIN_OF(next, cleaning->devices.items[i]->again);
	(void)sd_event_source_set_time(cleaning->timer, next);
	(void)sd_event_source_set_enabled(cleaning->timer, SD_EVENT_ONESHOT);
}

static int on_look(sd_event_source *source, void *userdata)
{
	struct cleaning *cleaning = userdata;
	struct error error = { 0 };
	uint64_t written_at;

	if (cleaning->manager->stopping)
		return 0;
	find_unknown(cleaning);
	(void)booked_checkpoint(cleaning->manager->booked, &written_at);
	for (size_t i = cleaning->devices.count; i > 0; i--) {
		struct dirty *dirty = cleaning->devices.items[i - 1];

		if (look_at(cleaning, dirty, written_at) && !dirty->failure && dirty->number == 0)
			begin(cleaning, dirty);
		if (dirty->clean && dirty->ended.count == 0 && dirty->number == 0)
			dirty_devices_remove(&cleaning->devices, dirty);
	}
	try_starts(cleaning);
	(void)save(cleaning, &error);
	for (size_t i = 0; i < cleaning->manager->n_children; i++)
		(void)cleaning_send(cleaning, cleaning->manager->children[i]);
	plan(cleaning, ask_pods(cleaning));
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	look_soon(userdata);
	return 0;
}

void cleaning_changed(struct cleaning *cleaning)
{
	look_soon(cleaning);
}

static void on_books_changed(void *userdata)
{
	look_soon(userdata);
}

/* --- messages --- */

static int read_ids(int fd, char **ret_text, struct strings *ret)
{
	char *rest, *line;
	size_t size;
	int r = sealed_read(fd, CHILD_USE_IDS_MAX * (OFFERED_ID_MAX + 1), ret_text, &size);

	rest = r < 0 ? NULL : *ret_text;
	while (r >= 0 && (line = strsep(&rest, "\n")))
		if (*line)
			r = ret->count < CHILD_USE_IDS_MAX ? strings_add(ret, line, strlen(line))
							   : -EBADMSG;
	return r;
}

/* Saves that devices are dirty, before a container gets them. */
static int take_devices(struct cleaning *cleaning, const struct child *child,
	const struct strings *ids, struct error *error)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	struct dirty *dirty;
	char id[OFFERED_ID_MAX + 1];
	int r = 0;

	for (size_t i = 0; i < ids->count && r >= 0; i++) {
		device_of(child, ids->items[i], id);
		r = dirty_devices_add(&cleaning->devices, child->resource->name, id, &dirty);
		if (r < 0)
			return error_set(error, r, "%s",
				r == -ENOSPC ? "too many devices wait to be cleaned"
					     : "out of memory");
		if (dirty->clean)
			cleaning->devices.unsaved = true;
		/* One that is dirty, without a known user, has had one that was missed. */
		else if (dirty->users.count == 0 && dirty->taken_at == 0)
			r = add_once(&cleaning->devices, &dirty->users, "unknown");
		dirty->clean = false;
		dirty->taken_at = now;
	}
	return r < 0 ? error_set(error, r, "out of memory") : save(cleaning, error);
}

static void take_start(
	struct cleaning *cleaning, const struct child *child, uint64_t number, struct strings *ids)
{
	struct start *start = NULL;
	size_t n = 0;

	for (const struct start *other = cleaning->starts; other; other = other->next)
		n += other->child == child;
	if (n < STARTS_MAX)
		start = calloc(1, sizeof(*start));

	if (!start) {
		answer(child, number, "too many containers start at once; the kubelet will retry");
		return;
	}
	start->child = child;
	start->number = number;
	start->deadline = now_usec(CLOCK_MONOTONIC) + CLEANING_WAIT;
	start->ids = *ids;
	*ids = (struct strings){ 0 };
	start->next = cleaning->starts;
	cleaning->starts = start;
	look_soon(cleaning);
}

static bool take_use(
	struct cleaning *cleaning, const struct child *child, const struct control_message *message)
{
	_cleanup_strings_ struct strings ids = { 0 };
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };
	int r;

	if (message->phase >= _CHILD_USE_MAX)
		return false;
	r = read_ids(message->fds[0], &text, &ids);
	if (r == -EBADMSG || r == -EFBIG)
		return false;
	if (r < 0)
		answer(child, message->number, "out of memory");
	else if (message->phase == CHILD_USE_STARTED)
		take_start(cleaning, child, message->number, &ids);
	else {
		(void)take_devices(cleaning, child, &ids, &error);
		answer(child, message->number, error.message);
		look_soon(cleaning);
	}
	return true;
}

bool cleaning_take(
	struct cleaning *cleaning, struct child *child, const struct control_message *message)
{
	if (message->type == CHILD_USE)
		return take_use(cleaning, child, message);
	if (message->phase >= _CHILD_CLEANED_MAX)
		return false;
	for (size_t i = 0; i < cleaning->devices.count; i++) {
		struct dirty *dirty = cleaning->devices.items[i];

		if (dirty->number == message->number &&
			streq(dirty->resource, child->resource->name)) {
			take_result(cleaning, child, dirty, message);
			return true;
		}
	}
	return true;
}

void cleaning_child_gone(struct cleaning *cleaning, const struct child *child)
{
	struct start *next;

	for (struct start *start = cleaning->starts; start; start = next) {
		next = start->next;
		if (start->child == child)
			(void)start_free(cleaning, start);
	}
	for (size_t i = 0; i < cleaning->devices.count; i++)
		if (streq(cleaning->devices.items[i]->resource, child->resource->name))
			cleaning->devices.items[i]->number = 0;
}

/* --- what the processes are sent --- */

static int write_dirty(struct cleaning *cleaning, const struct child *child, FILE *stream)
{
	const struct declaration *declaration = child_declaration(child);

	for (size_t i = 0;
		declaration && declaration_cleans(declaration) && i < cleaning->devices.count;
		i++) {
		const struct dirty *dirty = cleaning->devices.items[i];
		bool slow = declaration->release.timeout > RELEASE_SHORT;
		struct usage usage = { 0 };
		bool due;

		if (!streq(dirty->resource, child->resource->name) || dirty->clean)
			continue;
		due = dirty->number > 0 ||
			(usage_of(cleaning, dirty, &usage) >= 0 && !is_used(dirty, &usage));
		usage_done(&usage);
		if (dirty->failure)
			(void)fprintf(stream,
				"%s\tcould not be cleaned after a pod (devplugctl resume): %s\n",
				dirty->id, dirty->failure);
		else if (due)
			(void)fprintf(stream, "%s\t%s\n", dirty->id,
				slow ? "being cleaned after a pod" : "");
	}
	return ferror(stream) ? -ENOMEM : 0;
}

int cleaning_send(struct cleaning *cleaning, struct child *child)
{
	_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(CHILD_DIRTY);
	_cleanup_free_ char *text = NULL;
	size_t size;
	uint64_t hash;
	FILE *stream;
	int r;

	if (child->process.control_fd < 0)
		return 0;
	stream = open_memstream(&text, &size);
	r = stream ? write_dirty(cleaning, child, stream) : -ENOMEM;
	if (stream && fclose(stream) != 0)
		r = -ENOMEM;
	if (r < 0)
		return r;
	hash = size > 0 ? hash_string(text) | 1 : 0;
	if (hash == child->dirty_sent)
		return 0;
	r = sealed_new("dirty", text, size);
	if (r < 0)
		return r;
	message.fds[0] = r;
	r = control_send(child->process.control_fd, &message);
	if (r >= 0)
		child->dirty_sent = hash;
	return r;
}

bool cleaning_resume(struct cleaning *cleaning, const char *resource, const char *id, bool force)
{
	struct dirty *dirty = dirty_devices_find(&cleaning->devices, resource, id);

	if (!dirty || !dirty->failure)
		return false;
	free(dirty->failure);
	dirty->failure = NULL;
	dirty->again = 0;
	cleaning->devices.unsaved = true;
	if (force)
		note_clean(cleaning, dirty);
	look_soon(cleaning);
	return true;
}

int cleaning_new(struct manager *manager, struct cleaning **ret)
{
	_cleanup_(cleaning_freep) struct cleaning *cleaning = calloc(1, sizeof(*cleaning));
	int r;

	if (!cleaning)
		return -ENOMEM;
	cleaning->manager = manager;
	r = dirty_devices_load(&cleaning->devices, manager->config->runtime_dir);
	if (r >= 0)
		r = sd_event_add_defer(manager->event, &cleaning->look, on_look, cleaning);
	if (r >= 0)
		r = sd_event_add_time(manager->event, &cleaning->timer, CLOCK_MONOTONIC,
			USEC_INFINITY, 10 * USEC_PER_MSEC, on_timer, cleaning);
	if (r < 0)
		return r;
	booked_observe(manager->booked,
		&(struct booked_observer){ on_books_changed, awaits_pods, cleaning });
	*ret = TAKE_PTR(cleaning);
	return 0;
}

struct cleaning *cleaning_free(struct cleaning *cleaning)
{
	if (!cleaning)
		return NULL;
	booked_observe(cleaning->manager->booked, &(struct booked_observer){ 0 });
	if (cleaning->manager->pods)
		pod_resources_cancel(cleaning->manager->pods, cleaning);
	while (cleaning->starts)
		(void)start_free(cleaning, cleaning->starts);
	sd_event_source_disable_unref(cleaning->look);
	sd_event_source_disable_unref(cleaning->timer);
	dirty_devices_done(&cleaning->devices);
	free(cleaning);
	return NULL;
}
