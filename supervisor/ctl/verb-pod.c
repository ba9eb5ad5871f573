/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows all that the kubelet has assigned to the containers of a pod, for any plugin and driver,
 * with the NUMA nodes, and whether these agree. A part of a container (its CPUs, a kind of memory,
 * a device) is compared if its nodes are known. It agrees if it shares a node with the CPUs, or
 * without exclusive CPUs, with the first part.
 */
#include "common/numa-nodes.h"
#include "supervisor/control/ask.h"
#include "supervisor/ctl/table.h"
#include "supervisor/ctl/verb.h"

/* While a container's document is made. */
struct comparison {
	struct numa_nodes nodes; /* of the first part */
	char *first, *away;      /* what they are; NULL: there is none */
	unsigned count;          /* parts with nodes */
};

static char *name_nodes(const json_t *numbers)
{
	_cleanup_free_ char *text = strdup("");
	const json_t *number;
	size_t i;

	json_array_foreach(numbers, i, number)
	{
		char *longer;

		if (!text ||
			format_text(&longer, "%s%s%lld", text, i > 0 ? "," : "",
				(long long)json_integer_value(number)) < 0)
			return NULL;
		free(text);
		text = longer;
	}
	return TAKE_PTR(text);
}

/* Takes the name. Adds the nodes as member `key`, and compares them. */
static void add_nodes(struct comparison *comparison, json_t *part, const char *key,
	const struct numa_nodes *nodes, char *name)
{
	_cleanup_free_ char *owned = name, *words = NULL, *text = NULL;
	json_t *numbers = numa_nodes_pack(nodes);

	(void)json_object_set_new(part, key, numbers);
	words = name_nodes(numbers);
	if (!owned || !words || numa_nodes_are_none(nodes))
		return;
	if (format_text(&text, "%s on NUMA node %s", owned, words) < 0)
		return;
	if (comparison->count++ == 0) {
		comparison->nodes = *nodes;
		comparison->first = TAKE_PTR(text);
	} else if (!comparison->away && !numa_nodes_meet(nodes, &comparison->nodes)) {
		comparison->away = TAKE_PTR(text);
	}
}

/* --- the answer as a document --- */

static void add_cpus(
	struct comparison *comparison, json_t *to, const json_t *from, const json_t *answer)
{
	const char *cpus = text_of(from, "cpus");
	struct numa_nodes nodes = { 0 };

	numa_nodes_add_of_cpus(&nodes, json_object_get(answer, "cpus"), cpus);
	(void)json_object_set_new(to, "cpus", clean_text(cpus));
	add_nodes(comparison, to, "cpu_nodes", &nodes, strdup("CPUs"));
}

static void add_memory(struct comparison *comparison, json_t *to, const json_t *from)
{
	json_t *all = json_array();
	const json_t *found;
	size_t i;

	(void)json_object_set_new(to, "memory", all);
	json_array_foreach(json_object_get(from, "memory"), i, found)
	{
		json_t *part = json_pack("{s:o, s:I}", "type", clean_text_of(found, "type"),
			"bytes", integer_of(found, "bytes"));
		struct numa_nodes nodes = { 0 };

		numa_nodes_add(&nodes, text_of(found, "nodes"));
		add_nodes(comparison, part, "numa", &nodes, strdup(text_of(part, "type")));
		(void)json_array_append_new(all, part);
	}
}

static json_t *make_device(const char *resource, const char *id, const json_t *claim)
{
	_cleanup_free_ char *name = NULL;

	if (format_text(&name, "%s%s%s", text_of(claim, "namespace"), claim ? "/" : "",
		    text_of(claim, "name")) < 0)
		return NULL;
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "resource", clean_text(resource), "id",
		clean_text(id), "claim", clean_text(name), "driver", clean_text_of(claim, "driver"),
		"pool", clean_text_of(claim, "pool"), "device", clean_text_of(claim, "device"));
}

static char *name_device(const json_t *device)
{
	const bool ours = *text_of(device, "resource");
	char *name;

	return format_text(&name, "%s/%s", text_of(device, ours ? "resource" : "driver"),
		       text_of(device, ours ? "id" : "device")) < 0
		? NULL
		: name;
}

/* A device on several nodes may have several rows. */
static void add_plugin_devices(struct comparison *comparison, json_t *devices, const json_t *from)
{
	const json_t *rows = json_object_get(from, "devices"), *row, *other;
	json_auto_t *seen = json_object();
	size_t i, k;

	json_array_foreach(rows, i, row)
	{
		json_t *device = make_device(text_of(row, "resource"), text_of(row, "id"), NULL);
		_cleanup_free_ char *name = name_device(device);
		struct numa_nodes nodes = { 0 };

		if (!name || json_object_get(seen, name)) {
			json_decref(device);
			continue;
		}
		(void)json_object_set_new(seen, name, json_true());
		json_array_foreach(rows, k, other)
		{
			if (streq(text_of(row, "id"), text_of(other, "id")) &&
				streq(text_of(row, "resource"), text_of(other, "resource")))
				numa_nodes_add(&nodes, text_of(other, "nodes"));
		}
		add_nodes(comparison, device, "numa", &nodes, TAKE_PTR(name));
		(void)json_array_append_new(devices, device);
	}
}

/* The nodes of a device as its process describes it. */
static struct numa_nodes nodes_of_device(
	const json_t *documents, const char *resource, const char *id)
{
	const json_t *devices = json_object_get(json_object_get(documents, resource), "devices");
	struct numa_nodes nodes = { 0 };
	const json_t *device, *number;
	size_t i, k;

	json_array_foreach(devices, i, device)
	{
		if (!streq(text_of(device, "id"), id))
			continue;
		json_array_foreach(json_object_get(device, "numa"), k, number)
		{
			char text[24];

			(void)snprintf(
				text, sizeof(text), "%lld", (long long)json_integer_value(number));
			numa_nodes_add(&nodes, text);
		}
	}
	return nodes;
}

static void add_claimed_devices(
	struct comparison *comparison, json_t *devices, const json_t *from, const json_t *documents)
{
	const json_t *claim;
	size_t i;

	json_array_foreach(json_object_get(from, "claims"), i, claim)
	{
		const char *resource = text_of(claim, "resource"), *id = text_of(claim, "id");
		struct numa_nodes nodes = nodes_of_device(documents, resource, id);
		json_t *device = make_device(resource, id, claim);

		add_nodes(comparison, device, "numa", &nodes, name_device(device));
		(void)json_array_append_new(devices, device);
	}
}

static json_t *make_container(const json_t *from, const json_t *answer, const json_t *documents)
{
	struct comparison comparison = { 0 };
	json_t *devices = json_array();
	json_t *to = json_pack("{s:o, s:s, s:o}", "name", clean_text_of(from, "name"), "kind",
		*text_of(from, "name") ? "container" : "pod", "devices", devices);
	_cleanup_free_ char *why = NULL;

	add_cpus(&comparison, to, from, answer);
	add_memory(&comparison, to, from);
	add_plugin_devices(&comparison, devices, from);
	add_claimed_devices(&comparison, devices, from, documents);
	if (comparison.away)
		(void)format_text(&why, "%s, %s", comparison.first, comparison.away);
	(void)json_object_set_new(
		to, "aligned", comparison.count < 2 ? json_null() : json_boolean(!comparison.away));
	(void)json_object_set_new(to, "difference", json_string(why ?: ""));
	free(comparison.first);
	free(comparison.away);
	return to;
}

/* Adds a device of a container that only the kubelet's checkpoint has, as long as the pod exists.
 */
static void add_unlisted(json_t *containers, const json_t *row, const char *kind)
{
	json_t *device = make_device(text_of(row, "resource"), text_of(row, "id"), NULL),
	       *container;
	size_t i;

	(void)json_object_set_new(device, "numa", json_array());
	json_array_foreach(containers, i, container)
	{
		if (streq(text_of(container, "kind"), kind) &&
			streq(text_of(container, "name"), text_of(row, "container"))) {
			(void)json_array_append_new(json_object_get(container, "devices"), device);
			return;
		}
	}
	(void)json_array_append_new(containers,
		json_pack("{s:o, s:s, s:[o], s:s, s:[], s:[], s:n, s:s}", "name",
			clean_text_of(row, "container"), "kind", kind, "devices", device, "cpus",
			"", "cpu_nodes", "memory", "aligned", "difference", ""));
}

static json_t *make_document(const json_t *answer, const json_t *documents)
{
	json_t *containers = json_array();
	const json_t *found;
	const char *kind;
	size_t i;

	json_array_foreach(json_object_get(answer, "containers"), i, found)(void)
		json_array_append_new(containers, make_container(found, answer, documents));
	/* The kubelet lists the containers and sidecars of a pod that runs. */
	kind = json_array_size(containers) > 0 ? "init" : "ended";
	json_array_foreach(json_object_get(answer, "unlisted"), i, found)
	{
		add_unlisted(containers, found, kind);
	}
	return json_pack("{s:i, s:o, s:o, s:o}", "version", DOCUMENT_VERSION, "namespace",
		clean_text_of(answer, "namespace"), "pod", clean_text_of(answer, "pod"),
		"containers", containers);
}

/* --- for people --- */

static void add_row(struct table *table, const json_t *container, const char *kind,
	const char *what, const json_t *nodes)
{
	const char *name = text_of(container, "name"), *of = text_of(container, "kind");
	_cleanup_free_ char *words = name_nodes(nodes);

	if (streq(of, "container"))
		table_add(table, COLOUR_NONE, "%s", name);
	else
		table_add(table, COLOUR_NONE, "%s%s(%s)", name, *name ? " " : "", of);
	table_add(table, COLOUR_NONE, "%s", kind);
	table_add(table, COLOUR_NONE, "%s", what);
	table_add(table, COLOUR_NONE, "%s", words && *words ? words : "-");
}

static void add_memory_row(struct table *table, const json_t *container, const json_t *memory)
{
	_cleanup_free_ char *what = NULL;

	if (format_text(&what, "%s, %lld MiB", text_of(memory, "type"),
		    (long long)(integer_of(memory, "bytes") >> 20)) >= 0)
		add_row(table, container, "memory", what, json_object_get(memory, "numa"));
}

static void add_device_row(struct table *table, const json_t *container, const json_t *device)
{
	_cleanup_free_ char *name = name_device(device), *what = NULL;
	const char *claim = text_of(device, "claim");

	if (name &&
		format_text(&what, "%s%s%s%s", name, *claim ? " (claim " : "", claim,
			*claim ? ")" : "") >= 0)
		add_row(table, container, "device", what, json_object_get(device, "numa"));
}

static void add_container(struct table *table, const json_t *container)
{
	const json_t *memory = json_object_get(container, "memory");
	const json_t *devices = json_object_get(container, "devices"), *part;
	const char *cpus = text_of(container, "cpus");
	size_t i;

	if (*cpus)
		add_row(table, container, "CPUs", cpus, json_object_get(container, "cpu_nodes"));
	json_array_foreach(memory, i, part)
	{
		add_memory_row(table, container, part);
	}
	json_array_foreach(devices, i, part)
	{
		add_device_row(table, container, part);
	}
	if (!*cpus && json_array_size(memory) == 0 && json_array_size(devices) == 0)
		add_row(table, container, "nothing", "", NULL);
}

static void print_verdict(const json_t *container)
{
	const json_t *aligned = json_object_get(container, "aligned");
	const char *name = text_of(container, "name");

	if (json_is_null(aligned))
		return;
	(void)printf("%s: %s%s\n", *name ? name : "the pod",
		json_is_true(aligned) ? "aligned" : "not aligned: ",
		text_of(container, "difference"));
}

static int print(const json_t *document)
{
	static const char *const heading[] = { "CONTAINER", "KIND", "WHAT", "NUMA" };
	const json_t *containers = json_object_get(document, "containers"), *container;
	_cleanup_(table_freep) struct table *table = NULL;
	size_t i;
	int r;

	r = table_new(ARRAY_SIZE(heading), &table);
	if (r < 0)
		return r;
	for (i = 0; i < ARRAY_SIZE(heading); i++)
		table_add(table, COLOUR_NONE, "%s", heading[i]);
	json_array_foreach(containers, i, container)
	{
		add_container(table, container);
	}
	r = table_print(table);
	json_array_foreach(containers, i, container)
	{
		print_verdict(container);
	}
	return r;
}

static int show_pod(const struct command_line *line, struct error *error)
{
	_cleanup_free_ char *runtime_dir = NULL, *namespace = NULL;
	json_auto_t *answer = NULL, *documents = NULL, *document = NULL;
	const char *slash = strchr(line->subject, '/');
	int r;

	if (!slash || slash == line->subject || !slash[1] || strchr(slash + 1, '/'))
		return error_set(error, -EINVAL, "\"%s\" is not NAMESPACE/NAME", line->subject);
	namespace = strndup(line->subject, (size_t)(slash - line->subject));
	r = namespace ? command_line_runtime_dir(line, &runtime_dir, error) : -ENOMEM;
	if (r >= 0)
		r = ask_pod(runtime_dir, namespace, slash + 1, &answer, &documents, error);
	if (r < 0)
		return r;
	document = make_document(answer, documents);
	if (line->json)
		return print_document(document, error);
	r = document ? print(document) : -ENOMEM;
	return r < 0 ? error_set(error, r, "out of memory") : 0;
}

int command_pod(const struct command_line *line)
{
	struct error error = { 0 };
	int r = show_pod(line, &error);

	if (r == -ESRCH) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return EXIT_NOT_RUNNING;
	}
	return finish_command(r, &error);
}
