/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A preset is tried by declaring a resource that has nothing else, and asking its driver what is
 * there: what is printed is what devplugd would offer.
 */
#include "config/config.h"
#include "config/preset.h"
#include "ctl/command.h"
#include "ctl/table.h"
#include "drivers/scan.h"

/* How many ids stand for all in a comment. */
#define IDS_SHOWN 4

static int print_file(const char *path, struct error *error)
{
	_cleanup_fclose_ FILE *stream = fopen(path, "re");
	char buffer[4096];
	size_t n;

	if (!stream)
		return error_set(error, -errno, "cannot read %s: %s", path, strerror(errno));
	while ((n = fread(buffer, 1, sizeof(buffer), stream)) > 0)
		(void)fwrite(buffer, 1, n, stdout);
	return ferror(stream) ? error_set(error, -EIO, "cannot read %s", path) : 0;
}

static int find_with_summary(
	const char *name, char **ret_path, char **ret_summary, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	int r;

	r = preset_find(name, &path, error);
	if (r < 0)
		return r;
	r = preset_summary(path, ret_summary, error);
	if (r < 0)
		return r;
	*ret_path = TAKE_PTR(path);
	return 0;
}

static int show_presets(struct error *error)
{
	_cleanup_strings_ struct strings names = { 0 };
	_cleanup_(table_freep) struct table *table = NULL;
	int r;

	r = preset_list(&names, error);
	if (r < 0)
		return r;
	r = table_new(2, &table);
	if (r < 0)
		return error_set(error, r, "out of memory");
	table_add(table, COLOUR_NONE, "PRESET");
	table_add(table, COLOUR_NONE, "FOR");
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = NULL, *summary = NULL;

		r = find_with_summary(names.items[i], &path, &summary, error);
		if (r < 0)
			return r;
		table_add(table, COLOUR_NONE, "%s", names.items[i]);
		table_add(table, COLOUR_NONE, "%s", summary);
	}
	r = table_print(table);
	return r < 0 ? error_set(error, r, "out of memory") : 0;
}

static int show_preset(const char *name, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	int r;

	r = preset_find(name, &path, error);
	return r < 0 ? r : print_file(path, error);
}

static int finish(int r, const struct error *error)
{
	if (r < 0)
		(void)fprintf(stderr, "devplugctl: %s\n", error->message);
	return r < 0 || fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int command_presets(const struct request *request)
{
	struct error error = { 0 };
	int r = request->subject ? show_preset(request->subject, &error) : show_presets(&error);

	return finish(r, &error);
}

static int declare(const char *name, struct config **ret, struct error *error)
{
	_cleanup_report_ struct report report = { 0 };
	char text[512];
	int r;

	(void)snprintf(
		text, sizeof(text), "name = \"vendor.example/%s\"; preset = \"%s\";", name, name);
	r = config_load_resource(text, &report, ret);
	if (r >= 0)
		return 0;
	if (report.count == 0)
		return error_set(error, r, "preset \"%s\": %s", name, strerror(-r));
	return error_set(error, r, "%s:%u: %s", report.entries[0].origin.file,
		report.entries[0].origin.line, report.entries[0].text);
}

/* Leaves those out that the declaration does. */
static size_t count_devices(const struct declaration *declaration, struct scan *scan)
{
	size_t kept = 0;

	scan_sort(scan);
	for (size_t i = 0; i < scan->n_devices; i++) {
		struct device *device = scan->devices[i];

		if (declaration_excludes(declaration, device->id))
			(void)device_unref(device);
		else
			scan->devices[kept++] = device;
	}
	scan->n_devices = kept;
	return kept;
}

static void print_stanza(const char *name, const char *summary, const struct scan *scan, bool first)
{
	(void)printf("%s    # %s\n    # Here: ", first ? "" : ",\n", summary);
	for (size_t i = 0; i < scan->n_devices && i < IDS_SHOWN; i++)
		(void)printf("%s%s", i > 0 ? ", " : "", scan->devices[i]->id);
	if (scan->n_devices > IDS_SHOWN)
		(void)printf(" and %zu more", scan->n_devices - IDS_SHOWN);
	(void)printf("\n    { name = \"vendor.example/%s\"; preset = \"%s\"; }", name, name);
}

/* Returns 1 if the preset finds something, and has then printed it. */
static int discover_one(const char *name, const char *root, bool first, struct error *error)
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_free_ char *path = NULL, *summary = NULL;
	_cleanup_scan_ struct scan scan = { .root = root };
	const struct declaration *declaration;
	int r;

	r = find_with_summary(name, &path, &summary, error);
	if (r < 0)
		return r;
	r = declare(name, &config, error);
	if (r < 0)
		return r;
	declaration = &config->resources[0].declaration;
	r = declaration->driver->list(declaration, &scan, error);
	if (r < 0) {
		error_prefix(error, "preset \"%s\"", name);
		return r;
	}
	for (size_t i = 0; i < scan.notes.count; i++)
		(void)fprintf(stderr, "devplugctl: preset \"%s\": %s\n", name, scan.notes.items[i]);
	if (count_devices(declaration, &scan) == 0)
		return 0;
	if (first)
		(void)puts("# What the presets find on this host. Put what is to be offered into "
			   "the configuration,\n"
			   "# under a name of your own.\n"
			   "resources = (");
	print_stanza(name, summary, &scan, first);
	return 1;
}

static int discover(const char *name, const char *root, struct error *error)
{
	_cleanup_strings_ struct strings names = { 0 };
	size_t found = 0;
	int r, failed = 0;

	r = name ? strings_add(&names, name, strlen(name)) : preset_list(&names, error);
	if (r == -ENOMEM)
		return error_set(error, r, "out of memory");
	if (r < 0)
		return r;
	for (size_t i = 0; i < names.count; i++) {
		struct error one = { 0 };

		r = discover_one(names.items[i], root, found == 0, &one);
		if (r > 0)
			found++;
		/* One preset that cannot be used says nothing about the others. */
		if (r < 0 && failed == 0) {
			*error = one;
			failed = r;
		}
	}
	if (names.count == 1 && failed < 0)
		return failed;
	(void)puts(
		found > 0 ? "\n);" : "# No preset finds anything on this host.\nresources = ( );");
	return failed;
}

int command_discover(const struct request *request)
{
	struct error error = { 0 };

	return finish(discover(request->subject, request->root, &error), &error);
}
