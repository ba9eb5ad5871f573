/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what the presets find on this host as a configuration to choose from.
 */
#include "configuration/config.h"
#include "configuration/preset.h"
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

static void print_finding(const struct findings *findings, size_t i)
{
	const struct finding *finding = &findings->items[i];
	json_auto_t *overlaps = findings_list_overlaps(findings, i);

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

static int discover(const char *name, const char *root, bool json, struct error *error)
{
	_cleanup_(findings_done) struct findings findings = { 0 };
	int r = 0, failed = find_all(name, root, &findings, error);

	if (failed < 0 || (name && failed))
		return failed;
	findings_sort(&findings);
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
		return finish_command(-EPERM, &error);
	if (line->dump_tree)
		return finish_command(dump(line->subject, root ?: "", &error), &error);
	return finish_command(discover(line->subject, root ?: "", line->json, &error), &error);
}
