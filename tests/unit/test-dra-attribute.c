/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and values of attributes within the limits of k8s.io/api/resource/v1. One invalid value
 * makes the API server refuse a whole ResourceSlice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "drivers/model/dra-attribute.h"

#define DIGITS_32 "a2345678901234567890123456789012"
#define DIGITS_64 DIGITS_32 DIGITS_32
/* 63 bytes in two labels. */
#define DOMAIN_63 "a23456789012345678901234567890.a23456789012345678901234567890.z"

static void test_names(void **state)
{
	static const struct {
		const char *name;
		bool valid;
	} cases[] = { { "firmware", true }, { "_Fw2", true }, { DIGITS_32, true },
		{ DIGITS_32 "3", false }, { "", false }, { "2fw", false }, { "fw-rev", false },
		{ "fw.rev", false }, { "k8s.cni.cncf.io/deviceID", true }, { "a/b", true },
		{ DOMAIN_63 "/" DIGITS_32, true }, { "x" DOMAIN_63 "/a", false }, { "/a", false },
		{ "a/", false }, { "a/b/c", false }, { "A.example/b", false },
		{ "a..example/b", false }, { "-a.example/b", false }, { "a-.example/b", false },
		{ "a.example./b", false }, { "a_b.example/c", false } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (attribute_name_is_valid(cases[i].name) != cases[i].valid)
			fail_msg("\"%s\"", cases[i].name);
}

static void test_built_in(void **state)
{
	static const char *const names[] = { "id", "resource", "resource.kubernetes.io/pciBusID",
		"resource.kubernetes.io/numaNode", "resource.kubernetes.io/later" };
	struct error error;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(form_attribute_name(names[i], &error), -EINVAL);
		assert_non_null(strstr(error.message, "which devplugd sets"));
	}
	assert_int_equal(form_attribute_name("k8s.cni.cncf.io/resourceName", &error), 0);
	assert_int_equal(form_attribute_name("model", &error), 0);
}

static void test_values(void **state)
{
	static const struct {
		enum attribute_type type;
		const char *text, *value; /* NULL: invalid */
	} cases[] = {
		{ ATTRIBUTE_STRING, "X 100", "X 100" },
		{ ATTRIBUTE_STRING, DIGITS_64, DIGITS_64 },
		{ ATTRIBUTE_STRING, DIGITS_64 "x", NULL },
		{ ATTRIBUTE_STRING, "\xff", NULL },
		{ ATTRIBUTE_STRING, "", NULL },
		{ ATTRIBUTE_INT, "0", "0" },
		{ ATTRIBUTE_INT, "-5", "-5" },
		{ ATTRIBUTE_INT, "016", "16" },
		{ ATTRIBUTE_INT, "0x1A", "26" },
		{ ATTRIBUTE_INT, "9223372036854775807", "9223372036854775807" },
		{ ATTRIBUTE_INT, "9223372036854775808", NULL },
		{ ATTRIBUTE_INT, "0x", NULL },
		{ ATTRIBUTE_INT, "0x-1", NULL },
		{ ATTRIBUTE_INT, "-", NULL },
		{ ATTRIBUTE_INT, " 1", NULL },
		{ ATTRIBUTE_INT, "1 lane", NULL },
		{ ATTRIBUTE_INT, "+1", NULL },
		{ ATTRIBUTE_BOOL, "true", "true" },
		{ ATTRIBUTE_BOOL, "0", "false" },
		{ ATTRIBUTE_BOOL, "Y", "true" },
		{ ATTRIBUTE_BOOL, "yes", NULL },
		{ ATTRIBUTE_VERSION, "580.126.20", "580.126.20" },
		{ ATTRIBUTE_VERSION, "535.054.03", "535.54.3" },
		{ ATTRIBUTE_VERSION, "v2", "2.0.0" },
		{ ATTRIBUTE_VERSION, "2.1", "2.1.0" },
		{ ATTRIBUTE_VERSION, "0.00.0", "0.0.0" },
		{ ATTRIBUTE_VERSION, "1.2.3-rc.1+build.05", "1.2.3-rc.1+build.05" },
		{ ATTRIBUTE_VERSION, "1.2.3+5", "1.2.3+5" },
		{ ATTRIBUTE_VERSION, "1.2.3-0", "1.2.3-0" },
		{ ATTRIBUTE_VERSION, "1.2.3-0a", "1.2.3-0a" },
		{ ATTRIBUTE_VERSION, "1.2.3-01", NULL },
		{ ATTRIBUTE_VERSION, "1.2.3-", NULL },
		{ ATTRIBUTE_VERSION, "1.2.3-a..b", NULL },
		{ ATTRIBUTE_VERSION, "1.2.3+", NULL },
		{ ATTRIBUTE_VERSION, "1.2.3.4", NULL },
		{ ATTRIBUTE_VERSION, "1.2.", NULL },
		{ ATTRIBUTE_VERSION, "1.2.3 ", NULL },
		{ ATTRIBUTE_VERSION, "A00", NULL },
		{ ATTRIBUTE_VERSION, "1.2.3-" DIGITS_64, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char value[ATTRIBUTE_VALUE_MAX + 1] = "unchanged";
		struct error error;
		int r = attribute_value_make(cases[i].type, cases[i].text, value, &error);

		if (r != (cases[i].value ? 0 : -EINVAL) ||
			!streq(value, cases[i].value ?: "unchanged"))
			fail_msg("\"%s\": \"%s\"", cases[i].text, value);
		if (r < 0)
			assert_non_null(startswith(error.message, "is "));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_built_in),
		cmocka_unit_test(test_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
