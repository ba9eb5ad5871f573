/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the publisher keeps after an allocation failed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "dra/dra-publisher.h"

static size_t n_allocations, failing; /* 0: none */

static void *allocate(size_t size)
{
	return ++n_allocations == failing ? NULL : malloc(size);
}

static json_t *resources_with(const char *id)
{
	json_t *resources = json_pack("[{s:s, s:[{s:s, s:s}]}]", "name", "v.e/gpu", "devices", "id",
		id, "health", "Healthy");

	assert_non_null(resources);
	return resources;
}

static void on_change(const struct dra_pool_state *pool, void *userdata)
{
}

/* The id of the only device. */
static const char *id_of(const struct dra_publisher *publisher)
{
	const char *name;
	json_t *device;

	json_object_foreach((json_t *)(uintptr_t)dra_publisher_names(publisher), name, device)
	{
		return json_string_value(json_object_get(device, "id"));
	}
	return "";
}

/* Each allocation of a change fails once: the change is made when it is asked for again, and until
 * then everything is as it was. */
static void test_no_memory(void **state)
{
	_cleanup_(dra_publisher_freep) struct dra_publisher *publisher = NULL;
	struct dra_api *api;
	sd_event *event;
	bool all = false;

	json_set_alloc_funcs(allocate, free);
	assert_true(sd_event_new(&event) >= 0);
	assert_int_equal(dra_api_new(event, &api), 0);
	assert_int_equal(
		dra_publisher_new(event, api, "d.example", "n", on_change, NULL, &publisher), 0);
	for (size_t i = 1; !all; i++) {
		json_auto_t *before = resources_with("before"), *after = resources_with("after");
		json_auto_t *held = json_object();
		int r;

		assert_int_equal(dra_publisher_set(publisher, before, held), 0);
		assert_string_equal(id_of(publisher), "before");
		n_allocations = 0;
		failing = i;
		r = dra_publisher_set(publisher, after, held);
		failing = 0;
		all = n_allocations < i;
		assert_string_equal(id_of(publisher), r < 0 ? "before" : "after");
		assert_int_equal(dra_publisher_set(publisher, after, held), 0);
		assert_string_equal(id_of(publisher), "after");
	}
	publisher = dra_publisher_free(publisher);
	(void)dra_api_free(api);
	sd_event_unref(event);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
