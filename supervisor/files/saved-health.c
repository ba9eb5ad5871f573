/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how the health of devices survives a restart, and the last complete list of them a
 * reboot: in a file for each resource. The file never contains more than the process has sent, and
 * leaves room in the file system, because other programs use it, too.
 */
#include "supervisor/files/saved-health.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "common/control-child.h"
#include "common/foreign.h"
#include "common/replace-file.h"

/* The type is for people; the hash makes the name unique and its length bounded. */
void saved_health_name(const char *resource, char ret[static SAVED_HEALTH_NAME_MAX])
{
	const char *slash = strrchr(resource, '/');

	(void)snprintf(ret, SAVED_HEALTH_NAME_MAX, "%.63s-%016llx.json",
		slash ? slash + 1 : resource, (unsigned long long)hash_string(resource));
}

static int directory_of(struct runtime_files *files, enum saved_kind kind)
{
	return kind == SAVED_LIST ? runtime_files_lists_directory(files)
				  : runtime_files_health_directory(files);
}

int saved_health_open(struct saved_health *saved, struct runtime_files *files, enum saved_kind kind,
	const char *resource)
{
	int fd;

	*saved = (struct saved_health){ .files = files, .kind = kind, .fd = -EBADF };
	saved_health_name(resource, saved->name);
	fd = directory_of(files, kind);
	if (fd >= 0)
		fd = runtime_files_open_file(fd, saved->name);
	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
		return fd;
	saved->fd = fd < 0 ? -EBADF : fd;
	return 0;
}

void saved_health_take(struct saved_health *saved, int fd)
{
	saved_health_close(saved);
	saved->fd = fd;
	saved->pending = true;
}

static bool has_room(int fd, uint64_t size)
{
	struct statvfs st;
	uint64_t reserve;

	if (fstatvfs(fd, &st) < 0 || st.f_blocks == 0)
		return true;
	reserve = MIN_OF((uint64_t)SAVED_HEALTH_RESERVE, (uint64_t)st.f_blocks * st.f_frsize / 4);
	return (uint64_t)st.f_bavail * st.f_frsize >= reserve + size;
}

static int copy(int from, int to)
{
	struct stat st;
	off_t at = 0;

	if (fstat(from, &st) < 0)
		return -errno;
	if (st.st_size > (off_t)CONTROL_SAVED_STATE_MAX)
		return -EFBIG;
	if (!has_room(to, (uint64_t)st.st_size))
		return -ENOSPC;
	while (at < st.st_size) {
		ssize_t n = RETRY_ON_EINTR(sendfile(to, from, &at, (size_t)(st.st_size - at)));

		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
	}
	return 0;
}

int saved_health_write(struct saved_health *saved)
{
	_cleanup_close_ int to = -EBADF;
	int directory_fd, r;

	if (!saved->pending)
		return 0;
	directory_fd = directory_of(saved->files, saved->kind);
	if (directory_fd < 0)
		return directory_fd;
	to = replace_file_begin(directory_fd, saved->name, 0600);
	r = to < 0 ? to : replace_file_end(directory_fd, saved->name, copy(saved->fd, to));
	/* What is too large does not become smaller. */
	saved->pending = r < 0 && r != -EFBIG;
	return r;
}

void saved_health_write_again(struct saved_health *saved)
{
	saved->pending = saved->fd >= 0;
}

void saved_health_close(struct saved_health *saved)
{
	saved->fd = foreign_close(saved->fd);
	saved->pending = false;
}

void saved_health_remove(struct saved_health *saved)
{
	saved_health_close(saved);
	(void)unlinkat(directory_of(saved->files, saved->kind), saved->name, 0);
}

void saved_health_keep_only(
	struct runtime_files *files, enum saved_kind kind, const char *const *resources, size_t n)
{
	_cleanup_free_ char(*kept)[SAVED_HEALTH_NAME_MAX] = calloc(MAX_OF(n, 1U), sizeof(*kept));
	int fd = openat(directory_of(files, kind), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = kept && fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!stream) {
		(void)close_fd(fd);
		return;
	}
	for (size_t i = 0; i < n; i++)
		saved_health_name(resources[i], kept[i]);
	while ((entry = readdir(stream))) {
		bool is_kept = entry->d_name[0] == '.';

		for (size_t i = 0; i < n && !is_kept; i++)
			is_kept = streq(kept[i], entry->d_name);
		if (!is_kept)
			(void)unlinkat(fd, entry->d_name, 0);
	}
	(void)closedir(stream);
}
