/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocation cut in two: what a CDI file says of a device, and what is answered beside the
 * device's name. Everything is built as if there were no file first, so that what would be an error
 * without one is an error with it.
 */
#include "drivers/allocation-build.h"
#include "drivers/cdi.h"

int allocation_build_device(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, size_t unit, struct allocation *ret, struct error *error)
{
	_cleanup_build_ struct build build = {
		.part = BUILD_DEVICE,
		.declaration = declaration,
		.snapshot = snapshot,
		.root = root,
		.error = error,
	};

	build.chosen = calloc(1, sizeof(*build.chosen));
	build.devices = calloc(1, sizeof(*build.devices));
	if (!build.chosen || !build.devices)
		return build_out_of_memory(&build);
	build.chosen[build.n_chosen++].unit = unit;
	build.devices[build.n_devices++] = snapshot->units[unit].device;
	return build_allocation(&build, ret);
}

static int add_name(struct allocation *allocation, const char *kind, const char *id)
{
	char name[CDI_DEVICE_NAME_MAX + 1];
	char **names;

	names = reallocarray(allocation->cdi, allocation->n_cdi + 1, sizeof(*names));
	if (!names)
		return -ENOMEM;
	allocation->cdi = names;
	cdi_device_name(id, name);
	if (asprintf(&names[allocation->n_cdi], "%s=%s", kind, name) < 0)
		return -ENOMEM;
	allocation->n_cdi++;
	return 0;
}

/* Puts names from `first` on into an annotation of their own. */
static int add_annotation(struct allocation *allocation, const char *kind, size_t first)
{
	char key[CDI_ANNOTATION_KEY_MAX + 1];
	struct pair *pairs, *pair;
	size_t size;
	FILE *stream;

	pairs = reallocarray(
		allocation->annotations, allocation->n_annotations + 1, sizeof(*pairs));
	if (!pairs)
		return -ENOMEM;
	allocation->annotations = pairs;
	pair = &pairs[allocation->n_annotations];
	*pair = (struct pair){ 0 };
	stream = open_memstream(&pair->value, &size);
	if (!stream)
		return -ENOMEM;
	for (size_t i = first; i < allocation->n_cdi; i++)
		(void)fprintf(stream, "%s%s", i > first ? "," : "", allocation->cdi[i]);
	cdi_annotation_key(kind, key);
	pair->name = strdup(key);
	if (fclose(stream) != 0 || !pair->name) {
		free(pair->name);
		free(pair->value);
		return -ENOMEM;
	}
	allocation->n_annotations++;
	return 0;
}

/* Names the chosen devices that are in the file. */
static int add_names(struct build *build, struct allocation *allocation)
{
	const struct cdi_spec *spec = &build->declaration->cdi_spec;
	size_t first = allocation->n_cdi;
	int r = 0;

	for (size_t i = 0; i < build->n_chosen && r >= 0; i++) {
		size_t unit = build->chosen[i].unit;
		_cleanup_allocation_ struct allocation edits = { 0 };

		if (i > 0 && build->chosen[i - 1].unit == unit)
			continue;
		r = allocation_build_device(build->declaration, build->snapshot, build->root, unit,
			&edits, build->error);
		if (r < 0)
			return r;
		if (!allocation_is_empty(&edits) &&
			add_name(allocation, spec->kind, build->snapshot->units[unit].device->id) <
				0)
			return build_out_of_memory(build);
	}
	if (spec->annotations && allocation->n_cdi > first &&
		add_annotation(allocation, spec->kind, first) < 0)
		return build_out_of_memory(build);
	return 0;
}

int allocation_build_cdi(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, const char *const *ids, size_t n_ids,
	const struct allocation_answers *answers, struct allocation *ret, struct error *error)
{
	_cleanup_allocation_ struct allocation whole = { 0 }, allocation = { 0 };
	_cleanup_build_ struct build build = {
		.part = BUILD_REST,
		.answers = answers,
		.declaration = declaration,
		.snapshot = snapshot,
		.root = root,
		.error = error,
	};
	int r;

	r = allocation_build(declaration, snapshot, root, ids, n_ids, answers, &whole, error);
	if (r < 0)
		return r;
	r = build_choose(&build, ids, n_ids);
	if (r < 0)
		return r;
	r = build_allocation(&build, &allocation);
	if (r < 0)
		return r;
	r = add_names(&build, &allocation);
	if (r < 0)
		return r;
	*ret = allocation;
	allocation = (struct allocation){ 0 };
	return 0;
}
