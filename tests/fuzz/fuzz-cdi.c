/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a CDI file: what passes as valid has devices with names, each found again by its
 * name, and absolute paths.
 */
#include "common/json-read.h"
#include "common/yaml-read.h"
#include "drivers/host/cdi-document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_source(enum cdi_source source, const char *path, void *userdata)
{
	if (source > CDI_HOOK || *path != '/')
		abort();
	return 0;
}

static void check(const json_t *document)
{
	const char *kind = text_of(document, "kind");
	const json_t *device;
	size_t i;

	if (!strchr(kind, '/') || json_array_size(json_object_get(document, "devices")) == 0)
		abort();
	json_array_foreach(json_object_get(document, "devices"), i, device)
	{
		if (cdi_document_find(document, kind, text_of(device, "name")) != device ||
			cdi_document_sources(document, device, on_source, NULL) < 0)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error error;
	json_t *document;

	if (yaml_read((const char *)data, size, &document, &error) < 0)
		return 0;
	if (cdi_document_check(document, &error) >= 0)
		check(document);
	json_decref(document);
	return 0;
}
