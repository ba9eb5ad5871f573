/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the document of a resource's process, and as the API server's answer: what is
 * published of the devices keeps the API's rules, and no unhealthy device can be allocated.
 */
#include <jansson.h>

#include "common/finding.h"
#include "common/json-read.h"
#include "dra/model/dra-slices.h"
#include "dra/model/slice-lacks.h"
#include "dra/model/slice-taints.h"
#include "dra/model/stored-slice.h"

#define DRIVER "d.example"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool condition)
{
	if (!condition)
		abort();
}

/* Returns whether the taint keeps pods away. */
static bool check_taint(const json_t *taint)
{
	const char *name = startswith(text_of(taint, "key"), DRIVER "/");
	const char *effect = text_of(taint, "effect"), *value = text_of(taint, "value");

	demand(name &&
		(finding_reason_is_valid(name) || streq(name, REASON_CLEANING) ||
			streq(name, REASON_CORDONED) || streq(name, REASON_MISSING) ||
			streq(name, REASON_UNHEALTHY)));
	demand(streq(effect, "NoSchedule") || streq(effect, "None"));
	demand(strlen(value) <= 63 && value[strspn(value, "abcdefghijklmnopqrstuvwxyz")] == '\0');
	return streq(effect, "NoSchedule");
}

static void check_device(const json_t *device, const json_t *names, unsigned lacks)
{
	const json_t *taints = json_object_get(device, "taints"), *taint;
	const json_t *known = json_object_get(names, text_of(device, "name"));
	bool blocked = false;
	size_t i;

	json_array_foreach(taints, i, taint) blocked |= check_taint(taint);
	demand(json_array_size(taints) <= DRA_TAINTS_MAX);
	demand(known && (blocked || json_is_true(json_object_get(known, "healthy"))));
	demand(!taints || !(lacks & 1U << LACK_TAINTS));
}

static void check_inventory(const json_t *resources, unsigned lacks)
{
	const struct dra_inventory_options options = { .driver = DRIVER, .lacks = lacks };
	const json_t *devices, *device;
	struct dra_inventory inventory;
	size_t i, k;

	if (dra_inventory_build(resources, &options, &inventory) < 0)
		abort();
	json_array_foreach(inventory.slices, i, devices)
	{
		demand(json_array_size(devices) <= DRA_SLICE_DEVICES_MAX);
		json_array_foreach(devices, k, device) check_device(device, inventory.names, lacks);
	}
	dra_inventory_done(&inventory);
}

/* The server may answer with anything. */
static void check_answer(const json_t *answer)
{
	static const char text[] =
		"{\"metadata\": {\"name\": \"s\"}, \"spec\": {\"devices\": [{\"name\": \"a\", "
		"\"attributes\": {\"id\": {\"string\": \"a\"}}, \"taints\": [{\"key\": \"k\", "
		"\"effect\": \"NoSchedule\"}]}]}}";
	json_auto_t *sent = json_loads(text, 0, NULL), *times = json_object();
	json_auto_t *settled = json_object();
	char other[SLICE_FIELD_MAX];

	demand(slice_lacks_dropped(sent, answer, other) < 1U << _LACK_MAX);
	demand(slice_lacks_used(answer) < 1U << _LACK_MAX);
	demand(slice_lacks_refused(sent, answer) < 1U << _LACK_MAX);
	(void)taint_times_take(times, answer);
	taint_times_set(times, sent);
	(void)stored_slice_settle(settled, sent, answer);
	(void)stored_slice_is_settled(settled, answer, sent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_auto_t *devices = dra_devices_read((const char *)data, size, NULL), *resources = NULL;
	json_auto_t *answer = json_loadb((const char *)data, size, 0, NULL);

	resources = json_pack("[{s:s, s:O*}]", "name", "v.e/gpu", "devices", devices);
	for (unsigned lacks = 0; lacks < 1U << LACK_OTHER; lacks++)
		check_inventory(resources, lacks);
	check_answer(answer);
	return 0;
}
