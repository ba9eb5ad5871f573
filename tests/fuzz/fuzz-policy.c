/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any CDI document from the children of these resources: what passes mounts nothing above what the
 * configuration names, opens no node outside of /dev and sets no variable of the dynamic loader.
 * The first byte chooses the resource. A document with "uid" is a claim, as devplugd-cluster sends
 * it and as it was saved: nothing else of it is left than what such a claim may have.
 */
#include "common/log.h"
#include "configuration/config.h"
#include "supervisor/books/dra-claim.h"
#include "supervisor/books/dra-metadata.h"
#include "supervisor/files/publication-allowed.h"
#include "supervisor/files/publication-form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The maximum that a resource allows, written by hand. */
static const struct allowed {
	const char *mount, *node, *variable; /* what it is below, or begins with */
	bool read_only;                      /* the mounts */
} allowed[] = {
	{ "/opt/vendor", "/dev", "CARD=", true },
	{ "/srv", "/dev", "", false },
	{ "", "", "", false },
	{ "/opt/dra", "/dev", "GPU=", false },
	{ "/etc/lic-", "/dev", "", false },
};

#define OF_DRA 3

static const char text[] =
	"dra = { driver = \"d.example\"; node = \"n\"; };\n"
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
	"  cdi_spec = { kind = \"vendor.example/c\"; }; },\n"
	"{ name = \"vendor.example/d\"; driver = \"static\"; match = ( { id = \"d\"; } );\n"
	"  serve = \"dra\"; container = { mounts = ( { host = \"/opt/dra\"; path = \"/v\"; } );"
	" env = ( \"GPU=${id}\" ); }; },\n"
	"{ name = \"vendor.example/e\"; driver = \"static\"; match = ( { id = \"e\"; } );\n"
	"  cdi_spec = { kind = \"vendor.example/e\"; };\n"
	"  container = { mounts = ( { host = \"/etc/lic-${id}\"; path = \"/v\"; } );"
	" env = ( \"${id}=1\" ); }; }\n"
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

static bool ends_in_dash(const char *word)
{
	return *word && word[strlen(word) - 1] == '-';
}

static void demand_below(const char *path, const char *directory)
{
	char normal[8192];
	const char *rest;

	if (strlen(path) >= sizeof(normal))
		abort();
	normalize(path, normal);
	rest = startswith(normal, directory);
	/* The name goes on, and is the last one. */
	if (rest && ends_in_dash(directory) && !strchr(rest, '/'))
		return;
	if (!rest || (*rest && *rest != '/') || !*normal)
		abort();
}

static void demand_read_only(const json_t *options)
{
	const json_t *option;
	size_t i;

	json_array_foreach(options, i, option)
	{
		if (streq(json_string_value(option), "rw"))
			abort();
	}
	if (json_array_size(options) == 0)
		abort();
}

static void demand_edits(const json_t *edits, const struct allowed *most)
{
	const json_t *value;
	size_t i;

	json_array_foreach(json_object_get(edits, "mounts"), i, value)
	{
		demand_below(json_string_value(json_object_get(value, "hostPath")), most->mount);
		if (most->read_only)
			demand_read_only(json_object_get(value, "options"));
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

static void demand_members(const json_t *object, const char *const *names)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		const char *const *name = names;

		while (*name && !streq(*name, key))
			name++;
		if (!*name)
			abort();
	}
}

/* The host's path is within the directory, and the container's path below the known one. */
static void demand_paths(const json_t *claim)
{
	struct published_metadata *files;
	size_t n;

	if (dra_metadata_make(claim, &files, &n) < 0)
		abort();
	for (size_t i = 0; i < n; i++) {
		json_auto_t *devices = json_array();
		const json_t *edits, *mount;

		if (strpbrk(files[i].request, "/_") || files[i].request[0] == '.' ||
			dra_metadata_mount(claim, files[i].request, "/host", devices, "d") < 0)
			abort();
		edits = json_object_get(json_array_get(devices, 0), "containerEdits");
		mount = json_array_get(json_object_get(edits, "mounts"), 0);
		demand_below(json_string_value(json_object_get(mount, "containerPath")),
			DRA_METADATA_DIRECTORY);
	}
	dra_metadata_done(files, n);
}

static void demand_claim(const json_t *claim, bool saved)
{
	static const char *const of_claim[] = { "driver", "uid", "namespace", "name", "devices",
		"metadata", NULL };
	static const char *const of_metadata[] = { "attributes", "alternatives", "pod_claim",
		"generations", NULL };
	static const char *const of_device[] = { "request", "pool", "name", "admin", "resource",
		"id", NULL };
	static const char *const of_saved_device[] = { "request", "pool", "name", "admin",
		"resource", "id", "cdi", "edits", "forgotten", NULL };
	const json_t *device;
	size_t i;

	demand_members(claim, of_claim);
	demand_members(json_object_get(claim, "metadata"), of_metadata);
	demand_paths(claim);
	json_array_foreach(json_object_get(claim, "devices"), i, device)
	{
		demand_members(device, saved ? of_saved_device : of_device);
	}
}

/* What the resource of the device with that name in the specification may give. */
static const struct allowed *allowed_to(const json_t *claim, const char *name)
{
	const json_t *device, *id;
	size_t i, k;

	json_array_foreach(json_object_get(claim, "devices"), i, device)
	{
		const char *resource = json_string_value(json_object_get(device, "resource"));
		const char *letter = resource ? startswith(resource, "vendor.example/") : NULL;

		json_array_foreach(json_object_get(device, "cdi"), k, id)
		{
			const char *of = startswith(json_string_value(id), DRA_CDI_KIND "=");

			if (of && streq(of, name) && letter && *letter >= 'a' && *letter <= 'e' &&
				!letter[1])
				return &allowed[*letter - 'a'];
		}
	}
	return &allowed[OF_DRA];
}

static void demand_spec(const json_t *claim, const json_t *spec)
{
	static const char *const members[] = { "cdiVersion", "kind", "devices", NULL };
	const json_t *device;
	size_t i;

	demand_members(spec, members);
	if (spec && !streq(json_string_value(json_object_get(spec, "kind")), DRA_CDI_KIND))
		abort();
	json_array_foreach(json_object_get(spec, "devices"), i, device)
	{
		demand_edits(json_object_get(device, "containerEdits"),
			allowed_to(claim, json_string_value(json_object_get(device, "name"))));
	}
}

static void try_claim(json_t *document)
{
	json_auto_t *sent = dra_claim_read(document, "d.example");
	json_auto_t *saved = dra_claim_read_saved(document);
	json_auto_t *spec = NULL;
	struct error error = { 0 };

	if (sent)
		demand_claim(sent, false);
	if (!saved)
		return;
	demand_claim(saved, true);
	if (dra_claim_read_spec(
		    saved, json_object_get(document, "spec"), configuration(), &spec, &error) >= 0)
		demand_spec(saved, spec);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	log_setup("fuzz", LOG_TARGET_TEXT, LOG_CRIT);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t which = size > 0 ? data[0] % ARRAY_SIZE(allowed) : 0, i;
	json_t *spec = size > 0
		? json_loadb((const char *)data + 1, size - 1, JSON_REJECT_DUPLICATES, NULL)
		: NULL;
	const json_t *device;
	struct error error = { 0 };

	if (json_object_get(spec, "uid"))
		try_claim(spec);
	if (spec && publication_check_cdi(spec, "vendor.example/card", &error) >= 0 &&
		publication_check_allowed(
			&configuration()->resources[which].declaration, spec, &error) >= 0)
		json_array_foreach(json_object_get(spec, "devices"), i, device)
		{
			demand_edits(json_object_get(device, "containerEdits"), &allowed[which]);
		}
	json_decref(spec);
	return 0;
}
