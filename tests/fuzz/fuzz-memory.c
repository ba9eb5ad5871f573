/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the units of a memory, which another process has left: what is read is what a scan
 * could have found, and is the same after it was written once more.
 */
#include <sys/mman.h>

#include "drivers/memory.h"
#include "fuzz-device.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *boot_id(void)
{
	static char text[64];
	FILE *stream = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!stream || !fgets(text, sizeof(text), stream))
		abort();
	(void)fclose(stream);
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static int memory_fd(void)
{
	int fd = memfd_create("memory", MFD_CLOEXEC);

	if (fd < 0)
		abort();
	return fd;
}

static void check_device(const struct memory_unit *unit)
{
	const struct device *device = unit->device;

	if (!unit->lent || !streq(device->id, unit->id))
		abort();
	demand_device(device);
}

/* Whether both remember the same. */
static void compare(const struct memory *memory, const struct memory *again)
{
	if (memory->n_units != again->n_units)
		abort();
	for (size_t i = 0; i < memory->n_units; i++) {
		const struct memory_unit *a = memory->units[i], *b = again->units[i];

		if (!streq(a->id, b->id) || a->healthy != b->healthy || a->since != b->since ||
			a->lent != b->lent || a->n_verdicts != b->n_verdicts ||
			!a->device != !b->device)
			abort();
		if (!a->device)
			continue;
		check_device(a);
		if (!device_equal(a->device, b->device))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_memory_ struct memory *memory = NULL, *again = NULL;
	int fd = memory_fd();

	(void)dprintf(fd, "{\"boot\": \"%s\", \"sought\": \"12ab\", \"units\": ", boot_id());
	(void)!write(fd, data, size);
	(void)!write(fd, "}", 1);
	if (memory_read(fd, &memory) >= 0) {
		(void)close(fd);
		fd = memory_fd();
		if (memory_write(memory, fd) < 0 || memory_read(fd, &again) < 0)
			abort();
		compare(memory, again);
	}
	(void)close(fd);
	return 0;
}
