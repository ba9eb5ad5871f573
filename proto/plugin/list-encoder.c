/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the list of devices as the kubelet receives it, without protobuf-c, which would make an
 * object for each device. Wire format (protobuf encoding, messages of deviceplugin v1beta1):
 * ListAndWatchResponse.devices = 1, Device{ID = 1, health = 2, topology = 3}, TopologyInfo.nodes =
 * 1, NUMANode.ID = 1. As in proto3, a number 0 is not written.
 */
#include "proto/plugin/list-encoder.h"

#include "drivers/inventory/list-size.h"
#include "proto/methods.h"
#include "proto/rpc.h"

#define TAG_DEVICES  0x0a
#define TAG_ID       0x0a
#define TAG_HEALTH   0x12
#define TAG_TOPOLOGY 0x1a
#define TAG_NODES    0x0a
#define TAG_NODE_ID  0x08

/* Bytes of a device with a short id. */
#define RECORD_USUAL 48

static uint8_t *put_varint(uint8_t *p, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*p++ = (uint8_t)(value | 0x80);
	*p++ = (uint8_t)value;
	return p;
}

static uint8_t *put_string(uint8_t *p, uint8_t tag, const char *string, size_t length)
{
	*p++ = tag;
	p = put_varint(p, length);
	memcpy(p, string, length);
	return p + length;
}

static size_t node_size(int numa)
{
	return numa > 0 ? 1 + varint_size((uint64_t)numa) : 0;
}

/* One device of the message. */
struct record {
	const char *id, *health;
	size_t id_length, health_length;
	const int *numa;
	size_t n_numa;
	size_t topology_size, size;
};

static struct record measure(const struct offer *offer, size_t unit, const char *id)
{
	const char *health =
		offer_is_listed_healthy(offer, unit, id) ? DEVICE_HEALTHY : DEVICE_UNHEALTHY;
	struct record record = {
		.id = id,
		.id_length = strlen(id),
		.health = health,
		.health_length = strlen(health),
	};

	record.numa = snapshot_numa(offer->snapshot, unit, id, &record.n_numa);
	for (size_t i = 0; i < record.n_numa; i++)
		record.topology_size += field_size(node_size(record.numa[i]));
	record.size = field_size(record.id_length) + field_size(record.health_length) +
		(record.n_numa > 0 ? field_size(record.topology_size) : 0);
	return record;
}

static void put_record(uint8_t *p, const struct record *record)
{
	*p++ = TAG_DEVICES;
	p = put_varint(p, record->size);
	p = put_string(p, TAG_ID, record->id, record->id_length);
	p = put_string(p, TAG_HEALTH, record->health, record->health_length);
	if (record->n_numa == 0)
		return;
	*p++ = TAG_TOPOLOGY;
	p = put_varint(p, record->topology_size);
	for (size_t i = 0; i < record->n_numa; i++) {
		*p++ = TAG_NODES;
		p = put_varint(p, node_size(record->numa[i]));
		if (record->numa[i] > 0) {
			*p++ = TAG_NODE_ID;
			p = put_varint(p, (uint64_t)record->numa[i]);
		}
	}
}

struct list {
	uint8_t *data;
	size_t size, capacity;
};

static int append(struct list *list, const struct record *record)
{
	size_t size = list->size + field_size(record->size);

	if (size > list->capacity) {
		size_t capacity = MAX_OF(2 * list->capacity, size);
		uint8_t *data = realloc(list->data, capacity);

		if (!data)
			return -ENOMEM;
		list->data = data;
		list->capacity = capacity;
	}
	put_record(list->data + list->size, record);
	list->size = size;
	return 0;
}

int list_encode(const struct offer *offer, uint8_t **ret_data, size_t *ret_size)
{
	const struct snapshot *snapshot = offer->snapshot;
	struct list list = { .capacity = RECORD_USUAL * (snapshot->n_units + 1) };
	char buffer[OFFERED_ID_MAX + 1];
	struct error error;
	int r = 0;

	list.data = malloc(list.capacity);
	if (!list.data)
		return -ENOMEM;
	for (size_t i = 0; i < snapshot->n_units; i++) {
		const struct snapshot_unit *unit = &snapshot->units[i];
		unsigned n_offered = unit->claimed_by_other ? 0 : unit->replicas;

		snapshot_prefetch(snapshot, i);
		for (unsigned replica = 0; replica < n_offered && r >= 0; replica++) {
			const char *id = snapshot_offered_id(snapshot, i, replica, buffer);
			struct record record;

			if (unit->withheld > 0 && snapshot_withholds(snapshot, i, id))
				continue;
			record = measure(offer, i, id);
			r = append(&list, &record);
		}
	}
	if (r >= 0)
		r = device_list_check(snapshot->n_units, list.size, &error);
	if (r < 0) {
		free(list.data);
		return r;
	}
	*ret_data = list.data;
	*ret_size = list.size;
	return 0;
}
