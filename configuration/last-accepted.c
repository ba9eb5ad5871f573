/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the text of the last accepted configuration, and decides whether a saved one may be used:
 * it is trusted like any configuration file, of this boot, and has the right checksum. Its first
 * lines are comments with the boot and the checksum of what follows, so the file is an ordinary
 * configuration. supervisor/main.c uses it at a start; after a reload that fails, reload.c keeps
 * the configuration in use. The file is read only once, so that the checked text is the text that
 * is used.
 */
#include "configuration/last-accepted.h"

#include <fcntl.h>

#include "common/boot-id.h"
#include "configuration/source.h"

#define BOOT_LINE "# The configuration that devplugd has in force. Accepted in boot "
#define SUM_LINE  "# Checksum of what follows: "
#define SUM_CHARS 16

int last_accepted_text(const struct config *config, char **ret, size_t *ret_size)
{
	_cleanup_free_ char *text = NULL;
	const char *boot = boot_id();
	char checksum[SUM_CHARS + 1], *sum;
	size_t size;
	FILE *stream;
	int r;

	if (!boot)
		return -EIO;
	stream = open_memstream(&text, &size);
	if (!stream)
		return -ENOMEM;
	/* The checksum is filled in when the rest is complete. */
	(void)fprintf(stream, BOOT_LINE "%s\n" SUM_LINE "%*s\n", boot, SUM_CHARS, "");
	r = config_dump(config, stream);
	if (fclose(stream) != 0 || r < 0)
		return -ENOMEM;
	sum = text + strlen(BOOT_LINE) + strlen(boot) + 1 + strlen(SUM_LINE);
	(void)snprintf(checksum, sizeof(checksum), "%016llx",
		(unsigned long long)hash_string(sum + SUM_CHARS + 1));
	memcpy(sum, checksum, SUM_CHARS);
	*ret = TAKE_PTR(text);
	*ret_size = size;
	return 0;
}

/* Trusts only a directory and a file that other users cannot write to, because the file is
 * configuration. */
static int open_trusted(const char *runtime_dir, struct stat *ret_stat)
{
	_cleanup_close_ int directory_fd = -EBADF, fd = -EBADF;

	directory_fd = open(runtime_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (directory_fd < 0 || fstat(directory_fd, ret_stat) < 0)
		return -errno;
	if (!source_is_trusted(ret_stat))
		return -EPERM;
	fd = openat(
		directory_fd, LAST_ACCEPTED_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, ret_stat) < 0)
		return -errno;
	if (!S_ISREG(ret_stat->st_mode))
		return -EINVAL;
	return source_is_trusted(ret_stat) ? TAKE_FD(fd) : -EPERM;
}

static int read_whole(const char *runtime_dir, char **ret, size_t *ret_size)
{
	_cleanup_close_ int fd = -EBADF;
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	struct stat st;

	fd = open_trusted(runtime_dir, &st);
	if (fd < 0)
		return fd;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	while (size < (size_t)st.st_size) {
		ssize_t n = RETRY_ON_EINTR(read(fd, text + size, (size_t)st.st_size - size));

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		size += (size_t)n;
	}
	text[size] = '\0';
	*ret = TAKE_PTR(text);
	*ret_size = size;
	return 0;
}

/* Whether the text is from the current boot and complete. */
static int check_head(const char *path, const char *text, size_t size, struct error *error)
{
	const char *boot = boot_id(), *rest;
	char checksum[SUM_CHARS + 2];

	if (!boot)
		return error_set(error, -EIO, "the boot id of the kernel cannot be read");
	rest = startswith(text, BOOT_LINE);
	rest = rest ? startswith(rest, boot) : NULL;
	if (!rest || *rest != '\n')
		return error_set(
			error, -ESTALE, "%s was written before the last boot of the host", path);
	rest = startswith(rest + 1, SUM_LINE);
	if (rest && strlen(rest) > SUM_CHARS && strlen(text) == size) {
		(void)snprintf(checksum, sizeof(checksum), "%016llx\n",
			(unsigned long long)hash_string(rest + SUM_CHARS + 1));
		if (startswith(rest, checksum))
			return 0;
	}
	return error_set(error, -EBADMSG, "%s is damaged: its checksum is wrong", path);
}

int last_accepted_load(const char *runtime_dir, struct config **ret, struct error *error)
{
	_cleanup_report_ struct report report = { 0 };
	_cleanup_free_ char *path = NULL, *text = NULL;
	size_t size = 0;
	int r;

	if (format_text(&path, "%s/%s", runtime_dir, LAST_ACCEPTED_FILE) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	r = read_whole(runtime_dir, &text, &size);
	if (r < 0)
		return error_set(error, r, "%s cannot be read: %s", path, strerror(-r));
	r = check_head(path, text, size, error);
	if (r < 0)
		return r;
	r = config_load_text(path, text, size, &report, ret);
	if (r < 0)
		return error_set(error, r, "%s cannot be used: %s", path,
			report.count > 0 ? report.entries[0].text : strerror(-r));
	return 0;
}
