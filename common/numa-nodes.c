/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares lists of numbers as the kernel and the kubelet write them. A word of a list that is not
 * a number or a range of numbers is left out.
 */
#include "common/numa-nodes.h"

#include <dirent.h>

#include "common/text.h"

#define NODES_DIRECTORY "/sys/devices/system/node"
#define NUMBER_MAX      65535U

/* The next range of a list; a single number is one. */
static bool next_range(const char **at, unsigned *ret_first, unsigned *ret_last)
{
	while (**at) {
		const char *word = *at, *comma = strchrnul(word, ',');
		unsigned long first, last;
		char *end;

		*at = *comma ? comma + 1 : comma;
		if (*word < '0' || *word > '9')
			continue;
		first = last = strtoul(word, &end, 10);
		if (*end == '-' && end[1] >= '0' && end[1] <= '9')
			last = strtoul(end + 1, &end, 10);
		if (end != comma || first > last)
			continue;
		*ret_first = (unsigned)MIN_OF(first, NUMBER_MAX);
		*ret_last = (unsigned)MIN_OF(last, NUMBER_MAX);
		return true;
	}
	return false;
}

static void add(struct numa_nodes *nodes, unsigned node)
{
	if (node < NUMA_NODES_MAX)
		nodes->words[node / 64] |= UINT64_C(1) << node % 64;
}

bool numa_nodes_are_none(const struct numa_nodes *nodes)
{
	return !numa_nodes_meet(nodes, nodes);
}

bool numa_nodes_meet(const struct numa_nodes *a, const struct numa_nodes *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(a->words); i++)
		if (a->words[i] & b->words[i])
			return true;
	return false;
}

bool numa_nodes_have(const struct numa_nodes *nodes, unsigned node)
{
	return node < NUMA_NODES_MAX && nodes->words[node / 64] >> node % 64 & 1;
}

void numa_nodes_add(struct numa_nodes *nodes, const char *list)
{
	unsigned first, last;

	while (next_range(&list, &first, &last))
		for (unsigned node = first; node <= last && node < NUMA_NODES_MAX; node++)
			add(nodes, node);
}

json_t *numa_nodes_pack(const struct numa_nodes *nodes)
{
	json_auto_t *numbers = json_array();
	int r = numbers ? 0 : -1;

	for (unsigned node = 0; node < NUMA_NODES_MAX && r >= 0; node++)
		if (numa_nodes_have(nodes, node))
			r = json_array_append_new(numbers, json_integer(node));
	return r < 0 ? NULL : json_incref(numbers);
}

static int add_cpus(json_t *cpus, const char *root, const char *name)
{
	_cleanup_free_ char *path = NULL, *line = NULL;
	_cleanup_fclose_ FILE *stream = NULL;
	size_t size = 0;

	if (format_text(&path, "%s" NODES_DIRECTORY "/%s/cpulist", root, name) < 0)
		return -ENOMEM;
	stream = fopen(path, "re");
	if (!stream || getline(&line, &size, stream) < 0)
		return 0;
	line[strcspn(line, "\n")] = '\0';
	return json_object_set_new(cpus, name + strlen("node"), json_string(line));
}

json_t *numa_cpus_read(const char *root)
{
	json_auto_t *cpus = json_object();
	_cleanup_free_ char *path = NULL;
	const struct dirent *entry;
	int r = cpus ? 0 : -ENOMEM;
	DIR *stream;

	if (r < 0 || format_text(&path, "%s" NODES_DIRECTORY, root) < 0)
		return NULL;
	stream = opendir(path);
	while (stream && r >= 0 && (entry = readdir(stream))) {
		if (text_is_number(startswith(entry->d_name, "node")))
			r = add_cpus(cpus, root, entry->d_name);
	}
	if (stream)
		(void)closedir(stream);
	return r < 0 ? NULL : json_incref(cpus);
}

static bool lists_meet(const char *a, const char *b)
{
	unsigned first, last, other_first, other_last;

	while (next_range(&a, &first, &last))
		for (const char *at = b; next_range(&at, &other_first, &other_last);)
			if (first <= other_last && other_first <= last)
				return true;
	return false;
}

void numa_nodes_add_of_cpus(struct numa_nodes *nodes, json_t *cpus, const char *list)
{
	const char *node;
	json_t *of_node;

	json_object_foreach(cpus, node, of_node)
	{
		const char *text = json_string_value(of_node);

		if (text && lists_meet(list, text))
			numa_nodes_add(nodes, node);
	}
}
