/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet's file of claims: what is read of it, and that anything else is refused as a whole.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/crc32.h"
#include "supervisor/kubelet/kubelet-claims.h"
#include "tests/unit/directory-fixture.h"

#define CLAIMS(list)                                                                       \
	"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\"," \
	"\"ClaimInfoStateList\":" list "}"
#define CLAIM(uid)                                                                                \
	"{\"ClaimUID\":\"" uid "\",\"ClaimName\":\"c\",\"Namespace\":\"default\",\"PodUIDs\":{}," \
	"\"DriverState\":{}}"

static struct error error;

/* The UIDs in a file with that document, or NULL. */
static json_t *read_document(const char *document, uint32_t checksum)
{
	json_auto_t *file =
		json_pack("{s:s, s:I}", "Data", document, "Checksum", (json_int_t)checksum);
	json_t *uids;

	assert_int_equal(json_dump_file(file, in_dir(KUBELET_CLAIMS_FILE), JSON_COMPACT), 0);
	return kubelet_claims_read(dir, &uids, &error) < 0 ? NULL : uids;
}

static json_t *read_valid(const char *document)
{
	return read_document(document, crc32_ieee(document, strlen(document)));
}

static void test_crc32(void **state)
{
	/* The check value of CRC-32 in catalogues of such functions. */
	assert_int_equal(crc32_ieee("123456789", 9), 0xcbf43926);
	assert_int_equal(crc32_ieee("", 0), 0);
}

static void test_good(void **state)
{
	json_auto_t *uids = read_valid(CLAIMS("[" CLAIM("u-1") "," CLAIM("u-2") "]"));
	json_auto_t *none = read_valid(CLAIMS("null")), *empty = read_valid(CLAIMS("[]"));

	assert_int_equal(json_object_size(uids), 2);
	assert_non_null(json_object_get(uids, "u-1"));
	assert_non_null(json_object_get(uids, "u-2"));
	assert_true(json_is_object(none) && json_object_size(none) == 0);
	assert_true(json_is_object(empty) && json_object_size(empty) == 0);
}

static void test_unknown_form(void **state)
{
	static const char *const documents[] = {
		"",
		"{",
		"[]",
		"{}",
		CLAIMS("{}"),
		CLAIMS("[7]"),
		CLAIMS("[{}]"),
		CLAIMS("[" CLAIM("") "]"),
		CLAIMS("[],\"ClaimInfoStateList\":[]"),
		"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\"}",
		"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v2\","
		"\"ClaimInfoStateList\":[]}",
		"{\"kind\":\"Other\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\","
		"\"ClaimInfoStateList\":[]}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(documents); i++) {
		json_auto_t *uids = read_valid(documents[i]);

		if (uids)
			fail_msg("accepted: %s", documents[i]);
		assert_non_null(strstr(error.message, KUBELET_CLAIMS_FILE));
	}
	assert_null(read_document(CLAIMS("[]"), 1));
}

static void test_missing(void **state)
{
	json_t *uids = NULL;

	assert_int_equal(kubelet_claims_read(dir, &uids, &error), -ENOENT);
	assert_null(uids);
}

/* The kubelet replaces the file while it is opened. */
static void test_replaced_meanwhile(void **state)
{
	char path[512], beside[520], text[1024] = "";
	ssize_t size;
	int fd, r = 0;
	pid_t pid;

	json_decref(read_valid(CLAIMS("[" CLAIM("u-1") "]")));
	(void)snprintf(path, sizeof(path), "%s", in_dir(KUBELET_CLAIMS_FILE));
	(void)snprintf(beside, sizeof(beside), "%s.new", path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	size = read(fd, text, sizeof(text));
	assert_true(size > 0 && close(fd) == 0);
	pid = fork();
	assert_true(pid >= 0);
	while (pid == 0) {
		fd = open(beside, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (write(fd, text, (size_t)size) != size || close(fd) < 0 ||
			rename(beside, path) < 0)
			_exit(1);
	}
	for (unsigned i = 0; i < 20000 && r >= 0; i++) {
		json_auto_t *uids = NULL;

		r = kubelet_claims_read(dir, &uids, &error);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)unlink(beside);
	if (r < 0)
		fail_msg("%s", error.message);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crc32),
		TEST(test_good),
		TEST(test_unknown_form),
		TEST(test_missing),
		TEST(test_replaced_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
