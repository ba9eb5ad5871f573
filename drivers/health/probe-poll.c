/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the probes that read once in an interval, because no event reports a change, and decides
 * what the values mean: whether a file exists, the content of an attribute of the device, whether
 * the device answers on the PCI bus. While the kernel or a driver holds up the reader, the last
 * result stays.
 */
#include <fnmatch.h>
#include <inttypes.h>

#include "drivers/health/probe-check.h"
#include "drivers/host/sysfs-locked.h"
#include "drivers/host/sysfs.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/form.h"

/* How many checks run in one turn of the event loop, if they take little time. */
#define LOOKS_AT_ONCE 256

/* The files of a check that were read so far. */
struct partial_read {
	char *directory, *file; /* of which device, and the probe's file or pattern */
	struct strings files;
	size_t next, n_present;
	uint64_t content; /* hash */
};

static void partial_free(struct check *check)
{
	struct partial_read *partial = TAKE_PTR(check->partial);

	if (!partial)
		return;
	free(partial->directory);
	free(partial->file);
	strings_done(&partial->files);
	free(partial);
}

static const char *device_directory(const struct check *check)
{
	return device_variable(check->unit->device, "sysfs");
}

/* Each returns an enum probe_outcome, with the reason unless it is healthy, -EAGAIN if the state is
 * unknown, or -EINPROGRESS if the rest has to be read in a later turn. */

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
		return PROBE_NOT_RUN;
	}
	r = sysroot_stat(root, path, &st);
	if (r >= 0)
		return PROBE_HEALTHY;
	(void)snprintf(reason, REASON_MAX, "%s %s", path,
		sysroot_is_absent(r) ? "is missing" : strerror(-r));
	return sysroot_is_absent(r) ? PROBE_UNHEALTHY : PROBE_NOT_RUN;
}

static int compare_pattern(const char *pattern, const char *value)
{
	return streq(pattern, value) ? 0 : fnmatch(pattern, value, 0);
}

/* Whether the content of a file means healthy to the probe. */
static bool means_healthy(const struct declared_probe *probe, const char *value)
{
	char *end;
	long long number;

	/* Only its changes count, see look_changes(). */
	if (probe->changes_within > 0)
		return true;
	if (probe->maximum >= 0) {
		errno = 0;
		number = strtoll(value, &end, 10);
		return end != value && !*end && errno == 0 && number <= probe->maximum;
	}
	if (probe->unhealthy)
		return !streq(value, probe->unhealthy) && fnmatch(probe->unhealthy, value, 0) != 0;
	return probe_find_healthy(probe, value, compare_pattern) != NULL;
}

/* Handles a read that the kernel delays: it becomes the reason only if there is no result yet. */
static bool keeps_result(const struct check *check, ssize_t error)
{
	return error == -EBUSY && check->result.known;
}

/* Adds what is read to the hash. -ENOENT: it does not exist. */
static int look_at_file(
	struct check *check, const char *file, uint64_t *content, char reason[static REASON_MAX])
{
	const struct declared_probe *probe = check->queue->probe;
	char value[SYSFS_VALUE_MAX + 1], text[REASON_MAX + SYSFS_VALUE_MAX + 64];
	int r;

	r = sysfs_read_lines(check->unit->health->root, device_directory(check), file, value);
	if (r >= 0)
		*content = *content * 31 + hash_string(value);
	if (r >= 0 && means_healthy(probe, value))
		return PROBE_HEALTHY;
	if (sysroot_is_absent(r))
		return -ENOENT;
	if (keeps_result(check, r))
		return -EAGAIN;
	if (r >= 0 && probe->maximum >= 0)
		(void)snprintf(text, sizeof(text), "%.*s is %s, the maximum is %" PRId64,
			REASON_MAX, file, *value ? value : "empty", probe->maximum);
	else if (r >= 0)
		(void)snprintf(text, sizeof(text), "%.*s is %s", REASON_MAX, file,
			*value ? value : "empty");
	else
		(void)snprintf(text, sizeof(text), "%.*s cannot be read: %s", REASON_MAX / 2, file,
			strerror(-r));
	reason_copy(text, reason);
	return r >= 0 ? PROBE_UNHEALTHY : PROBE_NOT_RUN;
}

/* Whether the content of the files has changed within the probe's time. Until that time has passed,
 * the last result stays. */
static int look_changes(
	struct check *check, const char *file, uint64_t content, char reason[static REASON_MAX])
{
	uint64_t now = now_usec(CLOCK_MONOTONIC), time = check->queue->probe->changes_within;
	bool first = check->changed == 0, changed = !first && check->content != content;

	if (first || changed) {
		check->content = content;
		check->changed = now;
	}
	if (changed || !check->result.known)
		return PROBE_HEALTHY;
	if (now - check->changed <= time)
		return -EAGAIN;
	(void)snprintf(reason, REASON_MAX, "%.*s has not changed for %g s", REASON_MAX / 2, file,
		(double)time / USEC_PER_SEC);
	return PROBE_UNHEALTHY;
}

/* Returns 0, or -ENOMEM. */
static int partial_new(struct check *check, const char *directory, const char *file)
{
	struct partial_read *partial = calloc(1, sizeof(*partial));

	partial_free(check);
	check->partial = partial;
	if (!partial)
		return -ENOMEM;
	partial->directory = strdup(directory);
	partial->file = strdup(file);
	return partial->directory && partial->file ? 0 : -ENOMEM;
}

/* Lists the files, unless some of them were read already. Returns PROBE_HEALTHY if they can be
 * read. */
static int list_files(struct check *check, const char *directory, char reason[static REASON_MAX])
{
	_cleanup_free_ char *file = NULL;
	struct error error;
	int r;

	r = check_expand(check, check->queue->probe->attribute, &file, &error);
	if (r < 0) {
		reason_copy(error.message, reason);
		return PROBE_NOT_RUN;
	}
	if (check->partial && streq(check->partial->directory, directory) &&
		streq(check->partial->file, file))
		return PROBE_HEALTHY;
	r = partial_new(check, directory, file);
	if (r >= 0)
		r = sysfs_expand(
			check->unit->health->root, directory, file, &check->partial->files);
	if (r >= 0)
		return PROBE_HEALTHY;
	(void)snprintf(reason, REASON_MAX, "%.*s cannot be listed: %s", REASON_MAX / 2, file,
		strerror(-r));
	return PROBE_NOT_RUN;
}

/* Reads the next file in any case, so that every check gets on. */
static int read_files(struct check *check, char reason[static REASON_MAX])
{
	struct partial_read *partial = check->partial;
	size_t first = partial->next;

	while (partial->next < partial->files.count) {
		int r;

		if (partial->next > first && !health_may_read(check->unit->health))
			return -EINPROGRESS;
		r = look_at_file(
			check, partial->files.items[partial->next++], &partial->content, reason);
		if (r == PROBE_UNHEALTHY || r == PROBE_NOT_RUN || r == -EAGAIN)
			return r;
		partial->n_present += r == PROBE_HEALTHY;
	}
	return PROBE_HEALTHY;
}

static int judge_files(struct check *check, char reason[static REASON_MAX])
{
	const struct declared_probe *probe = check->queue->probe;
	const struct partial_read *partial = check->partial;

	if (probe->changes_within > 0 && partial->n_present > 0)
		return look_changes(check, partial->file, partial->content, reason);
	check->changed = 0;
	if (partial->n_present > 0 || probe->missing)
		return PROBE_HEALTHY;
	(void)snprintf(reason, REASON_MAX, "%.*s is missing", REASON_MAX / 2, partial->file);
	return PROBE_NOT_RUN;
}

static int look_sysfs(struct check *check, char reason[static REASON_MAX])
{
	const char *directory = device_directory(check);
	int r;

	if (!directory) {
		(void)snprintf(reason, REASON_MAX, "it has no directory in /sys");
		return PROBE_NOT_RUN;
	}
	r = list_files(check, directory, reason);
	if (r == PROBE_HEALTHY)
		r = read_files(check, reason);
	if (r == PROBE_HEALTHY)
		r = judge_files(check, reason);
	if (r != -EINPROGRESS)
		partial_free(check);
	return r;
}

static bool is_asleep(const char *root, const char *directory)
{
	char status[SYSFS_VALUE_MAX + 1];

	return sysfs_read(root, directory, "power/runtime_status", status) >= 0 &&
		streq(status, "suspended");
}

/* A read of a missing device returns only ones (PCI Local Bus Specification); the attribute
 * `vendor` does not show that, because the kernel caches it. The ids alone do not show it either:
 * the ids of a virtual function are always ones (SR-IOV), but its status and header type are
 * not. */
static bool answers(const char *header, ssize_t size)
{
	for (ssize_t i = 0; size >= 2 && i < size; i++)
		if ((unsigned char)header[i] != 0xff)
			return true;
	return false;
}

static int look_pci(struct check *check, char reason[static REASON_MAX])
{
	const char *address = device_variable(check->unit->device, "bdf");
	const char *root = check->unit->health->root;
	char directory[64], path[72], header[16 + 1];
	ssize_t n;

	if (!address || !form_is_pci_address(address)) {
		(void)snprintf(reason, REASON_MAX, "it has no PCI address");
		return PROBE_NOT_RUN;
	}
	(void)snprintf(directory, sizeof(directory), "/sys/bus/pci/devices/%s", address);
	(void)snprintf(path, sizeof(path), "%s/config", directory);
	/* Reading would wake it. */
	if (is_asleep(root, directory))
		return PROBE_HEALTHY;
	n = sysfs_read_locked(root, path, header, sizeof(header));
	if (answers(header, n))
		return PROBE_HEALTHY;
	if (keeps_result(check, n))
		return -EAGAIN;
	if (n < 0)
		(void)snprintf(
			reason, REASON_MAX, "%s cannot be read: %s", path, strerror((int)-n));
	else
		(void)snprintf(reason, REASON_MAX,
			"%s does not answer on the PCI bus: reseat it or power the host off and on",
			address);
	return n < 0 ? PROBE_NOT_RUN : PROBE_UNHEALTHY;
}

/* The driver's finding of its last scan. */
static int look_finding(struct check *check, char reason[static REASON_MAX])
{
	const struct device *device = check->unit->device;
	const struct probe_result *result = &check->result;

	switch (device->finding) {
	case FINDING_GOOD:
		return PROBE_HEALTHY;
	case FINDING_BAD:
		reason_copy(device->finding_reason, reason);
		return PROBE_UNHEALTHY;
	case FINDING_QUIET:
		return result->known && !result->healthy &&
				startswith(result->reason, LASTING_FAULT)
			? -EAGAIN
			: PROBE_HEALTHY;
	case FINDING_UNKNOWN:
		return result->known ? -EAGAIN : PROBE_HEALTHY;
	case FINDING_NONE:
		break;
	}
	return -EAGAIN;
}

static void look(struct check *check)
{
	static int (*const looks[])(struct check * check, char reason[static REASON_MAX]) = {
		[PROBE_EXISTS] = look_exists,
		[PROBE_SYSFS] = look_sysfs,
		[PROBE_PCI] = look_pci,
		[PROBE_NVML] = look_finding,
	};
	struct health *health = check->unit->health;
	char reason[REASON_MAX];
	int outcome;

	health_read_begin(health);
	outcome = looks[check->queue->probe->kind](check, reason);
	health_read_end(health);
	check_wait(check, outcome == -EINPROGRESS ? 0 : check->queue->probe->interval);
	if (outcome >= 0)
		check_result(check, (enum probe_outcome)outcome, reason);
}

static int poll_attach(struct check *check)
{
	const struct device *device = check->unit->device;
	bool is_finding = check->queue->probe->kind == PROBE_NVML;

	if (is_finding && check->period != device->finding_period) {
		probe_result_done(&check->result);
		check->period = device->finding_period;
	}
	if (is_finding || health_may_read(check->unit->health))
		look(check);
	else
		check_wait(check, 0);
	return 0;
}

static void poll_change(struct check *check)
{
	(void)poll_attach(check);
}

static void poll_on_due(struct check_queue *queue, uint64_t now)
{
	for (size_t i = 0; i < LOOKS_AT_ONCE && health_may_read(queue->health); i++) {
		if (!queue->waiting.first || queue->waiting.first->due > now)
			break;
		look(queue->waiting.first);
	}
}

static void poll_detach(struct check *check)
{
	partial_free(check);
	check->changed = 0;
}

const struct check_type poll_check_type = {
	.attach = poll_attach,
	.detach = poll_detach,
	.change = poll_change,
	.on_due = poll_on_due,
};
