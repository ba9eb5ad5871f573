/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What events mean: who is told, and which directories are looked for again. One event may end the
 * point that a later one, read already, is of: so each event's point is looked up.
 */
#include "drivers/watch-tree.h"

#define GONE_MASK (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)

static void notify(struct directory *directory, enum watch_change change, const char *name)
{
	for (struct watch *watch = directory->watches; watch; watch = watch->next)
		watch->handler(change, name, watch->userdata);
}

/* A failure here is seen by the next one who asks for the directory; those who have it are told to
 * look. */
static void rearm_below(struct directory *directory)
{
	(void)watch_arm(directory);
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
	if (asprintf(&path, "%s/%s", directory->parent ? directory->path : "", name) < 0) {
		path = NULL;
		return NULL;
	}
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
	struct point *point = watch_point_find(watcher, event->wd);
	struct directory *top = map_get(&watcher->directories, "/");

	if (!top)
		return;
	if (event->mask & IN_Q_OVERFLOW)
		mark_stale(top);
	else if (!point)
		return;
	else if (event->mask & GONE_MASK)
		while ((point = watch_point_find(watcher, event->wd))) {
			mark_stale(point->first);
			watch_detach(point->first);
		}
	else
		for (struct directory *d = point->first; d; d = d->next)
			if (event->len > 0)
				on_entry(d, event->mask, event->name);
			else
				mark_stale(d);
	rearm_stale(watcher);
}

int watch_on_inotify(sd_event_source *source, int fd, uint32_t revents, void *userdata)
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
