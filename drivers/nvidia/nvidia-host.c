/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads which GPUs and instances (MIG) the kernel driver reports in /proc/driver/nvidia, as
 * NVIDIA's open kernel modules write it (kernel-open/nvidia/nv-procfs.c, nv-caps.c;
 * src/nvidia/arch/nvalloc/unix/src/os.c). A change causes no event, so events of the module and of
 * the bus start a scan.
 */
#include "drivers/nvidia/nvidia-host.h"

#include <ctype.h>
#include <fcntl.h>

#include "common/text.h"
#include "drivers/host/sysroot.h"

#define PROC         "/proc/driver/nvidia"
#define CAPABILITIES PROC "/capabilities"
#define FILE_MAX     4096
#define MINOR_MAX    0xfffffU

void nvidia_host_done(struct nvidia_host *host)
{
	for (size_t i = 0; i < host->n_gpus; i++)
		free(host->gpus[i].instances);
	free(host->gpus);
	*host = (struct nvidia_host){ 0 };
}

/* --- files of "Key: value" --- */

/* Copies the value of a key. Returns whether it exists and fits. */
static bool find_value(const char *text, const char *key, char *ret_value, size_t size)
{
	size_t length = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		const char *value;
		size_t n;

		line += *line == '\n';
		if (strncmp(line, key, length) != 0 || line[length] != ':')
			continue;
		value = line + length + 1;
		value += strspn(value, " \t");
		n = strcspn(value, "\n");
		while (n > 0 && isspace((unsigned char)value[n - 1]))
			n--;
		if (n >= size)
			return false;
		memcpy(ret_value, value, n);
		ret_value[n] = '\0';
		return true;
	}
	return false;
}

static bool find_number(const char *text, const char *key, unsigned *ret)
{
	char value[16], *end;
	unsigned long number;

	if (!find_value(text, key, value, sizeof(value)) || !isdigit((unsigned char)value[0]))
		return false;
	number = strtoul(value, &end, 10);
	if (*end || number > MINOR_MAX)
		return false;
	*ret = (unsigned)number;
	return true;
}

static int read_file(struct scan *scan, const char *path, char buffer[static FILE_MAX])
{
	ssize_t n = sysroot_read(scan_root(scan), path, buffer, FILE_MAX);

	if (n < 0)
		return (int)n;
	for (ssize_t i = 0; i < n; i++)
		if (buffer[i] == '\0')
			buffer[i] = '?';
	return 0;
}

/* --- the driver --- */

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  ...": the first word of digits and
 * dots. */
static void find_version(const char *text, char ret_version[static NVIDIA_VERSION_SIZE])
{
	const char *line = strstr(text, "NVRM version:");

	*ret_version = '\0';
	for (const char *word = line; word && *word && *word != '\n'; word += strspn(word, " \t")) {
		size_t length = strcspn(word, " \t\n");

		if (length < NVIDIA_VERSION_SIZE && strspn(word, "0123456789.") == length &&
			memchr(word, '.', length)) {
			memcpy(ret_version, word, length);
			ret_version[length] = '\0';
			return;
		}
		word += length;
	}
}

/* Reads the numbers of character devices, "510 nvidia-uvm". User space makes the nodes, so a node
 * may have the number of an earlier boot or driver. */
static void read_majors(struct scan *scan, unsigned majors[static NVIDIA_NODE_KINDS])
{
	static const struct {
		const char *name;
		enum nvidia_node kind;
	} names[] = {
		{ "nvidia-frontend", NVIDIA_NODE_GPU }, /* before 545 */
		{ "nvidia", NVIDIA_NODE_GPU },
		{ "nvidia-uvm", NVIDIA_NODE_UVM },
		{ "nvidia-caps", NVIDIA_NODE_CAPABILITY },
	};
	char text[FILE_MAX], *rest = text, *line;

	if (read_file(scan, "/proc/devices", text) < 0)
		return;
	while ((line = strsep(&rest, "\n")) && !streq(line, "Block devices:")) {
		char name[64];
		unsigned number;

		if (sscanf(line, "%9u %63s", &number, name) != 2)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (streq(name, names[i].name))
				majors[names[i].kind] = number;
	}
}

/* --- GPUs --- */

static bool uuid_is_known(const char *uuid)
{
	const char *digits = startswith(uuid, "GPU-");

	return digits && *digits && !digits[strspn(digits, "0123456789abcdefABCDEF-")];
}

static int add_gpu(struct nvidia_host *host, const char *address, const char *information)
{
	struct nvidia_gpu *gpu;
	char excluded[8];
	int r;

	r = array_reserve((void **)&host->gpus, host->n_gpus, sizeof(*host->gpus));
	if (r < 0)
		return r;
	gpu = &host->gpus[host->n_gpus];
	*gpu = (struct nvidia_gpu){ 0 };
	(void)snprintf(gpu->address, sizeof(gpu->address), "%s", address);
	/* A GPU that is being removed has no number. */
	if (!find_number(information, "Device Minor", &gpu->minor))
		return 0;
	if (!find_value(information, "Model", gpu->model, sizeof(gpu->model)) ||
		!sysfs_is_text(gpu->model))
		(void)snprintf(gpu->model, sizeof(gpu->model), "Unknown");
	if (!find_value(information, "GPU UUID", gpu->uuid, sizeof(gpu->uuid)) ||
		!uuid_is_known(gpu->uuid))
		*gpu->uuid = '\0';
	gpu->excluded = find_value(information, "GPU Excluded", excluded, sizeof(excluded)) &&
		streq(excluded, "Yes");
	host->n_gpus++;
	return 0;
}

static int read_gpus(struct scan *scan, struct nvidia_host *host, struct error *error)
{
	_cleanup_strings_ struct strings addresses = { 0 };
	char text[FILE_MAX], path[64];
	int r;

	r = scan_watch(scan, PROC "/gpus");
	if (r >= 0)
		r = sysfs_list(scan_root(scan), PROC "/gpus", &addresses);
	if (r < 0 && sysroot_is_absent(r))
		return 0;
	for (size_t i = 0; i < addresses.count && r >= 0; i++) {
		if (!form_is_pci_address(addresses.items[i]))
			continue;
		(void)snprintf(path, sizeof(path), PROC "/gpus/%s", addresses.items[i]);
		r = scan_watch(scan, path);
		if (r < 0)
			break;
		(void)snprintf(path, sizeof(path), PROC "/gpus/%s/information", addresses.items[i]);
		r = read_file(scan, path, text);
		if (r < 0 && sysroot_is_absent(r))
			r = 0;
		else if (r >= 0)
			r = add_gpu(host, addresses.items[i], text);
	}
	return r < 0 ? error_set(error, r, PROC "/gpus cannot be read: %s", strerror(-r)) : 0;
}

/* --- no GPU --- */

#define PCI_DEVICES  "/sys/bus/pci/devices"
#define VENDOR       0x10de
#define CLASS_SCREEN 0x03

static void leave_out(struct scan *scan, const char *address, const char *driver)
{
	if (streq(driver, "nvidia"))
		scan_leave_out(scan, address, "the driver nvidia does not list it");
	else
		scan_leave_out(scan, address, "it is bound to %s, not to nvidia", driver);
}

/* The driver that the first NVIDIA GPU on the bus is bound to. Returns whether there is such a GPU.
 */
static bool find_unknown(struct scan *scan, char *ret_address, char ret_driver[static NAME_MAX + 1])
{
	_cleanup_strings_ struct strings addresses = { 0 };
	const char *root = scan_root(scan);
	bool found = false;

	(void)sysfs_list(root, PCI_DEVICES, &addresses);
	for (size_t i = 0; i < addresses.count; i++) {
		char directory[sizeof(PCI_DEVICES) + PCI_ADDRESS_SIZE], driver[NAME_MAX + 1];
		int64_t vendor, class;

		(void)snprintf(directory, sizeof(directory), PCI_DEVICES "/%.*s",
			PCI_ADDRESS_SIZE - 1, addresses.items[i]);
		if (sysfs_read_number(root, directory, "vendor", &vendor) < 0 || vendor != VENDOR ||
			sysfs_read_number(root, directory, "class", &class) < 0 ||
			class >> 16 != CLASS_SCREEN)
			continue;
		if (sysfs_read_link(root, directory, "driver", driver) < 0)
			(void)strcpy(driver, "no driver");
		leave_out(scan, addresses.items[i], driver);
		if (found)
			continue;
		found = true;
		(void)stpcpy(ret_address, strrchr(directory, '/') + 1);
		(void)strcpy(ret_driver, driver);
	}
	return found;
}

void nvidia_explain_none(const struct declaration *declaration, struct scan *scan)
{
	char address[PCI_ADDRESS_SIZE], driver[NAME_MAX + 1];
	struct stat st;
	bool found, mounted, loaded;

	found = find_unknown(scan, address, driver);
	mounted = sysroot_stat(scan_root(scan), PROC, &st) >= 0;
	loaded = sysroot_stat(scan_root(scan), "/sys/module/nvidia", &st) >= 0;
	for (size_t i = 0; i < declaration->match.count; i++) {
		if (loaded && !mounted)
			scan_hint(scan, i,
				"its driver is loaded, but %s%s is missing: mount it from the host",
				scan_root(scan), PROC);
		else if (found && streq(driver, "nvidia"))
			scan_hint(scan, i, "%s is bound to nvidia, but %s%s/gpus does not list it",
				address, scan_root(scan), PROC);
		else if (found)
			scan_hint(scan, i, "%s is bound to %s, not to nvidia: load NVIDIA's driver",
				address, driver);
	}
}

/* --- instances of GPUs that are split --- */

static bool number_behind(const char *name, const char *prefix, unsigned *ret)
{
	const char *digits = startswith(name, prefix);

	if (!text_is_number(digits) || strlen(digits) > 6)
		return false;
	*ret = (unsigned)strtoul(digits, NULL, 10);
	return true;
}

/* The number of the node that gives access. Returns 0 or negative errno. */
static int read_access(struct scan *scan, const char *directory, unsigned *ret_cap)
{
	char path[PATH_MAX], text[FILE_MAX];
	int r;

	(void)snprintf(path, sizeof(path), "%s/access", directory);
	r = read_file(scan, path, text);
	if (r < 0)
		return r;
	return find_number(text, "DeviceFileMinor", ret_cap) ? 0 : -EBADMSG;
}

static int list_watched(struct scan *scan, const char *directory, struct strings *ret_names)
{
	int r = scan_watch(scan, directory);

	if (r >= 0)
		r = sysfs_list(scan_root(scan), directory, ret_names);
	/* An instance that is removed in the meantime does not count. */
	return r < 0 && sysroot_is_absent(r) ? 0 : r;
}

static int read_compute_instances(
	struct scan *scan, struct nvidia_gpu *gpu, const char *directory, unsigned gi)
{
	struct nvidia_instance instance = { .gi = gi };
	_cleanup_strings_ struct strings names = { 0 };
	int r;

	r = read_access(scan, directory, &instance.gi_cap);
	if (r < 0)
		return sysroot_is_absent(r) ? 0 : r;
	gpu->is_split = true;
	r = list_watched(scan, directory, &names);
	for (size_t i = 0; i < names.count && r >= 0; i++) {
		char path[128];

		if (!number_behind(names.items[i], "ci", &instance.ci))
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", directory, names.items[i]);
		r = read_access(scan, path, &instance.ci_cap);
		if (r < 0 && sysroot_is_absent(r)) {
			r = 0;
			continue;
		}
		if (r >= 0)
			r = array_reserve((void **)&gpu->instances, gpu->n_instances,
				sizeof(*gpu->instances));
		if (r >= 0)
			gpu->instances[gpu->n_instances++] = instance;
	}
	return r;
}

/* The directories are named after the number of the GPU's node. */
static int read_instances(struct scan *scan, struct nvidia_gpu *gpu, struct error *error)
{
	_cleanup_strings_ struct strings names = { 0 };
	char directory[64], path[96];
	int r;

	(void)snprintf(directory, sizeof(directory), CAPABILITIES "/gpu%u/mig", gpu->minor);
	r = list_watched(scan, directory, &names);
	for (size_t i = 0; i < names.count && r >= 0; i++) {
		unsigned gi;

		if (!number_behind(names.items[i], "gi", &gi))
			continue;
		(void)snprintf(path, sizeof(path), "%s/gi%u", directory, gi);
		r = read_compute_instances(scan, gpu, path, gi);
	}
	return r < 0 ? error_set(error, r, "%s cannot be read: %s", directory, strerror(-r)) : 0;
}

/* A directory of /sys gets a new inode each time it is made. */
static void read_period(struct scan *scan, struct nvidia_gpu *gpu)
{
	struct stat module = { 0 }, device = { 0 };
	char path[64], text[64];

	(void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", gpu->address);
	(void)sysroot_stat(scan_root(scan), "/sys/module/nvidia", &module);
	(void)sysroot_stat(scan_root(scan), path, &device);
	(void)snprintf(text, sizeof(text), "%llu %llu", (unsigned long long)module.st_ino,
		(unsigned long long)device.st_ino);
	gpu->period = hash_string(text);
}

/* The number is that of a table in the driver, as those of instances are (nv-caps.c). */
int nvidia_try_monitor(const struct scan *scan)
{
	int fd = sysroot_open(scan_root(scan), NVIDIA_MONITOR, O_RDONLY | O_NONBLOCK);

	if (fd < 0)
		return fd;
	(void)close(fd);
	return 0;
}

int nvidia_host_read(struct scan *scan, struct nvidia_host *host, struct error *error)
{
	char text[FILE_MAX];
	int r;

	*host = (struct nvidia_host){ 0 };
	r = scan_events(scan, "module");
	if (r >= 0)
		r = scan_events(scan, "pci");
	if (r >= 0)
		r = scan_watch(scan, PROC);
	if (r < 0)
		return error_set(error, r, "out of memory");
	r = read_file(scan, PROC "/version", text);
	if (r < 0 && sysroot_is_absent(r))
		return 0;
	if (r < 0)
		return error_set(error, r, PROC "/version cannot be read: %s", strerror(-r));
	find_version(text, host->version);
	read_majors(scan, host->majors);
	r = read_gpus(scan, host, error);
	for (size_t i = 0; i < host->n_gpus && r >= 0; i++) {
		read_period(scan, &host->gpus[i]);
		r = read_instances(scan, &host->gpus[i], error);
	}
	return r;
}
