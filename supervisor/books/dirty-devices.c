/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how it is saved which devices are dirty: in one file, which is written before a pod gets
 * a device and after it was cleaned, so that a kill at any time leaves a device dirty rather than
 * clean.
 */
#include "supervisor/books/dirty-devices.h"

#include <fcntl.h>
#include <jansson.h>

#include "common/boot-id.h"
#include "common/json-read.h"
#include "common/log.h"
#include "common/replace-file.h"
#include "common/utf8.h"
#include "supervisor/files/runtime-files.h"

#define FILE_NAME "dirty-devices.json"
#define VERSION   1

static struct dirty *dirty_free(struct dirty *dirty)
{
	if (!dirty)
		return NULL;
	strings_done(&dirty->users);
	strings_done(&dirty->seen);
	strings_done(&dirty->ended);
	strings_done(&dirty->preparing);
	free(dirty->failure);
	free(dirty->open);
	free(dirty->resource);
	free(dirty->id);
	free(dirty);
	return NULL;
}

struct dirty *dirty_devices_find(
	const struct dirty_devices *devices, const char *resource, const char *id)
{
	for (size_t i = 0; i < devices->count; i++)
		if (streq(devices->items[i]->id, id) &&
			streq(devices->items[i]->resource, resource))
			return devices->items[i];
	return NULL;
}

struct dirty *dirty_devices_find_running(const struct dirty_devices *devices, const char *id)
{
	for (size_t i = 0; i < devices->count; i++)
		if (devices->items[i]->number > 0 && streq(devices->items[i]->id, id))
			return devices->items[i];
	return NULL;
}

static bool is_free(const struct dirty *dirty)
{
	return !dirty->clean && dirty->due_at > 0 && dirty->number == 0 && dirty->taken_at == 0 &&
		dirty->preparing.count == 0;
}

bool dirty_devices_incomplete(const struct dirty_devices *devices, const char *resource)
{
	return devices->lost || strings_contain(&devices->incomplete, resource);
}

/* The device that is forgotten first, or NULL: a clean one of an incomplete list, or else the one
 * that has waited longest to be cleaned, because it may never return. */
static struct dirty *find_oldest(const struct dirty_devices *devices, const char *resource)
{
	bool incomplete = dirty_devices_incomplete(devices, resource);
	struct dirty *oldest = NULL;

	for (size_t i = 0; i < devices->count; i++) {
		struct dirty *dirty = devices->items[i];

		if (!streq(dirty->resource, resource))
			continue;
		if (incomplete && dirty->clean && dirty->number == 0)
			return dirty;
		if (is_free(dirty) && !dirty->failure &&
			(!oldest || dirty->due_at < oldest->due_at))
			oldest = dirty;
	}
	return oldest;
}

/* Makes room: such a device counts as dirty again, as does any that is not in the list. Returns 0,
 * -ENOSPC or -ENOMEM. */
static int forget_oldest(struct dirty_devices *devices, const char *resource)
{
	struct dirty *oldest = find_oldest(devices, resource);

	if (!oldest)
		return -ENOSPC;
	if (!dirty_devices_incomplete(devices, resource)) {
		if (strings_add(&devices->incomplete, resource, strlen(resource)) < 0)
			return -ENOMEM;
		log_notice(
			"%s: the list of dirty devices is full, so device %s, which has waited longest, was removed from it; from now on, each device that is not in the list is cleaned before its next pod",
			resource, oldest->id);
	}
	dirty_devices_remove(devices, oldest);
	return 0;
}

int dirty_devices_add(
	struct dirty_devices *devices, const char *resource, const char *id, struct dirty **ret)
{
	struct dirty *dirty = dirty_devices_find(devices, resource, id);
	size_t n = 0;
	int r = 0;

	if (dirty) {
		*ret = dirty;
		return 0;
	}
	/* One file has the devices of all resources. */
	if (!utf8_is_valid(id))
		return -EINVAL;
	for (size_t i = 0; i < devices->count; i++)
		n += streq(devices->items[i]->resource, resource);
	if (n >= DIRTY_DEVICES_MAX)
		r = forget_oldest(devices, resource);
	if (r < 0)
		return r;
	r = array_reserve((void **)&devices->items, devices->count, sizeof(devices->items[0]));
	dirty = r < 0 ? NULL : calloc(1, sizeof(*dirty));
	if (!dirty)
		return -ENOMEM;
	dirty->clean = !dirty_devices_incomplete(devices, resource);
	dirty->resource = strdup(resource);
	dirty->id = strdup(id);
	if (!dirty->resource || !dirty->id) {
		(void)dirty_free(dirty);
		return -ENOMEM;
	}
	*ret = devices->items[devices->count++] = dirty;
	return 0;
}

void dirty_devices_remove(struct dirty_devices *devices, struct dirty *dirty)
{
	for (size_t i = 0; i < devices->count; i++) {
		if (devices->items[i] != dirty)
			continue;
		devices->items[i] = devices->items[--devices->count];
		devices->unsaved = true;
		(void)dirty_free(dirty);
		return;
	}
}

void dirty_devices_remove_elsewhere(struct dirty_devices *devices, const struct dirty *dirty)
{
	for (size_t i = devices->count; i > 0; i--) {
		struct dirty *other = devices->items[i - 1];

		if (other != dirty && streq(other->id, dirty->id) && is_free(other))
			dirty_devices_remove(devices, other);
	}
}

/* --- the file --- */

static json_t *write_strings(const struct strings *strings)
{
	json_t *list = json_array();

	for (size_t i = 0; i < strings->count; i++)
		if (json_array_append_new(list, json_string(strings->items[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static json_t *describe_all(const struct dirty_devices *devices)
{
	json_auto_t *list = json_array();

	for (size_t i = 0; i < devices->count; i++) {
		const struct dirty *dirty = devices->items[i];

		if (json_array_append_new(list,
			    json_pack("{s:s, s:s, s:b, s:o, s:o, s:o, s:s*}", "resource",
				    dirty->resource, "id", dirty->id, "clean", (int)dirty->clean,
				    "users", write_strings(&dirty->users), "seen",
				    write_strings(&dirty->seen), "ended",
				    write_strings(&dirty->ended), "failure", dirty->failure)) < 0)
			return NULL;
	}
	return json_pack("{s:i, s:s, s:b, s:b, s:o, s:O}", "version", VERSION, "boot",
		boot_id() ?: "", "closed", (int)!devices->open, "lost", (int)devices->lost,
		"incomplete", write_strings(&devices->incomplete), "devices", list);
}

int dirty_devices_save(struct dirty_devices *devices)
{
	json_auto_t *root = NULL;
	_cleanup_free_ char *text = NULL;
	int r;

	if (!devices->unsaved)
		return 0;
	root = describe_all(devices);
	text = root ? json_dumps(root, JSON_COMPACT) : NULL;
	if (!text)
		return -ENOMEM;
	r = replace_file(AT_FDCWD, devices->path, 0600, text, strlen(text));
	devices->unsaved = r < 0;
	return r;
}

/* Where that is impossible, a crash of the host may go unnoticed. */
static void sync_file(const char *path)
{
	_cleanup_free_ char *folder = strndup(path, (size_t)(strrchr(path, '/') - path));
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int folder_fd =
		folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -EBADF;

	if (fd >= 0)
		(void)fsync(fd);
	if (folder_fd >= 0)
		(void)fsync(folder_fd);
}

static int write_synced(struct dirty_devices *devices, bool open)
{
	int r;

	if (devices->open == open)
		return 0;
	devices->open = open;
	devices->unsaved = true;
	r = dirty_devices_save(devices);
	if (r < 0)
		devices->open = !open;
	else
		sync_file(devices->path);
	return r;
}

int dirty_devices_open(struct dirty_devices *devices)
{
	return write_synced(devices, true);
}

int dirty_devices_close(struct dirty_devices *devices)
{
	return write_synced(devices, false);
}

static int read_strings(const json_t *json, const char *key, struct strings *ret)
{
	const json_t *item;
	size_t i;
	int r = 0;

	json_array_foreach(json_object_get(json, key), i, item)
	{
		const char *text = json_string_value(item);

		if (text && r >= 0)
			r = strings_add(ret, text, strlen(text));
	}
	return r;
}

/* Returns 0, -EBADMSG, -ENOSPC or -ENOMEM. */
static int read_device(struct dirty_devices *devices, const json_t *json)
{
	const char *resource = text_of(json, "resource"), *id = text_of(json, "id");
	const char *failure = json_string_value(json_object_get(json, "failure"));
	struct dirty *dirty;
	int r;

	if (!*resource || !*id || dirty_devices_find(devices, resource, id))
		return -EBADMSG;
	r = dirty_devices_add(devices, resource, id, &dirty);
	if (r < 0)
		return r;
	dirty->clean = json_is_true(json_object_get(json, "clean"));
	r = read_strings(json, "users", &dirty->users);
	if (r >= 0)
		r = read_strings(json, "ended", &dirty->ended);
	if (failure)
		dirty->failure = strdup(failure);
	return r < 0 || (failure && !dirty->failure) ? -ENOMEM : 0;
}

/* Returns 0, or negative errno if the file may not name all devices. */
static int read_all(struct dirty_devices *devices, const json_t *root)
{
	const json_t *list = json_object_get(root, "devices"), *json;
	const json_t *incomplete = json_object_get(root, "incomplete");
	int r = json_is_array(list) && (!incomplete || json_is_array(incomplete)) ? 0 : -EBADMSG;
	size_t i;

	if (r >= 0)
		r = read_strings(root, "incomplete", &devices->incomplete);
	json_array_foreach(list, i, json)
	{
		int one = read_device(devices, json);

		r = r == -ENOMEM || one >= 0 ? r : one;
	}
	if (r >= 0 && json_integer_value(json_object_get(root, "version")) != VERSION)
		r = -EBADMSG;
	return r;
}

int dirty_devices_load(struct dirty_devices *devices, const char *runtime_dir)
{
	json_auto_t *root = NULL;
	json_error_t problem;
	bool crashed;
	int r;

	if (runtime_files_state_path(runtime_dir, FILE_NAME, &devices->path) < 0)
		return -ENOMEM;
	root = json_load_file(devices->path, JSON_REJECT_DUPLICATES, &problem);
	if (!root && access(devices->path, F_OK) < 0 && errno == ENOENT)
		return 0;
	r = read_all(devices, root);
	if (r == -ENOMEM)
		return r;
	crashed = r >= 0 && !json_is_true(json_object_get(root, "closed")) &&
		!streq(text_of(root, "boot"), boot_id() ?: "");
	devices->lost = r < 0 || crashed || json_is_true(json_object_get(root, "lost"));
	devices->unsaved = r < 0 || crashed;
	/* A pod may have had a device since the file on the disk called it clean. */
	for (size_t i = 0; i < devices->count && devices->unsaved; i++)
		devices->items[i]->clean = false;
	if (crashed)
		log_warning(
			"%s may be older than the end of the host before the last boot; each device of a resource with `release` is cleaned before its next pod",
			devices->path);
	if (r < 0)
		log_error(
			"%s cannot be read: %s; each device of a resource with `release` is cleaned before its next pod",
			devices->path,
			root ? "it is not of this version, or incomplete" : problem.text);
	return 0;
}

void dirty_devices_done(struct dirty_devices *devices)
{
	for (size_t i = 0; i < devices->count; i++)
		(void)dirty_free(devices->items[i]);
	strings_done(&devices->incomplete);
	free(devices->items);
	free(devices->path);
	*devices = (struct dirty_devices){ 0 };
}
