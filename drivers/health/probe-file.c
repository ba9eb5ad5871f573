/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a health file is read and what its content means. Files of one directory share one
 * watch; an event is passed to the checks of that file by name. Reading is delayed for a moment
 * while a file is being written. Every file is also read at intervals, but rarely if inotify
 * reports all its changes. A health file is untrusted: it may be huge, a FIFO, or contain terminal
 * sequences.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "common/text.h"
#include "drivers/health/probe-check.h"
#include "drivers/host/sysroot.h"

#define CONTENT_MAX 4096
/* How long a writer may take. Until then, its file is not read, or an empty file is not trusted. */
#define SETTLING_DELAY (50 * USEC_PER_MSEC)
/* How often a file is read that cannot be watched. */
#define POLL_INTERVAL (5 * USEC_PER_SEC)
/* Every file is read at least this often: inotify does not report writes through mmap() or another
 * hard link. */
#define REST_INTERVAL (60 * USEC_PER_SEC)
/* How many files are read before other events are handled. */
#define FILES_AT_ONCE 256

struct file_directory {
	struct health *health;
	char *path;
	struct watch *watch; /* NULL: could not be had */
	bool local;          /* its file system reports every change to inotify */
	struct map files;    /* name to the first struct check of it */
	size_t n_checks, n_links;
};

static struct file_directory *directory_free(struct file_directory *directory)
{
	(void)map_remove(&directory->health->directories, directory->path);
	(void)watch_free(directory->watch);
	map_done(&directory->files);
	free(directory->path);
	free(directory);
	return NULL;
}

/* Schedules a read for when the writer should have finished. */
static void settle(struct check *check)
{
	struct health *health = check->unit->health;

	check_move(check, &health->settling, now_usec(CLOCK_MONOTONIC) + SETTLING_DELAY);
	(void)sd_event_source_set_time(health->settling_timer, health->settling.first->due);
	(void)sd_event_source_set_enabled(health->settling_timer, SD_EVENT_ONESHOT);
}

static void mark(struct check *check, enum watch_change change)
{
	struct health *health = check->unit->health;

	if (check->list == &health->urgent)
		return;
	if (change != WATCH_WRITING) {
		check_move(check, &health->urgent, 0);
		(void)sd_event_source_set_enabled(health->urgent_source, SD_EVENT_ONESHOT);
		/* Usually the writer has finished before the loop receives the event. */
		if (!health->settling.first)
			(void)sd_event_source_set_enabled(health->settling_timer, SD_EVENT_OFF);
	} else if (check->list != &health->settling) {
		settle(check);
	}
}

static void on_directory_change(enum watch_change change, const char *name, void *userdata)
{
	struct file_directory *directory = userdata;
	struct check *check = name ? map_get(&directory->files, name) : NULL;

	for (struct check *c = check; c; c = c->next_same)
		mark(c, change);
	if (check || (name && directory->n_links == 0))
		return;
	/* Checks all files, or only symbolic links that may lead through the changed name. */
	for (size_t i = 0; i < directory->files.capacity; i++)
		for (struct check *c = directory->files.slots[i].value; c; c = c->next_same)
			if (!name || c->is_link)
				mark(c, change);
}

/* On other file systems, inotify misses changes: by the kernel itself (sysfs, proc), by another
 * host, or below an overlay. */
static bool is_local(const char *root, const char *path)
{
	static const unsigned long types[] = { TMPFS_MAGIC, RAMFS_MAGIC, EXT4_SUPER_MAGIC,
		XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC };
	_cleanup_close_ int fd = sysroot_open(root, path, O_PATH | O_DIRECTORY);
	struct statfs found;

	if (fd < 0 || fstatfs(fd, &found) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if ((unsigned long)found.f_type == types[i])
			return true;
	return false;
}

static void directory_watch(struct file_directory *directory)
{
	struct health *health = directory->health;

	if (directory->watch ||
		watch_add(health->watcher, directory->path, WATCH_CONTENT, on_directory_change,
			directory, &directory->watch) < 0)
		return;
	directory->local = is_local(health->root, directory->path);
}

static int directory_get(struct health *health, const char *path, struct file_directory **ret)
{
	struct file_directory *directory = map_get(&health->directories, path);
	int r;

	if (!directory) {
		directory = calloc(1, sizeof(*directory));
		if (!directory)
			return -ENOMEM;
		directory->health = health;
		directory->path = strdup(path);
		r = directory->path ? map_put(&health->directories, directory->path, directory)
				    : -ENOMEM;
		if (r < 0) {
			free(directory->path);
			free(directory);
			return r;
		}
		directory_watch(directory);
	}
	*ret = directory;
	return 0;
}

static void set_link(struct check *check)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;
	bool is_link;

	fd = sysroot_open(check->unit->health->root, check->path, O_PATH | O_NOFOLLOW);
	is_link = fd >= 0 && fstat(fd, &st) >= 0 && S_ISLNK(st.st_mode);
	check->directory->n_links += (size_t)is_link;
	check->directory->n_links -= (size_t)check->is_link;
	check->is_link = is_link;
}

static bool is_young(const char *root, const char *path)
{
	uint64_t now = now_usec(CLOCK_REALTIME), changed;
	struct stat st;

	if (sysroot_stat(root, path, &st) < 0)
		return false;
	changed = (uint64_t)st.st_mtim.tv_sec * USEC_PER_SEC + (uint64_t)st.st_mtim.tv_nsec / 1000;
	return changed <= now && now - changed < SETTLING_DELAY;
}

/* Returns an enum probe_outcome, with the reason unless it is healthy, or -EAGAIN if the file is
 * empty and so young that it is about to be written. */
static int read_health(const struct declared_probe *probe, const char *root, const char *path,
	char ret_reason[static REASON_MAX])
{
	char content[CONTENT_MAX + 1];
	const char *text, *near;
	ssize_t r;

	r = sysroot_read(root, path, content, sizeof(content));
	if (r < 0 && sysroot_is_absent((int)r)) {
		(void)snprintf(ret_reason, REASON_MAX, "%s is missing", path);
		return probe->missing ? PROBE_HEALTHY : PROBE_NOT_RUN;
	}
	if (r < 0) {
		(void)snprintf(ret_reason, REASON_MAX, "%s cannot be read: %s", path,
			r == -EINVAL ? "it is not a regular file" : strerror((int)-r));
		return PROBE_NOT_RUN;
	}
	for (ssize_t i = 0; i < r; i++)
		if (content[i] == '\0')
			content[i] = ' ';
	text = text_trim(content);
	if (probe_find_healthy(probe, text, strcmp))
		return PROBE_HEALTHY;
	if (!*text && is_young(root, path))
		return -EAGAIN;
	near = probe_find_healthy(probe, text, strcasecmp);
	if (near)
		(void)snprintf(
			ret_reason, REASON_MAX, "%s contains \"%s\", not \"%s\"", path, text, near);
	else if (*text)
		reason_copy(text, ret_reason);
	else
		(void)snprintf(ret_reason, REASON_MAX, "%s is empty", path);
	return *text ? PROBE_UNHEALTHY : PROBE_NOT_RUN;
}

/* Whether the file need not be polled until there is an event. */
static bool may_rest(const struct check *check)
{
	return check->directory->watch && check->directory->local && !check->is_link &&
		check->result.known && check->result.streak == 0;
}

static void read_file(struct check *check)
{
	struct health *health = check->unit->health;
	uint64_t interval = check->queue->probe->interval;
	char reason[REASON_MAX];
	int r;

	directory_watch(check->directory);
	set_link(check);
	r = read_health(check->queue->probe, health->root, check->path, reason);
	if (r == -EAGAIN) {
		settle(check);
		return;
	}
	check_result(check, (enum probe_outcome)r, reason);
	if (may_rest(check))
		check_rest(check, MAX_OF(interval, REST_INTERVAL));
	else
		check_wait(check,
			check->directory->watch ? interval : MIN_OF(interval, POLL_INTERVAL));
}

/* Identifies the file and adds the check to the watch of its directory. */
static int join(struct check *check, struct error *error)
{
	_cleanup_free_ char *path = NULL, *directory_path = NULL;
	struct file_directory *directory;
	struct check *first;
	char *slash;
	int r;

	r = check_expand(check, check->queue->probe->path, &path, error);
	if (r < 0)
		return r;
	if (path[0] != '/' || strstr(path, "/../") || streq(strrchr(path, '/'), "/..") ||
		streq(strrchr(path, '/'), "/"))
		return error_set(error, -EINVAL, "\"%s\" is not the path of a file", path);
	directory_path = strdup(path);
	if (!directory_path)
		return error_set(error, -ENOMEM, "out of memory");
	slash = strrchr(directory_path, '/');
	*slash = '\0';
	r = directory_get(
		check->unit->health, slash > directory_path ? directory_path : "/", &directory);
	if (r < 0)
		return error_set(error, r, "out of memory");
	check->name = strrchr(path, '/') + 1;
	first = map_remove(&directory->files, check->name);
	r = map_put(&directory->files, check->name, check);
	if (r < 0) {
		if (directory->n_checks == 0)
			(void)directory_free(directory);
		return error_set(error, r, "out of memory");
	}
	check->next_same = first;
	if (first)
		first->previous_same = check;
	check->directory = directory;
	check->path = TAKE_PTR(path);
	directory->n_checks++;
	return 0;
}

static void file_run(struct check *check)
{
	struct health *health = check->unit->health;
	struct error error;

	health_read_begin(health);
	if (!check->directory && join(check, &error) < 0) {
		check_wait(check, check->queue->probe->interval);
		check_result(check, PROBE_NOT_RUN, error.message);
	} else {
		read_file(check);
	}
	health_read_end(health);
}

static int on_urgent(sd_event_source *source, void *userdata)
{
	struct health *health = userdata;

	for (size_t i = 0; i < FILES_AT_ONCE && health->urgent.first; i++) {
		if (!health_may_read(health))
			break;
		file_run(health->urgent.first);
	}
	if (health->urgent.first)
		return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

static int on_settled(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct health *health = userdata;
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	for (size_t i = 0; i < FILES_AT_ONCE && health_may_read(health); i++) {
		if (!health->settling.first || health->settling.first->due > now)
			break;
		file_run(health->settling.first);
	}
	if (!health->settling.first)
		return 0;
	(void)sd_event_source_set_time(source, health->settling.first->due);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static int prepare_sources(struct health *health)
{
	int r;

	if (!health->urgent_source) {
		r = sd_event_add_defer(health->event, &health->urgent_source, on_urgent, health);
		if (r < 0)
			return r;
		r = sd_event_source_set_enabled(health->urgent_source, SD_EVENT_OFF);
		if (r < 0)
			return r;
	}
	if (!health->settling_timer) {
		r = sd_event_add_time(health->event, &health->settling_timer, CLOCK_MONOTONIC, 0, 1,
			on_settled, health);
		if (r < 0)
			return r;
		return sd_event_source_set_enabled(health->settling_timer, SD_EVENT_OFF);
	}
	return 0;
}

static int file_attach(struct check *check)
{
	struct health *health = check->unit->health;
	int r;

	r = prepare_sources(health);
	if (r < 0)
		return r;
	if (health_may_read(health)) {
		file_run(check);
		return 0;
	}
	check_move(check, &health->urgent, 0);
	return sd_event_source_set_enabled(health->urgent_source, SD_EVENT_ONESHOT);
}

static void file_detach(struct check *check)
{
	struct file_directory *directory = check->directory;
	struct check *next = check->next_same, *previous = check->previous_same;

	if (!directory)
		return;
	if (next)
		next->previous_same = previous;
	if (previous) {
		previous->next_same = next;
	} else {
		/* The map's key is this check's name, because it was the first. */
		(void)map_remove(&directory->files, check->name);
		if (next)
			(void)map_put(&directory->files, next->name, next);
	}

	directory->n_links -= (size_t)check->is_link;
	if (--directory->n_checks == 0)
		(void)directory_free(directory);
	free(check->path);
	check->path = NULL;
	check->name = NULL;
	check->directory = NULL;
	check->next_same = NULL;
	check->previous_same = NULL;
	check->is_link = false;
}

static void file_on_due(struct check_queue *queue, uint64_t now)
{
	for (size_t i = 0; i < FILES_AT_ONCE && health_may_read(queue->health); i++) {
		struct check *check = queue->waiting.first;

		if (!check || check->due > now)
			check = queue->resting.first;
		if (!check || check->due > now)
			break;
		file_run(check);
	}
}

void file_checks_done(struct health *health)
{
	assert(health->directories.count == 0);
	map_done(&health->directories);
	(void)sd_event_source_disable_unref(health->urgent_source);
	(void)sd_event_source_disable_unref(health->settling_timer);
}

const struct check_type file_check_type = {
	.attach = file_attach,
	.detach = file_detach,
	.on_due = file_on_due,
};
