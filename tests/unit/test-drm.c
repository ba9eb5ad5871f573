/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "drm": grouping, identity, what entries of `match` choose, partitions and links, and trees
 * that no kernel makes.
 * complaints.md: R7.
 */
#include "explained-fixture.h"
#include "sysfs-fixture.h"

#include "drivers/allocation/preference.h"

#define TOPOLOGY "/sys/class/kfd/kfd/topology/nodes"

static void plant_entry(const char *directory, const char *name)
{
	char path[256], text[256];

	(void)snprintf(path, sizeof(path), "%s/drm/%s", directory, name);
	host_mkdir(path);
	(void)snprintf(path, sizeof(path), "%s/drm/%s/device", directory, name);
	host_symlink("../..", path);
	(void)snprintf(path, sizeof(path), "%s/drm/%s/uevent", directory, name);
	(void)snprintf(text, sizeof(text), "MAJOR=226\nDEVNAME=dri/%s\n", name);
	host_write(path, text);
	host_mkdir("/sys/class/drm");
	(void)snprintf(path, sizeof(path), "/sys/class/drm/%s", name);
	(void)snprintf(text, sizeof(text), "../../%s/drm/%s", directory + strlen("/sys/"), name);
	host_symlink(text, path);
}

static void plant_file(const char *directory, const char *name, const char *text)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	host_write(path, text);
}

/* A card behind the root port 0000:00:01.0. */
static void plant_gpu(const char *address, const char *vendor, const char *driver, int number)
{
	char directory[128], path[256], target[256], name[32];

	(void)snprintf(
		directory, sizeof(directory), "/sys/devices/pci0000:00/0000:00:01.0/%s", address);
	host_mkdir(directory);
	plant_file(directory, "vendor", vendor);
	plant_file(directory, "device", "0x1234\n");
	plant_file(directory, "numa_node", "1\n");
	(void)snprintf(path, sizeof(path), "/sys/bus/pci/drivers/%s", driver);
	host_mkdir(path);
	(void)snprintf(path, sizeof(path), "%s/driver", directory);
	(void)snprintf(target, sizeof(target), "../../../../bus/pci/drivers/%s", driver);
	host_symlink(target, path);
	host_mkdir("/sys/bus/pci/devices");
	(void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", address);
	(void)snprintf(
		target, sizeof(target), "../../../devices/pci0000:00/0000:00:01.0/%s", address);
	host_symlink(target, path);
	(void)snprintf(name, sizeof(name), "card%d", number);
	plant_entry(directory, name);
	(void)snprintf(name, sizeof(name), "renderD%d", 128 + number);
	plant_entry(directory, name);
}

#define GPU(address) "/sys/devices/pci0000:00/0000:00:01.0/" address

static void plant_node(int number, int simds, int minor, unsigned location)
{
	char directory[128], text[256];

	(void)snprintf(directory, sizeof(directory), TOPOLOGY "/%d", number);
	host_mkdir(directory);
	(void)snprintf(text, sizeof(text),
		"cpu_cores_count 0\nsimd_count %d\nlocation_id %u\ndomain 0\ndrm_render_minor %d\n",
		simds, location, minor);
	plant_file(directory, "properties", text);
}

static void plant_link(int from, const char *kind, int number, int to, int type)
{
	char directory[128], text[256];

	(void)snprintf(directory, sizeof(directory), TOPOLOGY "/%d/%s/%d", from, kind, number);
	host_mkdir(directory);
	(void)snprintf(text, sizeof(text), "type %d\nnode_from %d\nnode_to %d\nweight 15\n", type,
		from, to);
	plant_file(directory, "properties", text);
}

/* What the device claims and is a part of, beside its nodes. */
static void expect_hardware(const char *id, const char *expected)
{
	const struct strings *claims = &found(id)->claims;
	char text[256] = "", *end = text;

	for (size_t i = 0; i < claims->count; i++)
		end = stpcpy(stpcpy(end, claims->items[i]), " ");
	assert_string_equal(text, expected);
}

static void test_identity(void **state)
{
	/* The number of the card is not that of the bus, nor need it be the same tomorrow. */
	plant_gpu("0000:03:00.0", "0x8086\n", "xe", 7);
	plant_gpu("0000:0a:00.0", "0x1002\n", "amdgpu", 0);
	plant_entry(GPU("0000:03:00.0"), "controlD71");
	plant_file(GPU("0000:0a:00.0"), "mem_info_vram_total", "206141652992\n");
	host_mkdir(GPU("0000:03:00.0") "/drm/card7/card7-DP-1");
	host_symlink("card7/card7-DP-1", "/sys/class/drm/card7-DP-1");
	expect_ids("drm", "{}", "0000:0a:00.0 0000:03:00.0 ");
	expect_variable("0000:03:00.0", "card", "/dev/dri/card7");
	expect_variable("0000:03:00.0", "render", "/dev/dri/renderD135");
	expect_variable("0000:03:00.0", "bdf", "0000:03:00.0");
	expect_variable("0000:03:00.0", "vendor", "0x8086");
	expect_variable("0000:03:00.0", "device", "0x1234");
	expect_variable("0000:03:00.0", "driver", "xe");
	assert_null(device_variable(found("0000:03:00.0"), "partition"));
	assert_null(device_variable(found("0000:03:00.0"), "memory"));
	expect_variable("0000:0a:00.0", "memory", "206141652992");
	assert_int_equal(found("0000:03:00.0")->n_numa, 1);
	assert_int_equal(found("0000:03:00.0")->n_nodes, 2);
	assert_string_equal(found("0000:03:00.0")->nodes[0].host, "/dev/dri/card7");
	assert_int_equal(scan.notes.count, 0);
}

static void test_choosing(void **state)
{
	plant_gpu("0000:03:00.0", "0x8086\n", "xe", 0);
	plant_gpu("0000:04:00.0", "0x8086\n", "i915", 1);
	plant_gpu("0000:0a:00.0", "0x1002\n", "amdgpu", 2);
	plant_file(GPU("0000:04:00.0"), "device", "0x7d55\n");
	expect_ids("drm", "{ vendor = 0x8086; }", "0000:03:00.0 0000:04:00.0 ");
	expect_ids("drm", "{ vendor = [ 0x8086, 0x1002 ]; device = 0x1234; }",
		"0000:03:00.0 0000:0a:00.0 ");
	expect_ids("drm", "\"i915\"", "0000:04:00.0 ");
	expect_ids("drm", "{ driver = ( \"i915\", \"amdgpu\" ); }", "0000:04:00.0 0000:0a:00.0 ");
	expect_ids("drm", "{ driver = \"i9*\"; }", "0000:04:00.0 ");
	expect_ids("drm", "{ address = ( \"0000:04:*\", \"0000:0a:00.0\" ); }",
		"0000:04:00.0 0000:0a:00.0 ");
	expect_ids("drm", "{ address = \"0000:0[3-4]:*\"; }", "0000:03:00.0 0000:04:00.0 ");
	expect_ids("drm", "{ compute = true; }", "");
	/* An entry that comes later does not have it again. */
	expect_ids("drm", "{ vendor = 0x8086; nodes = \"render\"; }, {}",
		"0000:03:00.0 0000:04:00.0 0000:0a:00.0 ");
	assert_int_equal(found("0000:03:00.0")->n_nodes, 1);
	assert_string_equal(found("0000:03:00.0")->nodes[0].host, "/dev/dri/renderD128");
	assert_int_equal(scan.notes.count, 0);
	host_symlink("../0000:03:00.1", GPU("0000:03:00.0") "/virtfn0");
	plant_gpu("0000:03:00.1", "0x8086\n", "xe", 3);
	host_symlink("../0000:03:00.0", GPU("0000:03:00.1") "/physfn");
	expect_ids("drm", "{ vendor = 0x8086; }", "0000:04:00.0 0000:03:00.1 ");
	expect_hardware("0000:03:00.1", "<pci:0000:03:00.1 <pci:0000:03:00.0 ");
	expect_ids("drm", "{ vendor = 0x8086; split = true; }",
		"0000:03:00.0 0000:04:00.0 0000:03:00.1 ");
	expect_hardware("0000:03:00.0", "pci:0000:03:00.0 ");
	expect_hardware("0000:04:00.0", "<pci:0000:04:00.0 ");
	/* The default of `split` leaves out nothing in `exclude`. */
	expect_found("driver = \"drm\"; match = ( { vendor = 0x8086; split = true; } ); "
		     "exclude = ( { match = ( { address = \"0000:03:00.0\"; } ); } );",
		"0000:04:00.0 0000:03:00.1 ");
}

/* Intel's -deny-ids, which takes numbers of devices. */
static void test_intel_deny_ids(void **state)
{
	_cleanup_free_ char *problem = NULL;

	plant_gpu("0000:03:00.0", "0x8086\n", "xe", 0);
	plant_gpu("0000:04:00.0", "0x8086\n", "xe", 1);
	plant_gpu("0000:05:00.0", "0x8086\n", "xe", 2);
	plant_file(GPU("0000:04:00.0"), "device", "0xe20b\n");
	start("driver = \"drm\"; match = ( { vendor = 0x8086; } ); "
	      "exclude = ( { match = ( { vendor = 0x8086; device = 0xe20b; } ); }, \"*:05:*\" );");
	assert_string_equal(seen(), "0000:03:00.0! ");
	problem = declare_problem("driver = \"drm\"; match = ( {} ); exclude = \"0xe20b\";");
	assert_non_null(
		strstr(problem, "exclude[0]: \"0xe20b\" can never match: ids are addresses"));
	free(problem);
	problem = declare_problem(
		"driver = \"drm\"; match = ( {} ); exclude = ( { match = ( { device = 0xe20b; } ); } );");
	assert_non_null(strstr(problem, "device: has no meaning without \"vendor\""));
	free(problem);
	problem = declare_problem("driver = \"exec\"; match = ( { command = [ \"/bin/x\" ]; } ); "
				  "exclude = ( { match = ( { command = [ \"/bin/y\" ]; } ); } );");
	assert_non_null(strstr(problem, "driver \"exec\" does not support \"match\" here"));
}

static void test_nodes(void **state)
{
	plant_gpu("0000:03:00.0", "0x8086\n", "xe", 0);
	list_entries("drm", "{ nodes = \"card\"; by_path = true; }");
	assert_int_equal(found("0000:03:00.0")->n_nodes, 2);
	assert_string_equal(found("0000:03:00.0")->nodes[1].host, "/dev/dri/card0");
	assert_string_equal(
		found("0000:03:00.0")->nodes[1].path, "/dev/dri/by-path/pci-0000:03:00.0-card");
	host_remove("/sys/class/drm/renderD128");
	list_entries("drm", "{ vendor = 0x8086; nodes = \"render\"; }");
	assert_string_equal(found("0000:03:00.0")->problem, "its driver xe creates no render node");
}

/* Display adapters (bochs, ast, mgag200) have no render node, and some accelerators nothing else.
 */
static void test_nodes_as_a_condition(void **state)
{
	static const char *const names[] = { "vendor = 0x1a03;", "driver = \"ast\";",
		"address = \"0000:04:00.0\";" };

	plant_gpu("0000:03:00.0", "0x8086\n", "xe", 0);
	plant_gpu("0000:04:00.0", "0x1a03\n", "ast", 1);
	plant_gpu("0000:05:00.0", "0x1002\n", "amdgpu", 2);
	host_remove("/sys/class/drm/renderD129");
	host_remove("/sys/class/drm/card2");
	expect_ids("drm", "{ nodes = \"render\"; }", "0000:03:00.0 0000:05:00.0 ");
	expect_ids("drm", "{ nodes = \"card\"; }", "0000:03:00.0 0000:04:00.0 ");
	expect_ids("drm", "{ nodes = \"all\"; }", "0000:03:00.0 0000:04:00.0 0000:05:00.0 ");
	list_entries("drm", "{ nodes = \"render\"; combine = true; }");
	expect_nodes("all", "/dev/dri/renderD128 /dev/dri/renderD130 ");
	assert_null(found("all")->problem);
	/* A GPU that the entry names must have the node. */
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char match[96];

		(void)snprintf(match, sizeof(match), "{ %s nodes = \"render\"; }", names[i]);
		list_entries("drm", match);
		assert_string_equal(
			found("0000:04:00.0")->problem, "its driver ast creates no render node");
	}
	host_remove("/sys/class/drm/renderD128");
	host_remove("/sys/class/drm/renderD130");
	expect_explained("driver = \"drm\"; match = ( { nodes = \"render\"; } );",
		"match[0]: 2 GPUs, none left: nodes refused 2 (0000:03:00.0 has no render node)\n");
}

static void test_not_on_a_bus(void **state)
{
	host_mkdir("/sys/devices/platform/soc/fd4a0000.gpu");
	plant_entry("/sys/devices/platform/soc/fd4a0000.gpu", "card0");
	expect_ids("drm", "{}", "fd4a0000.gpu ");
	assert_null(device_variable(found("fd4a0000.gpu"), "bdf"));
	expect_ids("drm", "{ vendor = 0x8086; }", "");
}

#define CONTROLLER "pci0000:00/0000:00:14.0"

/* USB displays at two ports of a hub. `first` is the number of the node of the first. */
static void plant_usb_displays(int bus, int first)
{
	char hub[64], interface[128];

	(void)snprintf(hub, sizeof(hub), CONTROLLER "/usb%d/%d-1", bus, bus);
	sys_device(CONTROLLER, "bus/pci", "");
	sys_device(made(CONTROLLER "/usb%d", bus), "bus/usb", "");
	sys_device(hub, "bus/usb", "");
	host_mkdir("/sys/bus/usb/drivers/udl");
	for (int i = 0; i < 2; i++) {
		(void)snprintf(interface, sizeof(interface), "/sys/devices/%s/%d-1.%d/%d-1.%d:1.0",
			hub, bus, 2 + i, bus, 2 + i);
		sys_device(made("%s/%d-1.%d", hub, bus, 2 + i), "bus/usb", "");
		sys_device(interface + strlen("/sys/devices/"), "bus/usb", "");
		host_symlink(
			"../../../../../../../bus/usb/drivers/udl", made("%s/driver", interface));
		plant_entry(interface, made("card%d", i == 0 ? first : 1 - first));
	}
}

/* Two displays behind one controller, whose buses are numbered in another order after a boot. */
static void test_usb_displays(void **state)
{
	for (int boot = 0; boot < 2; boot++) {
		assert_int_equal(host_teardown(state), 0);
		assert_int_equal(host_setup(state), 0);
		plant_usb_displays(1 + boot, boot);
		expect_ids("drm", "{}",
			boot == 0 ? "usb-0000:00:14.0-0:1.2:1.0 usb-0000:00:14.0-0:1.3:1.0 "
				  : "usb-0000:00:14.0-0:1.3:1.0 usb-0000:00:14.0-0:1.2:1.0 ");
		assert_int_equal(scan.notes.count, 0);
		expect_nodes("usb-0000:00:14.0-0:1.2:1.0",
			boot == 0 ? "/dev/dri/card0 " : "/dev/dri/card1 ");
		/* The values are not those of its controller. */
		expect_variable("usb-0000:00:14.0-0:1.2:1.0", "driver", "udl");
		assert_null(device_variable(found("usb-0000:00:14.0-0:1.2:1.0"), "vendor"));
		expect_ids("drm", "{ address = \"*\"; }", "");
		list_entries("drm", "{ by_path = true; }");
		assert_int_equal(found("usb-0000:00:14.0-0:1.2:1.0")->n_nodes, 1);
	}
}

/* The only device of a function, on a bus of its own. */
static void test_virtio(void **state)
{
	static const char mmio[] = "platform/a003e00.virtio_mmio";

	sys_device("pci0000:00/0000:00:02.0", "bus/pci", "");
	sys_write("pci0000:00/0000:00:02.0", "vendor", "0x1af4\n");
	sys_device("pci0000:00/0000:00:02.0/virtio3", "bus/virtio", "");
	plant_entry("/sys/devices/pci0000:00/0000:00:02.0/virtio3", "card0");
	expect_ids("drm", "{ vendor = 0x1af4; }", "0000:00:02.0 ");
	/* Without a PCI bus, the number of the kernel is no part of the id. */
	sys_device(mmio, "bus/platform", "");
	sys_device(made("%s/virtio7", mmio), "bus/virtio", "");
	plant_entry(made("/sys/devices/%s/virtio7", mmio), "card1");
	expect_ids("drm", "{}", "0000:00:02.0 a003e00.virtio_mmio:virtio.0 ");
}

static void plant_cut(void)
{
	plant_gpu("0000:19:00.0", "0x1002\n", "amdgpu", 0);
	plant_file(GPU("0000:19:00.0"), "current_compute_partition", "CPX\n");
	plant_file(GPU("0000:19:00.0"), "current_memory_partition", "NPS4\n");
	plant_file(GPU("0000:19:00.0"), "mem_info_vram_total", "206141652992\n");
	plant_entry("/sys/devices/platform/amdgpu_xcp_0", "renderD129");
	plant_entry("/sys/devices/platform/amdgpu_xcp_1", "renderD130");
	plant_node(0, 0, 0, 0);
	plant_node(1, 38, 128, 0x1900);
	plant_node(2, 38, 129, 0x1901);
}

static void test_partitions(void **state)
{
	plant_cut();
	/* The second platform device is not in use. */
	expect_ids("drm", "{ compute = true; partition = \"cpx_*\"; }",
		"0000:19:00.0-p0 0000:19:00.0-p1 ");
	expect_variable("0000:19:00.0-p1", "partition", "cpx_nps4");
	assert_null(device_variable(found("0000:19:00.0-p1"), "memory"));
	expect_variable("0000:19:00.0-p1", "bdf", "0000:19:00.0");
	assert_int_equal(found("0000:19:00.0-p1")->numa[0], 1);
	assert_string_equal(found("0000:19:00.0-p1")->nodes[0].host, "/dev/dri/renderD129");
	expect_hardware("0000:19:00.0-p0", "<pci:0000:19:00.0 ");
	expect_hardware("0000:19:00.0-p1", "<pci:0000:19:00.0 ");
	expect_ids("drm", "{ partition = \"spx_*\"; }", "");
}

/* The platform devices of a GPU that is not partitioned, by their names in kernels and drivers. */
static void test_unused_parts(void **state)
{
	static const char *const parts[][3] = { { "amdgpu_xcp_1", "amdgpu_xcp_2", "amdgpu_xcp_30" },
		{ "amdgpu_xcp.1", "amdgpu_xcp.2", "amdgpu_xcp.3" },
		{ "hyhcu_xcp_0", "hyhcu_xcp_1", "hyhcu_xcp_2" } };

	plant_gpu("0000:19:00.0", "0x1002", "amdgpu", 0);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		for (size_t k = 0; k < ARRAY_SIZE(parts[i]); k++) {
			char directory[64], name[16];

			(void)snprintf(directory, sizeof(directory), "/sys/devices/platform/%s",
				parts[i][k]);
			(void)snprintf(name, sizeof(name), "renderD%zu", 129 + 3 * i + k);
			plant_entry(directory, name);
		}
	/* A GPU of a system on a chip, whose name is nearly that of a part. */
	plant_entry("/sys/devices/platform/soc/gpu_xcp", "renderD140");
	plant_entry("/sys/devices/platform/soc/gpu_xcp.0x", "renderD141");
	expect_ids("drm", "{ nodes = \"render\"; }", "0000:19:00.0 gpu_xcp gpu_xcp.0x ");
}

/* The number of the part in the upper bits of the location, as some releases of the driver have it.
 */
static void test_partitions_in_upper_bits(void **state)
{
	plant_cut();
	plant_node(2, 38, 129, 0x10001900);
	expect_ids("drm", "{ compute = true; }", "0000:19:00.0-p0 0000:19:00.0-p1 ");
	assert_string_equal(found("0000:19:00.0-p1")->nodes[0].host, "/dev/dri/renderD129");
}

/* As the compute driver does under a control group without the render node. */
static void test_hidden_compute(void **state)
{
	plant_cut();
	list_entries("drm", "{ compute = true; }");
	assert_int_equal(scan.notes.count, 0);
	host_remove(TOPOLOGY "/1/properties");
	host_mkdir(TOPOLOGY "/1/properties");
	expect_ids("drm", "{ compute = true; }", "0000:19:00.1 ");
	assert_int_equal(scan.notes.count, 1);
	assert_non_null(
		strstr(scan.notes.items[0], "AMD's compute driver lists GPUs that cannot be read"));
}

/* Two GPUs in one slot are no parts of one. */
static void test_functions(void **state)
{
	plant_gpu("0000:03:00.0", "0x1002\n", "amdgpu", 0);
	plant_gpu("0000:03:00.1", "0x1002\n", "amdgpu", 1);
	plant_node(1, 64, 128, 0x0300);
	plant_node(2, 64, 129, 0x0301);
	expect_ids("drm", "{ compute = true; }", "0000:03:00.0 0000:03:00.1 ");
	expect_variable("0000:03:00.1", "bdf", "0000:03:00.1");
}

static unsigned distance(const char *from, const char *to)
{
	const struct device *device = found(from);

	for (size_t i = 0; i < device->n_distances; i++)
		if (streq(device->distances[i].id, to))
			return device->distances[i].distance;
	return 0;
}

static void test_links(void **state)
{
	plant_cut();
	plant_gpu("0000:49:00.0", "0x1002\n", "amdgpu", 4);
	plant_gpu("0000:50:00.0", "0x1002\n", "amdgpu", 5);
	plant_node(3, 304, 132, 0x4900);
	plant_node(4, 304, 133, 0x5000);
	plant_link(1, "io_links", 0, 3, 11);
	plant_link(3, "io_links", 0, 1, 11);
	plant_link(3, "p2p_links", 0, 4, 2);
	list_entries("drm", "{ compute = true; }");
	assert_int_equal(distance("0000:19:00.0-p0", "0000:19:00.0-p1"), 10);
	assert_int_equal(distance("0000:19:00.0-p0", "0000:49:00.0"), 20);
	assert_int_equal(distance("0000:49:00.0", "0000:50:00.0"), 50);
	assert_int_equal(distance("0000:50:00.0", "0000:19:00.0-p0"), 0);
	plant_file(GPU("0000:49:00.0"), "numa_node", "0\n");
	list_entries("drm", "{ compute = true; }");
	assert_int_equal(distance("0000:19:00.0-p0", "0000:49:00.0"), 30);
	assert_int_equal(distance("0000:49:00.0", "0000:50:00.0"), 60);
}

/* Eight GPUs with an XGMI link between any two, as on an MI300X; `numa` has a digit for each. */
static void plant_hive(const char *numa)
{
	for (int i = 0; i < 8; i++) {
		char address[] = "0000:01:00.0", path[128];
		const char node[] = { numa[i], '\n', '\0' };

		address[6] = (char)('1' + i);
		plant_gpu(address, "0x1002\n", "amdgpu", i);
		(void)snprintf(path, sizeof(path), GPU("%s"), address);
		plant_file(path, "numa_node", node);
		(void)snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		host_mkdir("/dev/dri");
		host_mknod(path);
		(void)snprintf(path, sizeof(path), "/dev/dri/renderD%d", 128 + i);
		host_mknod(path);
		plant_node(2 + i, 304, 128 + i, (unsigned)(i + 1) << 8);
		for (int k = 0; k < 8; k++)
			if (k != i)
				plant_link(2 + i, "io_links", k, 2 + k, 11);
	}
}

/* Chooses of the GPUs from number `first` to `last`, "test1" and so on, `size`; "5 6 7". */
static const char *prefer(unsigned first, unsigned last, const char *must, size_t size)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	const char *available[8], *answer[8], *musts[] = { must };
	static char text[32];
	size_t n = 0;

	for (unsigned i = first; i <= last; i++)
		available[n++] = snapshot->units[i - 1].device->id;
	assert_int_equal(preference_choose(declaration_of(config), snapshot, available, n, musts,
				 must ? 1 : 0, size, answer),
		size);
	text[0] = '\0';
	for (size_t i = 0; i < size; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%c",
			i > 0 ? " " : "", answer[i][6]);
	return text;
}

/* Cases of AMD's TestBestPolicyAllocator (besteffort_policy_test.go), by their descriptions. */
static void test_amd_best_policy_allocator(void **state)
{
	plant_hive("00001111");
	start("driver = \"drm\"; match = ( { compute = true; } ); prefer = \"links\";");
	print_message("Allocate 3 - same numa\n");
	assert_string_equal(prefer(3, 8, NULL, 3), "5 6 7");
	print_message("Allocate 3 - with required and same numa\n");
	assert_string_equal(prefer(3, 8, "0000:05:00.0", 3), "5 6 7");
	print_message("Allocate 3 devices\n");
	assert_string_equal(prefer(1, 8, NULL, 3), "1 2 3");
	print_message("Allocate 5 devices\n");
	assert_string_equal(prefer(1, 8, NULL, 5), "1 2 3 4 5");
	/* One of node 0 and four of node 1 are free, four are wanted. */
	assert_string_equal(prefer(4, 8, NULL, 4), "5 6 7 8");
}

static void expect_permissions(const char *id, const char *expected)
{
	const struct device *device = found(id);

	for (size_t i = 0; i < device->n_nodes; i++)
		assert_string_equal(device->nodes[i].permissions, expected);
}

static void test_combined(void **state)
{
	_cleanup_free_ char *problem = NULL;

	plant_gpu("0000:03:00.0", "0x8086\n", "xe", 0);
	plant_gpu("0000:04:00.0", "0x8086\n", "i915", 1);
	host_mkdir(GPU("0000:03:00.0") "/xe.mei-gscfi.768/mei/mei3");
	expect_ids("drm", "{ combine = true; }", "all ");
	assert_int_equal(found("all")->n_nodes, 5);
	expect_permissions("all", "rw");
	expect_ids("drm", "{ combine = true; by_path = true; permissions = \"r\"; }", "all ");
	assert_int_equal(found("all")->n_nodes, 9);
	expect_permissions("all", "r");
	expect_ids("drm", "{ combine = true; vendor = 0x1002; }", "");
	expect_found("driver = \"drm\"; match = ( { combine = true; } ); "
		     "exclude = ( { match = ( { driver = \"xe\"; } ); } );",
		"all ");
	expect_nodes("all", "/dev/dri/card1 /dev/dri/renderD129 ");
	expect_found("driver = \"drm\"; match = ( { combine = true; }, {} ); "
		     "exclude = ( { match = ( { combine = true; } ); } );",
		"");
	problem = declare_problem(
		"driver = \"drm\"; match = ( { combine = true; }, { combine = true; } );");
	assert_non_null(strstr(problem, "combine: can be set in one entry only"));
	free(problem);
	problem = declare_problem("driver = \"drm\"; match = ( { device = 0x56c0; } );");
	assert_non_null(strstr(problem, "device: has no meaning without \"vendor\""));
	free(problem);
	problem = declare_problem("driver = \"drm\"; match = ( { address = \"03:00.0\"; } );");
	assert_non_null(strstr(problem, "must be a whole PCI address with its domain"));
	free(problem);
	problem = declare_problem("driver = \"drm\"; match = ( { permissions = \"x\"; } );");
	assert_non_null(strstr(problem, "permissions: must consist of"));
}

static void test_hostile(void **state)
{
	static char mebibyte[1 << 20];

	memset(mebibyte, '7', sizeof(mebibyte) - 1);
	plant_gpu("0000:03:00.0", "0x8086\n", "xe", 0);
	plant_gpu("0000:04:00.0", mebibyte, "i915", 1);
	plant_file(GPU("0000:03:00.0"), "current_compute_partition", mebibyte);
	plant_file(GPU("0000:03:00.0"), "current_memory_partition", "NPS\033[1m\n");
	plant_file(GPU("0000:03:00.0"), "drm/card0/uevent", "DEVNAME=../../etc/shadow\n");
	plant_file(GPU("0000:03:00.0"), "numa_node", "99999999999\n");
	host_symlink("nowhere", "/sys/class/drm/card99");
	host_mkdir("/sys/class/drm/card98");
	host_symlink("device", "/sys/class/drm/card98/device");
	host_mkdir("/sys/class/drm/renderD99999999999999999999");
	host_symlink("/etc", "/sys/class/drm/renderD99999999999999999999/device");
	host_mkdir("/etc");
	plant_node(1, 1, 128, 0x300);
	plant_node(2, -1, -5, 0xffffffff);
	host_mkdir(TOPOLOGY "/3");
	host_symlink("properties", TOPOLOGY "/3/properties");
	host_mkdir(TOPOLOGY "/4");
	plant_file(TOPOLOGY "/4", "properties", mebibyte);
	host_mkdir(TOPOLOGY "/1/io_links/0");
	plant_file(TOPOLOGY "/1/io_links/0", "properties", "type 11\nnode_to -1\n");
	expect_ids("drm", "{}", "0000:03:00.0 0000:04:00.0 ");
	assert_string_equal(found("0000:03:00.0")->nodes[0].host, "/dev/dri/card0");
	assert_null(device_variable(found("0000:03:00.0"), "partition"));
	assert_null(device_variable(found("0000:04:00.0"), "vendor"));
	assert_int_equal(found("0000:03:00.0")->n_numa, 0);
	assert_int_equal(found("0000:03:00.0")->n_distances, 0);
}

static size_t count_healthy(void)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	size_t n = 0;

	for (size_t i = 0; i < snapshot->n_units; i++)
		n += snapshot->units[i].healthy;
	return n;
}

static void test_plugged_and_unplugged(void **state)
{
	plant_gpu("0000:03:00.0", "0x8086\n", "xe", 0);
	host_mkdir("/dev/dri");
	host_mknod("/dev/dri/card0");
	host_mknod("/dev/dri/renderD128");
	start("driver = \"drm\"; match = ( {} );");
	assert_int_equal(count_healthy(), 1);
	plant_gpu("0000:04:00.0", "0x8086\n", "xe", 1);
	RUN_UNTIL(strlen(seen()) == strlen("0000:03:00.0 0000:04:00.0! "));
	host_mknod("/dev/dri/renderD129");
	host_mknod("/dev/dri/card1");
	RUN_UNTIL(count_healthy() == 2);
	host_remove("/dev/dri/card0");
	RUN_UNTIL(count_healthy() == 1);
	host_mknod("/dev/dri/card0");
	RUN_UNTIL(count_healthy() == 2);
	host_remove("/sys/class/drm/card0");
	host_remove("/sys/class/drm/renderD128");
	RUN_UNTIL(count_healthy() == 1);
}

/* Virtual functions are made on a GPU that was offered. */
static void test_split_later(void **state)
{
	plant_gpu("0000:03:00.0", "0x8086\n", "xe", 0);
	start("driver = \"drm\"; match = ( { vendor = 0x8086; } );");
	assert_string_equal(seen(), "0000:03:00.0! ");
	host_mkdir(GPU("0000:03:00.1"));
	host_symlink("../0000:03:00.1", GPU("0000:03:00.0") "/virtfn0");
	plant_gpu("0000:0a:00.0", "0x1002\n", "amdgpu", 1);
	RUN_UNTIL(*loss_of("0000:03:00.0"));
	assert_string_equal(loss_of("0000:03:00.0"),
		"0000:03:00.0 is not listed any more: \"split\" of match[0] refuses it, because it "
		"has virtual functions: match these, or set split = true");
}

/* Why entries find nothing. */
static void test_explanations(void **state)
{
	char expected[256];

	(void)snprintf(expected, sizeof(expected),
		"match[0]: host_root %s has no /sys, so no GPU is known: mount it from the host\n",
		host_root);
	expect_explained("driver = \"drm\"; match = ( {} );", expected);
	host_mkdir("/sys");
	expect_explained("driver = \"drm\"; match = ( {} );", "match[0]: the host has no GPU\n");
	plant_gpu("0000:03:00.0", "0x8086\n", "xe", 0);
	plant_gpu("0000:0a:00.0", "0x1002\n", "amdgpu", 1);
	expect_explained("driver = \"drm\"; match = ( { vendor = 0x1002; } );", "");
	expect_explained("driver = \"drm\"; match = ( { vendor = 1002; } );",
		"match[0]: 2 GPUs, none left: vendor refused 2 (0000:0a:00.0 has 0x1002: write 0x)\n");
	expect_explained(
		"driver = \"drm\"; match = ( { vendor = 0x8086; }, { vendor = 0x1002; driver = \"nouveau\"; } );",
		"match[1]: 2 GPUs, none left: vendor refused 1 (0000:03:00.0 has 0x8086), driver refused 1 "
		"(0000:0a:00.0 has \"amdgpu\")\n");
	expect_explained("driver = \"drm\"; match = ( { compute = true; } );",
		"match[0]: 2 GPUs, none left: compute refused 2 (0000:03:00.0 is not a GPU of AMD's "
		"compute driver)\n");
	expect_explained("driver = \"drm\"; match = ( { combine = true; partition = \"cpx*\"; } );",
		"match[0]: 2 GPUs, none left: partition refused 2 (0000:03:00.0 has none)\n");
}

#define DRM "driver = \"drm\"; match = ( {} ); "

/* Entries that apply to no device: exclusions, cordons and shares. */
static void test_unused_rules(void **state)
{
	plant_gpu("0000:03:00.0", "0x8086\n", "xe", 0);
	plant_gpu("0000:0a:00.0", "0x1002\n", "amdgpu", 1);
	expect_explained(DRM "exclude = ( \"0000:0a:00.0\", \"*:03:*\" );", "");
	expect_explained(DRM "exclude = \"card1\";",
		"exclude[0] leaves out no device: 0000:0a:00.0 has \"card=/dev/dri/card1\"\n");
	expect_explained(DRM "exclude = \"card7\";", "exclude[0] leaves out no device\n");
	expect_explained(DRM "exclude = ( \"0000:03:00.0\", { where = \"vendor=8086\"; } );",
		"exclude[1] leaves out no device: 0000:03:00.0 has \"vendor=0x8086\"\n");
	expect_explained(DRM "exclude = ( { where = \"driver=nouveau\"; } );",
		"exclude[0] leaves out no device: 0000:03:00.0 has \"driver=xe\"\n");
	expect_explained(DRM "where = ( \"vendor=0x8086\", \"driver=x?\" );", "");
	expect_explained(DRM "where = \"vendor=8086\";",
		"where: no device has \"vendor=8086\": 0000:03:00.0 has \"vendor=0x8086\"\n");
	expect_explained(DRM "exclude = ( { match = ( { vendor = 8086; } ); } );",
		"exclude[0].match[0] leaves out none of 2 GPUs: vendor refused 2 (0000:03:00.0 has 0x8086: write "
		"0x)\n");
	expect_explained(
		"driver = \"drm\"; match = ( { vendor = 0x1002; } ); exclude = ( { match = ( { vendor = 0x8086; } ); } );",
		"exclude[0].match[0] leaves out none of 1 GPU: vendor refused 1 (0000:0a:00.0 has 0x1002)\n");
	expect_explained(
		DRM "cordon = ( \"0000:0a:00.0\", \"*:04:*\" );", "cordon[1] names no device\n");
	expect_explained(DRM "share = { devices = ( { id = \"0000:0b:*\"; replicas = 2; } ); };",
		"share.devices[0] names no device\n");
}

/* One file may be for many hosts. */
static void test_unused_rules_without_devices(void **state)
{
	host_mkdir("/sys");
	expect_explained(
		DRM "exclude = \"card1\"; cordon = \"card2\";", "match[0]: the host has no GPU\n");
}

/* An address has the form that it has in `match`. */
static void test_addresses_in_rules(void **state)
{
	static const char *const wrong[] = { "exclude = \"0000:0A:00.0\";",
		"exclude = \"0a:00.0\";", "cordon = \"0000:0A:00.0\";",
		"exclude = ( { where = \"bdf=0000:0A:00.0\"; } );",
		"exclude = ( { where = ( \"id=*\", \"bdf=card1\" ); } );",
		"share = { devices = ( { id = \"0a:00.0\"; replicas = 2; } ); };" };

	static const char *const resources[] = { DRM,
		"driver = \"pci\"; match = ( { vendor = 0x8086; } ); ",
		"driver = \"net\"; match = ( {} ); ", "driver = \"rdma\"; match = ( {} ); ",
		"driver = \"nvidia\"; match = ( {} ); " };

	for (size_t i = 0; i < ARRAY_SIZE(wrong) * ARRAY_SIZE(resources); i++) {
		_cleanup_free_ char *problem = NULL;
		char text[256];

		(void)snprintf(text, sizeof(text), "%s%s", resources[i / ARRAY_SIZE(wrong)],
			wrong[i % ARRAY_SIZE(wrong)]);
		problem = declare_problem(text);
		assert_non_null(strstr(problem, "PCI address"));
	}
	config = declare(DRM
		"exclude = ( \"0000:0a:00.0-p1\", \"0000:0[a-c]:*\", \"fd4a0000.gpu\", \"usb-0000:00:14.0-0:1.2:1.0\", { where = ( \"bdf=0000:0a:*\", \"bdf=\" ); } );");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_identity, host_setup, driver_teardown),
		cmocka_unit_test_setup_teardown(test_choosing, host_setup, driver_teardown),
		cmocka_unit_test_setup_teardown(test_intel_deny_ids, host_setup, driver_teardown),
		cmocka_unit_test_setup_teardown(test_nodes, host_setup, driver_teardown),
		cmocka_unit_test_setup_teardown(
			test_nodes_as_a_condition, host_setup, driver_teardown),
		cmocka_unit_test_setup_teardown(test_not_on_a_bus, host_setup, driver_teardown),
		cmocka_unit_test_setup_teardown(test_usb_displays, host_setup, driver_teardown),
		cmocka_unit_test_setup_teardown(test_virtio, host_setup, driver_teardown),
		cmocka_unit_test_setup_teardown(test_partitions, host_setup, driver_teardown),
		HOST_TEST(test_unused_parts),
		cmocka_unit_test_setup_teardown(test_split_later, host_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(
			test_partitions_in_upper_bits, host_setup, driver_teardown),
		cmocka_unit_test_setup_teardown(test_hidden_compute, host_setup, driver_teardown),
		cmocka_unit_test_setup_teardown(test_functions, host_setup, driver_teardown),
		cmocka_unit_test_setup_teardown(test_links, host_setup, driver_teardown),
		cmocka_unit_test_setup_teardown(
			test_amd_best_policy_allocator, host_setup, driver_teardown),
		cmocka_unit_test_setup_teardown(test_combined, host_setup, driver_teardown),
		cmocka_unit_test_setup_teardown(test_hostile, host_setup, driver_teardown),
		cmocka_unit_test_setup_teardown(
			test_plugged_and_unplugged, host_setup, driver_teardown),
		HOST_TEST(test_explanations),
		HOST_TEST(test_unused_rules),
		HOST_TEST(test_unused_rules_without_devices),
		HOST_TEST(test_addresses_in_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
