/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that look once in an interval, because nobody tells when the answer changes: whether a
 * file exists, what an attribute of the device says, whether the device answers on the PCI bus.
 * Looking takes microseconds, so it is done where it is due.
 */
#include "drivers/check.h"
#include "drivers/sysfs.h"
#include "drivers/sysroot.h"

/* Of one turn of the event loop. */
#define LOOKS_AT_ONCE 256

static const char *device_directory(const struct check *check)
{
	return device_variable(check->unit->device, "sysfs");
}

/* Each returns 1 for healthy, or 0 for unhealthy with the reason. */

static int look_exists(struct check *check, char reason[static REASON_MAX])
{
	const char *root = check->unit->health->root;
	_cleanup_free_ char *path = NULL;
	struct error error;
	struct stat st;
	int r;

	r = check_expand(check, check->queue->probe->path, &path, &error);
	if (r < 0) {
		reason_copy(error.message, reason);
		return 0;
	}
	r = sysroot_stat(root, path, &st);
	if (r >= 0)
		return 1;
	(void)snprintf(reason, REASON_MAX, "%s %s", path,
		sysroot_is_absent(r) ? "is missing" : strerror(-r));
	return 0;
}

static int judge(const struct declared_probe *probe, const char *file, const char *value,
	char reason[static REASON_MAX])
{
	char text[REASON_MAX + SYSFS_VALUE_MAX + 8];

	if (probe->unhealthy ? !streq(value, probe->unhealthy) : streq(value, probe->healthy))
		return 1;
	(void)snprintf(
		text, sizeof(text), "%.*s is %s", REASON_MAX, file, *value ? value : "empty");
	reason_copy(text, reason);
	return 0;
}

static int look_sysfs(struct check *check, char reason[static REASON_MAX])
{
	const struct declared_probe *probe = check->queue->probe;
	const char *directory = device_directory(check);
	char value[SYSFS_VALUE_MAX + 1];
	_cleanup_free_ char *file = NULL;
	struct error error;
	int r;

	if (!directory) {
		(void)snprintf(reason, REASON_MAX, "it has no directory in /sys");
		return 0;
	}
	r = check_expand(check, probe->attribute, &file, &error);
	if (r < 0) {
		reason_copy(error.message, reason);
		return 0;
	}
	r = sysfs_read(check->unit->health->root, directory, file, value);
	if (r >= 0)
		return judge(probe, file, value, reason);
	if (sysroot_is_absent(r) && probe->missing)
		return 1;
	if (sysroot_is_absent(r))
		(void)snprintf(reason, REASON_MAX, "%.*s is missing", REASON_MAX / 2, file);
	else
		(void)snprintf(reason, REASON_MAX, "%.*s cannot be read: %s", REASON_MAX / 2, file,
			strerror(-r));
	return 0;
}

static bool is_asleep(const char *root, const char *directory)
{
	char status[SYSFS_VALUE_MAX + 1];

	return sysfs_read(root, directory, "power/runtime_status", status) >= 0 &&
		streq(status, "suspended");
}

/* A read of a device that is not there gives ones only (PCI Local Bus Specification); the attribute
 * `vendor` would not tell, because the kernel remembers it. */
static int look_pci(struct check *check, char reason[static REASON_MAX])
{
	const char *address = device_variable(check->unit->device, "bdf");
	const char *root = check->unit->health->root;
	char directory[64], path[72], number[5];
	ssize_t n;

	if (!address || !pci_address_is_valid(address)) {
		(void)snprintf(reason, REASON_MAX, "it has no PCI address");
		return 0;
	}
	(void)snprintf(directory, sizeof(directory), "/sys/bus/pci/devices/%s", address);
	(void)snprintf(path, sizeof(path), "%s/config", directory);
	/* Reading would wake it. */
	if (is_asleep(root, directory))
		return 1;
	n = sysroot_read(root, path, number, sizeof(number));
	if (n >= 2 && ((unsigned char)number[0] != 0xff || (unsigned char)number[1] != 0xff))
		return 1;
	if (n < 0)
		(void)snprintf(
			reason, REASON_MAX, "%s cannot be read: %s", path, strerror((int)-n));
	else
		(void)snprintf(reason, REASON_MAX,
			"%s does not answer on the PCI bus: reseat it or power the host off and on",
			address);
	return 0;
}

static void look(struct check *check)
{
	static int (*const looks[])(struct check * check, char reason[static REASON_MAX]) = {
		[PROBE_EXISTS] = look_exists,
		[PROBE_SYSFS] = look_sysfs,
		[PROBE_PCI] = look_pci,
	};
	char reason[REASON_MAX];
	int healthy = looks[check->queue->probe->kind](check, reason);

	check_wait(check, check->queue->probe->interval);
	check_result(check, healthy > 0, reason);
}

static int poll_attach(struct check *check)
{
	look(check);
	return 0;
}

static void poll_on_due(struct check_queue *queue, uint64_t now)
{
	for (size_t i = 0; i < LOOKS_AT_ONCE; i++) {
		if (!queue->waiting.first || queue->waiting.first->due > now)
			break;
		look(queue->waiting.first);
	}
}

const struct check_type poll_check_type = {
	.attach = poll_attach,
	.on_due = poll_on_due,
};
