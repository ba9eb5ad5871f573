/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet's checkpoint: what is read of it, and that anything else is refused as a whole.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>

#include "supervisor/kubelet/kubelet-checkpoint.h"
#include "supervisor/kubelet/stored-answer.h"

static char directory[64], path[128];
static struct error error;

static int setup(void **state)
{
	(void)strcpy(directory, "/tmp/devplugd-test-checkpoint.XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/" CHECKPOINT_FILE, directory);
	return 0;
}

static int teardown(void **state)
{
	(void)remove(path);
	return remove(directory);
}

static void write_file(const char *text)
{
	FILE *stream = fopen(path, "we");

	assert_non_null(stream);
	(void)fputs(text, stream);
	assert_int_equal(fclose(stream), 0);
}

static int read_text(const char *text, struct kubelet_checkpoint **ret)
{
	write_file(text);
	return kubelet_checkpoint_read(directory, ret, &error);
}

#define ENTRY(devices)                                                                        \
	"{\"PodUID\":\"u\",\"ContainerName\":\"c\",\"ResourceName\":\"v.e/a\",\"DeviceIDs\":" \
	"{" devices "},\"AllocResp\":\"CgA=\"}"
#define DOCUMENT(entries)                                                                         \
	"{\"Data\":{\"PodDeviceEntries\":" entries ",\"RegisteredDevices\":{\"v.e/a\":[\"x\"]}}," \
	"\"Checksum\":4294967295}"

static void test_good(void **state)
{
	_cleanup_kubelet_checkpoint_ struct kubelet_checkpoint *checkpoint = NULL;

	assert_int_equal(
		read_text(DOCUMENT("[" ENTRY("\"-1\":[\"n#1\"],\"1\":[\"a\",\"b\"]") "," ENTRY(
				  "\"0\":null") "]"),
			&checkpoint),
		0);
	assert_int_equal(checkpoint->count, 3);
	for (size_t i = 0; i < checkpoint->count; i++) {
		const struct kubelet_checkpoint_row *row = &checkpoint->rows[i];

		assert_string_equal(row->resource, "v.e/a");
		assert_string_equal(row->pod_uid, "u");
		assert_string_equal(row->container, "c");
		assert_int_equal(row->node, row->id[0] == 'n' ? -1 : 1);
	}
}

#define ANSWER(base64)                                                                        \
	"{\"PodUID\":\"u\",\"ContainerName\":\"c\",\"ResourceName\":\"v.e/a\",\"DeviceIDs\":" \
	"{\"0\":[\"a\"]},\"AllocResp\":" base64 "}"

/* The kinds of the CDI devices in stored answers, each once. What is no answer has none, and does
 * not keep the rest from being read. */
static void test_kinds(void **state)
{
	static const struct {
		const char *answer;
		size_t count;
		const char *first;
	} cases[] = {
		{ "null", 0, NULL },
		{ "\"\"", 0, NULL },
		{ "\"CgA=\"", 0, NULL },
		/* envs {"A": "v.e/a=0"}, cdi_devices "v.e/a=0", "v.e/a=1" */
		{ "\"CgwKAUESB3YuZS9hPTAqCQoHdi5lL2E9MCoJCgd2LmUvYT0x\"", 1, "v.e/a" },
		/* "v.e/a=0", "w.e/b=0" */
		{ "\"KgkKB3YuZS9hPTAqCQoHdy5lL2I9MA==\"", 2, "v.e/a" },
		/* Cut off, a number where the name is, a name without "=", a length beyond the end.
		 */
		{ "\"KgkKB3YuZS9hPTAqCQoHdy5l\"", 1, "v.e/a" },
		{ "\"KgIIAQ==\"", 0, NULL },
		{ "\"KgMKAXY=\"", 0, NULL },
		{ "\"Kv///////////wE=\"", 0, NULL },
		{ "\"****\"", 0, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_kubelet_checkpoint_ struct kubelet_checkpoint *checkpoint = NULL;
		_cleanup_free_ char *text = NULL;

		assert_true(asprintf(&text, DOCUMENT("[" ANSWER("%s") "]"), cases[i].answer) > 0);
		assert_int_equal(read_text(text, &checkpoint), 0);
		assert_int_equal(checkpoint->count, 1);
		assert_int_equal(checkpoint->cdi_kinds.count, cases[i].count);
		if (cases[i].first)
			assert_string_equal(checkpoint->cdi_kinds.items[0], cases[i].first);
	}
}

static void assert_strings(const struct strings *strings, const char *const *expected)
{
	size_t i = 0;

	for (; expected[i]; i++) {
		assert_true(i < strings->count);
		assert_string_equal(strings->items[i], expected[i]);
	}
	assert_int_equal(strings->count, i);
}

/* The parts of an answer that may lead to another device some day. */
static void test_P21_parts(void **state)
{
	static const struct {
		const char *answer;
		const char *const nodes[4], *const values[4];
	} cases[] = {
		{ "\"\"", {}, {} },
		/* envs {"A": "b"}, mounts, devices /dev/x as /dev/y, /dev/z, /dev/x, /etc/x,
		 * annotations {"a.b/c": "d=e"} */
		{ "\"CgYKAUESAWISEgoGL21vdW50EggvZGV2L2FsbBoUCgYvZGV2L3kSBi9kZXYveBoCcncaCBIG"
		  "L2Rldi96GggSBi9kZXYveBoIEgYvZXRjL3giDAoFYS5iL2MSA2Q9ZQ==\"",
			{ "/dev/x", "/dev/z", "/dev/x" }, { "A=b", "a.b/c=d=e" } },
		/* A NUL in a path and in a value, a value with a line feed, no value. */
		{ "\"GgsSCS9kZXYveAAveQoHCgFBEgJiAAoICgFCEgNjCmQKAwoBQw==\"", {}, { "B=c?d" } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_kubelet_checkpoint_ struct kubelet_checkpoint *checkpoint = NULL;
		_cleanup_free_ char *text = NULL;

		assert_true(
			asprintf(&text, DOCUMENT("[" ANSWER("%s") "," ENTRY("\"0\":[\"b\"]") "]"),
				cases[i].answer) > 0);
		assert_int_equal(read_text(text, &checkpoint), 0);
		assert_int_equal(checkpoint->count, 2);
		assert_strings(&checkpoint->rows[0].answer->nodes, cases[i].nodes);
		assert_strings(&checkpoint->rows[0].answer->values, cases[i].values);
		assert_ptr_not_equal(checkpoint->rows[0].answer, checkpoint->rows[1].answer);
		assert_int_equal(checkpoint->rows[1].answer->nodes.count, 0);
	}
}

/* Blocks of three nodes or values, or a value of blocks of three bytes. */
static void test_P21_many_parts(void **state)
{
	static const struct {
		const char *head, *block;
		size_t n, nodes, values;
	} cases[] = {
		{ "", "GggSBi9kZXYveBoIEgYvZGV2L3gaCBIGL2Rldi94", STORED_NODES_MAX / 3,
			STORED_NODES_MAX / 3 * 3, 0 },
		{ "", "GggSBi9kZXYveBoIEgYvZGV2L3gaCBIGL2Rldi94", STORED_NODES_MAX / 3 + 1, 0, 0 },
		{ "", "CgYKAUESAWIKBgoBQRIBYgoGCgFBEgFi", STORED_VALUES_MAX / 3 + 1, 0,
			STORED_VALUES_MAX },
		{ "CoQQCgFBEv4P", "YWFh", STORED_VALUE_SIZE / 3, 0, 1 },
		{ "CocQCgFBEoEQ", "YWFh", STORED_VALUE_SIZE / 3 + 1, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_kubelet_checkpoint_ struct kubelet_checkpoint *checkpoint = NULL;
		_cleanup_free_ char *text = NULL;
		char answer[STORED_NODES_MAX * 16] = "\"", *at = answer + 1;

		at = stpcpy(at, cases[i].head);
		for (size_t k = 0; k < cases[i].n; k++)
			at = stpcpy(at, cases[i].block);
		(void)stpcpy(at, "\"");
		assert_true(asprintf(&text, DOCUMENT("[" ANSWER("%s") "]"), answer) > 0);
		assert_int_equal(read_text(text, &checkpoint), 0);
		assert_int_equal(checkpoint->rows[0].answer->nodes.count, cases[i].nodes);
		assert_int_equal(checkpoint->rows[0].answer->values.count, cases[i].values);
	}
}

/* As a kubelet writes it that has no pod yet. */
static void test_empty(void **state)
{
	static const char *const texts[] = {
		DOCUMENT("null"),
		DOCUMENT("[]"),
		"{\"Data\":{\"PodDeviceEntries\":null,\"RegisteredDevices\":null},\"Checksum\":1}",
		("{\"Data\":{\"PodDeviceEntries\":null,\"RegisteredDevices\":{}},\"Checksum\":1,"
		 "\"Later\":true}"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_kubelet_checkpoint_ struct kubelet_checkpoint *checkpoint = NULL;

		assert_int_equal(read_text(texts[i], &checkpoint), 0);
		assert_int_equal(checkpoint->count, 0);
	}
}

static void test_unknown_form(void **state)
{
	static const char *const texts[] = {
		"",
		"{",
		"[]",
		"7",
		"{}",
		"{\"Data\":{}}",
		"{\"Data\":[],\"Checksum\":1}",
		"{\"Data\":{\"PodDeviceEntries\":{},\"RegisteredDevices\":{}},\"Checksum\":1}",
		"{\"Data\":{\"PodDeviceEntries\":[],\"RegisteredDevices\":[]},\"Checksum\":1}",
		"{\"Data\":{\"PodDeviceEntries\":[],\"RegisteredDevices\":{}},\"Checksum\":\"1\"}",
		"{\"Data\":{\"PodDeviceEntries\":[],\"RegisteredDevices\":{}}}",
		DOCUMENT("[7]"),
		DOCUMENT("[{}]"),
		DOCUMENT("[" ENTRY("\"0\":[7]") "]"),
		DOCUMENT("[" ENTRY("\"0\":{}") "]"),
		DOCUMENT("[" ENTRY("\"0\":\"a\"") "]"),
		DOCUMENT("[" ENTRY("\"\":[\"a\"]") "]"),
		DOCUMENT("[" ENTRY("\"x\":[\"a\"]") "]"),
		DOCUMENT("[" ENTRY("\" 1\":[\"a\"]") "]"),
		DOCUMENT("[" ENTRY("\"1 \":[\"a\"]") "]"),
		DOCUMENT("[" ENTRY("\"-2\":[\"a\"]") "]"),
		DOCUMENT("[" ENTRY("\"65536\":[\"a\"]") "]"),
		DOCUMENT("[" ENTRY("\"0\":[\"a\"]},\"DeviceIDs\":{") "]"),
		/* Before Kubernetes 1.20. */
		DOCUMENT("[{\"PodUID\":\"u\",\"ContainerName\":\"c\",\"ResourceName\":\"v.e/a\","
			 "\"DeviceIDs\":[\"a\"],\"AllocResp\":\"\"}]"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct kubelet_checkpoint *checkpoint = NULL;

		if (read_text(texts[i], &checkpoint) != -EBADMSG)
			fail_msg("accepted: %s", texts[i]);
		assert_null(checkpoint);
		assert_non_null(strstr(error.message, CHECKPOINT_FILE));
	}
}

static void test_files(void **state)
{
	struct kubelet_checkpoint *checkpoint = NULL;
	int fd;

	assert_int_equal(kubelet_checkpoint_read(directory, &checkpoint, &error), -ENOENT);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(kubelet_checkpoint_read(directory, &checkpoint, &error), -EBADMSG);
	assert_int_equal(remove(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(kubelet_checkpoint_read(directory, &checkpoint, &error), -EBADMSG);
	assert_int_equal(remove(path), 0);
	assert_int_equal(symlink("/proc/kcore", path), 0);
	assert_int_equal(kubelet_checkpoint_read(directory, &checkpoint, &error), -ELOOP);
	assert_int_equal(remove(path), 0);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, CHECKPOINT_SIZE_MAX + 1), 0);
	(void)close(fd);
	assert_int_equal(kubelet_checkpoint_read(directory, &checkpoint, &error), -EFBIG);
	assert_null(checkpoint);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_good),
		TEST(test_kinds),
		TEST(test_P21_parts),
		TEST(test_P21_many_parts),
		TEST(test_empty),
		TEST(test_unknown_form),
		TEST(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
