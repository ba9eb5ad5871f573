/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving back the pages of code: fewer are mapped, and all that is in memory is as it was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "supervisor/common/unused-code.h"
#include "supervisor/common/util.h"

/* Data that is written, data that the linker has relocated, and data that nobody writes. */
static int counter = 1;
static const char *const words[] = { "one", "two" };
static int (*const comparison)(const char *, const char *) = strcmp;
static const char constant[8192] = "constant";

/* Kilobytes of pages of files that are in memory and have not been written to. */
static unsigned long clean_file_pages(void)
{
	_cleanup_fclose_ FILE *stream = fopen("/proc/self/smaps", "re");
	char line[512], permissions[8] = "", path[256] = "";
	unsigned long sum = 0, value;

	assert_non_null(stream);
	while (fgets(line, sizeof(line), stream)) {
		if (sscanf(line, "%*x-%*x %7s %*x %*s %*u %255s", permissions, path) >= 1)
			continue;
		if (permissions[1] == '-' && path[0] == '/' &&
			(sscanf(line, "Shared_Clean: %lu", &value) == 1 ||
				sscanf(line, "Private_Clean: %lu", &value) == 1))
			sum += value;
	}
	return sum;
}

static void test_fewer_pages_are_mapped(void **state)
{
	unsigned long before, after;

	assert_string_equal(constant, "constant");
	before = clean_file_pages();
	release_unused_code();
	after = clean_file_pages();
	assert_true(before > 0);
	assert_true(after < before);
}

static void test_all_is_as_it_was(void **state)
{
	char *allocated = strdup("allocated");

	counter++;
	release_unused_code();
	assert_int_equal(counter, 2);
	assert_string_equal(words[0], "one");
	assert_string_equal(words[1], "two");
	assert_int_equal(comparison(allocated, "allocated"), 0);
	assert_string_equal(constant, "constant");
	free(allocated);
}

/* Of a page of its own, so that nothing else is in it. */
static __attribute__((aligned(4096))) const char patched[4096] = "as in the file";

static void test_what_was_written_to_stays(void **state)
{
	char *text = (char *)(uintptr_t)patched;

	assert_int_equal(mprotect(text, sizeof(patched), PROT_READ | PROT_WRITE), 0);
	memcpy(text, "patched", sizeof("patched"));
	assert_int_equal(mprotect(text, sizeof(patched), PROT_READ), 0);
	release_unused_code();
	assert_string_equal((const volatile char *)patched, "patched");
}

static void *work(void *stop)
{
	unsigned long rounds = 0;

	while (!atomic_load((atomic_bool *)stop)) {
		char text[32];

		(void)snprintf(text, sizeof(text), "%lu", rounds);
		if (strtoul(text, NULL, 10) != rounds)
			return NULL;
		rounds++;
	}
	return stop;
}

static void test_other_threads_go_on(void **state)
{
	atomic_bool stop = false;
	pthread_t threads[4];
	void *result;

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, &stop), 0);
	for (unsigned i = 0; i < 200; i++)
		release_unused_code();
	atomic_store(&stop, true);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_ptr_equal(result, &stop);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fewer_pages_are_mapped),
		cmocka_unit_test(test_all_is_as_it_was),
		cmocka_unit_test(test_other_threads_go_on),
		cmocka_unit_test(test_what_was_written_to_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
