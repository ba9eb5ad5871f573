/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes which hardware is behind each device, as a text that the supervisor compares
 * (ownership.h). Characters that have a meaning in the form of the text, and bytes that are not
 * UTF-8 in the target of a link, are replaced, in paths and claims in the same way.
 */
#include "drivers/inventory/hardware-claims.h"

#include "common/text.h"
#include "drivers/host/sysroot.h"

static int write_claim(FILE *stream, const char *claim)
{
	_cleanup_free_ char *text = strdup(claim);

	if (!text)
		return -ENOMEM;
	text_sanitize(text);
	(void)fprintf(stream, "\t%s", text);
	return 0;
}

static int write_device(FILE *stream, const struct device *device, const char *root)
{
	int r = 0;

	if (device_count_claims(device) == 0)
		return 0;
	(void)fputs(device->id, stream);
	for (size_t i = 0; i < device->n_nodes && r >= 0; i++) {
		_cleanup_free_ char *resolved = NULL;

		if (device->nodes[i].shared)
			continue;
		if (sysroot_resolve(root, device->nodes[i].host, &resolved) < 0)
			resolved = NULL;
		r = write_claim(stream, resolved ?: device->nodes[i].host);
	}
	for (size_t i = 0; i < device->claims.count && r >= 0; i++)
		r = write_claim(stream, device->claims.items[i]);
	(void)fputc('\n', stream);
	return r;
}

int hardware_claims_text(const struct snapshot *snapshot, const char *root, char **ret)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	int r = 0;

	if (!stream)
		return -ENOMEM;
	for (size_t i = 0; i < snapshot->n_units && r >= 0; i++) {
		const struct device *device = snapshot_existing(snapshot, i);

		if (device)
			r = write_device(stream, device, root);
	}
	if (ferror(stream))
		r = -ENOMEM;
	if (fclose(stream) != 0 || r < 0) {
		free(text);
		return -ENOMEM;
	}
	*ret = text;
	return 0;
}
