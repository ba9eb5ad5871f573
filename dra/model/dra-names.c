/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes valid names of Kubernetes objects. The name of a device always contains a hash: many ids
 * contain characters that a label cannot contain ("0000:03:00.0"), and the form of a name should
 * not change when another device is added.
 */
#include "dra/model/dra-names.h"

#define HASH_CHARS 10

/* Writes lower-case letters, digits and single '-', but no '-' at either end. Returns the
 * length. */
static size_t make_label(const char *text, char *ret, size_t maximum)
{
	size_t length = 0;

	for (; *text && length < maximum; text++) {
		char c = *text;

		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
			ret[length++] = c;
		else if (length > 0 && ret[length - 1] != '-')
			ret[length++] = '-';
	}
	while (length > 0 && ret[length - 1] == '-')
		length--;
	ret[length] = '\0';
	return length;
}

/* The hash of both texts, with a step between them, so that "a", "bc" and "ab", "c" differ. */
static uint64_t hash_pair(const char *first, const char *second)
{
	uint64_t hash = hash_string(first) * 0x100000001b3ULL;

	for (; *second; second++)
		hash = (hash ^ (unsigned char)*second) * 0x100000001b3ULL;
	/* The upper bits are the better ones of this hash. */
	return (hash ^ hash >> 33) * 0xff51afd7ed558ccdULL >> (64 - 4 * HASH_CHARS);
}

bool dra_name_is_valid(const char *text, size_t maximum)
{
	size_t length = strlen(text);

	return length > 0 && length <= maximum && text[0] != '.' &&
		strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") ==
		length;
}

int dra_parts_pool(const char *node, const char *driver, char **ret)
{
	return format_text(ret, "%s/%s", node, driver);
}

bool dra_pool_is_of_parts(const char *pool)
{
	return strchr(pool, '/');
}

void dra_device_name(
	const char *resource, const char *offered_id, char ret[static DRA_DEVICE_NAME_MAX + 1])
{
	size_t length = make_label(offered_id, ret, DRA_DEVICE_NAME_MAX - HASH_CHARS - 1);

	if (length == 0)
		length = make_label("device", ret, DRA_DEVICE_NAME_MAX - HASH_CHARS - 1);
	(void)snprintf(ret + length, DRA_DEVICE_NAME_MAX + 1 - length, "-%0*llx", HASH_CHARS,
		(unsigned long long)hash_pair(resource, offered_id));
}

void dra_resource_value(const char *resource, char ret[static ATTRIBUTE_VALUE_MAX + 1])
{
	if (strlen(resource) <= ATTRIBUTE_VALUE_MAX)
		(void)snprintf(ret, ATTRIBUTE_VALUE_MAX + 1, "%s", resource);
	else
		(void)snprintf(ret, ATTRIBUTE_VALUE_MAX + 1, "%.*s-%0*llx",
			ATTRIBUTE_VALUE_MAX - HASH_CHARS - 1, resource, HASH_CHARS,
			(unsigned long long)hash_pair(resource, ""));
}

void dra_class_name(const char *resource, char ret[static DRA_CLASS_NAME_MAX + 1])
{
	const char *slash = strchrnul(resource, '/');
	const char *type = *slash ? slash + 1 : slash;
	char label[DRA_DEVICE_NAME_MAX + 1];
	size_t length = make_label(type, label, DRA_DEVICE_NAME_MAX - HASH_CHARS - 1);
	int domain = (int)MIN_OF(
		(size_t)(slash - resource), (size_t)(DRA_CLASS_NAME_MAX - DRA_DEVICE_NAME_MAX - 1));

	if (!streq(label, type) || domain < slash - resource)
		(void)snprintf(label + length, sizeof(label) - length, "-%0*llx", HASH_CHARS,
			(unsigned long long)hash_pair(resource, ""));
	(void)snprintf(ret, DRA_CLASS_NAME_MAX + 1, "%s.%.*s", label, domain, resource);
}
