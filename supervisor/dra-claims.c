/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores which DRA claims are prepared, and decides in which order files are written: the CDI file
 * before the claim is saved, and removed after it. Whenever the daemon is killed, a file without a
 * claim may be left, which the next start removes, but never a claim without its file.
 */
#include "supervisor/dra-claims.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/log.h"
#include "drivers/inventory/inventory.h"
#include "supervisor/manager.h"
#include "supervisor/published.h"
#include "supervisor/state.h"

#define CLAIMS_FILE    "dra-claims"
#define CLAIMS_VERSION 1
#define NAME_LENGTH    253 /* of a namespace, a claim, a pool */

struct dra_claims {
	struct manager *manager;
	json_t *by_uid;
	char *directory; /* of CDI files; NULL: none is known yet */
};

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key)) ?: "";
}

/* --- what is well-formed --- */

static bool is_word(const json_t *object, const char *key, size_t maximum)
{
	const char *text = text_of(object, key);
	size_t length = strlen(text);

	/* What names of Kubernetes objects and uids consist of. */
	return length > 0 && length <= maximum && text[0] != '.' &&
		strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") ==
		length;
}

static bool is_device(const json_t *device)
{
	const char *id = text_of(device, "id");

	return is_word(device, "request", NAME_LENGTH) && is_word(device, "name", NAME_LENGTH) &&
		*text_of(device, "pool") && strlen(text_of(device, "pool")) <= NAME_LENGTH &&
		*text_of(device, "resource") && *id && strlen(id) <= OFFERED_ID_MAX &&
		!strpbrk(id, "\n\r") && json_is_boolean(json_object_get(device, "admin"));
}

bool dra_claims_is_valid(const json_t *claim)
{
	const json_t *devices = json_object_get(claim, "devices"), *device;
	size_t i;

	if (!is_word(claim, "uid", DRA_CLAIM_ID_MAX) || !is_word(claim, "namespace", NAME_LENGTH) ||
		!is_word(claim, "name", NAME_LENGTH) || strchr(text_of(claim, "uid"), '.') ||
		(devices && !json_is_array(devices)) || json_array_size(devices) > DRA_DEVICES_MAX)
		return false;
	json_array_foreach(devices, i, device) if (!is_device(device)) return false;
	return true;
}

static bool is_same_device(const json_t *a, const json_t *b)
{
	return streq(text_of(a, "resource"), text_of(b, "resource")) &&
		streq(text_of(a, "id"), text_of(b, "id"));
}

static bool is_forgotten(const json_t *device)
{
	return json_is_true(json_object_get(device, "forgotten"));
}

/* A request with admin access gets a device that another claim may have. */
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
	r = state_make_directory(claims->directory);
	return r < 0 ? r : published_write_file(path, text);
}

static int save(const struct dra_claims *claims)
{
	json_t *root = json_pack("{s:i, s:O}", "version", CLAIMS_VERSION, "claims", claims->by_uid);
	_cleanup_free_ char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

	json_decref(root);
	return text ? state_write_private(claims->manager->state, CLAIMS_FILE, text, strlen(text))
		    : -ENOMEM;
}

/* Removes files of ours that are of no claim. */
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
	const char *uid;
	json_t *claim;
	int r;

	if (!directory)
		return;
	if (claims->directory && !streq(claims->directory, directory))
		remove_files(claims);
	free(claims->directory);
	claims->directory = TAKE_PTR(directory);
	json_object_foreach(claims->by_uid, uid, claim)
	{
		r = write_spec(claims, claim);
		if (r < 0)
			log_error("cannot write the CDI file of the claim %s/%s in %s: %s",
				text_of(claim, "namespace"), text_of(claim, "name"), cdi_dir,
				strerror(-r));
	}
	sweep(claims);
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

	json_array_foreach(
		json_object_get(claim, "devices"), i, device) if (is_forgotten(device)) return NULL;
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

/* Adds the devices of the resource that the claim has. Returns 0 or -ENOMEM. */
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

/* What cannot be used is as good as nothing: the kubelet prepares claims again. */
static json_t *load(const struct manager *manager)
{
	int fd = state_open_file(manager->state, CLAIMS_FILE);
	json_t *root, *claims, *claim;
	const char *uid;
	void *next;

	if (fd < 0)
		return json_object();
	root = json_loadfd(fd, JSON_REJECT_DUPLICATES, NULL);
	(void)close_fd(fd);
	claims = json_integer_value(json_object_get(root, "version")) == CLAIMS_VERSION
		? json_incref(json_object_get(root, "claims"))
		: NULL;
	json_decref(root);
	if (!json_is_object(claims)) {
		json_decref(claims);
		log_warning("the saved claims of DRA cannot be read; the kubelet has to prepare "
			    "them again");
		return json_object();
	}
	json_object_foreach_safe(claims, next, uid, claim) if (!dra_claims_is_valid(claim) ||
		!streq(text_of(claim, "uid"), uid))(void) json_object_del(claims, uid);
	return claims;
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
