/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether there is a kubelet, and whether it is a new one, by kubelet.sock. Every event,
 * every poll and every overflow of the event queue leads to the same two steps: make sure that the
 * watch is on the right directory, then compare kubelet.sock with its last state. They run from a
 * deferred source, so a burst of events is one check.
 */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "common/log.h"
#include "drivers/host/watch.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"
#include "supervisor/kubelet/kubelet-watch.h"
#include "supervisor/kubelet/session.h"

#define EVENT_MASK                                                                          \
	(IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB | IN_DELETE_SELF | \
		IN_MOVE_SELF | IN_ONLYDIR)
#define LOST_MASK    (IN_Q_OVERFLOW | IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)
#define POLL_WATCHED (5 * USEC_PER_SEC)
#define POLL_BLIND   (1 * USEC_PER_SEC)
#define ARM_ATTEMPTS 16

#define KUBELET_PATH_MAX (SOCKET_PATH_MAX + sizeof(KUBELET_SOCKET_NAME) + 1)

struct identity {
	dev_t device;
	ino_t inode;
	struct timespec changed;
};

struct kubelet_watch {
	sd_event *event;
	sd_event_source *inotify, *look, *poll;
	int fd, wd; /* of inotify; -1: none */
	char *directory;
	char *watched; /* the directory or a parent of it; NULL: none */
	struct identity watched_identity;
	bool lost; /* the watch may be dead */
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

static bool get_identity(const char *path, bool directory, struct identity *ret)
{
	struct stat st;

	if (stat(path, &st) < 0 || (directory && !S_ISDIR(st.st_mode)))
		return false;
	*ret = (struct identity){ st.st_dev, st.st_ino, st.st_ctim };
	return true;
}

/* Cuts the path to its longest part that is a directory. */
static void cut_to_existing(char *path, struct identity *ret)
{
	while (!get_identity(path, true, ret)) {
		char *slash = strrchr(path, '/');

		if (!slash)
			return;
		slash[slash == path && slash[1] != '\0' ? 1 : 0] = '\0';
	}
}

/* All events of kubelet.sock count. Other sockets count when they are created or removed: one of
 * ours, or the socket of a plugin that uses the name of one of our resources. */
static bool is_of_interest(const struct inotify_event *event)
{
	const char *end = event->len > 0 ? strrchr(event->name, '.') : NULL;

	return end && streq(end, ".sock") &&
		(event->mask & (IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM) ||
			streq(event->name, KUBELET_SOCKET_NAME));
}

static void checkpoint_changed(const struct kubelet_watch *watch)
{
	if (watch->on_checkpoint)
		watch->on_checkpoint(watch->checkpoint_userdata);
}

static void on_event(struct kubelet_watch *watch, const struct inotify_event *event)
{
	/* The event may belong to a watch that was removed meanwhile. */
	if (event->wd != watch->wd && !(event->mask & IN_Q_OVERFLOW))
		return;
	if (event->len > 0 && streq(event->name, CHECKPOINT_FILE))
		checkpoint_changed(watch);
	if (event->mask & LOST_MASK)
		watch->lost = true;
	/* In the directory itself, the kubelet's own temporary files cause events all the time. */
	else if (streq(watch->watched, watch->directory) && !is_of_interest(event))
		return;
	(void)sd_event_source_set_enabled(watch->look, SD_EVENT_ONESHOT);
}

static int on_inotify(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	_Alignas(struct inotify_event) char buffer[4096];
	struct kubelet_watch *watch = userdata;
	ssize_t n = RETRY_ON_EINTR(read(fd, buffer, sizeof(buffer)));

	for (const char *p = buffer; n > 0 && p < buffer + n;) {
		const struct inotify_event *event = (const void *)p;

		on_event(watch, event);
		p += sizeof(*event) + event->len;
	}
	return 0;
}

static int open_inotify(struct kubelet_watch *watch)
{
	_cleanup_close_ int fd = -EBADF;
	int r;

	if (watch->fd >= 0)
		return 0;
	fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = sd_event_add_io(watch->event, &watch->inotify, fd, EPOLLIN, on_inotify, watch);
	if (r < 0)
		return r;
	watch->fd = TAKE_FD(fd);
	return 0;
}

static void unwatch(struct kubelet_watch *watch)
{
	if (watch->wd >= 0)
		(void)inotify_rm_watch(watch->fd, watch->wd);
	watch->wd = -1;
}

static int arm_once(struct kubelet_watch *watch, bool *ret_settled)
{
	_cleanup_free_ char *path = strdup(watch->directory);
	struct identity identity = { 0 };
	int r;

	if (!path)
		return -ENOMEM;
	cut_to_existing(path, &identity);
	*ret_settled = watch->wd >= 0 && !watch->lost && streq(path, watch->watched) &&
		same_file(&identity, &watch->watched_identity);
	if (*ret_settled)
		return 0;

	unwatch(watch);
	free(watch->watched);
	watch->watched = TAKE_PTR(path);
	watch->watched_identity = identity;
	watch->lost = false;
	r = open_inotify(watch);
	if (r < 0)
		return r;
	watch->wd = inotify_add_watch(watch->fd, watch->watched, EVENT_MASK);
	checkpoint_changed(watch);
	/* It was removed between the check and the watch: the next round finds its parent. */
	return watch->wd >= 0 || errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
}

static void schedule_poll(struct kubelet_watch *watch)
{
	uint64_t interval = watch->blind ? POLL_BLIND : POLL_WATCHED;

	(void)sd_event_source_set_time(watch->poll, now_usec(CLOCK_MONOTONIC) + interval);
	(void)sd_event_source_set_enabled(
		watch->poll, watch->waiting || watch->blind ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

/* A directory may appear between the check and the watch on its parent, so repeat until nothing
 * changes. */
static void arm(struct kubelet_watch *watch)
{
	bool settled = false, was_blind = watch->blind;
	int r = 0;

	for (unsigned i = 0; i < ARM_ATTEMPTS && !settled && r >= 0; i++)
		r = arm_once(watch, &settled);
	watch->blind = !settled;
	if (watch->blind && !was_blind)
		log_warning("cannot watch %s: %s; checking for the kubelet every second instead",
			watch->directory, r < 0 ? watch_strerror(r) : "it changes constantly");
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

	arm(watch);
	kubelet_path(watch, path);
	present = get_identity(path, false, &identity);
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
	watch->event = sd_event_ref(event);
	watch->fd = watch->wd = -1;
	watch->pinned_fd = -EBADF;
	watch->number = 1;
	watch->on_kubelet = on_kubelet;
	watch->on_change = on_change;
	watch->userdata = userdata;
	watch->directory = strdup(directory);
	if (!watch->directory)
		return -ENOMEM;
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
	sd_event_source *sources[] = { watch->inotify, watch->look, watch->poll };

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		if (sources[i])
			(void)sd_event_source_set_enabled(sources[i], SD_EVENT_OFF);
	unwatch(watch);
}

struct kubelet_watch *kubelet_watch_free(struct kubelet_watch *watch)
{
	if (!watch)
		return NULL;
	sd_event_source_disable_unref(watch->inotify);
	sd_event_source_disable_unref(watch->look);
	sd_event_source_disable_unref(watch->poll);
	sd_event_unref(watch->event);
	close_fd(watch->fd);
	close_fd(watch->pinned_fd);
	free(watch->directory);
	free(watch->watched);
	free(watch);
	return NULL;
}
