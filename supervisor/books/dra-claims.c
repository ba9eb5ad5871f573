/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores the claims, and decides in which order their files are written: the claim's own file
 * before its CDI file, and removed before it. Whenever the daemon is killed, the next one finds the
 * claim of each CDI file, and writes what is missing. A claim is replaced in memory only when both
 * files are written.
 */
#include "supervisor/books/dra-claims.h"

#include <dirent.h>

#include "common/boot-id.h"
#include "common/json-read.h"
#include "common/log.h"
#include "common/pod-table.h"
#include "common/replace-file.h"
#include "dra/model/dra-names.h"
#include "drivers/host/sysroot.h"
#include "supervisor/books/dra-amounts.h"
#include "supervisor/books/dra-claim.h"
#include "supervisor/books/dra-metadata.h"
#include "supervisor/children/manager.h"
#include "supervisor/files/published-files.h"
#include "supervisor/files/runtime-files.h"

#define DIRECTORY "claims"
#define SUFFIX    ".json"
#define VERSION   1
/* The file of earlier versions, with all claims of this boot. */
#define FORMER_FILE      "dra-claims"
#define FORMER_BYTES_MAX (512L << 20)

struct claim {
	json_t *json;  /* see dra-claim.h */
	char *key;     /* its uid, or UID.DRIVER: no two claims have the same one */
	char *spec;    /* the CDI document; NULL: none */
	json_t *nodes; /* in it, see dra_claim_nodes() */
	size_t size;   /* of the claim's file */
	bool prepared;
	bool lacks_edits; /* no CDI document has some of its own CDI names */
	bool outdated;    /* the files have other metadata */
	bool unsaved;     /* that could not be written, and that was logged */
	bool stale;       /* the CDI file could not be changed as its devices were */
	bool unpublished; /* the CDI file could not be written, and that was logged */
	uint64_t position;
};

struct dra_claims {
	struct manager *manager;
	void (*on_change)(void *userdata);
	void *userdata;
	char *directory;
	size_t unread; /* files with claims that cannot be read now; an unread directory is one */
	bool told;     /* and that was logged */
	struct claim **items;
	size_t n_items;
	size_t size, reserved;
	uint64_t last_position;
	uint64_t revision;      /* from 1 on, see dra_claims_revision() */
	struct log_once logged; /* about metadata */
	struct log_budget log_budget;
};

static struct claim *claim_free(struct claim *claim)
{
	if (!claim)
		return NULL;
	json_decref(claim->json);
	json_decref(claim->nodes);
	free(claim->key);
	free(claim->spec);
	free(claim);
	return NULL;
}
DEFINE_CLEANUP(struct claim *, claim_free)

static struct claim **find(const struct dra_claims *claims, const char *driver, const char *uid)
{
	for (size_t i = 0; i < claims->n_items; i++)
		if (dra_claim_is(claims->items[i]->json, driver, uid))
			return &claims->items[i];
	return NULL;
}

static struct claim **find_same(const struct dra_claims *claims, const json_t *json)
{
	return find(claims, text_of(json, "driver"), text_of(json, "uid"));
}

static bool is_key(const struct dra_claims *claims, const char *key)
{
	for (size_t i = 0; i < claims->n_items; i++)
		if (streq(claims->items[i]->key, key))
			return true;
	return false;
}

/* The key of a new claim. */
static int make_key(const struct dra_claims *claims, const json_t *json, char **ret)
{
	const char *uid = text_of(json, "uid");

	return is_key(claims, uid) ? format_text(ret, "%s.%s", uid, text_of(json, "driver"))
				   : format_text(ret, "%s", uid);
}

static bool is_prepared(const struct claim *claim)
{
	return claim->prepared && !claim->lacks_edits;
}

/* --- the claim's file --- */

static int open_directory(const struct dra_claims *claims, struct error *error)
{
	_cleanup_free_ char *parent =
		strndup(claims->directory, strlen(claims->directory) - strlen("/" DIRECTORY));

	if (parent)
		(void)runtime_files_make_directory(parent);
	return runtime_files_open_private(AT_FDCWD, claims->directory, claims->directory, error);
}

static char *file_name(const char *key)
{
	char *name;

	return format_text(&name, "%s" SUFFIX, key) < 0 ? NULL : name;
}

static char *make_text(const struct claim *claim)
{
	json_auto_t *root = json_copy(claim->json);
	const char *boot = claim->prepared ? boot_id() : "";

	if (!root || !boot || json_object_set_new(root, "version", json_integer(VERSION)) < 0 ||
		json_object_set_new(root, "boot", json_string(boot)) < 0 ||
		(claim->spec &&
			json_object_set_new(root, "spec", json_loads(claim->spec, 0, NULL)) < 0))
		return NULL;
	return json_dumps(root, JSON_INDENT(2));
}

static int write_text(
	const struct dra_claims *claims, struct claim *claim, const char *text, struct error *error)
{
	_cleanup_free_ char *name = file_name(claim->key);
	_cleanup_close_ int directory_fd = open_directory(claims, error);
	int r;

	if (directory_fd < 0) {
		error_prefix(error, "cannot save the claim");
		return directory_fd;
	}
	r = name ? replace_file(directory_fd, name, 0600, text, strlen(text)) : -ENOMEM;
	if (r < 0)
		return error_set(error, r, "cannot save the claim in %s: %s", claims->directory,
			strerror(-r));
	claim->size = strlen(text);
	return 0;
}

static bool is_forgotten(const struct claim *claim)
{
	for (size_t i = 0; i < dra_claim_count(claim->json); i++)
		if (!dra_claim_is_forgotten(dra_claim_device(claim->json, i)))
			return false;
	return true;
}

static int save(const struct dra_claims *claims, struct claim *claim, struct error *error)
{
	_cleanup_free_ char *text = make_text(claim);

	return text ? write_text(claims, claim, text, error)
		    : error_set(error, -ENOMEM, "out of memory");
}

/* Saves a claim of the table. */
static int save_again(struct dra_claims *claims, struct claim *claim, struct error *error)
{
	size_t before = claim->size;
	int r = save(claims, claim, error);

	claims->size += claim->size - before;
	return r;
}

static int unlink_saved(const struct dra_claims *claims, const char *key)
{
	_cleanup_free_ char *name = file_name(key);
	_cleanup_close_ int directory_fd = open_directory(claims, &(struct error){ 0 });

	if (!name || directory_fd < 0)
		return name ? directory_fd : -ENOMEM;
	return unlinkat(directory_fd, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* --- the CDI file, and what containers read --- */

/* Adds the mounts of metadata. Returns 0 or -ENOMEM. */
static int add_mounts(const struct dra_claims *claims, const struct claim *claim,
	const struct published_metadata *metadata, size_t n_metadata, json_t *devices)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; n < n_metadata && r >= 0; i++) {
		char name[CDI_DEVICE_NAME_MAX + 1];
		_cleanup_free_ char *path = NULL;

		if (!dra_metadata_is_mounted(claim->json, i))
			continue;
		dra_claim_edits_name(claim->json, i, name);
		r = published_metadata_path(
			claims->manager->published, claim->key, metadata[n].request, &path);
		if (r >= 0)
			r = dra_metadata_mount(
				claim->json, metadata[n++].request, path, devices, name);
	}
	return r;
}

/* The claim's CDI document; NULL: no memory. */
static char *make_document(const struct dra_claims *claims, const struct claim *claim,
	const struct published_metadata *metadata, size_t n_metadata)
{
	json_auto_t *saved = claim->spec ? json_loads(claim->spec, 0, NULL) : NULL, *spec = NULL;
	json_auto_t *devices =
		claim->spec ? json_incref(json_object_get(saved, "devices")) : json_array();

	if (!devices || add_mounts(claims, claim, metadata, n_metadata, devices) < 0)
		return NULL;
	spec = dra_claim_make_spec(devices);
	return spec ? json_dumps(spec, JSON_INDENT(2)) : NULL;
}

static int put_with_metadata(const struct dra_claims *claims, const struct claim *claim,
	const struct published_metadata *metadata, size_t n_metadata, struct error *error)
{
	_cleanup_free_ char *text = make_document(claims, claim, metadata, n_metadata);

	if (!text)
		return error_set(error, -ENOMEM, "out of memory");
	return published_put_claim(
		claims->manager->published, claim->key, text, metadata, n_metadata, error);
}

static int put(const struct dra_claims *claims, struct claim *claim, struct error *error)
{
	struct published_metadata *metadata = NULL;
	size_t n_metadata = 0;
	int r;

	if (is_prepared(claim) && dra_metadata_make(claim->json, &metadata, &n_metadata) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	if (n_metadata > 0) {
		r = put_with_metadata(claims, claim, metadata, n_metadata, error);
		dra_metadata_done(metadata, n_metadata);
		return r;
	}
	dra_metadata_done(metadata, n_metadata);
	if (!is_prepared(claim) || !claim->spec) {
		published_drop_claim(claims->manager->published, claim->key);
		return 0;
	}
	return published_put_claim(
		claims->manager->published, claim->key, claim->spec, NULL, 0, error);
}

void dra_claims_publish(struct dra_claims *claims)
{
	for (size_t i = 0; i < claims->n_items; i++) {
		struct claim *claim = claims->items[i];
		struct error error = { 0 };
		bool before = claim->unpublished;

		claim->unpublished = put(claims, claim, &error) < 0;
		if (claim->unpublished && !before)
			log_error("cannot write the CDI file of the claim %s/%s: %s",
				text_of(claim->json, "namespace"), text_of(claim->json, "name"),
				error.message);
	}
}

/* Earlier versions had one driver. It is saved, because the next configuration may name another. */
static void adopt(struct dra_claims *claims)
{
	const char *driver = claims->manager->config->dra.driver;
	struct error error = { 0 };

	for (size_t i = 0; driver && i < claims->n_items; i++) {
		struct claim *claim = claims->items[i];

		if (json_object_get(claim->json, "driver") ||
			json_object_set_new(claim->json, "driver", json_string(driver)) < 0)
			continue;
		claims->revision++;
		if (save_again(claims, claim, &error) < 0)
			log_warning("%s; after a restart, the claim belongs to the driver that "
				    "dra.driver names then",
				error.message);
	}
}

void dra_claims_configure(struct dra_claims *claims)
{
	adopt(claims);
	dra_claims_publish(claims);
	if (claims->unread == 0)
		published_drop_other_claims(claims->manager->published);
}

/* --- the table --- */

size_t dra_claims_count(const struct dra_claims *claims)
{
	size_t n = 0;

	for (size_t i = 0; i < claims->n_items; i++)
		n += is_prepared(claims->items[i]);
	return n;
}

size_t dra_claims_total(const struct dra_claims *claims)
{
	return claims->n_items + claims->unread;
}

json_t *dra_claims_by_driver(const struct dra_claims *claims)
{
	json_t *counts = json_object();

	for (size_t i = 0; counts && i < claims->n_items; i++) {
		const char *driver = text_of(claims->items[i]->json, "driver");
		json_int_t n = json_integer_value(json_object_get(counts, driver)) +
			is_prepared(claims->items[i]);

		if (*driver)
			(void)json_object_set_new(counts, driver, json_integer(n));
	}
	return counts;
}

const json_t *dra_claims_get(const struct dra_claims *claims, const char *driver, const char *uid)
{
	struct claim **claim = find(claims, driver, uid);

	return claim ? (*claim)->json : NULL;
}

const json_t *dra_claims_find(struct dra_claims *claims, const char *driver, const char *uid)
{
	struct claim **claim = find(claims, driver, uid);

	if (!claim || !is_prepared(*claim))
		return NULL;
	for (size_t i = 0; i < dra_claim_count((*claim)->json); i++) {
		const json_t *device = dra_claim_device((*claim)->json, i);

		if (dra_claim_is_forgotten(device) || !json_object_get(device, "cdi"))
			return NULL;
	}
	return put(claims, *claim, &(struct error){ 0 }) >= 0 ? (*claim)->json : NULL;
}

const json_t *dra_claims_next(const struct dra_claims *claims, uint64_t *position)
{
	const struct claim *next = NULL;

	for (size_t i = 0; i < claims->n_items; i++) {
		const struct claim *claim = claims->items[i];

		if (claim->prepared && claim->position > *position &&
			(!next || claim->position < next->position))
			next = claim;
	}
	if (!next)
		return NULL;
	*position = next->position;
	return next->json;
}

static void add_devices(json_t *devices, const json_t *claim)
{
	for (size_t i = 0; i < dra_claim_count(claim); i++) {
		json_t *device = dra_claim_device(claim, i);
		const struct pod_claim as_listed = {
			.namespace = text_of(claim, "namespace"),
			.name = text_of(claim, "name"),
			.driver = text_of(claim, "driver"),
			.device = text_of(device, "name"),
		};
		_cleanup_free_ char *key = NULL;

		if (dra_claim_is_forgotten(device))
			continue;
		/* A claim may have a device for use and, by another request, for admin access. */
		key = pod_claim_key(&as_listed);
		if (key && !(dra_claim_is_admin(device) && json_object_get(devices, key)))
			(void)json_object_set(devices, key, device);
	}
}

json_t *dra_claims_devices(const struct dra_claims *claims)
{
	json_t *devices = json_object();

	for (size_t i = 0; devices && i < claims->n_items; i++)
		add_devices(devices, claims->items[i]->json);
	return devices;
}

static int add_held(json_t *held, const json_t *claim, const json_t *device)
{
	const char *name = text_of(device, "name");
	json_t *amounts = json_object_get(json_object_get(held, name), "amounts");

	if (amounts)
		return dra_claim_add_amounts(device, amounts);
	amounts = json_object_get(device, "amounts") ? json_object() : NULL;
	if (json_object_set_new(held, name,
		    json_pack("{s:s, s:O, s:O, s:o*, s:o*, s:o*}", "driver",
			    text_of(claim, "driver"), "resource",
			    json_object_get(device, "resource"), "id",
			    json_object_get(device, "id"), "amounts", amounts, "share",
			    *text_of(device, "share") ? json_true() : NULL, "part",
			    dra_pool_is_of_parts(text_of(device, "pool")) ? json_true() : NULL)) <
		0)
		return -ENOMEM;
	return amounts ? dra_claim_add_amounts(device, amounts) : 0;
}

json_t *dra_claims_held(const struct dra_claims *claims)
{
	json_auto_t *held = json_object();

	for (size_t i = 0; i < claims->n_items; i++) {
		const json_t *claim = claims->items[i]->json;

		for (size_t k = 0; k < dra_claim_count(claim); k++) {
			const json_t *device = dra_claim_device(claim, k);

			if (!dra_claim_is_forgotten(device) && !dra_claim_is_admin(device) &&
				add_held(held, claim, device) < 0)
				return NULL;
		}
	}
	return json_incref(held);
}

json_t *dra_claims_uids(const struct dra_claims *claims)
{
	json_auto_t *uids = json_object();

	for (size_t i = 0; i < claims->n_items; i++) {
		const char *uid = text_of(claims->items[i]->json, "uid");

		if (json_object_set_new(uids, uid, json_true()) < 0)
			return NULL;
	}
	return json_incref(uids);
}

uint64_t dra_claims_revision(const struct dra_claims *claims)
{
	return claims->revision;
}

const json_t *dra_claims_next_device(
	const struct dra_claims *claims, const char *resource, struct dra_claims_cursor *cursor)
{
	for (; cursor->claim < claims->n_items; cursor->claim++, cursor->device = 0) {
		const json_t *claim = claims->items[cursor->claim]->json;

		while (cursor->device < dra_claim_count(claim)) {
			const json_t *device = dra_claim_device(claim, cursor->device++);

			if (!dra_claim_is_forgotten(device) &&
				(!resource || streq(text_of(device, "resource"), resource))) {
				cursor->json = claim;
				return device;
			}
		}
	}
	return NULL;
}

json_t *dra_claims_of(const struct dra_claims *claims, const char *resource)
{
	struct dra_claims_cursor cursor = { 0 };
	json_auto_t *rows = json_array();
	const json_t *device;

	while ((device = dra_claims_next_device(claims, resource, &cursor))) {
		const json_t *claim = cursor.json;

		if (json_array_append_new(rows,
			    json_pack("{s:O, s:O, s:O, s:O, s:O, s:O, s:s, s:O, s:O*, s:O*}", "id",
				    json_object_get(device, "id"), "namespace",
				    json_object_get(claim, "namespace"), "name",
				    json_object_get(claim, "name"), "uid",
				    json_object_get(claim, "uid"), "resource",
				    json_object_get(device, "resource"), "admin",
				    json_object_get(device, "admin"), "driver",
				    text_of(claim, "driver"), "device",
				    json_object_get(device, "name"), "share",
				    json_object_get(device, "share"), "amounts",
				    json_object_get(device, "amounts"))) < 0)
			return NULL;
	}
	return json_incref(rows);
}

int dra_claims_add_answers(
	const struct dra_claims *claims, const char *resource, struct bookings *bookings)
{
	int r = 0;

	for (size_t i = 0; i < claims->n_items && r >= 0; i++)
		if (claims->items[i]->prepared)
			r = dra_claim_add_answers(claims->items[i]->json, claims->items[i]->nodes,
				resource, !claims->items[i]->stale, bookings);
	return r;
}

/* The other claims: those that are known, and those that are being prepared. A new reference; NULL:
 * no memory. */
static json_t *collect_others(
	const struct dra_claims *claims, const json_t *claim, const json_t *preparing)
{
	json_auto_t *others = json_array();
	json_t *other;
	size_t k;

	for (size_t i = 0; i < claims->n_items; i++)
		if (!dra_claim_is(claims->items[i]->json, text_of(claim, "driver"),
			    text_of(claim, "uid")) &&
			json_array_append(others, claims->items[i]->json) < 0)
			return NULL;
	json_array_foreach(preparing, k, other)
	{
		if (!dra_claim_is(other, text_of(claim, "driver"), text_of(claim, "uid")) &&
			json_array_append(others, other) < 0)
			return NULL;
	}
	return json_incref(others);
}

static int set_unread(const struct dra_claims *claims, struct error *error)
{
	return error_set(error, -EAGAIN,
		"claims that were prepared earlier cannot be read in %s now; devplugd tries again "
		"every second",
		claims->directory);
}

int dra_claims_check(const struct dra_claims *claims, const json_t *claim, const json_t *preparing,
	struct error *error)
{
	json_auto_t *others = collect_others(claims, claim, preparing);
	const json_t *other;
	size_t i;

	if (!others)
		return error_set(error, -ENOMEM, "out of memory");
	if (claims->unread > 0)
		return set_unread(claims, error);
	json_array_foreach(others, i, other)
	{
		const json_t *device = dra_claim_shared_device(claim, other);

		if (device && !find_same(claims, other))
			return error_set(error, -EBUSY,
				"device %s of %s is being prepared for the claim %s/%s",
				text_of(device, "id"), text_of(device, "resource"),
				text_of(other, "namespace"), text_of(other, "name"));
		if (device)
			return error_set(error, -EBUSY,
				"device %s of %s is still prepared for the claim %s/%s; it "
				"is free when the pods of that claim have ended, or after "
				"\"devplugctl forget\"",
				text_of(device, "id"), text_of(device, "resource"),
				text_of(other, "namespace"), text_of(other, "name"));
	}
	return dra_amounts_check(claim, others, error);
}

/* --- changes --- */

static int check_room(const struct dra_claims *claims, size_t size, struct error *error)
{
	if (claims->size + claims->reserved + size <= DRA_CLAIMS_BYTES_MAX)
		return 0;
	return error_set(error, -ENOSPC,
		"the claims on this node would take more than %u MiB in %s; delete other pods with "
		"claims",
		DRA_CLAIMS_BYTES_MAX >> 20, claims->directory);
}

int dra_claims_reserve(struct dra_claims *claims, size_t size, struct error *error)
{
	int r = check_room(claims, size, error);

	if (r >= 0)
		claims->reserved += size;
	return r;
}

void dra_claims_give_back(struct dra_claims *claims, size_t size)
{
	claims->reserved -= size;
}

static bool has_own_name(const json_t *device)
{
	const json_t *names = json_object_get(device, "cdi");

	for (size_t i = 0; i < json_array_size(names); i++)
		if (startswith(json_string_value(json_array_get(names, i)), DRA_CDI_KIND "="))
			return true;
	return false;
}

static bool has_edits(const json_t *devices, const char *name)
{
	for (size_t i = 0; i < json_array_size(devices); i++)
		if (streq(text_of(json_array_get(devices, i), "name"), name))
			return true;
	return false;
}

/* A group whose edits contain nothing but the mount of metadata has no edits among the devices. If
 * its edits could not be kept, it has no hash of them. */
static bool lacks_edits(const json_t *json, const json_t *devices)
{
	for (size_t i = 0; i < dra_claim_count(json); i++) {
		const json_t *device = dra_claim_device(json, i);
		char name[CDI_DEVICE_NAME_MAX + 1];

		if (!has_own_name(device))
			continue;
		dra_claim_edits_name(json, i, name);
		if (!has_edits(devices, name) &&
			!(dra_metadata_is_mounted(json, i) && json_object_get(device, "edits")))
			return true;
	}
	return false;
}

/* `devices` of its CDI document; NULL: it has none. Takes the key, unless it fails. */
static int make_claim(json_t *json, char *key, json_t *devices, bool prepared, struct claim **ret)
{
	_cleanup_(claim_freep) struct claim *claim = calloc(1, sizeof(*claim));
	json_auto_t *spec = json_array_size(devices) > 0 ? dra_claim_make_spec(devices) : NULL;

	if (!claim)
		return -ENOMEM;
	claim->json = json_incref(json);
	claim->prepared = prepared;
	claim->lacks_edits = lacks_edits(json, devices);
	if (json_array_size(devices) > 0) {
		claim->spec = spec ? json_dumps(spec, JSON_INDENT(2)) : NULL;
		claim->nodes = dra_claim_nodes(devices);
		if (!claim->spec || !claim->nodes)
			return -ENOMEM;
	}
	claim->key = key;
	*ret = TAKE_PTR(claim);
	return 0;
}

/* Takes the claim, in the place of an old one. */
static int keep(struct dra_claims *claims, struct claim **old, struct claim *claim)
{
	if (old) {
		claim->position = (*old)->position;
		claims->size -= (*old)->size;
		(void)claim_free(*old);
		*old = claim;
	} else {
		if (array_reserve(
			    (void **)&claims->items, claims->n_items, sizeof(*claims->items)) < 0)
			return -ENOMEM;
		claim->position = ++claims->last_position;
		claims->items[claims->n_items++] = claim;
	}
	claims->size += claim->size;
	claims->revision++;
	return 0;
}

static void restore_old(const struct dra_claims *claims, struct claim *old, const char *key)
{
	struct error error = { 0 };

	if (!old) {
		published_drop_claim(claims->manager->published, key);
		(void)unlink_saved(claims, key);
		return;
	}
	old->unpublished = put(claims, old, &error) < 0;
	(void)save(claims, old, &error);
	if (old->unpublished)
		manager_changed(claims->manager);
}

/* A kubelet adds the CDI names of an answer to those that it has of the claim. */
static int check_names(const struct claim *old, const json_t *json, struct error *error)
{
	if (!old || !dra_claim_has_same_devices(old->json, json) ||
		dra_claim_has_same_names(old->json, json))
		return 0;
	return error_set(error, -ESTALE,
		"the configuration gives containers other CDI devices than when the claim was "
		"prepared first, and a kubelet does not replace those; delete the pods of the "
		"claim, so that it is prepared as a new one");
}

static int check_size(
	const struct dra_claims *claims, size_t size, size_t before, struct error *error)
{
	if (size > DRA_CLAIM_BYTES_MAX)
		return error_set(error, -E2BIG,
			"what containers get takes more than %u MiB; give the claim fewer devices",
			DRA_CLAIM_BYTES_MAX >> 20);
	return check_room(claims, size - MIN_OF(size, before), error);
}

static int replace(struct dra_claims *claims, json_t *json, json_t *devices, struct error *error)
{
	struct claim **old = find_same(claims, json);
	_cleanup_(claim_freep) struct claim *claim = NULL;
	_cleanup_free_ char *text = NULL, *key = NULL;
	int r;

	r = check_names(old ? *old : NULL, json, error);
	if (r < 0)
		return r;
	r = old ? format_text(&key, "%s", (*old)->key) : make_key(claims, json, &key);
	if (r < 0 || make_claim(json, key, devices, true, &claim) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	(void)TAKE_PTR(key);
	text = make_text(claim);
	if (!text)
		return error_set(error, -ENOMEM, "out of memory");
	r = check_size(claims, strlen(text), old ? (*old)->size : 0, error);
	if (r < 0)
		return r;
	r = write_text(claims, claim, text, error);
	if (r >= 0)
		r = put(claims, claim, error);
	if (r >= 0 && keep(claims, old, claim) < 0)
		r = error_set(error, -ENOMEM, "out of memory");
	if (r < 0)
		restore_old(claims, old ? *old : NULL, claim->key);
	else
		(void)TAKE_PTR(claim);
	return r;
}

int dra_claims_add(
	struct dra_claims *claims, json_t *claim, json_t *spec_devices, struct error *error)
{
	return replace(claims, claim, spec_devices, error);
}

/* The devices of the claim's CDI document without the one of that name, a new reference; NULL: no
 * memory. */
static json_t *devices_without(const struct claim *claim, const char *name)
{
	json_auto_t *spec = claim->spec ? json_loads(claim->spec, 0, NULL) : NULL;
	json_t *devices = spec || !claim->spec ? json_array() : NULL, *device;
	size_t i;

	json_array_foreach(json_object_get(spec, "devices"), i, device)
	{
		if (!streq(text_of(device, "name"), name))
			(void)json_array_append(devices, device);
	}
	return devices;
}

int dra_claims_set_edits(struct dra_claims *claims, const json_t *asked, size_t at, json_t *names,
	json_t *edits, const char *hash, struct error *error)
{
	struct claim **claim = find_same(claims, asked);
	json_auto_t *json = NULL, *devices = NULL;
	char name[CDI_DEVICE_NAME_MAX + 1];
	json_t *device;
	int r;

	if (!claim || !(*claim)->prepared || !dra_claim_has_same_devices((*claim)->json, asked))
		return error_set(error, -ENOENT, "the claim is not prepared any more");
	json = json_deep_copy((*claim)->json);
	dra_claim_edits_name((*claim)->json, at, name);
	devices = devices_without(*claim, name);
	device = dra_claim_device(json, at);
	if (!device || !devices || json_object_set(device, "cdi", names) < 0 ||
		json_object_set_new(device, "edits", json_string(hash)) < 0 ||
		(edits &&
			json_array_append_new(devices,
				json_pack("{s:s, s:O}", "name", name, "containerEdits", edits)) <
				0))
		return error_set(error, -ENOMEM, "out of memory");
	r = replace(claims, json, devices, error);
	/* Otherwise, another claim is in its place. */
	if (r < 0)
		(*claim)->stale = true;
	return r == -ENOENT ? -EIO : r;
}

int dra_claims_remove(
	struct dra_claims *claims, const char *driver, const char *uid, struct error *error)
{
	struct claim **claim = find(claims, driver, uid);
	int r;

	if (!claim)
		return claims->unread > 0 ? set_unread(claims, error) : 0;
	r = unlink_saved(claims, (*claim)->key);
	if (r < 0)
		return error_set(error, r, "cannot remove the claim from %s: %s", claims->directory,
			strerror(-r));
	published_drop_claim(claims->manager->published, (*claim)->key);
	claims->size -= (*claim)->size;
	(void)claim_free(*claim);
	*claim = claims->items[--claims->n_items];
	claims->revision++;
	claims->on_change(claims->userdata);
	return 0;
}

int dra_claims_forget(struct dra_claims *claims, const char *driver, const char *uid,
	const char *resource, const char *id, struct error *error)
{
	struct claim **claim = find(claims, driver, uid);
	int r = 0;

	for (size_t i = 0; claim && i < dra_claim_count((*claim)->json); i++) {
		json_t *device = dra_claim_device((*claim)->json, i);

		if (streq(text_of(device, "resource"), resource) &&
			streq(text_of(device, "id"), id) &&
			json_object_set_new(device, "forgotten", json_true()) < 0)
			r = -ENOMEM;
	}
	if (!claim || r < 0)
		return claim ? error_set(error, r, "out of memory")
			     : error_set(error, -ENOENT, "the claim is not known any more");
	if (is_forgotten(*claim))
		return dra_claims_remove(claims, driver, uid, error);
	claims->revision++;
	return save_again(claims, *claim, error);
}

bool dra_claims_set_attributes(struct dra_claims *claims, const char *driver, const json_t *devices)
{
	bool any = false;

	for (size_t i = 0; i < claims->n_items; i++) {
		struct claim *claim = claims->items[i];

		if (streq(text_of(claim->json, "driver"), driver) &&
			dra_metadata_set(claim->json, devices))
			any = claim->outdated = true;
	}
	return any;
}

/* The generation is saved before a container can read it, so that it is not used twice. What is too
 * large is not tried again. */
static int save_metadata(struct dra_claims *claims, struct claim *claim, struct error *error)
{
	_cleanup_free_ char *text = make_text(claim);
	size_t before = claim->size;
	int r;

	claim->unsaved = true;
	if (!text)
		return error_set(error, -ENOMEM, "out of memory");
	r = check_size(claims, strlen(text), before, error);
	if (r < 0) {
		claim->unsaved = false;
		return r;
	}
	r = write_text(claims, claim, text, error);
	claims->size += claim->size - before;
	if (r >= 0)
		r = put(claims, claim, error);
	claim->unsaved = r < 0;
	return r;
}

static void write_metadata(struct dra_claims *claims, struct claim *claim)
{
	const struct log_fields fields = { 0 };
	struct error error = { 0 };

	claim->outdated = false;
	(void)save_metadata(claims, claim, &error);
	if (claim->unsaved)
		manager_changed(claims->manager);
	if (log_once_admits_within(&claims->logged, &claims->log_budget, &fields,
		    *error.message ? error.message : NULL))
		log_warning("cannot update the metadata of the claim %s/%s: %s",
			text_of(claim->json, "namespace"), text_of(claim->json, "name"),
			error.message);
}

bool dra_claims_write_metadata(struct dra_claims *claims, size_t maximum)
{
	for (size_t i = 0; i < claims->n_items; i++) {
		if (!claims->items[i]->outdated)
			continue;
		if (maximum-- == 0)
			return true;
		write_metadata(claims, claims->items[i]);
	}
	return false;
}

const char *dra_claims_directory(const struct dra_claims *claims)
{
	return claims->directory;
}

int dra_claims_restore(struct dra_claims *claims, struct error *error)
{
	_cleanup_close_ int directory_fd = -EBADF;
	int restored = 0, r = 0;

	if (claims->n_items == 0)
		return 0;
	directory_fd = open_directory(claims, error);
	if (directory_fd < 0)
		return directory_fd;
	for (size_t i = 0; i < claims->n_items && r >= 0; i++) {
		_cleanup_free_ char *name = file_name(claims->items[i]->key);

		if (!name || faccessat(directory_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) >= 0)
			continue;
		r = save(claims, claims->items[i], error);
		restored += r >= 0;
	}
	return r < 0 ? r : restored;
}

/* --- what a daemon before has saved --- */

/* Whether a claim may have that key. */
static bool fits_key(const json_t *json, const char *key)
{
	const char *rest = startswith(key, text_of(json, "uid"));

	return rest && (!*rest || (*rest == '.' && streq(rest + 1, text_of(json, "driver"))));
}

/* Returns 0, or -EBADMSG if the claim is malformed. */
static int take_saved(
	struct dra_claims *claims, json_t *saved, const char *key, bool prepared, size_t size)
{
	json_auto_t *json = dra_claim_read_saved(saved), *spec = NULL;
	_cleanup_free_ char *own_key = strdup(key);
	struct error error = { 0 };
	struct claim *claim;
	int r;

	if (!json || !own_key || !fits_key(json, key))
		return -EBADMSG;
	if (prepared &&
		dra_claim_read_spec(json, json_object_get(saved, "spec"), claims->manager->config,
			&spec, &error) < 0) {
		log_warning("the CDI file of the claim %s/%s is removed, because its saved "
			    "container edits are not permitted: %s. They are built again by the "
			    "processes of its resources",
			text_of(json, "namespace"), text_of(json, "name"), error.message);
		for (size_t i = 0; i < dra_claim_count(json); i++)
			(void)json_object_del(dra_claim_device(json, i), "edits");
	}
	r = make_claim(json, own_key, json_object_get(spec, "devices"), prepared, &claim);
	if (r < 0)
		return r;
	(void)TAKE_PTR(own_key);
	claim->size = size;
	r = keep(claims, find_same(claims, json), claim);
	if (r < 0)
		(void)claim_free(claim);
	return r;
}

static void log_dropped(const json_t *saved, const char *key)
{
	log_warning("the saved claim %s/%s (UID %s) cannot be read, and is dropped: its CDI file "
		    "is removed, and its devices are free. Delete the pods of the claim, so that "
		    "it is prepared again",
		text_of(saved, "namespace"), text_of(saved, "name"), key);
}

static int read_file(
	int directory_fd, const char *name, off_t maximum, size_t *ret_size, json_t **ret)
{
	_cleanup_close_ int fd = runtime_files_open_file(directory_fd, name);
	_cleanup_free_ char *text = NULL;
	json_error_t problem;
	struct stat st;
	json_t *loaded;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fd < 0 ? fd : -errno;
	if (st.st_size > maximum)
		return -EFBIG;
	r = read_exactly(fd, (size_t)st.st_size, &text);
	if (r < 0)
		return r;
	loaded = json_loadb(text, (size_t)st.st_size, JSON_REJECT_DUPLICATES, &problem);
	if (!loaded)
		return json_error_code(&problem) == json_error_out_of_memory ? -ENOMEM : -EBADMSG;
	*ret_size = (size_t)st.st_size;
	*ret = loaded;
	return 0;
}

/* Whether nothing is known about the file, so that it has to stay. */
static bool is_unread(int r)
{
	return sysroot_is_shortage(r) || r == -EIO || r == -EACCES;
}

static void note_unread(struct dra_claims *claims, const char *name, const char *reason)
{
	claims->unread++;
	if (!claims->told)
		log_error("cannot read claims that were prepared: %s%s%s: %s; no claim is prepared "
			  "or unprepared until they are read. devplugd tries again every second",
			claims->directory, *name ? "/" : "", name, reason);
	claims->told = true;
}

static void load_file(struct dra_claims *claims, int directory_fd, const char *name)
{
	_cleanup_free_ char *key = strndup(name, strlen(name) - strlen(SUFFIX));
	const char *boot = boot_id();
	json_auto_t *saved = NULL;
	size_t size = 0;
	int r = key && boot ? 0 : -ENOMEM;

	if (r >= 0 && is_key(claims, key))
		return;
	if (r >= 0)
		r = read_file(directory_fd, name, 2 * DRA_CLAIM_BYTES_MAX, &size, &saved);
	if (r >= 0 && json_integer_value(json_object_get(saved, "version")) != VERSION)
		r = -EBADMSG;
	if (r >= 0)
		r = take_saved(claims, saved, key, streq(text_of(saved, "boot"), boot), size);
	if (is_unread(r)) {
		note_unread(claims, name, strerror(-r));
	} else if (r < 0) {
		log_dropped(saved, key);
		(void)runtime_files_remove_any(directory_fd, name);
	}
}

static DIR *open_saved(struct dra_claims *claims)
{
	_cleanup_free_ char *remedy = NULL;
	struct error error = { 0 };
	DIR *stream = NULL;
	int fd;

	if (access(claims->directory, F_OK) < 0 && errno == ENOENT)
		return NULL;
	fd = open_directory(claims, &error);
	stream = fd >= 0 ? fdopendir(fd) : NULL;
	if (stream)
		return stream;
	/* The package's devplugd has a user of its own, and a container may lack
	 * CAP_DAC_OVERRIDE. */
	if (fd == -EACCES)
		(void)format_text(&remedy, "%s: run \"chown -R %u: %.*s\"", error.message,
			geteuid(), (int)(strlen(claims->directory) - strlen("/" DIRECTORY)),
			claims->directory);
	note_unread(claims, "", remedy ?: fd < 0 ? error.message : strerror(errno));
	(void)close_fd(fd);
	return NULL;
}

static const struct dirent *read_next(struct dra_claims *claims, DIR *stream)
{
	const struct dirent *entry;

	errno = 0;
	entry = readdir(stream);
	if (!entry && errno != 0)
		note_unread(claims, "", strerror(errno));
	return entry;
}

static void load(struct dra_claims *claims)
{
	DIR *stream = open_saved(claims);
	const struct dirent *entry;

	while (stream && (entry = read_next(claims, stream))) {
		const char *dot = strrchr(entry->d_name, '.');

		if (startswith(entry->d_name, REPLACE_FILE_PREFIX))
			(void)unlinkat(dirfd(stream), entry->d_name, 0);
		else if (dot && entry->d_name[0] != '.' && streq(dot, SUFFIX))
			load_file(claims, dirfd(stream), entry->d_name);
	}
	if (stream)
		(void)closedir(stream);
}

static int convert_claim(
	struct dra_claims *claims, const char *uid, json_t *saved, struct error *error)
{
	if (is_key(claims, uid))
		return 0;
	if (take_saved(claims, saved, uid, true, 0) < 0) {
		log_dropped(saved, uid);
		return 0;
	}
	return save_again(claims, claims->items[claims->n_items - 1], error);
}

/* Makes a file of each claim in the file of earlier versions, and removes that. */
static void convert(struct dra_claims *claims)
{
	struct runtime_files *files = claims->manager->files;
	int directory_fd = runtime_files_directory(files), r = 0;
	struct error error = { 0 };
	json_auto_t *root = NULL;
	const char *uid;
	json_t *saved;
	size_t size;

	if (faccessat(directory_fd, FORMER_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	r = read_file(directory_fd, FORMER_FILE, FORMER_BYTES_MAX, &size, &root);
	if (is_unread(r)) {
		note_unread(claims, FORMER_FILE, strerror(-r));
		return;
	}
	r = 0;
	if (!json_is_object(json_object_get(root, "claims")))
		log_warning("the claims that an earlier version has saved cannot be read; the "
			    "kubelet has to prepare them again");
	json_object_foreach(json_object_get(root, "claims"), uid, saved)
	{
		if (r >= 0)
			r = convert_claim(claims, uid, saved, &error);
	}
	if (r < 0)
		log_error("%s; the claims that an earlier version has saved are read again at the "
			  "next start",
			error.message);
	else
		runtime_files_remove(files, FORMER_FILE);
}

/* Reads what could not be read earlier. */
static void read_again(struct dra_claims *claims)
{
	size_t n_items = claims->n_items, unread = claims->unread;

	claims->unread = 0;
	load(claims);
	convert(claims);
	if (claims->unread > 0 && claims->n_items == n_items && claims->unread == unread)
		return;
	claims->told = claims->unread > 0;
	if (!claims->told)
		log_notice("all claims that were prepared are read now");
	dra_claims_configure(claims);
	claims->on_change(claims->userdata);
}

bool dra_claims_write_left(struct dra_claims *claims)
{
	size_t left = 0;

	if (claims && claims->unread > 0) {
		read_again(claims);
		left = claims->unread;
	}
	for (size_t i = 0; claims && i < claims->n_items; i++) {
		struct claim *claim = claims->items[i];
		struct error error = { 0 };

		if (claim->unsaved)
			(void)save_metadata(claims, claim, &error);
		claim->unpublished = claim->unpublished && put(claims, claim, &error) < 0;
		left += claim->unsaved || claim->unpublished;
	}
	return left == 0;
}

int dra_claims_new(struct manager *manager, void (*on_change)(void *userdata), void *userdata,
	struct dra_claims **ret)
{
	_cleanup_(dra_claims_freep) struct dra_claims *claims = calloc(1, sizeof(*claims));

	if (!claims)
		return -ENOMEM;
	claims->manager = manager;
	claims->on_change = on_change;
	claims->userdata = userdata;
	claims->revision = 1;
	if (runtime_files_state_path(manager->config->runtime_dir, DIRECTORY, &claims->directory) <
		0)
		return -ENOMEM;
	load(claims);
	convert(claims);
	*ret = TAKE_PTR(claims);
	return 0;
}

struct dra_claims *dra_claims_free(struct dra_claims *claims)
{
	if (!claims)
		return NULL;
	for (size_t i = 0; i < claims->n_items; i++)
		(void)claim_free(claims->items[i]);
	free(claims->items);
	free(claims->directory);
	free(claims);
	return NULL;
}
