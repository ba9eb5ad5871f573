/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any JSON as what a child wants published: nothing that passes has a hook, or names anything but
 * absolute paths.
 */
#include "drivers/allocation/publication.h"
#include "supervisor/files/publication-form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_for_hooks(const json_t *value)
{
	const json_t *member;
	const char *key;
	size_t i;

	json_object_foreach((json_t *)(uintptr_t)value, key, member)
	{
		const char *text = json_string_value(member);

		if (strcmp(key, "hooks") == 0 ||
			(strcmp(key, "hostPath") == 0 && (!text || text[0] != '/')))
			abort();
		look_for_hooks(member);
	}
	json_array_foreach(value, i, member)
	{
		look_for_hooks(member);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *document = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
	struct error error = { 0 };

	if (document && publication_check(document, "vendor.example/card", &error) >= 0)
		look_for_hooks(document);
	json_decref(document);
	return 0;
}
