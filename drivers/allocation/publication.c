/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which devices the files for other programs describe. Files omit removed devices. They
 * include unhealthy ones, because containers that use them may be started again, and excluded ones
 * as long as they are assigned to a pod.
 */
#include "drivers/allocation/publication.h"

#include "drivers/allocation/cdi.h"

bool publication_is_wanted(const struct declaration *declaration, const struct snapshot *snapshot)
{
	if (declaration->cdi_spec.kind)
		return true;
	for (size_t i = 0; i < snapshot->n_units; i++) {
		const struct device *device = snapshot_existing(snapshot, i);

		if (device && device->info)
			return true;
	}
	return false;
}

static int add_infos(const struct snapshot *snapshot, json_t *document)
{
	json_t *infos = json_object();
	int r = infos ? 0 : -ENOMEM;

	for (size_t i = 0; i < snapshot->n_units && r >= 0; i++) {
		const struct device *device = snapshot_existing(snapshot, i);

		if (device && device->info &&
			json_object_set_new(infos, device->id, json_loads(device->info, 0, NULL)) <
				0)
			r = -ENOMEM;
	}
	if (r >= 0 && json_object_size(infos) > PUBLICATION_FILES_MAX)
		r = -E2BIG;
	if (r >= 0 && json_object_size(infos) > 0 &&
		json_object_set(document, PUBLICATION_DEVICE_INFO, infos) < 0)
		r = -ENOMEM;
	json_decref(infos);
	return r;
}

static int fill(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, json_t *document, struct strings *left_out)
{
	json_t *spec = NULL;
	int r = 0;

	if (declaration->cdi_spec.kind)
		r = cdi_spec_build(declaration, snapshot, root, &spec, left_out);
	if (r >= 0 && spec && json_object_set_new(document, PUBLICATION_CDI, spec) < 0)
		r = -ENOMEM;
	return r < 0 ? r : add_infos(snapshot, document);
}

int publication_build(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, char **ret_text, struct strings *left_out)
{
	json_t *document = json_object();
	char *text = NULL;
	int r = document ? 0 : -ENOMEM;

	if (r >= 0)
		r = fill(declaration, snapshot, root, document, left_out);
	if (r >= 0) {
		text = json_dumps(document, JSON_COMPACT | JSON_SORT_KEYS);
		r = text ? 0 : -ENOMEM;
	}
	json_decref(document);
	if (r >= 0 && strlen(text) > PUBLICATION_BYTES_MAX) {
		free(text);
		r = -E2BIG;
	}
	if (r < 0)
		return r;
	*ret_text = text;
	return 0;
}
