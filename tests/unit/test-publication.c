/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a child may propose for publication and what not: the form of the document, and what the
 * configuration of its resource allows.
 */
#include "published-fixture.h"

#include "common/utf8.h"

#define DEVICE(edits)                                                                   \
	"{'cdi':{'cdiVersion':'0.3.0','kind':'vendor.example/card','devices':[{'name':" \
	"'card0','containerEdits':{" edits "}}]}}"
#define NAMED(name)                                                                           \
	"{'cdi':{'cdiVersion':'0.3.0','kind':'vendor.example/card','devices':[{'name':'" name \
	"','containerEdits':{'env':['A=b']}}]}}"

#define ABOUT(info) "{'device_info':{'0000:03:00.1':" info "}}"

#define TIMES_16(x) x x x x x x x x x x x x x x x x

static const char *const hostile[] = {
	"",
	"[]",
	"{",
	"{'cdi':" SPEC "} x",
	"{'cdi':" SPEC ",'cdi':" SPEC "}",
	"{'other':{}}",
	"{'cdi':[]}",
	"{'cdi':{}}",
	"{'device_info':[]}",
	/* another kind, a wrong version */
	"{'cdi':{'cdiVersion':'0.3.0','kind':'vendor.example/other','devices':[{'name':'a',"
	"'containerEdits':{'env':['A=b']}}]}}",
	"{'cdi':{'cdiVersion':'0.6.0','kind':'vendor.example/card','devices':[{'name':'a',"
	"'containerEdits':{'env':['A=b']}}]}}",
	"{'cdi':{'cdiVersion':3,'kind':'vendor.example/card','devices':[{'name':'a',"
	"'containerEdits':{'env':['A=b']}}]}}",
	/* no devices, edits for all containers */
	"{'cdi':{'cdiVersion':'0.3.0','kind':'vendor.example/card','devices':[]}}",
	"{'cdi':{'cdiVersion':'0.3.0','kind':'vendor.example/card'}}",
	"{'cdi':{'cdiVersion':'0.3.0','kind':'vendor.example/card','devices':[{'name':'a',"
	"'containerEdits':{'env':['A=b']}}],'containerEdits':{'env':['A=b']}}}",
	NAMED(""),
	NAMED("-a"),
	NAMED("a b"),
	NAMED("../a"),
	NAMED("a\\n"),
	NAMED("a\\u0000b"),
	DEVICE(""),
	DEVICE("'env':[]"),
	DEVICE("'env':['=b']"),
	DEVICE("'env':['A']"),
	DEVICE("'env':[1]"),
	DEVICE("'hooks':[{'hookName':'createRuntime','path':'/bin/sh'}]"),
	DEVICE("'env':['A=b'],'hooks':[]"),
	DEVICE("'env':['A=b'],'additionalGids':[0]"),
	DEVICE("'deviceNodes':[{'path':'dev/x','permissions':'rw'}]"),
	DEVICE("'deviceNodes':[{'path':'/dev/x'}]"),
	DEVICE("'deviceNodes':[{'path':'/dev/x','permissions':'rwx'}]"),
	DEVICE("'deviceNodes':[{'path':'/dev/x','permissions':'rw','major':1}]"),
	DEVICE("'mounts':[{'hostPath':'/a','containerPath':'/b'}]"),
	DEVICE("'mounts':[{'hostPath':'/a','containerPath':'/b','options':['suid']}]"),
	DEVICE("'mounts':[{'hostPath':'a','containerPath':'/b','options':['ro']}]"),
	/* runc follows the last one. */
	DEVICE("'mounts':[{'hostPath':'/a','containerPath':'/b','options':['ro','rw']}]"),
	DEVICE("'mounts':[{'hostPath':'/a','containerPath':'/b','options':['rw','rbind','ro']}]"),
	DEVICE("'mounts':[{'hostPath':'/a','containerPath':'/b','options':['ro','ro']}]"),
	DEVICE("'mounts':[{'hostPath':'/a','containerPath':'/b','options':['rbind','rprivate']}]"),
	DEVICE("'mounts':[{'hostPath':'/a','containerPath':'/b','options':['rbind','rbind','ro']}]"),
	DEVICE("'mounts':[{'hostPath':'/a','containerPath':'/b','options':[]}]"),
	/* PATH_MAX bytes with the zero byte are one too many. */
	DEVICE("'mounts':[{'hostPath':'/" TIMES_16(
		TIMES_16("aaaaaaaaaaaaaaaa")) "',"
					      "'containerPath':'/b','options':['ro']}]"),
	"{'device_info':{'../x':" INFO "}}",
	"{'device_info':{'a/b':" INFO "}}",
	ABOUT("{}"),
	ABOUT("{'type':'pci','version':'1.1.0','pci':{}}"),
	ABOUT("{'type':'usb','version':'1.1.0','usb':{'a':'b'}}"),
	/* The file of a resource whose name begins with ours. */
	"{'device_info':{'2-0000:03:00.1':" INFO "}}",
	"{'device_info':{'a':" INFO "}}",
	/* Another device, or no device. */
	ABOUT(PCI("0000:03:00.2")),
	ABOUT(PCI("../../../x")),
	ABOUT(PCI("0000:03:00.1\\u0000")),
	ABOUT("{'type':'pci','version':'1.1.0','pci':{'pci-address':'0000:03:00.1',"
	      "'pf-pci-address':'0000:03:00.0/../x'}}"),
	ABOUT("{'type':'pci','version':'1.1.0','pci':{'pci-address':'0000:03:00.1',"
	      "'rdma-device':'../mlx5_0'}}"),
	ABOUT("{'type':'pci','version':'1.1.0','pci':{'pci-address':'0000:03:00.1',"
	      "'vhost-net':'/dev/../etc/shadow'}}"),
	ABOUT("{'type':'pci','version':'1.1.0','pci':{'pci-address':'0000:03:00.1',"
	      "'representor-device':'..'}}"),
	ABOUT("{'type':'vdpa','version':'1.1.0','vdpa':{'parent-device':'vdpa0',"
	      "'driver':'vhost','path':'dev/vhost-vdpa-0'}}"),
	ABOUT("{'type':'vdpa','version':'1.1.0','vdpa':{'parent-device':'a/b',"
	      "'driver':'vhost','path':'/dev/vhost-vdpa-0'}}"),
	ABOUT("{'type':'vdpa','version':'1.1.0','vdpa':{'parent-device':'vdpa0',"
	      "'driver':'vhost','path':'/dev/vhost-vdpa-0','pci-address':'0000:03:00.2'}}"),
	ABOUT("{'type':'memif','version':'1.1.0','memif':{'role':'a\\nb','path':'/x',"
	      "'mode':'ip'}}"),
	ABOUT("{'type':'vhost-user','version':'1.1.0','vhost-user':{'mode':'client',"
	      "'path':'x'}}"),
};

static void test_hostile(void **state)
{
	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	for (size_t i = 0; i < ARRAY_SIZE(hostile); i++) {
		struct error error = { 0 };

		if (take("vendor.example/card", hostile[i], &error) != -EBADMSG)
			fail_msg("taken: %s", hostile[i]);
		assert_true(error.message[0] != '\0');
		assert_true(is_there(cdi_dir, CARD_FILE));
	}
	/* A resource without a kind. */
	assert_int_equal(take("vendor.example/nic", "{'cdi':" SPEC "}", NULL), -EBADMSG);
	assert_int_equal(published_failures(published), ARRAY_SIZE(hostile) + 1);
}

#define GIVING                                                                                                                               \
	"{ name = \"vendor.example/card\"; driver = \"static\"; match = ( { count = 1; } ); "                                                \
	"cdi_spec = { kind = \"vendor.example/card\"; gid = 44; mode = \"0660\"; }; container = { nodes = ( \"/x/node\", \"/x/n-${id}\" ); " \
	"mounts = ( { host = \"/opt/lib\"; read_only = true; }, { host = \"/data/${id}/x\"; }, "                                             \
	"{ host = \"/etc/lic-${id}\"; }, { host = \"/opt/a$$b\"; }, { host = \"/opt/[x]/y\"; }, { host = \"/n/${name}\"; }, "                \
	"{ host = \"/c/${id}\"; }, { host = \"/s${node}\"; } ); "                                                                            \
	"env = ( \"CARD=${id}\", \"V_${id}=1\", \"P_${env_name}=1\" ); }; }"
#define MOUNT(host, option) \
	DEVICE("'mounts':[{'hostPath':'" host "','containerPath':'/b','options':['" option "']}]")
#define OWNED_NODE(path, owner) \
	DEVICE("'deviceNodes':[{'path':'" path "','permissions':'rw'," owner "}]")
#define NODE(path) OWNED_NODE(path, "'gid':44,'fileMode':432")

#define BRINGING                                                                        \
	"{ name = \"vendor.example/card\"; driver = \"path\"; match = \"/dev/card*\"; " \
	"cdi_spec = { kind = \"vendor.example/card\"; }; container = { env = ( \"${id}=1\" ); }; }"

/* What the configuration of the resource does not name. */
static void test_P18_policy(void **state)
{
	static const struct {
		const char *text;
		bool good;
	} cases[] = {
		{ DEVICE("'env':['CARD=card-0','V_card=1']"), true },
		{ DEVICE("'env':['LD_PRELOAD=/x']"), false },
		{ DEVICE("'env':['CARDS=1']"), false },
		{ NODE("/dev/x"), true },
		{ NODE("/x/node"), true },
		{ NODE("/x/other"), false },
		{ NODE("/dev/../x"), false },
		{ DEVICE("'deviceNodes':[{'path':'/dev/x','permissions':'rw'}]"), false },
		{ OWNED_NODE("/dev/x", "'gid':0,'fileMode':432"), false },
		{ OWNED_NODE("/dev/x", "'gid':44,'fileMode':438"), false },
		{ OWNED_NODE("/dev/x", "'gid':44,'fileMode':432,'uid':0"), false },
		{ NODE("/dev/.."), false },
		{ MOUNT("/opt/lib", "ro"), true },
		{ MOUNT("/opt/lib", "rw"), false },
		{ MOUNT("/data/a/x", "rw"), true },
		{ MOUNT("/data/../etc", "rw"), false },
		{ MOUNT("/data/a/..", "rw"), false },
		{ MOUNT("/etc", "ro"), false },
		/* Nothing but what begins with the text before the variable. */
		{ MOUNT("/etc/lic-a", "rw"), true },
		{ MOUNT("/etc", "rw"), false },
		{ MOUNT("/etc/ssh", "rw"), false },
		{ MOUNT("/etc/shadow", "rw"), false },
		{ MOUNT("/etc/lic", "rw"), false },
		{ MOUNT("/etc/lic-a/b", "rw"), false },
		{ MOUNT("/etc/lic-/../ssh", "rw"), false },
		{ MOUNT("/data", "rw"), false },
		{ MOUNT("/data/", "rw"), false },
		{ MOUNT("/data//", "rw"), false },
		{ MOUNT("/c/a", "rw"), true },
		{ MOUNT("/c/a/b", "rw"), false },
		{ MOUNT("/c", "rw"), false },
		{ MOUNT("/c/", "rw"), false },
		{ MOUNT("/opt/a$b", "rw"), true },
		{ MOUNT("/opt/ab", "rw"), false },
		{ MOUNT("/opt/a", "rw"), false },
		{ MOUNT("/opt/[x]/y", "rw"), true },
		{ MOUNT("/opt/x/y", "rw"), false },
		{ MOUNT("/n/vendor.example/card", "rw"), true },
		{ MOUNT("/n/vendor.example/nic", "rw"), false },
		{ MOUNT("/s/dev/card0", "rw"), true },
		{ NODE("/x/n-1"), true },
		{ NODE("/x/n-1/y"), false },
		{ NODE("/x/m"), false },
		{ NODE("/x"), false },
		{ DEVICE("'env':['P_VENDOR_EXAMPLE_CARD=1']"), true },
		{ DEVICE("'env':['P_OTHER=1']"), false },
		{ DEVICE("'env':['P_VENDOR_EXAMPLE_CARDS=1']"), false },
		{ MOUNT("/", "rw"), false },
		{ MOUNT("//", "rw"), false },
	};
	/* A driver that brings mounts of its own, and a name that is a variable. */
	static const struct {
		const char *text;
		bool good;
	} of_driver[] = {
		{ MOUNT("/etc", "rw"), true },
		{ MOUNT("//", "rw"), false },
		{ MOUNT("/.", "rw"), false },
		{ MOUNT("/etc/..", "rw"), false },
		{ DEVICE("'deviceNodes':[{'path':'/srv/node','permissions':'rw'}]"), true },
		{ DEVICE("'env':['ANY=1']"), true },
		{ DEVICE("'env':['LD_PRELOAD=/x']"), false },
	};

	configure(GIVING, cdi_dir, info_dir);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error error = { 0 };
		int r = take("vendor.example/card", cases[i].text, &error);

		if (cases[i].good ? r < 0 : r != -EPERM)
			fail_msg("%d: %s: %s", r, cases[i].text, error.message);
	}
	configure(BRINGING, cdi_dir, info_dir);
	for (size_t i = 0; i < ARRAY_SIZE(of_driver); i++) {
		struct error error = { 0 };
		int r = take("vendor.example/card", of_driver[i].text, &error);

		if (of_driver[i].good ? r < 0 : r != -EPERM)
			fail_msg("%d: %s: %s", r, of_driver[i].text, error.message);
	}
}

/* A long value is cut between two characters. */
static void test_refusal_is_text(void **state)
{
	char value[256] = "", text[512];
	struct error error;

	for (size_t i = 0; i < 110; i++)
		(void)strcat(value, "\xc3\xa9");
	(void)snprintf(text, sizeof(text), DEVICE("'env':['X=%s']"), value);
	configure(CARD, cdi_dir, info_dir);
	assert_int_equal(take("vendor.example/card", text, &error), -EPERM);
	assert_non_null(strstr(error.message, "X=\xc3\xa9"));
	assert_true(utf8_is_valid(error.message));
	assert_null(strchr(error.message, '?'));
	(void)snprintf(text, sizeof(text), DEVICE("'env':['XY=%s']"), value);
	assert_int_equal(take("vendor.example/card", text, &error), -EPERM);
	assert_true(utf8_is_valid(error.message));
	assert_null(strchr(error.message, '?'));
}

/* Mounts are resolved in the document, so the text before the variable is compared with the links
 * of its directory resolved, too. */
static void test_P18_links_in_a_template(void **state)
{
	static const struct {
		const char *path;
		bool good;
	} cases[] = {
		{ "link/p-a", true },
		{ "real/p-a", true },
		{ "real/p-a/b", false },
		{ "real/q", false },
		{ "real", false },
		{ "link", false },
		{ "p-a", false },
	};
	char resources[512], text[1024];

	host_mkdir("/real");
	(void)snprintf(text, sizeof(text), "%s/link", host_root);
	assert_int_equal(symlink("real", text), 0);
	(void)snprintf(resources, sizeof(resources),
		"{ name = \"vendor.example/card\"; driver = \"static\"; match = ( { count = 1; } ); "
		"cdi_spec = { kind = \"vendor.example/card\"; }; container = { mounts = ( "
		"{ host = \"%s/link/p-${id}\"; } ); }; }",
		host_root);
	configure(resources, cdi_dir, info_dir);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error error = { 0 };
		int r;

		(void)snprintf(text, sizeof(text),
			"{'cdi':{'cdiVersion':'0.3.0','kind':'vendor.example/card','devices':[{'name':"
			"'card0','containerEdits':{'mounts':[{'hostPath':'%s/%s','containerPath':'/b',"
			"'options':['rw']}]}}]}}",
			host_root, cases[i].path);
		r = take("vendor.example/card", text, &error);
		if (cases[i].good ? r < 0 : r != -EPERM)
			fail_msg("%d: %s: %s", r, text, error.message);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_hostile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_policy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refusal_is_text, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_links_in_a_template, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
