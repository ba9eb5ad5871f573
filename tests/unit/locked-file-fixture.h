/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A regular file whose readers wait, as those of a file in /sys wait for a driver: a file system of
 * one file (FUSE), in the tree of the test. While it is locked, no read ends, and even SIGKILL does
 * not end the reader; otherwise each read takes a time. tests/promises/locked_file.py is the same
 * for the tests in Python.
 */

#include "host-fixture.h"

#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mount.h>

struct locked_file {
	char path[512];
	const char *text;
	int fd;
	pthread_t thread;
	atomic_bool locked, stopped;
	atomic_uint delay; /* microseconds */
};

static inline void locked_file_answer(
	const struct locked_file *file, uint64_t request, int error, const void *data, size_t size)
{
	char buffer[4096 + sizeof(struct fuse_out_header)];
	struct fuse_out_header head = {
		.len = (uint32_t)(sizeof(head) + size), .error = error, .unique = request
	};

	memcpy(buffer, &head, sizeof(head));
	if (size > 0)
		memcpy(buffer + sizeof(head), data, size);
	/* The reader may have been killed. */
	(void)!write(file->fd, buffer, head.len);
}

/* The text from the offset on. A reader that is held does not wait for others: the test unlocks the
 * file before anything else is read. */
static inline void locked_file_read(
	const struct locked_file *file, uint64_t request, const struct fuse_read_in *in)
{
	size_t length = strlen(file->text), offset = MIN_OF((size_t)in->offset, length);

	if (in->offset == 0 && file->delay > 0)
		(void)usleep(file->delay);
	while (file->locked && !file->stopped)
		(void)usleep(1000);
	locked_file_answer(file, request, 0, file->text + offset,
		MIN_OF(length - offset, MIN_OF((size_t)in->size, (size_t)4096)));
}

static inline void locked_file_handle(const struct locked_file *file, const char *message)
{
	struct fuse_in_header head;
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
		.minor = 31,
		.max_readahead = 4096,
		.max_background = 8,
		.congestion_threshold = 8,
		.max_write = 4096,
		.time_gran = 1,
		.max_pages = 1 };
	struct fuse_attr_out attr = { .attr_valid = 3600,
		.attr = { .ino = 1,
			.size = 4096,
			.mode = S_IFREG | 0444,
			.nlink = 1,
			.blksize = 4096 } };
	struct fuse_open_out opened = { .open_flags = FOPEN_DIRECT_IO };
	struct fuse_read_in in;

	memcpy(&head, message, sizeof(head));
	switch (head.opcode) {
	case FUSE_INIT:
		locked_file_answer(file, head.unique, 0, &init, sizeof(init));
		break;
	case FUSE_GETATTR:
		locked_file_answer(file, head.unique, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
		locked_file_answer(file, head.unique, 0, &opened, sizeof(opened));
		break;
	case FUSE_READ:
		memcpy(&in, message + sizeof(head), sizeof(in));
		locked_file_read(file, head.unique, &in);
		break;
	case FUSE_RELEASE:
	case FUSE_FLUSH:
		locked_file_answer(file, head.unique, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		locked_file_answer(file, head.unique, -ENOSYS, NULL, 0);
	}
}

static inline void *locked_file_serve(void *userdata)
{
	static char message[1 << 17];
	struct locked_file *file = userdata;
	struct pollfd pollfd = { .fd = file->fd, .events = POLLIN };

	while (!file->stopped)
		if (poll(&pollfd, 1, 50) > 0 && read(file->fd, message, sizeof(message)) > 0)
			locked_file_handle(file, message);
	return NULL;
}

/* Puts the file in place; one at a time. Returns false where that is not possible. */
static inline bool locked_file_open(
	struct locked_file *file, const char *name, const char *text, bool locked)
{
	char options[128];

	*file = (struct locked_file){ .text = text, .locked = locked };
	host_touch(name);
	host_path(file->path, name);
	file->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (file->fd < 0)
		return false;
	(void)snprintf(options, sizeof(options),
		"fd=%d,rootmode=100444,user_id=0,group_id=0,allow_other", file->fd);
	if (mount("locked", file->path, "fuse", 0, options) < 0) {
		close_fd(file->fd);
		return false;
	}
	assert_int_equal(pthread_create(&file->thread, NULL, locked_file_serve, file), 0);
	return true;
}

/* Readers that are held get an error. */
static inline void locked_file_close(struct locked_file *file)
{
	if (file->thread == 0)
		return;
	file->stopped = true;
	(void)pthread_join(file->thread, NULL);
	close_fd(file->fd);
	(void)umount2(file->path, MNT_DETACH);
	file->thread = 0;
}
