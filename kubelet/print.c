/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints tables and lists on standard output, from the JSON of the kubelet's reply.
 */
#include "kubelet/print.h"

#include "common/text.h"

static long long number(const json_t *object, const char *key)
{
	return (long long)json_integer_value(json_object_get(object, key));
}

/* Copies the text into the caller's buffer and replaces control characters. */
static const char *harmless(const char *from, char *buffer, size_t size)
{
	(void)snprintf(buffer, size, "%s", from ? from : "-");
	text_sanitize(buffer);
	return buffer;
}

#define HARMLESS(from)      harmless(from, (char[4096]){ 0 }, 4096)
#define TEXT(value)         HARMLESS(json_string_value(value))
#define MEMBER(object, key) TEXT(json_object_get(object, key))

static void print_device(const json_t *device)
{
	const json_t *numa = json_object_get(device, "numa"), *node;
	size_t i;

	(void)printf("  %-40s %-10s numa", MEMBER(device, "id"),
		json_is_true(json_object_get(device, "healthy")) ? "Healthy" : "Unhealthy");
	json_array_foreach(numa, i, node)(void)
		printf("%c%lld", i == 0 ? ' ' : ',', (long long)json_integer_value(node));
	(void)printf("%s  %s\n", i == 0 ? " -" : "", MEMBER(device, "pod"));
}

void print_status(const json_t *status)
{
	const json_t *resources = json_object_get(status, "resources"), *resource, *device;
	size_t i, k;

	(void)printf("kubelet %s, plugins in %s\n", MEMBER(status, "version"),
		MEMBER(status, "plugin_dir"));
	json_array_foreach(resources, i, resource)
	{
		(void)printf(
			"\n%s: %s, capacity %lld, allocatable %lld, allocated %lld, endpoint %s\n",
			MEMBER(resource, "name"), MEMBER(resource, "state"),
			number(resource, "capacity"), number(resource, "allocatable"),
			number(resource, "allocated"), MEMBER(resource, "endpoint"));
		json_array_foreach(json_object_get(resource, "devices"), k, device)
			print_device(device);
	}
}

static void print_resources(const json_t *container, bool started)
{
	const char *name;
	json_t *ids, *id;
	size_t i;

	json_object_foreach(json_object_get(container, "resources"), name, ids)
	{
		(void)printf("  %s:", name);
		json_array_foreach(ids, i, id)(void) printf(" %s", TEXT(id));
		(void)putchar('\n');
	}
	json_array_foreach(started ? json_object_get(container, "ignored") : NULL, i, id)(void)
		printf("  %s: no plugin has registered it, so the container starts without it\n",
			TEXT(id));
}

static void print_topology(const json_t *topology)
{
	const json_t *nodes = json_object_get(topology, "nodes"), *node;
	size_t i;

	json_array_foreach(nodes, i, node)(void) printf(
		"%s %lld", i == 0 ? "  NUMA nodes:" : "", (long long)json_integer_value(node));
	if (i > 0)
		(void)puts(
			json_is_true(json_object_get(topology, "preferred")) ? ", preferred" : "");
}

static void print_map(const char *title, const json_t *map)
{
	const char *key;
	json_t *value;

	if (json_object_size(map) > 0)
		(void)printf("  %s:\n", title);
	json_object_foreach((json_t *)(uintptr_t)map, key, value)(void)
		printf("    %s=%s\n", HARMLESS(key), TEXT(value));
}

static void print_container(const json_t *container)
{
	const json_t *list = json_object_get(container, "devices"), *item;
	size_t i;

	if (json_array_size(list) > 0)
		(void)printf("  devices:\n");
	json_array_foreach(list, i, item)(void)
		printf("    %s -> %s %s\n", MEMBER(item, "host_path"),
			MEMBER(item, "container_path"), MEMBER(item, "permissions"));
	list = json_object_get(container, "mounts");
	if (json_array_size(list) > 0)
		(void)printf("  mounts:\n");
	json_array_foreach(list, i, item)(void) printf("    %s -> %s %s\n",
		MEMBER(item, "host_path"), MEMBER(item, "container_path"),
		json_is_true(json_object_get(item, "read_only")) ? "ro" : "rw");
	print_map("env", json_object_get(container, "env"));
	print_map("annotations", json_object_get(container, "annotations"));
	list = json_object_get(container, "cdi");
	if (json_array_size(list) > 0)
		(void)printf("  cdi:\n");
	json_array_foreach(list, i, item)(void) printf("    %s\n", TEXT(item));
}

static void print_claims(const json_t *claims)
{
	const json_t *claim, *device;
	size_t i, k;

	json_array_foreach(claims, i, claim)
	{
		(void)printf("  claim %s%s\n", MEMBER(claim, "name"),
			json_is_true(json_object_get(claim, "prepared")) ? "" : ", not prepared");
		json_array_foreach(json_object_get(claim, "devices"), k, device)(void) printf(
			"    %s of %s: %s %s\n", MEMBER(device, "device"), MEMBER(device, "driver"),
			MEMBER(device, "health"), MEMBER(device, "message"));
	}
}

void print_pod(const json_t *pod)
{
	const json_t *containers = json_object_get(pod, "containers"), *container;
	size_t i;

	(void)printf(
		"%s/%s: %s\n", MEMBER(pod, "namespace"), MEMBER(pod, "name"), MEMBER(pod, "phase"));
	if (json_object_get(pod, "reason"))
		(void)printf("  %s: %s\n", MEMBER(pod, "reason"), MEMBER(pod, "message"));
	print_claims(json_object_get(pod, "claims"));
	json_array_foreach(containers, i, container)
	{
		if (json_array_size(containers) > 1)
			(void)printf(" %s container %s\n", MEMBER(container, "kind"),
				MEMBER(container, "name"));
		print_resources(container, !json_object_get(pod, "reason"));
		print_topology(json_object_get(container, "topology"));
		print_container(json_object_get(container, "container"));
	}
}

void print_pods(const json_t *pods)
{
	const json_t *pod;
	size_t i;

	json_array_foreach(json_object_get(pods, "pods"), i, pod) print_pod(pod);
}

void print_allocatable(const json_t *resources, FILE *to)
{
	const char *separator = "", *name;
	json_t *counts;

	json_object_foreach((json_t *)(uintptr_t)resources, name, counts)
	{
		(void)fprintf(to, "%s%s=", separator, name);
		if (json_is_null(counts))
			(void)fprintf(to, "unknown");
		else
			(void)fprintf(to, "%lld (capacity %lld)", number(counts, "allocatable"),
				number(counts, "capacity"));
		separator = ", ";
	}
	(void)fputc('\n', to);
}
