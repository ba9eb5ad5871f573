/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in for the kubelet merges what several plugins give to one container as a kubelet does,
 * and refuses messages that are not UTF-8 wherever the bytes hide.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kubelet/container.h"
#include "kubelet/plugin-text.h"
#include "kubelet/utf8-message.h"

static void merge(struct container *container, char *host_path, char *value)
{
	V1beta1__ContainerAllocateResponse response = V1BETA1__CONTAINER_ALLOCATE_RESPONSE__INIT;
	V1beta1__DeviceSpec device = V1BETA1__DEVICE_SPEC__INIT;
	V1beta1__Mount mount = V1BETA1__MOUNT__INIT;
	V1beta1__CDIDevice cdi = V1BETA1__CDIDEVICE__INIT;
	V1beta1__ContainerAllocateResponse__EnvsEntry env =
		V1BETA1__CONTAINER_ALLOCATE_RESPONSE__ENVS_ENTRY__INIT;
	V1beta1__DeviceSpec *devices[] = { &device };
	V1beta1__Mount *mounts[] = { &mount };
	V1beta1__CDIDevice *names[] = { &cdi };
	V1beta1__ContainerAllocateResponse__EnvsEntry *envs[] = { &env };

	device.container_path = mount.container_path = (char[]){ "/dev/x" };
	device.host_path = mount.host_path = host_path;
	cdi.name = host_path;
	env.key = (char[]){ "KEY" };
	env.value = value;
	response.n_devices = response.n_mounts = response.n_cdi_devices = response.n_envs = 1;
	response.devices = devices;
	response.mounts = mounts;
	response.cdi_devices = names;
	response.envs = envs;
	assert_int_equal(container_merge(container, &response), 0);
}

static void test_first_value_wins(void **state)
{
	_cleanup_container_ struct container container = {};
	_cleanup_json_ json_t *json = NULL, *expected = NULL;
	char first[] = "/dev/1", second[] = "/dev/2", one[] = "1", two[] = "2";

	assert_int_equal(container_init(&container), 0);
	merge(&container, first, one);
	merge(&container, first, one);
	assert_int_equal(container.dropped, 0);
	merge(&container, second, two);
	assert_int_equal(container.dropped, 3);
	json = container_to_json(&container);
	expected = json_pack("{s:[{s:s,s:s,s:s}], s:[{s:s,s:s,s:b}], s:{s:s}, s:{}, s:[s,s]}",
		"devices", "container_path", "/dev/x", "host_path", first, "permissions", "",
		"mounts", "container_path", "/dev/x", "host_path", first, "read_only", 0, "env",
		"KEY", one, "annotations", "cdi", first, second);
	assert_non_null(expected);
	assert_true(json_equal(json, expected));
}

static void test_utf8_at_any_depth(void **state)
{
	V1beta1__AllocateResponse response = V1BETA1__ALLOCATE_RESPONSE__INIT;
	V1beta1__ContainerAllocateResponse container = V1BETA1__CONTAINER_ALLOCATE_RESPONSE__INIT;
	V1beta1__ContainerAllocateResponse *containers[] = { &container };
	V1beta1__DeviceSpec device = V1BETA1__DEVICE_SPEC__INIT;
	V1beta1__DeviceSpec *devices[] = { &device };
	char good[] = "\xc3\xa4", bad[] = "\xff";

	assert_true(message_is_utf8(&response.base));
	response.n_container_responses = 1;
	response.container_responses = containers;
	container.n_devices = 1;
	container.devices = devices;
	device.host_path = good;
	assert_true(message_is_utf8(&response.base));
	device.host_path = bad;
	assert_false(message_is_utf8(&response.base));
}

static void test_utf8_of_ids(void **state)
{
	V1beta1__ContainerAllocateRequest request = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
	char good[] = "a", bad[] = "\xc0\xaf";
	char *ids[] = { good, bad };

	request.n_devices_ids = 1;
	request.devices_ids = ids;
	assert_true(message_is_utf8(&request.base));
	request.n_devices_ids = 2;
	assert_false(message_is_utf8(&request.base));
}

static void assert_repaired(const char *text, const char *expected)
{
	_cleanup_json_ json_t *json = text_json(text);

	assert_string_equal(json_string_value(json), expected);
}

static void test_text(void **state)
{
	char buffer[32];

	assert_repaired("", "");
	assert_repaired("\xc3\xa4", "\xc3\xa4");
	assert_repaired("a\xff\xfe"
			"b\xc3",
		"a\xef\xbf\xbd\xef\xbf\xbd"
		"b\xef\xbf\xbd");
	assert_string_equal(text_quote(buffer, sizeof(buffer), "a\"b\n\x01\xff\xc2\x9b\xc3\xa4"),
		"\"a\\\"b\\n\\x01\\xff\\u009b\xc3\xa4\"");
	assert_string_equal(text_quote(buffer, 16, "0123456789abcdef"), "\"0123456\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_value_wins),
		cmocka_unit_test(test_utf8_at_any_depth),
		cmocka_unit_test(test_utf8_of_ids),
		cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
