/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are published: what a child may propose and what not, how they come and go, and what
 * becomes of those that a killed daemon left. Device information, too: how it is made.
 */
#include "host-fixture.h"

#include <sys/mman.h>

#include "common/log.h"
#include "common/replace-file.h"
#include "common/sealed.h"
#include "common/utf8.h"
#include "drivers/model/device-info.h"
#include "supervisor/files/published-table.h"
#include "supervisor/files/published.h"

static char cdi_dir[128], info_dir[128], run_dir[128];
static struct config *config;
static struct published *published;

#define SPEC                                                                             \
	"{'cdiVersion':'0.3.0','kind':'vendor.example/card','devices':[{'name':'card0'," \
	"'containerEdits':{'deviceNodes':[{'path':'/dev/card0','permissions':'rw'}]}}]}"
#define PCI(value) "{'type':'pci','version':'1.1.0','pci':{'pci-address':'" value "'}}"
#define INFO       PCI("0000:03:00.1")

/* Reads a configuration with these resources and directories. */
static struct config *load(const char *resources, const char *cdi, const char *info)
{
	_cleanup_report_ struct report report = { 0 };
	_cleanup_free_ char *text = NULL;
	struct config *loaded = NULL;
	char path[512];

	assert_true(
		asprintf(&text, "cdi_dir = \"%s\"; device_info_dir = \"%s\";\nresources = ( %s );",
			cdi, info, resources) > 0);
	host_write("/devplugd.conf", text);
	host_path(path, "/devplugd.conf");
	if (config_load(path, &report, &loaded) < 0)
		fail_msg("%s", report.count > 0 ? report.entries[0].text : "no reason given");
	return loaded;
}

#define CARD_OF(class)                                                                        \
	"{ name = \"vendor.example/card\"; driver = \"static\"; match = ( { count = 1; } ); " \
	"cdi_spec = { kind = \"vendor.example/" class "\"; }; }"
#define CARD CARD_OF("card")
#define NIC  "{ name = \"vendor.example/nic\"; driver = \"static\"; match = ( { id = \"n\"; } ); }"

/* Judges files by the resources of a configuration. */
static void judge_by(const struct config *accepted, bool complete)
{
	const struct declaration *declarations[8];
	struct published_judges judges = { .declarations = declarations, .complete = complete };

	assert_true(accepted->n_resources <= ARRAY_SIZE(declarations));
	for (size_t i = 0; i < accepted->n_resources; i++)
		declarations[judges.count++] = &accepted->resources[i].declaration;
	published_configure(published, config, &judges);
}

static void configure(const char *resources, const char *cdi, const char *info)
{
	struct config *old = config;

	config = load(resources, cdi, info);
	judge_by(config, true);
	(void)config_free(old);
}

static const struct declaration *find(const char *resource)
{
	const struct resource_config *found = config_find(config, resource);

	assert_non_null(found);
	return &found->declaration;
}

static int setup(void **state)
{
	log_setup("test-published", LOG_TARGET_TEXT, LOG_CRIT);
	if (host_setup(state) < 0)
		return -1;
	(void)snprintf(cdi_dir, sizeof(cdi_dir), "%s/deep/cdi", host_root);
	(void)snprintf(info_dir, sizeof(info_dir), "%s/info", host_root);
	(void)snprintf(run_dir, sizeof(run_dir), "%s/run", host_root);
	if (published_new(run_dir, &published) < 0)
		return -1;
	configure(CARD "," NIC, cdi_dir, info_dir);
	return 0;
}

static int teardown(void **state)
{
	published = published_free(published);
	config = config_free(config);
	return host_teardown(state);
}

/* A text with ' in place of ". */
static int sealed(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	int fd;

	assert_non_null(copy);
	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	fd = sealed_new("test", copy, strlen(copy));
	assert_true(fd >= 0);
	return fd;
}

static int take(const char *resource, const char *text, struct error *error)
{
	_cleanup_close_ int fd = sealed(text);

	return published_take(published, find(resource), fd, error);
}

static void take_well(const char *resource, const char *text)
{
	struct error error = { 0 };

	if (take(resource, text, &error) < 0)
		fail_msg("%s", error.message);
}

static bool is_there(const char *directory, const char *name)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	return access(path, F_OK) == 0;
}

static void put(const char *directory, const char *name)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", directory + strlen(host_root), name);
	host_write(path, "x");
}

static const char *list_name(const char *runtime_dir)
{
	static struct published_table table;

	published_table_init(&table, runtime_dir);
	return table.list;
}

static void write_list(const char *directory, const char *text)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", directory, list_name(run_dir));
	assert_int_equal(published_write_file(path, text), 0);
}

/* What a process that is killed while it replaces the file leaves. */
static const char *half_written(const char *name)
{
	static char temporary[64];

	(void)snprintf(temporary, sizeof(temporary),
		REPLACE_FILE_PREFIX "%016llx" REPLACE_FILE_SUFFIX,
		(unsigned long long)hash_string(name));
	return temporary;
}

#define CARD_FILE "devplugd-vendor.example=card.json"
#define NIC_FILE  "vendor.example-nic-0000:03:00.1-device.json"

static void test_come_and_go(void **state)
{
	char path[512];
	struct stat first, second;
	json_t *spec;

	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	(void)snprintf(path, sizeof(path), "%s/" CARD_FILE, cdi_dir);
	spec = json_load_file(path, 0, NULL);
	assert_string_equal(
		json_string_value(json_object_get(spec, "kind")), "vendor.example/card");
	json_decref(spec);
	assert_int_equal(stat(path, &first), 0);
	assert_int_equal(first.st_mode & 07777, 0644);

	/* Unchanged: not written; removed: written again. */
	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	assert_int_equal(stat(path, &second), 0);
	assert_int_equal(first.st_ino, second.st_ino);
	assert_int_equal(unlink(path), 0);
	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	assert_true(is_there(cdi_dir, CARD_FILE));

	take_well("vendor.example/nic", "{'device_info':{'0000:03:00.1':" INFO "}}");
	assert_true(is_there(info_dir, NIC_FILE));
	/* One resource's files are nothing to another. */
	take_well("vendor.example/card", "{}");
	assert_false(is_there(cdi_dir, CARD_FILE));
	assert_true(is_there(info_dir, NIC_FILE));
	take_well("vendor.example/nic", "{}");
	assert_false(is_there(info_dir, NIC_FILE));
	assert_false(is_there(info_dir, list_name(run_dir)));
	assert_false(is_there(cdi_dir, list_name(run_dir)));
}

/* A file of a resource that cannot propose it again is damaged only once. */
static void test_damage(void **state)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/" CARD_FILE, cdi_dir);
	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	assert_null(published_find_damage(published));
	assert_int_equal(unlink(path), 0);
	assert_string_equal(published_find_damage(published), path);
	published_forget_damage(published);
	assert_null(published_find_damage(published));
	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	assert_true(is_there(cdi_dir, CARD_FILE));
	assert_int_equal(unlink(path), 0);
	assert_string_equal(published_find_damage(published), path);
}

static void test_configuration(void **state)
{
	char other[160];

	(void)snprintf(other, sizeof(other), "%s/other", host_root);
	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	take_well("vendor.example/nic", "{'device_info':{'0000:03:00.1':" INFO "}}");
	put(cdi_dir, "vendor.json");
	put(cdi_dir, "devplugd-vendor.example=foreign.json");
	put(cdi_dir, ".devplugd-0123.tmp");
	configure(CARD "," NIC, cdi_dir, info_dir);
	assert_true(is_there(cdi_dir, CARD_FILE));
	assert_true(is_there(info_dir, NIC_FILE));
	assert_true(is_there(cdi_dir, "vendor.json"));
	assert_true(is_there(cdi_dir, "devplugd-vendor.example=foreign.json"));
	assert_true(is_there(cdi_dir, ".devplugd-0123.tmp"));

	configure(CARD, cdi_dir, info_dir);
	assert_true(is_there(cdi_dir, CARD_FILE));
	assert_false(is_there(info_dir, NIC_FILE));

	configure(CARD, other, other);
	assert_false(is_there(cdi_dir, CARD_FILE));
	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	assert_true(is_there(other, CARD_FILE));
	configure(
		"{ name = \"vendor.example/card\"; driver = \"static\"; match = ( { count = 1; } ); }",
		other, other);
	assert_false(is_there(other, CARD_FILE));
}

static void restart(void)
{
	published = published_free(published);
	assert_int_equal(published_new(run_dir, &published), 0);
}

/* Killed, stopped or updated: the files stay, and the next daemon knows them. */
static void test_restart(void **state)
{
	char other[128];

	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	take_well("vendor.example/nic", "{'device_info':{'0000:03:00.1':" INFO "}}");

	/* Until their resources publish others. */
	restart();
	configure(CARD "," NIC, cdi_dir, info_dir);
	assert_true(is_there(cdi_dir, CARD_FILE));
	assert_true(is_there(info_dir, NIC_FILE));
	take_well("vendor.example/nic", "{'device_info':{'0000:03:00.2':" PCI("0000:03:00.2") "}}");
	assert_false(is_there(info_dir, NIC_FILE));
	assert_true(is_there(info_dir, "vendor.example-nic-0000:03:00.2-device.json"));

	/* The resource is no longer declared. */
	restart();
	configure(CARD, cdi_dir, info_dir);
	assert_true(is_there(cdi_dir, CARD_FILE));
	assert_false(is_there(info_dir, "vendor.example-nic-0000:03:00.2-device.json"));
	restart();
	configure(NIC, cdi_dir, info_dir);
	assert_false(is_there(cdi_dir, CARD_FILE));
	assert_false(is_there(cdi_dir, list_name(run_dir)));

	/* In the middle of writing. */
	configure(CARD "," NIC, cdi_dir, info_dir);
	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	put(cdi_dir, half_written(CARD_FILE));
	put(cdi_dir, half_written(list_name(run_dir)));
	restart();
	configure(CARD "," NIC, cdi_dir, info_dir);
	assert_true(is_there(cdi_dir, CARD_FILE));
	assert_false(is_there(cdi_dir, half_written(CARD_FILE)));
	assert_false(is_there(cdi_dir, half_written(list_name(run_dir))));

	/* The directory is one that had files before. */
	(void)snprintf(other, sizeof(other), "%s/other", host_root);
	restart();
	configure(CARD "," NIC, other, other);
	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	configure(NIC, cdi_dir, info_dir);
	assert_false(is_there(cdi_dir, CARD_FILE));
	assert_false(is_there(other, CARD_FILE));
}

/* After a start, a CDI document may be another resource's, or needed again. */
static void test_restart_with_another_owner(void **state)
{
	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	restart();
	configure("{ name = \"vendor.example/renamed\"; driver = \"static\"; "
		  "match = ( { count = 1; } ); cdi_spec = { kind = \"vendor.example/card\"; }; }",
		cdi_dir, info_dir);
	assert_true(is_there(cdi_dir, CARD_FILE));
	take_well("vendor.example/renamed", "{'cdi':" SPEC "}");
	published_judge(published, find("vendor.example/renamed"));
	assert_true(is_there(cdi_dir, CARD_FILE));

	restart();
	configure(CARD_OF("other"), cdi_dir, info_dir);
	assert_false(is_there(cdi_dir, CARD_FILE));
}

/* They share the directories, and know their own files only. */
static void test_two_daemons(void **state)
{
	struct published *first = published;
	char other[128], path[512];

	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	take_well("vendor.example/nic", "{'device_info':{'0000:03:00.1':" INFO "}}");
	(void)snprintf(other, sizeof(other), "%s/run2", host_root);
	assert_int_equal(published_new(other, &published), 0);
	configure(CARD_OF("other"), cdi_dir, info_dir);
	take_well("vendor.example/card",
		"{'cdi':{'cdiVersion':'0.3.0','kind':'vendor.example/other','devices':[{'name':'a',"
		"'containerEdits':{'deviceNodes':[{'path':'/dev/a','permissions':'rw'}]}}]}}");
	assert_true(is_there(cdi_dir, list_name(run_dir)));
	assert_true(is_there(cdi_dir, list_name(other)));
	configure(NIC, cdi_dir, info_dir);
	assert_false(is_there(cdi_dir, "devplugd-vendor.example=other.json"));
	assert_false(is_there(cdi_dir, list_name(other)));
	published = published_free(published);
	published = first;
	assert_true(is_there(cdi_dir, CARD_FILE));
	assert_true(is_there(info_dir, NIC_FILE));
	assert_null(published_find_damage(published));

	/* Another process removes the list. */
	(void)snprintf(path, sizeof(path), "%s/%s", cdi_dir, list_name(run_dir));
	assert_int_equal(unlink(path), 0);
	assert_string_equal(published_find_damage(published), path);
	published_forget_damage(published);
	assert_null(published_find_damage(published));
	assert_true(is_there(cdi_dir, list_name(run_dir)));
}

/* As with a full disk. */
static void test_list_is_written_later(void **state)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "/info/%s/", list_name(run_dir));
	host_mkdir(path);
	take_well("vendor.example/nic", "{'device_info':{'0000:03:00.1':" INFO "}}");
	assert_false(published_save_list(published));
	(void)snprintf(path, sizeof(path), "%s/%s", info_dir, list_name(run_dir));
	assert_int_equal(rmdir(path), 0);
	assert_true(published_save_list(published));
	restart();
	configure(CARD, cdi_dir, info_dir);
	assert_false(is_there(info_dir, NIC_FILE));
}

#define GONE_FILE "vendor.example-gone-0000:03:00.2-device.json"

/* A list in a directory that others may write to names nothing elsewhere. */
static void test_P18_list_names_its_directory(void **state)
{
	char text[512], path[256];

	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	take_well("vendor.example/nic", "{'device_info':{'0000:03:00.1':" INFO "}}");
	put(cdi_dir, GONE_FILE);
	put(info_dir, GONE_FILE);
	(void)snprintf(text, sizeof(text),
		"vendor.example/gone %s/" GONE_FILE "\n"
		"vendor.example/gone ../deep/cdi/" GONE_FILE "\n"
		"vendor.example/gone ../deep/cdi/" CARD_FILE "\n"
		"vendor.example/gone " GONE_FILE "\n",
		cdi_dir);
	write_list(info_dir, text);
	restart();
	configure(CARD, cdi_dir, info_dir);
	assert_true(is_there(cdi_dir, GONE_FILE));
	assert_true(is_there(cdi_dir, CARD_FILE));
	assert_false(is_there(info_dir, GONE_FILE));
	/* Not through a link. */
	put(info_dir, GONE_FILE);
	(void)snprintf(text, sizeof(text), "%s/list", info_dir);
	assert_int_equal(published_write_file(text, "vendor.example/gone " GONE_FILE "\n"), 0);
	(void)snprintf(path, sizeof(path), "%s/%s", info_dir, list_name(run_dir));
	assert_int_equal(symlink(text, path), 0);
	restart();
	configure(CARD, cdi_dir, info_dir);
	assert_true(is_there(info_dir, GONE_FILE));
}

/* After a change by any process, and at any age of the file. */
static void test_P18_content_is_compared(void **state)
{
	struct stat before, after;
	char path[512];
	json_t *spec;

	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	(void)snprintf(path, sizeof(path), "%s/" CARD_FILE, cdi_dir);
	assert_int_equal(stat(path, &before), 0);
	put(cdi_dir, CARD_FILE);
	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	spec = json_load_file(path, 0, NULL);
	assert_non_null(spec);
	json_decref(spec);

	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(truncate(path, before.st_size - 1), 0);
	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_size, after.st_size);
	assert_int_equal(chmod(path, 0666), 0);
	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(after.st_mode & 07777, 0644);
}

/* What the list names is removed, so it must be what we would have written. */
static void test_P18_list_is_checked(void **state)
{
	static const char *const kept[] = {
		"victim",
		"victim-device.json",
		"x/y",
		"vendor.example-nic-0000:03:00.2-device.json",
		"vendor.example-other-0000:03:00.2-device.json",
		"vendor.example-nic--device.json",
		"..-nic-0000:03:00.2-device.json",
		"devplugd-left.json",
		"x/devplugd-a=b.json",
		"devplugd-a=b.json.txt",
	};

	host_mkdir("/info/x/");
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		put(info_dir, kept[i]);
	put(info_dir, GONE_FILE);
	put(info_dir, "devplugd-vendor.example=gone.json");
	write_list(info_dir,
		"vendor.example/nic victim\n"
		"vendor.example/nic victim-device.json\n"
		"vendor.example/nic x/y\n"
		"vendor.example/nic x/../vendor.example-nic-0000:03:00.2-device.json\n"
		"vendor.example/nic ./vendor.example-nic-0000:03:00.2-device.json\n"
		"vendor.example/nic vendor.example-other-0000:03:00.2-device.json\n"
		"vendor.example/nic vendor.example-nic--device.json\n"
		"../nic ..-nic-0000:03:00.2-device.json\n"
		"vendor.example-nic-0000:03:00.2-device.json\n"
		"\n"
		"vendor.example/nic devplugd-left.json\n"
		"vendor.example/nic x/devplugd-a=b.json\n"
		"vendor.example/nic devplugd-a=b.json.txt\n"
		"vendor.example/nic devplugd-vendor.example=gone.json\n"
		"vendor.example/gone " GONE_FILE "\n");
	restart();
	configure(CARD, cdi_dir, info_dir);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		assert_true(is_there(info_dir, kept[i]));
	assert_false(is_there(info_dir, GONE_FILE));
	assert_false(is_there(info_dir, "devplugd-vendor.example=gone.json"));
}

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

/* Files go when a resource is judged by another declaration, and not before. */
static void test_judges(void **state)
{
	_cleanup_config_ struct config *before = load(CARD "," NIC, cdi_dir, info_dir);

	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	put(cdi_dir, "devplugd-vendor.example=old.json");
	write_list(cdi_dir,
		"vendor.example/card " CARD_FILE "\n"
		"vendor.example/card devplugd-vendor.example=old.json\n");
	restart();
	config_free(config);
	config = load(CARD_OF("other") "," NIC, cdi_dir, info_dir);
	judge_by(before, false);
	assert_true(is_there(cdi_dir, CARD_FILE));
	assert_true(is_there(cdi_dir, "devplugd-vendor.example=old.json"));
	assert_false(published_is_complete(published));
	judge_by(before, true);
	assert_true(is_there(cdi_dir, CARD_FILE));
	assert_false(is_there(cdi_dir, "devplugd-vendor.example=old.json"));
	assert_true(published_is_complete(published));
	published_judge(published, find("vendor.example/nic"));
	assert_true(is_there(cdi_dir, CARD_FILE));
	published_judge(published, find("vendor.example/card"));
	assert_false(is_there(cdi_dir, CARD_FILE));
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

static void test_descriptors(void **state)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	char path[512];
	int fd;

	host_write("/plain", "{}");
	host_path(path, "/plain");
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(
		published_take(published, find("vendor.example/card"), fd, NULL), -EBADMSG);
	close_fd(fd);
	fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(sealed_read(fd, 100, &text, &size), -EBADMSG);
	close_fd(fd);
	fd = sealed("12345");
	assert_int_equal(sealed_read(fd, 4, &text, &size), -EFBIG);
	assert_int_equal(sealed_read(fd, 5, &text, &size), 0);
	assert_string_equal(text, "12345");
	assert_true(write(fd, "x", 1) < 0);
	close_fd(fd);
}

static void test_no_directory(void **state)
{
	struct error error = { 0 };
	char file[160];

	host_write("/file", "");
	(void)snprintf(file, sizeof(file), "%s/file", host_root);
	configure(CARD, file, info_dir);
	assert_int_equal(take("vendor.example/card", "{'cdi':" SPEC "}", &error), -ENOTDIR);
	assert_non_null(strstr(error.message, "cannot write "));
}

static void test_device_info(void **state)
{
	static const struct {
		const char *type, *expected; /* NULL: refused */
		struct device_info_member members[3];
	} cases[] = {
		{ "pci",
			"{\"type\":\"pci\",\"version\":\"1.1.0\",\"pci\":{\"pci-address\":"
			"\"0000:03:00.1\",\"pf-pci-address\":\"0000:03:00.0\"}}",
			{ { "pci-address", "0000:03:00.1" }, { "rdma-device", NULL },
				{ "pf-pci-address", "0000:03:00.0" } } },
		{ "vdpa",
			"{\"type\":\"vdpa\",\"version\":\"1.1.0\",\"vdpa\":{\"parent-device\":"
			"\"vdpa3\",\"driver\":\"vhost\",\"path\":\"/dev/vhost-vdpa0\"}}",
			{ { "parent-device", "vdpa3" }, { "driver", "vhost" },
				{ "path", "/dev/vhost-vdpa0" } } },
		{ "pci", NULL, { { "rdma-device", "mlx5_0" } } },
		{ "pci", NULL, { { "pci-address", "0000:03:00.1" }, { "mode", "b" } } },
		{ "pci", NULL, { { "pci-address", "a" } } },
		{ "vhost-user", NULL, { { "mode", "client" } } },
		{ "usb", NULL, { { "path", "a" } } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_device_ struct device *device = NULL, *other = NULL;
		int r;

		assert_int_equal(device_new("n", &device), 0);
		assert_int_equal(device_new("n", &other), 0);
		r = device_set_info(device, cases[i].type, cases[i].members,
			cases[i].members[2].name           ? 3
				: cases[i].members[1].name ? 2
							   : 1);
		assert_int_equal(r, cases[i].expected ? 0 : -EINVAL);
		if (cases[i].expected)
			assert_string_equal(device->info, cases[i].expected);
		else
			assert_null(device->info);
		assert_int_equal(device_equal(device, other), !cases[i].expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_come_and_go, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_configuration, setup, teardown),
		cmocka_unit_test_setup_teardown(test_restart, setup, teardown),
		cmocka_unit_test_setup_teardown(test_list_is_written_later, setup, teardown),
		cmocka_unit_test_setup_teardown(test_restart_with_another_owner, setup, teardown),
		cmocka_unit_test_setup_teardown(test_two_daemons, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_list_names_its_directory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_content_is_compared, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_list_is_checked, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hostile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_judges, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_policy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refusal_is_text, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_links_in_a_template, setup, teardown),
		cmocka_unit_test_setup_teardown(test_descriptors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_directory, setup, teardown),
		cmocka_unit_test(test_device_info),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
