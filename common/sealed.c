/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes texts that a receiver can check once and then trust, because they cannot change, and
 * refuses every other descriptor: only a memfd has seals, and reading any other file could block.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/sealed.h"

#ifndef MFD_NOEXEC_SEAL
	#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int sealed_begin(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

int sealed_end(int fd)
{
	return fcntl(fd, F_ADD_SEALS, SEALS) < 0 ? -errno : 0;
}

int sealed_new(const char *name, const void *data, size_t size)
{
	_cleanup_close_ int fd = sealed_begin(name);
	int r;

	if (fd < 0)
		return fd;
	for (size_t done = 0; done < size;) {
		ssize_t n = RETRY_ON_EINTR(
			pwrite(fd, (const char *)data + done, size - done, (off_t)done));

		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	r = sealed_end(fd);
	return r < 0 ? r : TAKE_FD(fd);
}

int sealed_check(int fd, size_t limit, size_t *ret_size)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0)
		return -EBADMSG;
	if ((uint64_t)st.st_size > limit)
		return -EFBIG;
	*ret_size = (size_t)st.st_size;
	return 0;
}

int sealed_read(int fd, size_t limit, char **ret_text, size_t *ret_size)
{
	size_t size;
	int r;

	r = sealed_check(fd, limit, &size);
	if (r >= 0)
		r = read_exactly(fd, size, ret_text);
	if (r >= 0)
		*ret_size = size;
	return r;
}
