/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of each length, there and back; white space inside; what is not base64.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base64.h"

static void test_base64(void **state)
{
	static const char *const bad[] = { "A", "AAA", "A===", "AA=A", "AA-A", "====", "AAA=A===" };
	uint8_t bytes[70];
	size_t size;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 37);
	for (size_t n = 0; n < sizeof(bytes); n++) {
		_cleanup_free_ char *text = base64_encode(bytes, n);
		_cleanup_free_ uint8_t *back = NULL;

		assert_int_equal(base64_decode(text, &back, &size), 0);
		assert_int_equal(size, n);
		assert_memory_equal(back, bytes, n);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint8_t *back = NULL;

		assert_int_equal(base64_decode(bad[i], &back, &size), -EINVAL);
	}
}

static void test_white_space(void **state)
{
	_cleanup_free_ uint8_t *data = NULL;
	size_t size;

	assert_int_equal(base64_decode("aGVs\n \tbG8\r\n=\n", &data, &size), 0);
	assert_int_equal(size, 5);
	assert_memory_equal(data, "hello", 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_base64),
		cmocka_unit_test(test_white_space),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
