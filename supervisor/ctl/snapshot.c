/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files may be missing, half of another version, or garbage; a reader must show what can be shown.
 * So nothing is passed on as it was found: each member is copied with the type it must have.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "common/text.h"
#include "config/config.h"
#include "ctl/snapshot.h"
#include "state.h"

#define FILE_SIZE_MAX (128 << 20)

const char *snapshot_string(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key)) ?: "";
}

json_int_t snapshot_integer(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* Puts the devices of a document in the place of those that have their ids. */
static void take_devices(json_t *devices, const json_t *changed, json_t *places)
{
	size_t i;
	json_t *device;

	if (json_object_size(places) == 0)
		json_array_foreach(devices, i, device)(void) json_object_set_new(
			places, snapshot_string(device, "id"), json_integer((json_int_t)i));
	json_array_foreach(changed, i, device)
	{
		const json_t *place = json_object_get(places, snapshot_string(device, "id"));

		if (place)
			(void)json_array_set(devices, (size_t)json_integer_value(place), device);
	}
}

/* Adds what has changed since: documents behind the first one, of which the last may be about to be
 * written. */
static void take_changes(json_t *document, FILE *stream)
{
	json_auto_t *devices = json_incref(json_object_get(document, "devices"));
	json_auto_t *places = json_object();
	json_t *change;

	while ((change = json_loadf(stream, JSON_DISABLE_EOF_CHECK, NULL))) {
		take_devices(devices, json_object_get(change, "devices"), places);
		(void)json_object_update(document, change);
		json_decref(change);
	}
	if (devices)
		(void)json_object_set(document, "devices", devices);
}

/* The document in a file, or NULL with errno set; -EBADMSG if it is no JSON. */
static json_t *load_file(int directory_fd, const char *name)
{
	_cleanup_fclose_ FILE *stream = NULL;
	struct stat st;
	json_t *document;
	int fd;

	/* Non-blocking, in case it is a FIFO. */
	fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	stream = fdopen(fd, "re");
	if (!stream) {
		close_fd(fd);
		return NULL;
	}
	if (fstat(fd, &st) < 0)
		return NULL;
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_SIZE_MAX) {
		errno = EBADMSG;
		return NULL;
	}
	document = json_loadf(stream, JSON_DISABLE_EOF_CHECK, NULL);
	if (document)
		take_changes(document, stream);
	else
		errno = EBADMSG;
	return document;
}

static bool lock_is_held(int directory_fd)
{
	_cleanup_close_ int fd = -EBADF;
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };

	fd = openat(directory_fd, STATE_LOCK_FILE, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static json_t *clean_text(const char *found)
{
	_cleanup_free_ char *text = strdup(found);

	if (!text)
		return NULL;
	text_sanitize(text);
	return json_string(text);
}

static json_t *clean_string(const json_t *object, const char *key)
{
	return clean_text(snapshot_string(object, key));
}

static json_t *clean_numa(const json_t *device)
{
	const json_t *nodes = json_object_get(device, "numa");
	json_t *clean = json_array();

	for (size_t i = 0; i < json_array_size(nodes); i++)
		if (json_is_integer(json_array_get(nodes, i)))
			(void)json_array_append(clean, json_array_get(nodes, i));
	return clean;
}

static json_t *clean_device(const json_t *device)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I}", "id", clean_string(device, "id"),
		"health", clean_string(device, "health"), "reason", clean_string(device, "reason"),
		"since", clean_string(device, "since"), "numa", clean_numa(device), "allocations",
		snapshot_integer(device, "allocations"));
}

/* The file named by the daemon, if it is one in the place where such files are. */
static json_t *load_devices(int directory_fd, const json_t *resource)
{
	const char *name = snapshot_string(resource, "devices_file");
	const char *rest = startswith(name, STATE_DEVICES_DIR "/");

	if (!rest || *rest == '\0' || *rest == '.' || strchr(rest, '/'))
		return NULL;
	return load_file(directory_fd, name);
}

static json_t *clean_devices(const json_t *document)
{
	const json_t *devices = json_object_get(document, "devices");
	json_t *clean = json_array();

	for (size_t i = 0; i < json_array_size(devices); i++)
		if (json_is_object(json_array_get(devices, i)))
			(void)json_array_append_new(
				clean, clean_device(json_array_get(devices, i)));
	return clean;
}

static json_t *clean_strings(const json_t *object, const char *key)
{
	const json_t *strings = json_object_get(object, key);
	json_t *clean = json_array();

	for (size_t i = 0; i < json_array_size(strings); i++)
		if (json_is_string(json_array_get(strings, i)))
			(void)json_array_append_new(
				clean, clean_text(json_string_value(json_array_get(strings, i))));
	return clean;
}

static json_t *clean_resource(int directory_fd, const json_t *resource)
{
	json_t *document = load_devices(directory_fd, resource), *result;

	result = json_pack(
		"{s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:b, s:I, s:I, s:o, s:o, s:o, s:b, s:o, s:I, "
		"s:o, s:o, s:o}",
		"name", clean_string(resource, "name"), "driver", clean_string(resource, "driver"),
		"state", clean_string(resource, "state"), "reason",
		clean_string(resource, "reason"), "pid", snapshot_integer(resource, "pid"),
		"session", snapshot_integer(resource, "session"), "restarts",
		snapshot_integer(resource, "restarts"), "registered",
		(int)json_is_true(json_object_get(resource, "registered")), "devices_total",
		snapshot_integer(resource, "devices_total"), "devices_healthy",
		snapshot_integer(resource, "devices_healthy"), "since",
		clean_string(resource, "since"), "next_try", clean_string(resource, "next_try"),
		"registration", clean_string(resource, "registration"), "refused",
		(int)json_is_true(json_object_get(resource, "refused")), "note",
		clean_string(resource, "note"), "allocations",
		snapshot_integer(document, "allocations"), "last_allocation",
		clean_string(document, "last_allocation"), "devices", clean_devices(document),
		"scan_notes", clean_strings(document, "scan_notes"));
	json_decref(document);
	return result;
}

static int join(struct snapshot *snapshot, int directory_fd, const json_t *state)
{
	const json_t *found = json_object_get(state, "resources");
	json_t *resources = json_array();

	for (size_t i = 0; i < json_array_size(found); i++)
		if (json_is_object(json_array_get(found, i)))
			(void)json_array_append_new(
				resources, clean_resource(directory_fd, json_array_get(found, i)));
	snapshot->root = json_pack("{s:I, s:I, s:o, s:b, s:I, s:b, s:b, s:o}", "generation",
		snapshot_integer(state, "generation"), "pid", snapshot_integer(state, "pid"),
		"config_file", clean_string(state, "config_file"), "running",
		(int)snapshot->running, "reloads", snapshot_integer(state, "reloads"),
		"reload_failed", (int)json_is_true(json_object_get(state, "reload_failed")),
		"on_last_accepted", (int)json_is_true(json_object_get(state, "on_last_accepted")),
		"resources", resources);
	return snapshot->root ? 0 : -ENOMEM;
}

int snapshot_read(
	const char *config_file, const char *runtime_dir, struct snapshot *ret, struct error *error)
{
	_cleanup_(snapshot_done) struct snapshot snapshot = { 0 };
	_cleanup_close_ int directory_fd = -EBADF;
	json_t *state = NULL;
	int r;

	if (runtime_dir)
		snapshot.runtime_dir = strdup(runtime_dir);
	else if (config_find_runtime_dir(
			 config_file ?: DEFAULT_CONFIG_FILE, &snapshot.runtime_dir) < 0)
		snapshot.runtime_dir = NULL;
	if (!snapshot.runtime_dir)
		return error_set(error, -ENOMEM, "out of memory");
	runtime_dir = snapshot.runtime_dir;
	directory_fd = open(runtime_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (directory_fd < 0 && errno != ENOENT)
		return error_set(error, -errno, "cannot open %s: %s", runtime_dir, strerror(errno));
	if (directory_fd >= 0) {
		snapshot.running = lock_is_held(directory_fd);
		state = load_file(directory_fd, STATE_FILE);
		if (!state && errno != ENOENT)
			return error_set(error, -errno, "cannot read %s/%s: %s", runtime_dir,
				STATE_FILE,
				errno == EBADMSG ? "it is not a state file" : strerror(errno));
		snapshot.known = state != NULL;
	}
	r = join(&snapshot, directory_fd, state);
	json_decref(state);
	if (r < 0)
		return error_set(error, r, "out of memory");
	*ret = snapshot;
	snapshot = (struct snapshot){ 0 };
	return 0;
}

int snapshot_select(struct snapshot *snapshot, const char *resource, struct error *error)
{
	json_t *resources = json_object_get(snapshot->root, "resources");
	size_t i = 0;

	while (i < json_array_size(resources)) {
		if (streq(snapshot_string(json_array_get(resources, i), "name"), resource))
			i++;
		else
			(void)json_array_remove(resources, i);
	}
	if (i == 0)
		return error_set(error, -ENOENT,
			"devplugd has no resource \"%s\"; see \"devplugctl status\"", resource);
	return 0;
}

void snapshot_done(struct snapshot *snapshot)
{
	json_decref(snapshot->root);
	free(snapshot->runtime_dir);
}
