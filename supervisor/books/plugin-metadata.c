/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which files containers of device plugins have mounted, and what these contain. All is
 * derived from the kubelet's checkpoint and the reports of children; only the generation, and the
 * attributes of devices that no child reports, are read from a file that is there already. A child
 * is not trusted: it reports attributes by the device's id, and names, paths and the form are made
 * here.
 */
#include "supervisor/books/plugin-metadata.h"

#include "common/control-child.h"
#include "common/json-read.h"
#include "common/log.h"
#include "common/map.h"
#include "common/offered-id.h"
#include "common/pace.h"
#include "common/sealed.h"
#include "dra/model/dra-names.h"
#include "dra/model/dra-slices.h"
#include "supervisor/books/dra-metadata-form.h"
#include "supervisor/books/dra-metadata.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/files/published-files.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"

/* As many as a claim can have. */
#define METADATA_DEVICES_MAX 128
/* The limits of the files of one resource: more sets of devices than a node has containers. */
#define METADATA_FILES_MAX 1024
#define METADATA_BYTES_MAX (16U << 20)
/* How much is written at a time: a child can change attributes at will. */
#define WRITE_BYTES_MAX (256U << 10)
#define WRITE_INTERVAL  (100 * USEC_PER_MSEC)
#define WRITE_RETRY     USEC_PER_SEC

struct metadata_file {
	char *resource, *driver, *path;
	struct strings ids; /* offered, sorted */
	json_t *devices;    /* {ID: attributes} of all files of the resource; null: not known */
	json_int_t generation;
	size_t size;       /* of the text; 0: it was not written */
	uint64_t asked_at; /* when a container was last about to get it, CLOCK_MONOTONIC */
	bool named;        /* by the checkpoint */
	bool booked;       /* named since it was asked for: no longer used once it is not */
	bool changed;      /* since the generation was written */
	bool unwritten;
	bool excess; /* not written, because it exceeds the limit of the resource */
};

struct plugin_metadata {
	struct manager *manager;
	struct metadata_file **files;
	size_t n_files;
	size_t next; /* the file with which writing begins, so that each has its turn */
	struct map by_path;
	json_t *resources; /* {NAME: the devices of its files} */
	struct pace writing;
	struct log_once logged, restore_logged;
	struct log_budget log_budget;
	uint64_t started_at;
	bool others_dropped;
};

static struct metadata_file *file_free(struct metadata_file *file)
{
	if (!file)
		return NULL;
	free(file->resource);
	free(file->driver);
	free(file->path);
	strings_done(&file->ids);
	json_decref(file->devices);
	free(file);
	return NULL;
}
DEFINE_CLEANUP(struct metadata_file *, file_free)

/* --- the content --- */

/* The name that the driver would have if DRA served the resource. */
static int name_driver(const struct plugin_metadata *metadata, const char *resource, char **ret)
{
	const struct child *child = manager_find_child(metadata->manager, resource);
	const struct declaration *declaration = child ? child_declaration(child) : NULL;
	const char *configured = declaration && declaration->dra.driver
		? declaration->dra.driver
		: metadata->manager->config->dra.driver;

	*ret = configured ? strdup(configured) : strndup(resource, strcspn(resource, "/"));
	return *ret ? 0 : -ENOMEM;
}

/* The device of an offered id; false: no device has such an id. */
static bool device_of(const char *offered, char ret[static DEVICE_ID_MAX + 1])
{
	size_t length = strcspn(offered, (const char[]){ REPLICA_SEPARATOR, '\0' });

	if (length > DEVICE_ID_MAX)
		return false;
	(void)snprintf(ret, DEVICE_ID_MAX + 1, "%.*s", (int)length, offered);
	return true;
}

static json_t *make_device(const struct metadata_file *file, const char *offered)
{
	const char *type = strchrnul(file->resource, '/');
	char name[DRA_DEVICE_NAME_MAX + 1], id[DEVICE_ID_MAX + 1];
	json_t *attributes = device_of(offered, id) ? json_object_get(file->devices, id) : NULL;

	dra_device_name(file->resource, offered, name);
	return json_pack("{s:s, s:s, s:s, s:O*}", "driver", file->driver, "pool",
		*type ? type + 1 : type, "name", name, "attributes",
		json_is_object(attributes) ? attributes : NULL);
}

static json_t *make_devices(const struct metadata_file *file)
{
	json_t *made = json_array();

	for (size_t i = 0; i < file->ids.count; i++)
		if (json_array_append_new(made, make_device(file, file->ids.items[i])) < 0) {
			json_decref(made);
			return NULL;
		}
	return made;
}

static char *make_text(const struct metadata_file *file)
{
	json_auto_t *object = json_pack("{s:s, s:s, s:{s:I}, s:[{s:s, s:o}]}", "apiVersion", "",
		"kind", "DeviceMetadata", "metadata", "generation", file->generation, "requests",
		"name", file->resource, "devices", make_devices(file));

	return dra_metadata_stream(object);
}

/* Whether a reported attribute of a device of the file is another one than before. */
static bool is_about(const struct metadata_file *file, const json_t *changed)
{
	char id[DEVICE_ID_MAX + 1];

	for (size_t i = 0; i < file->ids.count; i++)
		if (device_of(file->ids.items[i], id) && json_object_get(changed, id))
			return true;
	return false;
}

/* Notes the attributes of devices that containers have, of those that were reported. */
static int note_devices(
	struct plugin_metadata *metadata, const char *resource, const json_t *reported)
{
	json_t *devices = json_object_get(metadata->resources, resource), *attributes;
	json_auto_t *changed = json_object();
	const char *id;

	json_object_foreach((json_t *)(uintptr_t)reported, id, attributes)
	{
		json_t *before = json_object_get(devices, id);

		if (before && !json_equal(before, attributes) &&
			(json_object_set(devices, id, attributes) < 0 ||
				json_object_set(changed, id, attributes) < 0))
			return -ENOMEM;
	}
	for (size_t i = 0; i < metadata->n_files && json_object_size(changed) > 0; i++) {
		struct metadata_file *file = metadata->files[i];

		if (streq(file->resource, resource) && is_about(file, changed)) {
			file->changed = true;
			file->excess = false;
		}
	}
	return 0;
}

/* Takes attributes that no child has reported yet. */
static void load_devices(struct metadata_file *file, const json_t *devices)
{
	json_auto_t *found = json_object();
	const json_t *device;
	size_t i;

	json_array_foreach(devices, i, device)
	{
		json_t *attributes = json_object_get(device, "attributes");

		if (attributes)
			(void)json_object_set(found, text_of(device, "name"), attributes);
	}
	if (!dra_metadata_form_check(found, file->ids.count))
		return;
	for (size_t k = 0; k < file->ids.count; k++) {
		char name[DRA_DEVICE_NAME_MAX + 1], id[DEVICE_ID_MAX + 1];
		json_t *attributes;

		dra_device_name(file->resource, file->ids.items[k], name);
		attributes = json_object_get(found, name);
		if (attributes && device_of(file->ids.items[k], id) &&
			json_is_null(json_object_get(file->devices, id)))
			(void)json_object_set(file->devices, id, attributes);
	}
}

/* Continues with the file of a daemon before. What cannot be read is written again. */
static void load(struct metadata_file *file)
{
	_cleanup_free_ char *text = NULL, *expected = NULL;
	json_auto_t *object = NULL;
	json_error_t error;

	if (published_read(file->path, METADATA_BYTES_MAX, &text) < 0)
		return;
	object = json_loads(text, JSON_DISABLE_EOF_CHECK, &error);
	file->generation = json_integer_value(
		json_object_get(json_object_get(object, "metadata"), "generation"));
	if (file->generation < 1 || file->generation >= INT64_MAX)
		file->generation = 0;
	load_devices(file,
		json_object_get(json_array_get(json_object_get(object, "requests"), 0), "devices"));
	expected = make_text(file);
	file->changed = !expected || !streq(expected, text);
}

static size_t size_of(const struct plugin_metadata *metadata, const char *resource)
{
	size_t size = 0;

	for (size_t i = 0; i < metadata->n_files; i++)
		if (streq(metadata->files[i]->resource, resource))
			size += metadata->files[i]->size;
	return size;
}

/* A process can change attributes after its file was made. */
static int check_size(const struct plugin_metadata *metadata, struct metadata_file *file,
	size_t size, struct error *error)
{
	size += size_of(metadata, file->resource) - file->size;
	file->excess = size > METADATA_BYTES_MAX;
	return !file->excess
		? 0
		: error_set(error, -ENOSPC,
			  "the files with metadata of %s would have more than %u bytes; remove pods, or `metadata`",
			  file->resource, METADATA_BYTES_MAX);
}

/* `ret_size`: of the text, also if it cannot be written. */
static int write_file(struct plugin_metadata *metadata, struct metadata_file *file,
	size_t *ret_size, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	int r;

	if (file->changed || file->generation == 0)
		file->generation++;
	file->changed = false;
	file->unwritten = true;
	text = make_text(file);
	if (!text)
		return error_set(error, -ENOMEM, "out of memory");
	*ret_size = strlen(text);
	r = check_size(metadata, file, *ret_size, error);
	if (r >= 0)
		r = published_put_devices(
			metadata->manager->published, file->resource, file->path, text, error);
	if (r < 0)
		return r;
	file->unwritten = false;
	file->size = *ret_size;
	return 0;
}

/* --- writing --- */

static bool is_due(const struct metadata_file *file)
{
	return (file->changed || file->unwritten) && !file->excess;
}

uint64_t plugin_metadata_write(struct plugin_metadata *metadata, bool all)
{
	const struct log_fields fields = { 0 };
	struct error error = { 0 };
	bool failed = false, left = false;
	size_t n = 0, size = 0, first = metadata->next;

	while (n < metadata->n_files && !is_due(metadata->files[n]))
		n++;
	if (n == metadata->n_files)
		return USEC_INFINITY;
	if (!all && now_usec(CLOCK_MONOTONIC) < metadata->writing.not_before)
		return metadata->writing.not_before;
	pace_begin(&metadata->writing);
	for (size_t i = 0; i < metadata->n_files && !left; i++) {
		size_t at = (first + i) % metadata->n_files, written = 0;
		struct metadata_file *file = metadata->files[at];

		if (!is_due(file))
			continue;
		left = !all && size >= WRITE_BYTES_MAX;
		if (left)
			metadata->next = at;
		else if (write_file(metadata, file, &written, &error) < 0)
			failed = failed || !file->excess;
		size += written;
	}
	if (log_once_admits_within(&metadata->logged, &metadata->log_budget, &fields,
		    *error.message ? error.message : NULL))
		log_full(LOG_WARNING, &fields,
			"the metadata of containers cannot be written: %s; %s", error.message,
			failed ? "devplugd tries again every second" : "it stays as it was");
	(void)pace_end_of_writing(&metadata->writing, failed ? WRITE_RETRY : WRITE_INTERVAL);
	return failed || left ? metadata->writing.not_before : USEC_INFINITY;
}

/* --- the files --- */

static int check_number(
	const struct plugin_metadata *metadata, const char *resource, struct error *error)
{
	size_t n = 0;

	for (size_t i = 0; i < metadata->n_files; i++)
		n += streq(metadata->files[i]->resource, resource);
	return n < METADATA_FILES_MAX
		? 0
		: error_set(error, -ENOSPC,
			  "the containers of %s have %zu files with metadata, the maximum is %u; remove pods, or `metadata`",
			  resource, n, METADATA_FILES_MAX);
}

/* From here on, what is reported of the devices of the file is noted. */
static int add_devices(struct plugin_metadata *metadata, struct metadata_file *file)
{
	char id[DEVICE_ID_MAX + 1];

	if (!json_object_get(metadata->resources, file->resource) &&
		json_object_set_new(metadata->resources, file->resource, json_object()) < 0)
		return -ENOMEM;
	file->devices = json_incref(json_object_get(metadata->resources, file->resource));
	for (size_t i = 0; i < file->ids.count; i++)
		if (device_of(file->ids.items[i], id) && !json_object_get(file->devices, id) &&
			json_object_set_new(file->devices, id, json_null()) < 0)
			return -ENOMEM;
	return 0;
}

/* After files were dropped: forgets devices that no file has any more. Others may have room now. */
static void prune(struct plugin_metadata *metadata)
{
	json_auto_t *used = json_object();
	json_t *devices, *value;
	const char *resource, *id;
	void *next, *next_id;

	for (size_t i = 0; i < metadata->n_files; i++) {
		struct metadata_file *file = metadata->files[i];
		char unit[DEVICE_ID_MAX + 1];

		file->excess = false;
		if (!json_object_get(used, file->resource))
			(void)json_object_set_new(used, file->resource, json_object());
		for (size_t k = 0; k < file->ids.count; k++)
			if (device_of(file->ids.items[k], unit))
				(void)json_object_set_new(
					json_object_get(used, file->resource), unit, json_true());
	}
	json_object_foreach_safe(metadata->resources, next, resource, devices)
	{
		const json_t *kept = json_object_get(used, resource);

		json_object_foreach_safe(devices, next_id, id, value)
		{
			if (!json_object_get(kept, id))
				(void)json_object_del(devices, id);
		}
		if (!kept)
			(void)json_object_del(metadata->resources, resource);
	}
}

static int add_file(struct plugin_metadata *metadata, const char *resource, struct strings *ids,
	char **path, struct metadata_file **ret)
{
	_cleanup_(file_freep) struct metadata_file *file = calloc(1, sizeof(*file));
	int r;

	if (!file)
		return -ENOMEM;
	file->resource = strdup(resource);
	if (!file->resource || name_driver(metadata, resource, &file->driver) < 0)
		return -ENOMEM;
	file->path = TAKE_PTR(*path);
	file->ids = *ids;
	*ids = (struct strings){ 0 };
	r = add_devices(metadata, file);
	if (r >= 0)
		r = array_reserve((void **)&metadata->files, metadata->n_files, sizeof(file));
	if (r >= 0)
		r = map_put(&metadata->by_path, file->path, file);
	if (r < 0)
		return r;
	load(file);
	/* Also noted as ours, if its content stays. */
	file->unwritten = true;
	*ret = metadata->files[metadata->n_files++] = TAKE_PTR(file);
	return 0;
}

/* The file for these ids, which are sorted, and taken if it is a new one. */
static int obtain(struct plugin_metadata *metadata, const char *resource, struct strings *ids,
	struct metadata_file **ret, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	struct metadata_file *file;
	int r;

	if (published_devices_path(metadata->manager->published, resource, ids, &path) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	file = map_get(&metadata->by_path, path);
	if (file && (!streq(file->resource, resource) || !strings_equal(&file->ids, ids)))
		return error_set(error, -EEXIST, "%s is the file of other devices of %s", path,
			file->resource);
	if (!file) {
		r = check_number(metadata, resource, error);
		if (r >= 0 && add_file(metadata, resource, ids, &path, &file) < 0)
			r = error_set(error, -ENOMEM, "out of memory");
		if (r < 0)
			return r;
	}
	*ret = file;
	return 0;
}

static void drop(struct plugin_metadata *metadata, struct metadata_file *file)
{
	published_drop_devices(metadata->manager->published, file->path);
	(void)map_remove(&metadata->by_path, file->path);
	(void)file_free(file);
}

/* No container gets it. */
static void forget(struct plugin_metadata *metadata, struct metadata_file *file)
{
	size_t kept = 0;

	for (size_t i = 0; i < metadata->n_files; i++)
		if (metadata->files[i] != file)
			metadata->files[kept++] = metadata->files[i];
	metadata->n_files = kept;
	drop(metadata, file);
	prune(metadata);
}

/* --- what children send --- */

/* Reads an array of devices into their attributes by id, as a slice shows them. */
static int read_devices(
	const struct plugin_metadata *metadata, const struct child *child, int fd, json_t **ret)
{
	json_auto_t *document = NULL, *devices = json_object();
	const char *resource = child->resource->name;
	_cleanup_free_ char *driver = NULL;
	_cleanup_free_ char *text = NULL;
	json_error_t error;
	json_t *device;
	size_t size, i;
	int r = sealed_read(fd, ATTRIBUTES_BYTES_MAX, &text, &size);

	if (r < 0)
		return r == -ENOMEM ? r : -EBADMSG;
	if (name_driver(metadata, resource, &driver) < 0)
		return -ENOMEM;
	document = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
	if (!json_is_array(document) || json_array_size(document) > ATTRIBUTES_DEVICES_MAX)
		return -EBADMSG;
	json_array_foreach(document, i, device)
	{
		const char *id = text_of(device, "id");

		if (!*id || strlen(id) > DEVICE_ID_MAX)
			return -EBADMSG;
		if (json_object_set_new(
			    devices, id, dra_attributes_make(driver, resource, device)) < 0)
			return -ENOMEM;
	}
	*ret = TAKE_PTR(devices);
	return 0;
}

static int take_container(struct plugin_metadata *metadata, const struct child *child,
	struct strings *ids, const json_t *devices, FILE *paths, struct error *error)
{
	struct metadata_file *file;
	size_t size;
	int r;

	if (ids->count > METADATA_DEVICES_MAX)
		return error_set(error, -E2BIG,
			"a container can have at most %d devices of a resource with `metadata`",
			METADATA_DEVICES_MAX);
	strings_sort(ids);
	r = obtain(metadata, child->resource->name, ids, &file, error);
	if (r < 0)
		return r;
	file->asked_at = now_usec(CLOCK_MONOTONIC);
	file->booked = false;
	if (note_devices(metadata, file->resource, devices) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	(void)fprintf(paths, "%s\n", file->path);
	/* Changes of one that is there are written with all others. */
	r = file->unwritten ? write_file(metadata, file, &size, error) : 0;
	if (r < 0 && !file->named)
		forget(metadata, file);
	return r;
}

/* Takes the containers of a CHILD_USE one after the other. */
static int take_containers(struct plugin_metadata *metadata, const struct child *child, char *text,
	const json_t *devices, FILE *paths, struct error *error)
{
	_cleanup_strings_ struct strings ids = { 0 };
	char *line;
	int r = 0;

	while (r >= 0 && (line = strsep(&text, "\n"))) {
		if (strlen(line) > OFFERED_ID_MAX)
			return -EBADMSG;
		if (*line && strings_add(&ids, line, strlen(line)) < 0)
			return error_set(error, -ENOMEM, "out of memory");
		if (*line || ids.count == 0)
			continue;
		r = take_container(metadata, child, &ids, devices, paths, error);
		strings_done(&ids);
	}
	return r;
}

int plugin_metadata_take(struct plugin_metadata *metadata, const struct child *child,
	const struct control_message *message, int *ret_fd, struct error *error)
{
	_cleanup_free_ char *text = NULL, *paths = NULL;
	json_auto_t *devices = NULL;
	size_t size, n_paths;
	FILE *stream;
	int r;

	if (message->fds[1] < 0)
		return -EBADMSG;
	r = sealed_read(message->fds[0], ATTRIBUTES_BYTES_MAX, &text, &size);
	if (r >= 0)
		r = read_devices(metadata, child, message->fds[1], &devices);
	if (r < 0)
		return r == -ENOMEM ? error_set(error, r, "out of memory") : -EBADMSG;
	stream = open_memstream(&paths, &n_paths);
	if (!stream)
		return error_set(error, -ENOMEM, "out of memory");
	r = take_containers(metadata, child, text, devices, stream, error);
	if (fclose(stream) != 0 && r >= 0)
		r = error_set(error, -ENOMEM, "out of memory");
	if (r < 0)
		return r;
	r = sealed_new("metadata", paths, n_paths);
	if (r < 0)
		return error_set(error, r, "cannot make a memfd: %s", strerror(-r));
	*ret_fd = r;
	return 0;
}

int plugin_metadata_update(struct plugin_metadata *metadata, const struct child *child, int fd)
{
	json_auto_t *devices = NULL;
	int r = read_devices(metadata, child, fd, &devices);

	if (r >= 0)
		r = note_devices(metadata, child->resource->name, devices);
	(void)plugin_metadata_write(metadata, false);
	return r;
}

/* --- what the kubelet stores --- */

/* Adds the ids of a stored answer, sorted, each once: a device of several NUMA nodes has a row for
 * each. `at` is the first row. Returns the number of rows. */
static size_t collect_ids(
	const struct kubelet_checkpoint *checkpoint, size_t at, struct strings *ret)
{
	size_t n = 0, kept = 0;

	while (at + n < checkpoint->count &&
		checkpoint->rows[at + n].answer == checkpoint->rows[at].answer) {
		const char *id = checkpoint->rows[at + n++].id;

		(void)strings_add(ret, id, strlen(id));
	}
	strings_sort(ret);
	for (size_t i = 0; i < ret->count; i++)
		if (kept > 0 && streq(ret->items[kept - 1], ret->items[i]))
			free(ret->items[i]);
		else
			ret->items[kept++] = ret->items[i];
	ret->count = kept;
	return n;
}

/* Any plugin may have written the answer: only a path that devplugd makes for these ids counts. */
static void note_answer(struct plugin_metadata *metadata, const struct kubelet_checkpoint_row *row,
	struct strings *ids, struct error *error)
{
	struct metadata_file *file = map_get(&metadata->by_path, row->answer->metadata);
	_cleanup_free_ char *path = NULL;

	if (file && streq(file->resource, row->resource) && strings_equal(&file->ids, ids)) {
		file->named = true;
		return;
	}
	if (ids->count > METADATA_DEVICES_MAX)
		return;
	if (published_devices_path(metadata->manager->published, row->resource, ids, &path) < 0 ||
		!streq(path, row->answer->metadata) ||
		obtain(metadata, row->resource, ids, &file, error) < 0)
		return;
	file->named = true;
}

static void drop_unnamed(struct plugin_metadata *metadata, uint64_t written_at)
{
	size_t kept = 0;

	for (size_t i = 0; i < metadata->n_files; i++) {
		struct metadata_file *file = metadata->files[i];

		file->booked = file->booked || (file->named && written_at > file->asked_at);
		if (file->named || (!file->booked && written_at <= file->asked_at + BOOKING_DELAY))
			metadata->files[kept++] = file;
		else
			drop(metadata, file);
	}
	if (kept < metadata->n_files) {
		metadata->n_files = kept;
		prune(metadata);
	}
	if (metadata->others_dropped || written_at <= metadata->started_at + BOOKING_DELAY)
		return;
	/* They are mounted in containers, and count as used when they have been written. */
	for (size_t i = 0; i < metadata->n_files; i++)
		if (metadata->files[i]->unwritten)
			return;
	published_drop_other_devices(metadata->manager->published);
	metadata->others_dropped = true;
}

void plugin_metadata_follow(struct plugin_metadata *metadata,
	const struct kubelet_checkpoint *checkpoint, uint64_t written_at)
{
	struct error error = { 0 };
	size_t n = 0;

	if (!checkpoint)
		return;
	for (size_t i = 0; i < metadata->n_files; i++)
		metadata->files[i]->named = false;
	for (size_t at = 0; at < checkpoint->count; at += n) {
		_cleanup_strings_ struct strings ids = { 0 };
		const struct kubelet_checkpoint_row *row = &checkpoint->rows[at];

		n = 1;
		if (!row->answer->metadata)
			continue;
		n = collect_ids(checkpoint, at, &ids);
		note_answer(metadata, row, &ids, &error);
	}
	if (log_once_admits(&metadata->restore_logged, *error.message ? error.message : NULL))
		log_warning(
			"a container that starts again may lack its metadata: %s", error.message);
	drop_unnamed(metadata, written_at);
}

void plugin_metadata_write_again(struct plugin_metadata *metadata)
{
	for (size_t i = 0; i < metadata->n_files; i++)
		metadata->files[i]->unwritten = true;
}

/* --- --- */

int plugin_metadata_new(struct manager *manager, struct plugin_metadata **ret)
{
	_cleanup_(plugin_metadata_freep) struct plugin_metadata *metadata =
		calloc(1, sizeof(*metadata));

	if (!metadata)
		return -ENOMEM;
	metadata->manager = manager;
	metadata->started_at = now_usec(CLOCK_MONOTONIC);
	metadata->resources = json_object();
	if (!metadata->resources)
		return -ENOMEM;
	*ret = TAKE_PTR(metadata);
	return 0;
}

struct plugin_metadata *plugin_metadata_free(struct plugin_metadata *metadata)
{
	if (!metadata)
		return NULL;
	for (size_t i = 0; i < metadata->n_files; i++)
		(void)file_free(metadata->files[i]);
	free(metadata->files);
	map_done(&metadata->by_path);
	json_decref(metadata->resources);
	free(metadata);
	return NULL;
}
