/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepared claims in their files: what an answer that comes too late, and a file that cannot be
 * written, leave of them.
 */
#include "published-fixture.h"

#include <dirent.h>
#include <jansson.h>

#include "supervisor/books/dra-claim.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/books/dra-metadata-form.h"
#include "supervisor/children/manager.h"
#include "supervisor/files/runtime-files.h"

#define DRIVER "devices.vendor.example"
#define OTHER  "gpu.vendor.example"
#define UID    "00000000-0000-4000-8000-000000000001"

static struct manager manager;
static struct dra_claims *claims;
static struct error error;

static size_t n_ended;

static void on_end(void *userdata)
{
	n_ended++;
}

static int setup_claims(void **state)
{
	if (setup(state) < 0 || unsetenv("STATE_DIRECTORY") < 0)
		return -1;
	config->runtime_dir = realloc(config->runtime_dir, sizeof(run_dir));
	(void)strcpy(config->runtime_dir, run_dir);
	manager.config = config;
	manager.published = published;
	if (runtime_files_open(run_dir, &manager.files, &error) < 0)
		return -1;
	n_ended = 0;
	return dra_claims_new(&manager, on_end, NULL, &claims);
}

static int teardown_claims(void **state)
{
	claims = dra_claims_free(claims);
	manager.files = runtime_files_free(manager.files);
	return teardown(state);
}

/* The claim with the device of that id, as a driver asks for it. */
static json_t *asked_for(const char *id)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:[{s:s, s:s, s:s, s:s, s:s, s:b}]}", "driver",
		DRIVER, "uid", UID, "namespace", "default", "name", "c", "devices", "request", "r",
		"pool", "node", "name", id, "resource", "vendor.example/card", "id", id, "admin",
		0);
}

static json_t *edits_with(const char *variable)
{
	return json_pack("{s:[s]}", "env", variable);
}

/* Prepares the claim, perhaps with a second device, with edits that set the variable. */
static int prepare_with(const char *id, const char *variable, const char *more)
{
	json_t *claim = asked_for(id), *devices;
	int r;

	if (more) {
		json_t *list = json_object_get(claim, "devices");
		json_t *second = json_deep_copy(json_array_get(list, 0));

		(void)json_object_set_new(second, "id", json_string(more));
		(void)json_object_set_new(second, "name", json_string(more));
		(void)json_object_set_new(second, "cdi", json_array());
		(void)json_array_append_new(list, second);
	}

	(void)json_object_set_new(json_array_get(json_object_get(claim, "devices"), 0), "cdi",
		json_pack("[s]", "devplugd/claim=" UID "-0"));
	devices =
		json_pack("[{s:s, s:o}]", "name", UID "-0", "containerEdits", edits_with(variable));
	r = dra_claims_add(claims, claim, devices, &error);
	json_decref(devices);
	json_decref(claim);
	return r;
}

static int prepare(const char *id, const char *variable)
{
	return prepare_with(id, variable, NULL);
}

/* The only file in the directory that is not hidden; "" if there is none. */
static const char *text_in(const char *directory)
{
	static char text[65536];
	DIR *stream = opendir(directory);
	const struct dirent *entry;

	text[0] = '\0';
	while (stream && (entry = readdir(stream))) {
		char path[512];
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		assert_string_equal(text, "");
		(void)snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		file = fopen(path, "re");
		assert_non_null(file);
		text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
		(void)fclose(file);
	}
	if (stream)
		(void)closedir(stream);
	return text;
}

static const char *saved(void)
{
	return text_in(dra_claims_directory(claims));
}

/* A process answers after the claim was unprepared and prepared again with another device. */
static void test_late_edits(void **state)
{
	json_t *first = asked_for("card-0");
	json_t *names = json_pack("[s]", "devplugd/claim=" UID "-0"), *edits = edits_with("A=late");

	assert_int_equal(prepare("card-0", "A=first"), 0);
	assert_int_equal(dra_claims_remove(claims, DRIVER, UID, &error), 0);
	assert_int_equal(
		dra_claims_set_edits(claims, first, 0, names, edits, "0", &error), -ENOENT);
	assert_int_equal(prepare("card-1", "A=second"), 0);
	assert_int_equal(
		dra_claims_set_edits(claims, first, 0, names, edits, "0", &error), -ENOENT);
	assert_non_null(strstr(saved(), "A=second"));
	assert_null(strstr(saved(), "A=late"));
	assert_non_null(strstr(text_in(cdi_dir), "A=second"));
	json_decref(first);
	json_decref(names);
	json_decref(edits);
}

static int read_metadata(const char *text, bool saved)
{
	json_auto_t *claim = asked_for("card-0");
	json_auto_t *metadata = json_loads(text, 0, NULL);

	assert_non_null(metadata);
	return dra_metadata_form_read(claim, metadata, saved);
}

/* Only what the claim's own files contain, in the form of the API. */
static void test_metadata(void **state)
{
	static const char *const refused[] = {
		"[]",
		"{}",
		"{\"attributes\": {}}",
		"{\"attributes\": [], \"alternatives\": {}}",
		"{\"attributes\": {}, \"alternatives\": []}",
		"{\"attributes\": {}, \"alternatives\": {}, \"more\": 1}",
		"{\"attributes\": {}, \"alternatives\": {}, \"pod_claim\": \"../x\"}",
		"{\"attributes\": {}, \"alternatives\": {}, \"pod_claim\": \"\"}",
		"{\"attributes\": {}, \"alternatives\": {\"r\": \"r/a/b\"}}",
		"{\"attributes\": {}, \"alternatives\": {\"r\": \"s/a\"}}",
		"{\"attributes\": {}, \"alternatives\": {\"s\": \"s/a\"}}",
		"{\"attributes\": {}, \"alternatives\": {\"r\": 1}}",
		"{\"attributes\": {\"card-1\": {}}, \"alternatives\": {}}",
		"{\"attributes\": {\"card-0\": {\"a b\": {\"int\": 1}}}, \"alternatives\": {}}",
		"{\"attributes\": {\"card-0\": {\"a\": {\"int\": \"1\"}}}, \"alternatives\": {}}",
		"{\"attributes\": {\"card-0\": {\"a\": {\"int\": 1, \"bool\": true}}}, "
		"\"alternatives\": {}}",
		"{\"attributes\": {\"card-0\": {\"a\": {\"version\": \"1.2\"}}}, "
		"\"alternatives\": {}}",
	};
	static const char good[] =
		"{\"attributes\": {\"card-0\": {\"a\": {\"int\": 1}, \"x.example/b\": "
		"{\"string\": \"/../\"}}}, \"alternatives\": {\"r\": \"r/a\"}, \"pod_claim\": "
		"\"p\"}";
	static const char generations[] =
		"{\"attributes\": {}, \"alternatives\": {}, \"generations\": {\"r\": 3}}";
	char text[8192] = "{\"alternatives\": {}, \"attributes\": {\"card-0\": {";

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		assert_int_equal(read_metadata(refused[i], false), -EBADMSG);
	assert_int_equal(read_metadata(good, false), 0);
	assert_int_equal(read_metadata(generations, false), -EBADMSG);
	assert_int_equal(read_metadata(generations, true), 0);
	for (size_t i = 0; i <= ATTRIBUTES_MAX; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text),
			"%s\"a%zu\": {\"int\": 1}", i > 0 ? ", " : "", i);
	(void)strcat(text, "}}}");
	assert_int_equal(read_metadata(text, false), -EBADMSG);
}

/* The files of claims do not exceed their limit when attributes grow. */
static void test_metadata_that_grows(void **state)
{
	json_auto_t *claim = asked_for("card-0"), *metadata = NULL, *more = NULL, *less = NULL;
	char value[65] = "";
	_cleanup_free_ char *before = NULL;
	size_t room = DRA_CLAIMS_BYTES_MAX;

	memset(value, 'x', sizeof(value) - 1);
	more = json_pack(
		"{s:{s:{s:s}, s:{s:s}}}", "card-0", "a", "string", value, "b", "string", value);
	less = json_pack("{s:{s:{s:s}}}", "card-0", "a", "string", value);
	metadata = json_pack(
		"{s:{s:{}}, s:{}}", DRA_METADATA_ATTRIBUTES, "card-0", DRA_METADATA_ALTERNATIVES);
	assert_int_equal(json_object_set(claim, "metadata", metadata), 0);
	assert_int_equal(dra_claims_add(claims, claim, NULL, &error), 0);
	before = strdup(saved());
	room -= strlen(before) + 100;
	assert_int_equal(dra_claims_reserve(claims, room, &error), 0);
	assert_true(dra_claims_set_attributes(claims, DRIVER, more));
	assert_false(dra_claims_write_metadata(claims, 1));
	assert_string_equal(saved(), before);
	assert_true(dra_claims_write_left(claims));
	dra_claims_give_back(claims, room);
	assert_true(dra_claims_set_attributes(claims, DRIVER, less));
	assert_false(dra_claims_write_metadata(claims, 1));
	assert_non_null(strstr(saved(), value));
}

/* Metadata that could not be saved is written later, without another change. */
static void test_metadata_that_fails(void **state)
{
	json_auto_t *claim = asked_for("card-0"), *metadata = NULL, *more = NULL;

	more = json_pack("{s:{s:{s:s}}}", "card-0", "a", "string", "changed");
	metadata = json_pack(
		"{s:{s:{}}, s:{}}", DRA_METADATA_ATTRIBUTES, "card-0", DRA_METADATA_ALTERNATIVES);
	assert_int_equal(json_object_set(claim, "metadata", metadata), 0);
	assert_int_equal(dra_claims_add(claims, claim, NULL, &error), 0);
	assert_int_equal(chmod(dra_claims_directory(claims), 0777), 0);
	assert_true(dra_claims_set_attributes(claims, DRIVER, more));
	assert_false(dra_claims_write_metadata(claims, 1));
	assert_false(dra_claims_write_left(claims));
	assert_int_equal(chmod(dra_claims_directory(claims), 0700), 0);
	assert_null(strstr(saved(), "changed"));
	assert_true(dra_claims_write_left(claims));
	assert_non_null(strstr(saved(), "changed"));
	assert_true(dra_claims_write_left(claims));
}

/* Where a claim's CDI file leads is not for others; but others do not notice a request with admin
 * access. */
static void test_answers(void **state)
{
	for (int admin = 0; admin < 2; admin++) {
		_cleanup_bookings_ struct bookings *bookings = NULL;
		json_auto_t *claim = asked_for("card-0");
		json_t *device = json_array_get(json_object_get(claim, "devices"), 0);
		json_auto_t *document = json_pack("[{s:s, s:{s:[{s:s}]}}]", "name", UID "-0",
			"containerEdits", "deviceNodes", "path", "/dev/card0");
		json_auto_t *nodes = dra_claim_nodes(document);

		(void)json_object_set_new(device, "admin", json_boolean(admin));
		(void)json_object_set_new(
			device, "cdi", json_pack("[s]", "devplugd/claim=" UID "-0"));
		assert_int_equal(bookings_new(&bookings), 0);
		assert_int_equal(
			dra_claim_add_answers(claim, nodes, "vendor.example/card", true, bookings),
			0);
		assert_int_equal(bookings->n_answers, !admin);
	}
}

static void expect_first(void)
{
	assert_int_equal(dra_claims_total(claims), 1);
	assert_null(dra_claims_find(claims, DRIVER, UID));
	assert_non_null(strstr(saved(), "forgotten"));
	assert_non_null(strstr(saved(), "A=first"));
	assert_non_null(strstr(text_in(cdi_dir), "A=first"));
}

/* A claim with a forgotten device is prepared again, and a file of it cannot be written. */
static void test_prepared_again_without_a_file(void **state)
{
	char directory[512], away[520];

	assert_int_equal(prepare_with("card-0", "A=first", "card-1"), 0);
	assert_int_equal(
		dra_claims_forget(claims, DRIVER, UID, "vendor.example/card", "card-0", &error), 0);

	/* Its own file: others could write to the directory, so it is not used. */
	assert_int_equal(chmod(dra_claims_directory(claims), 0777), 0);
	assert_int_equal(prepare("card-0", "A=second"), -EPERM);
	assert_int_equal(chmod(dra_claims_directory(claims), 0700), 0);
	expect_first();

	/* The CDI file, after its own file was written. */
	(void)snprintf(directory, sizeof(directory), "%s", cdi_dir);
	(void)snprintf(away, sizeof(away), "%s.away", directory);
	assert_int_equal(rename(directory, away), 0);
	host_write(directory + strlen(host_root), "in the way");
	assert_true(prepare("card-0", "A=second") < 0);
	assert_int_equal(remove(directory), 0);
	assert_int_equal(rename(away, directory), 0);
	expect_first();

	assert_int_equal(prepare("card-0", "A=second"), 0);
	assert_non_null(dra_claims_find(claims, DRIVER, UID));
	assert_null(strstr(saved(), "forgotten"));
	assert_non_null(strstr(text_in(cdi_dir), "A=second"));
}

/* The last device takes the claim with it. */
static void test_forgotten(void **state)
{
	assert_int_equal(prepare_with("card-0", "A=first", "card-1"), 0);
	assert_int_equal(
		dra_claims_forget(claims, DRIVER, UID, "vendor.example/card", "card-0", &error), 0);
	expect_first();
	assert_int_equal(
		dra_claims_forget(claims, DRIVER, UID, "vendor.example/card", "card-1", &error), 0);
	assert_int_equal(dra_claims_total(claims), 0);
	assert_int_equal(n_ended, 1);
	assert_string_equal(saved(), "");
	assert_string_equal(text_in(cdi_dir), "");
	assert_int_equal(
		dra_claims_forget(claims, DRIVER, UID, "vendor.example/card", "card-1", &error),
		-ENOENT);
}

/* Prepares the claim, with a device of the driver. */
static int prepare_for(const char *driver, const char *id, const char *variable)
{
	json_auto_t *claim = asked_for(id), *devices = NULL;
	char name[128];

	(void)snprintf(name, sizeof(name), UID "-%s", id);
	devices = json_pack("[{s:s, s:o}]", "name", name, "containerEdits", edits_with(variable));
	(void)json_object_set_new(claim, "driver", json_string(driver));
	(void)json_object_set_new(json_array_get(json_object_get(claim, "devices"), 0), "cdi",
		json_pack("[o]", json_sprintf("devplugd/claim=%s", name)));
	return dra_claims_add(claims, claim, devices, &error);
}

static bool has_file(const char *directory, const char *name)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	return access(path, F_OK) >= 0;
}

/* Whether the claim of each driver is in its files, and no claim in others. */
static void expect_of_drivers(bool own, bool other, bool cdi)
{
	const char *directory = dra_claims_directory(claims);
	json_auto_t *counts = dra_claims_by_driver(claims);

	assert_int_equal(dra_claims_get(claims, DRIVER, UID) != NULL, own);
	assert_int_equal(dra_claims_get(claims, OTHER, UID) != NULL, other);
	assert_int_equal(json_object_get(counts, DRIVER) != NULL, own);
	assert_int_equal(json_object_get(counts, OTHER) != NULL, other);
	assert_int_equal(has_file(directory, UID ".json"), own);
	assert_int_equal(has_file(directory, UID "." OTHER ".json"), other);
	assert_int_equal(has_file(cdi_dir, "devplugd.dra-" UID ".json"), own && cdi);
	assert_int_equal(has_file(cdi_dir, "devplugd.dra-" UID "." OTHER ".json"), other && cdi);
}

/* A ResourceClaim has devices of two drivers, each of which prepares and unprepares its own. */
static void test_two_drivers(void **state)
{
	const json_t *held;

	assert_int_equal(prepare_for(DRIVER, "card-0", "A=first"), 0);
	expect_of_drivers(true, false, true);
	assert_int_equal(prepare_for(OTHER, "card-1", "A=second"), 0);
	expect_of_drivers(true, true, true);
	held = dra_claims_held(claims);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(held, "card-0"), "driver")),
		DRIVER);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(held, "card-1"), "driver")),
		OTHER);
	json_decref((json_t *)(uintptr_t)held);

	/* The configuration does not permit the variables. */
	claims = dra_claims_free(claims);
	assert_int_equal(dra_claims_new(&manager, on_end, NULL, &claims), 0);
	dra_claims_configure(claims);
	expect_of_drivers(true, true, false);
	assert_int_equal(prepare_for(OTHER, "card-1", "A=second"), 0);
	assert_int_equal(dra_claims_remove(claims, DRIVER, UID, &error), 0);
	expect_of_drivers(false, true, true);
	assert_int_equal(prepare_for(DRIVER, "card-0", "A=third"), 0);
	assert_true(has_file(cdi_dir, "devplugd.dra-" UID ".json"));
	assert_int_equal(dra_claims_remove(claims, DRIVER, UID, &error), 0);
	assert_int_equal(dra_claims_remove(claims, OTHER, UID, &error), 0);
	expect_of_drivers(false, false, true);
}

static void expect_of_default(const char *driver)
{
	free(config->dra.driver);
	config->dra.driver = strdup(driver);
	claims = dra_claims_free(claims);
	assert_int_equal(dra_claims_new(&manager, on_end, NULL, &claims), 0);
	dra_claims_configure(claims);
	assert_null(dra_claims_get(claims, DRIVER, UID));
	assert_non_null(dra_claims_get(claims, OTHER, UID));
}

/* A claim that an earlier version has saved is one of the default driver, and stays one of it when
 * the configuration names another. */
static void test_saved_without_driver(void **state)
{
	const char *directory;
	json_t *json;
	char path[512];

	assert_int_equal(prepare("card-0", "A=first"), 0);
	directory = dra_claims_directory(claims);
	(void)snprintf(path, sizeof(path), "%s/" UID ".json", directory);
	json = json_load_file(path, 0, NULL);
	assert_int_equal(json_object_del(json, "driver"), 0);
	assert_int_equal(json_dump_file(json, path, 0), 0);
	json_decref(json);

	expect_of_default(OTHER);
	expect_of_default(DRIVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_metadata_that_fails, setup_claims, teardown_claims),
		cmocka_unit_test(test_metadata),
		cmocka_unit_test_setup_teardown(
			test_metadata_that_grows, setup_claims, teardown_claims),
		cmocka_unit_test_setup_teardown(test_late_edits, setup_claims, teardown_claims),
		cmocka_unit_test(test_answers),
		cmocka_unit_test_setup_teardown(
			test_prepared_again_without_a_file, setup_claims, teardown_claims),
		cmocka_unit_test_setup_teardown(test_forgotten, setup_claims, teardown_claims),
		cmocka_unit_test_setup_teardown(test_two_drivers, setup_claims, teardown_claims),
		cmocka_unit_test_setup_teardown(
			test_saved_without_driver, setup_claims, teardown_claims),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
