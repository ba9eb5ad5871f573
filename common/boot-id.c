/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The id is read once: it does not change while a process lives.
 */
#include "common/boot-id.h"

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

const char *boot_id(void)
{
	static char id[64];
	_cleanup_fclose_ FILE *stream = NULL;

	if (*id)
		return id;
	stream = fopen(BOOT_ID_FILE, "re");
	if (!stream || !fgets(id, sizeof(id), stream))
		return NULL;
	id[strcspn(id, "\n")] = '\0';
	return id;
}
