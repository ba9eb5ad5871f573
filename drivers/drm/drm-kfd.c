/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the partitions that AMD's compute driver has made, and the links between GPUs. A node's
 * `properties` are lines of a key and a number. In the location of a partition, the number of the
 * part replaces the number of the PCI function, so the two can be distinguished only when all nodes
 * are known. Some releases of the driver store the number of the part in the upper four bits
 * instead (rsmi_dev_pci_id_get() of AMD's library). The driver refuses to show a GPU to processes
 * whose control group denies the render node (kfd_devcgroup_check_permission()).
 */
#include "drivers/drm/drm-kfd.h"

#include <inttypes.h>

#include "drivers/host/sysroot.h"

#define TOPOLOGY "/sys/class/kfd/kfd/topology/nodes"

/* A host has at most 64 GPUs or parts of them; each has a link to every other. */
#define NODES_MAX 1024
#define LINKS_MAX 4096

/* The bits of a location that may contain the number of the part. */
#define PART_MASK  0xf0000000LL
#define PART_SHIFT 28

/* HSA_IOLINKTYPE_* of the kernel's include/uapi/linux/kfd_sysfs.h. */
enum { LINK_PCIE = 2, LINK_XGMI = 11 };

struct property {
	const char *key;
	int64_t *value;
};

/* Reads the numbers of the requested keys; the others stay unchanged. */
static int read_properties(
	const char *root, const char *directory, const struct property *properties, size_t count)
{
	_cleanup_free_ char *path = NULL;
	char text[8192], *rest = text, *line;
	ssize_t r;

	if (format_text(&path, "%s/properties", directory) < 0)
		return -ENOMEM;
	r = sysroot_read(root, path, text, sizeof(text));
	if (r < 0)
		return (int)r;
	while ((line = strsep(&rest, "\n")))
		for (size_t i = 0; i < count; i++) {
			const char *value = startswith(line, properties[i].key);

			if (value && *value == ' ')
				*properties[i].value = strtoll(value, NULL, 10);
		}
	return 0;
}

static unsigned link_distance(int64_t type)
{
	switch (type) {
	case LINK_XGMI:
		return KFD_DISTANCE_XGMI;
	case LINK_PCIE:
		return KFD_DISTANCE_PCIE;
	default:
		return KFD_DISTANCE_OTHER;
	}
}

static int read_links(const char *root, const char *directory, struct kfd_node *node)
{
	_cleanup_strings_ struct strings names = { 0 };
	int r;

	if (sysfs_list(root, directory, &names) < 0)
		return 0;
	for (size_t i = 0; i < names.count && node->n_links < LINKS_MAX; i++) {
		_cleanup_free_ char *path = NULL;
		int64_t type = -1, to = -1;
		const struct property properties[] = { { "type", &type }, { "node_to", &to } };

		if (format_text(&path, "%s/%s", directory, names.items[i]) < 0)
			return -ENOMEM;
		r = read_properties(root, path, properties, ARRAY_SIZE(properties));
		if (r == -ENOMEM)
			return r;
		if (r < 0 || to < 0 || to > NODES_MAX)
			continue;
		r = array_reserve((void **)&node->links, node->n_links, sizeof(*node->links));
		if (r < 0)
			return r;
		node->links[node->n_links++] = (struct kfd_link){
			.to = (unsigned)to,
			.distance = link_distance(type),
		};
	}
	return 0;
}

/* Returns 1 if it is a GPU, 0 if not, or negative errno. */
static int read_node(const char *root, const char *name, struct kfd_node *node)
{
	static const char *const kinds[] = { "io_links", "p2p_links" };
	_cleanup_free_ char *directory = NULL;
	int64_t simds = 0, minor = -1, location = -1, domain = 0;
	const struct property properties[] = { { "simd_count", &simds },
		{ "drm_render_minor", &minor }, { "location_id", &location },
		{ "domain", &domain } };
	int r;

	if (format_text(&directory, TOPOLOGY "/%s", name) < 0)
		return -ENOMEM;
	r = read_properties(root, directory, properties, ARRAY_SIZE(properties));
	if (r < 0)
		return r;
	if (simds <= 0 || minor < 0 || location < 0 || (location & ~PART_MASK) > UINT16_MAX ||
		domain < 0 || domain > UINT32_MAX)
		return 0;
	node->number = (unsigned)strtoul(name, NULL, 10);
	node->render_minor = minor;
	node->partition = (int)((location & PART_MASK) >> PART_SHIFT ?: location & 7);
	(void)snprintf(node->address, sizeof(node->address), "%04" PRIx32 ":%02x:%02x.0",
		(uint32_t)domain, (unsigned)location >> 8 & 0xff, (unsigned)location >> 3 & 0x1f);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		_cleanup_free_ char *links = NULL;

		if (format_text(&links, "%s/%s", directory, kinds[i]) < 0)
			return -ENOMEM;
		r = read_links(root, links, node);
		if (r < 0)
			return r;
	}
	return 1;
}

static void make_whole(struct kfd_node *node)
{
	node->address[strlen(node->address) - 1] = (char)('0' + (node->partition & 7));
	node->partition = -1;
}

/* Whether the node's entry in the class drm is a PCI function of its own behind the first one; that
 * of a part is a platform device, or the first function. */
static bool is_function(const char *root, const struct kfd_node *node)
{
	char path[64], address[PCI_ADDRESS_SIZE];
	_cleanup_free_ char *directory = NULL;

	(void)snprintf(
		path, sizeof(path), "/sys/class/drm/renderD%" PRId64 "/device", node->render_minor);
	return node->partition > 0 && sysfs_resolve(root, path, &directory) >= 0 &&
		sysfs_pci_address(root, directory, address) >= 0 &&
		address[strlen(address) - 1] == '0' + node->partition;
}

/* A GPU with one node is not partitioned, and the last digit is its function. */
static void mark_partitions(const char *root, struct kfd *kfd)
{
	for (size_t i = 0; i < kfd->n_nodes; i++)
		if (is_function(root, &kfd->nodes[i]))
			make_whole(&kfd->nodes[i]);
	for (size_t i = 0; i < kfd->n_nodes; i++) {
		struct kfd_node *node = &kfd->nodes[i];
		size_t same = 0;

		for (size_t k = 0; k < kfd->n_nodes; k++)
			same += streq(kfd->nodes[k].address, node->address);
		if (same == 1 && node->partition >= 0)
			make_whole(node);
	}
}

int kfd_read(const char *root, struct kfd *ret)
{
	_cleanup_strings_ struct strings names = { 0 };
	struct kfd kfd = { 0 };
	int r;

	if (sysfs_list(root, TOPOLOGY, &names) < 0)
		names.count = 0;
	kfd.nodes = calloc(MIN_OF(names.count, (size_t)NODES_MAX) + 1, sizeof(*kfd.nodes));
	if (!kfd.nodes)
		return -ENOMEM;
	for (size_t i = 0; i < names.count && kfd.n_nodes < NODES_MAX; i++) {
		struct kfd_node *node = &kfd.nodes[kfd.n_nodes];

		r = read_node(root, names.items[i], node);
		if (r > 0)
			kfd.n_nodes++;
		if (r == -ENOMEM) {
			free(node->links);
			kfd_done(&kfd);
			return r;
		}
		if (r < 0 && !sysroot_is_absent(r))
			kfd.error = r;
	}
	mark_partitions(root, &kfd);
	*ret = kfd;
	return 0;
}

void kfd_done(struct kfd *kfd)
{
	for (size_t i = 0; i < kfd->n_nodes; i++)
		free(kfd->nodes[i].links);
	free(kfd->nodes);
	*kfd = (struct kfd){ 0 };
}

const struct kfd_node *kfd_find(const struct kfd *kfd, int64_t render_minor)
{
	for (size_t i = 0; i < kfd->n_nodes; i++)
		if (kfd->nodes[i].render_minor == render_minor)
			return &kfd->nodes[i];
	return NULL;
}
