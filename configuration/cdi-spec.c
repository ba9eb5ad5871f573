/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which resources get a CDI file by the key `cdi`, and of which kind. A resource that names
 * its devices to the container runtime in another way keeps that way. Kinds follow from the
 * configuration and the files of other programs alone, so devplugd, its restart and its tools find
 * the same ones.
 */
#include "configuration/cdi-spec.h"

#include "drivers/allocation/cdi.h"
#include "drivers/host/cdi-lookup.h"
#include "drivers/model/driver.h"

struct taken {
	const struct config *config;
	struct cdi_files files; /* of all directories */
};

static bool has_program(const struct declaration *declaration)
{
	for (size_t i = 0; i < declaration->match.count; i++)
		if (declaration_allocate(declaration, i))
			return true;
	return false;
}

const char *cdi_spec_exempts(const struct declaration *declaration)
{
	const struct driver *driver = declaration->driver;
	const char *kind = declaration->cdi_spec.kind;
	const struct {
		bool applies;
		const char *reason;
	} reasons[] = {
		{ declaration->cdi_spec.off, "cdi_spec is false" },
		{ kind && !startswith(kind, CDI_KIND_PREFIX), "it has a cdi_spec" },
		{ declaration->serve == SERVE_DRA, "it is served by DRA" },
		{ declaration->container.cdi.count > 0, "it has container.cdi" },
		{ has_program(declaration), "a program adds nodes at Allocate" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].applies)
			return reasons[i].reason;
	return driver->without_cdi ? driver->without_cdi(declaration) : NULL;
}

/* --- kinds --- */

int cdi_spec_read_files(const struct config *config, struct cdi_files *files)
{
	const char *root = streq(config->host_root, "/") ? "" : config->host_root;
	int r;

	r = cdi_files_add_usual(files, root);
	if (r >= 0)
		r = cdi_files_add(files, "", config->cdi_dir);
	for (size_t i = 0; i < config->declared.count && r >= 0; i++) {
		const struct declaration *declaration = groups_get(&config->declared, i);
		const struct strings *directories = &declaration->container.cdi_dirs;

		for (size_t k = 0; k < directories->count && r >= 0; k++)
			r = cdi_files_add(files, root, directories->items[k]);
	}
	return r;
}

/* Without memory, a kind counts as free: then nothing else succeeds either. */
const struct cdi_file *cdi_spec_foreign_file(const struct cdi_files *files, const char *kind)
{
	_cleanup_free_ char *own = cdi_file_name(kind);

	return own ? cdi_files_find_kind(files, kind, own) : NULL;
}

static bool is_taken(const char *kind, void *userdata)
{
	const struct taken *taken = userdata;

	for (size_t i = 0; i < taken->config->declared.count; i++) {
		const struct declaration *declaration = groups_get(&taken->config->declared, i);

		if (declaration->cdi_spec.kind && streq(declaration->cdi_spec.kind, kind))
			return true;
	}
	return cdi_spec_foreign_file(&taken->files, kind);
}

int cdi_spec_assign(struct config *config)
{
	struct taken taken = { .config = config };
	int r = cdi_spec_read_files(config, &taken.files);

	for (size_t i = 0; i < config->declared.count && r >= 0; i++) {
		struct declaration *declaration = groups_get(&config->declared, i);

		if (declaration->enabled && !declaration->cdi_spec.kind &&
			!cdi_spec_exempts(declaration))
			r = cdi_kind_make(
				declaration->name, is_taken, &taken, &declaration->cdi_spec.kind);
	}
	cdi_files_done(&taken.files);
	return r;
}
