/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads members of the daemon's documents; a text is made safe for a terminal.
 */
#include "supervisor/ctl/members.h"

#include "common/text.h"

json_int_t integer_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

json_t *clean_text(const char *text)
{
	_cleanup_free_ char *clean = strdup(text);

	if (!clean)
		return NULL;
	text_sanitize(clean);
	return json_string(clean);
}

json_t *clean_text_of(const json_t *object, const char *key)
{
	return clean_text(text_of(object, key));
}

json_t *add_clean_texts(json_t *to, const json_t *from, const char *const *keys)
{
	for (; *keys; keys++)
		(void)json_object_set_new(to, *keys, clean_text_of(from, *keys));
	return to;
}

int print_document(const json_t *root, struct error *error)
{
	if (!root || json_dumpf(root, stdout, JSON_INDENT(2)) < 0 || puts("") < 0)
		return error_set(error, -EIO, "cannot write the document");
	return 0;
}
