/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kubelet that does not support the version of the device plugin API is distinguished from one
 * that refuses for another reason, and the error has the remedy.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/plugin/api-version.h"

static void expect(const char *refusal, const char *wanted)
{
	char text[API_VERSION_TEXT_MAX] = "untouched";

	assert_int_equal(api_version_is_refused(refusal, text), wanted != NULL);
	assert_string_equal(text, wanted ?: "untouched");
}

static void test_register(void **state)
{
	expect("requested API version \"v1beta1\" is not supported by kubelet. Supported version "
	       "is [\"v1\"]",
		"this kubelet supports v1 of the device plugin API, this devplugd supports v1beta1: "
		"upgrade devplugd");
	expect("requested API version \"v1beta1\" is not supported by kubelet. Supported version "
	       "is [\"v1\" \"v2alpha1\"]",
		"this kubelet supports v1 v2alpha1 of the device plugin API, this devplugd supports "
		"v1beta1: upgrade devplugd");
}

static void test_plugin_watcher(void **state)
{
	expect("RegisterPlugin error -- plugin validation failed with err: manager version, v2, is "
	       "not among plugin supported versions [v1beta1]",
		"this kubelet supports v2 of the device plugin API, this devplugd supports v1beta1: "
		"upgrade devplugd");
}

static void test_other_refusals(void **state)
{
	expect("the ResourceName \"a\" is invalid", NULL);
	expect("failed to dial device plugin: context deadline exceeded", NULL);
	expect("", NULL);
}

static void test_hostile_text(void **state)
{
	char refusal[4096];

	expect("x is not supported by kubelet",
		"this kubelet supports another version of the device plugin API, this devplugd "
		"supports v1beta1: upgrade devplugd");
	(void)snprintf(refusal, sizeof(refusal),
		" is not supported by kubelet. Supported version is %03000d", 1);
	assert_true(api_version_is_refused(refusal, (char[API_VERSION_TEXT_MAX]){ 0 }));
	expect(" is not supported by kubelet. Supported version is \n\033[2J",
		"this kubelet supports another version of the device plugin API, this devplugd "
		"supports v1beta1: upgrade devplugd");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_register),
		cmocka_unit_test(test_plugin_watcher),
		cmocka_unit_test(test_other_refusals),
		cmocka_unit_test(test_hostile_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
