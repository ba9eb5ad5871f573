/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the files of a configuration. A file is read once and whole, so that what was checked is
 * what is parsed; only included files are read again, by libconfig.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "config/source.h"

/* libconfig's own limit of @include within @include. */
#define INCLUDE_DEPTH_MAX 10

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

/* Where a file was asked for, and whether waiting for it would hold up the daemon. */
struct request {
	struct origin origin; /* line 0: by a person or a directory, else by @include */
	const char *path;
	bool no_waiting;
	unsigned depth;
	struct report *report;
};

static int complain(const struct request *request, int code, const char *what)
{
	bool included = request->origin.line > 0;
	int r = report_add(request->report, &request->origin, NULL, "%s%s%s%s",
		included ? "@include: " : "", included ? request->path : "", included ? " " : "",
		what);

	return r == -ENOMEM ? r : code;
}

static int complain_errno(const struct request *request, int code)
{
	char what[256];

	if (code == -ENOENT)
		return complain(request, code, "does not exist");
	(void)snprintf(what, sizeof(what), "cannot be read: %s", strerror(-code));
	return complain(request, code, what);
}

static int open_file(const struct request *request)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat status;

	fd = open(request->path,
		O_RDONLY | O_CLOEXEC | O_NOCTTY | (request->no_waiting ? O_NONBLOCK : 0));
	if (fd < 0)
		return complain_errno(request, -errno);
	if (fstat(fd, &status) < 0)
		return complain_errno(request, -errno);
	if (S_ISDIR(status.st_mode))
		return complain(request, -EISDIR, "is a directory, not a file");
	if (request->no_waiting && !S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode))
		return complain(request, -EINVAL, "is not a regular file");
	return TAKE_FD(fd);
}

/* Reads up to CONFIG_FILE_MAX bytes and ends them with a NUL. */
static int read_text(const struct request *request, int fd, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0, room = 0;

	for (;;) {
		ssize_t n;

		/* With a line end and a NUL behind it. */
		if (size + 2 >= room) {
			char *grown;

			room = room ? room * 2 : 16384;
			grown = realloc(text, room);
			if (!grown)
				return complain_errno(request, -ENOMEM);
			text = grown;
		}
		n = RETRY_ON_EINTR(read(fd, text + size, room - size - 2));
		if (n < 0)
			return complain_errno(request, -errno);
		if (n == 0)
			break;
		size += (size_t)n;
		if (size > CONFIG_FILE_MAX)
			return complain(
				request, -EFBIG, "is larger than 4 MiB, the most that is read");
	}
	/* libconfig 1.5 does not take a comment at the end for one. */
	if (size > 0 && text[size - 1] != '\n')
		text[size++] = '\n';
	text[size] = '\0';
	*ret_text = TAKE_PTR(text);
	*ret_size = size;
	return 0;
}

static int read_and_check(const struct request *request, char **ret_text);

static int on_include(const char *file, unsigned line, const char *included, void *userdata)
{
	const struct request *parent = userdata;
	struct request request = {
		.origin = { .file = file, .line = line },
		.path = included,
		.no_waiting = true,
		.depth = parent->depth + 1,
		.report = parent->report,
	};
	_cleanup_free_ char *text = NULL;
	int r;

	if (request.depth > INCLUDE_DEPTH_MAX)
		return complain(&request, -EINVAL,
			"is included by files that are included more "
			"than 10 deep");
	r = read_and_check(&request, &text);
	/* A file that cannot be included is a mistake of the text that includes it. */
	return r < 0 && r != -ENOMEM ? -EINVAL : r;
}

static int read_and_check(const struct request *request, char **ret_text)
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
	r = lexical_check(request->path, text, size, request->report, on_include, (void *)request);
	if (r < 0)
		return r;
	*ret_text = TAKE_PTR(text);
	return 0;
}

int source_read(const char *path, bool drop_in, struct report *report, char **ret_text)
{
	struct request request = {
		.origin = { .file = path },
		.path = path,
		.no_waiting = drop_in,
		.report = report,
	};

	return read_and_check(&request, ret_text);
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
		return errno == ENOENT ? 0 : complain_errno(&request, -errno);
	for (int i = 0; i < n; i++) {
		_cleanup_free_ char *path = NULL;

		if (r == 0 && asprintf(&path, "%s/%s", directory, entries[i]->d_name) < 0) {
			path = NULL;
			r = -ENOMEM;
		}
		if (r == 0)
			r = strings_add(paths, path, strlen(path));
		free(entries[i]);
	}
	free(entries);
	return r;
}
