/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three layers: a watch belongs to the directory (a path) somebody asked for; a directory sits on a
 * point (an inotify watch descriptor) at itself or at its nearest existing ancestor; several
 * directories may share a point, because they are one inode or wait at the same ancestor.
 */
#include "drivers/watch.h"

#include <fcntl.h>
#include <sys/inotify.h>

#include "drivers/map.h"
#include "drivers/sysroot.h"

#define ENTRY_MASK                                                                          \
	(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | \
		IN_MOVE_SELF)
#define CONTENT_MASK (IN_MODIFY | IN_CLOSE_WRITE)
#define GONE_MASK    (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)
/* A path that grows while it is being armed is followed that often. */
#define ARM_ATTEMPTS 16

struct directory {
	struct watcher *watcher;
	char *path;
	enum watch_kind kind;
	size_t armed; /* length of the part of the path that is watched, 0: none */
	int wd;
	struct directory *previous, *next; /* on the same point */
	struct watch *watches;
};

struct watch {
	struct directory *directory;
	struct watch *previous, *next;
	watch_handler handler;
	void *userdata;
};

struct point {
	int wd;
	struct directory *first;
};

struct watcher {
	sd_event *event;
	const char *root;
	int fd;
	sd_event_source *source;
	struct map directories;
	struct point *points; /* sorted by wd; the kernel gives out ascending numbers */
	size_t n_points;
};

static size_t point_position(const struct watcher *watcher, int wd)
{
	size_t low = 0, high = watcher->n_points;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (watcher->points[middle].wd < wd)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct point *point_find(struct watcher *watcher, int wd)
{
	size_t at = point_position(watcher, wd);

	return at < watcher->n_points && watcher->points[at].wd == wd ? &watcher->points[at] : NULL;
}

static int point_get(struct watcher *watcher, int wd, struct point **ret)
{
	size_t at = point_position(watcher, wd);
	int r;

	if (at == watcher->n_points || watcher->points[at].wd != wd) {
		r = array_reserve(
			(void **)&watcher->points, watcher->n_points, sizeof(*watcher->points));
		if (r < 0)
			return r;
		memmove(watcher->points + at + 1, watcher->points + at,
			(watcher->n_points - at) * sizeof(*watcher->points));
		watcher->points[at] = (struct point){ .wd = wd };
		watcher->n_points++;
	}
	*ret = &watcher->points[at];
	return 0;
}

static void point_remove(struct watcher *watcher, struct point *point)
{
	size_t at = (size_t)(point - watcher->points);

	memmove(point, point + 1, (watcher->n_points - at - 1) * sizeof(*point));
	watcher->n_points--;
}

static void detach(struct directory *directory)
{
	struct watcher *watcher = directory->watcher;
	struct point *point = point_find(watcher, directory->wd);

	if (directory->armed == 0)
		return;
	if (directory->next)
		directory->next->previous = directory->previous;
	if (directory->previous)
		directory->previous->next = directory->next;
	else if (point)
		point->first = directory->next;
	if (point && !point->first) {
		(void)inotify_rm_watch(watcher->fd, point->wd);
		point_remove(watcher, point);
	}
	directory->previous = directory->next = NULL;
	directory->armed = 0;
	directory->wd = -1;
}

static int attach(struct directory *directory, int wd, size_t length)
{
	struct watcher *watcher = directory->watcher;
	struct point *point;
	int r;

	if (directory->armed > 0 && directory->wd == wd) {
		directory->armed = length;
		return 0;
	}
	detach(directory);
	r = point_get(watcher, wd, &point);
	if (r < 0) {
		(void)inotify_rm_watch(watcher->fd, wd);
		return r;
	}
	directory->next = point->first;
	if (point->first)
		point->first->previous = directory;
	point->first = directory;
	directory->wd = wd;
	directory->armed = length;
	return 0;
}

/* Puts an inotify watch on the path, which exists as a directory or is refused. */
static int watch_path(struct watcher *watcher, const char *path, uint32_t mask)
{
	_cleanup_close_ int fd = -EBADF;
	char link[64];
	int wd;

	mask |= IN_MASK_ADD;
	if (!*watcher->root)
		wd = inotify_add_watch(watcher->fd, path, mask | IN_ONLYDIR);
	else {
		fd = sysroot_open(watcher->root, path, O_PATH | O_DIRECTORY);
		if (fd < 0)
			return fd;
		(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		wd = inotify_add_watch(watcher->fd, link, mask);
	}
	return wd < 0 ? -errno : wd;
}

/* Length of the parent of the first `length` bytes of a path; 0 for "/". */
static size_t parent_length(const char *path, size_t length)
{
	while (length > 0 && path[length - 1] != '/')
		length--;
	while (length > 1 && path[length - 1] == '/')
		length--;
	return length;
}

/* One more component than the first `length` bytes. */
static size_t child_length(const char *path, size_t length)
{
	length += strspn(path + length, "/");
	return length + strcspn(path + length, "/");
}

/* Watches the longest prefix of the path that can be. Tells the error that cut it short. */
static int arm_nearest(struct directory *directory, char *path, int *ret_reason)
{
	size_t full = strlen(directory->path), length = full;
	int wd, reason = 0;

	for (;;) {
		uint32_t mask = ENTRY_MASK;

		if (length == full && directory->kind == WATCH_CONTENT)
			mask |= CONTENT_MASK;
		memcpy(path, directory->path, full + 1);
		path[length] = '\0';
		wd = watch_path(directory->watcher, path, mask);
		if (wd >= 0)
			break;
		if (!sysroot_is_absent(wd) && wd != -EACCES)
			return wd;
		reason = wd;
		if (length <= 1)
			return wd;
		length = parent_length(path, length);
	}
	*ret_reason = reason;
	return attach(directory, wd, length);
}

static int arm(struct directory *directory)
{
	size_t full = strlen(directory->path);
	_cleanup_free_ char *path = malloc(full + 1);
	int reason = 0, r;

	if (!path)
		return -ENOMEM;
	for (unsigned attempt = 0; attempt < ARM_ATTEMPTS; attempt++) {
		struct stat st;

		r = arm_nearest(directory, path, &reason);
		if (r < 0) {
			detach(directory);
			return r;
		}
		if (directory->armed == full || !sysroot_is_absent(reason))
			break;
		/* What was missing may have come before its parent was watched. */
		memcpy(path, directory->path, full + 1);
		path[child_length(path, directory->armed)] = '\0';
		if (sysroot_stat(directory->watcher->root, path, &st) < 0 || !S_ISDIR(st.st_mode))
			break;
	}
	return 0;
}

static void notify(struct directory *directory, enum watch_change change, const char *name)
{
	for (struct watch *watch = directory->watches; watch; watch = watch->next)
		watch->handler(change, name, watch->userdata);
}

static void rearm_all(struct watcher *watcher)
{
	for (size_t i = 0; i < watcher->directories.capacity; i++) {
		struct directory *directory = watcher->directories.slots[i].value;

		if (!directory)
			continue;
		(void)arm(directory);
		notify(directory, WATCH_ANYTHING, NULL);
	}
}

static bool is_awaited(const struct directory *directory, const char *name)
{
	size_t end = child_length(directory->path, directory->armed);
	size_t length = strlen(name);

	return length < end && directory->path[end - length - 1] == '/' &&
		strncmp(directory->path + end - length, name, length) == 0;
}

static void tell_directory(
	struct directory *directory, const struct inotify_event *event, const char *name)
{
	if (event->mask & GONE_MASK || !name ||
		(directory->path[directory->armed] && is_awaited(directory, name))) {
		/* A failure here is seen by the next one who asks for the directory; those
		 * who have it are told to look. */
		(void)arm(directory);
		notify(directory, WATCH_ANYTHING, NULL);
	} else if (!directory->path[directory->armed])
		notify(directory,
			event->mask & (IN_MODIFY | IN_CREATE) ? WATCH_WRITING : WATCH_CHANGED,
			name);
}

static void on_inotify_event(struct watcher *watcher, const struct inotify_event *event)
{
	const char *name = event->len > 0 ? event->name : NULL;
	struct directory *directory, *next;
	struct point *point;

	if (event->mask & IN_Q_OVERFLOW) {
		rearm_all(watcher);
		return;
	}
	point = point_find(watcher, event->wd);
	if (!point)
		return;
	directory = point->first;
	if (event->mask & GONE_MASK) {
		/* The number means nothing any more, or an inode that moved elsewhere. */
		if (!(event->mask & IN_IGNORED))
			(void)inotify_rm_watch(watcher->fd, event->wd);
		point_remove(watcher, point);
		for (struct directory *d = directory; d; d = d->next)
			d->armed = 0;
	}
	for (; directory; directory = next) {
		next = directory->next;
		if (directory->armed == 0)
			directory->previous = directory->next = NULL;
		tell_directory(directory, event, name);
	}
}

static int on_inotify(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct watcher *watcher = userdata;
	_Alignas(struct inotify_event) char buffer[16384];
	ssize_t n;

	n = read(fd, buffer, sizeof(buffer));
	if (n < 0)
		return 0;
	for (char *p = buffer; p < buffer + n;) {
		const struct inotify_event *event = (const void *)p;

		p += sizeof(*event) + event->len;
		on_inotify_event(watcher, event);
	}
	return 0;
}

int watcher_new(sd_event *event, const char *root, struct watcher **ret)
{
	struct watcher *watcher = calloc(1, sizeof(*watcher));

	if (!watcher)
		return -ENOMEM;
	watcher->event = sd_event_ref(event);
	watcher->root = root;
	watcher->fd = -EBADF;
	*ret = watcher;
	return 0;
}

struct watcher *watcher_free(struct watcher *watcher)
{
	if (!watcher)
		return NULL;
	assert(watcher->directories.count == 0);
	(void)sd_event_source_disable_unref(watcher->source);
	close_fd(watcher->fd);
	map_done(&watcher->directories);
	free(watcher->points);
	sd_event_unref(watcher->event);
	free(watcher);
	return NULL;
}

static int open_inotify(struct watcher *watcher)
{
	_cleanup_close_ int fd = -EBADF;
	int r;

	if (watcher->fd >= 0)
		return 0;
	fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = sd_event_add_io(watcher->event, &watcher->source, fd, EPOLLIN, on_inotify, watcher);
	if (r < 0)
		return r;
	watcher->fd = TAKE_FD(fd);
	return 0;
}

static struct directory *directory_free(struct directory *directory)
{
	detach(directory);
	free(directory->path);
	free(directory);
	return NULL;
}
DEFINE_CLEANUP(struct directory *, directory_free)

static int directory_new(struct watcher *watcher, const char *path, struct directory **ret)
{
	_cleanup_(directory_freep) struct directory *directory = NULL;
	int r;

	directory = calloc(1, sizeof(*directory));
	if (!directory)
		return -ENOMEM;
	directory->watcher = watcher;
	directory->wd = -1;
	directory->path = strdup(path);
	if (!directory->path)
		return -ENOMEM;
	r = map_put(&watcher->directories, directory->path, directory);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(directory);
	return 0;
}

int watch_add(struct watcher *watcher, const char *directory_path, enum watch_kind kind,
	watch_handler handler, void *userdata, struct watch **ret)
{
	struct directory *directory;
	struct watch *watch;
	int r;

	r = open_inotify(watcher);
	if (r < 0)
		return r;
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	directory = map_get(&watcher->directories, directory_path);
	if (!directory) {
		r = directory_new(watcher, directory_path, &directory);
		if (r < 0) {
			free(watch);
			return r;
		}
	}
	*watch = (struct watch){ .directory = directory, .handler = handler, .userdata = userdata };
	watch->next = directory->watches;
	if (watch->next)
		watch->next->previous = watch;
	directory->watches = watch;
	directory->kind = MAX_OF(directory->kind, kind);

	/* Also for a known directory: what stands at the path may be another by now. */
	r = arm(directory);
	if (r < 0) {
		(void)watch_free(watch);
		return r;
	}
	*ret = watch;
	return 0;
}

struct watch *watch_free(struct watch *watch)
{
	struct directory *directory;

	if (!watch)
		return NULL;
	directory = watch->directory;
	if (watch->next)
		watch->next->previous = watch->previous;
	if (watch->previous)
		watch->previous->next = watch->next;
	else
		directory->watches = watch->next;
	if (!directory->watches) {
		(void)map_remove(&directory->watcher->directories, directory->path);
		(void)directory_free(directory);
	}
	free(watch);
	return NULL;
}
