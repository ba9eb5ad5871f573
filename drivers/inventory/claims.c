/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes which hardware is behind each device, as a text that the supervisor compares
 * (ownership.h). Characters that have a meaning in the form of the text are replaced, in paths and
 * claims in the same way.
 */
#include "drivers/inventory/claims.h"

#include "drivers/host/sysroot.h"

static void write_claim(FILE *stream, const char *claim)
{
	(void)fputc('\t', stream);
	for (const char *p = claim; *p; p++)
		(void)fputc((unsigned char)*p < ' ' ? '?' : *p, stream);
}

static void write_device(FILE *stream, const struct device *device, const char *root)
{
	(void)fputs(device->id, stream);
	for (size_t i = 0; i < device->n_nodes; i++) {
		_cleanup_free_ char *resolved = NULL;

		if (device->nodes[i].shared)
			continue;
		if (sysroot_resolve(root, device->nodes[i].host, &resolved) < 0)
			resolved = NULL;
		write_claim(stream, resolved ?: device->nodes[i].host);
	}
	for (size_t i = 0; i < device->claims.count; i++)
		write_claim(stream, device->claims.items[i]);
	(void)fputc('\n', stream);
}

int claims_text(const struct snapshot *snapshot, const char *root, char **ret)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	bool failed;

	if (!stream)
		return -ENOMEM;
	for (size_t i = 0; i < snapshot->n_units; i++) {
		const struct device *device = snapshot_existing(snapshot, i);

		if (device)
			write_device(stream, device, root);
	}
	failed = ferror(stream);
	if (fclose(stream) != 0 || failed) {
		free(text);
		return -ENOMEM;
	}
	*ret = text;
	return 0;
}
