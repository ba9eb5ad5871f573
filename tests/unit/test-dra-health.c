/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message with the health of all devices that the kubelet gets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/kubelet.h"
#include "dra/dra-health.h"
#include "drahealth.pb-c.h"

#define NOW 1700000000

static Drahealth__NodeWatchResourcesResponse *encode(const json_t *names, size_t *ret_size)
{
	Drahealth__NodeWatchResourcesResponse *response;
	_cleanup_free_ uint8_t *data = NULL;

	assert_int_equal(dra_health_encode(names, "node-a", "d.example", NOW, &data, ret_size), 0);
	response = drahealth__node_watch_resources_response__unpack(NULL, *ret_size, data);
	assert_non_null(response);
	return response;
}

static void test_reasons(void **state)
{
	json_auto_t *names = json_pack("{s:{s:b, s:s}, s:{s:b, s:s}}", "good", "healthy", 1,
		"reason", "", "bad", "healthy", 0, "reason", "fan 3 has stopped");
	Drahealth__NodeWatchResourcesResponse *response;
	size_t size;

	response = encode(names, &size);
	assert_int_equal(response->n_devices, 2);
	for (size_t i = 0; i < 2; i++) {
		const Drahealth__DeviceHealth *health = response->devices[i];
		bool good = streq(health->device->device_name, "good");

		assert_string_equal(health->device->pool_name, "node-a");
		assert_int_equal(health->health,
			good ? DRAHEALTH__HEALTH_STATUS__HEALTHY
			     : DRAHEALTH__HEALTH_STATUS__UNHEALTHY);
		assert_string_equal(health->message, good ? "" : "fan 3 has stopped");
		assert_int_equal(health->last_updated_time, NOW);
	}
	drahealth__node_watch_resources_response__free_unpacked(response, NULL);
}

/* A kubelet would refuse the message, and with it the health of all devices. */
static void test_too_large(void **state)
{
	json_auto_t *names = json_object();
	Drahealth__NodeWatchResourcesResponse *response;
	char name[32], reason[1025];
	size_t size;

	memset(reason, 'x', sizeof(reason) - 1);
	reason[sizeof(reason) - 1] = '\0';
	for (unsigned i = 0; i < 5000; i++) {
		(void)snprintf(name, sizeof(name), "device-%u", i);
		(void)json_object_set_new(
			names, name, json_pack("{s:b, s:s}", "healthy", 0, "reason", reason));
	}
	response = encode(names, &size);
	assert_true(size <= KUBELET_MESSAGE_MAX);
	assert_int_equal(response->n_devices, 5000);
	assert_int_equal(response->devices[0]->health, DRAHEALTH__HEALTH_STATUS__UNHEALTHY);
	assert_string_equal(response->devices[0]->message, "");
	drahealth__node_watch_resources_response__free_unpacked(response, NULL);
}

/* The devices that fit include all that are not healthy. */
static void test_too_many(void **state)
{
	json_auto_t *names = json_object();
	Drahealth__NodeWatchResourcesResponse *response;
	size_t size, n_bad = 0;
	char name[64];

	for (unsigned i = 0; i < 100000; i++) {
		(void)snprintf(name, sizeof(name), "device-with-a-name-that-is-long-enough-%u", i);
		(void)json_object_set_new(names, name,
			json_pack("{s:b, s:s}", "healthy", i % 1000 != 0, "reason", ""));
	}
	response = encode(names, &size);
	assert_in_range(size, KUBELET_MESSAGE_MAX / 2, KUBELET_MESSAGE_MAX);
	for (size_t i = 0; i < response->n_devices; i++)
		n_bad += response->devices[i]->health == DRAHEALTH__HEALTH_STATUS__UNHEALTHY;
	assert_int_equal(n_bad, 100);
	drahealth__node_watch_resources_response__free_unpacked(response, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
