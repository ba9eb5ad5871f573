/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantities as Kubernetes reads and stores them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "drivers/model/quantity.h"

static void test_numbers(void **state)
{
	static const struct {
		const char *text;
		int result;
		int64_t number;
	} cases[] = {
		{ "0", 0, 0 },
		{ "-0", 0, 0 },
		{ "+7", 0, 7 },
		{ "80Gi", 0, 80LL << 30 },
		{ "1.5Gi", 0, 3LL << 29 },
		{ ".5Ki", 0, 512 },
		{ "1.", 0, 1 },
		{ "5k", 0, 5000 },
		{ "2M", 0, 2000000 },
		{ "7E", 0, 7000000000000000000 },
		{ "7Ei", 0, 7LL << 60 },
		{ "1e3", 0, 1000 },
		{ "1E3", 0, 1000 },
		{ "1e+3", 0, 1000 },
		{ "12000e-3", 0, 12 },
		{ "1.5e1", 0, 15 },
		{ "0e99", 0, 0 },
		{ "1000m", 0, 1 },
		{ "2000000u", 0, 2 },
		{ "3000000000n", 0, 3 },
		{ "0000000000000000000000000000000000000000080", 0, 80 },
		{ "9223372036854775807", 0, INT64_MAX },
		{ "9223372036854775.807k", 0, INT64_MAX },
		/* Fractions are rounded up. */
		{ "500m", 1, 1 },
		{ "1n", 1, 1 },
		{ "1001m", 1, 2 },
		{ "1e-99", 1, 1 },
		{ "0.3Ki", 1, 308 },
		/* What is not from 0 to INT64_MAX. */
		{ "-1", -ERANGE, 0 },
		{ "-500m", -ERANGE, 0 },
		{ "-1Gi", -ERANGE, 0 },
		{ "8Ei", -ERANGE, 0 },
		{ "9223372036854775808", -ERANGE, 0 },
		{ "9223372036854775807.1", -ERANGE, 0 },
		{ "10E", -ERANGE, 0 },
		{ "1e99", -ERANGE, 0 },
		{ "999999999999999999999999999999Ei", -ERANGE, 0 },
		{ "1234567890123456789012345678901", -ERANGE, 0 },
		/* What is no quantity. */
		{ "", -EINVAL, 0 },
		{ ".", -EINVAL, 0 },
		{ "-", -EINVAL, 0 },
		{ "Gi", -EINVAL, 0 },
		{ "80GiB", -EINVAL, 0 },
		{ "80 Gi", -EINVAL, 0 },
		{ " 80", -EINVAL, 0 },
		{ "2K", -EINVAL, 0 },
		{ "2ki", -EINVAL, 0 },
		{ "2mi", -EINVAL, 0 },
		{ "1.2.3", -EINVAL, 0 },
		{ "1e", -EINVAL, 0 },
		{ "1e+", -EINVAL, 0 },
		{ "1e3Gi", -EINVAL, 0 },
		{ "1e1000", -EINVAL, 0 },
		{ "0x10", -EINVAL, 0 },
		{ "DDR4", -EINVAL, 0 },
		{ "--1", -EINVAL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int64_t number = 0;
		int r = quantity_read(cases[i].text, &number);

		if (r != cases[i].result || number != cases[i].number)
			fail_msg("\"%s\": %d, %lld", cases[i].text, r, (long long)number);
	}
}

/* The API server stores one form only. */
static void test_form(void **state)
{
	static const struct {
		int64_t number;
		const char *text;
	} cases[] = { { 0, "0" }, { 1, "1" }, { 999, "999" }, { 1000, "1k" }, { 1536, "1536" },
		{ 2048, "2Ki" }, { 5000, "5k" }, { 80LL << 30, "80Gi" }, { 1536LL << 20, "1536Mi" },
		{ 1024000, "1000Ki" }, { 7LL << 60, "7Ei" }, { 2000000, "2M" },
		{ INT64_MAX, "9223372036854775807" } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[QUANTITY_MAX + 1];
		int64_t number;

		quantity_write(cases[i].number, text);
		assert_string_equal(text, cases[i].text);
		assert_int_equal(quantity_read(text, &number), 0);
		assert_int_equal(number, cases[i].number);
	}
}

static void test_units(void **state)
{
	assert_int_equal(quantity_unit("Mi"), 1 << 20);
	assert_int_equal(quantity_unit("k"), 1000);
	assert_int_equal(quantity_unit("Ei"), 1LL << 60);
	assert_int_equal(quantity_unit(""), 0);
	assert_int_equal(quantity_unit("K"), 0);
	assert_int_equal(quantity_unit("ki"), 0);
	assert_int_equal(quantity_unit("MiB"), 0);
	assert_int_equal(quantity_unit("m"), 0);
}

/* Nothing that a text can contain makes it misbehave. */
static void test_all_short_texts(void **state)
{
	static const char characters[] = "019.-+eEkKMGimun ";
	size_t n = strlen(characters), total = n * n * n * n;

	for (size_t i = 0; i < total; i++) {
		char text[5] = { characters[i % n], characters[i / n % n],
			characters[i / n / n % n], characters[i / n / n / n], '\0' };
		int64_t number = -1;
		int r = quantity_read(text, &number);

		assert_true(r == 0 || r == 1 || r == -EINVAL || r == -ERANGE);
		assert_true((r >= 0) == (number >= 0));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_form),
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_all_short_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
