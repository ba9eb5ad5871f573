/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the state file that a child writes about its devices, for devplugctl and the exporter: the
 * first document, with later changes applied. The places of the devices in the first document are
 * stored by id, so that a change costs no search.
 */
#include "drivers/inventory/device-documents.h"

#include "common/json-read.h"

static json_t *find_places(const json_t *devices)
{
	json_t *places = json_object(), *device;
	size_t i;

	json_array_foreach(devices, i, device)(void)
		json_object_set_new(places, text_of(device, "id"), json_integer((json_int_t)i));
	return places;
}

static void take_changed(json_t *devices, const json_t *changed, const json_t *places)
{
	json_t *device;
	size_t i;

	json_array_foreach(changed, i, device)
	{
		const json_t *place = json_object_get(places, text_of(device, "id"));

		if (place)
			(void)json_array_set(devices, (size_t)json_integer_value(place), device);
	}
}

json_t *device_documents_read(FILE *stream)
{
	json_t *document = json_loadf(stream, JSON_DISABLE_EOF_CHECK, NULL), *change;
	json_auto_t *devices = json_incref(json_object_get(document, "devices"));
	json_auto_t *places = NULL;

	while (document && (change = json_loadf(stream, JSON_DISABLE_EOF_CHECK, NULL))) {
		if (!places)
			places = find_places(devices);
		take_changed(devices, json_object_get(change, "devices"), places);
		(void)json_object_update(document, change);
		json_decref(change);
	}
	if (devices)
		(void)json_object_set(document, "devices", devices);
	return document;
}
