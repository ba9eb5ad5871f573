/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what the presets find on this host as a configuration to choose from, or as what the
 * configuration lacks: then, each device is in one resource, and what is printed can be a drop-in.
 */
#include "configuration/config.h"
#include "configuration/preset.h"
#include "drivers/model/driver.h"
#include "supervisor/ctl/dump-tree.h"
#include "supervisor/ctl/findings.h"
#include "supervisor/ctl/members.h"
#include "supervisor/ctl/try-out.h"
#include "supervisor/ctl/verb.h"

/* How many ids stand for all in a comment. */
#define IDS_SHOWN 4
/* This result is not an error: the problems are already reported, and do not affect other
 * presets. */
#define UNUSABLE_PRESETS 1

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

static void print_models(const struct finding *finding)
{
	for (size_t i = 0; i < finding->n_models && !finding->where; i++)
		(void)printf("    # Only this model: { name = \"%s\"; preset = \"%s\"; %s }\n",
			finding->models[i].resource, finding->name, finding->models[i].where);
}

static void print_finding(const struct findings *findings, size_t i)
{
	const struct finding *finding = &findings->items[i];
	json_auto_t *overlaps = findings_list_overlaps(findings, i);

	(void)printf("    # %s\n", finding->summary);
	print_list("Here", ", ", finding->ids, IDS_SHOWN);
	if (finding->problem)
		(void)printf("    # None is healthy here: %s\n", finding->problem);
	print_list("CDI names", ", ", finding->cdi, SIZE_MAX);
	print_list("Before a container starts", " ", finding->prestart, SIZE_MAX);
	print_list("Overlaps with these presets, which take precedence", ", ", overlaps, SIZE_MAX);
	if (finding->profiles.count > 0) {
		print_profiles(finding);
		return;
	}
	print_models(finding);
	(void)printf("    { name = \"%s\"; preset = \"%s\"; %s%s}", finding->resource,
		finding->name, finding->where ?: "", finding->where ? " " : "");
}

static int print_findings_json(const struct findings *findings, struct error *error)
{
	json_auto_t *presets = json_array(),
		    *root = json_pack(
			    "{s:i, s:O}", "version", DOCUMENT_VERSION, "presets", presets);

	for (size_t i = 0; i < findings->count; i++) {
		const struct finding *finding = &findings->items[i];

		(void)json_array_append_new(presets,
			json_pack("{s:s, s:s, s:s, s:s, s:O, s:O, s:O, s:o, s:o}", "name",
				finding->name, "summary", finding->summary, "resource",
				finding->resource, "problem", finding->problem ?: "", "ids",
				finding->ids, "cdi_devices", finding->cdi, "prestart",
				finding->prestart, "profiles", findings_list_profiles(finding),
				"overlaps", findings_list_overlaps(findings, i)));
	}
	return print_document(root, error);
}

/* The resources of the findings that have no owner. */
static void print_resources(const struct findings *findings)
{
	const char *separator = "";

	(void)puts("resources = (");
	for (size_t i = 0; i < findings->count; i++) {
		if (findings->items[i].owner)
			continue;
		(void)fputs(separator, stdout);
		print_finding(findings, i);
		separator = ",\n";
	}
	(void)puts("\n);");
}

static void print_findings(const struct findings *findings)
{
	if (findings->count == 0) {
		(void)puts("# No preset finds anything on this host.\nresources = ( );");
		return;
	}
	(void)puts(
		"# The devices that the presets find on this host. Copy the resources that you want to offer\n# into the configuration, with a name of your own. A device belongs to the first resource that\n# finds it.\n"
		"# With containerd 2 and CRI-O, also set: cdi = true;");
	print_resources(findings);
}

/* --- what the configuration lacks --- */

/* Whether a resource of the file, or an earlier finding, has the name. */
static bool is_taken(const struct config *config, const struct findings *findings, size_t place,
	const char *name)
{
	const struct declaration *disabled;

	for (size_t i = 0; i < place; i++)
		if (!findings->items[i].owner && streq(findings->items[i].resource, name))
			return true;
	for (size_t i = 0; (disabled = config_disabled(config, i)); i++)
		if (streq(disabled->name, name))
			return true;
	return config_find(config, name) != NULL;
}

/* A name that is not taken: "vendor.example/kvm-2". */
static int choose_name(const struct config *config, struct findings *findings, size_t place)
{
	_cleanup_free_ char *first = strdup(findings->items[place].resource);
	char **name = &findings->items[place].resource;

	if (!first)
		return -ENOMEM;
	for (unsigned number = 2; is_taken(config, findings, place, *name); number++) {
		char *next;

		if (format_text(&next, "%s-%u", first, number) < 0)
			return -ENOMEM;
		free(*name);
		*name = next;
	}
	return 0;
}

/* Returns UNUSABLE_PRESETS if a scan has failed. Programs are not run: no preset finds what they
 * list. */
static int find_owner(const struct declaration *declaration, const struct config *config,
	const char *root, json_t *owners)
{
	struct error error = { 0 };

	if (declaration->driver->runs_programs ||
		owners_add(owners, declaration,
			root ?: declaration->host_root ?: config->host_root, &error) >= 0)
		return 0;
	(void)fprintf(stderr, "devplugctl: %s\n", error.message);
	return UNUSABLE_PRESETS;
}

/* Also of resources that are not enabled: the administrator has decided about their devices. */
static int find_owners(const struct config *config, const char *root, json_t *owners)
{
	const struct declaration *disabled;
	int failed = 0;

	for (size_t i = 0; i < config->n_resources; i++)
		failed |= find_owner(&config->resources[i].declaration, config, root, owners);
	for (size_t i = 0; (disabled = config_disabled(config, i)); i++)
		failed |= find_owner(disabled, config, root, owners);
	return failed;
}

static int split_models(struct findings *findings, const char *root, struct error *error)
{
	int r = 0;

	for (size_t i = findings->count; i > 0 && r >= 0; i--)
		r = findings_split(findings, i - 1, root, error);
	return r;
}

/* `root`: of the host's files, NULL: as configured. */
static int print_lacking(struct findings *findings, const struct config *config, const char *file,
	const char *root, struct error *error)
{
	json_auto_t *owners = json_object();
	size_t lacking = 0;
	int r, failed = find_owners(config, root, owners);

	r = split_models(findings, root ?: config->host_root, error);
	if (r < 0)
		return r;
	findings_sort(findings);
	findings_set_owners(findings, owners);
	(void)printf("# Resources for devices on this host that no resource of %s has.\n", file);
	for (size_t i = 0; i < findings->count; i++) {
		const struct finding *finding = &findings->items[i];

		if (finding->owner)
			(void)printf("# Preset %s: its devices belong to %s.\n", finding->name,
				finding->owner);
		else if (choose_name(config, findings, i) < 0)
			return error_set(error, -ENOMEM, "out of memory");
		lacking += !finding->owner;
	}
	if (lacking > 0)
		print_resources(findings);
	else
		(void)puts("resources = ( );");
	return failed;
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

		r = findings_add(findings, names.items[i], root, &one);
		if (r < 0) {
			(void)fprintf(stderr, "devplugctl: %s\n", one.message);
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

/* `config`: NULL if the file is not valid. */
static int discover(const struct command_line *line, const struct config *config, const char *root,
	struct error *error)
{
	_cleanup_(findings_done) struct findings findings = { 0 };
	int r = 0, failed = find_all(line->subject, root, &findings, error);

	if (failed < 0 || (line->subject && failed))
		return failed;
	findings_sort(&findings);
	if (line->resources)
		r = print_lacking(&findings, config, line->config_file ?: DEFAULT_CONFIG_FILE,
			line->root, error);
	else if (line->json)
		r = print_findings_json(&findings, error);
	else
		print_findings(&findings);
	return r < 0 ? r : MAX_OF(r, failed);
}

int command_discover(const struct command_line *line)
{
	const char *file = line->config_file ?: DEFAULT_CONFIG_FILE;
	_cleanup_config_ struct config *config = NULL;
	_cleanup_report_ struct report report = { 0 };
	struct error error = { 0 };
	const char *root;
	int r;

	if (line->resources && (line->json || line->dump_tree)) {
		(void)fprintf(stderr, "devplugctl: use either --resources or --%s\n",
			line->json ? "json" : "dump-tree");
		return EXIT_USAGE;
	}
	/* The daemon's directories; a file that is not valid does not prevent reading them. */
	if (config_load(file, &report, &config) < 0 && line->resources) {
		print_report(&report, file);
		return EXIT_CONFIG;
	}
	/* A tree that stands for a host may be readable only by root. */
	if (!line->root && try_out_confine(NULL, &error) < 0)
		return finish_command(-EPERM, &error);
	root = line->root ?: config ? config->host_root : "";
	r = line->dump_tree ? dump(line->subject, root, &error)
			    : discover(line, config, root, &error);
	return finish_command(r, &error);
}
