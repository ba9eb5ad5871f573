/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the files of the host that a scan has read. A report of a host without the project's
 * hardware is a tree for a test, so it has each symbolic link on the way, which drivers follow, and
 * nothing that the scan did not read. Values that identify a machine are replaced: a file or line
 * whose name shows that is never printed as it is.
 */
#include "supervisor/ctl/dump-tree.h"

#include <ctype.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <sys/sysmacros.h>

#include "common/map.h"
#include "common/text.h"
#include "drivers/host/sysfs.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/option.h"

#define LINKS_MAX 40
#define TEXT_MAX  4096

static struct {
	pthread_mutex_t lock; /* attributes that the kernel locks are read in a thread */
	struct strings paths;
	struct map known;
	bool short_of_memory;
} record = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct dump {
	const char *root;
	struct strings lines;
	struct map known;     /* paths that have a line */
	struct strings names; /* those paths, and values that are replaced */
	struct map hidden;    /* the number of a replaced value */
	size_t n_hidden;
};

static void on_read(const char *path)
{
	(void)pthread_mutex_lock(&record.lock);
	if (path[0] == '/' && !map_get(&record.known, path)) {
		struct strings *paths = &record.paths;

		if (strings_add(paths, path, strlen(path)) < 0 ||
			map_put(&record.known, paths->items[paths->count - 1], &record) < 0)
			record.short_of_memory = true;
	}
	(void)pthread_mutex_unlock(&record.lock);
}

void dump_tree_begin(void)
{
	sysroot_observe(on_read);
}

/* --- values that identify a machine --- */

/* Parts of names, in lower case. */
static bool names_identity(const char *name, size_t length)
{
	static const char *const patterns[] = { "*serial*", "*uuid*", "*guid*", "*uniq*", "*_sn",
		"sn", "*wwid*", "*wwn*", "*nqn*", "eui", "address", "*vpd*", "*mac*" };
	char lower[64];

	length = MIN_OF(length, sizeof(lower) - 1);
	for (size_t i = 0; i < length; i++)
		lower[i] = (char)tolower((unsigned char)name[i]);
	lower[length] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
		if (fnmatch(patterns[i], lower, 0) == 0)
			return true;
	return false;
}

/* The number of a replaced value, from 1, or -ENOMEM. */
static int number_hidden(struct dump *dump, const char *value)
{
	uintptr_t known = (uintptr_t)map_get(&dump->hidden, value);

	if (known)
		return (int)known;
	if (strings_add(&dump->names, value, strlen(value)) < 0 ||
		map_put(&dump->hidden, dump->names.items[dump->names.count - 1],
			(void *)(uintptr_t)(dump->n_hidden + 1)) < 0)
		return -ENOMEM;
	return (int)++dump->n_hidden;
}

/* Writes a value of the same form: digits of UUIDs and addresses become 0 but for the last ones. A
 * value of zeros identifies nothing. */
static int hide(struct dump *dump, const char *value, FILE *stream)
{
	char digits[16], *copy;
	int number;
	size_t n;

	if (!value[strspn(value, "0:-")]) {
		(void)fputs(value, stream);
		return 0;
	}
	number = number_hidden(dump, value);
	if (number < 0)
		return number;
	if (value[strspn(value, "0123456789abcdefABCDEF:-")]) {
		(void)fprintf(stream, "hidden-%d", number);
		return 0;
	}
	copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	(void)snprintf(digits, sizeof(digits), "%d", number);
	n = strlen(digits);
	for (size_t i = strlen(copy); i-- > 0;)
		if (isxdigit((unsigned char)copy[i]))
			copy[i] = n > 0 ? digits[--n] : '0';
	(void)fputs(copy, stream);
	free(copy);
	return 0;
}

/* A line "NAME: VALUE", "NAME=VALUE" or "NAME VALUE". */
static int write_line(struct dump *dump, char *line, FILE *stream)
{
	char *separator = line + strcspn(line, ":="), *value;

	if (!*separator)
		separator = line + strcspn(line, " \t");
	if (!*separator || !names_identity(line, (size_t)(separator - line))) {
		(void)fputs(line, stream);
		return 0;
	}
	value = separator + 1 + strspn(separator + 1, " \t");
	(void)fprintf(stream, "%.*s", (int)(value - line), line);
	return hide(dump, value, stream);
}

/* Writes the text with "\n" for line breaks. */
static int write_text(struct dump *dump, const char *path, char *text, FILE *stream)
{
	const char *name = strrchr(path, '/') + 1;
	char *rest = text, *line;
	int r = 0;

	for (size_t length = strlen(text); length > 0 && text[length - 1] == '\n';)
		text[--length] = '\0';
	if (names_identity(name, strlen(name)))
		return hide(dump, text, stream);
	while (r >= 0 && (line = strsep(&rest, "\n"))) {
		r = write_line(dump, line, stream);
		if (rest)
			(void)fputs("\\n", stream);
	}
	return r;
}

/* --- files --- */

static bool has_text(const char *path)
{
	return startswith(path, "/sys/") || startswith(path, "/proc/");
}

static int read_text(const struct dump *dump, const char *path, char text[static TEXT_MAX])
{
	ssize_t n = has_text(path) ? sysroot_read(dump->root, path, text, TEXT_MAX) : 0;

	text[MAX_OF(n, (ssize_t)0)] = '\0';
	for (ssize_t i = 0; i < n; i++)
		if ((text[i] < ' ' && !strchr("\n\t", text[i])) || text[i] == 0x7f)
			text[0] = '\0';
	return n < 0 && sysroot_is_shortage((int)n) ? (int)n : 0;
}

static int add_path(struct dump *dump, const char *path, unsigned n_links);

/* A container gets all nodes in a directory, which a scan only lists. */
static int add_nodes_in(struct dump *dump, const char *path, const struct stat *st)
{
	_cleanup_strings_ struct strings names = { 0 };
	int r;

	if (!S_ISDIR(st->st_mode) || !startswith(path, "/dev/"))
		return 0;
	r = sysfs_list(dump->root, path, &names);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	for (size_t i = 0; i < names.count && r >= 0; i++) {
		_cleanup_free_ char *entry = NULL;

		r = format_text(&entry, "%s/%s", path, names.items[i]) < 0
			? -ENOMEM
			: add_path(dump, entry, 0);
	}
	return r;
}

/* Adds the line of a file whose path has no links but, perhaps, itself. */
static int add_line(struct dump *dump, const char *path, const struct stat *st, const char *target)
{
	_cleanup_free_ char *line = NULL;
	char text[TEXT_MAX];
	size_t size;
	FILE *stream;
	int r;

	if (map_get(&dump->known, path) || strpbrk(path, " \n") || strstr(path, "/by-id/"))
		return 0;
	r = strings_add(&dump->names, path, strlen(path));
	if (r >= 0)
		r = map_put(&dump->known, dump->names.items[dump->names.count - 1], dump);
	if (r < 0)
		return r;
	stream = open_memstream(&line, &size);
	if (!stream)
		return -ENOMEM;
	(void)fputs(path, stream);
	if (target)
		(void)fprintf(stream, " -> %s", target);
	else if (S_ISDIR(st->st_mode))
		(void)fputc('/', stream);
	else if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
		(void)fprintf(stream, " %c %u %u", S_ISCHR(st->st_mode) ? 'c' : 'b',
			major(st->st_rdev), minor(st->st_rdev));
	else {
		(void)fputs(" = ", stream);
		r = read_text(dump, path, text);
		if (r >= 0)
			r = write_text(dump, path, text, stream);
	}
	if (fclose(stream) != 0 || r < 0)
		return r < 0 ? r : -ENOMEM;
	r = strings_add(&dump->lines, line, strlen(line));
	return r < 0 || target ? r : add_nodes_in(dump, path, st);
}

/* Follows a link at `path` (its first `length` characters), behind which `rest` is. */
static int add_link(struct dump *dump, const char *path, const char *rest, const struct stat *st,
	unsigned n_links)
{
	_cleanup_free_ char *full = NULL, *next = NULL;
	char target[PATH_MAX];
	ssize_t n;
	int r;

	if (format_text(&full, "%s%s", dump->root, path) < 0)
		return -ENOMEM;
	n = readlink(full, target, sizeof(target) - 1);
	if (n < 0 || n_links >= LINKS_MAX)
		return 0;
	target[n] = '\0';
	r = add_line(dump, path, st, target);
	if (r >= 0)
		r = target[0] == '/'
			? format_text(&next, "%s%s", target, rest)
			: format_text(&next, "%.*s/%s%s", (int)(strrchr(path, '/') - path), path,
				  target, rest);
	return r < 0 ? -ENOMEM : add_path(dump, next, n_links + 1);
}

/* Adds a path and the links on the way to it. */
static int add_path(struct dump *dump, const char *path, unsigned n_links)
{
	_cleanup_free_ char *at = calloc(1, strlen(path) + 2);
	size_t length = 0;
	struct stat st;

	if (!at)
		return -ENOMEM;
	for (const char *p = path + strspn(path, "/"); *p;) {
		size_t part = strcspn(p, "/");
		_cleanup_free_ char *full = NULL;
		const char *rest = p + part;

		p = rest + strspn(rest, "/");
		if (part == 1 && rest[-1] == '.')
			continue;
		if (part == 2 && strncmp(rest - 2, "..", 2) == 0) {
			while (length > 0 && at[--length] != '/')
				;
			at[length] = '\0';
			continue;
		}
		at[length++] = '/';
		memcpy(at + length, rest - part, part);
		length += part;
		at[length] = '\0';
		if (format_text(&full, "%s%s", dump->root, at) < 0)
			return -ENOMEM;
		if (lstat(full, &st) < 0)
			return 0;
		if (S_ISLNK(st.st_mode))
			return add_link(dump, at, rest, &st, n_links);
	}
	return length > 0 ? add_line(dump, at, &st, NULL) : 0;
}

static void dump_done(struct dump *dump)
{
	map_done(&dump->known);
	map_done(&dump->hidden);
	strings_done(&dump->lines);
	strings_done(&dump->names);
}

int dump_tree_print(const char *root, struct error *error)
{
	_cleanup_(dump_done) struct dump dump = { .root = root };
	int r = 0;

	sysroot_observe(NULL);
	(void)pthread_mutex_lock(&record.lock);
	if (record.short_of_memory)
		r = -ENOMEM;
	for (size_t i = 0; i < record.paths.count && r >= 0; i++)
		r = add_path(&dump, record.paths.items[i], 0);
	(void)pthread_mutex_unlock(&record.lock);
	if (r < 0)
		return error_set(error, r, "cannot record what was read: %s", strerror(-r));
	strings_sort(&dump.lines);
	(void)puts(
		"# What devplugctl discover reads of a host. Serial numbers are replaced: read it before you send it.");
	for (size_t i = 0; i < dump.lines.count; i++)
		(void)puts(dump.lines.items[i]);
	return 0;
}
