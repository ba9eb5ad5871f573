/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which presets find hardware on this host, by scanning as a child of devplugd does.
 */
#include "supervisor/ctl/findings.h"

#include <ctype.h>

#include "configuration/config.h"
#include "configuration/preset.h"
#include "drivers/host/scan-run.h"
#include "drivers/model/driver.h"
#include "supervisor/ctl/try-out.h"

/* The name of a resource without its domain, as Kubernetes limits it. */
#define MODEL_NAME_SIZE (63 + 1)

static int declare(const char *name, const char *where, struct config **ret, struct error *error)
{
	_cleanup_report_ struct report report = { 0 };
	char text[2048];
	int r;

	(void)snprintf(text, sizeof(text), "name = \"vendor.example/%s\"; preset = \"%s\"; %s",
		name, name, where);
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

static void finding_done(struct finding *finding)
{
	free(finding->name);
	free(finding->summary);
	free(finding->resource);
	free(finding->problem);
	free(finding->where);
	free(finding->owner);
	json_decref(finding->ids);
	json_decref(finding->cdi);
	json_decref(finding->prestart);
	strings_done(&finding->profiles);
	for (size_t i = 0; i < finding->n_models; i++) {
		free(finding->models[i].resource);
		free(finding->models[i].where);
	}
	free(finding->models);
	strings_done(&finding->claims);
}

void findings_done(struct findings *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		finding_done(&findings->items[i]);
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

/* --- models --- */

/* A value as a pattern in quotes: what would be special there matches any character. */
static void add_pattern(char *text, size_t size, const char *variable, const char *value)
{
	size_t length = strlen(text);

	(void)snprintf(text + length, size - length, "%s\"%s=", *text ? ", " : "", variable);
	for (length = strlen(text); *value && length + 3 < size; value++)
		text[length++] =
			strchr("\"\\*?[]", *value) || (unsigned char)*value < ' ' ? '?' : *value;
	(void)snprintf(text + length, size - length, "\"");
}

/* A value as a part of a resource's name: "NVIDIA L40S" as "nvidia-l40s". */
static void add_name(char *name, size_t size, const char *value)
{
	size_t length = strlen(name);

	if (strncasecmp(value, name, length) == 0)
		length = 0;
	else if (length + 1 < size)
		name[length++] = '-';
	for (; *value && length + 1 < size; value++) {
		bool plain = isalnum((unsigned char)*value);

		if (plain || (length > 0 && name[length - 1] != '-'))
			name[length++] = plain ? (char)tolower((unsigned char)*value) : '-';
	}
	while (length > 0 && name[length - 1] == '-')
		length--;
	name[length] = '\0';
}

/* Writes the conditions for the device's model, empty if the driver does not know it. */
static void describe_model(const struct driver *driver, const struct device *device, char *name,
	size_t name_size, char *patterns, size_t patterns_size)
{
	*patterns = '\0';
	for (const struct driver_variable *v = driver->variables; v && v->name; v++) {
		const char *value = v->names_model ? device_variable(device, v->name) : NULL;

		if (!value || !*value)
			continue;
		add_name(name, name_size, value);
		add_pattern(patterns, patterns_size, v->name, value);
	}
}

static int add_model(struct finding *finding, const char *name, const char *patterns)
{
	_cleanup_free_ char *where = NULL, *resource = NULL;
	struct model *model;

	if (format_text(&resource, "%.*s/%s", (int)strcspn(finding->resource, "/"),
		    finding->resource, name) < 0 ||
		format_text(&where, "where = ( %s );", patterns) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < finding->n_models; i++)
		if (streq(finding->models[i].where, where))
			return 0;
	if (array_reserve((void **)&finding->models, finding->n_models, sizeof(*model)) < 0)
		return -ENOMEM;
	model = &finding->models[finding->n_models++];
	*model = (struct model){ .resource = TAKE_PTR(resource), .where = TAKE_PTR(where) };
	return 0;
}

static int list_models(
	struct finding *finding, const struct driver *driver, const struct scan *scan)
{
	int r = 0;

	for (size_t i = 0; i < scan->n_devices && r >= 0; i++) {
		char name[MODEL_NAME_SIZE], patterns[1024];

		(void)snprintf(name, sizeof(name), "%s", strchr(finding->resource, '/') + 1);
		describe_model(
			driver, scan->devices[i], name, sizeof(name), patterns, sizeof(patterns));
		if (*patterns)
			r = add_model(finding, name, patterns);
	}
	return r;
}

/* --- trying presets --- */

/* Lists the devices that a declared resource would have. Returns their number or negative errno
 * with the error filled. */
static int list_kept(const struct declaration *declaration, const char *root, struct scan *scan,
	struct error *error)
{
	int r = try_out_list(declaration, root, scan, error);

	return r < 0 ? r : (int)count_devices(declaration, scan);
}

/* The hardware of the devices, and their ids: devices that may be offered twice claim nothing. */
static int list_claims(const struct declaration *declaration, struct scan *scan,
	struct strings *claims, char **ret_problem, struct error *error)
{
	char id[DEVICE_ID_MAX + 128];

	for (size_t i = 0; i < scan->n_devices; i++) {
		(void)snprintf(
			id, sizeof(id), "%s:%s", declaration->driver->name, scan->devices[i]->id);
		if (strings_add(claims, id, strlen(id)) < 0)
			return error_set(error, -ENOMEM, "out of memory");
	}
	return try_out_claims(declaration, scan, claims, ret_problem, error);
}

static int fill(struct finding *finding, const struct resource_config *resource, struct scan *scan,
	struct error *error)
{
	const struct declaration *declaration = &resource->declaration;

	finding->ids = list_ids(scan);
	finding->cdi = list_strings(&declaration->container.cdi);
	finding->prestart = list_strings(&declaration->prestart.command);
	/* As a key of the driver, or as a file of the device. */
	finding->general =
		!strstr(resource->text, "vendor = ") && !strstr(resource->text, "vendor\"");
	finding->n_devices = scan->n_devices;
	if (list_profiles(scan, &finding->profiles) < 0 ||
		list_models(finding, declaration->driver, scan) < 0 || !finding->ids ||
		!finding->cdi || !finding->prestart)
		return error_set(error, -ENOMEM, "out of memory");
	return list_claims(declaration, scan, &finding->claims, &finding->problem, error);
}

/* Tries a preset, or one of its models. */
static int try_preset(struct findings *findings, const char *name, const struct model *model,
	const char *root, struct error *error)
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_free_ char *path = NULL, *summary = NULL;
	_cleanup_scan_ struct scan scan = { .root = root };
	struct finding *finding;
	int r;

	r = preset_describe(name, &path, &summary, error);
	if (r >= 0)
		r = declare(name, model ? model->where : "", &config, error);
	if (r < 0)
		return r;
	r = list_kept(&config->resources[0].declaration, root, &scan, error);
	if (r < 0) {
		error_prefix(error, "preset \"%s\"", name);
		return r;
	}
	for (size_t i = 0; i < scan.notes.count && !model; i++)
		(void)fprintf(stderr, "devplugctl: preset \"%s\": %s\n", name, scan.notes.items[i]);
	if (r == 0)
		return 0;
	if (array_reserve((void **)&findings->items, findings->count, sizeof(*finding)) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	finding = &findings->items[findings->count++];
	*finding = (struct finding){
		.name = strdup(name),
		.summary = TAKE_PTR(summary),
		.resource = model ? strdup(model->resource) : NULL,
		.where = model ? strdup(model->where) : NULL,
	};
	if (!finding->name || (model && (!finding->resource || !finding->where)))
		return error_set(error, -ENOMEM, "out of memory");
	r = model ? 0 : propose_name(name, path, &finding->resource, error);
	return r < 0 ? r : fill(finding, &config->resources[0], &scan, error);
}

int findings_add(struct findings *findings, const char *name, const char *root, struct error *error)
{
	return try_preset(findings, name, NULL, root, error);
}

int findings_split(struct findings *findings, size_t place, const char *root, struct error *error)
{
	struct finding whole;
	int r = 0;

	if (findings->items[place].n_models < 2 || findings->items[place].profiles.count > 0)
		return 0;
	whole = findings->items[place];
	findings->items[place] = findings->items[--findings->count];
	for (size_t i = 0; i < whole.n_models && r >= 0; i++)
		r = try_preset(findings, whole.name, &whole.models[i], root, error);
	finding_done(&whole);
	return r;
}

/* --- who has the hardware --- */

static void add_owner(json_t *owners, const struct strings *claims, const char *name)
{
	for (size_t i = 0; i < claims->count; i++)
		if (!json_object_get(owners, claims->items[i]))
			(void)json_object_set_new(owners, claims->items[i], json_string(name));
}

int owners_add(json_t *owners, const struct declaration *declaration, const char *root,
	struct error *error)
{
	_cleanup_scan_ struct scan scan = { .root = root };
	_cleanup_strings_ struct strings claims = { 0 };
	_cleanup_free_ char *problem = NULL;
	int r = list_kept(declaration, root, &scan, error);

	if (r >= 0)
		r = list_claims(declaration, &scan, &claims, &problem, error);
	if (r < 0) {
		error_prefix(error, "%s", declaration->name);
		return r;
	}
	add_owner(owners, &claims, declaration->name);
	return 0;
}

void findings_set_owners(struct findings *findings, json_t *owners)
{
	for (size_t i = 0; i < findings->count; i++) {
		struct finding *finding = &findings->items[i];
		const char *owner = NULL;
		size_t owned = 0;

		for (size_t k = 0; k < finding->claims.count; k++) {
			const json_t *found = json_object_get(owners, finding->claims.items[k]);

			owner = owner ?: json_string_value(found);
			owned += found != NULL;
		}
		if (owner && owned == finding->claims.count)
			finding->owner = strdup(owner);
		else
			add_owner(owners, &finding->claims, finding->resource);
	}
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
