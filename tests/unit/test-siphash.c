/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keyed hash against the reference values of its authors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/siphash.h"

static void test_reference(void **state)
{
	static const struct {
		size_t size;
		uint64_t hash;
	} cases[] = {
		{ 0, 0x726fdb47dd0e0e31ULL },
		{ 1, 0x74f839c593dc67fdULL },
		{ 7, 0xab0200f58b01d137ULL },
		{ 8, 0x93f5f5799a932462ULL },
		{ 15, 0xa129ca6149be45e5ULL },
		{ 63, 0x958a324ceb064572ULL },
	};
	unsigned char key[SIPHASH_KEY_SIZE], data[64];

	for (unsigned char i = 0; i < sizeof(data); i++) {
		data[i] = i;
		if (i < sizeof(key))
			key[i] = i;
	}
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_true(siphash24(data, cases[i].size, key) == cases[i].hash);
}

static void test_key_of_the_process(void **state)
{
	const unsigned char zero[SIPHASH_KEY_SIZE] = { 0 };

	assert_true(hash_foreign("a") == hash_foreign("a"));
	assert_true(hash_foreign("a") != hash_foreign("b"));
	assert_true(hash_foreign("a") != siphash24("a", 1, zero));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reference),
		cmocka_unit_test(test_key_of_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
