/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CDI documents: names by its rules, the lowest version, and each device with what belongs to it
 * alone. The rules as a whole are in tests/promises/cdi.py.
 */
#include "allocation-fixture.h"
#include "cdi-fixture.h"
#include "inventory-fixture.h"
#include "nvidia-fixture.h"
#include "pci-fixture.h"

#include "common/log.h"
#include "drivers/allocation/cdi.h"
#include "drivers/allocation/publication.h"

static int setup(void **state)
{
	log_setup("test-cdi", LOG_TARGET_TEXT, LOG_CRIT);
	return host_setup(state);
}

static void test_names(void **state)
{
	static const struct {
		const char *id, *name; /* a name that ends in "*" has a hash there */
	} cases[] = {
		{ "gpu-0", "gpu-0" },
		{ "0000:03:00.0", "0000:03:00.0" },
		{ "a", "a" },
		{ "kvm@2", "kvm-2-*" },
		{ "tty0+tty1", "tty0-tty1-*" },
		{ ".hidden", "d.hidden-*" },
		{ "-", "d--*" },
		{ "last-", "last--*" },
		{ "a=b", "a-b-*" },
		{ "123456789012345678901234567890123456789012345678901234567890123",
			"123456789012345678901234567890123456789012345678901234567890123" },
		{ "@23456789012345678901234567890123456789012345678901234567890123",
			"d-2345678901234567890123456789012345678901234567890123456789012*" },
	};
	char a[CDI_DEVICE_NAME_MAX + 1], b[CDI_DEVICE_NAME_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *star = strchr(cases[i].name, '*');

		cdi_device_name(cases[i].id, a);
		assert_true(cdi_device_name_is_valid(a));
		assert_int_equal(
			strncmp(a, cases[i].name,
				star ? (size_t)(star - cases[i].name) : strlen(cases[i].name) + 1),
			0);
	}
	cdi_device_name("a@b", a);
	cdi_device_name("a=b", b);
	assert_string_not_equal(a, b);
}

static void test_kinds(void **state)
{
	static const struct {
		const char *kind;
		bool valid;
	} cases[] = {
		{ "vendor.example/gpu", true },
		{ "v/g", true },
		{ "vendor.example/gpu.shared_0-1", true },
		{ "vendor.example", false },
		{ "vendor.example/", false },
		{ "/gpu", false },
		{ "vendor.example/0gpu", false },
		{ "0vendor/gpu", false },
		{ "vendor.example/gpu-", false },
		{ "vendor.example/gpu/x", false },
		{ "vendor.example/g=u", false },
		{ "vendor example/gpu", false },
		{ "../gpu", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL;

		assert_true(
			asprintf(&text,
				"driver = \"static\"; match = ( { count = 1; } ); cdi_spec = { kind "
				"= \"%s\"; };",
				cases[i].kind) > 0);
		if (cases[i].valid) {
			(void)config_free(declare(text));
		} else {
			_cleanup_free_ char *problem = declare_problem(text);

			assert_non_null(strstr(problem, "cdi_spec.kind: must be VENDOR/CLASS"));
		}
	}
}

static void test_annotation_key(void **state)
{
	char a[CDI_ANNOTATION_KEY_MAX + 1], b[CDI_ANNOTATION_KEY_MAX + 1];
	const char *long_kind =
		"a-very-long-vendor-of-many-things.example.com/a-class-of-such-things-too";

	cdi_annotation_key("vendor.example/gpu", a);
	assert_string_equal(a, "cdi.k8s.io/vendor.example_gpu");
	cdi_annotation_key(long_kind, a);
	assert_int_equal(strlen(a), strlen("cdi.k8s.io/") + 63);
	cdi_annotation_key(
		"a-very-long-vendor-of-many-things.example.com/a-class-of-such-things-2", b);
	assert_int_equal(strncmp(a, b, 50), 0);
	assert_string_not_equal(a, b);
}

static json_t *build_spec(struct strings *left_out)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	json_t *spec = NULL;

	assert_int_equal(
		cdi_spec_build(declaration_of(config), snapshot, host_root, &spec, left_out), 0);
	return spec;
}

/* Compares with what is written with ' in place of ". */
static void expect_spec(const char *expected)
{
	_cleanup_strings_ struct strings left_out = { 0 };
	_cleanup_free_ char *wanted = strdup(expected), *text = NULL;
	json_t *spec = build_spec(&left_out);

	assert_non_null(wanted);
	for (char *p = wanted; *p; p++)
		if (*p == '\'')
			*p = '"';
	text = json_dumps(spec, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(spec);
	assert_string_equal(text ?: "", wanted);
	assert_int_equal(left_out.count, 0);
}

#define CARDS "driver = \"path\"; match = ( { path = \"/dev/card*\"; type = \"device\"; } );\n"
#define KIND  "cdi_spec = { kind = \"vendor.example/card\"; };\n"

static void test_document(void **state)
{
	host_mknod("/dev/card0");
	host_mknod("/dev/ctl");
	host_mkdir("/opt/tool");
	start(CARDS KIND
		"container = { nodes = ( \"/dev/ctl\", \"?/dev/none\" ); "
		"mounts = ( { host = \"/opt/tool\"; path = \"/tool\"; read_only = true; } ); "
		"env = ( \"A=b\", \"ID_${index}=${id}\" ); };");
	expect_spec("{'cdiVersion':'0.3.0','devices':[{'containerEdits':{"
		    "'deviceNodes':[{'path':'/dev/card0','permissions':'rw'},"
		    "{'path':'/dev/ctl','permissions':'rw'}],"
		    "'env':['A=b','ID_0=card0'],"
		    "'mounts':[{'containerPath':'/tool','hostPath':'/opt/tool',"
		    "'options':['rbind','rprivate','ro']}]},'name':'card0'}],"
		    "'kind':'vendor.example/card'}");
}

static void test_versions(void **state)
{
	host_mknod("/dev/card0");
	host_mknod("/dev/0card");
	host_symlink("card0", "/dev/by-id");
	start("driver = \"path\"; match = ( { path = \"/dev/card0\"; type = \"device\"; } );" KIND);
	expect_spec(
		"{'cdiVersion':'0.3.0','devices':[{'containerEdits':{'deviceNodes':[{'path':'/dev/"
		"card0','permissions':'rw'}]},'name':'card0'}],'kind':'vendor.example/card'}");
	start("driver = \"path\"; match = ( { path = \"/dev/0card\"; type = \"device\"; } );" KIND);
	expect_spec(
		"{'cdiVersion':'0.5.0','devices':[{'containerEdits':{'deviceNodes':[{'path':'/dev/"
		"0card','permissions':'rw'}]},'name':'0card'}],'kind':'vendor.example/card'}");
	/* Readers take no link for a device node. */
	start("driver = \"path\"; match = ( { path = \"/dev/by-id\"; type = \"device\"; } );" KIND);
	expect_spec(
		"{'cdiVersion':'0.5.0','devices':[{'containerEdits':{'deviceNodes':[{'hostPath':'/"
		"dev/card0','path':'/dev/by-id','permissions':'rw'}]},'name':'by-id'}],'kind':'"
		"vendor.example/card'}");
	start(CARDS "cdi_spec = { kind = \"vendor.example/card.b\"; };");
	expect_spec(
		"{'cdiVersion':'0.6.0','devices':[{'containerEdits':{'deviceNodes':[{'path':'/dev/"
		"card0','permissions':'rw'}]},'name':'card0'}],'kind':'vendor.example/card.b'}");
}

static void test_left_out(void **state)
{
	_cleanup_strings_ struct strings left_out = { 0 };
	json_t *spec;

	host_mknod("/dev/card0");
	host_mknod("/dev/card1");
	host_mknod("/dev/aux-card1");
	start(CARDS KIND "container = { nodes = ( \"/dev/aux-${id}\" ); };");
	spec = build_spec(&left_out);
	assert_int_equal(json_array_size(json_object_get(spec, "devices")), 1);
	json_decref(spec);
	assert_int_equal(left_out.count, 1);
	assert_string_equal(left_out.items[0], "card0");
}

/* With an entry of what remains, a container would start without the device. */
static void test_without_driver(void **state)
{
	_cleanup_strings_ struct strings left_out = { 0 };
	json_t *spec;

	pci_plant("0000:03:00.0", "0x10de", "0x1eb8", "0x030200");
	pci_plant("0000:04:00.0", "0x10de", "0x1eb8", "0x030200");
	pci_bind("0000:04:00.0", "vfio-pci");
	pci_join_group("0000:04:00.0", "45");
	host_mkdir("/dev/vfio");
	host_mknod("/dev/vfio/45");
	host_mknod("/dev/vfio/vfio");
	start("driver = \"pci\"; match = ( { access = \"vfio\"; vendor = 0x10de; } );\n" KIND
	      "container = { env = ( \"MODE=x\" ); };");
	spec = build_spec(&left_out);
	assert_int_equal(json_array_size(json_object_get(spec, "devices")), 1);
	json_decref(spec);
	assert_int_equal(left_out.count, 1);
	assert_string_equal(left_out.items[0], "0000:03:00.0");
}

/* The nodes that all GPUs need are not enough. */
static void test_without_own_node(void **state)
{
	_cleanup_strings_ struct strings left_out = { 0 };
	json_t *spec;

	plant_driver("535.54.03");
	plant_gpu("0000:3b:00.0", 3, GPU_A, "1\n");
	plant_gpu("0000:86:00.0", 0, GPU_B, "1\n");
	host_remove("/dev/nvidia3");
	start("driver = \"nvidia\"; match = ( { libraries = false; } );" KIND);
	spec = build_spec(&left_out);
	assert_int_equal(json_array_size(json_object_get(spec, "devices")), 1);
	json_decref(spec);
	assert_int_equal(left_out.count, 1);
	assert_string_equal(left_out.items[0], GPU_A);
}

/* A program's device needs no node, and its containers start again also while it is unhealthy. */
static void test_only_unhealthy(void **state)
{
	char text[1024];

	host_mkdir("/run/data");
	host_write("/list", "{\"version\": 1, \"devices\": [{\"id\": \"a\", \"healthy\": false}]}");
	(void)snprintf(text, sizeof(text),
		"driver = \"exec\"; match = ( { command = [ \"/bin/cat\", \"%s/list\" ]; "
		"interval = 0.1; } );\n" KIND
		"container = { mounts = ( { host = \"/run/data\"; } ); };",
		host_root);
	host_mkdir("/bin");
	host_symlink("/bin/cat", "/bin/cat");
	start(text);
	RUN_UNTIL(told == 1);
	expect_spec("{'cdiVersion':'0.3.0','devices':[{'containerEdits':{'mounts':[{"
		    "'containerPath':'/run/data','hostPath':'/run/data','options':['rbind',"
		    "'rprivate','rw']}]},'name':'a'}],'kind':'vendor.example/card'}");
}

/* A removed device is in no document, one that is only unhealthy is. */
static void test_removed(void **state)
{
	_cleanup_strings_ struct strings left_out = { 0 };

	host_mknod("/dev/card0");
	host_write("/dev/health", "bad");
	start(CARDS KIND "health = ( { probe = \"file\"; path = \"/dev/health\"; } );");
	expect_spec(
		"{'cdiVersion':'0.3.0','devices':[{'containerEdits':{'deviceNodes':[{'path':'/dev/"
		"card0','permissions':'rw'}]},'name':'card0'}],'kind':'vendor.example/card'}");
	host_remove("/dev/card0");
	run_for(300 * USEC_PER_MSEC);
	assert_null(build_spec(&left_out));
	assert_int_equal(left_out.count, 0);
}

static bool finds_excluded(void)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);

	return snapshot->units[1].excluded;
}

/* The container of a pod that has an excluded device may be started again. */
static void test_P17_excluded(void **state)
{
	static const char whole[] =
		"{'cdiVersion':'0.3.0','devices':[{'containerEdits':{'deviceNodes':[{'path':'/dev/"
		"card1','permissions':'rw'}]},'name':'card1'},{'containerEdits':{'deviceNodes':[{"
		"'path':'/dev/card0','permissions':'rw'}]},'name':'card0'}],'kind':'vendor.example/card'}";

	host_mknod("/dev/card0");
	host_mknod("/dev/card1");
	start(CARDS KIND "exclude = \"card0\";");
	assert_int_equal(set_booked(inventory, "card0\n", 0), 1);
	expect_spec(whole);
	assert_int_equal(set_booked(inventory, "", 0), 1);
	expect_spec(
		"{'cdiVersion':'0.3.0','devices':[{'containerEdits':{'deviceNodes':[{'path':'/dev/"
		"card1','permissions':'rw'}]},'name':'card1'}],'kind':'vendor.example/card'}");
	/* Once, for any number of its ids that pods have. */
	start(CARDS KIND "exclude = \"card0\"; share = { replicas = 3; };");
	assert_int_equal(set_booked(inventory, "card0#0\ncard0#2\ncard0#10\n", 0), 1);
	expect_spec(whole);
	/* It leaves the host. */
	host_remove("/dev/card0");
	RUN_UNTIL(!finds_excluded());
	expect_spec(
		"{'cdiVersion':'0.3.0','devices':[{'containerEdits':{'deviceNodes':[{'path':'/dev/"
		"card1','permissions':'rw'}]},'name':'card1'}],'kind':'vendor.example/card'}");
}

static void test_nothing(void **state)
{
	_cleanup_strings_ struct strings left_out = { 0 };

	start("driver = \"static\"; match = ( { count = 3; } );" KIND);
	assert_null(build_spec(&left_out));
	assert_int_equal(left_out.count, 0);
}

static void test_publication(void **state)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	_cleanup_strings_ struct strings left_out = { 0 };
	_cleanup_free_ char *text = NULL;

	start("driver = \"static\"; match = ( { count = 3; } );");
	snapshot = inventory_snapshot(inventory);
	assert_false(publication_is_wanted(declaration_of(config), snapshot));
	assert_int_equal(
		publication_build(declaration_of(config), snapshot, host_root, &text, &left_out),
		0);
	assert_string_equal(text, "{}");
}

static void test_too_long(void **state)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	_cleanup_strings_ struct strings left_out = { 0 };
	_cleanup_free_ char *text = NULL;

	start("driver = \"static\"; match = ( { count = 40000; } );" KIND
	      "container = { env = ( \"A_${index}="
	      "0123456789012345678901234567890123456789012345678901234567890123456789\" ); };");
	snapshot = inventory_snapshot(inventory);
	assert_true(publication_is_wanted(declaration_of(config), snapshot));
	assert_int_equal(
		publication_build(declaration_of(config), snapshot, host_root, &text, &left_out),
		-E2BIG);
	assert_null(text);
}

/* --- the answer beside the file --- */

static char *answer(const char *const *ids, size_t n)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	_cleanup_allocation_ struct allocation allocation = { 0 };
	struct error error;
	char *text = NULL;
	size_t size;
	FILE *stream;

	if (allocation_build_cdi(declaration_of(config), snapshot, host_root, ids, n, NULL,
		    &allocation, &error) < 0)
		return strdup(error.message);
	stream = open_memstream(&text, &size);
	assert_non_null(stream);
	for (size_t i = 0; i < allocation.n_nodes; i++)
		(void)fprintf(stream, "%s %s\n", allocation.nodes[i].mount ? "mount" : "node",
			allocation.nodes[i].host);
	print_allocation_texts(&allocation, stream);
	assert_int_equal(fclose(stream), 0);
	return text;
}

static void expect_answer(const char *const *ids, size_t n, const char *expected)
{
	_cleanup_free_ char *text = answer(ids, n);

	assert_string_equal(text, expected);
}

static const char *const both[] = { "card1", "card0" };

static void test_answer(void **state)
{
	host_mknod("/dev/card0");
	host_mknod("/dev/card1");
	host_mkdir("/opt/tool");
	host_mkdir("/dev/dir");
	host_mknod("/dev/dir/node");
	host_mkdir("/etc/cdi");
	host_write("/etc/cdi/other.yaml", CDI_YAML("other.example/a", CDI_YAML_PLAIN("b")));
	start(CARDS KIND
		"container = { nodes = ( \"/dev/dir\" ); "
		"mounts = ( { host = \"/opt/tool\"; } ); "
		"env = ( \"A=b\", \"IDS=${ids}\", \"COUNT=${n}\", \"ONE=${node}\", \"ID_${index}=x\" ); "
		"annotations = ( \"who=${id}\" ); cdi = ( \"other.example/a=b\" ); };");
	expect_answer(both, 2,
		"node /dev/dir\n"
		"env IDS=card0,card1\n"
		"env COUNT=2\n"
		"env ONE=/dev/card0,/dev/card1\n"
		"annotation who=card0,card1\n"
		"cdi other.example/a=b\n"
		"cdi vendor.example/card=card0\n"
		"cdi vendor.example/card=card1\n");
	expect_spec(
		"{'cdiVersion':'0.3.0','devices':[{'containerEdits':{"
		"'deviceNodes':[{'path':'/dev/card0','permissions':'rw'}],'env':['A=b','ID_0=x'],"
		"'mounts':[{'containerPath':'/opt/tool','hostPath':'/opt/tool',"
		"'options':['rbind','rprivate','rw']}]},'name':'card0'},"
		"{'containerEdits':{'deviceNodes':[{'path':'/dev/card1','permissions':'rw'}],"
		"'env':['A=b','ID_1=x'],"
		"'mounts':[{'containerPath':'/opt/tool','hostPath':'/opt/tool',"
		"'options':['rbind','rprivate','rw']}]},'name':'card1'}],"
		"'kind':'vendor.example/card'}");
}

static void test_owner(void **state)
{
	host_mknod("/dev/card0");
	start(CARDS "cdi_spec = { kind = \"vendor.example/card\"; uid = 107; gid = 0; mode = "
		    "\"0640\"; };\n");
	expect_spec("{'cdiVersion':'0.3.0','devices':[{'containerEdits':{"
		    "'deviceNodes':[{'fileMode':416,'gid':0,'path':'/dev/card0',"
		    "'permissions':'rw','uid':107}]},'name':'card0'}],"
		    "'kind':'vendor.example/card'}");
}

static void test_answer_with_annotations(void **state)
{
	static const char *const replicas[] = { "card0#1", "card1#0", "card0#0" };

	host_mknod("/dev/card0");
	host_mknod("/dev/card1");
	start(CARDS "cdi_spec = { kind = \"vendor.example/card\"; annotations = true; };\n"
		    "share = { replicas = 2; };\n");
	expect_answer(replicas, 3,
		"annotation cdi.k8s.io/vendor.example_card="
		"vendor.example/card=card0,vendor.example/card=card1\n"
		"cdi vendor.example/card=card0\n"
		"cdi vendor.example/card=card1\n");
}

/* What would be an error without a file is one with it. */
static void test_answer_errors(void **state)
{
	static const char *const unknown[] = { "card7" };

	host_mknod("/dev/card0");
	host_mknod("/dev/card1");
	start("driver = \"path\"; match = ( { path = \"/dev/card*\"; type = \"device\"; as = "
	      "\"/dev/card\"; } );" KIND);
	expect_answer(both, 2,
		"/dev/card in the container would be both /dev/card0 (device \"card0\") and /dev/card1 "
		"(device \"card1\"): set a different path for each, or request one device of "
		"vendor.example/unit for a container");
	expect_answer(unknown, 1,
		"device \"card7\" does not exist in vendor.example/unit on this node: create the pod again to get another device");
}

/* A device without edits is in no document, so it must not be named. */
static void test_answer_without_edits(void **state)
{
	static const char *const one[] = { "unit-0" };

	start("driver = \"static\"; match = ( { count = 1; } );" KIND
	      "container = { env = ( \"IDS=${ids}\" ); };");
	expect_answer(one, 1, "env IDS=unit-0\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_annotation_key),
		cmocka_unit_test_setup_teardown(test_document, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_versions, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_without_driver, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_without_own_node, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_only_unhealthy, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_left_out, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_removed, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_P17_excluded, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_nothing, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_publication, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_too_long, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_answer, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_owner, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(
			test_answer_with_annotations, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_answer_errors, setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(
			test_answer_without_edits, setup, inventory_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
