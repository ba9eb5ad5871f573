/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which files make up a configuration, and reads them. A file is read once and completely,
 * and an included one replaces its "@include", so that the checked text is the parsed text.
 * libconfig 1.5 would read the file again, and search for it in the working directory.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "common/accounts.h"
#include "configuration/source.h"

#define INCLUDE_DEPTH_MAX 10
/* Included files may include others, so their number is limited. */
#define INCLUDES_MAX 256
#define SERVICE_USER "devplugd"

const char *source_name(struct source **sources, const char *path)
{
	size_t size = strlen(path) + 1;
	struct source *source;

	for (source = *sources; source; source = source->next)
		if (streq(source->path, path))
			return source->path;
	source = malloc(sizeof(*source) + size);
	if (!source)
		return NULL;
	memcpy(source->path, path, size);
	source->next = *sources;
	*sources = source;
	return source->path;
}

void sources_free(struct source *sources)
{
	while (sources) {
		struct source *next = sources->next;

		free(sources);
		sources = next;
	}
}

void source_text_done(struct source_text *text)
{
	free(text->text);
	free(text->parts);
	*text = (struct source_text){ 0 };
}

struct origin source_origin(const struct source_text *text, unsigned line)
{
	size_t i = text->n_parts - 1;

	while (i > 0 && text->parts[i].line > line)
		i--;
	return (struct origin){ .file = text->parts[i].origin.file,
		.line = line - text->parts[i].line + text->parts[i].origin.line };
}

/* A configuration file with all files that it includes. */
struct whole {
	struct source_text result;
	size_t size;
	unsigned lines;    /* that have ended */
	unsigned includes; /* so far */
	struct source **sources;
};

/* The place that names a file. */
struct request {
	struct origin origin; /* line 0: by a person or a directory, else by @include */
	const char *path;
	enum source_kind kind;
	unsigned depth;
	struct report *report;
	struct whole *whole;
	const char *next; /* the part of its text that is not in the whole yet, and its line */
	unsigned next_line;
};

static int report_problem(const struct request *request, int code, const char *what)
{
	bool included = request->origin.line > 0;
	int r = report_add(request->report, &request->origin, NULL, "%s%s%s%s",
		included ? "@include: " : "", included ? request->path : "", included ? " " : "",
		what);

	return r == -ENOMEM ? r : code;
}

static int report_errno(const struct request *request, int code)
{
	char what[256];

	if (code == -ENOENT)
		return report_problem(request, code, "does not exist");
	(void)snprintf(what, sizeof(what), "cannot be read: %s", strerror(-code));
	return report_problem(request, code, what);
}

/* --- whose it is --- */

/* Also trusts the user of the service, because root may check how the daemon would act. */
static bool is_trusted_user(uid_t uid)
{
	uid_t service;
	gid_t group;

	return uid == 0 || uid == geteuid() ||
		(account_find_user(SERVICE_USER, &service, &group) >= 0 && service == uid);
}

bool source_is_trusted(const struct stat *st)
{
	return is_trusted_user(st->st_uid) && !(st->st_mode & S_IWOTH) &&
		(!(st->st_mode & S_IWGRP) || st->st_gid == 0 || st->st_gid == getegid());
}

/* A directory that is itself mounted read-only, such as a ConfigMap. A directory that only the
 * sandbox of our service makes read-only does not count, because others can write to it. */
static bool is_read_only_volume(const char *directory)
{
	struct statvfs mount;
	struct statx status;

	return statvfs(directory, &mount) >= 0 && mount.f_flag & ST_RDONLY &&
		statx(AT_FDCWD, directory, 0, STATX_TYPE, &status) >= 0 &&
		status.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

/* In a sticky directory, no user can replace another user's file. */
static bool is_trusted_directory(const char *directory)
{
	struct stat st;

	if (stat(directory, &st) < 0)
		return false;
	if (is_read_only_volume(directory))
		return is_trusted_user(st.st_uid);
	if (st.st_mode & S_ISVTX)
		st.st_mode &= ~(mode_t)(S_IWOTH | S_IWGRP);
	return source_is_trusted(&st);
}

static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
}

/* Checks the directories of the configured name and of the file that it links to. */
static int check_directories(const struct request *request, int fd)
{
	char link[64], resolved[4096];
	const char *paths[] = { request->path, resolved };
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, resolved, sizeof(resolved) - 1);
	resolved[MAX_OF(n, 0)] = '\0';
	for (size_t i = 0; i < (n > 0 ? 2U : 1U); i++) {
		_cleanup_free_ char *directory = directory_of(paths[i]);
		char what[4400];

		if (!directory)
			return report_errno(request, -ENOMEM);
		if (is_trusted_directory(directory))
			continue;
		(void)snprintf(what, sizeof(what),
			"is not read: its directory %s must belong to root or to the user of "
			"devplugd, and others must not be able to write to it",
			directory);
		return report_problem(request, -EPERM, what);
	}
	return 0;
}

static int open_file(const struct request *request)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat status;
	int r;

	fd = open(request->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return report_errno(request, -errno);
	if (fstat(fd, &status) < 0)
		return report_errno(request, -errno);
	if (S_ISDIR(status.st_mode))
		return report_problem(request, -EISDIR, "is a directory, not a file");
	if (!S_ISREG(status.st_mode))
		return report_problem(request, -EINVAL, "is not a regular file");
	if (request->kind == SOURCE_PRESET)
		return TAKE_FD(fd);
	if (!source_is_trusted(&status))
		return report_problem(request, -EPERM,
			"is not read: it must belong to root or to the user of devplugd, and "
			"others must not be able to write to it");
	r = check_directories(request, fd);
	return r < 0 ? r : TAKE_FD(fd);
}

/* Reads up to CONFIG_FILE_MAX bytes and ends them with a NUL. */
static int read_text(const struct request *request, int fd, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0, room = 0;

	for (;;) {
		ssize_t n;

		/* Adds a line end and a NUL. */
		if (size + 2 >= room) {
			char *grown;

			room = room ? room * 2 : 16384;
			grown = realloc(text, room);
			if (!grown)
				return report_errno(request, -ENOMEM);
			text = grown;
		}
		n = RETRY_ON_EINTR(read(fd, text + size, room - size - 2));
		if (n < 0)
			return report_errno(request, -errno);
		if (n == 0)
			break;
		size += (size_t)n;
		if (size > CONFIG_FILE_MAX)
			return report_problem(request, -EFBIG, "is larger than 4 MiB, the maximum");
	}
	/* libconfig 1.5 does not recognise a comment without a line end at the end of the text. */
	if (size > 0 && text[size - 1] != '\n')
		text[size++] = '\n';
	text[size] = '\0';
	*ret_text = TAKE_PTR(text);
	*ret_size = size;
	return 0;
}

/* --- what it includes --- */

/* Appends the text of the file up to this place to the whole. */
static int append_until(struct request *request, const char *end)
{
	struct whole *whole = request->whole;
	struct source_text *result = &whole->result;
	size_t size = (size_t)(end - request->next);
	char *grown;

	if (whole->size + size > CONFIG_FILE_MAX)
		return report_problem(request, -EFBIG,
			"is too large: a file and the files that it includes may have 4 MiB together");
	grown = realloc(result->text, whole->size + size + 1);
	if (!grown)
		return -ENOMEM;
	result->text = grown;
	if (array_reserve((void **)&result->parts, result->n_parts, sizeof(*result->parts)) < 0)
		return -ENOMEM;
	result->parts[result->n_parts++] = (struct source_part){
		.line = whole->lines + 1,
		.origin = { .file = request->path, .line = request->next_line },
	};
	for (const char *p = request->next; p < end; p++)
		whole->lines += *p == '\n';
	*(char *)mempcpy(result->text + whole->size, request->next, size) = '\0';
	whole->size += size;
	return 0;
}

/* The name of an included file, which is relative to the directory of the one that includes it. */
static int find_included(const struct request *parent, const char *included, const char **ret_path)
{
	_cleanup_free_ char *directory = NULL, *path = NULL;

	if (included[0] != '/') {
		directory = directory_of(parent->path);
		if (!directory || format_text(&path, "%s/%s", directory, included) < 0)
			return -ENOMEM;
	}
	*ret_path = source_name(parent->whole->sources, path ?: included);
	return *ret_path ? 0 : -ENOMEM;
}

static int read_and_check(struct request *request);

static int on_include(const struct lexical_include *include, void *userdata)
{
	struct request *parent = userdata;
	struct request request = {
		.origin = { .file = parent->path, .line = include->line },
		.path = include->path,
		.kind = parent->kind,
		.depth = parent->depth + 1,
		.report = parent->report,
		.whole = parent->whole,
	};
	int r;

	if (request.depth > INCLUDE_DEPTH_MAX)
		return report_problem(&request, -EINVAL, "is included more than 10 levels deep");
	if (++parent->whole->includes > INCLUDES_MAX)
		return report_problem(
			&request, -EINVAL, "is one of more than 256 included files, the maximum");
	r = append_until(parent, include->begin);
	if (r < 0)
		return r;
	parent->next = include->end;
	parent->next_line = include->line;
	r = find_included(parent, include->path, &request.path);
	if (r >= 0)
		r = read_and_check(&request);
	/* A file that cannot be included is a mistake of the text that includes it. */
	return r < 0 && r != -ENOMEM ? -EINVAL : r;
}

static int read_and_check(struct request *request)
{
	static const char byte_order_mark[] = "\xef\xbb\xbf";
	_cleanup_close_ int fd = -EBADF;
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	int r;

	fd = open_file(request);
	if (fd < 0)
		return fd;
	r = read_text(request, fd, &text, &size);
	if (r < 0)
		return r;
	if (startswith(text, byte_order_mark))
		memset(text, ' ', strlen(byte_order_mark));
	request->next = text;
	request->next_line = 1;
	r = lexical_check(request->path, text, size, request->report, on_include, request);
	return r < 0 ? r : append_until(request, text + size);
}

int source_read(const char *path, enum source_kind kind, struct source **sources,
	struct report *report, struct source_text *ret_text)
{
	struct whole whole = { .sources = sources };
	struct request request = {
		.origin = { .file = path },
		.path = source_name(sources, path),
		.kind = kind,
		.report = report,
		.whole = &whole,
	};
	int r = request.path ? read_and_check(&request) : -ENOMEM;

	if (r < 0) {
		source_text_done(&whole.result);
		return r;
	}
	*ret_text = whole.result;
	return 0;
}

static int is_drop_in(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return entry->d_name[0] != '.' && length > strlen(".conf") &&
		streq(entry->d_name + length - strlen(".conf"), ".conf");
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

int source_list_drop_ins(const char *directory, struct report *report, struct strings *paths)
{
	struct request request = {
		.origin = { .file = directory },
		.path = directory,
		.report = report,
	};
	struct dirent **entries;
	int n, r = 0;

	n = scandir(directory, &entries, is_drop_in, compare_names);
	if (n < 0)
		return errno == ENOENT ? 0 : report_errno(&request, -errno);
	for (int i = 0; i < n; i++) {
		_cleanup_free_ char *path = NULL;

		if (r == 0 && format_text(&path, "%s/%s", directory, entries[i]->d_name) < 0)
			r = -ENOMEM;
		if (r == 0)
			r = strings_add(paths, path, strlen(path));
		free(entries[i]);
	}
	free(entries);
	return r;
}
