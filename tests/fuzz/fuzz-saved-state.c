/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the units of a saved state, which another process has left: what is read is what a
 * scan could have found, and is the same after it was written once more.
 */
#include <sys/mman.h>

#include "common/boot-id.h"
#include "drivers/health/saved-state.h"
#include "fuzz-device.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int saved_state_fd(void)
{
	int fd = memfd_create("saved-state", MFD_CLOEXEC);

	if (fd < 0)
		abort();
	return fd;
}

static void check_device(const struct saved_unit *unit)
{
	const struct device *device = unit->device;

	if (!unit->assigned || !streq(device->id, unit->id))
		abort();
	demand_device(device);
}

/* Whether both have the same state. */
static void compare(const struct saved_state *saved, const struct saved_state *again)
{
	if (saved->n_units != again->n_units)
		abort();
	for (size_t i = 0; i < saved->n_units; i++) {
		const struct saved_unit *a = saved->units[i], *b = again->units[i];

		if (!streq(a->id, b->id) || a->healthy != b->healthy || a->since != b->since ||
			a->assigned != b->assigned || a->n_results != b->n_results ||
			!a->device != !b->device)
			abort();
		if (!a->device)
			continue;
		check_device(a);
		if (!device_equal(a->device, b->device))
			abort();
	}
}

static void write_again(const struct saved_state *saved, int fd)
{
	struct saved_state_writer writer;

	if (saved_state_write_begin(&writer, fd, saved->match_fingerprint) < 0)
		abort();
	for (size_t i = 0; i < saved->n_units; i++)
		if (saved_state_write_unit(&writer, saved->units[i]) < 0)
			abort();
	if (saved_state_write_end(&writer, saved->allocations) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_saved_state_ struct saved_state *saved = NULL, *again = NULL;
	int fd = saved_state_fd();

	(void)dprintf(fd, "{\"boot\": \"%s\", \"match\": \"12ab\", \"units\": ", boot_id());
	(void)!write(fd, data, size);
	(void)!write(fd, "}", 1);
	if (saved_state_read(fd, &saved) >= 0) {
		(void)close(fd);
		fd = saved_state_fd();
		write_again(saved, fd);
		if (saved_state_read(fd, &again) < 0)
			abort();
		compare(saved, again);
	}
	(void)close(fd);
	return 0;
}
