/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text member that is missing, empty or not a string, and an object that is none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/json-read.h"

static void test_text_members(void **state)
{
	json_t *object = json_pack("{s:s, s:s, s:i}", "name", "gpu", "empty", "", "number", 1);
	json_t *array = json_array();

	assert_string_equal(text_of(object, "name"), "gpu");
	assert_string_equal(mutable_text_of(object, "name"), "gpu");
	assert_string_equal(set_text_of(object, "name"), "gpu");
	assert_null(set_text_of(object, "empty"));
	assert_null(set_text_of(object, "number"));
	assert_string_equal(text_of(object, "number"), "");
	assert_string_equal(text_of(object, "missing"), "");
	assert_string_equal(text_of(array, "name"), "");
	assert_string_equal(text_of(NULL, "name"), "");
	json_decref(object);
	json_decref(array);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_text_members) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
