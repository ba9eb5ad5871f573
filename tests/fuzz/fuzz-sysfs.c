/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host that is not the kernel's: the bytes are lines of a tree as in tests/peers, of which any
 * may be garbage, and every driver lists what it finds there, with the declarations of
 * docs/examples/driver-*.conf and of all presets. Never a crash, and never an id that is not one.
 *
 *   /PATH = VALUE     a file; "\n" and "\xHH" stand for bytes, in paths and targets, too
 *   /PATH * NUMBER    a file of so many KiB
 *   /PATH -> TARGET   a symbolic link
 *   /PATH/            a directory
 *   /PATH c ...       a node; here a FIFO, because nothing may depend on what a node is
 */
#include <ctype.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "configuration/config.h"
#include "configuration/preset.h"
#include "drivers/host/scan-run.h"
#include "drivers/host/sysfs.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/driver.h"
#include "fuzz-device.h"

#define LINES_MAX 600
#define LARGE_MAX 2048 /* KiB */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* libconfig 1.5 loses what it was reading at a syntax error. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libconfig.so\n";
}

static char root[64];

/* Drivers whose list() reads something other than the tree. */
static const char *const others[] = { "exec", "nvml", NULL };

static struct config *configs[256];
static size_t n_configs;

/* --- declarations --- */

static bool is_other(const struct driver *driver)
{
	for (size_t i = 0; others[i]; i++)
		if (streq(driver->name, others[i]))
			return true;
	return false;
}

static void keep(struct config *config)
{
	assert(n_configs < ARRAY_SIZE(configs));
	configs[n_configs++] = config;
}

static void fail(const struct report *report)
{
	(void)fprintf(stderr, "%s\n", report->count > 0 ? report->entries[0].text : "no reason");
	abort();
}

static void load_text(const char *text)
{
	_cleanup_report_ struct report report = { 0 };
	struct config *config;

	if (config_load_resource(text, &report, &config) < 0)
		fail(&report);
	keep(config);
}

static void load_examples(void)
{
	for (size_t i = 0; drivers[i]; i++) {
		_cleanup_report_ struct report report = { 0 };
		struct config *config;
		char path[512];

		if (is_other(drivers[i]))
			continue;
		(void)snprintf(path, sizeof(path), SOURCE_DIR "/docs/examples/driver-%s.conf",
			drivers[i]->name);
		if (config_load_alone(path, &report, &config) < 0)
			fail(&report);
		keep(config);
	}
}

static void load_presets(void)
{
	_cleanup_strings_ struct strings names = { 0 };
	struct error error;

	if (preset_list(&names, &error) < 0)
		abort();
	for (size_t i = 0; i < names.count; i++) {
		char text[300];

		(void)snprintf(text, sizeof(text), "name = \"vendor.example/a\"; preset = \"%s\";",
			names.items[i]);
		load_text(text);
	}
}

/* Entries that nearly everything meets. */
static void load_broad(void)
{
	static const char *const subsystems[] = { "accel", "block", "dsa", "misc", "pci", "tty",
		"usb", "video4linux", NULL };

	for (size_t i = 0; subsystems[i]; i++) {
		char text[300];

		(void)snprintf(text, sizeof(text),
			"name = \"vendor.example/a\"; driver = \"sysfs\"; match = ( { subsystem = "
			"\"%s\"; child_nodes = true; group = \"%s\"; } );",
			subsystems[i], i % 2 ? "parent" : "none");
		load_text(text);
	}
	load_text("name = \"vendor.example/a\"; driver = \"usb\"; match = ( { port = \"*\"; } );");
	load_text("name = \"vendor.example/a\"; driver = \"path\"; match = ( \"/*/*/*\", "
		  "\"/sys/*/*/*/*\" );");
}

static void finish(void)
{
	for (size_t i = 0; i < n_configs; i++)
		(void)config_free(configs[i]);
	(void)rmdir(root);
}

static void start(void)
{
	static const char *const places[] = { "/dev/shm", "/tmp" };

	for (size_t i = 0; i < ARRAY_SIZE(places) && !*root; i++) {
		(void)snprintf(root, sizeof(root), "%s/fuzz-sysfs.XXXXXX", places[i]);
		if (!mkdtemp(root))
			*root = '\0';
	}
	if (!*root || atexit(finish) != 0)
		abort();
	load_examples();
	load_presets();
	load_broad();
}

/* --- the tree --- */

/* "\n" and "\xHH" become bytes; a NUL would end the text. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from;) {
		unsigned byte;
		int length;

		if (from[0] == '\\' && from[1] == 'n') {
			*to++ = '\n';
			from += 2;
		} else if (sscanf(from, "\\x%2x%n", &byte, &length) == 1 && byte != 0) {
			*to++ = (char)byte;
			from += length;
		} else
			*to++ = *from++;
	}
	*to = '\0';
}

/* Opens the directory of the last component of the path after making those above. No link leads out
 * of the root. */
static int open_parent(char *path, const char **ret_name)
{
	char *slash = path;
	int fd;

	while ((slash = strchr(slash + 1, '/'))) {
		const char *name;

		*slash = '\0';
		name = strrchr(path, '/');
		*(char *)name = '\0';
		fd = sysroot_open(root, *path ? path : "/", O_PATH | O_DIRECTORY);
		*(char *)name = '/';
		if (fd >= 0 && name[1])
			(void)mkdirat(fd, name + 1, 0755);
		close_fd(fd);
		*slash = '/';
	}
	slash = strrchr(path, '/');
	*ret_name = slash + 1;
	*slash = '\0';
	fd = sysroot_open(root, *path ? path : "/", O_PATH | O_DIRECTORY);
	*slash = '/';
	return fd;
}

static void write_file(int parent, const char *name, const char *text, size_t large)
{
	_cleanup_close_ int fd = openat(parent, name,
		O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);

	if (fd < 0)
		return;
	(void)!write(fd, text, strlen(text));
	if (large > 0 && ftruncate(fd, (off_t)MIN_OF(large, (size_t)LARGE_MAX) * 1024) < 0)
		abort();
}

static void plant(char *line)
{
	char *space = strchr(line, ' ');
	_cleanup_close_ int parent = -EBADF;
	char *value = NULL;
	const char *name;
	char kind = '/';

	if (line[0] != '/')
		return;
	if (space) {
		*space = '\0';
		kind = space[1];
		value = space[1] ? space + 2 + strcspn(space + 2, " ") : space + 1;
		value += *value == ' ';
		unescape(value);
	}
	unescape(line);
	parent = open_parent(line, &name);
	if (parent < 0 || !*name || streq(name, ".") || streq(name, ".."))
		return;
	if (kind == '=')
		write_file(parent, name, value, 0);
	else if (kind == '*')
		write_file(parent, name, "large\n", (size_t)strtoul(value, NULL, 10));
	else if (kind == '-')
		(void)symlinkat(value, parent, name);
	else if (kind == 'c' || kind == 'b')
		(void)mknodat(parent, name, S_IFCHR | 0600, makedev(0, 0));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
	if (where->level > 0 && remove(path) < 0)
		abort();
	return 0;
}

/* --- what must be so --- */

static void check_device(const struct scan *scan, const struct device *device)
{
	demand_device(device);
	for (const char *p = device->id; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._:@+=-", *p))
			abort();
	if (map_get(&scan->by_id, device->id) != device)
		abort();
}

/* Some of what drivers ask about was there before. */
static bool lists(const void *userdata, const char *id, const struct device **ret_device)
{
	return hash_string(id) % 3 == 0;
}

static void list_all(void)
{
	for (size_t i = 0; i < n_configs; i++)
		for (size_t k = 0; k < configs[i]->n_resources; k++) {
			const struct declaration *declaration =
				&configs[i]->resources[k].declaration;
			_cleanup_scan_ struct scan scan = { .root = root, .lists = lists };
			struct error error = { 0 };

			if (is_other(declaration->driver))
				continue;
			if (declaration->driver->list(declaration, &scan, &error) < 0 &&
				!error.message[0])
				abort();
			for (size_t n = 0; n < scan.n_devices; n++)
				check_device(&scan, scan.devices[n]);
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = strndup((const char *)data, size);
	char *rest = text, *line;
	size_t n = 0;

	if (!*root)
		start();
	if (!text)
		abort();
	while ((line = strsep(&rest, "\n")) && n++ < LINES_MAX)
		plant(line);
	list_all();
	(void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}
