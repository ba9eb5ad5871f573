/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the presets and decides which of them find hardware on this host. A preset is tried by
 * declaring a resource with only this preset and running its driver's scan: the output is what
 * devplugd would offer.
 */
#include <jansson.h>

#include "configuration/config.h"
#include "configuration/preset.h"
#include "drivers/host/scan-run.h"
#include "drivers/model/driver.h"
#include "supervisor/ctl/dump-tree.h"
#include "supervisor/ctl/table.h"
#include "supervisor/ctl/try-out.h"
#include "supervisor/ctl/verb.h"

/* How many ids stand for all in a comment. */
#define IDS_SHOWN 4
/* This result is not an error: the problems are already reported, and do not affect other
 * presets. */
#define UNUSABLE_PRESETS 1

/* The contents of a file (malloc'ed). */
static int read_file(const char *path, char **ret, struct error *error)
{
	_cleanup_fclose_ FILE *stream = fopen(path, "re");
	/* getdelim() writes nothing for an empty file. */
	_cleanup_free_ char *text = strdup("");
	size_t size = 1;

	if (!stream)
		return error_set(error, -errno, "cannot read %s: %s", path, strerror(errno));
	if (!text)
		return error_set(error, -ENOMEM, "out of memory");
	if (getdelim(&text, &size, '\0', stream) < 0 && ferror(stream))
		return error_set(error, -EIO, "cannot read %s: %s", path, strerror(errno));
	*ret = TAKE_PTR(text);
	return 0;
}

static int print_json(const json_t *root, struct error *error)
{
	if (!root || json_dumpf(root, stdout, JSON_INDENT(2)) < 0 || puts("") < 0)
		return error_set(error, -EIO, "cannot write the document");
	return 0;
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

/* {"version", "presets": []} with the array. */
static json_t *document(json_t *presets)
{
	return json_pack("{s:i, s:O}", "version", DOCUMENT_VERSION, "presets", presets);
}

static int print_table(const json_t *presets, struct error *error)
{
	_cleanup_(table_freep) struct table *table = NULL;
	json_t *preset;
	size_t i;
	int r;

	r = table_new(2, &table);
	if (r < 0)
		return error_set(error, r, "out of memory");
	table_add(table, COLOUR_NONE, "PRESET");
	table_add(table, COLOUR_NONE, "FOR");
	json_array_foreach(presets, i, preset)
	{
		table_add(table, COLOUR_NONE, "%s", text_of(preset, "name"));
		table_add(table, COLOUR_NONE, "%s", text_of(preset, "summary"));
	}
	r = table_print(table);
	return r < 0 ? error_set(error, r, "out of memory") : 0;
}

static void print_error(const struct error *error)
{
	(void)fprintf(stderr, "devplugctl: %s\n", error->message);
}

static int show_presets(bool json, struct error *error)
{
	_cleanup_strings_ struct strings names = { 0 };
	json_auto_t *presets = json_array(), *root = document(presets);
	int r, failed = 0;

	r = preset_list(&names, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = NULL, *summary = NULL;
		struct error one = { 0 };

		r = find_with_summary(names.items[i], &path, &summary, &one);
		if (r < 0) {
			print_error(&one);
			failed = UNUSABLE_PRESETS;
			continue;
		}
		(void)json_array_append_new(presets,
			json_pack("{s:s, s:s}", "name", names.items[i], "summary", summary));
	}
	r = json ? print_json(root, error) : print_table(presets, error);
	return r < 0 ? r : failed;
}

static int show_preset(const char *name, bool json, struct error *error)
{
	_cleanup_free_ char *path = NULL, *summary = NULL, *text = NULL;
	json_auto_t *presets = json_array(), *root = document(presets);
	int r;

	r = find_with_summary(name, &path, &summary, error);
	if (r >= 0)
		r = read_file(path, &text, error);
	if (r < 0)
		return r;
	if (!json)
		return fputs(text, stdout) < 0 ? -EIO : 0;
	(void)json_array_append_new(presets,
		json_pack("{s:s, s:s, s:s}", "name", name, "summary", summary, "text", text));
	return print_json(root, error);
}

static int finish(int r, const struct error *error)
{
	if (r < 0)
		print_error(error);
	return r != 0 || fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int command_presets(const struct command_line *line)
{
	struct error error = { 0 };
	int r = line->subject ? show_preset(line->subject, line->json, &error)
			      : show_presets(line->json, &error);

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

/* Omits the devices that the declaration excludes. */
static size_t count_devices(const struct declaration *declaration, struct scan *scan)
{
	size_t kept = 0;

	scan_sort(scan);
	for (size_t i = 0; i < scan->n_devices; i++) {
		struct device *device = scan->devices[i];

		if (declaration_leaves_out(declaration, device))
			(void)device_unref(device);
		else
			scan->devices[kept++] = device;
	}
	scan->n_devices = kept;
	return kept;
}

/* The devices that a preset finds on this host. */
struct finding {
	char *name, *summary;
	char *resource;         /* the name that is proposed for a resource */
	char *problem;          /* why no device is healthy; NULL: some are */
	json_t *ids;            /* of the devices */
	json_t *cdi, *prestart; /* as in the preset */
	bool general;           /* it takes the devices of any vendor */
	size_t n_devices;
	struct strings profiles; /* of instances (MIG), each once */
	struct strings claims;   /* the hardware behind the devices */
};

struct findings {
	struct finding *items;
	size_t count;
};

static void findings_done(struct findings *findings)
{
	for (size_t i = 0; i < findings->count; i++) {
		free(findings->items[i].name);
		free(findings->items[i].summary);
		free(findings->items[i].resource);
		free(findings->items[i].problem);
		json_decref(findings->items[i].ids);
		json_decref(findings->items[i].cdi);
		json_decref(findings->items[i].prestart);
		strings_done(&findings->items[i].profiles);
		strings_done(&findings->items[i].claims);
	}
	free(findings->items);
}

static json_t *list_ids(const struct scan *scan)
{
	json_t *ids = json_array();

	for (size_t i = 0; i < scan->n_devices; i++)
		(void)json_array_append_new(ids, json_string(scan->devices[i]->id));
	return ids;
}

static json_t *list_strings(const struct strings *strings)
{
	json_t *list = json_array();

	for (size_t i = 0; i < strings->count; i++)
		(void)json_array_append_new(list, json_string(strings->items[i]));
	return list;
}

/* "1g.10gb", "1g.10gb+me". */
static bool is_profile(const char *text)
{
	return *text && !text[strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz.+-")];
}

static int list_profiles(const struct scan *scan, struct strings *profiles)
{
	int r = 0;

	for (size_t i = 0; i < scan->n_devices && r >= 0; i++) {
		const char *profile = device_variable(scan->devices[i], "profile");

		if (profile && is_profile(profile) && !strings_contain(profiles, profile))
			r = strings_add(profiles, profile, strlen(profile));
	}
	return r;
}

/* The name that pods of the replaced plugin request, or one to be changed. */
static int propose_name(const char *preset, const char *path, char **ret, struct error *error)
{
	_cleanup_free_ char *name = NULL;
	int r = preset_resource_name(path, &name, error);

	if (r < 0)
		return r;
	if (*name) {
		*ret = TAKE_PTR(name);
		return 0;
	}
	return format_text(ret, "vendor.example/%s", preset) < 0
		? error_set(error, -ENOMEM, "out of memory")
		: 0;
}

/* Adds the preset's devices, if there are any. */
static int discover_one(
	const char *name, const char *root, struct findings *findings, struct error *error)
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_free_ char *path = NULL, *summary = NULL;
	_cleanup_scan_ struct scan scan = { .root = root };
	const struct declaration *declaration;
	struct finding *finding;
	int r;

	r = find_with_summary(name, &path, &summary, error);
	if (r >= 0)
		r = declare(name, &config, error);
	if (r < 0)
		return r;
	declaration = &config->resources[0].declaration;
	r = try_out_list(declaration, root, &scan, error);
	if (r < 0) {
		error_prefix(error, "preset \"%s\"", name);
		return r;
	}
	for (size_t i = 0; i < scan.notes.count; i++)
		(void)fprintf(stderr, "devplugctl: preset \"%s\": %s\n", name, scan.notes.items[i]);
	if (count_devices(declaration, &scan) == 0)
		return 0;
	if (array_reserve((void **)&findings->items, findings->count, sizeof(*finding)) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	finding = &findings->items[findings->count++];
	*finding = (struct finding){
		.name = strdup(name),
		.summary = TAKE_PTR(summary),
		.ids = list_ids(&scan),
		.cdi = list_strings(&declaration->container.cdi),
		.prestart = list_strings(&declaration->prestart.command),
		/* As a key of the driver, or as a file of the device. */
		.general = !strstr(config->resources[0].text, "vendor = ") &&
			!strstr(config->resources[0].text, "vendor\""),
		.n_devices = scan.n_devices,
	};
	if (list_profiles(&scan, &finding->profiles) < 0 || !finding->name || !finding->ids ||
		!finding->cdi || !finding->prestart)
		return error_set(error, -ENOMEM, "out of memory");
	r = propose_name(name, path, &finding->resource, error);
	return r < 0
		? r
		: try_out_claims(declaration, &scan, &finding->claims, &finding->problem, error);
}

/* A device belongs to the first resource that finds it, so presets whose devices can be used come
 * first, and specific ones before others. */
static int compare_findings(const void *left, const void *right)
{
	const struct finding *a = left, *b = right;

	if (!a->problem != !b->problem)
		return a->problem ? 1 : -1;
	if (a->general != b->general)
		return a->general ? 1 : -1;
	if (a->n_devices != b->n_devices)
		return a->n_devices < b->n_devices ? -1 : 1;
	return strcmp(a->name, b->name);
}

static bool overlap(const struct finding *a, const struct finding *b)
{
	for (size_t i = 0; i < a->claims.count; i++)
		for (size_t k = 0; k < b->claims.count; k++)
			if (streq(a->claims.items[i], b->claims.items[k]))
				return true;
	return false;
}

/* The earlier presets that find some of these devices. */
static json_t *list_overlaps(const struct findings *findings, size_t place)
{
	json_t *names = json_array();

	for (size_t i = 0; i < place; i++)
		if (overlap(&findings->items[place], &findings->items[i]))
			(void)json_array_append_new(names, json_string(findings->items[i].name));
	return names;
}

/* A comment with at most `most` strings of a list, if there are any. */
static void print_list(const char *what, const char *separator, const json_t *list, size_t most)
{
	size_t n = json_array_size(list);

	if (n == 0)
		return;
	(void)printf("    # %s: ", what);
	for (size_t i = 0; i < n && i < most; i++)
		(void)printf(
			"%s%s", i > 0 ? separator : "", json_string_value(json_array_get(list, i)));
	if (n > most)
		(void)printf(" and %zu more", n - most);
	(void)putchar('\n');
}

/* A resource for whole GPUs, and one for each profile, as NVIDIA's plugin names them. */
static void print_profiles(const struct finding *finding)
{
	(void)printf(
		"    # One resource for all: { name = \"vendor.example/%s\"; preset = \"%s\"; }\n"
		"    { name = \"vendor.example/%s\"; preset = \"%s\"; match = ( { mig = \"none\"; } ); }",
		finding->name, finding->name, finding->name, finding->name);
	for (size_t i = 0; i < finding->profiles.count; i++) {
		const char *profile = finding->profiles.items[i];

		(void)fputs(",\n    { name = \"vendor.example/mig-", stdout);
		for (const char *c = profile; *c; c++)
			(void)putchar(*c == '+' ? '.' : *c);
		(void)printf("\"; preset = \"%s\"; match = ( { profile = \"%s\"; } ); }",
			finding->name, profile);
	}
}

static void print_finding(const struct findings *findings, size_t i)
{
	const struct finding *finding = &findings->items[i];
	json_auto_t *overlaps = list_overlaps(findings, i);

	(void)printf("%s    # %s\n", i > 0 ? ",\n" : "", finding->summary);
	print_list("Here", ", ", finding->ids, IDS_SHOWN);
	if (finding->problem)
		(void)printf("    # None is healthy here: %s\n", finding->problem);
	print_list("CDI names", ", ", finding->cdi, SIZE_MAX);
	print_list("Before a container starts", " ", finding->prestart, SIZE_MAX);
	print_list("Overlaps with these presets, which take precedence", ", ", overlaps, SIZE_MAX);
	if (finding->profiles.count > 0)
		print_profiles(finding);
	else
		(void)printf("    { name = \"%s\"; preset = \"%s\"; }", finding->resource,
			finding->name);
}

static int print_findings_json(const struct findings *findings, struct error *error)
{
	json_auto_t *presets = json_array(), *root = document(presets);

	for (size_t i = 0; i < findings->count; i++) {
		const struct finding *finding = &findings->items[i];

		(void)json_array_append_new(presets,
			json_pack("{s:s, s:s, s:s, s:s, s:O, s:O, s:O, s:o, s:o}", "name",
				finding->name, "summary", finding->summary, "resource",
				finding->resource, "problem", finding->problem ?: "", "ids",
				finding->ids, "cdi_devices", finding->cdi, "prestart",
				finding->prestart, "profiles", list_strings(&finding->profiles),
				"overlaps", list_overlaps(findings, i)));
	}
	return print_json(root, error);
}

static void print_findings(const struct findings *findings)
{
	if (findings->count == 0) {
		(void)puts("# No preset finds anything on this host.\nresources = ( );");
		return;
	}
	(void)puts(
		"# The devices that the presets find on this host. Copy the resources that you want to offer\n# into the configuration, with a name of your own. A device belongs to the first resource that\n# finds it.\n"
		"# With containerd 2 and CRI-O, also set: cdi = true;\n"
		"resources = (");
	for (size_t i = 0; i < findings->count; i++)
		print_finding(findings, i);
	(void)puts("\n);");
}

/* Tries the preset of that name, or all (NULL). Returns 0, UNUSABLE_PRESETS if one could not be
 * tried, which is reported then, or negative errno. */
static int find_all(
	const char *name, const char *root, struct findings *findings, struct error *error)
{
	_cleanup_strings_ struct strings names = { 0 };
	int r, failed = 0;

	r = name ? strings_add(&names, name, strlen(name)) : preset_list(&names, error);
	if (r == -ENOMEM)
		return error_set(error, r, "out of memory");
	if (r < 0)
		return r;
	for (size_t i = 0; i < names.count; i++) {
		struct error one = { 0 };

		r = discover_one(names.items[i], root, findings, &one);
		if (r < 0) {
			print_error(&one);
			failed = UNUSABLE_PRESETS;
		}
	}
	return failed;
}

static int dump(const char *name, const char *root, struct error *error)
{
	_cleanup_(findings_done) struct findings findings = { 0 };
	int r, failed;

	dump_tree_begin();
	failed = find_all(name, root, &findings, error);
	if (failed < 0)
		return failed;
	r = dump_tree_print(root, error);
	return r < 0 ? r : failed;
}

static int discover(const char *name, const char *root, bool json, struct error *error)
{
	_cleanup_(findings_done) struct findings findings = { 0 };
	int r = 0, failed = find_all(name, root, &findings, error);

	if (failed < 0 || (name && failed))
		return failed;
	if (findings.count > 0)
		qsort(findings.items, findings.count, sizeof(struct finding), compare_findings);
	if (json)
		r = print_findings_json(&findings, error);
	else
		print_findings(&findings);
	return r < 0 ? r : failed;
}

int command_discover(const struct command_line *line)
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_report_ struct report report = { 0 };
	const char *root = line->root;
	struct error error = { 0 };

	/* The daemon's directories; a file that is not valid does not prevent reading them. */
	if (!root && config_load(line->config_file ?: DEFAULT_CONFIG_FILE, &report, &config) >= 0)
		root = config->host_root;
	/* A tree that stands for a host may be readable only by root. */
	if (!line->root && try_out_confine(NULL, &error) < 0)
		return finish(-EPERM, &error);
	if (line->dump_tree)
		return finish(dump(line->subject, root ?: "", &error), &error);
	return finish(discover(line->subject, root ?: "", line->json, &error), &error);
}
