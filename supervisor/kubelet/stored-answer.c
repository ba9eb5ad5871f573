/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the wire format of Protobuf as far as an answer to Allocate needs it: all its fields, and
 * the fields of its CDI devices, are length-delimited. The supervisor does not link Protobuf.
 */
#include "supervisor/kubelet/stored-answer.h"

#include "common/base64.h"

/* Numbers of fields, and the type of all of them. */
#define FIELD_CDI_DEVICES     5
#define FIELD_NAME            1
#define TYPE_LENGTH_DELIMITED 2

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

/* Adds the part before "=" of a name such as "vendor.example/gpu=0". */
static int add_kind(struct bytes name, struct strings *kinds)
{
	const uint8_t *equals = memchr(name.data, '=', name.size);
	_cleanup_free_ char *kind = NULL;

	if (!equals)
		return 0;
	kind = strndup((const char *)name.data, (size_t)(equals - name.data));
	if (!kind)
		return -ENOMEM;
	return strings_contain(kinds, kind) ? 0 : strings_add(kinds, kind, strlen(kind));
}

static int add_device(struct bytes device, struct strings *kinds)
{
	struct bytes value;
	uint64_t number;
	int r = 0;

	while (r >= 0 && next_field(&device, &number, &value))
		if (number == FIELD_NAME)
			r = add_kind(value, kinds);
	return r;
}

int stored_answer_add_kinds(const char *answer, struct strings *kinds)
{
	_cleanup_free_ uint8_t *data = NULL;
	struct bytes message = { 0 }, value;
	uint64_t number;
	int r;

	r = base64_decode(answer, &data, &message.size);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	message.data = data;
	while (r >= 0 && next_field(&message, &number, &value))
		if (number == FIELD_CDI_DEVICES)
			r = add_device(value, kinds);
	return r;
}
