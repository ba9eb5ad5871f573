/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether there is a kubelet, and whether it is a new one, by kubelet.sock. Every event,
 * every poll and every loss of events leads to the same two steps: make sure that the directory is
 * watched, then compare kubelet.sock with its last state. They run from a deferred source, so a
 * burst of events is one check.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "common/log.h"
#include "drivers/host/watch.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"
#include "supervisor/kubelet/kubelet-watch.h"
#include "supervisor/kubelet/session-sockets.h"

#define POLL_WATCHED (5 * USEC_PER_SEC)
#define POLL_BLIND   (1 * USEC_PER_SEC)

#define KUBELET_PATH_MAX (SOCKET_PATH_MAX + sizeof(KUBELET_SOCKET_NAME) + 1)

struct identity {
	dev_t device;
	ino_t inode;
	struct timespec changed;
};

struct kubelet_watch {
	sd_event_source *look, *poll;
	char *directory;
	struct watcher *watcher;
	struct watch *armed; /* NULL: no watch is available */
	bool lost;           /* the watch may be dead */
	bool blind, waiting;
	bool present;
	struct identity identity;
	int pinned_fd; /* of kubelet.sock: its inode cannot be used again */
	uint64_t number;
	kubelet_watch_handler on_kubelet;
	kubelet_watch_change_handler on_change;
	void *userdata;
	void (*on_checkpoint)(void *userdata); /* NULL: none */
	void *checkpoint_userdata;
};

static bool same_file(const struct identity *a, const struct identity *b)
{
	return a->device == b->device && a->inode == b->inode;
}

static bool get_identity(const char *path, struct identity *ret)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	*ret = (struct identity){ st.st_dev, st.st_ino, st.st_ctim };
	return true;
}

static void checkpoint_changed(const struct kubelet_watch *watch)
{
	if (watch->on_checkpoint)
		watch->on_checkpoint(watch->checkpoint_userdata);
}

/* Other sockets count, too: one of ours, or the socket of a plugin that uses the name of one of our
 * resources. The kubelet's own temporary files cause events all the time. */
static void on_directory(enum watch_change change, const char *name, void *userdata)
{
	struct kubelet_watch *watch = userdata;
	const char *end = name ? strrchr(name, '.') : NULL;

	if (name && streq(name, CHECKPOINT_FILE))
		checkpoint_changed(watch);
	watch->lost = watch->lost || !name;
	if (!name || (end && streq(end, ".sock")))
		(void)sd_event_source_set_enabled(watch->look, SD_EVENT_ONESHOT);
}

static void schedule_poll(struct kubelet_watch *watch)
{
	uint64_t interval = watch->blind ? POLL_BLIND : POLL_WATCHED;

	(void)sd_event_source_set_time(watch->poll, now_usec(CLOCK_MONOTONIC) + interval);
	(void)sd_event_source_set_enabled(
		watch->poll, watch->waiting || watch->blind ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

/* Replaces the watches of all directories on the way: the target of a link among them may have been
 * replaced, or a file system mounted. */
static void arm(struct kubelet_watch *watch)
{
	bool was_blind = watch->blind;
	int r;

	watch->armed = watch_free(watch->armed);
	r = watch_add(watch->watcher, watch->directory, WATCH_ENTRIES, on_directory, watch,
		&watch->armed);
	if (r >= 0 && access(watch->directory, R_OK) < 0 && errno == EACCES)
		r = -EACCES;
	checkpoint_changed(watch);
	watch->lost = false;
	watch->blind = r < 0;
	if (watch->blind && !was_blind)
		log_warning("cannot watch %s: %s; checking for the kubelet every second instead",
			watch->directory, watch_strerror(r));
	if (watch->blind != was_blind)
		schedule_poll(watch);
}

static void kubelet_path(const struct kubelet_watch *watch, char ret[static KUBELET_PATH_MAX])
{
	(void)snprintf(ret, KUBELET_PATH_MAX, "%s/%s", watch->directory, KUBELET_SOCKET_NAME);
}

/* A removed socket cannot come back. While it is pinned, so is its directory, whose removal the
 * kernel would report only later. A moved socket has its link, and stays. */
static void release_removed(struct kubelet_watch *watch)
{
	struct stat st;

	if (watch->pinned_fd >= 0 && fstat(watch->pinned_fd, &st) >= 0 && st.st_nlink == 0)
		watch->pinned_fd = close_fd(watch->pinned_fd);
}

static bool is_same_inode(int a, int b)
{
	struct stat of_a, of_b;

	return fstat(a, &of_a) >= 0 && fstat(b, &of_b) >= 0 && of_a.st_dev == of_b.st_dev &&
		of_a.st_ino == of_b.st_ino;
}

uint64_t kubelet_watch_number(struct kubelet_watch *watch)
{
	char path[KUBELET_PATH_MAX];
	int fd;

	kubelet_path(watch, path);
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0) {
		release_removed(watch);
		return watch->number;
	}
	if (watch->pinned_fd >= 0 && is_same_inode(fd, watch->pinned_fd)) {
		(void)close_fd(fd);
		return watch->number;
	}
	(void)close_fd(watch->pinned_fd);
	watch->pinned_fd = fd;
	return ++watch->number;
}

static void look(struct kubelet_watch *watch)
{
	struct identity identity = { 0 };
	char path[KUBELET_PATH_MAX];
	bool present;

	if (watch->lost)
		arm(watch);
	kubelet_path(watch, path);
	present = get_identity(path, &identity);
	if (present != watch->present || !same_file(&identity, &watch->identity) ||
		identity.changed.tv_sec != watch->identity.changed.tv_sec ||
		identity.changed.tv_nsec != watch->identity.changed.tv_nsec) {
		watch->present = present;
		watch->identity = identity;
		watch->on_kubelet(present, watch->userdata);
	}
	watch->on_change(watch->userdata);
}

static int on_look(sd_event_source *source, void *userdata)
{
	look(userdata);
	return 0;
}

static int on_poll(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct kubelet_watch *watch = userdata;

	watch->lost = true;
	look(watch);
	checkpoint_changed(watch);
	schedule_poll(watch);
	return 0;
}

int kubelet_watch_new(sd_event *event, const char *directory, kubelet_watch_handler on_kubelet,
	kubelet_watch_change_handler on_change, void *userdata, struct kubelet_watch **ret)
{
	_cleanup_(kubelet_watch_freep) struct kubelet_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return -ENOMEM;
	watch->lost = true;
	watch->pinned_fd = -EBADF;
	watch->number = 1;
	watch->on_kubelet = on_kubelet;
	watch->on_change = on_change;
	watch->userdata = userdata;
	watch->directory = strdup(directory);
	if (!watch->directory)
		return -ENOMEM;
	r = watcher_new(event, "", &watch->watcher);
	if (r < 0)
		return r;
	r = sd_event_add_defer(event, &watch->look, on_look, watch);
	if (r < 0)
		return r;
	r = sd_event_add_time(
		event, &watch->poll, CLOCK_MONOTONIC, 0, USEC_PER_SEC / 2, on_poll, watch);
	if (r < 0)
		return r;
	r = sd_event_source_set_enabled(watch->poll, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(watch);
	return 0;
}

const char *kubelet_watch_directory(const struct kubelet_watch *watch)
{
	return watch->directory;
}

void kubelet_watch_checkpoint(
	struct kubelet_watch *watch, void (*on_checkpoint)(void *userdata), void *userdata)
{
	watch->on_checkpoint = on_checkpoint;
	watch->checkpoint_userdata = userdata;
}

void kubelet_watch_set_waiting(struct kubelet_watch *watch, bool waiting)
{
	if (watch->waiting == waiting)
		return;
	watch->waiting = waiting;
	schedule_poll(watch);
}

bool kubelet_watch_is_present(const struct kubelet_watch *watch)
{
	return watch->present;
}

void kubelet_watch_stop(struct kubelet_watch *watch)
{
	(void)sd_event_source_set_enabled(watch->look, SD_EVENT_OFF);
	(void)sd_event_source_set_enabled(watch->poll, SD_EVENT_OFF);
	watch->armed = watch_free(watch->armed);
}

struct kubelet_watch *kubelet_watch_free(struct kubelet_watch *watch)
{
	if (!watch)
		return NULL;
	sd_event_source_disable_unref(watch->look);
	sd_event_source_disable_unref(watch->poll);
	(void)watch_free(watch->armed);
	(void)watcher_free(watch->watcher);
	close_fd(watch->pinned_fd);
	free(watch->directory);
	free(watch);
	return NULL;
}
