/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "nvidia": what it finds without a library, and what a container gets.
 */
#include "cdi-fixture.h"
#include "explained-fixture.h"
#include "nvidia-fixture.h"
#include "spoilt-nodes-fixture.h"

#include "drivers/allocation/cdi.h"

#define ENTRY "{ libraries = false; }"

/* Each is made and undone again, which are two changes. */
#define CHANGES 50

static void test_identity(void **state)
{
	expect_ids("nvidia", ENTRY, "");
	plant_driver("535.54.03");
	expect_ids("nvidia", ENTRY, "");
	/* The node's number is not the order on the bus. */
	plant_gpu("0000:3b:00.0", 1, GPU_A, "1\n");
	plant_gpu("0000:86:00.0", 0, GPU_B, "-1\n");
	expect_ids("nvidia", ENTRY, GPU_A " " GPU_B " ");
	expect_variable(GPU_A, "uuid", GPU_A);
	expect_variable(GPU_A, "gpu_uuid", GPU_A);
	expect_variable(GPU_A, "bdf", "0000:3b:00.0");
	expect_variable(GPU_A, "model", "NVIDIA A100-SXM4-80GB");
	expect_variable(GPU_A, "minor", "1");
	expect_variable(GPU_A, "driver_version", "535.54.03");
	expect_variable(GPU_A, "gi", NULL);
	expect_nodes(GPU_A, "/dev/nvidia1 /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-uvm-tools ");
	assert_false(found(GPU_A)->nodes[0].shared);
	assert_true(found(GPU_A)->nodes[1].shared && found(GPU_A)->nodes[2].shared);
	assert_int_equal(found(GPU_A)->n_numa, 1);
	assert_int_equal(found(GPU_A)->numa[0], 1);
	assert_int_equal(found(GPU_B)->n_numa, 0);
	assert_null(found(GPU_A)->problem);
	assert_true(strings_contain(&found(GPU_A)->env, "NVIDIA_VISIBLE_DEVICES=void"));
	assert_true(strings_contain(&found(GPU_A)->claims, "pci:0000:3b:00.0"));
	assert_int_equal(scan.notes.count, 0);
}

static void test_choosing(void **state)
{
	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 1, GPU_A, "1\n");
	plant_gpu("0000:86:00.0", 0, GPU_B, "1\n");
	write_gpu("0000:86:00.0", 0, GPU_B, "Tesla T4", "No");
	expect_ids("nvidia", "{ uuid = \"GPU-8dcd*\"; libraries = false; }", GPU_A " ");
	expect_ids("nvidia", "{ bdf = \"0000:8*\"; libraries = false; }", GPU_B " ");
	expect_ids("nvidia", "{ model = \"*A100*\"; libraries = false; }", GPU_A " ");
	expect_ids("nvidia", "{ minor = [ 0, 7 ]; libraries = false; }", GPU_B " ");
	expect_ids("nvidia", "{ mig = \"only\"; libraries = false; }", "");
	/* One that the driver leaves alone, and one that only drives a display. */
	write_gpu("0000:3b:00.0", 1, GPU_A, "NVIDIA A100-SXM4-80GB", "Yes");
	write_gpu("0000:86:00.0", 0, GPU_B, "NVIDIA DGX Display", "No");
	expect_ids("nvidia", ENTRY, "");
}

static void test_excluding(void **state)
{
	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 1, GPU_A, "1\n");
	plant_gpu("0000:86:00.0", 0, GPU_B, "1\n");
	start("driver = \"nvidia\"; match = ( " ENTRY
	      " ); exclude = ( { where = \"minor=1\"; } );");
	assert_string_equal(seen(), GPU_B " ");
	start("driver = \"nvidia\"; match = ( " ENTRY " ); exclude = \"GPU-13*\";");
	assert_string_equal(seen(), GPU_A " ");
	start("driver = \"nvidia\"; match = ( " ENTRY " ); "
	      "exclude = ( { where = ( \"model=*A100*\", \"bdf=0000:8*\" ); } );");
	assert_string_equal(seen(), GPU_A " ");
	/* A GPU that does not have the variable is not meant. */
	start("driver = \"nvidia\"; match = ( " ENTRY " ); exclude = ( { where = \"gi=*\"; } );");
	assert_string_equal(seen(), GPU_B " " GPU_A " ");
}

/* Nothing distinguishes a node of another GPU from this one's when the driver counts again. */
static void test_missing_nodes(void **state)
{
	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 3, GPU_A, "1\n");
	host_remove("/dev/nvidia-uvm");
	list_entries("nvidia", ENTRY);
	assert_string_equal(found(GPU_A)->problem,
		"/dev/nvidia-uvm is missing: run \"nvidia-modprobe -u -c 0\"");
	host_mknod("/dev/nvidia-uvm");
	host_remove("/dev/nvidia3");
	list_entries("nvidia", ENTRY);
	assert_string_equal(
		found(GPU_A)->problem, "/dev/nvidia3 is missing: run \"nvidia-modprobe -c 3\"");
	/* Others make the nodes in these cases. */
	list_entries("nvidia", "{ expose = \"runtime\"; }");
	assert_null(found(GPU_A)->problem);
	assert_true(strings_contain(&found(GPU_A)->env, "NVIDIA_VISIBLE_DEVICES=" GPU_A));
}

static void test_other_files(void **state)
{
	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 3, GPU_A, "1\n");
	expect_nodes_matter("driver = \"nvidia\"; match = ( " ENTRY " );", GPU_A, 3);
	host_remove("/dev/nvidia3");
	host_touch("/dev/nvidia3");
	list_entries("nvidia", ENTRY);
	assert_string_equal(found(GPU_A)->problem,
		"/dev/nvidia3 is not a device node: remove it and run \"nvidia-modprobe -c 3\"");
	host_remove("/dev/nvidia3");
	host_mknod("/dev/nvidia3");
	/* Nodes that a device may lack. */
	host_remove("/dev/nvidia-uvm-tools");
	host_touch("/dev/nvidia-uvm-tools");
	list_entries("nvidia", ENTRY);
	assert_null(found(GPU_A)->problem);
	expect_nodes(GPU_A, "/dev/nvidia3 /dev/nvidiactl /dev/nvidia-uvm ");
}

#define DEVICES                                                                                \
	"Character devices:\n  1 mem\n195 nvidia-frontend\n235 nvidia-caps\n%u nvidia-uvm\n\n" \
	"Block devices:\n  7 loop\n"

/* Writes /proc/devices, with this number of nvidia-uvm. */
static void plant_numbers(unsigned uvm)
{
	char text[256];

	host_mkdir("/proc");
	(void)snprintf(text, sizeof(text), DEVICES, uvm);
	host_write("/proc/devices", text);
}

/* Moves a node to another number. Returns whether this process may. */
static bool renumber(const char *name, unsigned major_number, unsigned minor_number)
{
	char path[512];

	host_path(path, name);
	(void)unlink(path);
	return mknod(path, S_IFCHR | 0600, makedev(major_number, minor_number)) >= 0;
}

/* User space makes the nodes, so they may have numbers of an earlier boot. */
static void test_numbers(void **state)
{
	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 3, GPU_A, "1\n");
	plant_numbers(510);
	list_entries("nvidia", ENTRY);
	assert_string_equal(found(GPU_A)->problem,
		"/dev/nvidia3 has the number 0:0, but the driver's is 195:3: remove it and run "
		"\"nvidia-modprobe -c 3\"");
	if (!renumber("/dev/nvidia3", 195, 3) || !renumber("/dev/nvidiactl", 195, 255) ||
		!renumber("/dev/nvidia-uvm", 229, 0) || !renumber("/dev/nvidia-uvm-tools", 510, 0))
		skip();
	list_entries("nvidia", ENTRY);
	assert_string_equal(found(GPU_A)->problem,
		"/dev/nvidia-uvm has the number 229:0, but the driver's is 510:0: remove it and run "
		"\"nvidia-modprobe -u -c 0\"");
	plant_numbers(229);
	list_entries("nvidia", ENTRY);
	assert_null(found(GPU_A)->problem);
	expect_nodes(GPU_A, "/dev/nvidia3 /dev/nvidiactl /dev/nvidia-uvm ");
	assert_true(renumber("/dev/nvidia-uvm-tools", 229, 1));
	list_entries("nvidia", ENTRY);
	expect_nodes(GPU_A, "/dev/nvidia3 /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-uvm-tools ");
	/* The node of another GPU. */
	assert_true(renumber("/dev/nvidia3", 195, 2));
	list_entries("nvidia", ENTRY);
	assert_non_null(
		strstr(found(GPU_A)->problem, "has the number 195:2, but the driver's is 195:3"));
}

/* The node of another instance. */
static void test_numbers_of_instances(void **state)
{
	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 0, GPU_A, "1\n");
	plant_instance(0, 1, 0);
	plant_numbers(510);
	list_entries("nvidia", ENTRY);
	assert_int_equal(scan.n_devices, 1);
	assert_string_equal(scan.devices[0]->problem,
		"/dev/nvidia-caps/nvidia-cap13 has the number 0:0, but the driver's is 235:13: remove it "
		"and run \"nvidia-modprobe -f /proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access\"");
}

static void test_instances(void **state)
{
	const struct device *device;

	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 0, GPU_A, "1\n");
	plant_gpu("0000:86:00.0", 1, GPU_B, "1\n");
	host_mkdir(PROC "/capabilities/gpu1/mig");
	plant_instance(0, 1, 0);
	plant_instance(0, 2, 0);
	expect_ids("nvidia", ENTRY, "MIG-" GPU_A ":1:0 MIG-" GPU_A ":2:0 " GPU_B " ");
	expect_ids("nvidia", "{ libraries = false; mig = \"only\"; }",
		"MIG-" GPU_A ":1:0 MIG-" GPU_A ":2:0 ");
	assert_true(strings_contain(&found("MIG-" GPU_A ":2:0")->claims, "<pci:0000:3b:00.0"));
	expect_variable("MIG-" GPU_A ":2:0", "gi", "2");
	expect_variable("MIG-" GPU_A ":2:0", "ci", "0");
	expect_variable("MIG-" GPU_A ":2:0", "gpu_uuid", GPU_A);
	expect_nodes("MIG-" GPU_A ":2:0",
		"/dev/nvidia-caps/nvidia-cap22 /dev/nvidia-caps/nvidia-cap21 /dev/nvidia0 "
		"/dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-uvm-tools ");
	device = found("MIG-" GPU_A ":2:0");
	assert_false(device->nodes[0].shared);
	assert_true(device->nodes[1].shared && device->nodes[2].shared);
	expect_ids("nvidia", "{ libraries = false; mig = \"none\"; }", GPU_B " ");
	host_remove("/dev/nvidia-caps/nvidia-cap22");
	list_entries("nvidia", ENTRY);
	assert_string_equal(found("MIG-" GPU_A ":2:0")->problem,
		"/dev/nvidia-caps/nvidia-cap22 is missing: run \"nvidia-modprobe -f "
		"/proc/driver/nvidia/capabilities/gpu0/mig/gi2/ci0/access\"");
	assert_null(found("MIG-" GPU_A ":1:0")->problem);
	list_entries("nvidia", "{ expose = \"runtime\"; mig = \"only\"; }");
	assert_non_null(strstr(found("MIG-" GPU_A ":1:0")->problem,
		"its UUID is not known: add a probe \"nvml\""));
}

/* A GPU instance without compute instances: "nvidia-smi mig -cgi" without "-C". */
static void test_unfinished_instance(void **state)
{
	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 0, GPU_A, "1\n");
	write_access(PROC "/capabilities/gpu0/mig/gi1", 12);
	expect_ids("nvidia", ENTRY, GPU_A " ");
	assert_string_equal(found(GPU_A)->problem,
		"its GPU instances have no compute instances: create some (nvidia-smi mig -cci)");
	write_access(PROC "/capabilities/gpu0/mig/gi1/ci0", 13);
	expect_ids("nvidia", ENTRY, "MIG-" GPU_A ":1:0 ");
}

static void test_geometry_changes(void **state)
{
	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 0, GPU_A, "1\n");
	plant_gpu("0000:86:00.0", 1, GPU_B, "1\n");
	start("driver = \"nvidia\"; match = ( " ENTRY " );");
	assert_string_equal(seen(), GPU_B " " GPU_A " ");
	for (unsigned i = 0; i < CHANGES; i++) {
		unsigned gi = 1 + i % 7;
		char id[64];

		plant_instance(0, gi, 0);
		(void)snprintf(id, sizeof(id), "MIG-" GPU_A ":%u:0", gi);
		RUN_UNTIL(is_present(id));
		/* Never both. */
		assert_false(is_present(GPU_A));
		assert_string_equal(loss_of(GPU_A),
			GPU_A
			" is not listed any more: it has MIG instances, which are listed instead");
		assert_non_null(strstr(seen(), GPU_B " "));
		remove_instance(0, gi, 0);
		/* It may still be in MIG mode. */
		RUN_UNTIL(is_present(GPU_A));
		assert_non_null(strstr(seen(), GPU_A "! "));
		assert_non_null(strstr(seen(), GPU_B " "));
		assert_false(is_present(id));
	}
	/* Until the driver is loaded again. */
	host_mkdir("/sys/module/nvidia");
	host_mkdir("/dev/shm");
	RUN_UNTIL(strstr(seen(), GPU_A " "));
	assert_non_null(strstr(seen(), GPU_B " "));
}

static void test_unknown_uuid(void **state)
{
	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 0, UNKNOWN, "1\n");
	expect_ids("nvidia", ENTRY, "0000:3b:00.0 ");
	assert_null(device_variable(found("0000:3b:00.0"), "uuid"));
	list_entries("nvidia", "{ expose = \"runtime\"; }");
	assert_non_null(strstr(found("0000:3b:00.0")->problem, "its UUID is not known"));
}

/* One and the same GPU is never offered under two names. */
static void test_uuid_becomes_known(void **state)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;

	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 0, UNKNOWN, "1\n");
	start("driver = \"nvidia\"; match = ( " ENTRY " );");
	write_gpu("0000:3b:00.0", 0, GPU_A, "NVIDIA A100-SXM4-80GB", "No");
	RUN_UNTIL(is_present(GPU_A));
	assert_false(is_present("0000:3b:00.0"));

	/* A container uses it. */
	write_gpu("0000:3b:00.0", 0, UNKNOWN, "NVIDIA A100-SXM4-80GB", "No");
	start("driver = \"nvidia\"; match = ( " ENTRY " );");
	snapshot = inventory_snapshot(inventory);
	device_note_assigned(snapshot->units[0].device);
	write_gpu("0000:3b:00.0", 0, GPU_A, "NVIDIA A100-SXM4-80GB", "No");
	plant_gpu("0000:86:00.0", 1, GPU_B, "1\n");
	RUN_UNTIL(is_present(GPU_B));
	assert_true(is_present("0000:3b:00.0"));
	assert_false(is_present(GPU_A));

	/* After a boot, the kubelet's booking has its name. */
	start_booked("driver = \"nvidia\"; match = ( " ENTRY " );", "0000:3b:00.0");
	assert_string_equal(seen(), "0000:3b:00.0 " GPU_B " ");
}

/* The driver is loaded again, and a container gets the GPU before its UUID is known again. */
static void test_uuid_becomes_known_again(void **state)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	unsigned replica;
	size_t unit;

	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 0, GPU_A, "1\n");
	start("driver = \"nvidia\"; match = ( " ENTRY " );");
	assert_string_equal(seen(), GPU_A " ");
	write_gpu("0000:3b:00.0", 0, UNKNOWN, "NVIDIA A100-SXM4-80GB", "No");
	RUN_UNTIL(is_present("0000:3b:00.0"));
	snapshot = inventory_snapshot(inventory);
	assert_int_equal(snapshot_find(snapshot, "0000:3b:00.0", &unit, &replica), 0);
	device_note_assigned(snapshot->units[unit].device);
	write_gpu("0000:3b:00.0", 0, GPU_A, "NVIDIA A100-SXM4-80GB", "No");
	plant_gpu("0000:86:00.0", 1, GPU_B, "1\n");
	RUN_UNTIL(is_present(GPU_B));
	assert_true(is_present("0000:3b:00.0"));
	assert_false(is_present(GPU_A));
}

static bool mounts(const char *id, const char *host, const char *path)
{
	const struct device *device = found(id);

	for (size_t i = 0; i < device->n_nodes; i++)
		if (device->nodes[i].mount && streq(device->nodes[i].host, host) &&
			streq(device->nodes[i].path, path))
			return device->nodes[i].read_only && device->nodes[i].shared;
	return false;
}

static size_t n_mounts(const char *id)
{
	const struct device *device = found(id);
	size_t n = 0;

	for (size_t i = 0; i < device->n_nodes; i++)
		n += device->nodes[i].mount;
	return n;
}

static void test_libraries(void **state)
{
	static const char directory[] = "/usr/lib/x86_64-linux-gnu";

	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 0, GPU_A, "1\n");
	list_entries("nvidia", "{}");
	assert_int_equal(scan.notes.count, 1);
	assert_int_equal(n_mounts(GPU_A), 0);
	assert_null(found(GPU_A)->problem);

	plant_library(directory, "libcuda", "535.54.03");
	plant_library(directory, "libnvidia-ml", "535.54.03");
	host_write("/usr/lib/x86_64-linux-gnu/libnvidia-glcore.so.535.54.03", "");
	host_symlink("libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so");
	host_write("/usr/lib/x86_64-linux-gnu/libcudart.so.1", "");
	plant_library(directory, "libnvidia-old", "470.1");
	host_mkdir("/usr/bin");
	host_write("/usr/bin/nvidia-smi", "");
	list_entries("nvidia", "{}");
	assert_int_equal(scan.notes.count, 0);
	assert_int_equal(n_mounts(GPU_A), 5);
	assert_true(mounts(GPU_A, "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
		"/usr/local/nvidia/lib64/libcuda.so.1"));
	assert_true(mounts(GPU_A, "/usr/lib/x86_64-linux-gnu/libcuda.so",
		"/usr/local/nvidia/lib64/libcuda.so"));
	assert_true(mounts(GPU_A, "/usr/lib/x86_64-linux-gnu/libnvidia-glcore.so.535.54.03",
		"/usr/local/nvidia/lib64/libnvidia-glcore.so.535.54.03"));
	assert_true(mounts(GPU_A, "/usr/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi"));
	list_entries("nvidia", "{ library_path = \"/opt/gpu\"; }");
	assert_true(mounts(GPU_A, "/usr/bin/nvidia-smi", "/opt/gpu/bin/nvidia-smi"));
}

/* As on a virtual machine that gets the driver as a volume of its own: only links are where the
 * linker searches, and they have no version in their names. */
static void test_libraries_behind_links(void **state)
{
	static const char directory[] = "/usr/local/nvidia/lib64";

	plant_driver("580.159.04");
	plant_gpu("0000:00:06.0", 0, GPU_A, "1\n");
	plant_library(directory, "libcuda", "580.159.04");
	plant_library(directory, "libnvidia-ml", "580.159.04");
	host_mkdir("/usr/lib");
	host_symlink("/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/libcuda.so.1");
	host_symlink("/usr/local/nvidia/lib64/libnvidia-ml.so.1", "/usr/lib/libnvidia-ml.so.1");
	host_mkdir("/usr/local/nvidia/bin");
	host_write("/usr/local/nvidia/bin/nvidia-smi", "");
	host_mkdir("/usr/bin");
	host_write("/usr/bin/nvidia-smi", "#!/bin/sh\n");
	list_entries("nvidia", "{}");
	assert_null(found(GPU_A)->problem);
	assert_int_equal(scan.notes.count, 0);
	assert_int_equal(n_mounts(GPU_A), 3);
	assert_true(mounts(GPU_A, "/usr/local/nvidia/lib64/libcuda.so.1",
		"/usr/local/nvidia/lib64/libcuda.so.1"));
	assert_true(mounts(
		GPU_A, "/usr/local/nvidia/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi"));

	/* The volume has another version. */
	for (size_t i = 0; i < 4; i++)
		host_remove((const char *const[]){ "/usr/local/nvidia/lib64/libcuda.so.1",
			"/usr/local/nvidia/lib64/libcuda.so.580.159.04",
			"/usr/local/nvidia/lib64/libnvidia-ml.so.1",
			"/usr/local/nvidia/lib64/libnvidia-ml.so.580.159.04" }[i]);
	plant_library(directory, "libnvidia-ml", "580.200");
	list_entries("nvidia", "{}");
	assert_non_null(strstr(found(GPU_A)->problem,
		"the kernel driver is 580.159.04, but the libraries on the host are 580.200:"));
}

/* Whether the GPU's entry of the CDI file mounts that file of the host. */
static bool cdi_mounts(const char *host)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	_cleanup_strings_ struct strings left_out = { 0 };
	const json_t *mounts;
	json_t *spec = NULL;
	bool found = false;

	assert_int_equal(
		cdi_spec_build(declaration_of(config), snapshot, host_root, &spec, &left_out), 0);
	assert_non_null(spec);
	mounts =
		json_object_get(json_object_get(json_array_get(json_object_get(spec, "devices"), 0),
					"containerEdits"),
			"mounts");
	for (size_t i = 0; i < json_array_size(mounts); i++)
		found |= streq(
			json_string_value(json_object_get(json_array_get(mounts, i), "hostPath")),
			host);
	json_decref(spec);
	return found;
}

/* A CDI file of our own is kept current over an upgrade of the driver. */
static void test_cdi_spec(void **state)
{
	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 0, GPU_A, "1\n");
	plant_library("/usr/lib64", "libcuda", "535.54.03");
	start("driver = \"nvidia\"; match = ( {} ); cdi_spec = { kind = \"vendor.example/gpu\"; };");
	assert_string_equal(seen(), GPU_A " ");
	assert_true(cdi_mounts("/usr/lib64/libcuda.so.535.54.03"));
	plant_version("550.90.07");
	host_remove("/usr/lib64/libcuda.so.1");
	host_remove("/usr/lib64/libcuda.so.535.54.03");
	plant_library("/usr/lib64", "libcuda", "550.90.07");
	RUN_UNTIL(cdi_mounts("/usr/lib64/libcuda.so.550.90.07"));
	assert_false(cdi_mounts("/usr/lib64/libcuda.so.535.54.03"));
}

/* The package was upgraded while the module is the old one. */
static void test_mismatch(void **state)
{
	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 0, GPU_A, "1\n");
	plant_library("/usr/lib64", "libnvidia-ml", "550.90.07");
	list_entries("nvidia", "{}");
	assert_non_null(strstr(found(GPU_A)->problem,
		"the kernel driver is 535.54.03, but the libraries on the host are 550.90.07"));
	list_entries("nvidia", ENTRY);
	assert_null(found(GPU_A)->problem);
}

static void test_driver_in_a_container(void **state)
{
	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 0, GPU_A, "1\n");
	for (size_t i = 0; i < 3; i++)
		host_remove((const char *const[]){
			"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0" }[i]);
	host_mkdir("/run/nvidia/driver/dev");
	host_mknod("/run/nvidia/driver/dev/nvidiactl");
	host_mknod("/run/nvidia/driver/dev/nvidia-uvm");
	host_mknod("/run/nvidia/driver/dev/nvidia0");
	plant_library("/run/nvidia/driver/usr/lib64", "libcuda", "535.54.03");
	list_entries("nvidia", "{}");
	expect_nodes(GPU_A,
		"/run/nvidia/driver/dev/nvidia0>/dev/nvidia0 "
		"/run/nvidia/driver/dev/nvidiactl>/dev/nvidiactl "
		"/run/nvidia/driver/dev/nvidia-uvm>/dev/nvidia-uvm "
		"/run/nvidia/driver/usr/lib64/libcuda.so.1>/usr/local/nvidia/lib64/libcuda.so.1 ");
	assert_null(found(GPU_A)->problem);
}

static void test_cdi(void **state)
{
	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 0, GPU_A, "1\n");
	list_entries("nvidia", "{ expose = \"cdi\"; }");
	assert_non_null(strstr(found(GPU_A)->problem, " has no /etc/cdi: mount it from the host"));
	host_mkdir("/etc/cdi");
	list_entries("nvidia", "{ expose = \"cdi\"; }");
	assert_non_null(strstr(found(GPU_A)->problem,
		"nvidia.com/gpu=" GPU_A " is in no file of /etc/cdi or /run/cdi"));
	host_mkdir("/run/cdi");
	host_write("/run/cdi/nvidia.yaml",
		"---\n" CDI_YAML("nvidia.com/gpu", CDI_YAML_PLAIN("0") CDI_YAML_PLAIN(GPU_A)));
	list_entries("nvidia", "{ expose = \"cdi\"; }");
	assert_null(found(GPU_A)->problem);
	assert_true(strings_contain(&found(GPU_A)->cdi, "nvidia.com/gpu=" GPU_A));
	assert_int_equal(found(GPU_A)->n_nodes, 0);
	list_entries("nvidia", "{ expose = \"cdi\"; cdi_kind = \"vendor.example/gpu\"; }");
	assert_non_null(found(GPU_A)->problem);
	/* Not the same name. */
	host_write("/run/cdi/nvidia.yaml", CDI_YAML("nvidia.com/gpu", CDI_YAML_PLAIN(GPU_A "0")));
	list_entries("nvidia", "{ expose = \"cdi\"; }");
	assert_non_null(found(GPU_A)->problem);
	host_write("/run/cdi/nvidia.json", CDI_JSON("nvidia.com/gpu", CDI_JSON_PLAIN(GPU_A)));
	list_entries("nvidia", "{ expose = \"cdi\"; }");
	assert_null(found(GPU_A)->problem);
	/* The core reports what is wrong with a file. */
	host_write("/run/cdi/nvidia.json", CDI_JSON("nvidia.com/gpu", CDI_JSON_DEVICE(GPU_A, "")));
	list_entries("nvidia", "{ expose = \"cdi\"; }");
	assert_null(found(GPU_A)->problem);
	assert_true(strings_contain(&found(GPU_A)->cdi, "nvidia.com/gpu=" GPU_A));
}

/* The rest of a scan sees the files that the driver has seen. */
static void test_cdi_is_read_once(void **state)
{
	_cleanup_config_ struct config *declared =
		declare("driver = \"nvidia\"; match = ( { expose = \"cdi\"; } );");
	const struct cdi_files *files;
	struct cdi_definition definition;

	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 0, GPU_A, "1\n");
	host_mkdir("/etc/cdi");
	host_mkdir("/run/cdi");
	host_write("/run/cdi/nvidia.json", CDI_JSON("nvidia.com/gpu", CDI_JSON_PLAIN(GPU_A)));
	list_entries("nvidia", "{ expose = \"cdi\"; }");
	assert_null(found(GPU_A)->problem);
	host_remove("/run/cdi/nvidia.json");
	assert_int_equal(scan_cdi(&scan, declaration_of(declared), &files), 0);
	cdi_files_find(files, "nvidia.com/gpu", GPU_A, &definition);
	assert_int_equal(definition.status, CDI_DEFINED);
}

/* Files of other directories, which runtimes are configured to read. */
static void test_cdi_dirs(void **state)
{
	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 0, GPU_A, "1\n");
	host_mkdir("/opt/cdi");
	start("driver = \"nvidia\"; match = ( { expose = \"cdi\"; } ); "
	      "container = { cdi_dirs = \"/opt/cdi\"; };");
	assert_string_equal(seen(), GPU_A "! ");
	host_write("/opt/cdi/nvidia.json", CDI_JSON("nvidia.com/gpu", CDI_JSON_PLAIN(GPU_A)));
	RUN_UNTIL(streq(seen(), GPU_A " "));
}

/* The file was made before the driver was updated, and both versions are installed. */
static void test_cdi_of_another_driver(void **state)
{
	static const struct {
		const char *mount, *problem;
	} cases[] = {
		{ "/usr/lib64/libcuda.so.560.35.03",
			"/run/cdi/nvidia.json was made for another driver: the kernel driver is 570.86.10, but "
			"it mounts libcuda.so.560.35.03: run \"systemctl restart nvidia-cdi-refresh\" or "
			"\"nvidia-ctk cdi generate\"" },
		{ "/usr/lib64/libnvidia-ml.so.560.35.03",
			"/run/cdi/nvidia.json was made for another driver: the kernel driver is 570.86.10, but "
			"it mounts libnvidia-ml.so.560.35.03: run \"systemctl restart nvidia-cdi-refresh\" or "
			"\"nvidia-ctk cdi generate\"" },
		{ "/usr/lib64/libcuda.so.570.86.10", NULL },
		/* Versions of their own. */
		{ "/usr/lib64/libnvidia-egl-wayland.so.1.1.13", NULL },
		{ "/usr/lib64/libcuda.so.1", NULL },
	};

	plant_driver("570.86.10");
	plant_gpu("0000:3b:00.0", 0, GPU_A, "1\n");
	host_mkdir("/etc/cdi");
	host_mkdir("/run/cdi");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL;

		assert_true(asprintf(&text,
				    "{\"cdiVersion\": \"0.5.0\", \"kind\": \"nvidia.com/gpu\", "
				    "\"containerEdits\": {\"mounts\": [{\"hostPath\": \"%s\", "
				    "\"containerPath\": \"%s\"}]}, \"devices\": [" CDI_JSON_PLAIN(
					    GPU_A) "]}",
				    cases[i].mount, cases[i].mount) > 0);
		host_write("/run/cdi/nvidia.json", text);
		list_entries("nvidia", "{ expose = \"cdi\"; }");
		assert_string_equal(found(GPU_A)->problem ?: "", cases[i].problem ?: "");
	}
}

/* Files that no driver writes. */
static void test_nonsense(void **state)
{
	plant_driver("535.54.03");
	host_mkdir(PROC "/gpus/not-an-address");
	host_mkdir(PROC "/gpus/0000:3b:00.0");
	expect_ids("nvidia", ENTRY, "");
	host_write(PROC "/gpus/0000:3b:00.0/information", "Model: \t\t\n\n:::\nDevice Minor: x\n");
	expect_ids("nvidia", ENTRY, "");
	host_write(PROC "/gpus/0000:3b:00.0/information",
		"Device Minor: 0\nGPU UUID: GPU-../../../etc/passwd\nModel: \x01\x02\n");
	expect_ids("nvidia", ENTRY, "0000:3b:00.0 ");
	expect_variable("0000:3b:00.0", "model", "Unknown");
	host_mkdir(PROC "/capabilities/gpu0/mig/gi");
	host_mkdir(PROC "/capabilities/gpu0/mig/gi1x");
	host_mkdir(PROC "/capabilities/gpu0/mig/gi99999999");
	host_mkdir(PROC "/capabilities/gpu0/mig/gi3");
	expect_ids("nvidia", ENTRY, "0000:3b:00.0 ");
}

/* Why entries find nothing. */
static void test_explanations(void **state)
{
	static const char any[] = "driver = \"nvidia\"; match = ( {} );";

	host_mkdir("/sys");
	expect_explained(any, "match[0]: the host has no NVIDIA GPU\n");
	host_mkdir("/sys/bus/pci/devices/0000:01:00.0");
	host_write("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
	host_write("/sys/bus/pci/devices/0000:01:00.0/class", "0x030000\n");
	expect_explained(any,
		"match[0]: the host has no NVIDIA GPU: 0000:01:00.0 is bound to no driver, not to nvidia: "
		"load NVIDIA's driver\n");
	host_mkdir("/sys/bus/pci/drivers/nouveau");
	host_symlink("../../drivers/nouveau", "/sys/bus/pci/devices/0000:01:00.0/driver");
	expect_explained(any,
		"match[0]: the host has no NVIDIA GPU: 0000:01:00.0 is bound to nouveau, not to nvidia: load "
		"NVIDIA's driver\n");
}

static void test_explained_conditions(void **state)
{
	plant_driver("535.54.03");
	plant_gpu("0000:01:00.0", 0, GPU_A, "0\n");
	plant_gpu("0000:02:00.0", 1, GPU_B, "0\n");
	expect_explained(
		"driver = \"nvidia\"; match = ( { uuid = \"13C0C0B8-9A1D-4A0F-B8F1-6D3A1F9F5C22\"; } );",
		"match[0]: 2 NVIDIA GPUs, none left: uuid refused 2 (0000:02:00.0 has \"" GPU_B
		"\": write that)\n");
	expect_explained("driver = \"nvidia\"; match = ( { model = \"A100*\"; } );",
		"match[0]: 2 NVIDIA GPUs, none left: model refused 2 (0000:01:00.0 has \"NVIDIA A100-SXM4-80GB\")\n");
	expect_explained("driver = \"nvidia\"; match = ( { model = \"A100\"; } );",
		"match[0]: 2 NVIDIA GPUs, none left: model refused 2 (0000:01:00.0 has \"NVIDIA A100-SXM4-80GB\": write that)\n");
	expect_explained("driver = \"nvidia\"; match = ( { minor = 7; } );",
		"match[0]: 2 NVIDIA GPUs, none left: minor refused 2 (0000:01:00.0 has 0)\n");
	expect_explained("driver = \"nvidia\"; match = ( { mig = \"only\"; } );",
		"match[0]: 2 NVIDIA GPUs, none left: mig refused 2 (0000:01:00.0 has no MIG instances)\n");
	expect_explained(
		"driver = \"nvidia\"; match = ( { profile = \"1g*\"; } ); health = ( { probe = \"nvml\"; } );",
		"match[0]: 2 NVIDIA GPUs, none left: profile refused 2 (0000:01:00.0 has no MIG instances)\n");
	write_gpu("0000:01:00.0", 0, GPU_A, "NVIDIA A30", "Yes");
	write_gpu("0000:02:00.0", 1, GPU_B, "NVIDIA DGX Display", "No");
	expect_explained("driver = \"nvidia\"; match = ( {} );",
		"match[0]: the host has no NVIDIA GPU: 0000:01:00.0 is excluded from its driver (NVreg_ExcludedGpus)\n");
}

/* In a container, /proc/driver/nvidia of the host may be missing. */
static void test_explained_mounts(void **state)
{
	char expected[256];

	host_mkdir("/sys/module/nvidia");
	(void)snprintf(expected, sizeof(expected),
		"match[0]: the host has no NVIDIA GPU: its driver is loaded, but %s/proc/driver/nvidia is "
		"missing: mount it from the host\n",
		host_root);
	expect_explained("driver = \"nvidia\"; match = ( {} );", expected);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(test_identity),
		HOST_TEST(test_choosing),
		HOST_TEST(test_excluding),
		HOST_TEST(test_missing_nodes),
		HOST_TEST(test_other_files),
		HOST_TEST(test_numbers),
		HOST_TEST(test_numbers_of_instances),
		HOST_TEST(test_instances),
		HOST_TEST(test_unfinished_instance),
		HOST_TEST(test_geometry_changes),
		HOST_TEST(test_unknown_uuid),
		HOST_TEST(test_uuid_becomes_known),
		HOST_TEST(test_uuid_becomes_known_again),
		HOST_TEST(test_libraries),
		HOST_TEST(test_libraries_behind_links),
		cmocka_unit_test_setup_teardown(test_cdi_spec, host_setup, inventory_teardown),
		HOST_TEST(test_mismatch),
		HOST_TEST(test_driver_in_a_container),
		HOST_TEST(test_cdi),
		HOST_TEST(test_cdi_is_read_once),
		cmocka_unit_test_setup_teardown(test_cdi_dirs, host_setup, inventory_teardown),
		HOST_TEST(test_cdi_of_another_driver),
		HOST_TEST(test_nonsense),
		HOST_TEST(test_explanations),
		HOST_TEST(test_explained_conditions),
		HOST_TEST(test_explained_mounts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
