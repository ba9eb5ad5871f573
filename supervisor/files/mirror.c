/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies the state that a child sent into a file in runtime_dir. The file never contains more than
 * the process has sent.
 */
#include "supervisor/files/mirror.h"

#include "common/foreign.h"

void mirror_init(struct mirror *mirror, struct state *state, const char *name, size_t limit)
{
	*mirror = (struct mirror){ .state = state, .limit = limit, .fd = -EBADF };
	(void)snprintf(mirror->name, sizeof(mirror->name), "%s", name);
}

void mirror_take(struct mirror *mirror, int fd)
{
	mirror_release(mirror);
	mirror->fd = fd;
	mirror->pending = true;
}

int mirror_restore(struct mirror *mirror)
{
	int fd = state_open_file(mirror->state, mirror->name);

	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
		return fd;
	mirror->fd = fd < 0 ? -EBADF : fd;
	return 0;
}

int mirror_write(struct mirror *mirror)
{
	int r;

	if (!mirror->pending)
		return 0;
	r = state_copy(mirror->state, mirror->name, mirror->fd, mirror->limit);
	/* A state that is too large does not become smaller. */
	mirror->pending = r < 0 && r != -EFBIG;
	return r;
}

void mirror_write_again(struct mirror *mirror)
{
	mirror->pending = mirror->fd >= 0;
}

void mirror_release(struct mirror *mirror)
{
	mirror->fd = foreign_close(mirror->fd);
	mirror->pending = false;
}

void mirror_remove(struct mirror *mirror)
{
	mirror_release(mirror);
	state_remove(mirror->state, mirror->name);
}
