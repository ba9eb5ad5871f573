/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the strings of a message along its descriptor. The messages of the device plugin API nest
 * four deep, so recursion is bounded.
 */
#include "kubelet/utf8-message.h"

#include "common/utf8.h"

static bool value_is_utf8(const ProtobufCFieldDescriptor *field, const void *value)
{
	const void *pointer;

	/* Members of a repeated field and singular ones are pointers alike; absent is NULL. */
	memcpy(&pointer, value, sizeof(pointer));
	if (!pointer)
		return true;
	if (field->type == PROTOBUF_C_TYPE_STRING)
		return utf8_is_valid(pointer);
	return message_is_utf8(pointer);
}

static bool field_is_utf8(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	const char *member = (const char *)message + field->offset, *items;
	size_t n;

	if (field->label != PROTOBUF_C_LABEL_REPEATED)
		return value_is_utf8(field, member);
	memcpy(&n, (const char *)message + field->quantifier_offset, sizeof(n));
	memcpy(&items, member, sizeof(items));
	for (size_t i = 0; i < n; i++)
		if (!value_is_utf8(field, items + i * sizeof(void *)))
			return false;
	return true;
}

bool message_is_utf8(const ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *type = message->descriptor;

	for (unsigned i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &type->fields[i];

		if (field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		if (!field_is_utf8(message, field))
			return false;
	}
	return true;
}
