/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which answers of PodResources end a pod whose directory of logs was removed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "common/log.h"
#include "supervisor/books/pod-directories.h"
#include "supervisor/books/pod-resources.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"

#define INTERVAL USEC_PER_SEC

static char directory[64], logs[128];
static sd_event *event;
static struct pod_directories *directories;
static struct kubelet_checkpoint_row row = {
	.resource = "v.e/gpu", .id = "gpu-0", .pod_uid = "uid", .container = "c"
};
static const struct kubelet_checkpoint checkpoint = { .rows = &row, .count = 1 };
static struct pod_container container = { "default", "a", "c", "" };
static struct pod_device device = { &container, "v.e/gpu", "gpu-0", "" };
static const struct pod_table named = {
	.containers = &container, .n_containers = 1, .devices = &device, .n_devices = 1
};
static const struct pod_table nothing;

static void ignore_change(void *userdata)
{
}

/* A pod whose directory was removed while kubelet 1 runs. */
static int setup(void **state)
{
	(void)strcpy(directory, "/tmp/devplugd-test-pod-directories.XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	(void)snprintf(logs, sizeof(logs), "%s/default_a_uid", directory);
	assert_int_equal(mkdir(logs, 0700), 0);
	assert_int_equal(sd_event_new(&event), 0);
	assert_int_equal(pod_directories_new(event, ignore_change, NULL, &directories), 0);
	pod_directories_follow(directories, directory, true, 1);
	assert_true(pod_directories_look(directories, &checkpoint));
	assert_int_equal(rmdir(logs), 0);
	assert_true(pod_directories_look(directories, &checkpoint));
	return 0;
}

static int teardown(void **state)
{
	(void)rmdir(logs);
	directories = pod_directories_free(directories);
	event = sd_event_unref(event);
	return rmdir(directory);
}

/* Whether the pod has ended after an answer to a question so long after now. */
static bool ends(const struct pod_table *table, int error, uint64_t after)
{
	const struct pod_answer answer = {
		.table = table, .error = error, .asked_at = now_usec(CLOCK_MONOTONIC) + after
	};

	pod_directories_answered(directories, &checkpoint, &answer, INTERVAL);
	return pod_directories_lost(directories, "uid");
}

/* A kubelet that has run for the interval knows its pods. One that names the pod later is right. */
static void test_answers(void **state)
{
	assert_false(pod_directories_lost(directories, "uid"));
	assert_false(ends(&nothing, 0, 0));
	assert_false(ends(&named, 0, INTERVAL));
	assert_true(pod_directories_await(directories, 0));
	assert_true(ends(&nothing, 0, INTERVAL));
	assert_false(pod_directories_await(directories, 0));
	assert_false(ends(&named, 0, INTERVAL));
}

/* Only where there is no PodResources, the directory decides. */
static void test_failures(void **state)
{
	static const int errors[] = { -ECONNREFUSED, -ETIMEDOUT, -EMFILE, -EPIPE, -EACCES };

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		assert_false(ends(NULL, errors[i], INTERVAL));
	assert_true(ends(NULL, -ENOENT, INTERVAL));
}

/* It does not know the pods that ended before it started, from those that it has not heard of. */
static void test_next_kubelet(void **state)
{
	pod_directories_follow(directories, directory, true, 2);
	assert_false(ends(&nothing, 0, INTERVAL * 100));
	assert_int_equal(mkdir(logs, 0700), 0);
	assert_true(pod_directories_look(directories, &checkpoint));
	assert_non_null(pod_directories_find(directories, "uid"));
	assert_int_equal(rmdir(logs), 0);
	assert_true(pod_directories_look(directories, &checkpoint));
	assert_true(ends(&nothing, 0, INTERVAL));
}

/* The first question about a pod is soon, later ones are not. */
static void test_first_question(void **state)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	assert_true(pod_directories_await(directories, now - INTERVAL));
	assert_false(pod_directories_await(directories, now));
}

/* A checkpoint that cannot be read at the moment changes nothing. */
static void test_no_checkpoint(void **state)
{
	assert_true(pod_directories_look(directories, NULL));
	assert_true(pod_directories_await(directories, 0));
	assert_true(pod_directories_look(directories, &checkpoint));
	assert_true(ends(&nothing, 0, INTERVAL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failures, setup, teardown),
		cmocka_unit_test_setup_teardown(test_next_kubelet, setup, teardown),
		cmocka_unit_test_setup_teardown(test_first_question, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_checkpoint, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
