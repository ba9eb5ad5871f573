/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workarounds for gRPC answer one question themselves, pass on every other, and call
 * Abseil's function where the build has found it. Without them there is nothing to test.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef DEVPLUGD_ABSEIL_DEADLOCKS
static int detection = -1;

/* Takes the place of Abseil's. */
void set_detection(int what) __asm__(DEVPLUGD_ABSEIL_DEADLOCKS);
void set_detection(int what)
{
	detection = what;
}
#endif

#ifdef DEVPLUGD_GRPC_WORKAROUNDS

/* As gRPC finds it, also in a program that does not call it. */
static void test_sysconf(void **state)
{
	long (*found)(int);

	*(void **)&found = dlsym(RTLD_DEFAULT, "sysconf");
	assert_int_equal(found(_SC_NPROCESSORS_CONF), 2);
	assert_int_equal(found(_SC_PAGESIZE), getpagesize());
	assert_int_equal(found(-1), -1);
}

static void test_no_deadlock_detection(void **state)
{
	#ifdef DEVPLUGD_ABSEIL_DEADLOCKS
	assert_int_equal(detection, 0);
	#else
	skip();
	#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sysconf),
		cmocka_unit_test(test_no_deadlock_detection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	return 0;
}

#endif
