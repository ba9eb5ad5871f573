/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A watched path is a chain of directories from the root on, each of which watches for the next
 * one: so a path may appear, vanish and be replaced at any level, and nothing is missed.
 */
#include "drivers/watch-tree.h"

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
	r = sd_event_add_io(
		watcher->event, &watcher->source, fd, EPOLLIN, watch_on_inotify, watcher);
	if (r < 0)
		return r;
	watcher->fd = TAKE_FD(fd);
	return 0;
}

/* Frees the directory and those above it that nothing else is below of. */
static void directory_release(struct directory *directory)
{
	while (directory && !directory->watches && !directory->first_child) {
		struct directory *parent = directory->parent;

		watch_detach(directory);
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
	return watch_arm(directory);
}

/* Finds or makes the chain of directories of an absolute path. On failure what was made is in
 * `ret` too. */
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

	/* Also one that is armed: it may be wanted for more now, or have been replaced a moment
	 * ago. */
	r = watch_arm(directory);
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
