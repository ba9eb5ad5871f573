/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "pci" on machines of functions: which it takes, what each way of access gives, and what it
 * says of functions that cannot be given away.
 * docs/complaints.md: W10.
 */
#include "pci-fixture.h"

#include "common/log.h"
#include "drivers/sysfs.h"

static int setup(void **state)
{
	log_setup("test-pci", LOG_TARGET_TEXT, LOG_CRIT);
	return host_setup(state);
}

/* "id:" and the nodes of each device, or "id! problem", a line each. */
static void expect(const char *match, const char *expected)
{
	_cleanup_free_ char *text = NULL;
	FILE *stream;
	size_t size;

	list_entries("pci", match);
	stream = open_memstream(&text, &size);
	assert_non_null(stream);
	for (size_t i = 0; i < scan.n_devices; i++) {
		const struct device *device = scan.devices[i];

		(void)fputs(device->id, stream);
		if (device->problem)
			(void)fprintf(stream, "! %s", device->problem);
		else
			(void)fputc(':', stream);
		for (size_t k = 0; k < device->n_nodes && !device->problem; k++)
			(void)fprintf(stream, " %s", device->nodes[k].host);
		(void)fputc('\n', stream);
	}
	assert_int_equal(fclose(stream), 0);
	assert_string_equal(text, expected);
}

static void expect_variable_of(size_t device, const char *name, const char *value)
{
	const char *found;

	assert_true(device < scan.n_devices);
	found = device_variable(scan.devices[device], name);
	if (!value)
		assert_null(found);
	else if (!found)
		fail_msg("${%s} has no value", name);
	else
		assert_string_equal(found, value);
}

/* A machine: bridge, card with a physical function and two virtual ones, GPU with its sound. */
static void plant_host(void)
{
	pci_plant("0000:00:01.0", "0x8086", "0x1901", "0x060400");
	pci_bind("0000:00:01.0", "pcieport");
	pci_plant("0000:03:00.0", "0x10de", "0x1eb8", "0x030200");
	pci_plant("0000:03:00.1", "0x10de", "0x10f8", "0x040300");
	pci_plant("0000:6b:00.0", "0x8086", "0x4940", "0x0b4000");
	pci_write("0000:6b:00.0", "sriov_totalvfs", "16\n");
	pci_write("0000:6b:00.0", "sriov_numvfs", "2\n");
	pci_write("0000:6b:00.0", "net/ens6f0/mtu", "1500\n");
	pci_bind("0000:6b:00.0", "4xxx");
	pci_plant("0000:6b:00.1", "0x8086", "0x4941", "0x0b4000");
	pci_plant("0000:6b:00.2", "0x8086", "0x4941", "0x0b4000");
	pci_make_virtual("0000:6b:00.1", "0000:6b:00.0", 0);
	pci_make_virtual("0000:6b:00.2", "0000:6b:00.0", 1);
	pci_write("0000:6b:00.1", "numa_node", "1\n");
	pci_plant("0000:af:00.0", "0x10ee", "0x5001", "0x120000");
	pci_write("0000:af:00.0", "subsystem_vendor", "0x10ee\n");
	pci_write("0000:af:00.0", "subsystem_device", "0x000e\n");
}

static void test_no_bus(void **state)
{
	expect("{ vendor = 0x8086; }", "");
	expect("{ access = \"mdev\"; vendor = 0x8086; }", "");
}

static void test_what_it_is(void **state)
{
	plant_host();
	expect_ids("pci", "{ vendor = 0x8086; }", "0000:00:01.0 0000:6b:00.1 0000:6b:00.2 ");
	expect_ids("pci", "{ vendor = 0x8086; device = 0x1901; }", "0000:00:01.0 ");
	expect_ids("pci", "{ vendor = [ 0x10ee, 0x10de ]; device = [ 0x5001, 0x10f8, 0x4941 ]; }",
		"0000:03:00.1 0000:af:00.0 ");
	expect_ids("pci", "{ class = 0x12; }, { vendor = 0x10de; class = 0x0403; }",
		"0000:03:00.1 0000:af:00.0 ");
	expect_ids("pci", "{ class = [ 0x030200, 0x120001 ]; }", "0000:03:00.0 ");
	expect_ids("pci", "{ class = 0x0300; }", "");
	expect_ids("pci", "{ subsystem_vendor = 0x10ee; }", "0000:af:00.0 ");
	expect_ids(
		"pci", "{ subsystem_vendor = 0x10ee; subsystem_device = 0x0e; }", "0000:af:00.0 ");
	expect_ids("pci", "{ subsystem_vendor = 0x10ee; subsystem_device = 0x0f; }", "");
	expect_ids("pci", "{ driver = \"pci*\"; }", "0000:00:01.0 ");
	expect_ids("pci", "{ address = [ \"0000:03:*\", \"0000:af:00.0\" ]; }",
		"0000:03:00.0 0000:03:00.1 0000:af:00.0 ");
	expect_ids("pci", "{ address = \"0000:03:00.[1-7]\"; vendor = 0x10de; }", "0000:03:00.1 ");
}

static void test_roles(void **state)
{
	plant_host();
	expect_ids("pci", "{ vendor = 0x8086; role = \"pf\"; }", "0000:6b:00.0 ");
	expect_ids("pci", "{ vendor = 0x8086; role = \"vf\"; }", "0000:6b:00.1 0000:6b:00.2 ");
	expect_variable_of(0, "pf", "0000:6b:00.0");
	expect_variable_of(0, "vf", "0");
	expect_variable_of(1, "vf", "1");
	expect_variable_of(0, "vendor", "0x8086");
	expect_variable_of(0, "device", "0x4941");
	expect_variable_of(0, "class", "0x0b4000");
	expect_variable_of(0, "bdf", "0000:6b:00.1");
	expect_variable_of(0, "driver", NULL);
	assert_int_equal(scan.devices[0]->numa[0], 1);
	expect_ids("pci", "{ vendor = 0x8086; role = \"plain\"; }", "0000:00:01.0 ");
	expect_variable_of(0, "driver", "pcieport");
	expect_variable_of(0, "pf", NULL);
	expect_variable_of(0, "vf", NULL);
	expect_ids("pci", "{ pf = \"0000:6b:00.0\"; }", "0000:6b:00.1 0000:6b:00.2 ");
	expect_ids("pci", "{ pf = \"ens6f*\"; functions = \"1-3\"; }", "0000:6b:00.2 ");
	expect_ids("pci", "{ pf = \"ens6f0\"; functions = \"0,2-5\"; role = \"vf\"; }",
		"0000:6b:00.1 ");
	expect_ids("pci", "{ vendor = 0x8086; functions = \"1\"; }", "0000:6b:00.2 ");
	expect_ids("pci", "{ pf = [ \"eth0\", \"0000:6c:*\" ]; }", "");

	/* Without virtual functions it is a device like others. */
	pci_write("0000:6b:00.0", "sriov_numvfs", "0\n");
	expect_ids("pci", "{ device = 0x4940; vendor = 0x8086; }", "0000:6b:00.0 ");
}

static void test_attributes(void **state)
{
	plant_host();
	pci_write("0000:6b:00.0", "qat/cfg_services", "sym;asym\n");
	expect_ids("pci",
		"{ vendor = 0x8086; attributes = ( { file = \"physfn/qat/cfg_services\"; "
		"is = ( \"asym;sym\", \"sym;asym\" ); } ); }",
		"0000:6b:00.1 0000:6b:00.2 ");
	expect_ids("pci",
		"{ vendor = 0x8086; attributes = ( { file = \"physfn/qat/cfg_services\"; "
		"is = \"dc\"; } ); }, { class = 0x12; }",
		"0000:af:00.0 ");
}

static void test_nodes(void **state)
{
	plant_host();
	pci_bind("0000:03:00.0", "amdgpu");
	pci_write("0000:03:00.0", "drm/card0/uevent", "DEVNAME=dri/card0\n");
	pci_write("0000:03:00.0", "drm/renderD128/uevent", "DEVNAME=dri/renderD128\n");
	pci_write("0000:03:00.0", "0000:04:00.0/uevent", "PCI_SLOT_NAME=0000:04:00.0\n");
	pci_write("0000:03:00.0", "0000:04:00.0/nvme/nvme0/uevent", "DEVNAME=nvme0\n");
	expect("{ vendor = 0x10de; }",
		"0000:03:00.0: /dev/dri/card0 /dev/dri/renderD128\n"
		"0000:03:00.1! 0000:03:00.1 is bound to no driver, so it has no device node: load its "
		"driver, or see what the kernel says of it in its log\n");
	expect("{ class = 0x0302; nodes = \"/dev/dri/renderD*\"; permissions = \"rwm\"; }",
		"0000:03:00.0: /dev/dri/renderD128\n");
	assert_string_equal(scan.devices[0]->nodes[0].permissions, "rwm");
	expect("{ class = 0x0302; nodes = ( \"/dev/*\", \"/dev/d*/c*\" ); }",
		"0000:03:00.0: /dev/dri/card0\n");
	expect("{ class = 0x0302; nodes = \"/dev/accel/*\"; }",
		"0000:03:00.0! 0000:03:00.0 has no device node that match.nodes names from its driver "
		"amdgpu\n");
}

#define GPU "{ access = \"vfio\"; vendor = 0x10de; class = 0x0302; }"

static void test_vfio(void **state)
{
	plant_host();
	expect(GPU,
		"0000:03:00.0! 0000:03:00.0 is bound to no driver: driverctl set-override 0000:03:00.0 "
		"vfio-pci\n");
	pci_bind("0000:03:00.0", "nouveau");
	expect(GPU,
		"0000:03:00.0! 0000:03:00.0 is bound to nouveau, not to vfio-pci: driverctl "
		"set-override 0000:03:00.0 vfio-pci\n");
	pci_bind("0000:03:00.0", NULL);
	pci_bind("0000:03:00.0", "vfio-pci");
	expect(GPU,
		"0000:03:00.0! 0000:03:00.0 has no IOMMU group: enable the IOMMU in the firmware and "
		"the kernel (intel_iommu=on), or VFIO without it (enable_unsafe_noiommu_mode)\n");
	pci_join_group("0000:03:00.0", "45");
	expect(GPU, "0000:03:00.0: /dev/vfio/45 /dev/vfio/vfio\n");
	expect_variable_of(0, "iommu_group", "45");
	expect_variable_of(0, "addresses", "0000:03:00.0");
	expect_variable_of(0, "driver", "vfio-pci");
	expect_variable_of(0, "info",
		"{\"generic\":{\"deviceID\":\"0000:03:00.0\"},"
		"\"vfio\":{\"dev-mount\":\"/dev/vfio/45\",\"mount\":\"/dev/vfio/vfio\"}}");
	host_write("/sys/kernel/iommu_groups/45/name", "vfio-noiommu\n");
	expect(GPU, "0000:03:00.0: /dev/vfio/noiommu-45 /dev/vfio/vfio\n");
}

static void test_vfio_drivers(void **state)
{
	plant_host();
	pci_bind("0000:6b:00.1", "qat_vfio_pci");
	pci_join_group("0000:6b:00.1", "200");
	pci_bind("0000:6b:00.2", "nvidia");
	pci_join_group("0000:6b:00.2", "201");
	pci_write("0000:6b:00.2", "nvidia/current_vgpu_type", "0\n");
	expect("{ access = \"vfio\"; vendor = 0x8086; role = \"vf\"; }",
		"0000:6b:00.1: /dev/vfio/200 /dev/vfio/vfio\n"
		"0000:6b:00.2! 0000:6b:00.2 is bound to nvidia, not to vfio-pci: driverctl "
		"set-override 0000:6b:00.2 vfio-pci\n");
	pci_write("0000:6b:00.2", "nvidia/current_vgpu_type", "527\n");
	expect("{ access = \"vfio\"; vendor = 0x8086; functions = \"1\"; }",
		"0000:6b:00.2: /dev/vfio/201 /dev/vfio/vfio\n");

	/* Who has the physical function has the virtual ones. */
	pci_bind("0000:6b:00.0", NULL);
	pci_bind("0000:6b:00.0", "vfio-pci");
	pci_join_group("0000:6b:00.0", "202");
	expect("{ access = \"vfio\"; vendor = 0x8086; role = \"pf\"; }",
		"0000:6b:00.0! 0000:6b:00.0 has 2 virtual functions, which would go with it: write 0 "
		"to its sriov_numvfs, or match them instead with role = \"vf\"\n");
}

static void plant_group(void)
{
	plant_host();
	pci_bind("0000:03:00.0", "vfio-pci");
	pci_join_group("0000:00:01.0", "12");
	pci_join_group("0000:03:00.0", "12");
	pci_join_group("0000:03:00.1", "12");
	pci_plant("0000:02:00.0", "0x144d", "0xa808", "0x010802");
}

static void test_group_viable(void **state)
{
	plant_group();
	/* A bridge with its driver and a function without one are in nobody's way. */
	expect(GPU, "0000:03:00.0: /dev/vfio/12 /dev/vfio/vfio\n");
	pci_bind("0000:03:00.1", "snd_hda_intel");
	expect(GPU,
		"0000:03:00.0! IOMMU group 12 cannot be given away, its member 0000:03:00.1 is bound "
		"to snd_hda_intel: driverctl set-override 0000:03:00.1 vfio-pci\n");
	expect("{ access = \"vfio\"; class = 0x0302; iommu_group = \"ignore\"; }",
		"0000:03:00.0! IOMMU group 12 cannot be given away, its member 0000:03:00.1 is bound "
		"to snd_hda_intel: driverctl set-override 0000:03:00.1 vfio-pci\n");
	pci_bind("0000:03:00.1", NULL);
	pci_bind("0000:03:00.1", "pci-stub");
	expect(GPU, "0000:03:00.0: /dev/vfio/12 /dev/vfio/vfio\n");
}

static void test_group_policies(void **state)
{
	plant_group();
	pci_bind("0000:03:00.1", "vfio-pci");
	expect("{ access = \"vfio\"; vendor = 0x10de; }",
		"0000:03:00.0: /dev/vfio/12 /dev/vfio/vfio\n");
	expect_variable_of(0, "addresses", "0000:03:00.0,0000:03:00.1");
	expect("{ access = \"vfio\"; vendor = 0x10de; iommu_group = \"ignore\"; }",
		"0000:03:00.0: /dev/vfio/12 /dev/vfio/vfio\n"
		"0000:03:00.1: /dev/vfio/12 /dev/vfio/vfio\n");
	expect_variable_of(1, "addresses", "0000:03:00.1");
	expect("{ access = \"vfio\"; class = 0x0302; iommu_group = \"refuse\"; }",
		"0000:03:00.0! 0000:03:00.0 shares IOMMU group 12 with 1 more (0000:03:00.1 ...), "
		"which would go with it: iommu_group = \"fold\" makes one device of them\n");

	/* The id is the group's, whichever function of it is meant, so that no other resource has
	 * the same group under another id. */
	expect("{ access = \"vfio\"; class = 0x0403; }",
		"0000:03:00.0: /dev/vfio/12 /dev/vfio/vfio\n");
	expect_variable_of(0, "bdf", "0000:03:00.1");
	expect_variable_of(0, "addresses", "0000:03:00.1");
	pci_join_group("0000:02:00.0", "12");
	expect_ids("pci", "{ access = \"vfio\"; vendor = 0x10de; }", "0000:02:00.0 ");
	expect_variable_of(0, "bdf", "0000:03:00.0");
	expect_variable_of(0, "addresses", "0000:03:00.0,0000:03:00.1");

	pci_plant("0000:9a:00.0", "0x1000", "0x1", "0x010700");
	pci_plant("0000:10:00.0", "0x1000", "0x1", "0x010700");
	pci_join_group("0000:9a:00.0", "77");
	pci_join_group("0000:10:00.0", "77");
	expect_ids("pci", "{ access = \"vfio\"; vendor = 0x1000; }", "0000:10:00.0 ");
	expect_variable_of(0, "addresses", "0000:10:00.0,0000:9a:00.0");
}

static void test_fold_tells_of_all(void **state)
{
	plant_group();
	expect("{ access = \"vfio\"; vendor = 0x10de; }",
		"0000:03:00.0! 0000:03:00.1 is bound to no driver: driverctl set-override 0000:03:00.1 "
		"vfio-pci\n");
}

/* Own nodes and what is claimed beside them; nobody owns the node that all groups need. */
static void expect_own(size_t index, const char *expected)
{
	const struct device *device = scan.devices[index];
	char text[512] = "";
	size_t length = 0;

	for (size_t i = 0; i < device->n_nodes; i++)
		if (!device->nodes[i].shared)
			length += (size_t)snprintf(
				text + length, sizeof(text) - length, "%s ", device->nodes[i].host);
	for (size_t i = 0; i < device->claims.count; i++)
		length += (size_t)snprintf(
			text + length, sizeof(text) - length, "%s ", device->claims.items[i]);
	assert_string_equal(text, expected);
}

static void test_what_is_its_own(void **state)
{
	plant_group();
	pci_bind("0000:03:00.1", "vfio-pci");
	list_entries("pci", "{ access = \"vfio\"; vendor = 0x10de; }");
	expect_own(0, "/dev/vfio/12 pci:0000:03:00.0 pci:0000:03:00.1 ");
	pci_write("0000:03:00.0", "vfio-dev/vfio7/uevent", "DEVNAME=vfio/devices/vfio7\n");
	list_entries("pci", "{ access = \"vfio-cdev\"; class = 0x0302; }");
	expect_own(0, "/dev/vfio/devices/vfio7 pci:0000:03:00.0 ");
}

static void test_vfio_cdev(void **state)
{
	plant_group();
	expect("{ access = \"vfio-cdev\"; class = 0x0302; }",
		"0000:03:00.0! 0000:03:00.0 has no node in /dev/vfio/devices: the kernel needs "
		"CONFIG_VFIO_DEVICE_CDEV, or use access = \"vfio\"\n");
	pci_write("0000:03:00.0", "vfio-dev/vfio7/uevent", "DEVNAME=vfio/devices/vfio7\n");
	expect("{ access = \"vfio-cdev\"; class = 0x0302; }",
		"0000:03:00.0: /dev/vfio/devices/vfio7 /dev/iommu\n");
	pci_bind("0000:03:00.1", "vfio-pci");
	pci_write("0000:03:00.1", "vfio-dev/vfio8/uevent", "DEVNAME=vfio/devices/vfio8\n");
	expect("{ access = \"vfio-cdev\"; vendor = 0x10de; }",
		"0000:03:00.0: /dev/vfio/devices/vfio7 /dev/iommu /dev/vfio/devices/vfio8 "
		"/dev/iommu\n");
}

static void test_uio(void **state)
{
	plant_host();
	expect("{ access = \"uio\"; functions = \"0\"; vendor = 0x8086; }",
		"0000:6b:00.1! 0000:6b:00.1 is bound to no driver, which makes no UIO device of it: "
		"driverctl set-override 0000:6b:00.1 uio_pci_generic\n");
	pci_bind("0000:6b:00.1", "igb_uio");
	pci_write("0000:6b:00.1", "uio/uio3/uevent", "DEVNAME=uio3\n");
	expect("{ access = \"uio\"; functions = \"0\"; vendor = 0x8086; }",
		"0000:6b:00.1: /dev/uio3\n");
	expect_variable_of(0, "uio", "uio3");
	expect_variable_of(0, "info",
		"{\"generic\":{\"deviceID\":\"0000:6b:00.1\"},\"uio\":{\"mount\":\"/dev/uio3\"}}");
}

#define VDPA "{ access = \"vdpa\"; vendor = 0x8086; functions = \"0\"; }"

static void test_vdpa(void **state)
{
	plant_host();
	pci_write("0000:6b:00.1", "power/control", "auto\n");
	expect(VDPA,
		"0000:6b:00.1! 0000:6b:00.1 has no vDPA device: vdpa dev add name vdpa-0000:6b:00.1 "
		"mgmtdev pci/0000:6b:00.1\n");
	pci_write("0000:6b:00.1", "vdpa0/uevent", "");
	host_mkdir("/sys/bus/vdpa/drivers/virtio_vdpa");
	pci_link("../../../../bus/vdpa", "0000:6b:00.1", "vdpa0/subsystem");
	pci_link("../../../../bus/vdpa/drivers/virtio_vdpa", "0000:6b:00.1", "vdpa0/driver");
	expect(VDPA,
		"0000:6b:00.1! vdpa0 of 0000:6b:00.1 is bound to virtio_vdpa, not to vhost_vdpa: "
		"driverctl -b vdpa set-override vdpa0 vhost_vdpa\n");
	pci_write("0000:6b:00.1", "vdpa0/vhost-vdpa-0/uevent", "DEVNAME=vhost-vdpa-0\n");
	expect(VDPA, "0000:6b:00.1: /dev/vhost-vdpa-0\n");
	expect_variable_of(0, "info",
		"{\"generic\":{\"deviceID\":\"0000:6b:00.1\"},"
		"\"vdpa\":{\"mount\":\"/dev/vhost-vdpa-0\"}}");
}

#define UUID_1 "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
#define UUID_2 "c9d1f0d1-1f6c-4c6e-8f3f-0d4a4f8a2002"

static void plant_mdev(const char *uuid, const char *type, const char *group)
{
	char path[256], target[256];

	host_mkdir("/sys/bus/mdev/devices");
	(void)snprintf(path, sizeof(path), "%s/uevent", uuid);
	pci_write("0000:03:00.0", path, "");
	(void)snprintf(target, sizeof(target), "../mdev_supported_types/%s", type);
	(void)snprintf(path, sizeof(path), "%s/mdev_type", uuid);
	pci_link(target, "0000:03:00.0", path);
	(void)snprintf(target, sizeof(target), "../../../devices/pci0000:00/0000:03:00.0/%s", uuid);
	(void)snprintf(path, sizeof(path), "/sys/bus/mdev/devices/%s", uuid);
	host_symlink(target, path);
	if (!group)
		return;
	(void)snprintf(path, sizeof(path), "/sys/kernel/iommu_groups/%s", group);
	host_mkdir(path);
	(void)snprintf(target, sizeof(target), "../../../../kernel/iommu_groups/%s", group);
	(void)snprintf(path, sizeof(path), "%s/iommu_group", uuid);
	pci_link(target, "0000:03:00.0", path);
}

static void test_mdev(void **state)
{
	plant_host();
	pci_bind("0000:03:00.0", "nvidia");
	pci_write("0000:03:00.0", "numa_node", "0\n");
	pci_write("0000:03:00.0", "mdev_supported_types/nvidia-222/name", "GRID T4-1B\n");
	pci_write("0000:03:00.0", "mdev_supported_types/nvidia-233/name", "GRID T4-2Q\n");
	plant_mdev(UUID_1, "nvidia-222", "61");
	plant_mdev(UUID_2, "nvidia-233", NULL);
	expect("{ access = \"mdev\"; mdev_type = \"GRID T4-1B\"; }",
		UUID_1 ": /dev/vfio/61 /dev/vfio/vfio\n");
	expect_variable_of(0, "bdf", "0000:03:00.0");
	expect_variable_of(0, "mdev_type", "nvidia-222");
	expect_variable_of(0, "iommu_group", "61");
	assert_int_equal(scan.devices[0]->n_numa, 1);
	expect("{ access = \"mdev\"; mdev_type = \"nvidia-233\"; vendor = 0x10de; }",
		UUID_2 "! it has no IOMMU group: the module of nvidia for VFIO must be loaded\n");
	expect_ids("pci",
		"{ access = \"mdev\"; vendor = 0x10de; mdev_type = \"x\"; }, "
		"{ access = \"mdev\"; vendor = 0x10de; }",
		UUID_1 " " UUID_2 " ");
	expect_ids("pci", "{ access = \"mdev\"; vendor = 0x8086; }", "");
	/* The function itself is another resource's affair. */
	expect_ids("pci", "{ access = \"mdev\"; vendor = 0x10de; }, { class = 0x0302; }",
		"0000:03:00.0 " UUID_1 " " UUID_2 " ");
}

/* --- changes --- */

/* "id", "id!" if unhealthy, and "id?" if gone, each with a space behind it. */
static const char *seen(void)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	static char text[1024];

	text[0] = '\0';
	for (size_t i = 0; i < snapshot->n_units; i++) {
		(void)strcat(text, snapshot->units[i].device->id);
		(void)strcat(text,
			snapshot->units[i].healthy           ? " "
				: snapshot->units[i].present ? "! "
							     : "? ");
	}
	return text;
}

static void test_changes(void **state)
{
	plant_group();
	start("driver = \"pci\"; match = ( { access = \"vfio\"; vendor = 0x10de; } );");
	assert_string_equal(seen(), "0000:03:00.0! ");
	pci_bind("0000:03:00.1", "vfio-pci");
	RUN_UNTIL(streq(seen(), "0000:03:00.0 "));
	/* One that is in the group, but not the resource's. */
	pci_join_group("0000:02:00.0", "13");
	pci_plant("0000:04:00.0", "0x10de", "0x1eb8", "0x030200");
	RUN_UNTIL(streq(seen(), "0000:03:00.0 0000:04:00.0! "));
	pci_join_group("0000:04:00.0", "13");
	pci_bind("0000:04:00.0", "vfio-pci");
	RUN_UNTIL(streq(seen(), "0000:02:00.0 0000:03:00.0 0000:04:00.0? "));
	pci_bind("0000:02:00.0", "nvme");
	RUN_UNTIL(streq(seen(), "0000:02:00.0! 0000:03:00.0 0000:04:00.0? "));
	pci_bind("0000:02:00.0", NULL);
	RUN_UNTIL(streq(seen(), "0000:02:00.0 0000:03:00.0 0000:04:00.0? "));
	pci_bind("0000:03:00.0", NULL);
	RUN_UNTIL(streq(seen(), "0000:02:00.0 0000:03:00.0! 0000:04:00.0? "));
	host_remove("/sys/bus/pci/devices/0000:03:00.0");
	host_remove("/sys/bus/pci/devices/0000:03:00.1");
	RUN_UNTIL(streq(seen(), "0000:02:00.0 0000:03:00.0? 0000:04:00.0? "));
}

/* One file for each card says how all its functions are. */
static void test_health_of_the_card(void **state)
{
	plant_host();
	pci_bind("0000:6b:00.1", "vfio-pci");
	pci_bind("0000:6b:00.2", "vfio-pci");
	pci_join_group("0000:6b:00.1", "200");
	pci_join_group("0000:6b:00.2", "201");
	host_mkdir("/run/qat");
	host_write("/run/qat/0000:6b:00.0", "0\n");
	start("preset = \"qat-vf\"; health = ( { probe = \"file\"; path = \"/run/qat/${pf}\"; "
	      "healthy = \"0\"; missing = \"healthy\"; } );");
	assert_string_equal(seen(), "0000:6b:00.1 0000:6b:00.2 ");
	host_replace("/run/qat/0000:6b:00.0", "-1\n");
	RUN_UNTIL(streq(seen(), "0000:6b:00.1! 0000:6b:00.2! "));
	host_replace("/run/qat/0000:6b:00.0", "0\n");
	RUN_UNTIL(streq(seen(), "0000:6b:00.1 0000:6b:00.2 "));
}

/* --- what is not the kernel's --- */

static void test_hostile(void **state)
{
	static char mebibyte[1 << 20];

	memset(mebibyte, 'x', sizeof(mebibyte) - 1);
	plant_host();
	host_symlink("../nowhere", "/sys/bus/pci/devices/0000:07:00.0");
	host_symlink("0000:08:00.0", "/sys/bus/pci/devices/0000:08:00.0");
	host_mkdir("/sys/bus/pci/devices/evil\n0000:09:00.0");
	host_mkdir("/sys/bus/pci/devices/0000:0A:00.0");
	host_write("/sys/bus/pci/devices/0000:0A:00.0/vendor", "0x8086\n");
	host_write("/sys/bus/pci/devices/0000:0A:00.0/device", "0x1\n");
	host_write("/sys/bus/pci/devices/0000:0A:00.0/class", "0x020000\n");
	pci_plant("0000:0b:00.0", "0x8086\x01", "0x1", "0x020000");
	pci_plant("0000:0c:00.0", "0x8086", "-", "0x020000");
	pci_plant("0000:0d:00.0", "0x8086", "0x1", "");
	pci_plant("0000:0e:00.0", "0x8086", "0x1", "0x020000");
	pci_write("0000:0e:00.0", "vendor", mebibyte);
	expect_ids("pci", "{ vendor = 0x8086; class = [ 2, 6 ]; }", "0000:00:01.0 ");
	assert_int_equal(scan.notes.count, 4);
	assert_non_null(strstr(scan.notes.items[0], "0000:0b:00.0/vendor cannot be read"));

	/* Links to what they cannot lead to. */
	pci_bind("0000:03:00.0", "vfio-pci");
	host_mkdir("/sys/kernel/iommu_groups/1\n2");
	pci_link("../../../kernel/iommu_groups/1\n2", "0000:03:00.0", "iommu_group");
	expect_ids("pci", GPU, "0000:03:00.0 ");
	assert_non_null(strstr(scan.devices[0]->problem, "has no IOMMU group"));
	host_remove(PCI_ROOT "/0000:03:00.0/iommu_group");
	pci_join_group("0000:03:00.0", "1 rw");
	expect_ids("pci", GPU, "0000:03:00.0 ");
	assert_non_null(strstr(scan.devices[0]->problem, "has no IOMMU group"));
	pci_write("0000:03:00.0", "mdev_supported_types/nvidia-222/name", "GRID T4-1B\n");
	plant_mdev(UUID_1, "nvidia-222", "1 rw");
	expect_ids("pci", "{ access = \"mdev\"; vendor = 0x10de; }", UUID_1 " ");
	assert_non_null(strstr(scan.devices[0]->problem, "has no IOMMU group"));
	pci_link("../0000:af:00.0", "0000:af:00.0", "physfn");
	pci_link("virtfn1", "0000:af:00.0", "virtfn1");
	expect_ids("pci", "{ class = 0x12; role = \"vf\"; }", "0000:af:00.0 ");
	expect_ids("pci", "{ class = 0x12; functions = \"1\"; }", "");
}

static const char *const victims[] = { "vendor", "class", "driver", "iommu_group", "physfn", "uio",
	"uevent", "numa_node", "sriov_totalvfs", "sriov_numvfs", "vfio-dev", "drm", "vdpa0",
	"mdev_type", "net" };

/* Puts something where the kernel would never have it. */
static void spoil(unsigned long kind, const char *path)
{
	static const char *const targets[] = { "..", "/", "spoilt",
		"../../../kernel/iommu_groups" };
	char full[512];

	host_path(full, path);
	(void)nftw(full, host_remove_one, 16, FTW_DEPTH | FTW_PHYS);
	if (kind % 4 == 0)
		host_mkdir(path);
	else if (kind % 4 == 1)
		(void)mkfifo(full, 0600);
	else if (kind % 4 == 2)
		assert_int_equal(symlink(targets[kind / 4 % ARRAY_SIZE(targets)], full), 0);
	else
		host_write(path, kind / 4 % 2 ? "\xff\x1b[2J\n" : "99999999999999999999\n");
}

/* Trees with pieces that do not fit: whatever is found, nothing of it is in an id. */
static void test_spoilt(void **state)
{
	static const char *const functions[] = { "0000:03:00.0", "0000:6b:00.0", "0000:6b:00.1" };
	unsigned long random = 1;

	for (unsigned i = 0; i < 150; i++) {
		assert_int_equal(host_teardown(state), 0);
		assert_int_equal(host_setup(state), 0);
		plant_group();
		plant_mdev(UUID_1, "nvidia-222", "61");
		for (unsigned k = 0; k < 5; k++) {
			char path[256];

			random = (random * 6364136223846793005UL + 1442695040888963407UL);
			(void)snprintf(path, sizeof(path), PCI_ROOT "/%s/%s",
				functions[random >> 33 & 1 ? 0 : 1 + (random >> 34 & 1)],
				victims[(random >> 40) % ARRAY_SIZE(victims)]);
			spoil(random >> 50, path);
		}
		list_entries("pci",
			"{ access = \"vfio\"; vendor = 0x10de; }, { access = \"uio\"; role = \"vf\"; "
			"vendor = 0x8086; }, { access = \"mdev\"; vendor = 0x10de; }, "
			"{ access = \"vdpa\"; class = 0x12; }, { vendor = 0x8086; }");
		for (size_t k = 0; k < scan.n_devices; k++)
			assert_true(pci_address_is_valid(scan.devices[k]->id) ||
				streq(scan.devices[k]->id, UUID_1));
	}
}

/* --- what is refused --- */

static void test_check(void **state)
{
	static const struct {
		const char *match, *problem;
	} cases[] = {
		{ "{ access = \"vfio\"; }",
			"match[0]: would take any function of the bus: name a vendor" },
		{ "{ device = 0x10; class = 3; }", "device: means nothing without its \"vendor\"" },
		{ "{ subsystem_device = 0x10; class = 3; }",
			"subsystem_device: means nothing without its \"subsystem_vendor\"" },
		{ "{ vendor = 0x10000; }", "vendor: must be from 0 to 65535, not 65536" },
		{ "{ vendor = \"8086\"; }", "vendor: must be a whole number or a list of them" },
		{ "{ class = 0; }", "class: must be from 1 to 16777215, not 0" },
		{ "{ address = \"03:00.0\"; }", "must be a whole PCI address with its domain" },
		{ "{ address = \"0000:AF:00.0\"; }", "in lower case, not \"0000:AF:00.0\"" },
		{ "{ pf = \"eth0\"; role = \"pf\"; }", "role: must be \"vf\" or absent" },
		{ "{ vendor = 1; functions = \"0\"; role = \"plain\"; }",
			"role: must be \"vf\" or absent" },
		{ "{ pf = \"eth0\"; functions = \"0-\"; }",
			"must be numbers and ranges such as \"0-3,5\", without spaces, not \"0-\"" },
		{ "{ pf = \"eth0\"; functions = \"3-1\"; }", "not \"3-1\"" },
		{ "{ pf = \"eth0\"; functions = \"1,\"; }", "not \"1,\"" },
		{ "{ pf = \"eth0\"; functions = \"1;2\"; }", "not \"1;2\"" },
		{ "{ pf = \"eth0\"; functions = \"-1\"; }", "not \"-1\"" },
		{ "{ pf = \"eth0\"; functions = \"4294967296\"; }", "not \"4294967296\"" },
		{ "{ vendor = 1; iommu_group = \"ignore\"; }",
			"iommu_group: is only for access = \"vfio\" and \"vfio-cdev\", remove it" },
		{ "{ vendor = 1; access = \"vfio\"; nodes = \"/dev/x\"; }",
			"is only for access = \"nodes\", remove it" },
		{ "{ vendor = 1; nodes = \"dev/x\"; }", "must be an absolute path" },
		{ "{ vendor = 1; mdev_type = \"x\"; }",
			"is only for access = \"mdev\", remove it" },
		{ "{ vendor = 1; attributes = ( { file = \"a\"; property = \"b\"; is = \"c\"; } ); }",
			"\"file\"" },
		{ "{ vendor = 1; permissions = \"x\"; }", "permissions: must be made of" },
		{ "{ vendor = 1; access = \"vfoi\"; }", "did you mean \"vfio\"?" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *problem = NULL, *text = NULL;

		assert_true(
			asprintf(&text, "driver = \"pci\"; match = ( %s );", cases[i].match) > 0);
		problem = declare_problem(text);
		if (!strstr(problem, cases[i].problem))
			fail_msg("%s: %s", cases[i].match, problem);
	}
}

static void test_claims(void **state)
{
	_cleanup_strings_ struct strings claims = { 0 };

	config = declare(
		"driver = \"pci\"; match = (\n"
		"{ address = [ \"0000:03:00.0\", \"0000:0[4-5]:00.0\", \"0000:06:00.0\" ]; },\n"
		"{ address = \"0000:07:00.0\"; driver = \"vfio-pci\"; },\n"
		"{ address = \"0000:08:00.0\"; access = \"mdev\"; } );");
	assert_int_equal(
		declaration_of(config)->driver->claims(declaration_of(config), &claims), 0);
	assert_int_equal(claims.count, 2);
	assert_string_equal(claims.items[0], "0000:03:00.0");
	assert_string_equal(claims.items[1], "0000:06:00.0");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, driver_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_no_bus),
		TEST(test_what_it_is),
		TEST(test_roles),
		TEST(test_attributes),
		TEST(test_nodes),
		TEST(test_vfio),
		TEST(test_vfio_drivers),
		TEST(test_group_viable),
		TEST(test_group_policies),
		TEST(test_fold_tells_of_all),
		TEST(test_what_is_its_own),
		TEST(test_vfio_cdev),
		TEST(test_uio),
		TEST(test_vdpa),
		TEST(test_mdev),
		TEST(test_changes),
		TEST(test_health_of_the_card),
		TEST(test_hostile),
		TEST(test_spoilt),
		TEST(test_check),
		TEST(test_claims),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
