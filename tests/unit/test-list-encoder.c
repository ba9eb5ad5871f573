/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand-written encoder against protobuf-c: its output unpacks to the contents of the snapshot,
 * byte for byte as protobuf-c would pack it; and the answers of Allocate survive the same way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/kubelet.h"
#include "deviceplugin.pb-c.h"
#include "proto/message.h"
#include "proto/plugin/list-encoder.h"
#include "proto/plugin/response.h"
#include "proto/rpc.h"

static struct device *make_device(const char *id, const int *numa, size_t n_numa)
{
	struct device *device;

	assert_int_equal(device_new(id, &device), 0);
	for (size_t i = 0; i < n_numa; i++)
		assert_int_equal(device_add_numa(device, numa[i]), 0);
	return device;
}

static unsigned replicas_of(const struct snapshot_unit *unit)
{
	return unit->claimed_by_other ? 0 : unit->replicas;
}

static int encode(struct snapshot *snapshot, uint8_t **ret_list, size_t *ret_size)
{
	const struct offer offer = { .snapshot = snapshot };

	return list_encode(&offer, ret_list, ret_size);
}

static void assert_round_trip(struct snapshot *snapshot)
{
	_cleanup_free_ uint8_t *list = NULL, *packed = NULL;
	V1beta1__ListAndWatchResponse *response;
	size_t size, packed_size, k = 0, n_offered = 0;
	char buffer[OFFERED_ID_MAX + 1];

	assert_int_equal(encode(snapshot, &list, &size), 0);
	response = v1beta1__list_and_watch_response__unpack(NULL, size, list);
	assert_non_null(response);
	for (size_t i = 0; i < snapshot->n_units; i++)
		n_offered += replicas_of(&snapshot->units[i]);
	assert_int_equal(response->n_devices, n_offered);
	for (size_t i = 0; i < snapshot->n_units; i++)
		for (unsigned replica = 0; replica < replicas_of(&snapshot->units[i]);
			replica++, k++) {
			const struct snapshot_unit *unit = &snapshot->units[i];
			const V1beta1__Device *device = response->devices[k];

			assert_string_equal(
				device->id, snapshot_offered_id(snapshot, i, replica, buffer));
			assert_string_equal(
				device->health, unit->healthy ? "Healthy" : "Unhealthy");
			assert_int_equal(device->topology != NULL, unit->device->n_numa > 0);
			for (size_t n = 0; n < unit->device->n_numa; n++)
				assert_int_equal(
					device->topology->nodes[n]->id, unit->device->numa[n]);
		}
	assert_int_equal(message_pack(&response->base, &packed, &packed_size), 0);
	assert_int_equal(packed_size, size);
	assert_memory_equal(packed, list, size);
	v1beta1__list_and_watch_response__free_unpacked(response, NULL);
}

static void test_round_trip(void **state)
{
	static const int none[] = { -1 }, zero[] = { 0 }, several[] = { 3, 0, 200, 3 };
	char long_id[DEVICE_ID_MAX + 1];
	struct snapshot_unit units[5] = {};
	struct snapshot snapshot = { .units = units, .n_units = ARRAY_SIZE(units) };

	memset(long_id, 'x', DEVICE_ID_MAX);
	long_id[DEVICE_ID_MAX] = '\0';
	units[0] = (struct snapshot_unit){ .device = make_device("a", none, 1), .healthy = true };
	units[1] = (struct snapshot_unit){ .device = make_device("b", zero, 1), .healthy = true };
	units[2] = (struct snapshot_unit){ .device = make_device("c", several, 4) };
	units[3] = (struct snapshot_unit){ .device = make_device(long_id, several, 4) };
	units[4] = (struct snapshot_unit){ .device = make_device("z", NULL, 0) };
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		units[i].replicas = 1;
	assert_round_trip(&snapshot);
	snapshot.shared = true;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		units[i].replicas = 12 - (unsigned)i;
	assert_round_trip(&snapshot);
	snapshot.n_units = 0;
	assert_round_trip(&snapshot);
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		device_unref((struct device *)(uintptr_t)units[i].device);
}

/* While a kubelet admits its pods again, what they have is listed as healthy unless it is missing
 * or belongs to another resource. An id that is not booked never is. */
static void test_readmission(void **state)
{
	static const char *const kept[_CAUSE_MAX] = {
		[CAUSE_NONE] = "Healthy",
		[CAUSE_RETURNED] = "Healthy",
		[CAUSE_CORDONED] = "Healthy",
		[CAUSE_DEVICE] = "Healthy",
		[CAUSE_PROBE] = "Healthy",
		[CAUSE_UNPROBED] = "Healthy",
	};
	_cleanup_bookings_ struct bookings *booked = NULL;
	_cleanup_strings_ struct strings refused = { 0 };
	struct snapshot_unit units[_CAUSE_MAX] = {};
	struct snapshot snapshot = { .shared = true, .units = units, .n_units = _CAUSE_MAX };
	struct offer offer = { .snapshot = &snapshot };
	V1beta1__ListAndWatchResponse *response;
	_cleanup_free_ uint8_t *list = NULL;
	char id[] = "a", offered[] = "a#1";
	size_t size;

	assert_int_equal(bookings_new(&booked), 0);
	for (int cause = 0; cause < _CAUSE_MAX; cause++, id[0]++) {
		units[cause] = (struct snapshot_unit){ .device = make_device(id, NULL, 0),
			.replicas = 2,
			.healthy = cause == CAUSE_NONE,
			.cause = cause };
		offered[0] = id[0];
		assert_int_equal(bookings_add(booked, offered, BOOKED_IN_PLUGIN, NULL, 0, 0), 0);
	}
	assert_int_equal(bookings_sort(booked), 0);
	assert_int_equal(offer_readmit(&offer, booked, &(struct strings){ 0 }), 0);
	assert_int_equal(list_encode(&offer, &list, &size), 0);
	response = v1beta1__list_and_watch_response__unpack(NULL, size, list);
	assert_non_null(response);
	assert_int_equal(response->n_devices, 2 * _CAUSE_MAX);
	for (int cause = 0; cause < _CAUSE_MAX; cause++) {
		assert_string_equal(response->devices[2 * cause]->health,
			units[cause].healthy ? "Healthy" : "Unhealthy");
		assert_string_equal(response->devices[2 * cause + 1]->health,
			kept[cause] ? kept[cause] : "Unhealthy");
	}
	v1beta1__list_and_watch_response__free_unpacked(response, NULL);
	offer.readmitted = bookings_unref(offer.readmitted);

	/* What the kubelet has chosen for another pod has no pod to admit. */
	assert_int_equal(strings_add(&refused, "d#1", 3), 0);
	assert_int_equal(offer_readmit(&offer, booked, &refused), 0);
	for (int cause = 0; cause < _CAUSE_MAX; cause++) {
		offered[0] = (char)('a' + cause);
		assert_int_equal(offer_is_readmitted(&offer, offered),
			kept[cause] && cause != CAUSE_NONE && offered[0] != 'd');
	}
	(void)bookings_unref(offer.readmitted);
	for (int cause = 0; cause < _CAUSE_MAX; cause++)
		device_unref((struct device *)(uintptr_t)units[cause].device);
}

static void test_too_long_a_list_is_refused(void **state)
{
	struct device *device = make_device("0123456789", NULL, 0);
	struct snapshot_unit unit = { .device = device };
	struct snapshot snapshot = { .shared = true, .units = &unit, .n_units = 1 };
	uint8_t *list = NULL;
	size_t size = 0;

	/* An id "0123456789#NNNNN" of an unhealthy device takes 31 bytes. */
	unit.replicas = 130000;
	assert_int_equal(encode(&snapshot, &list, &size), 0);
	assert_true(size <= KUBELET_MESSAGE_MAX);
	free(list);
	list = NULL;
	unit.replicas = 140000;
	assert_int_equal(encode(&snapshot, &list, &size), -E2BIG);
	assert_null(list);
	device_unref(device);
}

/* Devices are sent one by one or as replicas, and are of all sizes. */
static void fill(struct snapshot *snapshot, struct device *const *devices, size_t n)
{
	snapshot->n_units = n;
	for (size_t i = 0; i < n; i++)
		snapshot->units[i] = (struct snapshot_unit){
			.device = devices[i],
			.replicas = snapshot->shared ? (unsigned)(i % 13) : 1,
			.healthy = rand() % 4 > 0,
			.claimed_by_other = rand() % 8 == 0,
		};
}

static struct snapshot *new_snapshot(bool shared, struct device *const *devices, size_t n)
{
	struct snapshot *snapshot = calloc(1, sizeof(*snapshot));

	assert_non_null(snapshot);
	atomic_init(&snapshot->references, 1);
	snapshot->shared = shared;
	snapshot->units = calloc(n + 1, sizeof(snapshot->units[0]));
	assert_non_null(snapshot->units);
	fill(snapshot, devices, n);
	return snapshot;
}

static void test_devices_of_all_kinds(void **state)
{
	enum { DEVICES = 40, ROUNDS = 300 };
	static const int several[] = { 3, 0, 200, 3 };
	struct device *devices[DEVICES];

	for (size_t i = 0; i < DEVICES; i++) {
		char id[DEVICE_ID_MAX + 1];

		/* Records below and above the 127 bytes that one length byte can express. */
		(void)snprintf(id, sizeof(id), "%02zu%.*s", i, (int)(i % 60),
			"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
		devices[i] = make_device(id, several, i % 5);
	}
	for (size_t round = 0; round < ROUNDS; round++) {
		size_t n = round % DEVICES;
		struct snapshot *before = new_snapshot(round % 2, devices, n);
		struct snapshot *after = new_snapshot(round % 2, devices, n);
		struct snapshot *other = new_snapshot(round % 3 == 0, devices + 1, n / 2);

		assert_int_equal(snapshot_keep_devices(before, NULL), 0);
		assert_int_equal(snapshot_keep_devices(after, before), 0);
		assert_int_equal(snapshot_keep_devices(other, after), 0);
		assert_true(snapshot_shares_devices(before, after));
		assert_true(n == 0 || !snapshot_shares_devices(after, other));
		assert_round_trip(before);
		assert_round_trip(after);
		assert_round_trip(other);
		snapshot_unref(before);
		snapshot_unref(after);
		snapshot_unref(other);
	}
	for (size_t i = 0; i < DEVICES; i++)
		device_unref(devices[i]);
}

static void test_response(void **state)
{
	struct device_node nodes[] = {
		{ .host = (char[]){ "/dev/a" }, .path = (char[]){ "/dev/b" }, .permissions = "rw" },
		{ .host = (char[]){ "/opt/x" },
			.path = (char[]){ "/opt/y" },
			.mount = true,
			.read_only = true },
	};
	struct pair env = { (char[]){ "KEY" }, (char[]){ "välue" } };
	struct pair annotation = { (char[]){ "a.example/x" }, (char[]){ "1" } };
	char *cdi = (char[]){ "v.example/c=1" };
	struct allocation allocations[2] = {
		{ .nodes = nodes,
			.n_nodes = 2,
			.env = &env,
			.n_env = 1,
			.annotations = &annotation,
			.n_annotations = 1,
			.cdi = &cdi,
			.n_cdi = 1 },
		{},
	};
	struct error error = {};
	_cleanup_free_ uint8_t *data = NULL;
	V1beta1__AllocateResponse *response;
	V1beta1__ContainerAllocateResponse *first;
	size_t size;

	assert_int_equal(response_pack(allocations, 2, &data, &size, &error), 0);
	response = v1beta1__allocate_response__unpack(NULL, size, data);
	assert_non_null(response);
	assert_int_equal(response->n_container_responses, 2);
	first = response->container_responses[0];
	assert_int_equal(first->n_devices, 1);
	assert_string_equal(first->devices[0]->host_path, "/dev/a");
	assert_string_equal(first->devices[0]->container_path, "/dev/b");
	assert_string_equal(first->devices[0]->permissions, "rw");
	assert_int_equal(first->n_mounts, 1);
	assert_true(first->mounts[0]->read_only);
	assert_string_equal(first->envs[0]->value, "välue");
	assert_string_equal(first->annotations[0]->key, "a.example/x");
	assert_string_equal(first->cdi_devices[0]->name, "v.example/c=1");
	assert_int_equal(response->container_responses[1]->n_devices, 0);
	v1beta1__allocate_response__free_unpacked(response, NULL);
}

/* Devices count as given to containers when the whole answer is known to be good. */
static void test_failed_answer_notes_nothing(void **state)
{
	char *good[] = { (char *)"a" }, *bad[] = { (char *)"none" };
	V1beta1__ContainerAllocateRequest containers[2], *pointers[2];
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
	struct declaration declaration = { .name = (char *)"v.e/a" };
	struct applied_config applied_config = { .declaration = &declaration };
	struct device *device = make_device("a", NULL, 0);
	struct snapshot_unit unit = {
		.device = device, .replicas = 1, .present = true, .healthy = true
	};
	struct snapshot snapshot = { .units = &unit, .n_units = 1 };
	struct offer offer = { .applied_config = &applied_config, .snapshot = &snapshot };
	struct error error;
	uint8_t *data;
	size_t size;

	assert_int_equal(device_set_mobile(device, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(containers); i++) {
		v1beta1__container_allocate_request__init(&containers[i]);
		containers[i].n_devices_ids = 1;
		containers[i].devices_ids = i == 0 ? good : bad;
		pointers[i] = &containers[i];
	}
	request.container_requests = pointers;
	request.n_container_requests = 2;
	assert_int_equal(
		response_allocate(&offer, &request, NULL, NULL, &data, &size, &error), -ENOENT);
	assert_false(device_was_assigned(device));
	request.n_container_requests = 1;
	assert_int_equal(response_allocate(&offer, &request, NULL, NULL, &data, &size, &error), 0);
	assert_true(device_was_assigned(device));
	free(data);
	device_unref(device);
}

static void test_response_refuses_bad_text(void **state)
{
	struct pair env = { (char[]){ "KEY" }, (char[]){ "\xff" } };
	struct allocation allocation = { .env = &env, .n_env = 1 };
	struct error error = {};
	uint8_t *data = NULL;
	size_t size;

	assert_int_equal(response_pack(&allocation, 1, &data, &size, &error), -EILSEQ);
	assert_non_null(strstr(error.message, "KEY"));
	assert_null(data);
}

/* Every memory demand of a message is bounded by its size. */
static void test_unpack_is_bounded(void **state)
{
	size_t size = 1U << 20;
	uint8_t *data = malloc(size);
	struct message message;

	assert_non_null(data);
	/* Nothing but empty sub-messages: the worst amplification. */
	for (size_t i = 0; i + 1 < size; i += 2) {
		data[i] = 0x0a;
		data[i + 1] = 0;
	}
	message = message_unpack(&v1beta1__allocate_request__descriptor, data, size);
	assert_null(message.base);
	message_done(&message);
	/* Many short ids are honest. */
	for (size_t i = 0; i + 4 < size; i += 5)
		memcpy(data + i,
			"\x0a\x03"
			"abc",
			5);
	message = message_unpack(
		&v1beta1__container_allocate_request__descriptor, data, size / 5 * 5);
	assert_non_null(message.base);
	assert_int_equal(((const V1beta1__ContainerAllocateRequest *)(const void *)message.base)
				 ->n_devices_ids,
		size / 5);
	message_done(&message);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_readmission),
		cmocka_unit_test(test_too_long_a_list_is_refused),
		cmocka_unit_test(test_devices_of_all_kinds),
		cmocka_unit_test(test_response),
		cmocka_unit_test(test_failed_answer_notes_nothing),
		cmocka_unit_test(test_response_refuses_bad_text),
		cmocka_unit_test(test_unpack_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
