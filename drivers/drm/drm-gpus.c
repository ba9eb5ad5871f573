/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which entries of /sys/class/drm are one GPU: all entries with the same device directory
 * are one GPU. The directory of a partition is a platform device of its own; its PCI address comes
 * from the compute driver.
 */
#include <ctype.h>

#include "common/text.h"
#include "drivers/drm/drm.h"
#include "drivers/host/sysroot.h"

#define CLASS "/sys/class/drm"

void gpus_done(struct gpus *gpus)
{
	for (size_t i = 0; i < gpus->count; i++) {
		free(gpus->items[i].directory);
		free(gpus->items[i].card);
		free(gpus->items[i].render);
	}
	free(gpus->items);
	kfd_done(&gpus->kfd);
}

/* "card0", "renderD128", and not "card0-DP-1", which is a connector. */
static const char *entry_number(const char *name, const char *prefix)
{
	const char *number = startswith(name, prefix);

	return text_is_number(number) ? number : NULL;
}

static struct gpu *find_gpu(struct gpus *gpus, const char *directory)
{
	for (size_t i = 0; i < gpus->count; i++)
		if (streq(gpus->items[i].directory, directory))
			return &gpus->items[i];
	return NULL;
}

static int get_gpu(struct gpus *gpus, const char *directory, struct gpu **ret)
{
	struct gpu *gpu = find_gpu(gpus, directory);
	int r;

	if (!gpu) {
		r = array_reserve((void **)&gpus->items, gpus->count, sizeof(*gpus->items));
		if (r < 0)
			return r;
		gpu = &gpus->items[gpus->count];
		*gpu = (struct gpu){ .vendor = -1, .model = -1, .directory = strdup(directory) };
		if (!gpu->directory)
			return -ENOMEM;
		gpus->count++;
	}
	*ret = gpu;
	return 0;
}

static int read_node(const char *root, const char *entry, const char *name, char **ret)
{
	int r = sysfs_read_node(root, entry, ret);

	if (r >= 0 || r == -ENOMEM)
		return r;
	return format_text(ret, "/dev/dri/%s", name);
}

/* Adds one entry of the class. Entries that disappear meanwhile are left out: an event follows. */
static int add_entry(const char *root, struct gpus *gpus, const char *name)
{
	const char *render = entry_number(name, "renderD");
	_cleanup_free_ char *entry = NULL, *link = NULL, *directory = NULL;
	struct gpu *gpu;
	char **node;
	int r;

	if (!render && !entry_number(name, "card"))
		return 0;
	if (format_text(&entry, CLASS "/%s", name) < 0 ||
		format_text(&link, "%s/device", entry) < 0)
		return -ENOMEM;
	r = sysfs_resolve(root, link, &directory);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	r = get_gpu(gpus, directory, &gpu);
	if (r < 0)
		return r;
	node = render ? &gpu->render : &gpu->card;
	if (*node)
		return 0;
	if (render)
		gpu->kfd = kfd_find(&gpus->kfd, strtoll(render, NULL, 10));
	return read_node(root, entry, name, node);
}

static void read_partition(const char *root, const char *directory, struct gpu *gpu)
{
	char compute[SYSFS_VALUE_MAX + 1], memory[SYSFS_VALUE_MAX + 1];

	if (sysfs_read(root, directory, "current_compute_partition", compute) < 0 ||
		sysfs_read(root, directory, "current_memory_partition", memory) < 0)
		return;
	if (strlen(compute) + 1 + strlen(memory) > PARTITION_MAX)
		return;
	(void)snprintf(gpu->partition, sizeof(gpu->partition), "%.31s_%.31s", compute, memory);
	for (char *p = gpu->partition; *p; p++)
		*p = (char)tolower((unsigned char)*p);
}

/* Finds the address of a GPU that is a PCI function, or the only device of one (a virtio device). A
 * USB display is not: others may share its controller. */
static void read_address(const char *root, struct gpu *gpu)
{
	_cleanup_free_ char *parent = strdup(gpu->directory);
	char subsystem[NAME_MAX + 1];

	if (parent && sysfs_ascend(parent) &&
		(form_is_pci_address(strrchr(gpu->directory, '/') + 1) ||
			form_is_pci_address(strrchr(parent, '/') + 1)) &&
		sysfs_pci_address(root, gpu->directory, gpu->address) >= 0)
		return;
	/* A partition's directory is not below its GPU's. */
	if (gpu->kfd)
		(void)stpcpy(gpu->address, gpu->kfd->address);
	else
		gpu->on_bus = sysfs_read_link(root, gpu->directory, "subsystem", subsystem) >= 0 &&
			!streq(subsystem, "platform");
}

/* Reads what entries of `match` ask about. */
static int describe(const char *root, struct gpu *gpu)
{
	_cleanup_free_ char *directory = NULL;
	char pf[NAME_MAX + 1];

	read_address(root, gpu);
	if (*gpu->address ? format_text(&directory, PCI_DEVICES "/%s", gpu->address) < 0
			  : !(directory = strdup(gpu->directory)))
		return -ENOMEM;
	(void)sysfs_read_number(root, directory, "vendor", &gpu->vendor);
	(void)sysfs_read_number(root, directory, "device", &gpu->model);
	if (sysfs_read_link(root, directory, "driver", gpu->driver) < 0)
		gpu->driver[0] = '\0';
	gpu->split = sysfs_has_vfs(root, directory);
	if (sysfs_read_link(root, directory, "physfn", pf) >= 0 && form_is_pci_address(pf))
		(void)stpcpy(gpu->pf, pf);
	read_partition(root, directory, gpu);
	return 0;
}

/* Whether it is the platform device of a part of a GPU: "amdgpu_xcp_1", in older kernels
 * "amdgpu_xcp.1" (drivers/gpu/drm/amd/amdxcp), "hyhcu_xcp_1". */
static bool is_part(const char *directory)
{
	static const char infix[] = "_xcp";
	const char *name = strrchr(directory, '/'), *end = name ? strstr(name, infix) : NULL;

	if (!end)
		return false;
	end += strlen(infix);
	return (*end == '.' || *end == '_') && text_is_number(end + 1);
}

/* A part of a GPU that the compute driver does not know has nothing to identify it. */
static bool is_nameless(const struct gpu *gpu)
{
	return !*gpu->address && is_part(gpu->directory);
}

static void note_kfd(struct scan *scan, const struct kfd *kfd)
{
	if (kfd->error == -EPERM)
		scan_note(scan,
			"AMD's compute driver denies access to GPUs, so entries with compute = true do not match them: allow the service to open their render nodes (DeviceAllow=char-226 rw), or make the container privileged");
	else if (kfd->error < 0)
		scan_note(scan,
			"AMD's compute driver lists GPUs that cannot be read, so entries with compute = true do not match them: %s",
			strerror(-kfd->error));
}

int gpus_find(struct scan *scan, struct gpus *gpus, struct error *error)
{
	_cleanup_strings_ struct strings names = { 0 };
	const char *root = scan_root(scan);
	size_t kept = 0;
	int r;

	r = scan_events(scan, "drm");
	if (r >= 0)
		r = scan_watch(scan, CLASS);
	if (r < 0)
		return error_set(error, r, "out of memory");
	r = sysfs_list(root, CLASS, &names);
	if (sysroot_is_absent(r))
		return 0;
	if (r < 0)
		return error_set(error, r, "cannot list %s: %s", CLASS, strerror(-r));
	r = kfd_read(root, &gpus->kfd);
	note_kfd(scan, &gpus->kfd);
	for (size_t i = 0; i < names.count && r >= 0; i++)
		r = add_entry(root, gpus, names.items[i]);
	for (size_t i = 0; i < gpus->count && r >= 0; i++)
		r = describe(root, &gpus->items[i]);
	if (r < 0)
		return error_set(error, r, "out of memory");
	for (size_t i = 0; i < gpus->count; i++) {
		struct gpu gpu = gpus->items[i];

		if (is_nameless(&gpu)) {
			free(gpu.directory);
			free(gpu.card);
			free(gpu.render);
			continue;
		}
		gpus->items[kept++] = gpu;
	}
	gpus->count = kept;
	return 0;
}
