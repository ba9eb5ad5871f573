/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Allocate needs is watched: a device that lacks some of it is unhealthy with that as the
 * reason, and healthy when it is back. See also test-drm.c.
 */
#include "cdi-fixture.h"
#include "pci-fixture.h"

#include "common/log.h"
#include "drivers/allocation/allocation.h"

static int setup(void **state)
{
	log_setup("test-needs", LOG_TARGET_TEXT, LOG_CRIT);
	return host_setup(state);
}

/* The reason of the device; NULL if it is healthy. */
static void expect_missing(const char *id, const char *path)
{
	_cleanup_free_ char *expected = NULL;

	assert_true(asprintf(&expected, "needs %s, which is missing on the host", path) > 0);
	RUN_UNTIL(startswith(reason_of(id), expected));
}

static void expect_healthy(const char *id)
{
	RUN_UNTIL(!*reason_of(id));
}

/* The notes of the last scan, a line each. */
static const char *notes(void)
{
	const struct strings *texts = inventory_notes(inventory);
	static char text[1024];
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < texts->count && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s\n", texts->items[i]);
	return text;
}

/* The common node of all devices, and one of each. */
static void test_nodes(void **state)
{
	start("driver = \"static\"; match = ( \"a\", \"b\" );"
	      "container = { nodes = ( \"/dev/kfd\", \"/dev/x/${id}\", \"?/dev/none\" ); };");
	assert_string_equal(seen(), "a! b! ");
	assert_string_equal(reason_of("a"),
		"needs /dev/kfd, which is missing on the host: load its driver, or correct "
		"container.nodes in the configuration");
	host_mknod("/dev/kfd");
	expect_missing("a", "/dev/x/a");
	host_mkdir("/dev/x");
	host_mknod("/dev/x/b");
	expect_healthy("b");
	expect_missing("a", "/dev/x/a");
	host_mknod("/dev/x/a");
	expect_healthy("a");
	host_rename("/dev/x", "/dev/y");
	expect_missing("a", "/dev/x/a");
	expect_missing("b", "/dev/x/b");
	host_rename("/dev/y", "/dev/x");
	expect_healthy("a");
	expect_healthy("b");
	host_remove("/dev/kfd");
	expect_missing("b", "/dev/kfd");
}

/* What a program or a mount has left in the place of a node. */
static void test_other_files(void **state)
{
	static const char problem[] =
		"needs /dev/kfd, which is not a device node on the host: remove it and load its driver, or "
		"correct container.nodes in the configuration";

	host_touch("/dev/kfd");
	start("driver = \"static\"; match = ( \"a\" ); container = { nodes = \"/dev/kfd\"; };");
	assert_string_equal(reason_of("a"), problem);
	host_remove("/dev/kfd");
	expect_missing("a", "/dev/kfd");
	host_mkfifo("/dev/kfd");
	RUN_UNTIL(streq(reason_of("a"), problem));
	host_remove("/dev/kfd");
	host_mknod("/dev/kfd");
	expect_healthy("a");
	host_remove("/dev/kfd");
	host_mknod("/dev/real");
	host_symlink("real", "/dev/kfd");
	expect_healthy("a");
	host_remove("/dev/real");
	host_touch("/dev/real");
	RUN_UNTIL(streq(reason_of("a"), problem));
	/* An optional one is left out. */
	start("driver = \"static\"; match = ( \"a\" ); container = { nodes = \"?/dev/kfd\"; };");
	assert_string_equal(seen(), "a ");
	/* A file that is wanted as such. */
	start("driver = \"static\"; match = ( \"a\" ); container = { mounts = ( { host = "
	      "\"/dev/kfd\"; } ); };");
	assert_string_equal(seen(), "a ");
}

/* A directory stands for the nodes in it, where an administrator names it. */
static void test_directories(void **state)
{
	static const char empty[] =
		"needs /dev/snd, which is a directory without device nodes on the "
		"host: remove it and load its driver, or correct ";

	host_mkdir("/dev/snd/by-path");
	start("driver = \"static\"; match = ( \"a\" ); container = { nodes = \"/dev/snd\"; };");
	assert_true(startswith(reason_of("a"), empty));
	host_mknod("/dev/snd/by-path/node");
	expect_healthy("a");
	host_remove("/dev/snd/by-path/node");
	RUN_UNTIL(startswith(reason_of("a"), empty));
	host_mkdir("/dev/snd/new");
	host_mknod("/dev/snd/new/node");
	expect_healthy("a");
	start("driver = \"path\"; match = \"/dev/snd\";");
	assert_string_equal(seen(), "snd ");
	host_remove("/dev/snd/new/node");
	RUN_UNTIL(startswith(reason_of("snd"), empty));
	host_mknod("/dev/snd/node");
	expect_healthy("snd");
}

static void test_mounts(void **state)
{
	host_mkdir("/opt/tool-1");
	host_symlink("tool-1", "/opt/tool");
	start("driver = \"static\"; match = ( \"a\" );"
	      "container = { mounts = ( { host = \"/opt/tool\"; path = \"/tool\"; } ); };");
	assert_string_equal(seen(), "a ");
	host_rename("/opt/tool-1", "/opt/tool-2");
	expect_missing("a", "/opt/tool");
	host_rename("/opt/tool-2", "/opt/tool-1");
	expect_healthy("a");
	host_remove("/opt/tool");
	expect_missing("a", "/opt/tool");
	start("driver = \"static\"; match = ( \"a\" );"
	      "container = { mounts = ( { host = \"/opt/tool\"; optional = true; } ); };");
	assert_string_equal(seen(), "a ");
}

/* What the device's containers get of its paths now: nodes and mounts with their targets. */
static const char *parts(void)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	_cleanup_allocation_ struct allocation allocation = { 0 };
	static char text[256];
	const char *id = "a";
	struct error error;
	size_t used = 0;

	assert_int_equal(allocation_build(declaration_of(config), snapshot, host_root, &id, 1, NULL,
				 &allocation, &error),
		0);
	text[0] = '\0';
	for (size_t i = 0; i < allocation.n_nodes; i++)
		used += (size_t)snprintf(
			text + used, sizeof(text) - used, "%s ", allocation.nodes[i].host);
	return text;
}

static bool has_changed(struct snapshot **before)
{
	struct snapshot *now = inventory_snapshot(inventory);
	bool changed = !snapshot_shares_devices(*before, now);

	(void)snapshot_unref(*before);
	*before = now;
	return changed;
}

/* The device changes with what containers get, so that files which name it are made again. */
static void expect_change(struct snapshot **before, const char *expected)
{
	RUN_UNTIL(has_changed(before));
	assert_string_equal(parts(), expected);
	assert_string_equal(reason_of("a"), "");
}

static void test_optional_parts(void **state)
{
	_cleanup_snapshot_ struct snapshot *before = NULL;

	host_mkdir("/opt/tool-1");
	host_mkdir("/opt/tool-2");
	host_mkdir("/etc/alternatives");
	host_symlink("/opt/tool-1", "/etc/alternatives/tool");
	host_symlink("../etc/alternatives/tool", "/opt/tool");
	start("driver = \"static\"; match = ( \"a\" );"
	      "container = { nodes = ( \"?/dev/kfd\" ); mounts = ( { host = \"/opt/tool\"; }, "
	      "{ host = \"/opt/more\"; optional = true; } ); };");
	before = inventory_snapshot(inventory);
	host_mknod("/dev/kfd");
	expect_change(&before, "/dev/kfd /opt/tool-1 ");
	host_mkdir("/opt/more");
	expect_change(&before, "/dev/kfd /opt/more /opt/tool-1 ");
	host_remove("/dev/kfd");
	expect_change(&before, "/opt/more /opt/tool-1 ");
	/* One of the links on the way is turned. */
	host_symlink("/opt/tool-2", "/etc/alternatives/next");
	host_rename("/etc/alternatives/next", "/etc/alternatives/tool");
	expect_change(&before, "/opt/more /opt/tool-2 ");
}

/* A variable that has no value is refused at Allocate, too. */
static void test_variables(void **state)
{
	host_mknod("/dev/tty0");
	start("driver = \"path\"; match = \"/dev/tty*\";"
	      "container = { env = ( \"X=${attr:serial}\" ); };");
	assert_string_equal(
		reason_of("tty0"), "\"X=${attr:serial}\": \"${attr:serial}\" has no value here");
	start("driver = \"path\"; match = \"/dev/tty*\";"
	      "container = { nodes = ( \"?/dev/${attr:x}\" ); };");
	assert_string_equal(
		reason_of("tty0"), "\"/dev/${attr:x}\": \"${attr:x}\" has no value here");
	start("driver = \"path\"; match = \"/dev/tty*\"; container = { env = ( \"X=${ids}-${n}\" ); "
	      "annotations = ( \"v.e/x=${replica}${position}${info}\" ); };");
	assert_string_equal(seen(), "tty0 ");
}

static void test_vfio_group_node(void **state)
{
	pci_plant("0000:03:00.0", "0x10de", "0x1234", "0x030000");
	pci_bind("0000:03:00.0", "vfio-pci");
	pci_join_group("0000:03:00.0", "45");
	start("driver = \"pci\"; match = ( { access = \"vfio\"; vendor = 0x10de; } );");
	assert_string_equal(seen(), "0000:03:00.0! ");
	host_mkdir("/dev/vfio");
	host_mknod("/dev/vfio/vfio");
	expect_missing("0000:03:00.0", "/dev/vfio/45");
	host_mknod("/dev/vfio/45");
	expect_healthy("0000:03:00.0");
	host_remove("/dev/vfio/45");
	expect_missing("0000:03:00.0", "/dev/vfio/45");
}

#define UNDEFINED "needs the CDI device vendor.example/card="

/* JSON of devplugd's own kind of files, and YAML of nvidia-ctk's. */
static void test_cdi_names(void **state)
{
	start("driver = \"static\"; match = ( \"a\", \"b\" ); container = { cdi = ( "
	      "\"vendor.example/card=${id}\", \"vendor.example/card=all\" ); };");
	assert_string_equal(seen(), "a! b! ");
	assert_string_equal(reason_of("a"),
		UNDEFINED
		"a, which no file in /etc/cdi or /run/cdi defines: install what writes the "
		"file, or correct container.cdi in the configuration");
	host_mkdir("/run/cdi");
	host_write("/run/cdi/card.json", CDI_JSON("vendor.example/card", CDI_JSON_PLAIN("a")));
	RUN_UNTIL(startswith(reason_of("a"), UNDEFINED "all"));
	host_mkdir("/etc/cdi");
	host_write("/etc/cdi/card.yaml", CDI_YAML("vendor.example/card", CDI_YAML_PLAIN("all")));
	expect_healthy("a");
	assert_true(startswith(reason_of("b"), UNDEFINED "b"));
	/* The file is written again in place. */
	host_write("/run/cdi/card.json", CDI_JSON("vendor.example/card", CDI_JSON_PLAIN("b")));
	expect_healthy("b");
	assert_true(startswith(reason_of("a"), UNDEFINED "a"));
	/* A file of another kind. */
	host_write("/run/cdi/card.json", CDI_JSON("vendor.example/cards", CDI_JSON_PLAIN("b")));
	RUN_UNTIL(*reason_of("b"));
	host_remove("/etc/cdi/card.yaml");
	start("driver = \"static\"; match = ( \"a\" ); container = { cdi_dirs = ( \"/opt/cdi\" ); "
	      "cdi = ( \"vendor.example/card=${id}\" ); };");
	assert_non_null(strstr(reason_of("a"), "which no file in container.cdi_dirs defines"));
	host_mkdir("/opt/cdi");
	host_write("/opt/cdi/card.json", CDI_JSON("vendor.example/card", CDI_JSON_PLAIN("a")));
	expect_healthy("a");
	/* Its own file is written for what is found. */
	start("driver = \"static\"; match = ( \"a\" ); cdi_spec = { kind = \"vendor.example/own\"; }; "
	      "container = { cdi = ( \"vendor.example/own=${id}\" ); };");
	assert_string_equal(seen(), "a ");
}

#define FPGA \
	"driver = \"static\"; match = ( \"fpga0\" ); container = { cdi = \"v.example/f=${id}\"; };"

static void expect_reason(const char *id, const char *expected)
{
	RUN_UNTIL(streq(reason_of(id), expected));
}

/* The name is in a file, but runtimes do not resolve it. */
static void test_cdi_conflicts(void **state)
{
	host_mkdir("/etc/cdi");
	host_mkdir("/run/cdi");
	host_write("/etc/cdi/a.json", CDI_JSON("v.example/f", CDI_JSON_PLAIN("fpga0")));
	host_write("/etc/cdi/b.json", CDI_JSON("v.example/f", CDI_JSON_PLAIN("fpga0")));
	start(FPGA);
	expect_reason("fpga0",
		"needs the CDI device v.example/f=fpga0, which is defined in a.json and b.json of "
		"/etc/cdi: container runtimes use neither, so remove one of them");
	/* A third one does not make good for it. */
	host_write("/run/cdi/c.json", CDI_JSON("v.example/f", CDI_JSON_PLAIN("fpga0")));
	host_remove("/etc/cdi/b.json");
	expect_healthy("fpga0");
	host_write("/run/cdi/d.yaml", CDI_YAML("v.example/f", CDI_YAML_PLAIN("fpga0")));
	expect_reason("fpga0",
		"needs the CDI device v.example/f=fpga0, which is defined in c.json and d.yaml of "
		"/run/cdi: container runtimes use neither, so remove one of them");
}

/* Each file that the host needs for a device, and the runtime's own way with nodes. */
static void test_cdi_sources(void **state)
{
	static const char rest[] =
		", or write /etc/cdi/a.json again, which names it for the CDI device v.example/f=fpga0";
	static const struct {
		const char *edits, *reason;
	} cases[] = {
		{ "\"mounts\": [{\"hostPath\": \"/opt/absent\", \"containerPath\": \"/x\"}]",
			"needs /opt/absent, which is missing on the host: install the package that "
			"provides it" },
		{ "\"deviceNodes\": [{\"path\": \"/dev/nvidia7\"}]",
			"needs /dev/nvidia7, which is missing on the host: load its driver" },
		{ "\"deviceNodes\": [{\"path\": \"/dev/here\", \"hostPath\": \"/dev/x/y\"}]",
			"needs /dev/x/y, which is missing on the host: load its driver" },
		{ "\"hooks\": [{\"hookName\": \"createContainer\", \"path\": \"/opt/hook\"}]",
			"needs /opt/hook, which is missing on the host: install the program" },
	};

	host_mkdir("/etc/cdi");
	host_mkdir("/opt");
	host_mknod("/dev/here");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL, *expected = NULL;

		assert_true(
			asprintf(&text,
				"{\"cdiVersion\": \"0.5.0\", \"kind\": \"v.example/f\", \"devices\": "
				"[{\"name\": \"fpga0\", \"containerEdits\": {%s}}]}",
				cases[i].edits) > 0);
		assert_true(asprintf(&expected, "%s%s", cases[i].reason, rest) > 0);
		host_replace("/etc/cdi/a.json", text);
		start(FPGA);
		expect_reason("fpga0", expected);
	}
	host_write("/opt/hook", "");
	expect_healthy("fpga0");
	host_replace("/etc/cdi/a.json",
		CDI_JSON("v.example/f",
			CDI_JSON_DEVICE("fpga0", "\"deviceNodes\": [{\"path\": \"/dev/link\"}]")));
	host_symlink("here", "/dev/link");
	expect_reason("fpga0",
		"container runtimes refuse the CDI device v.example/f=fpga0, because its node /dev/link is "
		"a symbolic link: write the target in /etc/cdi/a.json");
	host_remove("/dev/link");
	host_mknod("/dev/link");
	expect_healthy("fpga0");
}

/* A file that runtimes ignore, and one that only this process cannot read. */
static void test_cdi_files_with_problems(void **state)
{
	host_mkdir("/etc/cdi");
	host_write("/etc/cdi/a.json",
		"{\"cdiVersion\": \"0.5.0\", \"kind\": \"v.example/f\", \"devices\": [{\"name\": "
		"\"fpga0\", ");
	start(FPGA);
	expect_reason("fpga0",
		"needs the CDI device v.example/f=fpga0, but container runtimes ignore /etc/cdi/a.json, which "
		"names it: line 1: did not find expected node content: write the file again");
	host_replace("/etc/cdi/a.json",
		CDI_JSON("v.example/f", "{\"name\": \"fpga0\", \"containerEdits\": *x}"));
	expect_healthy("fpga0");
	assert_non_null(strstr(notes(),
		"the CDI device v.example/f=fpga0 is not checked, because of "
		"/etc/cdi/a.json: line 1: aliases of anchors are not supported"));
}

/* In a container, the host may have what is not mounted. */
static void test_cdi_sources_not_mounted(void **state)
{
	host_mkdir("/etc/cdi");
	host_write("/etc/cdi/a.json",
		CDI_JSON("v.example/f",
			CDI_JSON_DEVICE("fpga0",
				"\"mounts\": [{\"hostPath\": \"/usr/lib64/libf.so\", \"containerPath\": \"/x\"}]")));
	start(FPGA);
	expect_healthy("fpga0");
	assert_non_null(strstr(notes(),
		" has no /usr, so paths in it that CDI files name are not checked: mount it from the host"));
	host_mkdir("/usr/lib64");
	expect_missing("fpga0", "/usr/lib64/libf.so");
	host_write("/usr/lib64/libf.so", "");
	expect_healthy("fpga0");

	/* A link to what is not mounted, and one to what the host does not have. */
	host_remove("/usr/lib64/libf.so");
	host_symlink("/snap/f/libf.so", "/usr/lib64/libf.so");
	start(FPGA);
	expect_healthy("fpga0");
	assert_non_null(strstr(
		notes(), " has no /snap, so paths in it that CDI files name are not checked"));
	host_remove("/usr/lib64/libf.so");
	host_symlink("libf.so.1", "/usr/lib64/libf.so");
	expect_missing("fpga0", "/usr/lib64/libf.so");
	host_remove("/usr/lib64/libf.so");
	host_symlink("../../snap/libf.so", "/usr/lib64/libf.so");
	expect_healthy("fpga0");
	host_remove("/usr/lib64/libf.so");
	expect_missing("fpga0", "/usr/lib64/libf.so");
	/* The last one of several links leads there. */
	host_symlink("../../snap/libf.so", "/usr/lib64/libf.so.0");
	host_symlink("libf.so.0", "/usr/lib64/libf.so");
	expect_healthy("fpga0");
}

/* Nodes and directories come and go at random: once all is quiet, the list agrees with Allocate. */
static void test_P20_random_changes(void **state)
{
	static const char *const paths[] = { "/dev/kfd", "/dev/x/a", "/dev/x/b", "/opt/lib/one" };
	bool there[ARRAY_SIZE(paths)] = { 0 };
	unsigned seed = 20;

	host_mkdir("/dev/x");
	host_mkdir("/opt/lib");
	start("driver = \"static\"; match = ( \"a\", \"b\" ); container = { "
	      "nodes = ( \"/dev/kfd\", \"/dev/x/${id}\" ); mounts = ( { host = \"/opt/lib/one\"; } ); };");
	for (unsigned step = 0; step < 60; step++) {
		for (unsigned k = 0; k < 3; k++) {
			size_t i = (size_t)rand_r(&seed) % ARRAY_SIZE(paths);

			there[i] = !there[i];
			if (there[i])
				host_mknod(paths[i]);
			else
				host_remove(paths[i]);
		}
		for (size_t d = 0; d < 2; d++) {
			const char *id = d == 0 ? "a" : "b";
			bool complete = there[0] && there[1 + d] && there[3];

			RUN_UNTIL(complete == !*reason_of(id));
			if (complete) {
				_cleanup_snapshot_ struct snapshot *snapshot =
					inventory_snapshot(inventory);
				_cleanup_allocation_ struct allocation allocation = { 0 };
				struct error error;

				assert_int_equal(
					allocation_build(declaration_of(config), snapshot,
						host_root, &id, 1, NULL, &allocation, &error),
					0);
			}
		}
	}
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, inventory_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nodes),
		TEST(test_other_files),
		TEST(test_directories),
		TEST(test_mounts),
		TEST(test_optional_parts),
		TEST(test_variables),
		TEST(test_cdi_names),
		TEST(test_cdi_conflicts),
		TEST(test_cdi_sources),
		TEST(test_cdi_files_with_problems),
		TEST(test_cdi_sources_not_mounted),
		TEST(test_vfio_group_node),
		TEST(test_P20_random_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
