/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a device is cleaned. Everything is decided again from the kubelet's data whenever
 * these change, so no event can be missed. What is not saved is not answered, and a device counts
 * as clean only after its program has succeeded.
 */
#include "supervisor/books/cleaning.h"

#include "common/control-child.h"
#include "common/finding.h"
#include "common/json-read.h"
#include "common/sealed.h"
#include "common/utf8.h"
#include "dra/model/dra-names.h"
#include "supervisor/books/booked.h"
#include "supervisor/books/cleaning-run.h"
#include "supervisor/books/cleaning-starts.h"
#include "supervisor/books/dra-claim.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/books/plugin-metadata.h"
#include "supervisor/books/pod-resources.h"
#include "supervisor/children/child.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"
#include "supervisor/kubelet/kubelet-watch.h"

#define CLAIM_USER_MAX (sizeof(BOOKED_CLAIM) + DRA_CLAIM_ID_MAX)

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

static bool is_listed(const struct dirty *dirty, const struct pod_table *pods)
{
	for (size_t i = 0; i < pods->n_devices; i++)
		if (streq(pods->devices[i].resource, dirty->resource) &&
			offered_id_is_of(pods->devices[i].id, dirty->id))
			return true;
	return false;
}

/* A pod that this kubelet has not named may run: PodResources omits plain init containers, and all
 * pods until the kubelet that was restarted has heard of them from the API server. */
static void note_named(struct cleaning *cleaning, struct dirty *dirty, const struct pod_table *pods,
	uint64_t asked_at)
{
	bool decided = is_decided_by(cleaning, dirty->resource, asked_at);
	struct usage usage = { 0 };

	dirty->unnamed = decided && cleaning->kubelet_names && !is_listed(dirty, pods);
	if (usage_of(cleaning, dirty, &usage) < 0)
		usage.live.count = 0;
	for (size_t i = 0; i < usage.live.count; i++) {
		const char *user = usage.live.items[i];

		if (startswith(user, BOOKED_CLAIM))
			continue;
		if (decided && is_named(cleaning, dirty, user, pods))
			(void)cleaning_run_add_once(&cleaning->devices, &dirty->seen, user);
		else if (decided && strings_contain(&dirty->seen, user))
			(void)cleaning_run_add_once(&cleaning->devices, &dirty->ended, user);
	}
	if (decided && dirty->taken_at > 0 &&
		dirty->taken_at + cleaning->manager->config->kubelet.pod_resources_interval <=
			asked_at)
		dirty->taken_at = 0;
	usage_done(&usage);
}

static void forget_former_kubelet(struct cleaning *cleaning)
{
	uint64_t number = kubelet_watch_number(cleaning->manager->watch);

	if (number == cleaning->kubelet_number)
		return;
	cleaning->kubelet_number = number;
	cleaning->kubelet_names = false;
	for (size_t i = 0; i < cleaning->devices.count; i++) {
		strings_done(&cleaning->devices.items[i]->seen);
		cleaning->devices.items[i]->unnamed = false;
	}
}

static void on_pods(const struct pod_answer *pods, void *userdata)
{
	struct cleaning *cleaning = userdata;
	uint64_t written_at;

	cleaning->asking = false;
	forget_former_kubelet(cleaning);
	if (pods->table && pods->table->n_containers > 0)
		cleaning->kubelet_names = true;
	(void)booked_checkpoint(cleaning->manager->booked, &written_at);
	for (size_t i = 0; pods->table && i < cleaning->devices.count; i++)
		note_named(cleaning, cleaning->devices.items[i], pods->table, pods->asked_at);
	cleaning_run_look_soon(cleaning);
}

/* Whether a device of a resource that is configured is dirty; `used`: and may be in use. */
static bool has_dirty(const struct cleaning *cleaning, bool used)
{
	for (size_t i = 0; i < cleaning->devices.count; i++) {
		const struct dirty *dirty = cleaning->devices.items[i];

		if (!dirty->clean && (!used || dirty->due_at == 0) &&
			manager_find_child(cleaning->manager, dirty->resource))
			return true;
	}
	return false;
}

static bool awaits_pods(const void *userdata)
{
	return has_dirty(userdata, false);
}

/* Asks about pods from time to time, while any has a device. Returns when to ask next. */
static uint64_t ask_pods(struct cleaning *cleaning)
{
	const struct kubelet_config *kubelet = &cleaning->manager->config->kubelet;
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (!kubelet->pod_resources || cleaning->asking || !has_dirty(cleaning, true))
		return USEC_INFINITY;
	if (cleaning->asked_at + kubelet->pod_resources_interval <= now) {
		cleaning->asked_at = now;
		cleaning->asking = pod_resources_ask(cleaning->manager->pods, POD_QUESTION_LIST, 0,
					   on_pods, cleaning) >= 0;
	}
	return cleaning->asked_at + kubelet->pod_resources_interval;
}

/* --- what follows from the kubelet's data --- */

/* Forgets pods that the checkpoint no longer contains. Returns whether there were any. */
static bool prune(struct strings *strings, const struct strings *all)
{
	size_t before = strings->count;

	for (size_t i = before; i > 0; i--)
		if (!strings_contain(all, strings->items[i - 1]))
			(void)strings_remove(strings, strings->items[i - 1]);
	return strings->count < before;
}

static void follow(struct cleaning *cleaning, struct dirty *dirty, const struct usage *usage)
{
	if (prune(&dirty->ended, &usage->all))
		cleaning->devices.unsaved = true;
	(void)prune(&dirty->seen, &usage->all);
	/* Others have no directory any more, or were forgotten by an administrator. */
	for (size_t i = 0; i < usage->all.count; i++)
		if (!strings_contain(&usage->live, usage->all.items[i]))
			(void)cleaning_run_add_once(
				&cleaning->devices, &dirty->ended, usage->all.items[i]);
	/* The first that have it after it was clean, or since `release` is configured. */
	if ((dirty->clean || dirty->users.count == 0) && usage->live.count > 0 &&
		dirty->number == 0) {
		dirty->clean = false;
		for (size_t i = 0; i < usage->live.count; i++)
			(void)cleaning_run_add_once(
				&cleaning->devices, &dirty->users, usage->live.items[i]);
	}
}

/* Ends what the kubelet's data show by now. */
static void note_booked(const struct cleaning *cleaning, struct dirty *dirty, uint64_t written_at)
{
	struct usage usage = { 0 };

	if (dirty->taken_at > 0 && written_at > dirty->taken_at + BOOKING_DELAY)
		dirty->taken_at = 0;
	/* The time of a file is the last tick of the kernel's clock. */
	if (dirty->taken_at > 0 && usage_booked(cleaning, dirty, &usage) >= 0 &&
		usage.live.count > 0 && written_at + 10 * USEC_PER_MSEC >= dirty->taken_at)
		dirty->taken_at = 0;
	usage_done(&usage);
}

/* Returns whether it is free and dirty. */
static bool look_at(struct cleaning *cleaning, struct dirty *dirty, uint64_t written_at)
{
	struct usage usage = { 0 };
	bool due = false;

	dirty->examine = false;
	note_booked(cleaning, dirty, written_at);
	if (usage_of(cleaning, dirty, &usage) >= 0) {
		follow(cleaning, dirty, &usage);
		due = !dirty->clean && !usage_is_any(dirty, &usage);
	}
	usage_done(&usage);
	if (!due)
		dirty->due_at = 0;
	else if (dirty->due_at == 0)
		dirty->due_at = now_usec(CLOCK_MONOTONIC);
	return due;
}

/* Notes the devices of claims. */
static void find_claims(struct cleaning *cleaning)
{
	const struct dra_claims *claims = cleaning->manager->dra_claims;
	struct dra_claims_cursor cursor = { 0 };
	const json_t *device;

	while (claims && (device = dra_claims_next_device(claims, NULL, &cursor))) {
		const struct child *child =
			cleaning_run_ready_child(cleaning, text_of(device, "resource"));
		char id[OFFERED_ID_MAX + 1];
		struct dirty *dirty;

		if (!child || dra_claim_is_admin(device))
			continue;
		cleaning_run_device_of(child, text_of(device, "id"), id);
		(void)cleaning_run_add(cleaning, child, id, &dirty);
	}
}

/* Notes devices that pods have had since before `release` was configured. */
static void find_unknown(struct cleaning *cleaning, uint64_t *ret_written_at)
{
	const struct kubelet_checkpoint *checkpoint =
		booked_checkpoint(cleaning->manager->booked, ret_written_at);

	for (size_t i = 0; checkpoint && i < checkpoint->count; i++) {
		const struct child *child =
			cleaning_run_ready_child(cleaning, checkpoint->rows[i].resource);
		char id[OFFERED_ID_MAX + 1];
		struct dirty *dirty;

		/* No device of ours has a longer one. */
		if (!child || strlen(checkpoint->rows[i].id) > OFFERED_ID_MAX)
			continue;
		cleaning_run_device_of(child, checkpoint->rows[i].id, id);
		(void)cleaning_run_add(cleaning, child, id, &dirty);
	}
}

/* Before the first pod can get a device of a resource with `release`. */
static void open_list(struct cleaning *cleaning)
{
	bool wanted = cleaning->devices.count > 0;

	for (size_t i = 0; i < cleaning->manager->n_children; i++)
		wanted |= cleaning_run_ready_child(
				  cleaning, cleaning->manager->children[i]->resource->name) != NULL;
	if (wanted && dirty_devices_open(&cleaning->devices) < 0)
		cleaning->devices.unsaved = true;
}

static void plan(struct cleaning *cleaning, uint64_t next)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	for (const struct start *start = cleaning->starts; start; start = start->next)
		next = MIN_OF(next, start->deadline);
	for (size_t i = 0; i < cleaning->devices.count; i++) {
		const struct dirty *dirty = cleaning->devices.items[i];
		uint64_t long_at = dirty->due_at + CLEANING_WAIT + 1; /* see waits_long() */

		if (dirty->again > now && dirty->number == 0)
			next = MIN_OF(next, dirty->again);
		if (dirty->due_at > 0 && long_at > now)
			next = MIN_OF(next, long_at);
	}
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
	open_list(cleaning);
	find_unknown(cleaning, &written_at);
	find_claims(cleaning);
	for (size_t i = cleaning->devices.count; i > 0; i--) {
		struct dirty *dirty = cleaning->devices.items[i - 1];

		if (look_at(cleaning, dirty, written_at) && !dirty->failure && dirty->number == 0)
			cleaning_run_begin(cleaning, dirty);
		if (dirty->clean && dirty->ended.count == 0 && dirty->number == 0 &&
			!dirty_devices_incomplete(&cleaning->devices, dirty->resource))
			dirty_devices_remove(&cleaning->devices, dirty);
	}
	cleaning_starts_try(cleaning);
	if (cleaning->on_look)
		cleaning->on_look(cleaning->userdata);
	cleaning_run_examine(cleaning);
	(void)cleaning_run_save(cleaning, &error);
	for (size_t i = 0; i < cleaning->manager->n_children; i++)
		(void)cleaning_send(cleaning, cleaning->manager->children[i]);
	plan(cleaning, ask_pods(cleaning));
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	cleaning_run_look_soon(userdata);
	return 0;
}

void cleaning_changed(struct cleaning *cleaning, const struct child *child)
{
	for (size_t i = 0; i < cleaning->devices.count; i++) {
		struct dirty *dirty = cleaning->devices.items[i];

		if (dirty->absent == 0 || !streq(dirty->resource, child->resource->name))
			continue;
		dirty->absent = 0;
		dirty->again = 0;
	}
	cleaning_run_look_soon(cleaning);
}

static void on_books_changed(void *userdata)
{
	cleaning_run_look_soon(userdata);
}

/* --- messages --- */

static int read_ids(int fd, char **ret_text, struct strings *ret)
{
	char *rest, *line;
	size_t size;
	int r = sealed_read(fd, CHILD_USE_IDS_MAX * (OFFERED_ID_MAX + 1), ret_text, &size);

	rest = r < 0 ? NULL : *ret_text;
	while (r >= 0 && (line = strsep(&rest, "\n"))) {
		size_t length = strlen(line);

		if (length == 0)
			continue;
		r = length > OFFERED_ID_MAX || !utf8_is_valid(line) ||
				ret->count == CHILD_USE_IDS_MAX
			? -EBADMSG
			: strings_add(ret, line, length);
	}
	return r;
}

/* A device that is dirty, without a known user, has had one that was missed. Returns 0 or -ENOMEM.
 */
static int note_missed(struct cleaning *cleaning, struct dirty *dirty)
{
	if (dirty->clean || dirty->users.count > 0 || dirty->taken_at > 0)
		return 0;
	return cleaning_run_add_once(&cleaning->devices, &dirty->users, "unknown");
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
		cleaning_run_device_of(child, ids->items[i], id);
		r = cleaning_run_add(cleaning, child, id, &dirty);
		if (r < 0)
			return error_set(error, r, "%s",
				r == -ENOSPC ? "too many devices wait to be cleaned"
					     : "out of memory");
		if (dirty->clean)
			cleaning->devices.unsaved = true;
		r = note_missed(cleaning, dirty);
		dirty->clean = dirty->unnamed = false;
		dirty->taken_at = now;
	}
	return r < 0 ? error_set(error, r, "out of memory") : cleaning_run_save(cleaning, error);
}

static bool cleans(const struct child *child)
{
	const struct declaration *declaration = child_declaration(child);

	return declaration && declaration_cleans(declaration);
}

/* Returns false if the message is malformed. */
static bool take_allocated(struct cleaning *cleaning, const struct child *child,
	const struct control_message *message, const struct strings *ids)
{
	struct plugin_metadata *metadata = cleaning->manager->plugin_metadata;
	_cleanup_close_ int metadata_fd = -EBADF;
	struct error error = { 0 };
	int r;

	r = claimant_take(child->claimant, (const char *const *)ids->items, ids->count, &error);
	if (r >= 0 && cleans(child))
		r = take_devices(cleaning, child, ids, &error);
	if (r >= 0 && message->fds[1] >= 0)
		r = plugin_metadata_take(metadata, child, message, &metadata_fd, &error);
	if (r < 0 && !*error.message)
		return false;
	cleaning_starts_answer(child, message->number, metadata_fd, error.message);
	cleaning_run_look_soon(cleaning);
	return true;
}

static bool take_use(
	struct cleaning *cleaning, const struct child *child, const struct control_message *message)
{
	_cleanup_strings_ struct strings ids = { 0 };
	_cleanup_free_ char *text = NULL;
	int r;

	if (message->phase >= _CHILD_USE_MAX)
		return false;
	r = read_ids(message->fds[0], &text, &ids);
	if (r == -EBADMSG || r == -EFBIG)
		return false;
	if (r < 0)
		cleaning_starts_answer(child, message->number, -EBADF, "out of memory");
	else if (message->phase == CHILD_USE_STARTED)
		cleaning_starts_take(cleaning, child, message->number, &ids);
	else
		return take_allocated(cleaning, child, message, &ids);
	return true;
}

static void take_result(struct cleaning *cleaning, const struct child *child, struct dirty *dirty,
	const struct control_message *message)
{
	const struct log_fields fields = { .resource = dirty->resource, .device = dirty->id };
	struct error error = { 0 };

	dirty->number = 0;
	if (message->phase == CHILD_CLEANED_LATER)
		cleaning_run_note_delay(dirty);
	else if (message->phase == CHILD_CLEANED_ABSENT)
		cleaning_run_note_absence(dirty);
	else if (message->phase == CHILD_CLEANED_FAILED)
		cleaning_run_note_failure(cleaning, dirty, &fields, message->text);
	else if (message->phase == CHILD_CLEANED_OK) {
		cleaning_run_note_clean(cleaning, dirty);
		log_full(LOG_INFO, &fields, "cleaned device %s after a pod", dirty->id);
	}
	(void)cleaning_run_save(cleaning, &error);
	cleaning_run_look_soon(cleaning);
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
			(void)cleaning_starts_free(cleaning, start);
	}
	for (size_t i = 0; i < cleaning->devices.count; i++)
		if (streq(cleaning->devices.items[i]->resource, child->resource->name))
			cleaning->devices.items[i]->number = 0;
	cleaning_run_look_soon(cleaning);
}

/* --- claims --- */

void cleaning_observe(struct cleaning *cleaning, void (*handler)(void *userdata), void *userdata)
{
	cleaning->on_look = handler;
	cleaning->userdata = userdata;
}

static void name_claim(const char *uid, char ret[static CLAIM_USER_MAX])
{
	(void)snprintf(ret, CLAIM_USER_MAX, BOOKED_CLAIM "%.*s", DRA_CLAIM_ID_MAX, uid);
}

static int say_wait(const struct cleaning *cleaning, const struct dirty *dirty, struct error *error)
{
	const struct dirty *running = dirty_devices_find_running(&cleaning->devices, dirty->id);

	if (running)
		return error_set(error, -EBUSY,
			"device %s is being cleaned after a pod, %lld s left; the kubelet will retry",
			dirty->id, (long long)cleaning_run_seconds_left(cleaning, running));
	return error_set(error, -EBUSY,
		"device %s waits to be cleaned after a pod%s%s; the kubelet will retry", dirty->id,
		dirty->open ? ": " : "", dirty->open ?: "");
}

/* Finds the device, and whether the claim may have it. */
static int admit_claim(struct cleaning *cleaning, const struct child *child, const char *offered,
	const char *user, struct dirty **ret, struct error *error)
{
	struct usage usage = { 0 };
	char id[OFFERED_ID_MAX + 1];
	int r;

	cleaning_run_device_of(child, offered, id);
	r = cleaning_run_add(cleaning, child, id, ret);
	if (r >= 0)
		r = usage_of(cleaning, *ret, &usage);
	if (r >= 0 && usage.live.count == 0)
		r = note_missed(cleaning, *ret);
	if (r < 0)
		r = error_set(error, r, "cannot determine whether device %s is clean: %s", id,
			strerror(-r));
	else
		r = cleaning_starts_admit(cleaning, *ret, user, &usage, error);
	usage_done(&usage);
	cleaning_run_look_soon(cleaning);
	return r == 0 ? say_wait(cleaning, *ret, error) : r;
}

int cleaning_check_for_claim(struct cleaning *cleaning, const struct child *child,
	const char *offered, const char *claim_uid, struct error *error)
{
	char user[CLAIM_USER_MAX];
	struct dirty *dirty;

	name_claim(claim_uid, user);
	return admit_claim(cleaning, child, offered, user, &dirty, error);
}

int cleaning_take_for_claim(struct cleaning *cleaning, const struct child *child,
	const char *offered, const char *claim_uid, struct error *error)
{
	char user[CLAIM_USER_MAX];
	struct dirty *dirty;
	int r;

	name_claim(claim_uid, user);
	r = admit_claim(cleaning, child, offered, user, &dirty, error);
	if (r >= 0)
		r = cleaning_starts_give(cleaning, dirty, user, error);
	if (r < 0)
		return r;
	if (strings_add_once(&dirty->preparing, user) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	return cleaning_run_save(cleaning, error);
}

static bool has_device(const json_t *claim, const struct dirty *dirty)
{
	for (size_t i = 0; i < dra_claim_count(claim); i++) {
		const json_t *device = dra_claim_device(claim, i);

		if (streq(text_of(device, "resource"), dirty->resource) &&
			offered_id_is_of(text_of(device, "id"), dirty->id))
			return true;
	}
	return false;
}

void cleaning_end_preparing(struct cleaning *cleaning, const json_t *claim)
{
	char user[CLAIM_USER_MAX];

	name_claim(text_of(claim, "uid"), user);
	for (size_t i = 0; i < cleaning->devices.count; i++) {
		struct dirty *dirty = cleaning->devices.items[i];

		/* The claim may have devices of another driver, which prepares them itself. */
		if (has_device(claim, dirty) && strings_remove(&dirty->preparing, user))
			cleaning_run_look_soon(cleaning);
	}
}

int cleaning_end_claim(struct cleaning *cleaning, const char *claim_uid, struct error *error)
{
	char user[CLAIM_USER_MAX];
	int r = 0;

	name_claim(claim_uid, user);
	for (size_t i = 0; i < cleaning->devices.count && r >= 0; i++) {
		struct dirty *dirty = cleaning->devices.items[i];
		struct usage usage = { 0 };

		if (!strings_contain(&dirty->users, user) || dirty->failure || dirty->absent > 0 ||
			!cleaning_run_ready_child(cleaning, dirty->resource))
			continue;
		/* Others may have it, and a process that has it open may never end. */
		if (dirty->number > 0 || strings_contain(&dirty->preparing, user) ||
			(usage_of(cleaning, dirty, &usage) >= 0 && !dirty->open &&
				!usage_is_any(dirty, &usage)))
			r = say_wait(cleaning, dirty, error);
		usage_done(&usage);
	}
	return r;
}

/* --- what the processes are sent --- */

/* Containers would wait in vain. */
static bool waits_long(const struct dirty *dirty)
{
	return dirty->due_at > 0 && now_usec(CLOCK_MONOTONIC) - dirty->due_at > CLEANING_WAIT;
}

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

		if (!streq(dirty->resource, child->resource->name))
			continue;
		due = dirty->number > 0 ||
			(usage_of(cleaning, dirty, &usage) >= 0 && !usage_is_any(dirty, &usage) &&
				(!dirty->clean || usage.all.count > 0));
		usage_done(&usage);
		if (dirty->failure)
			(void)fprintf(stream,
				"%s\tcould not be cleaned after a pod (devplugctl resume): %s\n",
				dirty->id, dirty->failure);
		else if (due && dirty->open && dirty->number == 0 && (slow || waits_long(dirty)))
			(void)fprintf(stream, "%s\twaits to be cleaned after a pod: %s\n",
				dirty->id, dirty->open);
		else if (due)
			(void)fprintf(stream, "%s\t%s\n", dirty->id,
				slow && !dirty->clean ? WHY_CLEANING : "");
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

/* Whether the device waits to be cleaned, perhaps for a process that never ends. */
static bool is_waiting(const struct cleaning *cleaning, const struct dirty *dirty)
{
	struct usage usage = { 0 };
	bool waits = !dirty->clean && dirty->number == 0 &&
		usage_of(cleaning, dirty, &usage) >= 0 && !usage_is_any(dirty, &usage);

	usage_done(&usage);
	return waits;
}

bool cleaning_resume(struct cleaning *cleaning, const char *resource, const char *id, bool force)
{
	struct dirty *dirty = dirty_devices_find(&cleaning->devices, resource, id);

	if (!dirty || (!dirty->failure && !is_waiting(cleaning, dirty)))
		return false;
	free(TAKE_PTR(dirty->failure));
	dirty->again = dirty->held = 0;
	cleaning->devices.unsaved = true;
	if (force) {
		cleaning_run_note_clean(cleaning, dirty);
		log_full(LOG_NOTICE,
			&(const struct log_fields){ .resource = resource, .device = id },
			"device %s counts as clean, as an administrator has decided", id);
	}
	cleaning_run_look_soon(cleaning);
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
		r = node_users_new(manager, &cleaning->node_users);
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
		(void)cleaning_starts_free(cleaning, cleaning->starts);
	sd_event_source_disable_unref(cleaning->look);
	sd_event_source_disable_unref(cleaning->timer);
	(void)node_users_free(cleaning->node_users);
	(void)dirty_devices_close(&cleaning->devices);
	dirty_devices_done(&cleaning->devices);
	free(cleaning->asked_resource);
	free(cleaning->asked_id);
	free(cleaning);
	return NULL;
}
