/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the wire format of Protobuf as far as an answer to Allocate needs it: all its fields that
 * are read, and theirs, are length-delimited, or behind those that are. The supervisor does not
 * link Protobuf. A plugin wrote the texts, so one that contains a NUL, or is no path of a device
 * node, is left out.
 */
#include "supervisor/kubelet/stored-answer.h"

#include <limits.h>

#include "common/base64.h"
#include "common/text.h"
#include "drivers/allocation/allocation.h"

/* Numbers of fields, and the type of all of them. */
#define FIELD_ENVS            1
#define FIELD_MOUNTS          2
#define FIELD_DEVICES         3
#define FIELD_ANNOTATIONS     4
#define FIELD_CDI_DEVICES     5
#define FIELD_CDI_NAME        1
#define FIELD_CONTAINER_PATH  1
#define FIELD_HOST_PATH       2
#define FIELD_PERMISSIONS     3
#define FIELD_KEY             1
#define FIELD_VALUE           2
#define TYPE_LENGTH_DELIMITED 2

#define DEVICE_DIRECTORY "/dev/"

struct bytes {
	const uint8_t *data;
	size_t size;
};

static bool read_number(struct bytes *message, uint64_t *ret)
{
	uint64_t number = 0;

	for (unsigned shift = 0; shift < 64 && message->size > 0; shift += 7) {
		uint8_t byte = *message->data++;

		message->size--;
		number |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret = number;
			return true;
		}
	}
	return false;
}

/* Takes the next field off the message; false: there is none, or it is malformed. */
static bool next_field(struct bytes *message, uint64_t *ret_number, struct bytes *ret_value)
{
	uint64_t tag, size;

	if (!read_number(message, &tag) || (tag & 7) != TYPE_LENGTH_DELIMITED ||
		!read_number(message, &size) || size > message->size)
		return false;
	*ret_number = tag >> 3;
	*ret_value = (struct bytes){ message->data, (size_t)size };
	message->data += size;
	message->size -= (size_t)size;
	return true;
}

/* The value of the last such field of a message; an empty one if it has none. */
static struct bytes find_field(struct bytes message, uint64_t wanted)
{
	struct bytes value, found = { 0 };
	uint64_t number;

	while (next_field(&message, &number, &value))
		if (number == wanted)
			found = value;
	return found;
}

static bool is_text(struct bytes bytes)
{
	return bytes.size > 0 && !memchr(bytes.data, '\0', bytes.size);
}

/* Adds the part before "=" of a name such as "vendor.example/gpu=0". */
static int add_kind(struct bytes device, const struct stored_answer *answer)
{
	struct bytes name = find_field(device, FIELD_CDI_NAME);
	const uint8_t *equals = name.size > 0 ? memchr(name.data, '=', name.size) : NULL;
	_cleanup_free_ char *kind = NULL;

	if (!equals)
		return 0;
	if (answer->names && is_text(name) && answer->names->count < STORED_NODES_MAX &&
		strings_add(answer->names, (const char *)name.data, name.size) < 0)
		return -ENOMEM;
	kind = strndup((const char *)name.data, (size_t)(equals - name.data));
	if (!kind)
		return -ENOMEM;
	return strings_contain(answer->kinds, kind)
		? 0
		: strings_add(answer->kinds, kind, strlen(kind));
}

static int add_target(struct bytes device, struct bytes host, const struct stored_answer *answer)
{
	struct bytes path = find_field(device, FIELD_CONTAINER_PATH);
	struct bytes permissions = find_field(device, FIELD_PERMISSIONS);
	_cleanup_free_ char *text = NULL;

	if (!is_text(path) || path.size >= PATH_MAX)
		path = host;
	if (!is_text(permissions) || permissions.size > strlen("rwm"))
		permissions = (struct bytes){ 0 };
	if (format_text(&text, "%.*s %.*s", (int)permissions.size, (const char *)permissions.data,
		    (int)path.size, (const char *)path.data) < 0)
		return -ENOMEM;
	return strings_add(answer->targets, text, strlen(text));
}

static int add_node(struct bytes device, const struct stored_answer *answer)
{
	struct bytes path = find_field(device, FIELD_HOST_PATH);
	const size_t length = strlen(DEVICE_DIRECTORY);
	int r;

	if (!is_text(path) || path.size >= PATH_MAX || path.size <= length ||
		memcmp(path.data, DEVICE_DIRECTORY, length) != 0 ||
		answer->parts->nodes.count > STORED_NODES_MAX)
		return 0;
	r = answer->targets ? add_target(device, path, answer) : 0;
	return r < 0 ? r : strings_add(&answer->parts->nodes, (const char *)path.data, path.size);
}

static int add_mount(struct bytes mount, const struct stored_answer *answer)
{
	struct bytes path = find_field(mount, FIELD_CONTAINER_PATH);
	struct bytes host = find_field(mount, FIELD_HOST_PATH);
	const size_t length = strlen(METADATA_DIRECTORY);

	if (!is_text(path) || !is_text(host) || host.size >= PATH_MAX || path.size <= length ||
		memcmp(path.data, METADATA_DIRECTORY, length) != 0 || answer->parts->metadata)
		return 0;
	answer->parts->metadata = strndup((const char *)host.data, host.size);
	return answer->parts->metadata ? 0 : -ENOMEM;
}

static int add_value(struct bytes pair, const struct stored_answer *answer)
{
	struct bytes key = find_field(pair, FIELD_KEY), value = find_field(pair, FIELD_VALUE);
	_cleanup_free_ char *text = NULL;
	int r;

	if (!is_text(key) || !is_text(value) || key.size + value.size > STORED_VALUE_SIZE ||
		answer->parts->values.count == STORED_VALUES_MAX)
		return 0;
	r = format_text(&text, "%.*s=%.*s", (int)key.size, (const char *)key.data, (int)value.size,
		(const char *)value.data);
	if (r < 0)
		return r;
	/* Marks are sanitized, too (drivers/inventory/hardware-claims.c). */
	text_sanitize(text);
	return strings_add(&answer->parts->values, text, strlen(text));
}

int stored_answer_read(const char *text, const struct stored_answer *ret)
{
	static int (*const add[])(struct bytes field, const struct stored_answer *answer) = {
		[FIELD_ENVS] = add_value,
		[FIELD_MOUNTS] = add_mount,
		[FIELD_DEVICES] = add_node,
		[FIELD_ANNOTATIONS] = add_value,
		[FIELD_CDI_DEVICES] = add_kind,
	};
	_cleanup_free_ uint8_t *data = NULL;
	struct bytes message = { 0 }, value;
	uint64_t number;
	int r;

	r = base64_decode(text, &data, &message.size);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	message.data = data;
	while (r >= 0 && next_field(&message, &number, &value))
		if (number < ARRAY_SIZE(add) && add[number])
			r = add[number](value, ret);
	if (ret->parts->nodes.count > STORED_NODES_MAX) {
		strings_done(&ret->parts->nodes);
		if (ret->targets)
			strings_done(ret->targets);
	}
	return MIN_OF(r, 0);
}
