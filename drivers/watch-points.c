/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where paths lead: inotify's watch descriptors, and which directories share one.
 */
#include "drivers/watch-tree.h"

#include <fcntl.h>

#include "drivers/sysroot.h"

#define ENTRY_MASK                                                                          \
	(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | \
		IN_MOVE_SELF)

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

struct point *watch_point_find(struct watcher *watcher, int wd)
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

void watch_detach(struct directory *directory)
{
	struct watcher *watcher = directory->watcher;
	struct point *point;

	if (directory->wd < 0)
		return;
	point = watch_point_find(watcher, directory->wd);
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
	watch_detach(directory);
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

int watch_arm(struct directory *directory)
{
	/* Another path may have wanted more of the same inode. */
	uint32_t mask = ENTRY_MASK | IN_MASK_ADD;
	int wd;

	if (directory->kind == WATCH_CONTENT)
		mask |= WATCH_CONTENT_MASK;
	wd = watch_path(directory->watcher, directory->path, mask);
	if (wd >= 0)
		return attach(directory, wd);
	watch_detach(directory);
	return sysroot_is_absent(wd) || wd == -EACCES ? 0 : wd;
}
