/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows what a configuration would find and allocate before it is applied. A stanza for other
 * hardware can be tried on a tree that stands for a host. The output equals a child's devices and
 * answer.
 */
#include "common/json-read.h"
#include "configuration/config.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/suggest.h"
#include "supervisor/ctl/table.h"
#include "supervisor/ctl/try-out.h"
#include "supervisor/ctl/verb.h"

static int say_unknown(const struct config *config, const char *file, const char *name)
{
	_cleanup_free_ const char **names = calloc(config->n_resources + 1, sizeof(*names));
	const char *suggestion = NULL;

	for (size_t i = 0; names && i < config->n_resources; i++)
		names[i] = config->resources[i].declaration.name;
	if (names)
		suggestion = suggest_word(name, names, config->n_resources);
	(void)fprintf(stderr, "devplugctl: %s has no enabled resource \"%s\"", file, name);
	if (suggestion)
		(void)fprintf(stderr, ", did you mean \"%s\"?", suggestion);
	(void)fputc('\n', stderr);
	return EXIT_FAILURE;
}

static void print_devices(const json_t *result, bool probed)
{
	const json_t *devices = json_object_get(result, "devices"), *device, *numa, *note;
	_cleanup_(table_freep) struct table *table = NULL;
	size_t i, k;

	json_array_foreach(json_object_get(result, "notes"), i, note)(void)
		printf("Note: %s\n", json_string_value(note));
	if (json_array_size(devices) == 0) {
		(void)printf("%s: no device found.\n",
			json_string_value(json_object_get(result, "resource")));
		return;
	}
	if (table_new(4, &table) < 0)
		return;
	table_add(table, COLOUR_NONE, "DEVICE");
	table_add(table, COLOUR_NONE, "HEALTH");
	table_add(table, COLOUR_NONE, "NUMA");
	table_add(table, COLOUR_NONE, "REASON");
	json_array_foreach(devices, i, device)
	{
		const char *reason = text_of(device, "reason");
		char nodes[128] = "";
		size_t length = 0;

		json_array_foreach(json_object_get(device, "numa"), k,
			numa) if (length < sizeof(nodes)) length +=
			(size_t)snprintf(nodes + length, sizeof(nodes) - length, "%s%lld",
				k > 0 ? "," : "", (long long)json_integer_value(numa));
		table_add(table, COLOUR_NONE, "%s", text_of(device, "id"));
		if (probed && !*reason)
			table_add(table, COLOUR_NONE, "not probed");
		else
			table_add(table, *reason ? COLOUR_BAD : COLOUR_GOOD, "%s",
				text_of(device, "health"));
		table_add(table, COLOUR_NONE, "%s", *nodes ? nodes : "-");
		table_add(table, COLOUR_NONE, "%s", reason);
	}
	(void)table_print(table);
}

static void print_parameters(const json_t *result)
{
	const json_t *parameters = json_object_get(result, "parameters"), *parameter;
	size_t i;

	if (json_array_size(parameters) > 0)
		(void)puts("\nClaims may set:");
	json_array_foreach(parameters, i, parameter)
	{
		const char *text = set_text_of(parameter, "default");

		(void)printf("  \"%s\": %s; %s%s\n", text_of(parameter, "name"),
			text_of(parameter, "permitted"), text ?: "",
			text ? " by default" : "required");
	}
}

static void print_pairs(const char *what, json_t *pairs)
{
	const char *name;
	json_t *value;

	json_object_foreach(pairs, name, value)(void)
		printf("  %-11s%s=%s\n", what, name, json_string_value(value));
}

/* Whether CRI-O refuses the device in a privileged container: it would get another path there, and
 * the host has that path, too (internal/factory/container/device_linux.go). */
static bool is_refused_by_crio(const json_t *device, const char *root)
{
	const char *path = text_of(device, "container_path");
	struct stat st;

	return !streq(path, text_of(device, "host_path")) && sysroot_stat(root, path, &st) >= 0;
}

static void print_devices_of(const json_t *answer, const char *root)
{
	const json_t *device;
	bool any = false;
	size_t i;

	json_array_foreach(json_object_get(answer, "devices"), i, device)
	{
		bool refused = is_refused_by_crio(device, root);

		(void)printf("  %-11s%s %s (%s)%s\n", "device", text_of(device, "container_path"),
			text_of(device, "permissions"), text_of(device, "host_path"),
			refused ? " *" : "");
		any = any || refused;
	}
	if (any)
		(void)puts(
			"  * CRI-O refuses this path in a privileged container, because the host has it, too. cdi_spec avoids that.");
}

static void print_answer(const json_t *result, const char *root)
{
	const json_t *answer = json_object_get(result, "answer"), *item;
	size_t i;

	if (!answer)
		return;
	(void)fputs("\nA container with", stdout);
	json_array_foreach(json_object_get(result, "ids"), i, item)(void)
		printf("%s %s", i > 0 ? "," : "", json_string_value(item));
	(void)puts(" gets:");
	print_devices_of(answer, root);
	json_array_foreach(json_object_get(answer, "mounts"), i, item)(void)
		printf("  %-11s%s %s (%s)\n", "mount", text_of(item, "container_path"),
			json_is_true(json_object_get(item, "read_only")) ? "ro" : "rw",
			text_of(item, "host_path"));
	print_pairs("env", json_object_get(answer, "envs"));
	print_pairs("annotation", json_object_get(answer, "annotations"));
	json_array_foreach(json_object_get(answer, "cdi_devices"), i, item)(void)
		printf("  %-11s%s\n", "cdi", json_string_value(item));
	if (json_array_size(json_object_get(answer, "prestart")) > 0) {
		(void)printf("  %-11s", "prestart");
		json_array_foreach(json_object_get(answer, "prestart"), i, item)(void)
			printf("%s%s", i > 0 ? " " : "", json_string_value(item));
		(void)putchar('\n');
	}
}

int command_preview(const struct command_line *line)
{
	const char *file = line->config_file ?: DEFAULT_CONFIG_FILE;
	_cleanup_config_ struct config *config = NULL;
	_cleanup_report_ struct report report = { 0 };
	const struct resource_config *resource;
	const struct declaration *declaration;
	struct error error = { 0 };
	const char *root;
	json_t *result;

	if (config_load(file, &report, &config) < 0) {
		print_report(&report, file);
		return EXIT_CONFIG;
	}
	resource = config_find(config, line->subject);
	if (!resource)
		return say_unknown(config, file, line->subject);
	declaration = &resource->declaration;
	/* A tree that stands for a host may be readable only by root. */
	if ((!line->root || declaration_runs_programs(declaration)) &&
		try_out_confine(declaration->user, &error) < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return EXIT_FAILURE;
	}
	root = line->root ?: declaration_root(declaration);
	if (try_out(declaration, root, line->reason, line->allocate, &result, &error) < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return EXIT_FAILURE;
	}
	if (line->json)
		(void)(json_dumpf(result, stdout, JSON_INDENT(2)) >= 0 && puts(""));
	else {
		print_devices(result, declaration->health.count > 0);
		if (declaration->health.count > 0)
			(void)puts("The probes of the resource were not run.");
		print_answer(result, root);
		print_parameters(result);
	}
	json_decref(result);
	return fflush(stdout) != 0 || ferror(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
