/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How published files are written and removed, and how files that a killed daemon left are treated.
 * How device information is made.
 */
#include "published-fixture.h"

#include <sys/mman.h>

#include "common/replace-file.h"
#include "drivers/model/device-info.h"
#include "supervisor/files/published-table.h"

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
	assert_int_equal(replace_file(AT_FDCWD, path, 0644, text, strlen(text)), 0);
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
	assert_false(drop_left(NULL, UINT64_MAX));
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
	assert_false(drop_left(NULL, UINT64_MAX));
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
	assert_false(drop_left(NULL, UINT64_MAX));
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
	assert_false(drop_left(NULL, UINT64_MAX));
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
	assert_false(drop_left(NULL, UINT64_MAX));
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

#define GONE_LINE "vendor.example/gone " GONE_FILE "\n"
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
	assert_int_equal(replace_file(AT_FDCWD, text, 0644, GONE_LINE, strlen(GONE_LINE)), 0);
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

static void put_claim(const char *key)
{
	struct error error = { 0 };

	assert_int_equal(published_put_claim(published, key, "{}", NULL, 0, &error), 0);
}

/* Fails unless the list in cdi_dir is this text. Returns its inode. */
static ino_t check_list(const char *text)
{
	_cleanup_free_ char *found = NULL;
	char path[512];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/%s", cdi_dir, list_name(run_dir));
	assert_int_equal(published_read(path, 4096, &found), 0);
	assert_string_equal(found, text);
	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

/* New files are appended; any other change, and what others have made of the list, replaces it. */
static void test_P18_list_grows(void **state)
{
	char path[512];
	ino_t first;

	put_claim("a");
	first = check_list("claims devplugd.dra-a.json\n");
	put_claim("b");
	assert_int_equal(
		check_list("claims devplugd.dra-a.json\nclaims devplugd.dra-b.json\n"), first);
	published_drop_claim(published, "a");
	assert_int_not_equal(check_list("claims devplugd.dra-b.json\n"), first);
	write_list(cdi_dir, "x");
	put_claim("c");
	(void)check_list("claims devplugd.dra-b.json\nclaims devplugd.dra-c.json\n");
	/* A daemon that was killed has written a part of a line. */
	write_list(cdi_dir, "claims devplugd.dra-b.json\nclaims devplugd.dr");
	restart();
	configure(CARD "," NIC, cdi_dir, info_dir);
	put_claim("d");
	(void)check_list("claims devplugd.dra-b.json\nclaims devplugd.dra-d.json\n");
	published_drop_claim(published, "b");
	published_drop_claim(published, "d");
	(void)snprintf(path, sizeof(path), "%s/%s", cdi_dir, list_name(run_dir));
	assert_int_equal(access(path, F_OK), -1);
	put_claim("e");
	(void)check_list("claims devplugd.dra-e.json\n");
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
	assert_false(drop_left(NULL, UINT64_MAX));
	assert_false(is_there(cdi_dir, "devplugd-vendor.example=old.json"));
	assert_true(published_is_complete(published));
	published_judge(published, find("vendor.example/nic"));
	assert_true(is_there(cdi_dir, CARD_FILE));
	published_judge(published, find("vendor.example/card"));
	assert_false(drop_left(NULL, UINT64_MAX));
	assert_false(is_there(cdi_dir, CARD_FILE));
}

#define WITHOUT_SPEC \
	"{ name = \"vendor.example/card\"; driver = \"static\"; match = ( { count = 1; } ); }"

/* A file that pods may need stays when nothing publishes it any more, over a restart, until it is
 * not named, and not only just left. */
static void test_P22_left_for_pods(void **state)
{
	char other[160], path[512];
	uint64_t before = now_usec(CLOCK_MONOTONIC);

	(void)snprintf(other, sizeof(other), "%s/other", host_root);
	(void)snprintf(path, sizeof(path), "%s/" CARD_FILE, cdi_dir);
	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	/* It is published: not named is nothing to it. */
	assert_false(drop_left(NULL, UINT64_MAX));
	configure(WITHOUT_SPEC "," NIC, cdi_dir, info_dir);
	published_judge(published, find("vendor.example/card"));
	take_well("vendor.example/card", "{}");
	assert_true(is_there(cdi_dir, CARD_FILE));
	/* A pod that got the name just before may not be in the checkpoint yet. */
	assert_true(drop_left(NULL, before));
	assert_true(is_there(cdi_dir, CARD_FILE));
	assert_false(drop_left("vendor.example/card", UINT64_MAX));
	restart();
	configure(NIC, cdi_dir, info_dir);
	assert_false(drop_left("vendor.example/card", UINT64_MAX));
	assert_true(is_there(cdi_dir, CARD_FILE));
	/* No resource can write it again. */
	assert_null(published_find_damage(published));
	assert_false(drop_left("vendor.example/card2", UINT64_MAX));
	assert_false(is_there(cdi_dir, CARD_FILE));
	assert_false(is_there(cdi_dir, list_name(run_dir)));

	/* The key is there again, or another resource has it. */
	configure(CARD, cdi_dir, info_dir);
	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	configure(WITHOUT_SPEC, cdi_dir, info_dir);
	configure(CARD, cdi_dir, info_dir);
	assert_false(drop_left(NULL, UINT64_MAX));
	assert_true(is_there(cdi_dir, CARD_FILE));
	take_well("vendor.example/card", "{'cdi':" SPEC "}");
	configure("{ name = \"vendor.example/renamed\"; driver = \"static\"; "
		  "match = ( { count = 1; } ); cdi_spec = { kind = \"vendor.example/card\"; }; }",
		cdi_dir, info_dir);
	take_well("vendor.example/renamed", "{'cdi':" SPEC "}");
	assert_false(drop_left(NULL, UINT64_MAX));
	assert_true(is_there(cdi_dir, CARD_FILE));
	assert_int_equal(unlink(path), 0);
	assert_string_equal(published_find_damage(published), path);

	/* The runtime reads another directory now. */
	take_well("vendor.example/renamed", "{'cdi':" SPEC "}");
	configure(CARD, other, info_dir);
	assert_false(is_there(cdi_dir, CARD_FILE));
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
		cmocka_unit_test_setup_teardown(test_P18_list_grows, setup, teardown),
		cmocka_unit_test_setup_teardown(test_judges, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P22_left_for_pods, setup, teardown),
		cmocka_unit_test_setup_teardown(test_descriptors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_directory, setup, teardown),
		cmocka_unit_test(test_device_info),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
