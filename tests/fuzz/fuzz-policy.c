/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any CDI document from the children of three resources: what passes mounts nothing above what the
 * configuration names, opens no node outside of /dev and sets no variable of the dynamic loader.
 * The first byte chooses the resource.
 */
#include "configuration/config.h"
#include "supervisor/publication-form.h"
#include "supervisor/publication-policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The maximum that a resource allows, written by hand. */
static const struct allowed {
	const char *mount, *node, *variable; /* what it is below, or begins with */
} allowed[] = {
	{ "/opt/vendor", "/dev", "CARD=" },
	{ "/srv", "/dev", "" },
	{ "", "", "" },
};

static const char text[] =
	"resources = (\n"
	"{ name = \"vendor.example/a\"; driver = \"static\"; match = ( { id = \"a\"; } );\n"
	"  cdi_spec = { kind = \"vendor.example/card\"; };\n"
	"  container = { mounts = ( { host = \"/opt/vendor\"; path = \"/v\"; read_only = true; } );"
	" env = ( \"CARD=${id}\" ); }; },\n"
	"{ name = \"vendor.example/b\"; driver = \"static\"; match = ( { id = \"b\"; } );\n"
	"  cdi_spec = { kind = \"vendor.example/b\"; };\n"
	"  container = { mounts = ( { host = \"/srv/${id}\"; path = \"/v\"; } );"
	" env = ( \"${id}=1\" ); }; },\n"
	"{ name = \"vendor.example/c\"; driver = \"exec\"; match = ( { command = [ \"/bin/c\" ]; } );\n"
	"  cdi_spec = { kind = \"vendor.example/c\"; }; }\n"
	");\n";

/* The path without ".", ".." and repeated slashes; "" is the root. */
static void normalize(const char *path, char *ret)
{
	char *end = ret;

	*ret = '\0';
	while (*(path += strspn(path, "/"))) {
		size_t length = strcspn(path, "/");

		if (length == 2 && path[0] == '.' && path[1] == '.') {
			end = strrchr(ret, '/') ?: ret;
		} else if (length != 1 || path[0] != '.') {
			*end++ = '/';
			memcpy(end, path, length);
			end += length;
		}
		*end = '\0';
		path += length;
	}
}

static void demand_below(const char *path, const char *directory)
{
	char normal[8192];
	const char *rest;

	if (strlen(path) >= sizeof(normal))
		abort();
	normalize(path, normal);
	rest = startswith(normal, directory);
	if (!rest || (*rest && *rest != '/') || !*normal)
		abort();
}

static void demand_edits(const json_t *edits, const struct allowed *most)
{
	const json_t *value;
	size_t i;

	json_array_foreach(json_object_get(edits, "mounts"), i, value)
	{
		demand_below(json_string_value(json_object_get(value, "hostPath")), most->mount);
	}
	json_array_foreach(json_object_get(edits, "deviceNodes"), i, value)
	{
		const char *host = json_string_value(json_object_get(value, "hostPath"));

		demand_below(host ?: json_string_value(json_object_get(value, "path")), most->node);
	}
	json_array_foreach(json_object_get(edits, "env"), i, value)
	{
		if (startswith(json_string_value(value), "LD_") ||
			!startswith(json_string_value(value), most->variable))
			abort();
	}
}

static const struct config *configuration(void)
{
	static struct config *config;
	struct report report = { 0 };

	if (!config && config_load_text("fuzz", text, strlen(text), &report, &config) < 0)
		abort();
	return config;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t which = size > 0 ? data[0] % ARRAY_SIZE(allowed) : 0, i;
	json_t *spec = size > 0
		? json_loadb((const char *)data + 1, size - 1, JSON_REJECT_DUPLICATES, NULL)
		: NULL;
	const json_t *device;
	struct error error = { 0 };

	if (spec && publication_check_cdi(spec, "vendor.example/card", &error) >= 0 &&
		publication_policy_check(
			&configuration()->resources[which].declaration, spec, &error) >= 0)
		json_array_foreach(json_object_get(spec, "devices"), i, device)
		{
			demand_edits(json_object_get(device, "containerEdits"), &allowed[which]);
		}
	json_decref(spec);
	return 0;
}
