/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches paths at any level, whether they exist or not. A watched path is a chain of directories
 * from the root on, each of which watches for the next one: so a path may appear, disappear and be
 * replaced at any level, and nothing is missed.
 *
 * - A directory is in the tree while it is watched or one below it is; "/" is its root.
 * - A directory is armed after its parent, so that nothing which appears below is missed.
 * - Several paths may lead to one inode, which the kernel knows as one watch descriptor: a point.
 *   A directory is on the list of the point of its `wd`, and each descriptor of a directory has
 *   exactly one point. - An event may end the point of a later event that was already read: so each
 *   event's point is found by its number. `stale` is empty except while events are read.
 */
#include "drivers/host/watch.h"

#include <fcntl.h>
#include <sys/inotify.h>

#include "common/map.h"
#include "drivers/host/sysroot.h"

#define WATCH_CONTENT_MASK (IN_MODIFY | IN_CLOSE_WRITE)
#define ENTRY_MASK                                                                          \
	(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | \
		IN_MOVE_SELF)
#define GONE_MASK (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)

struct directory {
	struct watcher *watcher;
	char *path;
	enum watch_kind kind;
	struct watch *watches;
	struct directory *parent, *first_child, *previous_sibling, *next_sibling;
	int wd; /* -1: there is no directory at the path now, or it may not be read */
	struct directory *previous, *next; /* on the same point */
	bool stale;
	struct directory *next_stale;
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
	struct point *points; /* sorted by wd; the kernel assigns ascending numbers */
	size_t n_points;
	struct directory *stale; /* to be armed again, with all directories below them */
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

/* NULL: no directory is on it any more. */
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

/* Ends the watch. The kernel's watch is removed with the point when no other directory is on it. */
static void directory_detach(struct directory *directory)
{
	struct watcher *watcher = directory->watcher;
	struct point *point;

	if (directory->wd < 0)
		return;
	point = point_find(watcher, directory->wd);
	assert(point);
	if (directory->next)
		directory->next->previous = directory->previous;
	if (directory->previous)
		directory->previous->next = directory->next;
	else
		point->first = directory->next;
	directory->previous = directory->next = NULL;
	directory->wd = -1;
	if (!point->first) {
		(void)inotify_rm_watch(watcher->fd, point->wd);
		point_remove(watcher, point);
	}
}

static int attach(struct directory *directory, int wd)
{
	struct watcher *watcher = directory->watcher;
	struct point *point;
	int r;

	if (directory->wd == wd)
		return 0;
	directory_detach(directory);
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
	return 0;
}

/* Puts an inotify watch on the path if it is a directory. */
static int watch_path(struct watcher *watcher, const char *path, uint32_t mask)
{
	_cleanup_close_ int fd = -EBADF;
	char link[64];
	int wd;

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

/* Watches the directory that is at the path now. Returns 0 also if there is none or it is
 * unreadable. Returns -ENOSPC, -ENOMEM and the like if no watch is available; then the directory is
 * not watched. */
static int directory_arm(struct directory *directory)
{
	/* Another path may need more events of the same inode. */
	uint32_t mask = ENTRY_MASK | IN_MASK_ADD;
	int wd;

	if (directory->kind == WATCH_CONTENT)
		mask |= WATCH_CONTENT_MASK;
	wd = watch_path(directory->watcher, directory->path, mask);
	if (wd >= 0)
		return attach(directory, wd);
	directory_detach(directory);
	return sysroot_is_absent(wd) || wd == -EACCES ? 0 : wd;
}

static void notify(struct directory *directory, enum watch_change change, const char *name)
{
	for (struct watch *watch = directory->watches; watch; watch = watch->next)
		watch->handler(change, name, watch->userdata);
}

/* The next caller that asks for the directory gets the error; existing watches get an event. */
static void rearm_below(struct directory *directory)
{
	(void)directory_arm(directory);
	notify(directory, WATCH_ANYTHING, NULL);
	for (struct directory *c = directory->first_child; c; c = c->next_sibling)
		rearm_below(c);
}

static void mark_stale(struct directory *directory)
{
	if (directory->stale)
		return;
	directory->stale = true;
	directory->next_stale = directory->watcher->stale;
	directory->watcher->stale = directory;
}

static void rearm_stale(struct watcher *watcher)
{
	while (watcher->stale) {
		struct directory *directory = watcher->stale;

		watcher->stale = directory->next_stale;
		directory->stale = false;
		rearm_below(directory);
	}
}

static struct directory *find_child(struct directory *directory, const char *name)
{
	_cleanup_free_ char *path = NULL;

	if (!directory->first_child)
		return NULL;
	if (format_text(&path, "%s/%s", directory->parent ? directory->path : "", name) < 0)
		return NULL;
	return map_get(&directory->watcher->directories, path);
}

static void on_entry(struct directory *directory, uint32_t mask, const char *name)
{
	struct directory *child = mask & WATCH_CONTENT_MASK ? NULL : find_child(directory, name);

	if (child)
		mark_stale(child);
	notify(directory, mask & (IN_MODIFY | IN_CREATE) ? WATCH_WRITING : WATCH_CHANGED, name);
}

static void on_inotify_event(struct watcher *watcher, const struct inotify_event *event)
{
	struct point *point = point_find(watcher, event->wd);
	struct directory *top = map_get(&watcher->directories, "/");

	if (!top)
		return;
	if (event->mask & IN_Q_OVERFLOW)
		mark_stale(top);
	else if (!point)
		return;
	else if (event->mask & GONE_MASK)
		while ((point = point_find(watcher, event->wd))) {
			mark_stale(point->first);
			directory_detach(point->first);
		}
	else
		for (struct directory *d = point->first; d; d = d->next)
			if (event->len > 0)
				on_entry(d, event->mask, event->name);
			else
				mark_stale(d);
	rearm_stale(watcher);
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

const char *watch_strerror(int r)
{
	switch (-r) {
	case EMFILE:
		return "too many inotify instances or open files, raise "
		       "fs.inotify.max_user_instances or LimitNOFILE= of the service";
	case ENOSPC:
		return "too many inotify watches, raise fs.inotify.max_user_watches";
	default:
		return strerror(-r);
	}
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

/* Frees the directory, and directories above it that are no longer needed. */
static void directory_release(struct directory *directory)
{
	while (directory && !directory->watches && !directory->first_child) {
		struct directory *parent = directory->parent;

		directory_detach(directory);
		if (directory->next_sibling)
			directory->next_sibling->previous_sibling = directory->previous_sibling;
		if (directory->previous_sibling)
			directory->previous_sibling->next_sibling = directory->next_sibling;
		else if (parent)
			parent->first_child = directory->next_sibling;
		(void)map_remove(&directory->watcher->directories, directory->path);
		free(directory->path);
		free(directory);
		directory = parent;
	}
}

/* Adds the directory below one that is armed already. */
static int directory_new(
	struct watcher *watcher, struct directory *parent, const char *path, struct directory **ret)
{
	struct directory *directory;
	int r;

	directory = calloc(1, sizeof(*directory));
	if (!directory)
		return -ENOMEM;
	directory->watcher = watcher;
	directory->wd = -1;
	directory->path = strdup(path);
	r = directory->path ? map_put(&watcher->directories, directory->path, directory) : -ENOMEM;
	if (r < 0) {
		free(directory->path);
		free(directory);
		return r;
	}
	directory->parent = parent;
	if (parent) {
		directory->next_sibling = parent->first_child;
		if (parent->first_child)
			parent->first_child->previous_sibling = directory;
		parent->first_child = directory;
	}
	*ret = directory;
	return directory_arm(directory);
}

/* Finds or makes the chain of directories of an absolute path. On failure, `ret` is the part that
 * was made. */
static int directory_get(struct watcher *watcher, const char *path, struct directory **ret)
{
	_cleanup_free_ char *prefix = malloc(strlen(path) + 2);
	struct directory *directory = NULL, *child;
	const char *component = path;
	size_t length = 0;
	int r = 0;

	if (!prefix)
		return -ENOMEM;
	(void)strcpy(prefix, "/");
	for (;;) {
		size_t component_length;

		child = map_get(&watcher->directories, prefix);
		if (!child)
			r = directory_new(watcher, directory, prefix, &child);
		if (child)
			directory = child;
		component += strspn(component, "/");
		component_length = strcspn(component, "/");
		if (r < 0 || component_length == 0)
			break;
		prefix[length++] = '/';
		memcpy(prefix + length, component, component_length);
		length += component_length;
		prefix[length] = '\0';
		component += component_length;
	}
	*ret = directory;
	return r;
}

int watch_add(struct watcher *watcher, const char *path, enum watch_kind kind,
	watch_handler handler, void *userdata, struct watch **ret)
{
	struct directory *directory = NULL;
	struct watch *watch;
	int r;

	r = open_inotify(watcher);
	if (r < 0)
		return r;
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	r = directory_get(watcher, path, &directory);
	if (r < 0) {
		directory_release(directory);
		free(watch);
		return r;
	}
	*watch = (struct watch){ .directory = directory, .handler = handler, .userdata = userdata };
	watch->next = directory->watches;
	if (watch->next)
		watch->next->previous = watch;
	directory->watches = watch;
	directory->kind = MAX_OF(directory->kind, kind);

	/* Arms a directory again even if it is armed: it may need more events now, or have been
	 * replaced a moment ago. */
	r = directory_arm(directory);
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
	directory_release(directory);
	free(watch);
	return NULL;
}
