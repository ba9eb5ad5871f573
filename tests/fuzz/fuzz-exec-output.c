/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a program of driver "exec" wrote: a list within its bounds, or an error that is
 * one line of text. The first byte chooses what becomes of properties.
 */
#include "common/utf8.h"
#include "drivers/exec-document.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(exec_list_unrefp) struct exec_list *list = NULL;
	struct error error = { 0 };

	if (size == 0)
		return 0;
	if (exec_document_read((const char *)data + 1, size - 1,
		    (enum exec_properties)(data[0] % (PROPERTIES_AKRI + 1)), &list, &error) < 0) {
		check_line(error.message);
		return 0;
	}
	for (size_t i = 0; i < list->n_devices; i++)
		check_device(list->devices[i]);
	return 0;
}
