/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wire format (protobuf encoding, messages of deviceplugin v1beta1): ListAndWatchResponse.devices =
 * 1, Device{ID = 1, health = 2, topology = 3}, TopologyInfo.nodes = 1, NUMANode.ID = 1. A number 0
 * is not written, as proto3 wants it.
 */
#include "proto/plugin/list-encoder.h"

#include "proto/methods.h"
#include "proto/rpc.h"

#define TAG_DEVICES  0x0a
#define TAG_ID       0x0a
#define TAG_HEALTH   0x12
#define TAG_TOPOLOGY 0x1a
#define TAG_NODES    0x0a
#define TAG_NODE_ID  0x08

static size_t varint_size(uint64_t value)
{
	size_t size = 1;

	for (; value >= 0x80; value >>= 7)
		size++;
	return size;
}

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

static size_t string_size(size_t length)
{
	return 1 + varint_size(length) + length;
}

static size_t node_size(int numa)
{
	return numa > 0 ? 1 + varint_size((uint64_t)numa) : 0;
}

static size_t topology_size(const struct device *device)
{
	size_t size = 0;

	for (size_t i = 0; i < device->n_numa; i++)
		size += string_size(node_size(device->numa[i]));
	return size;
}

static const char *health_text(const struct snapshot_unit *unit)
{
	return unit->healthy ? DEVICE_HEALTHY : DEVICE_UNHEALTHY;
}

static size_t device_size(const struct snapshot_unit *unit, size_t id_length)
{
	size_t size = string_size(id_length) + string_size(strlen(health_text(unit)));

	if (unit->device->n_numa > 0)
		size += string_size(topology_size(unit->device));
	return size;
}

static uint8_t *put_device(uint8_t *p, const struct snapshot_unit *unit, const char *id)
{
	const struct device *device = unit->device;
	const char *health = health_text(unit);
	size_t id_length = strlen(id);

	*p++ = TAG_DEVICES;
	p = put_varint(p, device_size(unit, id_length));
	p = put_string(p, TAG_ID, id, id_length);
	p = put_string(p, TAG_HEALTH, health, strlen(health));
	if (device->n_numa == 0)
		return p;
	*p++ = TAG_TOPOLOGY;
	p = put_varint(p, topology_size(device));
	for (size_t i = 0; i < device->n_numa; i++) {
		*p++ = TAG_NODES;
		p = put_varint(p, node_size(device->numa[i]));
		if (device->numa[i] > 0) {
			*p++ = TAG_NODE_ID;
			p = put_varint(p, (uint64_t)device->numa[i]);
		}
	}
	return p;
}

/* How many ids a unit is listed with. */
static unsigned n_offered(const struct snapshot *snapshot, size_t unit)
{
	return snapshot->units[unit].foreign ? 0 : snapshot->units[unit].replicas;
}

static int check_size(size_t size)
{
	return size > RPC_KUBELET_MESSAGE_MAX ? -E2BIG : 0;
}

static size_t unit_size(const struct snapshot *snapshot, size_t unit)
{
	char id[OFFERED_ID_MAX + 1];
	size_t size = 0;

	for (unsigned replica = 0; replica < n_offered(snapshot, unit); replica++) {
		snapshot_offered_id(snapshot, unit, replica, id);
		size += string_size(device_size(&snapshot->units[unit], strlen(id)));
	}
	return size;
}

static uint8_t *put_unit(uint8_t *p, const struct snapshot *snapshot, size_t unit)
{
	char id[OFFERED_ID_MAX + 1];

	for (unsigned replica = 0; replica < n_offered(snapshot, unit); replica++) {
		snapshot_offered_id(snapshot, unit, replica, id);
		p = put_device(p, &snapshot->units[unit], id);
	}
	return p;
}

int list_encode(const struct snapshot *snapshot, uint8_t **ret_data, size_t *ret_size)
{
	size_t size = 0;
	uint8_t *data, *p;

	for (size_t i = 0; i < snapshot->n_units; i++)
		size += unit_size(snapshot, i);
	if (check_size(size) < 0)
		return -E2BIG;
	p = data = malloc(size ? size : 1);
	if (!data)
		return -ENOMEM;
	for (size_t i = 0; i < snapshot->n_units; i++)
		p = put_unit(p, snapshot, i);
	assert(p == data + size);
	*ret_data = data;
	*ret_size = size;
	return 0;
}

/* Of the same device. */
static bool looks_the_same(const struct snapshot *a, const struct snapshot *b, size_t unit)
{
	return a->units[unit].healthy == b->units[unit].healthy &&
		n_offered(a, unit) == n_offered(b, unit);
}

/* Behind the records of a unit in a list of ours. */
static const uint8_t *skip_records(const uint8_t *p, unsigned n)
{
	for (; n > 0; n--) {
		size_t size = 0;
		unsigned shift = 0;

		assert(*p == TAG_DEVICES);
		for (p++; *p & 0x80; p++, shift += 7)
			size |= (size_t)(*p & 0x7f) << shift;
		size |= (size_t)*p++ << shift;
		p += size;
	}
	return p;
}

static uint8_t *put_bytes(uint8_t *p, const uint8_t *begin, const uint8_t *end)
{
	memcpy(p, begin, (size_t)(end - begin));
	return p + (end - begin);
}

int list_encode_change(const struct snapshot *before, const uint8_t *list, size_t size,
	const struct snapshot *snapshot, uint8_t **ret_data, size_t *ret_size)
{
	const uint8_t *old = list, *kept = list, *end = list + size;
	uint8_t *data, *p;

	if (!snapshot_shares_devices(before, snapshot) || before->shared != snapshot->shared)
		return list_encode(snapshot, ret_data, ret_size);
	for (size_t i = 0; i < snapshot->n_units; i++)
		if (!looks_the_same(before, snapshot, i))
			size += unit_size(snapshot, i) - unit_size(before, i);
	if (check_size(size) < 0)
		return -E2BIG;
	p = data = malloc(size ? size : 1);
	if (!data)
		return -ENOMEM;
	for (size_t i = 0; i < snapshot->n_units; i++) {
		bool same = looks_the_same(before, snapshot, i);

		/* What is alike is copied in one go, when something comes that is not. */
		if (!same)
			p = put_bytes(p, kept, old);
		old = skip_records(old, n_offered(before, i));
		if (!same) {
			p = put_unit(p, snapshot, i);
			kept = old;
		}
	}
	assert(old == end);
	p = put_bytes(p, kept, end);
	assert(p == data + size);
	*ret_data = data;
	*ret_size = size;
	return 0;
}
