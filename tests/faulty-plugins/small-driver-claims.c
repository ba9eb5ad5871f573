/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which devices a claim has, what is described of them, and what is saved. A fault is a condition
 * at the line that it spoils.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>

#include "common/json-read.h"
#include "small-driver.h"

#define ENOUGH_CALLS 5
#define RETRY_USEC   (20 * USEC_PER_MSEC)

/* --- files --- */

static void make_path(
	const struct driver *driver, char *path, const char *directory, const char *name)
{
	(void)snprintf(path, PATH_MAX, "%s/%s/%s", driver->dir, directory, name);
}

static void save(const struct driver *driver)
{
	char path[PATH_MAX], new[PATH_MAX];

	if (driver->fault == DRIVER_FAULT_FORGETS)
		return;
	make_path(driver, path, "state", "prepared.json");
	make_path(driver, new, "state", "prepared.new");
	if (json_dump_file(driver->prepared, new, 0) < 0 || rename(new, path) < 0)
		abort();
}

void driver_load(struct driver *driver)
{
	_cleanup_close_ int fd = -EBADF;
	char path[PATH_MAX];

	make_path(driver, path, "state", "started");
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	driver->is_restarted = fd < 0;
	make_path(driver, path, "state", "prepared.json");
	driver->prepared = json_load_file(path, 0, NULL);
	if (!driver->prepared)
		driver->prepared = json_object();
	driver->late = json_object();
	driver->calls = json_object();
}

void driver_clean(const struct driver *driver)
{
	const struct dirent *entry;
	char path[PATH_MAX];
	DIR *dir;

	make_path(driver, path, "cdi", "");
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		(void)closedir(dir);
}

static void cdi_path(const struct driver *driver, char *path, const char *uid)
{
	char name[NAME_MAX];

	(void)snprintf(name, sizeof(name), "claim-%s.%s", uid,
		driver->fault == DRIVER_FAULT_WRITES_YAML ? "yaml" : "json");
	make_path(driver, path, "cdi", name);
}

static void write_yaml(const char *path, const json_t *devices)
{
	FILE *file = fopen(path, "we");
	const json_t *device;
	size_t i;

	if (!file)
		abort();
	(void)fprintf(file, "cdiVersion: 0.3.0\nkind: vendor.example/claim\ndevices:\n");
	json_array_foreach(devices, i, device)
	{
		const char *name = strchr(text_of(device, "cdi"), '=');

		(void)fprintf(file,
			"- containerEdits:\n    env:\n    - DEVICE=%s\n  name: \"%s\"\n",
			text_of(device, "device"), name ? name + 1 : "");
	}
	(void)fclose(file);
}

static void write_file(const struct driver *driver, const char *uid, const json_t *devices)
{
	json_auto_t *list = json_array(), *spec = NULL;
	const json_t *device;
	char path[PATH_MAX];
	size_t i;

	cdi_path(driver, path, uid);
	if (driver->fault == DRIVER_FAULT_WRITES_YAML) {
		write_yaml(path, devices);
		return;
	}
	json_array_foreach(devices, i, device)
	{
		const char *name = strchr(text_of(device, "cdi"), '=');

		(void)json_array_append_new(list,
			json_pack("{s:s, s:{s:[s+]}}", "name", name ? name + 1 : "",
				"containerEdits", "env", "DEVICE=", text_of(device, "device")));
	}
	spec = json_pack("{s:s, s:s, s:O}", "cdiVersion", "0.3.0", "kind", "vendor.example/claim",
		"devices", list);
	if (json_dump_file(spec, path, 0) < 0)
		abort();
}

static void write_late(struct driver *driver)
{
	const char *uid;
	json_t *devices;

	json_object_foreach(driver->late, uid, devices)
	{
		write_file(driver, uid, devices);
	}
	(void)json_object_clear(driver->late);
}

/* --- the claim --- */

static bool is_word(const char *text)
{
	return *text && *text != '.' &&
		text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.")] == '\0';
}

/* Any claim of the API server with the uid. */
static json_t *find_in_server(const struct driver *driver, const char *uid)
{
	json_auto_t *body = NULL;
	const json_t *claim;
	size_t i;

	(void)driver_ask(driver, "GET", DRIVER_ALL_CLAIMS, NULL, &body);
	json_array_foreach(json_object_get(body, "items"), i, claim)
	{
		if (streq(text_of(json_object_get(claim, "metadata"), "uid"), uid))
			return json_deep_copy(claim);
	}
	return NULL;
}

/* Any claim with the uid. */
static json_t *find_by_uid(const struct driver *driver, const char *uid)
{
	const struct dirent *entry;
	json_t *found = NULL;
	char path[PATH_MAX];
	DIR *dir;

	found = find_in_server(driver, uid);
	make_path(driver, path, "claims", "");
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		make_path(driver, path, "claims", entry->d_name);
		found = json_load_file(path, 0, NULL);
		if (!streq(text_of(json_object_get(found, "metadata"), "uid"), uid)) {
			json_decref(found);
			found = NULL;
		}
	}
	if (dir)
		(void)closedir(dir);
	return found;
}

static json_t *load_claim(const struct driver *driver, const char *namespace, const char *name)
{
	char path[PATH_MAX], file[NAME_MAX];
	json_t *claim = NULL;
	int code;

	(void)snprintf(path, sizeof(path),
		"/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s", namespace, name);
	code = driver_ask(driver, "GET", path, NULL, &claim);
	while (code == 503 && driver->fault == DRIVER_FAULT_WAITS_FOR_API) {
		(void)usleep(RETRY_USEC);
		json_decref(claim);
		claim = NULL;
		code = driver_ask(driver, "GET", path, NULL, &claim);
	}
	if (code == 503 && driver->fault == DRIVER_FAULT_DIES_WITHOUT_API)
		_exit(1);
	if (code == 200)
		return claim;
	json_decref(claim);
	(void)snprintf(file, sizeof(file), "%s.%s.json", namespace, name);
	make_path(driver, path, "claims", file);
	return code == -ENOENT ? json_load_file(path, 0, NULL) : NULL;
}

static json_t *read_claim(const struct driver *driver, const char *namespace, const char *name,
	const char *uid, struct error *error)
{
	json_t *claim;

	claim = driver->fault == DRIVER_FAULT_IGNORES_NAME ? find_by_uid(driver, uid)
							   : load_claim(driver, namespace, name);
	if (!claim)
		(void)error_set(error, -ENOENT, "resourceclaims \"%s\" not found", name);
	else if (driver->fault != DRIVER_FAULT_IGNORES_UID &&
		!streq(text_of(json_object_get(claim, "metadata"), "uid"), uid)) {
		(void)error_set(error, -ESTALE, "the claim has another uid");
		json_decref(claim);
		claim = NULL;
	}
	return claim;
}

/* The claim that holds the device, or NULL. */
static const char *find_owner(const struct driver *driver, const char *name)
{
	const json_t *device;
	json_t *devices;
	const char *uid;
	size_t i;

	json_object_foreach(driver->prepared, uid, devices)
	{
		json_array_foreach(devices, i, device)
		{
			json_auto_t *claim = NULL;

			if (!streq(text_of(device, "device"), name) ||
				json_is_true(json_object_get(device, "admin")))
				continue;
			if (driver->fault == DRIVER_FAULT_TRUSTS_DELETION)
				claim = find_by_uid(driver, uid);
			if (claim || driver->fault != DRIVER_FAULT_TRUSTS_DELETION)
				return uid;
		}
	}
	return NULL;
}

static json_t *make_device(struct driver *driver, const json_t *result, const char *uid)
{
	bool changing = driver->fault == DRIVER_FAULT_CHANGING_IDS;
	char cdi[256], suffix[48] = "", request[64];

	/* A request with alternatives is named "request/alternative". */
	(void)snprintf(request, sizeof(request), "%s", text_of(result, "request"));
	if (driver->fault != DRIVER_FAULT_KEEPS_ALTERNATIVE)
		request[strcspn(request, "/")] = '\0';

	if (changing)
		(void)snprintf(suffix, sizeof(suffix), "-%d-%u", (int)getpid(), driver->ids++);
	(void)snprintf(cdi, sizeof(cdi), "%s=%s-%s%s",
		driver->fault == DRIVER_FAULT_BAD_CDI_NAME ? "claim" : "vendor.example/claim", uid,
		text_of(result, "device"), suffix);
	return json_pack("{s:s, s:s, s:s, s:s, s:b}", "request", request, "pool",
		driver->fault == DRIVER_FAULT_WRONG_DEVICE ? "other" : text_of(result, "pool"),
		"device", text_of(result, "device"), "cdi", cdi, "admin",
		(int)json_is_true(json_object_get(result, "adminAccess")));
}

/* This driver takes no parameters. */
static int check_parameters(
	const struct driver *driver, const json_t *allocation, struct error *error)
{
	const json_t *entry;
	size_t i;

	json_array_foreach(
		json_object_get(json_object_get(allocation, "devices"), "config"), i, entry)
	{
		const char *name = text_of(json_object_get(entry, "opaque"), "driver");

		if (driver->fault == DRIVER_FAULT_REFUSES_PARAMETERS ||
			(streq(name, DRIVER_NAME) &&
				driver->fault != DRIVER_FAULT_IGNORES_PARAMETERS))
			return error_set(error, -EINVAL, "the driver takes no parameters");
	}
	return 0;
}

static int check_result(const struct driver *driver, const json_t *result, struct error *error)
{
	const char *name = text_of(result, "device");
	bool admin = json_is_true(json_object_get(result, "adminAccess")) &&
		driver->fault != DRIVER_FAULT_IGNORES_ADMIN;

	if ((name[0] != 'd' || name[1] < '0' || name[1] >= '0' + DRIVER_DEVICES || name[2]) &&
		streq(text_of(result, "driver"), DRIVER_NAME) &&
		driver->fault != DRIVER_FAULT_TAKES_ANY_DEVICE)
		return error_set(error, -ENODEV, "there is no device %s", name);
	if (!admin && driver->fault != DRIVER_FAULT_SHARES_DEVICES && find_owner(driver, name))
		return error_set(error, -EBUSY, "device %s is held by another claim", name);
	return 0;
}

static json_t *make_devices(
	struct driver *driver, const json_t *claim, const char *uid, struct error *error)
{
	const json_t *status = json_object_get(claim, "status"), *result;
	const json_t *allocation = json_object_get(status, "allocation");
	json_t *devices = json_array();
	size_t i;
	int r = 0;

	if (!allocation && driver->fault == DRIVER_FAULT_DIES_UNALLOCATED)
		_exit(1);
	if (!allocation && driver->fault != DRIVER_FAULT_TAKES_UNALLOCATED)
		r = error_set(error, -ENODATA, "the claim is not allocated");
	if (r >= 0)
		r = check_parameters(driver, allocation, error);
	json_array_foreach(
		json_object_get(json_object_get(allocation, "devices"), "results"), i, result)
	{
		if (!streq(text_of(result, "driver"), DRIVER_NAME) &&
			driver->fault != DRIVER_FAULT_TAKES_ALL_RESULTS)
			continue;
		if (r >= 0)
			r = check_result(driver, result, error);
		(void)json_array_append_new(devices, make_device(driver, result, uid));
	}
	if (r >= 0)
		return devices;
	json_decref(devices);
	return NULL;
}

static const json_t *prepare_again(struct driver *driver, const char *uid, struct error *error)
{
	json_int_t n = json_integer_value(json_object_get(driver->calls, uid)) + 1;
	json_t *devices = json_object_get(driver->prepared, uid), *device;
	size_t i;

	(void)json_object_set_new(driver->calls, uid, json_integer(n));
	if (driver->fault == DRIVER_FAULT_TIRES && n > ENOUGH_CALLS) {
		(void)error_set(error, -EBUSY, "the claim is busy");
		return NULL;
	}
	json_array_foreach(devices, i, device)
	{
		char cdi[320];

		if (driver->fault != DRIVER_FAULT_CHANGING_IDS)
			continue;
		(void)snprintf(cdi, sizeof(cdi), "%s-%d-%u", text_of(device, "cdi"), (int)getpid(),
			driver->ids++);
		(void)json_object_set_new(device, "cdi", json_string(cdi));
	}
	/* A restart of the host removes the file. */
	if (driver->fault != DRIVER_FAULT_TRUSTS_FILES)
		write_file(driver, uid, devices);
	return devices;
}

const json_t *driver_prepare(struct driver *driver, const char *namespace, const char *name,
	const char *uid, struct error *error)
{
	bool valid = is_word(namespace) && is_word(name) && is_word(uid);
	json_auto_t *claim = NULL;
	json_t *devices;

	write_late(driver);
	if (driver->fault == DRIVER_FAULT_LEAKS && open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
		abort();
	if (!valid && driver->fault == DRIVER_FAULT_TRUSTS_NAMES) {
		(void)json_object_set_new(driver->prepared, uid, json_array());
		return json_object_get(driver->prepared, uid);
	}
	if (!valid) {
		(void)error_set(error, -EINVAL, "the claim has no valid name");
		return NULL;
	}
	if (json_object_get(driver->prepared, uid))
		return prepare_again(driver, uid, error);
	claim = read_claim(driver, namespace, name, uid, error);
	if (!claim && driver->fault == DRIVER_FAULT_PREPARES_UNKNOWN && error->code == -ENOENT)
		claim = json_pack("{s:{s:{}}}", "status", "allocation");
	devices = claim ? make_devices(driver, claim, uid, error) : NULL;
	if (!devices)
		return NULL;
	if (driver->fault == DRIVER_FAULT_LATE_FILE)
		(void)json_object_set(driver->late, uid, devices);
	else
		write_file(driver, uid, devices);
	(void)json_object_set_new(driver->prepared, uid, devices);
	save(driver);
	return devices;
}

int driver_unprepare(struct driver *driver, const char *uid, struct error *error)
{
	bool known = json_object_get(driver->prepared, uid);
	char path[PATH_MAX];

	if (known && driver->fault == DRIVER_FAULT_READS_AT_UNPREPARE) {
		json_auto_t *claim = find_by_uid(driver, uid);

		if (!claim)
			return error_set(error, -ENOENT, "cannot read the claim");
	}

	write_late(driver);
	if (!known && driver->fault == DRIVER_FAULT_UNPREPARES_ONCE)
		return error_set(error, -ENOENT, "the claim is not prepared");
	if (!known)
		return 0;
	cdi_path(driver, path, uid);
	if (driver->fault != DRIVER_FAULT_KEEPS_FILES)
		(void)unlink(path);
	(void)json_object_del(driver->prepared, uid);
	(void)json_object_del(driver->calls, uid);
	save(driver);
	return 0;
}
