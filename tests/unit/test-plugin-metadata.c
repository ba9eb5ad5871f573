/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metadata of containers of device plugins against a child that sends anything, and against stored
 * answers that any plugin may have written.
 */
#include "published-fixture.h"

#include "common/control-child.h"
#include "supervisor/books/plugin-metadata.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"

static struct plugin_metadata *metadata;
static struct manager manager;
static struct resource resource;
static struct child child = { .resource = &resource };
static struct error error;

static int begin(void **state)
{
	static char name[] = "vendor.example/card";

	if (setup(state) < 0)
		return -1;
	resource.name = name;
	manager = (struct manager){ .config = config, .published = published };
	return plugin_metadata_new(&manager, &metadata);
}

static int end(void **state)
{
	metadata = plugin_metadata_free(metadata);
	return teardown(state);
}

/* Sends a CHILD_USE; `devices` NULL: without a second descriptor. Fills the text with the paths. */
static int use(const char *ids, const char *devices, char **ret_paths)
{
	_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(CHILD_USE);
	_cleanup_close_ int fd = -EBADF;
	size_t size;
	int r;

	error = (struct error){ 0 };
	message.fds[0] = sealed(ids);
	message.fds[1] = devices ? sealed(devices) : -EBADF;
	r = plugin_metadata_take(metadata, &child, &message, &fd, &error);
	if (r >= 0)
		assert_int_equal(sealed_read(fd, 4096, ret_paths, &size), 0);
	return r;
}

static json_t *load_file(const char *path)
{
	json_t *object = json_load_file(path, JSON_DISABLE_EOF_CHECK, NULL);

	assert_non_null(object);
	return object;
}

/* The attributes of the only device in the only file. */
static json_t *attributes_of(char *paths)
{
	json_t *object, *attributes;

	paths[strcspn(paths, "\n")] = '\0';
	object = load_file(paths);
	attributes = json_incref(json_object_get(
		json_array_get(
			json_object_get(
				json_array_get(json_object_get(object, "requests"), 0), "devices"),
			0),
		"attributes"));
	json_decref(object);
	assert_non_null(attributes);
	return attributes;
}

/* A child cannot have a container read anything but attributes, of the names and values that the
 * API accepts, nor other members. */
static void test_P10_attributes(void **state)
{
	static const char device[] =
		"[{'id':'a','numa':[1],'text':'x','attributes':{'good':{'string':'x'},"
		"'number':{'int':3},'two':{'string':'x','int':1},'none':{},'list':[1],'null':null,"
		"'a/b/c':{'string':'x'},'vendor.example/own':{'string':'x'},"
		"'other.example/ok':{'bool':true},'resource.kubernetes.io/evil':{'string':'x'},"
		"'resource.kubernetes.io/pciBusID':{'string':'/etc/passwd'},"
		"'version':{'version':'x'}}},{'id':'b','attributes':{'not':{'string':'asked'}}}]";
	static const char *const wanted[] = { "resource", "id", "resource.kubernetes.io/numaNode",
		"good", "number", "other.example/ok", "k8s.cni.cncf.io/deviceID",
		"k8s.cni.cncf.io/resourceName" };
	_cleanup_free_ char *paths = NULL, *again = NULL;
	json_auto_t *attributes = NULL;

	if (use("a\n", "[{'id':'a','numa':[{'x':['y']}],'attributes':{'a':{'string':['x']}}}]",
		    &paths) < 0)
		fail_msg("%s", error.message);
	attributes = attributes_of(paths);
	assert_int_equal(json_object_size(attributes), 4);
	json_decref(attributes);
	attributes = NULL;
	if (use("a\n", device, &again) < 0)
		fail_msg("%s", error.message);
	assert_int_equal(plugin_metadata_write(metadata, true), USEC_INFINITY);
	attributes = attributes_of(paths);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (!json_object_get(attributes, wanted[i]))
			fail_msg("%s is missing", wanted[i]);
	assert_int_equal(json_object_size(attributes), ARRAY_SIZE(wanted));
}

static void test_P10_malformed(void **state)
{
	static const char *const devices[] = { "", "x", "{}", "null", "[1]", "[{}]", "[{'id':''}]",
		"[{'id':'a','id':'a'}]",
		"[{'id':'0123456789012345678901234567890123456789012345678901234567890123'}]",
		"[{'id':'a'}", NULL };
	_cleanup_free_ char *paths = NULL, *many = NULL;
	size_t size;
	FILE *stream;

	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		if (use("a\n", devices[i], &paths) != -EBADMSG)
			fail_msg("%s", devices[i]);
	assert_int_equal(use("01234567890123456789012345678901234567890123456789012345678901234567"
			     "890123456789\n",
				 "[]", &paths),
		-EBADMSG);
	stream = open_memstream(&many, &size);
	for (size_t i = 0; i <= ATTRIBUTES_DEVICES_MAX; i++)
		(void)fprintf(stream, "%c{'id':'a%zu'}", i > 0 ? ',' : '[', i);
	(void)fprintf(stream, "]");
	assert_int_equal(fclose(stream), 0);
	assert_int_equal(use("a\n", many, &paths), -EBADMSG);
	/* Nothing was written; a device without attributes is a device. */
	assert_int_equal(use("a\n", "[]", &paths), 0);
}

/* As many devices as a message may have, each with all the attributes that the API accepts. */
static char *make_large(const char *digit, char **ret_ids)
{
	char *devices, *ids, value[ATTRIBUTE_VALUE_MAX + 1];
	size_t size, ids_size;
	FILE *stream = open_memstream(&devices, &size), *lines = open_memstream(&ids, &ids_size);

	memset(value, *digit, ATTRIBUTE_VALUE_MAX);
	value[ATTRIBUTE_VALUE_MAX] = '\0';
	for (size_t i = 0; i < ATTRIBUTES_DEVICES_MAX; i++) {
		(void)fprintf(lines, "d%03zu\n", i);
		(void)fprintf(stream, "%c{'id':'d%03zu','attributes':{", i > 0 ? ',' : '[', i);
		for (size_t k = 0; k < ATTRIBUTES_MAX; k++)
			(void)fprintf(stream, "%s'attribute_%zu':{'string':'%s'}", k > 0 ? "," : "",
				k, value);
		(void)fprintf(stream, "}}");
	}
	(void)fprintf(stream, "]");
	assert_int_equal(fclose(stream), 0);
	assert_int_equal(fclose(lines), 0);
	*ret_ids = ids;
	return devices;
}

/* A child cannot fill the host's memory. */
static void test_P12_limit(void **state)
{
	_cleanup_free_ char *ids = NULL, *devices = make_large("0", &ids), *more = NULL;
	size_t n = 0;
	int r;

	/* Another set of devices each time. */
	do {
		_cleanup_free_ char *paths = NULL;

		r = use(ids + n * strlen("d000\n"), devices, &paths);
	} while (r >= 0 && ++n < 40);
	assert_int_equal(r, -ENOSPC);
	assert_in_range(n, 10, 30);
	assert_non_null(strstr(error.message, "would have more than 16777216 bytes"));
	(void)format_text(&more, "%sd200\n", ids);
	assert_int_equal(use(more, "[]", NULL), -E2BIG);
	/* Its other files stay what they are. */
	assert_int_equal(plugin_metadata_write(metadata, false), USEC_INFINITY);
}

static void test_P12_many_sets(void **state)
{
	_cleanup_free_ char *paths = NULL;
	char ids[16];
	int r = 0, n = 0;

	for (; n < 5000 && r >= 0; n++) {
		free(paths);
		paths = NULL;
		(void)snprintf(ids, sizeof(ids), "a%d\n", n);
		r = use(ids, "[]", &paths);
	}
	assert_int_equal(r, -ENOSPC);
	assert_int_equal(n, 1025);
	/* One that is there still serves. */
	assert_int_equal(use("a7\n", "[]", &paths), 0);
}

static json_int_t generation_of(char *paths)
{
	json_auto_t *object = NULL;

	paths[strcspn(paths, "\n")] = '\0';
	object = load_file(paths);
	return json_integer_value(
		json_object_get(json_object_get(object, "metadata"), "generation"));
}

/* A child that changes attributes all the time does not keep devplugd from other work. */
static void test_P12_changes(void **state)
{
	_cleanup_free_ char *ids = NULL, *before = make_large("0", &ids), *same_ids = NULL;
	_cleanup_free_ char *now = make_large("1", &same_ids);
	char *paths[3] = { 0 };
	_cleanup_close_ int fd = sealed(now);

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		assert_int_equal(use(ids + i * strlen("d000\n"), before, &paths[i]), 0);
	assert_int_equal(plugin_metadata_update(metadata, &child, fd), 0);
	assert_int_equal(
		generation_of(paths[0]) + generation_of(paths[1]) + generation_of(paths[2]), 4);
	assert_int_not_equal(plugin_metadata_write(metadata, false), USEC_INFINITY);
	assert_int_equal(plugin_metadata_write(metadata, true), USEC_INFINITY);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		assert_int_equal(generation_of(paths[i]), 2);
		free(paths[i]);
	}
	/* The same again changes nothing. */
	assert_int_equal(plugin_metadata_update(metadata, &child, fd), 0);
	assert_int_equal(plugin_metadata_write(metadata, false), USEC_INFINITY);
}

static void wait_until(uint64_t time)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (time != USEC_INFINITY && time > now)
		assert_int_equal(usleep((useconds_t)(time - now)), 0);
}

/* A file is written in its turn, although files before it change all the time. */
static void test_P12_turns(void **state)
{
	_cleanup_free_ char *ids = NULL, *before = make_large("0", &ids), *same_ids = NULL;
	_cleanup_free_ char *now = make_large("1", &same_ids), *last = NULL;
	_cleanup_close_ int other = sealed("[{'id':'z','attributes':{'new':{'int':1}}}]");
	_cleanup_close_ int first = sealed(before), second = sealed(now);

	for (size_t i = 0; i < 3; i++) {
		_cleanup_free_ char *paths = NULL;

		assert_int_equal(use(ids + i * strlen("d000\n"), before, &paths), 0);
	}
	assert_int_equal(use("z\n", "[]", &last), 0);
	assert_int_equal(plugin_metadata_update(metadata, &child, second), 0);
	assert_int_equal(plugin_metadata_update(metadata, &child, other), 0);
	for (int i = 0; i < 8 && generation_of(last) == 1; i++) {
		assert_int_equal(
			plugin_metadata_update(metadata, &child, i % 2 ? second : first), 0);
		wait_until(plugin_metadata_write(metadata, false));
	}
	assert_int_equal(generation_of(last), 2);
}

static off_t size_of_file(char *paths)
{
	struct stat st;

	paths[strcspn(paths, "\n")] = '\0';
	return stat(paths, &st) < 0 ? -1 : st.st_size;
}

/* Follows a checkpoint that names only this file, for devices from `first` on. */
static void follow_from(size_t first, char *path)
{
	struct booked_answer answer = { .metadata = path };
	struct kubelet_checkpoint_row rows[ATTRIBUTES_DEVICES_MAX];
	char names[ATTRIBUTES_DEVICES_MAX][8];
	struct kubelet_checkpoint checkpoint = { .rows = rows };

	for (size_t i = first; i < ATTRIBUTES_DEVICES_MAX; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "d%03u", (unsigned)i & 127);
		rows[checkpoint.count++] =
			(struct kubelet_checkpoint_row){ .resource = resource.name,
				.id = names[i],
				.pod_uid = "u",
				.container = "c",
				.answer = &answer };
	}
	plugin_metadata_follow(
		metadata, &checkpoint, now_usec(CLOCK_MONOTONIC) + 3600 * USEC_PER_SEC);
	assert_int_equal(plugin_metadata_write(metadata, true), USEC_INFINITY);
}

/* Files that were small do not become too large together. */
static void test_P12_growth(void **state)
{
	_cleanup_free_ char *ids = NULL, *devices = make_large("0", &ids);
	_cleanup_close_ int fd = sealed(devices);
	char *paths[40] = { 0 };
	off_t size = 0;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		assert_int_equal(use(ids + i * strlen("d000\n"), "[]", &paths[i]), 0);
	assert_int_equal(plugin_metadata_update(metadata, &child, fd), 0);
	/* What has no room is not tried again before something changes. */
	assert_int_equal(plugin_metadata_write(metadata, true), USEC_INFINITY);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		size += size_of_file(paths[i]);
	assert_in_range(size, 12 << 20, 16 << 20);
	assert_in_range(size_of_file(paths[39]), 1, 100 << 10);
	/* Without the others, it has. */
	follow_from(39, paths[39]);
	assert_int_equal(access(paths[38], F_OK), -1);
	assert_in_range(size_of_file(paths[39]), 200 << 10, 2 << 20);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		free(paths[i]);
}

/* Follows a checkpoint with one answer for a device, which mounts a file of the host. */
static void follow(const char *of, const char *id, const char *host, uint64_t written_at)
{
	char path[256];
	struct booked_answer answer = { .metadata = path };
	struct kubelet_checkpoint_row row = {
		.resource = of, .id = id, .pod_uid = "u", .container = "c", .answer = &answer
	};
	const struct kubelet_checkpoint checkpoint = { .rows = &row, .count = host ? 1 : 0 };

	(void)snprintf(path, sizeof(path), "%s", host ?: "");
	plugin_metadata_follow(metadata, &checkpoint, written_at);
	(void)plugin_metadata_write(metadata, true);
}

static void restart(void)
{
	metadata = plugin_metadata_free(metadata);
	published = published_free(published);
	assert_int_equal(published_new(run_dir, &published), 0);
	judge_by(config, true);
	manager.published = published;
	assert_int_equal(plugin_metadata_new(&manager, &metadata), 0);
}

/* Stored answers restore the file for the devices that they are for, and nothing else. */
static void test_P18_stored_answers(void **state)
{
	_cleanup_free_ char *path = NULL, *other = NULL, *elsewhere = NULL;
	uint64_t later = now_usec(CLOCK_MONOTONIC) + 3600 * USEC_PER_SEC;

	assert_int_equal(use("a\n", "[]", &path), 0);
	assert_int_equal(use("b\n", "[]", &other), 0);
	path[strcspn(path, "\n")] = other[strcspn(other, "\n")] = '\0';
	assert_string_not_equal(path, other);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(other), 0);
	restart();
	host_mkdir("/evil");
	host_mkdir("/evil/devplugd.metadata");
	(void)format_text(&elsewhere, "%s/evil/devplugd.metadata%s", host_root, strrchr(path, '/'));
	follow("vendor.example/card", "b", path, 0);
	follow("vendor.example/nic", "a", path, 0);
	follow("vendor.example/card", "a", elsewhere, 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(access(other, F_OK), -1);
	assert_int_equal(access(elsewhere, F_OK), -1);
	follow("vendor.example/card", "a", path, 0);
	assert_int_equal(access(path, F_OK), 0);

	/* While nothing is known, and until the checkpoint is newer than the answer, it stays. */
	plugin_metadata_follow(metadata, NULL, later);
	follow(NULL, NULL, NULL, 0);
	assert_int_equal(access(path, F_OK), 0);
	free(other);
	other = NULL;
	assert_int_equal(use("b\n", "[]", &other), 0);
	other[strcspn(other, "\n")] = '\0';
	follow("vendor.example/card", "a", path, now_usec(CLOCK_MONOTONIC));
	assert_int_equal(access(other, F_OK), 0);
	follow("vendor.example/card", "a", path, later);
	assert_int_equal(access(other, F_OK), -1);
	assert_int_equal(access(path, F_OK), 0);
	follow(NULL, NULL, NULL, later);
	assert_int_equal(access(path, F_OK), -1);
}

/* The kubelet may not write its checkpoint again, so a file must go with the first checkpoint
 * that lacks it, unless the answer may not be booked yet. */
static void test_P22_short_pod(void **state)
{
	_cleanup_free_ char *path = NULL, *again = NULL;
	uint64_t asked_at;

	assert_int_equal(use("a\n", "[]", &path), 0);
	path[strcspn(path, "\n")] = '\0';
	asked_at = now_usec(CLOCK_MONOTONIC);
	follow(NULL, NULL, NULL, asked_at + 1);
	assert_int_equal(access(path, F_OK), 0);
	follow("vendor.example/card", "a", path, asked_at + 2);
	assert_int_equal(access(path, F_OK), 0);
	/* The next pod gets the device again. */
	assert_int_equal(use("a\n", "[]", &again), 0);
	asked_at = now_usec(CLOCK_MONOTONIC);
	follow(NULL, NULL, NULL, asked_at + 1);
	assert_int_equal(access(path, F_OK), 0);
	follow("vendor.example/card", "a", path, asked_at + 2);
	follow(NULL, NULL, NULL, asked_at + 3);
	assert_int_equal(access(path, F_OK), -1);
}

/* What another process has written into the file is replaced, and no generation is used twice. */
static void test_P18_damaged_file(void **state)
{
	static const char *const damage[] = {
		"",
		"x",
		"{}",
		"{\"metadata\":{\"generation\":-1}}",
		("{\"metadata\":{\"generation\":7},\"requests\":[{\"devices\":[{\"name\":\"../a\","
		 "\"attributes\":{\"x\":{\"string\":\"y\"}}},{\"name\":\"b\",\"attributes\":1}]}]}"),
	};
	static const json_int_t generations[] = { 1, 1, 1, 1, 8 };
	_cleanup_free_ char *path = NULL;
	size_t length;

	assert_int_equal(use("a\n", "[]", &path), 0);
	length = strcspn(path, "\n");
	for (size_t i = 0; i < ARRAY_SIZE(damage); i++) {
		_cleanup_free_ char *again = NULL;
		json_auto_t *object = NULL;
		FILE *stream;

		path[length] = '\0';
		stream = fopen(path, "we");
		assert_non_null(stream);
		(void)fputs(damage[i], stream);
		assert_int_equal(fclose(stream), 0);
		restart();
		assert_int_equal(use("a\n", "[]", &again), 0);
		object = load_file(path);
		assert_int_equal(json_integer_value(json_object_get(
					 json_object_get(object, "metadata"), "generation")),
			generations[i]);
	}
}

/* A container that was refused needs no file. */
static void test_P18_not_written(void **state)
{
	_cleanup_free_ char *paths = NULL;

	host_mkdir("/deep");
	host_mkdir("/deep/cdi");
	host_write("/deep/cdi/devplugd.metadata", "");
	assert_true(use("a\n", "[]", &paths) < 0);
	assert_non_null(strstr(error.message, "cannot write"));
	assert_int_equal(plugin_metadata_write(metadata, false), USEC_INFINITY);
	host_remove("/deep/cdi/devplugd.metadata");
	assert_int_equal(use("a\n", "[]", &paths), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_P10_attributes, begin, end),
		cmocka_unit_test_setup_teardown(test_P10_malformed, begin, end),
		cmocka_unit_test_setup_teardown(test_P12_limit, begin, end),
		cmocka_unit_test_setup_teardown(test_P12_many_sets, begin, end),
		cmocka_unit_test_setup_teardown(test_P12_changes, begin, end),
		cmocka_unit_test_setup_teardown(test_P12_turns, begin, end),
		cmocka_unit_test_setup_teardown(test_P12_growth, begin, end),
		cmocka_unit_test_setup_teardown(test_P18_stored_answers, begin, end),
		cmocka_unit_test_setup_teardown(test_P22_short_pod, begin, end),
		cmocka_unit_test_setup_teardown(test_P18_not_written, begin, end),
		cmocka_unit_test_setup_teardown(test_P18_damaged_file, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
