/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes which hardware is behind each device, as a text that the supervisor compares
 * (ownership.h). Characters that have a meaning in the form of the text, and bytes that are not
 * UTF-8 in the target of a link, are replaced, in paths and claims in the same way.
 */
#include "drivers/inventory/hardware-claims.h"

#include "common/map.h"
#include "common/text.h"
#include "drivers/host/device-values.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/template.h"

struct claims_text {
	FILE *stream;
	const struct declaration *declaration;
	const char *root;
	const char *id;       /* of the line */
	bool begun;           /* the line has its id */
	struct strings given; /* entries for any device */
	struct map has_given;
};

/* `mark`: 0 for a claim. */
static int write_entry(struct claims_text *text, char mark, const char *entry)
{
	_cleanup_free_ char *copy = strdup(entry);

	if (!copy)
		return -ENOMEM;
	text_sanitize(copy);
	if (!text->begun)
		(void)fputs(text->id, text->stream);
	text->begun = true;
	(void)fputc('\t', text->stream);
	if (mark)
		(void)fputc(mark, text->stream);
	(void)fputs(copy, text->stream);
	return 0;
}

/* To be written once, for all devices. */
static int give(struct claims_text *text, const char *path)
{
	int r;

	if (map_get(&text->has_given, path))
		return 0;
	r = strings_add(&text->given, path, strlen(path));
	return r < 0 ? r
		     : map_put(&text->has_given, text->given.items[text->given.count - 1], text);
}

static int write_node(struct claims_text *text, const struct device_node *node)
{
	_cleanup_free_ char *resolved = NULL;
	const char *path;
	int r;

	if (sysroot_resolve(text->root, node->host, &resolved) < 0)
		resolved = NULL;
	path = resolved ?: node->host;
	if (node->shared)
		return node->mount ? 0 : give(text, path);
	r = write_entry(text, node->optional && !node->mount ? MARK_OPTIONAL : 0, path);
	return r < 0 || streq(path, node->host) ? r : write_entry(text, MARK_LINK, node->host);
}

/* A device without a value of a variable is unhealthy for that reason (needs.c). */
static int expand(const struct template_context *context, const char *template, char **ret)
{
	struct error error;
	int r = template_expand(template, context, ret, &error);

	return r == -ENOMEM ? r : r >= 0;
}

static int write_configured_node(struct claims_text *text, const struct template_context *context,
	const struct declared_node *node)
{
	_cleanup_free_ char *host = NULL, *resolved = NULL;
	int r = expand(context, node->host, &host);

	if (r <= 0)
		return r;
	if (sysroot_resolve(text->root, host, &resolved) < 0)
		resolved = NULL;
	return context->device_value && !node->optional
		? write_entry(text, MARK_NODE, resolved ?: host)
		: give(text, resolved ?: host);
}

static int write_values(struct claims_text *text, const struct template_context *context,
	const struct strings *templates)
{
	int r = 0;

	for (size_t i = 0; i < templates->count && r >= 0; i++) {
		const char *template = templates->items[i];
		_cleanup_free_ char *value = NULL;

		if (!template_may_go_stale(template))
			continue;
		r = expand(context, template, &value);
		if (r > 0)
			r = write_entry(text,
				template_is_per_allocation(template) ? MARK_WHOLE : MARK_VALUE,
				value);
	}
	return r;
}

static int write_configured(struct claims_text *text, const struct device *device, size_t index)
{
	const struct container *container = &text->declaration->container;
	struct device_values values = { .root = text->root, .device = device, .index = index };
	const struct template_context context = {
		.name = text->declaration->name,
		.device_value = device_values_get,
		.devices = &device,
		.n_devices = 1,
		.userdata = &values,
	};
	int r = 0;

	for (size_t i = 0; i < container->nodes.count && r >= 0; i++) {
		const struct declared_node *node = groups_get(&container->nodes, i);

		if (template_is_per_device(node->host))
			r = write_configured_node(text, &context, node);
	}
	if (r >= 0)
		r = write_values(text, &context, &container->env);
	return r < 0 ? r : write_values(text, &context, &container->annotations);
}

static int write_device(struct claims_text *text, const struct device *device, size_t index)
{
	int r = 0;

	text->id = device->id;
	text->begun = false;
	for (size_t i = 0; i < device->n_nodes && r >= 0; i++)
		r = write_node(text, &device->nodes[i]);
	for (size_t i = 0; i < device->claims.count && r >= 0; i++)
		r = write_entry(text, 0, device->claims.items[i]);
	if (r >= 0)
		r = write_configured(text, device, index);
	if (text->begun)
		(void)fputc('\n', text->stream);
	return MIN_OF(r, 0);
}

static int write_given(struct claims_text *text)
{
	const struct groups *nodes = &text->declaration->container.nodes;
	const struct template_context context = { .name = text->declaration->name };
	int r = 0;

	text->id = "";
	text->begun = false;
	for (size_t i = 0; i < nodes->count && r >= 0; i++) {
		const struct declared_node *node = groups_get(nodes, i);

		if (!template_is_per_device(node->host))
			r = write_configured_node(text, &context, node);
	}
	for (size_t i = 0; i < text->given.count && r >= 0; i++)
		r = write_entry(text, MARK_NODE, text->given.items[i]);
	if (text->begun)
		(void)fputc('\n', text->stream);
	return r;
}

int hardware_claims_text(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, char **ret)
{
	struct claims_text text = { .declaration = declaration, .root = root };
	char *written = NULL;
	size_t size;
	int r = 0;

	text.stream = open_memstream(&written, &size);
	if (!text.stream)
		return -ENOMEM;
	for (size_t i = 0; i < snapshot->n_units && r >= 0; i++) {
		const struct device *device = snapshot_existing(snapshot, i);

		if (device)
			r = write_device(&text, device, i);
	}
	if (r >= 0)
		r = write_given(&text);
	strings_done(&text.given);
	map_done(&text.has_given);
	if (ferror(text.stream))
		r = -ENOMEM;
	if (fclose(text.stream) != 0 || r < 0) {
		free(written);
		return -ENOMEM;
	}
	*ret = written;
	return 0;
}
