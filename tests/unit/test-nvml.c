/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health from NVIDIA's library: devplugd-nvml with a stand-in for the library (tests/nvml), which
 * reports errors, hangs, crashes, and lacks functions, as set in its file.
 */
#include "cdi-fixture.h"
#include "nvidia-fixture.h"

#define LIBRARY "/usr/lib64/libnvidia-ml.so.1"
#define A       "0000:3b:00.0"
#define B       "0000:86:00.0"
#define MIG_A   "MIG-11111111-483b-b48f-d7e5-75fb19a52b76"
#define MIG_B   "MIG-22222222-483b-b48f-d7e5-75fb19a52b76"

#define TWO_GPUS "gpu " A " " GPU_A "\ngpu " B " " GPU_B "\n"
/* As a driver that reports recovery actions does. */
#define RECOVERS "field " A " 230 0\nfield " B " 230 0\n"

#define RESOURCE(keys)                                                 \
	"driver = \"nvidia\"; match = ( { expose = \"runtime\"; } ); " \
	"health = ( { probe = \"nvml\"; interval = 0.2; hang_after = 5; " keys " } );"

#define BOTH GPU_B " " GPU_A " "

static void report(const char *text)
{
	host_replace("/usr/lib64/nvml-state", text);
}

static void plant_stub(const char *name)
{
	char self[4096], path[512], command[8192];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	assert_true(n > 0);
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	host_mkdir("/usr/lib64");
	host_path(path, LIBRARY);
	(void)snprintf(command, sizeof(command), "cp %s/%s.so %s", self, name, path);
	assert_int_equal(system(command), 0);
}

static void plant_two(void)
{
	plant_driver("535.54.03");
	plant_gpu(A, 0, GPU_A, "0\n");
	plant_gpu(B, 1, GPU_B, "1\n");
	plant_stub("nvml-stub");
}

static bool says(const char *id, const char *words)
{
	return strstr(reason_of(id), words);
}

static const char *first_note(void)
{
	const struct strings *notes = inventory_notes(inventory);

	return notes->count > 0 ? notes->items[0] : "";
}

static void test_recovery_action(void **state)
{
	plant_two();
	report(TWO_GPUS RECOVERS);
	start(RESOURCE(""));
	RUN_UNTIL(streq(seen(), BOTH));
	/* The driver reports the recovery action, and when it was done. */
	report(TWO_GPUS "field " A " 230 1\nfield " B " 230 0\nxid 1 " A " 95 -1 1\n");
	RUN_UNTIL(says(GPU_A,
		"after Xid 95 (uncontained memory error), NVIDIA's driver "
		"recommends: drain the GPU and reset it"));
	assert_string_equal(seen(), GPU_B " " GPU_A "! ");
	report(TWO_GPUS RECOVERS);
	RUN_UNTIL(streq(seen(), BOTH));
	/* One that we do not know. */
	report(TWO_GPUS "field " A " 230 77\nfield " B " 230 0\n");
	RUN_UNTIL(says(GPU_A, "see \"nvidia-smi -q\""));
	assert_string_equal(seen(), GPU_B " " GPU_A "! ");
}

/* 1000 of each, without one change of health. */
static void test_application_faults(void **state)
{
	static const unsigned harmless[] = { 13, 31, 43, 45, 68, 109, 94, 63 };
	char text[2048] = TWO_GPUS;

	plant_two();
	report(TWO_GPUS);
	start(RESOURCE(""));
	RUN_UNTIL(streq(seen(), BOTH));
	for (unsigned i = 0; i < ARRAY_SIZE(harmless); i++)
		(void)sprintf(text + strlen(text), "xid %u " A " %u -1 1000\n", i + 1, harmless[i]);
	/* The last one shows that all were taken. */
	(void)sprintf(text + strlen(text), "xid 100 " B " 48 -1 1\n");
	report(text);
	RUN_UNTIL(says(GPU_B, "Xid 48 (uncorrectable memory error)"));
	assert_string_equal(seen(), GPU_B "! " GPU_A " ");
}

/* A driver that does not report recovery actions: the error lasts until the driver is loaded
 * again. */
static void test_lasting_faults(void **state)
{
	plant_two();
	host_mkdir("/sys/module/nvidia");
	report(TWO_GPUS);
	start(RESOURCE(""));
	RUN_UNTIL(streq(seen(), BOTH));
	report(TWO_GPUS "xid 1 " A " 79 -1 1\n");
	RUN_UNTIL(says(GPU_A, "Xid 79 (the GPU fell off the bus): reboot the host"));
	/* Time does not heal it, nor does another helper. */
	report(TWO_GPUS "xid 1 " A " 79 -1 1\ncrash nvmlDeviceGetPowerUsage\n");
	RUN_UNTIL(*first_note());
	report(TWO_GPUS);
	RUN_UNTIL(inventory_notes(inventory)->count == 0);
	run_for(300 * USEC_PER_MSEC);
	assert_string_equal(seen(), GPU_B " " GPU_A "! ");
	/* An instance of the same module would have the same inode. */
	host_mkdir("/sys/module/other");
	host_remove("/sys/module/nvidia");
	host_rename("/sys/module/other", "/sys/module/nvidia");
	host_mkdir("/dev/shm");
	RUN_UNTIL(streq(seen(), BOTH));
}

static void test_policy(void **state)
{
	plant_two();
	report(TWO_GPUS);
	start(RESOURCE("ignore_xids = [ 79 ]; fatal_xids = 31;"));
	RUN_UNTIL(streq(seen(), BOTH));
	report(TWO_GPUS "xid 1 " B " 79 -1 1\nxid 2 " A " 31 -1 1\n");
	RUN_UNTIL(says(GPU_A, "Xid 31"));
	assert_string_equal(seen(), GPU_B " " GPU_A "! ");
}

static void test_memory_and_fabric(void **state)
{
	plant_two();
	report(TWO_GPUS RECOVERS);
	start(RESOURCE(""));
	RUN_UNTIL(streq(seen(), BOTH));
	report(TWO_GPUS RECOVERS "field " A " 145 1\nfield " B " 144 1\n");
	RUN_UNTIL(says(GPU_A, "memory rows could not be remapped: replace the GPU"));
	assert_string_equal(seen(), GPU_B " " GPU_A "! ");
	report(TWO_GPUS RECOVERS "fabric " A " 3 0\nfabric " B " 2 0\n");
	RUN_UNTIL(says(GPU_B, "it has not joined the NVSwitch fabric (state 2, status 0)"));
	RUN_UNTIL(streq(seen(), GPU_B "! " GPU_A " "));
	start(RESOURCE("row_remapping = \"pending\"; fabric = false;"));
	report(TWO_GPUS RECOVERS "fabric " A " 2 0\nfield " B " 144 1\n");
	RUN_UNTIL(says(GPU_B, "a memory row waits to be remapped"));
	RUN_UNTIL(streq(seen(), GPU_B "! " GPU_A " "));
}

/* One of eight: the others do not change. */
static void test_lost(void **state)
{
	char text[2048] = "", address[32], uuid[64], expected[1024] = "";

	plant_driver("535.54.03");
	plant_stub("nvml-stub");
	for (unsigned i = 0; i < 8; i++) {
		(void)snprintf(address, sizeof(address), "0000:%02x:00.0", 0x10 + i);
		(void)snprintf(uuid, sizeof(uuid), "GPU-%08x-483b-b48f-d7e5-75fb19a52b76", i);
		plant_gpu(address, i, uuid, "0\n");
		(void)sprintf(text + strlen(text), "gpu %s %s\n", address, uuid);
		(void)sprintf(expected + strlen(expected), "%s%s ", uuid, i == 3 ? "!" : "");
	}
	report(text);
	start(RESOURCE(""));
	RUN_UNTIL(!strchr(seen(), '!'));
	(void)strcat(text, "lost 0000:13:00.0\n");
	report(text);
	RUN_UNTIL(says("GPU-00000003-483b-b48f-d7e5-75fb19a52b76",
		"0000:13:00.0 fell off the bus: reboot the host"));
	assert_string_equal(seen(), expected);
}

/* Before the library was loaded: it cannot be opened, so it has no name there. */
static void test_lost_before(void **state)
{
	plant_two();
	report(TWO_GPUS "lost " B "\n");
	start(RESOURCE(""));
	RUN_UNTIL(says(GPU_B, B " fell off the bus: reboot the host"));
	RUN_UNTIL(streq(seen(), GPU_B "! " GPU_A " "));
	/* One that the library does not list for another reason. */
	plant_gpu("0000:90:00.0", 2, "GPU-00000002-483b-b48f-d7e5-75fb19a52b76", "1\n");
	start(RESOURCE(""));
	RUN_UNTIL(streq(seen(), "GPU-00000002-483b-b48f-d7e5-75fb19a52b76 " BOTH));
}

/* NVIDIA's usual result for a GPU that fell off the bus, or that the driver cannot start. */
static void test_unopened(void **state)
{
	plant_two();
	report(TWO_GPUS "lost " B " 999\n");
	start(RESOURCE(""));
	RUN_UNTIL(says(GPU_B, "NVIDIA's library cannot open it: Unknown Error; see \"dmesg\""));
	assert_string_equal(seen(), GPU_B "! " GPU_A " ");
	/* It is tried again. */
	report(TWO_GPUS);
	RUN_UNTIL(streq(seen(), BOTH));
	/* Without permission nothing is known. */
	report(TWO_GPUS "lost " B " 4\nfield " A " 230 2\n");
	start(RESOURCE(""));
	RUN_UNTIL(says(GPU_A, "reboot the host"));
	assert_string_equal(seen(), GPU_B " " GPU_A "! ");
}

/* A driver that cannot recommend a reset may require one. */
static void test_reset_required(void **state)
{
	plant_two();
	report(TWO_GPUS);
	start(RESOURCE(""));
	RUN_UNTIL(streq(seen(), BOTH));
	report(TWO_GPUS "lost " B " 16\n");
	RUN_UNTIL(says(GPU_B, "NVIDIA's driver recommends: drain the GPU and reset it"));
	assert_string_equal(seen(), GPU_B "! " GPU_A " ");
	report(TWO_GPUS);
	RUN_UNTIL(streq(seen(), BOTH));
}

/* While the library does not answer, everything stays as it is. */
static void test_hanging_library(void **state)
{
	plant_two();
	report(TWO_GPUS RECOVERS);
	start("driver = \"nvidia\"; match = ( { expose = \"runtime\"; } ); "
	      "health = ( { probe = \"nvml\"; interval = 0.2; hang_after = 0.5; } );");
	RUN_UNTIL(streq(seen(), BOTH));
	report(TWO_GPUS "field " A " 230 1\nfield " B " 230 0\n");
	RUN_UNTIL(streq(seen(), GPU_B " " GPU_A "! "));
	report(TWO_GPUS RECOVERS "hang nvmlDeviceGetFieldValues\n");
	RUN_UNTIL(strstr(first_note(), "was killed"));
	assert_string_equal(seen(), GPU_B " " GPU_A "! ");
	report(TWO_GPUS RECOVERS);
	RUN_UNTIL(streq(seen(), BOTH));
	RUN_UNTIL(inventory_notes(inventory)->count == 0);
	/* From the start on, too: then the kernel decides. */
	report(TWO_GPUS "hang nvmlInit_v2\n");
	start("driver = \"nvidia\"; match = ( { expose = \"runtime\"; } ); "
	      "health = ( { probe = \"nvml\"; interval = 0.2; hang_after = 0.5; } );");
	assert_string_equal(seen(), GPU_B "! " GPU_A "! ");
	RUN_UNTIL(streq(seen(), BOTH));
	assert_non_null(strstr(first_note(), "was killed"));
}

static void test_leaking_library(void **state)
{
#ifdef __SANITIZE_ADDRESS__
	skip();
#endif
	plant_two();
	report(TWO_GPUS "leak nvmlDeviceGetPowerUsage\ncrash nvmlEventSetWait_v2\n");
	start(RESOURCE(""));
	RUN_UNTIL(streq(seen(), BOTH));
	RUN_UNTIL(*first_note());
}

static void test_problems(void **state)
{
	static const struct {
		const char *state, *note;
	} problems[] = {
		{ TWO_GPUS "fail nvmlInit_v2 18\n",
			"nvmlInit_v2 with driver 535.54.03: Driver/library version mismatch; the "
			"library was upgraded while the old driver is loaded" },
		{ TWO_GPUS "fail nvmlInit_v2 4\n",
			"Insufficient Permissions; the service may not open the nodes" },
		{ TWO_GPUS "fail nvmlDeviceGetCount_v2 9\n", "Driver Not Loaded" },
	};

	plant_two();
	for (size_t i = 0; i < ARRAY_SIZE(problems); i++) {
		report(problems[i].state);
		start(RESOURCE(""));
		RUN_UNTIL(strstr(first_note(), problems[i].note));
		RUN_UNTIL(streq(seen(), BOTH));
	}
	/* It is tried again. */
	report(TWO_GPUS "field " A " 230 2\n");
	RUN_UNTIL(says(GPU_A, "reboot the host"));
	RUN_UNTIL(inventory_notes(inventory)->count == 0);
}

static void test_old_library(void **state)
{
	plant_two();
	plant_stub("nvml-stub-old");
	report(TWO_GPUS);
	start(RESOURCE(""));
	RUN_UNTIL(streq(seen(), BOTH));
	assert_int_equal(inventory_notes(inventory)->count, 0);
	host_write(LIBRARY, "not a library");
	start(RESOURCE(""));
	RUN_UNTIL(strstr(first_note(), "libnvidia-ml.so.1: file too short"));
	RUN_UNTIL(streq(seen(), BOTH));
	host_remove(LIBRARY);
	start(RESOURCE(""));
	assert_string_equal(seen(), BOTH);
	assert_non_null(strstr(first_note(), "libnvidia-ml.so.1 was not found"));
}

/* Debian's alternatives are absolute links, which lead below the root. */
static void test_linked_library(void **state)
{
	plant_two();
	host_mkdir("/usr/lib/nvidia");
	host_rename(LIBRARY, "/usr/lib/nvidia/libnvidia-ml.so.535.54.03");
	host_symlink("/usr/lib/nvidia/libnvidia-ml.so.535.54.03", LIBRARY);
	host_write("/usr/lib/nvidia/nvml-state", TWO_GPUS "field " A " 230 2\n");
	start(RESOURCE(""));
	RUN_UNTIL(says(GPU_A, "reboot the host"));
}

static void test_instances(void **state)
{
	plant_two();
	report(TWO_GPUS "mig " A " 1\n");
	start(RESOURCE(""));
	RUN_UNTIL(says(GPU_A, "it is in MIG mode and has no instances"));
	assert_string_equal(seen(), GPU_B " " GPU_A "! ");
	plant_instance(0, 1, 0);
	plant_instance(0, 2, 0);
	report(TWO_GPUS "mig " A " 1\ninstance " A " 1 0 " MIG_A " 1g.10gb\n"
			"instance " A " 2 0 " MIG_B " 2g.20gb\nevent 1 " A " 100\n");
	RUN_UNTIL(is_present(MIG_A) && is_present(MIG_B));
	RUN_UNTIL(streq(seen(),
			  GPU_B " " GPU_A "? " MIG_A " " MIG_B " MIG-" GPU_A ":1:0? MIG-" GPU_A
				":2:0? ") ||
		streq(seen(), GPU_B " " GPU_A "? " MIG_A " " MIG_B " "));
	/* An error of one instance is not the other's. */
	report(TWO_GPUS "mig " A " 1\ninstance " A " 1 0 " MIG_A " 1g.10gb\n"
			"instance " A " 2 0 " MIG_B " 2g.20gb\nxid 2 " A " 48 2 1\n");
	RUN_UNTIL(says(MIG_B, "Xid 48"));
	assert_string_equal(reason_of(MIG_A), "");

	start("driver = \"nvidia\"; match = ( { expose = \"runtime\"; profile = \"1g.*\"; } ); "
	      "health = ( { probe = \"nvml\"; interval = 0.2; } );");
	RUN_UNTIL(streq(seen(), MIG_A " "));
	/* Without the right to see instances. */
	start(RESOURCE(""));
	report(TWO_GPUS "mig " A " 1\n");
	RUN_UNTIL(says("MIG-" GPU_A ":1:0", "/dev/nvidia-caps/nvidia-cap2 (MIG monitor)"));
}

/* The library may see instances only if it may when it is loaded. */
static void test_monitor(void **state)
{
	plant_two();
	plant_instance(0, 1, 0);
	report(TWO_GPUS "mig " A " 1\ninstance " A " 1 0 " MIG_A " 1g.10gb\nblind\n");
	start(RESOURCE(""));
	RUN_UNTIL(is_present("MIG-" GPU_A ":1:0") &&
		says("MIG-" GPU_A ":1:0",
			"its UUID is not known: /dev/nvidia-caps/nvidia-cap2 (MIG monitor) is missing: run \"nvidia-modprobe -f /proc/driver/nvidia/capabilities/mig/monitor\""));
	assert_string_equal(reason_of(GPU_B), "");
	report(TWO_GPUS "mig " A " 1\ninstance " A " 1 0 " MIG_A " 1g.10gb\n");
	/* Unlike a device without a driver, it can be opened. */
	host_mkfifo("/dev/nvidia-caps/nvidia-cap2");
	RUN_UNTIL(is_present(MIG_A) && !*reason_of(MIG_A));
	assert_false(is_present("MIG-" GPU_A ":1:0"));
	assert_string_equal(reason_of(GPU_B), "");
	/* Also if there are no instances yet when the node comes. */
	remove_instance(0, 1, 0);
	host_remove("/dev/nvidia-caps/nvidia-cap2");
	report(TWO_GPUS "mig " A " 1\nblind\n");
	start(RESOURCE(""));
	RUN_UNTIL(says(GPU_A, "it is in MIG mode and has no instances"));
	host_mkfifo("/dev/nvidia-caps/nvidia-cap2");
	report(TWO_GPUS "mig " A " 1\ninstance " A " 2 0 " MIG_B " 1g.10gb\n");
	plant_instance(0, 2, 0);
	RUN_UNTIL(is_present(MIG_B) && !*reason_of(MIG_B));
}

static void write_cdi(const char *uuid)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		"---\n" CDI_YAML("nvidia.com/gpu", CDI_YAML_PLAIN("0:0") CDI_YAML_PLAIN("%s")),
		uuid);
	host_replace("/run/cdi/nvidia.yaml", text);
}

/* The container toolkit does not write its file again when the geometry changes. */
static void test_stale_cdi_name(void **state)
{
	plant_two();
	host_mkdir("/run/cdi");
	host_mkdir("/etc/cdi");
	write_cdi(MIG_A);
	plant_instance(0, 1, 0);
	report(TWO_GPUS "mig " A " 1\ninstance " A " 1 0 " MIG_A " 1g.10gb\n");
	start("driver = \"nvidia\"; match = ( { mig = \"only\"; expose = \"cdi\"; } ); "
	      "health = ( { probe = \"nvml\"; interval = 0.2; hang_after = 5; } );");
	RUN_UNTIL(is_present(MIG_A) && !*reason_of(MIG_A));
	report(TWO_GPUS "mig " A " 1\ninstance " A " 1 0 " MIG_B " 1g.10gb\nevent 1 " A " 100\n");
	RUN_UNTIL(is_present(MIG_B));
	assert_non_null(strstr(reason_of(MIG_B),
		"nvidia.com/gpu=" MIG_B " is in no file of /etc/cdi or /run/cdi: run \"systemctl "
		"restart nvidia-cdi-refresh\""));
	write_cdi(MIG_B);
	RUN_UNTIL(!*reason_of(MIG_B));
}

static unsigned distance(const char *from, const char *to)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	const struct device *device;
	unsigned replica;
	size_t unit;

	assert_int_equal(snapshot_find(snapshot, from, &unit, &replica), 0);
	device = snapshot->units[unit].device;
	for (size_t i = 0; i < device->n_distances; i++)
		if (streq(device->distances[i].id, to))
			return device->distances[i].distance;
	return 0;
}

static void test_links(void **state)
{
	plant_two();
	plant_gpu("0000:90:00.0", 2, "GPU-00000002-483b-b48f-d7e5-75fb19a52b76", "1\n");
	report(TWO_GPUS "gpu 0000:90:00.0 GPU-00000002-483b-b48f-d7e5-75fb19a52b76\n"
			"link " A " 0 " B "\nlink " A " 1 " B "\nlink " A " 5 switch\n"
			"link 0000:90:00.0 0 switch\n");
	start(RESOURCE(""));
	RUN_UNTIL(distance(GPU_A, GPU_B) > 0);
	assert_int_equal(distance(GPU_A, GPU_B), 18);
	assert_int_equal(distance(GPU_A, "GPU-00000002-483b-b48f-d7e5-75fb19a52b76"), 10);
	assert_int_equal(distance(GPU_B, "GPU-00000002-483b-b48f-d7e5-75fb19a52b76"), 0);
	/* They are read again by each scan: one goes down, then the other. */
	report(TWO_GPUS "gpu 0000:90:00.0 GPU-00000002-483b-b48f-d7e5-75fb19a52b76\n"
			"link " A " 1 " B "\n");
	RUN_UNTIL(distance(GPU_A, GPU_B) == 19);
	report(TWO_GPUS);
	RUN_UNTIL(distance(GPU_A, GPU_B) == 0);
}

/* What was measured of a device, as "name=value" and "name:code=value"; the text is the caller's.
 */
static char *measured(const char *id)
{
	const struct measurements *measurements = inventory_measurements(inventory);
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	for (size_t i = 0; i < measurements->count; i++) {
		const struct measurement *item = &measurements->items[i];

		if (!streq(item->device, id))
			continue;
		(void)fprintf(stream, "%s", item->name);
		if (item->code > 0)
			(void)fprintf(stream, ":%u", item->code);
		(void)fprintf(stream, "=%llu ", (unsigned long long)item->value);
	}
	(void)fclose(stream);
	return text;
}

static bool has_measured(const char *id, const char *expected)
{
	_cleanup_free_ char *text = measured(id);

	return streq(text, expected);
}

#define SENSORS "gpu_temperature=41 gpu_power=65000 "

static unsigned n_measured;

static void on_measured(struct inventory *changed, void *userdata)
{
	n_measured++;
}

#define WITH_INSTANCE "mig " A " 1\ninstance " A " 1 0 " MIG_A " 1g.10gb\n"

static void test_measurements(void **state)
{
	_cleanup_snapshot_ struct snapshot *before = NULL, *after = NULL;
	static const char readings[] = TWO_GPUS RECOVERS
		"field " A " 142 2\nfield " A " 143 1\nfield " A " 144 0\nfield " A
		" 145 0\nfield " A " 4 7\nfabric " A " 3 0\nxid 1 " A " 13 -1 1000\nxid 2 " A
		" 31 2 3\nxid 3 " A " 31 -1 1\n";
	char text[2048];

	plant_two();
	report(TWO_GPUS RECOVERS);
	start(RESOURCE(""));
	inventory_on_measured(inventory, on_measured);
	RUN_UNTIL(has_measured(GPU_A, "gpu_monitored=1 " SENSORS "gpu_recovery_action=0 "));
	report(readings);
	RUN_UNTIL(has_measured(GPU_A,
		"gpu_monitored=1 " SENSORS "gpu_recovery_action=0 gpu_remap_pending=0 "
		"gpu_remap_failure=0 gpu_remapped_correctable=2 gpu_remapped_uncorrectable=1 "
		"gpu_ecc_uncorrected=7 gpu_fabric_state=3 gpu_xids:13=1000 gpu_xids:31=4 "));
	/* The list stays as it is. */
	before = inventory_snapshot(inventory);
	(void)snprintf(text, sizeof(text), "%spower " B " 70000\n", readings);
	n_measured = 0;
	report(text);
	RUN_UNTIL(n_measured > 0);
	assert_true(has_measured(GPU_B,
		"gpu_monitored=1 gpu_temperature=41 gpu_power=70000 gpu_recovery_action=0 "));
	after = inventory_snapshot(inventory);
	assert_ptr_equal(before, after);
	/* While the last report stays in use, it is none for metrics. */
	report(TWO_GPUS RECOVERS "crash nvmlDeviceGetPowerUsage\n");
	RUN_UNTIL(
		has_measured(GPU_A, "gpu_monitored=0 ") && has_measured(GPU_B, "gpu_monitored=0 "));
	assert_string_equal(seen(), BOTH);
	/* Without a report there are no old numbers. */
	report(TWO_GPUS "fail nvmlInit_v2 9\ncrash nvmlEventSetWait_v2\n");
	RUN_UNTIL(
		has_measured(GPU_A, "gpu_monitored=0 ") && has_measured(GPU_B, "gpu_monitored=0 "));
	report(TWO_GPUS);
	RUN_UNTIL(has_measured(GPU_A, "gpu_monitored=1 " SENSORS));
	/* Errors of other instances are not an instance's. */
	plant_instance(0, 1, 0);
	report(TWO_GPUS WITH_INSTANCE);
	/* What a process finds at its start are no new errors. */
	RUN_UNTIL(has_measured(MIG_A, "gpu_monitored=1 " SENSORS));
	report(TWO_GPUS WITH_INSTANCE "xid 4 " A " 13 1 5\nxid 5 " A " 13 2 7\nxid 6 " A
				      " 13 -1 1\nevent 7 " A " 100\n");
	RUN_UNTIL(has_measured(MIG_A, "gpu_monitored=1 " SENSORS "gpu_xids:13=6 "));
}

/* For a reset: nothing is open, and everything stays as it is. Then faults are over of what was
 * reset, and of nothing else. */
static void test_release(void **state)
{
	plant_two();
	report(TWO_GPUS);
	/* Several good reports in a row are needed. */
	start(RESOURCE("recover_after = 3;"));
	RUN_UNTIL(streq(seen(), BOTH));
	report(TWO_GPUS "xid 1 " A " 48 -1 1\nxid 2 " B " 79 -1 1\n");
	RUN_UNTIL(streq(seen(), GPU_B "! " GPU_A "! "));
	assert_int_equal(inventory_release(inventory, true, ""), 0);
	RUN_UNTIL(strstr(first_note(), "released: devplugd-nvml is started when"));
	report(TWO_GPUS);
	run_for(500 * USEC_PER_MSEC);
	assert_string_equal(seen(), GPU_B "! " GPU_A "! ");
	/* Nothing was reset. */
	report(TWO_GPUS "power " A " 1\n");
	assert_int_equal(inventory_release(inventory, false, ""), 0);
	RUN_UNTIL(has_measured(GPU_A, "gpu_monitored=1 gpu_temperature=41 gpu_power=1 "));
	run_for(USEC_PER_SEC);
	assert_string_equal(seen(), GPU_B "! " GPU_A "! ");
	assert_int_equal(inventory_release(inventory, true, ""), 0);
	assert_int_equal(inventory_release(inventory, false, GPU_A), 0);
	RUN_UNTIL(streq(seen(), GPU_B "! " GPU_A " "));
	assert_true(says(GPU_B, "Xid 79"));
	/* Also without a release, and only once. */
	assert_int_equal(inventory_release(inventory, false, GPU_B), 0);
	RUN_UNTIL(streq(seen(), BOTH));
	report(TWO_GPUS "xid 3 " A " 48 -1 1\n");
	RUN_UNTIL(streq(seen(), GPU_B " " GPU_A "! "));
	report(TWO_GPUS "crash nvmlDeviceGetPowerUsage\n");
	RUN_UNTIL(*first_note());
	report(TWO_GPUS "power " A " 2\n");
	RUN_UNTIL(has_measured(GPU_A, "gpu_monitored=1 gpu_temperature=41 gpu_power=2 "));
	run_for(USEC_PER_SEC);
	assert_string_equal(seen(), GPU_B " " GPU_A "! ");
	assert_int_equal(inventory_release(inventory, false, GPU_A), 0);
	RUN_UNTIL(streq(seen(), BOTH));
	report(TWO_GPUS);
	/* A driver that comes and goes ends it, too. */
	assert_int_equal(inventory_release(inventory, true, ""), 0);
	RUN_UNTIL(*first_note());
	host_rename("/proc/driver/nvidia", "/proc/driver/away");
	RUN_UNTIL(streq(seen(), GPU_B "? " GPU_A "? "));
	host_rename("/proc/driver/away", "/proc/driver/nvidia");
	RUN_UNTIL(streq(seen(), BOTH));
	report(TWO_GPUS "lost " B "\n");
	RUN_UNTIL(streq(seen(), GPU_B "! " GPU_A " "));
	start("driver = \"path\"; match = \"/dev/nvidia0\";");
	assert_int_equal(inventory_release(inventory, true, ""), -EOPNOTSUPP);
}

/* An instance with the number of an earlier one may have another UUID and profile. */
static void test_instance_made_in_release(void **state)
{
	static const char unknown[] = "MIG-" GPU_A ":1:0";

	plant_two();
	plant_instance(0, 1, 0);
	plant_instance(0, 2, 0);
	report(TWO_GPUS "mig " A " 1\ninstance " A " 1 0 " MIG_A " 1g.10gb\ninstance " A
			" 2 0 " MIG_B " 2g.20gb\n");
	start(RESOURCE(""));
	RUN_UNTIL(is_present(MIG_A) && !*reason_of(MIG_A));
	assert_int_equal(inventory_release(inventory, true, ""), 0);
	RUN_UNTIL(*first_note());
	assert_true(is_present(MIG_A) && !*reason_of(MIG_A));
	remove_instance(0, 1, 0);
	RUN_UNTIL(!is_present(MIG_A));
	plant_instance(0, 1, 0);
	RUN_UNTIL(is_present(unknown) &&
		says(unknown, "its UUID is not known: released: devplugd-nvml is started when"));
	assert_false(is_present(MIG_A));
	/* The other one is the same. */
	assert_true(is_present(MIG_B) && !*reason_of(MIG_B));
	/* Nor is it known to a process before it answers. */
	report(TWO_GPUS "hang nvmlInit_v2\n");
	assert_int_equal(inventory_release(inventory, false, ""), 0);
	RUN_UNTIL(!*first_note());
	assert_false(is_present(MIG_A));
	report(TWO_GPUS "mig " A " 1\ninstance " A " 1 0 " MIG_A " 1g.10gb\n");
	assert_int_equal(inventory_release(inventory, false, GPU_A), 0);
	RUN_UNTIL(is_present(MIG_A) && !*reason_of(MIG_A));
}

/* The driver is unloaded and comes back in another version, with the library. */
static void test_driver_comes_and_goes(void **state)
{
	plant_stub("nvml-stub");
	report(TWO_GPUS RECOVERS);
	start(RESOURCE(""));
	assert_string_equal(seen(), "");
	plant_driver("535.54.03");
	plant_gpu(A, 0, GPU_A, "0\n");
	plant_gpu(B, 1, GPU_B, "1\n");
	host_write("/dev/touched", "");
	RUN_UNTIL(streq(seen(), BOTH));
	host_rename("/proc/driver/nvidia", "/proc/driver/away");
	RUN_UNTIL(streq(seen(), GPU_B "? " GPU_A "? "));
	host_rename("/proc/driver/away", "/proc/driver/nvidia");
	RUN_UNTIL(streq(seen(), BOTH));
}

static void expect_problem(const char *text, const char *expected)
{
	_cleanup_free_ char *problem = declare_problem(text);

	assert_string_equal(problem, expected);
}

#define RESOURCE_PLACE "resource \"vendor.example/unit\": "

static void test_declarations(void **state)
{
	expect_problem("driver = \"nvidia\"; match = ( { profile = \"1g.*\"; } );",
		RESOURCE_PLACE
		"match[0].profile: needs a probe \"nvml\" in \"health\", because only NVIDIA's "
		"library knows it");
	expect_problem("driver = \"nvidia\"; match = ( {} ); "
		       "health = ( { probe = \"nvml\"; }, { probe = \"nvml\"; } );",
		RESOURCE_PLACE "health: has two probes \"nvml\": merge their keys");
	expect_problem(
		"driver = \"path\"; match = \"/dev/null\"; health = ( { probe = \"nvml\"; } );",
		RESOURCE_PLACE
		"health[0].probe: \"nvml\" needs driver \"nvidia\", and the driver of this resource is \"path\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(test_recovery_action),
		HOST_TEST(test_application_faults),
		HOST_TEST(test_lasting_faults),
		HOST_TEST(test_policy),
		HOST_TEST(test_memory_and_fabric),
		HOST_TEST(test_lost),
		HOST_TEST(test_lost_before),
		HOST_TEST(test_unopened),
		HOST_TEST(test_reset_required),
		HOST_TEST(test_hanging_library),
		HOST_TEST(test_leaking_library),
		HOST_TEST(test_problems),
		HOST_TEST(test_old_library),
		HOST_TEST(test_linked_library),
		HOST_TEST(test_instances),
		HOST_TEST(test_monitor),
		HOST_TEST(test_stale_cdi_name),
		HOST_TEST(test_links),
		HOST_TEST(test_measurements),
		HOST_TEST(test_release),
		HOST_TEST(test_instance_made_in_release),
		HOST_TEST(test_driver_comes_and_goes),
		HOST_TEST(test_declarations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
