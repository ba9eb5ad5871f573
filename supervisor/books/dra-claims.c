/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores the prepared DRA claims, and decides in which order files are written: the CDI file before
 * the claim is saved, and removed after it. Whenever the daemon is killed, a file without a claim
 * may be left, which the next start removes, but never a claim without its file.
 */
#include "supervisor/books/dra-claims.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/json-read.h"
#include "common/log.h"
#include "drivers/allocation/cdi.h"
#include "drivers/inventory/inventory.h"
#include "drivers/model/form.h"
#include "supervisor/children/manager.h"
#include "supervisor/files/publication-form.h"
#include "supervisor/files/publication-policy.h"
#include "supervisor/files/published.h"
#include "supervisor/files/runtime-files.h"

#define CLAIMS_FILE     "dra-claims"
#define CLAIMS_VERSION  1
#define RESOURCE_LENGTH 317 /* a DNS subdomain, "/", and a label */
/* CDI names in an answer to CHILD_EDIT. A saved device may also contain the name of its claim's
 * file. */
#define NAMES_MAX 64

struct dra_claims {
	struct manager *manager;
	json_t *by_uid;
	char *directory; /* of CDI files; NULL: none is known yet */
	bool incomplete; /* a file of a claim could not be written */
};

/* --- what is well-formed --- */

static bool is_word(const json_t *object, const char *key, size_t maximum)
{
	return dra_name_is_valid(text_of(object, key), maximum);
}

static bool is_device(const json_t *device)
{
	const char *id = text_of(device, "id"), *resource = text_of(device, "resource");

	return is_word(device, "request", DRA_OBJECT_NAME_MAX) &&
		is_word(device, "name", DRA_OBJECT_NAME_MAX) && *text_of(device, "pool") &&
		strlen(text_of(device, "pool")) <= DRA_OBJECT_NAME_MAX && *resource &&
		strlen(resource) <= RESOURCE_LENGTH && *id && strlen(id) <= OFFERED_ID_MAX &&
		!strpbrk(id, "\n\r");
}

static int check_names(const json_t *names, size_t maximum, struct error *error)
{
	if (!json_is_array(names))
		return error_set(error, -EBADMSG, "\"cdi\" is missing");
	if (json_array_size(names) > maximum)
		return error_set(error, -EBADMSG, "\"cdi\" names too many devices");
	for (size_t i = 0; i < json_array_size(names); i++) {
		const char *name = json_string_value(json_array_get(names, i));

		if (!name || form_cdi_name(name, error) < 0)
			return error_set(
				error, -EBADMSG, "\"cdi\" contains a name that is not valid");
	}
	return 0;
}

int dra_claims_check_names(const json_t *names, struct error *error)
{
	return check_names(names, NAMES_MAX, error);
}

/* With "!" at the end of the format, a member that the format does not name is an error. */
#define DEVICE_FORMAT "s:s, s:s, s:s, s:s, s:s, s:b"
#define CLAIM_FORMAT  "s:s, s:s, s:s, s?o"

/* A new reference, or NULL if the device is malformed. Members that the format does not name are
 * left out of a saved device, and refused in a received one. */
static json_t *read_device(json_t *device, bool saved)
{
	const char *request, *pool, *name, *resource, *id;
	json_t *names = NULL, *made;
	int admin, forgotten = 0;

	if (json_unpack(device, saved ? "{" DEVICE_FORMAT ", s?o, s?b}" : "{" DEVICE_FORMAT "!}",
		    "request", &request, "pool", &pool, "name", &name, "resource", &resource, "id",
		    &id, "admin", &admin, "cdi", &names, "forgotten", &forgotten) < 0 ||
		!is_device(device) || (names && check_names(names, NAMES_MAX + 1, NULL) < 0))
		return NULL;
	made = json_pack("{s:s, s:s, s:s, s:s, s:s, s:b}", "request", request, "pool", pool, "name",
		name, "resource", resource, "id", id, "admin", admin);
	if (made && names)
		(void)json_object_set(made, "cdi", names);
	if (made && forgotten)
		(void)json_object_set_new(made, "forgotten", json_true());
	return made;
}

static json_t *read_claim(json_t *claim, bool saved)
{
	const char *uid, *namespace, *name;
	json_t *devices = NULL, *spec = NULL, *device;
	json_auto_t *made = NULL, *list = json_array();
	size_t i;

	if (json_unpack(claim, saved ? "{" CLAIM_FORMAT ", s?o}" : "{" CLAIM_FORMAT "!}", "uid",
		    &uid, "namespace", &namespace, "name", &name, "devices", &devices, "spec",
		    &spec) < 0 ||
		!is_word(claim, "uid", DRA_CLAIM_ID_MAX) || strchr(uid, '.') ||
		!is_word(claim, "namespace", DRA_OBJECT_NAME_MAX) ||
		!is_word(claim, "name", DRA_OBJECT_NAME_MAX) ||
		(devices && !json_is_array(devices)) || json_array_size(devices) > DRA_DEVICES_MAX)
		return NULL;
	json_array_foreach(devices, i, device)
	{
		if (json_array_append_new(list, read_device(device, saved)) < 0)
			return NULL;
	}
	made = json_pack("{s:s, s:s, s:s}", "uid", uid, "namespace", namespace, "name", name);
	if (made && devices)
		(void)json_object_set(made, "devices", list);
	if (made && spec)
		(void)json_object_set(made, "spec", spec);
	return json_incref(made);
}

json_t *dra_claims_read(json_t *sent)
{
	return read_claim(sent, false);
}

/* --- edits --- */

int dra_claims_check_edits(
	const struct declaration *declaration, const char *name, json_t *edits, struct error *error)
{
	json_auto_t *spec = json_pack("{s:s, s:s, s:[{s:s, s:O}]}", "cdiVersion", "0.3.0", "kind",
		DRA_CDI_KIND, "devices", "name", name, "containerEdits", edits);
	int r;

	if (!spec)
		return error_set(error, -ENOMEM, "out of memory");
	(void)json_object_set_new(spec, "cdiVersion", json_string(cdi_version(spec)));
	r = publication_check_cdi(spec, DRA_CDI_KIND, error);
	return r < 0 ? r : publication_policy_check_claim(declaration, spec, error);
}

/* The resource whose devices in the claim use the edits with that name, or NULL. */
static const char *resource_of_edits(const json_t *claim, const char *name)
{
	const json_t *device, *found;
	size_t i, k;

	json_array_foreach(json_object_get(claim, "devices"), i, device)
	{
		json_array_foreach(json_object_get(device, "cdi"), k, found)
		{
			const char *rest = startswith(json_string_value(found), DRA_CDI_KIND "=");

			if (rest && streq(rest, name))
				return text_of(device, "resource");
		}
	}
	return NULL;
}

/* Whether the name is one that dra-prepare.c makes for this claim. */
static bool is_own_name(const json_t *claim, const char *name)
{
	const char *rest = startswith(name, text_of(claim, "uid"));

	return rest && *rest == '-' && rest[1] && !rest[1 + strspn(rest + 1, "0123456789")];
}

static int check_saved_edits(
	const struct config *config, const json_t *claim, const json_t *device, struct error *error)
{
	const char *name = text_of(device, "name"), *resource = resource_of_edits(claim, name);
	const struct resource_config *found;

	if (!resource || !is_own_name(claim, name))
		return error_set(error, -EBADMSG, "they belong to no device of the claim");
	found = config_find(config, resource);
	if (!found || found->registration != REGISTRATION_DRA)
		return error_set(error, -ENOENT, "%s is not served by DRA on this node", resource);
	return dra_claims_check_edits(
		&found->declaration, name, json_object_get(device, "containerEdits"), error);
}

static int check_saved_spec(const struct config *config, const json_t *claim, struct error *error)
{
	const json_t *spec = json_object_get(claim, "spec"), *device;
	size_t i;
	int r;

	if (!spec)
		return 0;
	r = publication_check_cdi(spec, DRA_CDI_KIND, error);
	json_array_foreach(json_object_get(spec, "devices"), i, device)
	{
		if (r >= 0)
			r = check_saved_edits(config, claim, device, error);
	}
	return r;
}

json_t *dra_claims_read_saved(json_t *saved, const struct config *config)
{
	json_auto_t *claim = read_claim(saved, true);
	struct error error = { 0 };
	json_t *device;
	size_t i;

	if (!claim || check_saved_spec(config, claim, &error) >= 0)
		return json_incref(claim);
	log_warning("the CDI file of the claim %s/%s is removed, because its saved container edits "
		    "are not permitted: %s. Delete the pods of the claim, so that it is prepared "
		    "again",
		text_of(claim, "namespace"), text_of(claim, "name"), error.message);
	(void)json_object_del(claim, "spec");
	json_array_foreach(json_object_get(claim, "devices"), i, device)(void)
		json_object_del(device, "cdi");
	return json_incref(claim);
}

/* --- whose devices --- */

static bool is_same_device(const json_t *a, const json_t *b)
{
	return streq(text_of(a, "resource"), text_of(b, "resource")) &&
		streq(text_of(a, "id"), text_of(b, "id"));
}

static bool is_forgotten(const json_t *device)
{
	return json_is_true(json_object_get(device, "forgotten"));
}

/* A request with admin access gets a device that may also be in another claim. */
static bool has_device(const json_t *claim, const json_t *wanted)
{
	const json_t *device;
	size_t i;

	json_array_foreach(json_object_get(claim, "devices"), i,
		device) if (!json_is_true(json_object_get(device, "admin")) &&
		!is_forgotten(device) && is_same_device(device, wanted)) return true;
	return false;
}

int dra_claims_check(const struct dra_claims *claims, const json_t *claim, struct error *error)
{
	const json_t *device;
	const char *uid;
	json_t *other;
	size_t i;

	if (json_object_size(claims->by_uid) >= DRA_CLAIMS_MAX)
		return error_set(error, -ENOSPC,
			"%d claims are prepared on this node; more are not accepted",
			DRA_CLAIMS_MAX);
	json_array_foreach(json_object_get(claim, "devices"), i, device)
	{
		if (json_is_true(json_object_get(device, "admin")))
			continue;
		json_object_foreach(
			claims->by_uid, uid, other) if (!streq(uid, text_of(claim, "uid")) &&
			has_device(other, device)) return error_set(error, -EBUSY,
			"device %s of %s is still prepared for the claim %s/%s; it "
			"is free when the pods of that claim have ended, or after \"devplugctl "
			"forget\"",
			text_of(device, "id"), text_of(device, "resource"),
			text_of(other, "namespace"), text_of(other, "name"));
	}
	return 0;
}

/* --- files --- */

static char *path_of(const struct dra_claims *claims, const char *uid)
{
	char *path;

	return asprintf(&path, "%s/" DRA_CDI_PREFIX "%s.json", claims->directory, uid) < 0 ? NULL
											   : path;
}

static int write_spec(const struct dra_claims *claims, const json_t *claim)
{
	const json_t *spec = json_object_get(claim, "spec");
	_cleanup_free_ char *path = path_of(claims, text_of(claim, "uid"));
	_cleanup_free_ char *text = NULL;
	int r;

	if (!spec)
		return 0;
	text = json_dumps(spec, JSON_INDENT(2));
	if (!path || !text)
		return -ENOMEM;
	if (published_has_content(path, text))
		return 0;
	r = runtime_files_make_directory(claims->directory);
	return r < 0 ? r : published_write_file(path, text);
}

/* Logs failures of the first attempt only. */
static void write_specs(struct dra_claims *claims)
{
	bool again = claims->incomplete;
	const char *uid;
	json_t *claim;

	claims->incomplete = false;
	json_object_foreach(claims->by_uid, uid, claim)
	{
		int r = write_spec(claims, claim);

		claims->incomplete |= r < 0;
		if (r < 0 && !again)
			log_error("cannot write the CDI file of the claim %s/%s in %s: %s",
				text_of(claim, "namespace"), text_of(claim, "name"),
				claims->directory, strerror(-r));
	}
}

static int save(const struct dra_claims *claims)
{
	json_t *root = json_pack("{s:i, s:O}", "version", CLAIMS_VERSION, "claims", claims->by_uid);
	_cleanup_free_ char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

	json_decref(root);
	return text ? runtime_files_write(claims->manager->files, CLAIMS_FILE, text, strlen(text))
		    : -ENOMEM;
}

/* Removes our files that belong to no claim. */
static void sweep(const struct dra_claims *claims)
{
	DIR *stream = opendir(claims->directory);
	struct dirent *entry;

	while (stream && (entry = readdir(stream))) {
		const char *rest = startswith(entry->d_name, DRA_CDI_PREFIX);
		const char *dot = rest ? strchr(rest, '.') : NULL;
		_cleanup_free_ char *uid = dot ? strndup(rest, (size_t)(dot - rest)) : NULL;

		if (uid && !json_object_get(claims->by_uid, uid))
			(void)unlinkat(dirfd(stream), entry->d_name, 0);
	}
	if (stream)
		(void)closedir(stream);
}

static void remove_files(const struct dra_claims *claims)
{
	const char *uid;
	json_t *claim;

	json_object_foreach(claims->by_uid, uid, claim)
	{
		_cleanup_free_ char *path = path_of(claims, uid);

		if (path)
			(void)unlink(path);
	}
}

void dra_claims_configure(struct dra_claims *claims, const char *cdi_dir)
{
	_cleanup_free_ char *directory = strdup(cdi_dir);

	if (!directory)
		return;
	if (claims->directory && !streq(claims->directory, directory))
		remove_files(claims);
	free(claims->directory);
	claims->directory = TAKE_PTR(directory);
	claims->incomplete = false;
	write_specs(claims);
	sweep(claims);
}

bool dra_claims_write_left(struct dra_claims *claims)
{
	if (claims && claims->incomplete)
		write_specs(claims);
	return !claims || !claims->incomplete;
}

/* --- the table --- */

size_t dra_claims_count(const struct dra_claims *claims)
{
	return json_object_size(claims->by_uid);
}

const json_t *dra_claims_find(struct dra_claims *claims, const char *uid)
{
	const json_t *claim = json_object_get(claims->by_uid, uid), *device;
	size_t i;

	json_array_foreach(json_object_get(claim, "devices"), i, device)
	{
		if (is_forgotten(device) || !json_object_get(device, "cdi"))
			return NULL;
	}
	return claim && write_spec(claims, claim) >= 0 ? claim : NULL;
}

static void add_devices(json_t *devices, const json_t *claim)
{
	json_t *device;
	size_t i;

	json_array_foreach(json_object_get(claim, "devices"), i, device)
	{
		_cleanup_free_ char *key = NULL;

		if (is_forgotten(device))
			continue;
		if (asprintf(&key, "%s\t%s\t%s", text_of(claim, "namespace"),
			    text_of(claim, "name"), text_of(device, "name")) < 0)
			key = NULL;
		else
			(void)json_object_set(devices, key, device);
	}
}

json_t *dra_claims_devices(const struct dra_claims *claims)
{
	json_t *devices = json_object(), *claim;
	const char *uid;

	json_object_foreach(claims->by_uid, uid, claim) add_devices(devices, claim);
	return devices;
}

/* Adds the claim's devices of the resource. Returns 0 or -ENOMEM. */
static int add_rows(json_t *rows, const json_t *claim, const char *resource)
{
	json_t *device;
	size_t i;

	json_array_foreach(json_object_get(claim, "devices"), i, device)
	{
		if (is_forgotten(device) || !streq(text_of(device, "resource"), resource))
			continue;
		if (json_array_append_new(rows,
			    json_pack("{s:O, s:O, s:O, s:O}", "id", json_object_get(device, "id"),
				    "namespace", json_object_get(claim, "namespace"), "name",
				    json_object_get(claim, "name"), "uid",
				    json_object_get(claim, "uid"))) < 0)
			return -ENOMEM;
	}
	return 0;
}

json_t *dra_claims_of(const struct dra_claims *claims, const char *resource)
{
	json_auto_t *rows = json_array();
	const char *uid;
	json_t *claim;

	json_object_foreach(claims->by_uid, uid, claim)
	{
		if (add_rows(rows, claim, resource) < 0)
			return NULL;
	}
	return json_incref(rows);
}

static void remove_file(const struct dra_claims *claims, const char *uid)
{
	_cleanup_free_ char *path = path_of(claims, uid);

	if (path)
		(void)unlink(path);
}

int dra_claims_add(struct dra_claims *claims, json_t *claim, struct error *error)
{
	const char *uid = text_of(claim, "uid");
	int r;

	r = write_spec(claims, claim);
	if (r < 0)
		return error_set(error, r, "cannot write the CDI file in %s: %s", claims->directory,
			strerror(-r));
	r = json_object_set(claims->by_uid, uid, claim) < 0 ? -ENOMEM : save(claims);
	if (r < 0) {
		(void)json_object_del(claims->by_uid, uid);
		remove_file(claims, uid);
		return error_set(
			error, r, "cannot save the claim in runtime_dir: %s", strerror(-r));
	}
	json_decref(claim);
	return 0;
}

int dra_claims_remove(struct dra_claims *claims, const char *uid, struct error *error)
{
	json_t *claim = json_incref(json_object_get(claims->by_uid, uid));
	int r;

	if (claim) {
		(void)json_object_del(claims->by_uid, uid);
		r = save(claims);
		if (r < 0) {
			(void)json_object_set_new(claims->by_uid, uid, claim);
			return error_set(error, r, "cannot save the claims in runtime_dir: %s",
				strerror(-r));
		}
		json_decref(claim);
	}
	remove_file(claims, uid);
	return 0;
}

int dra_claims_forget(struct dra_claims *claims, const char *uid, const char *resource,
	const char *id, struct error *error)
{
	json_t *claim = json_object_get(claims->by_uid, uid), *device;
	bool any = false;
	size_t i;
	int r;

	json_array_foreach(json_object_get(claim, "devices"), i, device)
	{
		if (streq(text_of(device, "resource"), resource) &&
			streq(text_of(device, "id"), id))
			any |= json_object_set_new(device, "forgotten", json_true()) >= 0;
	}
	r = any ? save(claims) : -ENOMEM;
	return r < 0
		? error_set(error, r, "cannot save the claims in runtime_dir: %s", strerror(-r))
		: 0;
}

/* --- --- */

/* A file that cannot be used counts as missing: the kubelet prepares claims again. */
static json_t *load(const struct manager *manager)
{
	int fd = runtime_files_open_file(runtime_files_directory(manager->files), CLAIMS_FILE);
	json_t *by_uid = json_object(), *claim;
	json_auto_t *root = NULL;
	const json_t *claims;
	const char *uid;

	if (fd < 0)
		return by_uid;
	root = json_loadfd(fd, JSON_REJECT_DUPLICATES, NULL);
	(void)close_fd(fd);
	claims = json_object_get(root, "claims");
	if (json_integer_value(json_object_get(root, "version")) != CLAIMS_VERSION ||
		!json_is_object(claims)) {
		log_warning(
			"the saved DRA claims cannot be read; the kubelet must prepare them again");
		return by_uid;
	}
	json_object_foreach((json_t *)(uintptr_t)claims, uid, claim)
	{
		json_auto_t *made = dra_claims_read_saved(claim, manager->config);

		if (!made || !streq(text_of(made, "uid"), uid) ||
			json_object_set(by_uid, uid, made) < 0)
			log_warning(
				"the saved claim %s/%s (UID %s) cannot be read: its CDI file is "
				"removed, and its devices are free. Delete the pods of the "
				"claim, so that it is prepared again",
				text_of(claim, "namespace"), text_of(claim, "name"), uid);
	}
	return by_uid;
}

int dra_claims_new(struct manager *manager, struct dra_claims **ret)
{
	struct dra_claims *claims = calloc(1, sizeof(*claims));

	if (!claims)
		return -ENOMEM;
	claims->manager = manager;
	claims->by_uid = load(manager);
	*ret = claims;
	return 0;
}

struct dra_claims *dra_claims_free(struct dra_claims *claims)
{
	if (!claims)
		return NULL;
	json_decref(claims->by_uid);
	free(claims->directory);
	free(claims);
	return NULL;
}
