/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which devices the kubelet has booked, from its checkpoint, PodResources and the prepared
 * claims of DRA; keep-booked.c keeps them listed. A checkpoint contains all bookings at the time
 * when it was written, so it replaces earlier answers of PodResources. The children know the later
 * allocations. An answer of PodResources counts only for devices that were removed a certain time
 * before the question, and for resources that were served by then: allocations have reached their
 * containers by then, and after a restart the kubelet knows its pods again.
 */
#include "common/control-child.h"
#include "common/sealed.h"
#include "supervisor/books/booked-lists.h"
#include "supervisor/books/plugin-metadata.h"
#include "supervisor/books/renew-checkpoint.h"
#include "supervisor/children/child.h"
#include "supervisor/files/published-files.h"
#include "supervisor/kubelet/kubelet-watch.h"
#include "supervisor/kubelet/session-sockets.h"

/* The minimum interval between reads of a checkpoint; reading also takes at most a fifth of the
 * time. */
#define READ_SPACING (50 * USEC_PER_MSEC)
/* From a failure to read a checkpoint to the next attempt. */
#define RETRY_INTERVAL USEC_PER_SEC
/* The time from the end of a CDI file's use until the checkpoint has all answers that name it. */
#define LEFT_FILE_DELAY USEC_PER_SEC
/* The time of a file is the last tick of the kernel's clock, and clocks are slewed. */
#define CLOCK_STEP_MIN USEC_PER_SEC
/* The time from the removal of a pod's directory until the first question about the pod. */
#define END_DELAY USEC_PER_SEC
/* In a message: nothing may leave a list. */
#define UNTIL_NEVER 1

static const struct log_fields fields = { 0 };

static uint64_t interval_of(const struct booked *booked)
{
	return booked->manager->config->kubelet.pod_resources_interval;
}

static bool asks_pods(const struct booked *booked)
{
	return booked->manager->config->kubelet.pod_resources;
}

/* --- the checkpoint --- */

static bool same_identity(const struct file_identity *a, const struct file_identity *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
		a->modified.tv_sec == b->modified.tv_sec &&
		a->modified.tv_nsec == b->modified.tv_nsec;
}

/* All 0 if it fails. */
static int read_identity(const struct booked *booked, const char *name, struct file_identity *ret)
{
	const char *directory = booked->manager->config->kubelet.device_plugin_dir;
	_cleanup_free_ char *path = NULL;
	struct stat st;

	*ret = (struct file_identity){ 0 };
	if (format_text(&path, "%s/%s", directory, name) < 0)
		return -ENOMEM;
	if (stat(path, &st) < 0)
		return -errno;
	*ret = (struct file_identity){ st.st_dev, st.st_ino, st.st_size, st.st_mtim };
	return 0;
}

/* The modification time of a file, in CLOCK_MONOTONIC. 0: unknown, because the clock was set back
 * in the meantime; then the file decides about no allocation. */
static uint64_t modification_time(const struct file_identity *identity)
{
	uint64_t modified = (uint64_t)identity->modified.tv_sec * USEC_PER_SEC +
		(uint64_t)identity->modified.tv_nsec / 1000;
	uint64_t realtime = now_usec(CLOCK_REALTIME), monotonic = now_usec(CLOCK_MONOTONIC);

	if (modified > realtime + CLOCK_STEP_MIN)
		return 0;
	return monotonic - MIN_OF(monotonic, realtime - MIN_OF(realtime, modified));
}

/* A checkpoint that was written since the boot, but before kubelet.sock was made, is of an earlier
 * kubelet. */
static void note_kubelet(struct booked *booked)
{
	struct file_identity identity;
	uint64_t started;

	(void)read_identity(booked, KUBELET_SOCKET_NAME, &identity);
	started = modification_time(&identity);
	if (booked->written_at > 0 && booked->written_at < started)
		booked->kubelet_restarted = started;
}

static void plan_read(struct booked *booked, uint64_t at)
{
	(void)sd_event_source_set_time(booked->read_timer, at);
	(void)sd_event_source_set_enabled(booked->read_timer, SD_EVENT_ONESHOT);
}

/* Whether the same file may be read later. */
static bool is_passing(int r)
{
	return r < 0 && r != -ENOENT && r != -EFBIG && r != -EBADMSG;
}

/* Takes the checkpoint; NULL: the file shows nothing. */
static void replace_checkpoint(struct booked *booked, struct kubelet_checkpoint *checkpoint,
	const struct file_identity *identity)
{
	booked->identity = *identity;
	(void)kubelet_checkpoint_free(booked->checkpoint);
	booked->checkpoint = checkpoint;
	booked->written_at = 0;
	if (checkpoint) {
		booked->written_at = modification_time(identity);
		booked->pods = pod_table_free(booked->pods);
	}
	booked_lists_drop_forgotten(booked);
}

/* Reads the checkpoint if it has changed. While it cannot be read, the last one stays. */
static void read_checkpoint(struct booked *booked)
{
	const char *directory = booked->manager->config->kubelet.device_plugin_dir;
	struct kubelet_checkpoint *checkpoint;
	struct file_identity identity;
	struct error error = { 0 };
	int r = read_identity(booked, CHECKPOINT_FILE, &identity);

	if (same_identity(&identity, &booked->identity) && (r >= 0 || r == -ENOENT) &&
		!is_passing(booked->problem))
		return;
	pace_begin(&booked->reading);
	r = booked->problem = kubelet_checkpoint_read(directory, &checkpoint, &error);
	if (is_passing(r))
		plan_read(booked, now_usec(CLOCK_MONOTONIC) + RETRY_INTERVAL);
	else
		replace_checkpoint(booked, r < 0 ? NULL : checkpoint, &identity);
	if (log_once_admits(
		    &booked->checkpoint_logged, r < 0 && r != -ENOENT ? error.message : NULL))
		log_full(LOG_WARNING, &fields,
			"%s; devplugd uses %s to determine the assigned devices", error.message,
			booked->checkpoint ? "what it has read last"
					   : "PodResources and its own record of allocations");
	(void)pace_end(&booked->reading, READ_SPACING);
}

/* A kubelet is judged by the checkpoint before it, which it soon replaces. The one at our start is
 * judged by the first checkpoint that is read. */
static void refresh(struct booked *booked)
{
	uint64_t number = kubelet_watch_number(booked->manager->watch);
	bool is_other = number != booked->kubelet_number;

	booked->kubelet_number = number;
	pod_directories_follow(booked->directories, booked->manager->config->kubelet.pod_logs_dir,
		asks_pods(booked), number);
	if (is_other) {
		booked->kubelet_restarted = 0;
		note_kubelet(booked);
	}
	read_checkpoint(booked);
	if (is_other)
		note_kubelet(booked);
	booked->all_seen = pod_directories_look(booked->directories, booked->checkpoint);
}

/* --- sending to children and to the arbiter --- */

/* Without memory, the arbiter keeps those that it has, until something changes. */
static void send_foreign(struct booked *booked)
{
	struct foreign_bookings *foreign;
	uint64_t hash = 0;
	size_t n;

	if (booked_lists_collect_foreign(booked, &foreign, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		hash = hash * 31 + hash_string(foreign[i].resource);
		for (size_t k = 0; k < foreign[i].booked->count; k++)
			hash = hash * 31 + hash_string(foreign[i].booked->items[k].id) +
				foreign[i].booked->items[k].uses;
	}
	if (hash == booked->foreign_hash) {
		foreign_bookings_free(foreign, n);
		return;
	}
	booked->foreign_hash = hash;
	arbiter_set_foreign(booked->manager->arbiter, foreign, n);
}

/* With UNTIL_NEVER only the bookings that the child lacks, unless it waits for news. */
static int send_bookings(struct booked *booked, struct child *child, uint64_t until)
{
	_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(CHILD_BOOKED);
	_cleanup_bookings_ struct bookings *bookings = NULL;
	_cleanup_free_ char *text = NULL;
	uint64_t hash;
	size_t size;
	int r;

	r = booked_lists_collect(booked, child->resource->name, &bookings);
	if (r >= 0)
		r = bookings_write(bookings, &text, &size);
	if (r < 0)
		return r;
	hash = bookings_hash(bookings, text, size) ^ booked->kubelet_restarted;
	if (hash != child->booked_sent)
		claimant_set_booked(child->claimant, bookings);
	if (until == UNTIL_NEVER && hash == child->booked_sent && child->gone == 0)
		return 0;
	r = sealed_new("booked", text, size);
	if (r < 0)
		return r;
	message.fds[0] = r;
	message.gone_by = until;
	message.kubelet_restarted = booked->kubelet_restarted;
	if (booked->written_at > BOOKING_DELAY)
		message.allocated_before = booked->written_at - BOOKING_DELAY;
	r = control_send(child->process.control_fd, &message);
	if (r >= 0)
		child->booked_sent = hash;
	return r;
}

/* Whether the end of a pod matters, or its directory has to be seen first. */
static bool awaits_pods(const struct booked *booked)
{
	const struct kubelet_checkpoint *checkpoint = booked->checkpoint;

	if (!booked->all_seen || arbiter_is_exclusive(booked->manager->arbiter) ||
		(booked->observer.awaits_pods &&
			booked->observer.awaits_pods(booked->observer.userdata)))
		return true;
	for (size_t i = 0; checkpoint && i < checkpoint->count; i++) {
		const struct child *child =
			manager_find_child(booked->manager, checkpoint->rows[i].resource);

		if (!child || child_registration(child) == REGISTRATION_DRA ||
			renewal_matters(child))
			return true;
	}
	return false;
}

static void send_all(struct booked *booked)
{
	struct manager *manager = booked->manager;

	send_foreign(booked);
	if (booked->observer.on_change)
		booked->observer.on_change(booked->observer.userdata);
	pod_directories_watch(booked->directories, awaits_pods(booked));
	/* The name of a pod may be known by now. */
	if (arbiter_is_exclusive(manager->arbiter))
		arbiter_decide(manager->arbiter);
	for (size_t i = 0; i < manager->n_children; i++) {
		struct child *child = manager->children[i];

		if (child->process.pid > 0 && send_bookings(booked, child, UNTIL_NEVER) < 0)
			plan_read(booked, now_usec(CLOCK_MONOTONIC) + USEC_PER_SEC);
	}
}

void booked_observe(struct booked *booked, const struct booked_observer *observer)
{
	booked->observer = *observer;
}

int booked_send(struct booked *booked, struct child *child)
{
	refresh(booked);
	send_foreign(booked);
	return send_bookings(booked, child, UNTIL_NEVER);
}

const struct kubelet_checkpoint *booked_checkpoint(struct booked *booked, uint64_t *ret_written_at)
{
	refresh(booked);
	*ret_written_at = booked->written_at;
	return booked->checkpoint;
}

bool booked_has_checkpoint(const struct booked *booked)
{
	return booked->checkpoint;
}

/* A checkpoint that is missing or cannot be read does not show what the kubelet stores. */
static void drop_left_files(struct booked *booked)
{
	struct published *published = booked->manager->published;
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (booked->checkpoint && booked->problem >= 0 &&
		published_drop_left(
			published, &booked->checkpoint->cdi_kinds, now - LEFT_FILE_DELAY))
		plan_read(booked, now + LEFT_FILE_DELAY);
}

static int on_read_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct booked *booked = userdata;

	refresh(booked);
	send_all(booked);
	booked_changed(booked);
	drop_left_files(booked);
	plugin_metadata_follow(
		booked->manager->plugin_metadata, booked->checkpoint, booked->written_at);
	if (plugin_metadata_write(booked->manager->plugin_metadata, false) != USEC_INFINITY)
		manager_changed(booked->manager);
	return 0;
}

void booked_resources_changed(struct booked *booked)
{
	if (!booked->manager->stopping)
		send_foreign(booked);
}

void booked_kubelet_appeared(struct booked *booked)
{
	refresh(booked);
	send_all(booked);
}

void booked_checkpoint_changed(struct booked *booked)
{
	if (!booked->manager->stopping)
		plan_read(booked, pace_next(&booked->reading));
}

/* --- what may leave a list --- */

static bool has_gone(const struct booked *booked)
{
	for (size_t i = 0; i < booked->manager->n_children; i++)
		if (booked->manager->children[i]->gone > 0)
			return true;
	return false;
}

static bool is_wanted(const struct booked *booked)
{
	if (booked->manager->stopping)
		return false;
	return has_gone(booked) || pod_directories_await(booked->directories, 0) ||
		(asks_pods(booked) && renewal_is_wanted(booked->manager, booked->checkpoint)) ||
		(asks_pods(booked) && booked->problem != -ENOENT &&
			(!booked_has_checkpoint(booked) || is_passing(booked->problem)));
}

/* Removes devices from the lists that disappeared before that time and are not booked. */
static void drop_unbooked(struct booked *booked, uint64_t until, bool served)
{
	struct manager *manager = booked->manager;

	for (size_t i = 0; i < manager->n_children; i++) {
		struct child *child = manager->children[i];

		/* A child that does not read now is sent the bookings later. */
		if (child->process.pid > 0 && child->gone > 0 &&
			(!served ||
				(child->resource->state == RESOURCE_SERVING &&
					child->resource->serving_since <= until)))
			(void)send_bookings(booked, child, until);
	}
}

/* A reload may have made the interval longer than the host is up. */
static uint64_t interval_before(const struct booked *booked, uint64_t time)
{
	return time - MIN_OF(time, interval_of(booked));
}

static void on_answer(const struct pod_answer *answer, void *userdata)
{
	struct booked *booked = userdata;

	booked->waiting = false;
	booked->asked_at = answer->table ? answer->asked_at : now_usec(CLOCK_MONOTONIC);
	/* A kubelet that is not running or lacks the API causes no warning. */
	if (answer->error != -ENOENT && answer->error != -ECONNREFUSED &&
		log_once_admits(&booked->pods_logged, answer->table ? NULL : answer->failure))
		log_full(LOG_WARNING, &fields,
			"the kubelet does not report which devices are in use: %s; devices that "
			"have disappeared stay listed",
			answer->failure);
	refresh(booked);
	pod_directories_answered(
		booked->directories, booked->checkpoint, answer, interval_of(booked));
	if (answer->table) {
		booked->pods = pod_table_free(booked->pods);
		(void)pod_table_read(answer->table_fd, &booked->pods);
		booked_lists_drop_forgotten(booked);
		drop_unbooked(booked, interval_before(booked, answer->asked_at), true);
		renew_checkpoint(booked->manager, booked->checkpoint, booked->pods);
	}
	send_all(booked);
	booked_changed(booked);
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct booked *booked = userdata;

	booked->waiting = is_wanted(booked) && asks_pods(booked) &&
		pod_resources_ask(booked->manager->pods, POD_QUESTION_LIST, 0, on_answer, booked) >=
			0;
	if (booked->waiting)
		return 0;
	refresh(booked);
	if (!asks_pods(booked) && booked_has_checkpoint(booked))
		drop_unbooked(booked, interval_before(booked, now_usec(CLOCK_MONOTONIC)), false);
	booked_changed(booked);
	return 0;
}

/* A reload may have made the interval shorter than the rest of the wait. */
static bool is_due_by(const struct booked *booked, uint64_t time)
{
	int enabled = SD_EVENT_OFF;
	uint64_t due = 0;

	if (!booked->waiting)
		return false;
	/* Without the timer, an answer is awaited. */
	return sd_event_source_get_enabled(booked->timer, &enabled) < 0 ||
		enabled == SD_EVENT_OFF || sd_event_source_get_time(booked->timer, &due) < 0 ||
		due <= time;
}

void booked_changed(struct booked *booked)
{
	bool ended = pod_directories_await(booked->directories, booked->asked_at);
	uint64_t due = now_usec(CLOCK_MONOTONIC) +
		(ended ? MIN_OF(interval_of(booked), END_DELAY) : interval_of(booked));

	if (booked->pods && (!asks_pods(booked) || !is_wanted(booked))) {
		booked->pods = pod_table_free(booked->pods);
		/* What only that answer named has ended. */
		booked_checkpoint_changed(booked);
	}
	if (!is_wanted(booked) || is_due_by(booked, due))
		return;
	if (sd_event_source_set_time(booked->timer, due) >= 0 &&
		sd_event_source_set_enabled(booked->timer, SD_EVENT_ONESHOT) >= 0)
		booked->waiting = true;
}

/* --- --- */

static void on_pod_directories(void *userdata)
{
	booked_checkpoint_changed(userdata);
}

static int add_timer(struct booked *booked, uint64_t accuracy, sd_event_time_handler_t handler,
	sd_event_source **ret)
{
	int r;

	r = sd_event_add_time(
		booked->manager->event, ret, CLOCK_MONOTONIC, 0, accuracy, handler, booked);
	if (r >= 0)
		r = sd_event_source_set_enabled(*ret, SD_EVENT_OFF);
	return r;
}

int booked_new(struct manager *manager, struct booked **ret)
{
	_cleanup_(booked_freep) struct booked *booked = calloc(1, sizeof(*booked));
	int r;

	if (!booked)
		return -ENOMEM;
	booked->manager = manager;
	booked->problem = -ENOENT;
	r = pod_directories_new(manager->event, on_pod_directories, booked, &booked->directories);
	if (r >= 0)
		r = add_timer(booked, 100 * USEC_PER_MSEC, on_due, &booked->timer);
	if (r >= 0)
		r = add_timer(booked, USEC_PER_MSEC, on_read_due, &booked->read_timer);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(booked);
	return 0;
}

void booked_stop(struct booked *booked)
{
	pod_directories_stop(booked->directories);
}

struct booked *booked_free(struct booked *booked)
{
	if (!booked)
		return NULL;
	if (booked->manager->pods)
		pod_resources_cancel(booked->manager->pods, booked);
	sd_event_source_disable_unref(booked->timer);
	sd_event_source_disable_unref(booked->read_timer);
	(void)pod_directories_free(booked->directories);
	(void)kubelet_checkpoint_free(booked->checkpoint);
	(void)pod_table_free(booked->pods);
	for (size_t i = 0; i < booked->n_forgotten; i++)
		forgotten_done(&booked->forgotten[i]);
	free(booked->forgotten);
	free(booked);
	return NULL;
}
