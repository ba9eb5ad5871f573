/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the output of a program of driver "exec": a list, or an answer at Allocate, within
 * its bounds, or an error that is one line of text. The first byte selects which, and how
 * properties are read. The devices that were read are then sent to a program of Allocate, in our
 * own JSON.
 */
#include <jansson.h>

#include "common/sealed.h"
#include "common/utf8.h"
#include "drivers/allocation/inquiry-documents.h"
#include "drivers/exec/exec-document.h"

#define ANSWER (PROPERTIES_AKRI + 1)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(const char *text)
{
	if (!*text || !utf8_is_valid(text))
		abort();
	for (const unsigned char *p = (const unsigned char *)text; *p; p++)
		if (*p < 0x20 || *p == 0x7f)
			abort();
}

static void check_device(const struct device *device)
{
	_cleanup_device_ struct device *copy = NULL;
	char id[DEVICE_ID_MAX + 1];

	device_id_make(device->id, id);
	if (!streq(id, device->id))
		abort();
	if (device->problem)
		check_line(device->problem);
	for (size_t i = 0; i < device->n_nodes; i++)
		if (device->nodes[i].host[0] != '/' || device->nodes[i].path[0] != '/')
			abort();
	for (size_t i = 0; i < device->env.count; i++)
		if (strchr(device->env.items[i], '=') <= device->env.items[i])
			abort();
	if (device_new(device->id, &copy) >= 0 &&
		(device_copy(device, copy) < 0 || !device_equal(device, copy)))
		abort();
}

/* Checks that a request about the device can be read, and has the same members. */
static void check_request(const struct device *device)
{
	struct snapshot_unit unit = { .device = device, .replicas = 1 };
	const struct snapshot snapshot = { .units = &unit, .n_units = 1 };
	const struct exec_given given = { 0 };
	char name[] = "v.e/x";
	const struct declaration declaration = { .name = name };
	_cleanup_close_ int fd = exec_request_new(&declaration, NULL, &snapshot, &given, 1);
	_cleanup_free_ char *text = NULL;
	const json_t *told;
	json_error_t error;
	json_t *root;
	size_t size;

	if (fd < 0 || sealed_read(fd, SIZE_MAX, &text, &size) < 0)
		return;
	root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
	told = json_array_get(json_object_get(root, "devices"), 0);
	if (!told ||
		!streq(json_string_value(json_object_get(told, "id")),
			device_variable(device, "original_id")) ||
		json_object_size(json_object_get(told, "env")) != device->env.count ||
		json_array_size(json_object_get(told, "nodes")) +
				json_array_size(json_object_get(told, "mounts")) !=
			device->n_nodes)
		abort();
	json_decref(root);
}

static void check_answer(const char *text, size_t size)
{
	_cleanup_device_ struct device *answer = NULL;
	struct error error = { 0 };

	if (exec_answer_read(text, size, &answer, &error) < 0)
		check_line(error.message);
	else
		check_device(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(exec_list_unrefp) struct exec_list *list = NULL;
	struct error error = { 0 };

	if (size == 0)
		return 0;
	if (data[0] % (ANSWER + 1) == ANSWER) {
		check_answer((const char *)data + 1, size - 1);
		return 0;
	}
	if (exec_document_read((const char *)data + 1, size - 1,
		    (enum exec_properties)(data[0] % (ANSWER + 1)), &list, &error) < 0) {
		check_line(error.message);
		return 0;
	}
	for (size_t i = 0; i < list->n_devices; i++) {
		check_device(list->devices[i]);
		check_request(list->devices[i]);
	}
	return 0;
}
