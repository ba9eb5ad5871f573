/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule for resource names: an accepted name must be valid for a kubelet, and a refusal has a
 * reason. complaints.md: R11.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/error.h"
#include "drivers/model/declaration.h"

static void test_valid(void **state)
{
	static const char *const names[] = {
		"vendor.example/gpu",
		"a/b",
		"0/0",
		"a-b.c--d.0/X_y.z-1",
		"intel.com/SR_IOV.v1",
		"kubernetes.io.example.com/x",
		"requestsx/y",
		"nvidia.com/mig-1g.5gb.shared",
		/* A label may be longer than 63. */
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/b",
		"v/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct error error = { 0 };

		if (resource_name_check(names[i], &error) < 0)
			fail_msg("%s", error.message);
		assert_int_equal(error.code, 0);
	}
}

#define BAD_PREFIX "must have only lower-case letters, digits, \"-\" and \".\" before the \"/\""
#define BAD_LABEL                                                                                 \
	"must have a letter or digit at the beginning and end of each part of the domain before " \
	"the \"/\""
#define BAD_TYPE "must have only letters, digits, \"-\", \"_\" and \".\" after the \"/\""
#define BAD_ENDS "must have a letter or digit first and last after the \"/\""
#define MANY     "has more than one \"/\": write DOMAIN/TYPE, such as \"vendor.example/gpu\""
#define OF_OTHERS                                                                                  \
	"is under kubernetes.io, which belongs to Kubernetes: use a domain that you own, such as " \
	"\"vendor.example\""

static void test_invalid(void **state)
{
	static const struct {
		const char *name, *message;
	} cases[] = {
		{ "gpu",
			"\"gpu\" has no \"/\": write DOMAIN/TYPE with a domain that you own, such as \"vendor.example/gpu\"" },
		{ "a/b/c", "\"a/b/c\" " MANY },
		{ "a//", "\"a//\" " MANY },
		{ "kubernetes.io/x", "\"kubernetes.io/x\" " OF_OTHERS },
		{ "node.kubernetes.io/x", "\"node.kubernetes.io/x\" " OF_OTHERS },
		{ "mykubernetes.io/x", "\"mykubernetes.io/x\" " OF_OTHERS },
		{ "requests.a/b",
			"\"requests.a/b\" begins with \"requests.\", which quotas of Kubernetes "
			"use: choose another domain" },
		{ "/gpu",
			"\"/gpu\" has nothing before the \"/\": add a domain that you own, such as \"vendor.example/gpu\"" },
		{ "Vendor.example/gpu",
			"\"Vendor.example/gpu\" has an upper-case letter before the \"/\": write the domain in lower case" },
		{ "a_b/c", "\"a_b/c\" " BAD_PREFIX },
		{ "a b/c", "\"a b/c\" " BAD_PREFIX },
		{ "\xc3\xa4/c", "\"\xc3\xa4/c\" " BAD_PREFIX },
		{ "-a/c", "\"-a/c\" " BAD_LABEL },
		{ "a-/c", "\"a-/c\" " BAD_LABEL },
		{ "a.-b/c", "\"a.-b/c\" " BAD_LABEL },
		{ "a-.b/c", "\"a-.b/c\" " BAD_LABEL },
		{ ".a/c", "\".a/c\" " BAD_LABEL },
		{ "a./c", "\"a./c\" " BAD_LABEL },
		{ "a..b/c", "\"a..b/c\" " BAD_LABEL },
		{ "-/c", "\"-/c\" " BAD_LABEL },
		{ "./c", "\"./c\" " BAD_LABEL },
		{ "a/", "\"a/\" has nothing after the \"/\": add the type of device, such as \"gpu\"" },
		{ "a/b c", "\"a/b c\" " BAD_TYPE },
		{ "a/b#c", "\"a/b#c\" " BAD_TYPE },
		{ "a/\xc3\xa4", "\"a/\xc3\xa4\" " BAD_TYPE },
		{ "a/-b", "\"a/-b\" " BAD_ENDS },
		{ "a/b.", "\"a/b.\" " BAD_ENDS },
		{ "a/_", "\"a/_\" " BAD_ENDS },
		{ "v/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
			"the part after the \"/\" is 64 bytes long, the maximum is 63" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error error = { 0 };

		if (resource_name_check(cases[i].name, &error) != -EINVAL)
			fail_msg("%s was accepted", cases[i].name);
		assert_string_equal(error.message, cases[i].message);
		assert_int_equal(resource_name_check(cases[i].name, NULL), -EINVAL);
	}
}

static void test_prefix_length(void **state)
{
	char name[300];
	struct error error = { 0 };

	memset(name, 'a', sizeof(name));
	(void)strcpy(name + 244, "/b");
	assert_int_equal(resource_name_check(name, NULL), 0);
	memset(name, 'a', sizeof(name));
	(void)strcpy(name + 245, "/b");
	assert_int_equal(resource_name_check(name, &error), -EINVAL);
	assert_string_equal(
		error.message, "the part before the \"/\" is 245 bytes long, the maximum is 244");
}

static void test_type(void **state)
{
	char name[] = "vendor.example/gpu";
	struct declaration declaration = { .name = name };

	assert_string_equal(declaration_type(&declaration), "gpu");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_valid),
		cmocka_unit_test(test_invalid),
		cmocka_unit_test(test_prefix_length),
		cmocka_unit_test(test_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
