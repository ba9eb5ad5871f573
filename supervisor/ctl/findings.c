/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which presets find hardware on this host, by scanning as a child of devplugd does.
 */
#include "supervisor/ctl/findings.h"

#include "configuration/config.h"
#include "configuration/preset.h"
#include "drivers/host/scan-run.h"
#include "drivers/model/driver.h"
#include "supervisor/ctl/try-out.h"

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

void findings_done(struct findings *findings)
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

int findings_add(struct findings *findings, const char *name, const char *root, struct error *error)
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_free_ char *path = NULL, *summary = NULL;
	_cleanup_scan_ struct scan scan = { .root = root };
	const struct declaration *declaration;
	struct finding *finding;
	int r;

	r = preset_describe(name, &path, &summary, error);
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

void findings_sort(struct findings *findings)
{
	if (findings->count > 0)
		qsort(findings->items, findings->count, sizeof(struct finding), compare_findings);
}

static bool overlap(const struct finding *a, const struct finding *b)
{
	for (size_t i = 0; i < a->claims.count; i++)
		for (size_t k = 0; k < b->claims.count; k++)
			if (streq(a->claims.items[i], b->claims.items[k]))
				return true;
	return false;
}

json_t *findings_list_overlaps(const struct findings *findings, size_t place)
{
	json_t *names = json_array();

	for (size_t i = 0; i < place; i++)
		if (overlap(&findings->items[place], &findings->items[i]))
			(void)json_array_append_new(names, json_string(findings->items[i].name));
	return names;
}

json_t *findings_list_profiles(const struct finding *finding)
{
	return list_strings(&finding->profiles);
}
