/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which nodes a path of NVMe multipath stands for, and which of several devices is offered
 * with them. The names come from the kernel (nvme_init_ns_head(), nvme_alloc_ns()): X is the number
 * of the subsystem, Y that of the controller, Z that of the namespace.
 */
#include "drivers/host/nvme.h"

#include "drivers/host/sysroot.h"
#include "drivers/model/declaration.h"

bool nvme_is_hidden(const char *root, const char *directory)
{
	int64_t hidden;

	return sysfs_read_number(root, directory, "hidden", &hidden) >= 0 && hidden != 0;
}

static int add_node(const char *root, const char *directory, struct strings *nodes)
{
	_cleanup_free_ char *node = NULL;
	int r = sysfs_read_node(root, directory, &node);

	if (r < 0 || strings_contain(nodes, node))
		return r;
	return strings_add(nodes, node, strlen(node));
}

/* "nvme0c1n2" */
static bool read_path_name(const char *name, unsigned *ret_subsystem, unsigned *ret_namespace)
{
	int length = 0;

	return sscanf(name, "nvme%9uc%*9un%9u%n", ret_subsystem, ret_namespace, &length) == 2 &&
		length > 0 && !name[length];
}

int nvme_read_nodes(const char *root, const char *directory, struct strings *nodes)
{
	unsigned subsystem, namespace;
	char generic[64], disk[64];
	int r;

	r = add_node(root, directory, nodes);
	if (r != -ENOENT || !nvme_is_hidden(root, directory) ||
		!read_path_name(strrchr(directory, '/') + 1, &subsystem, &namespace))
		return r;
	(void)snprintf(
		generic, sizeof(generic), "/sys/class/nvme-generic/ng%un%u", subsystem, namespace);
	(void)snprintf(disk, sizeof(disk), "/sys/class/block/nvme%un%u", subsystem, namespace);
	/* Older kernels have no generic device. */
	r = add_node(root, generic, nodes);
	return sysroot_is_shortage(r) ? r : add_node(root, disk, nodes);
}

/* Whether a node is that of a namespace. */
static bool is_namespace(const char *node)
{
	const char *name = startswith(node, "/dev/nvme") ?: startswith(node, "/dev/ng");
	int length = 0;

	return name && sscanf(name, "%*9un%*9u%n", &length) == 0 && length > 0 && !name[length];
}

int nvme_add_node(struct scan *scan, const struct declaration *declaration, struct device *device,
	const char *node, const char *permissions)
{
	const struct device *first;
	int r = device_add_node(device, node, NULL, permissions);

	if (r < 0 || !is_namespace(node) || declaration_excludes(declaration, device))
		return r;
	r = scan_take_node(scan, node, device, &first);
	if (r <= 0 || first == device)
		return MIN_OF(r, 0);
	return device_set_problem(device,
		"it leads to %s, as %s does, which is offered: leave one of them out of `match`",
		node, first->id);
}
