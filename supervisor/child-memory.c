/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The newest descriptor is kept as it came; it is copied to the file when the inventory is, at the
 * same bounded rate.
 */
#include "child-memory.h"

#include <fcntl.h>

#include "common/control.h"
#include "common/log.h"
#include "manager.h"

void child_memory_open(struct child *child)
{
	char name[STATE_NAME_MAX];

	state_health_name(child->resource->name, name);
	child->memory_fd = state_open_file(child->manager->state, name);
}

bool child_memory_take(struct child *child, int fd, bool grown)
{
	/* Only a memfd has seals; reading any other file could block. */
	if (fd >= 0 && fcntl(fd, F_GET_SEALS) < 0) {
		close_fd(fd);
		return false;
	}
	if (fd >= 0) {
		close_fd(child->memory_fd);
		child->memory_fd = fd;
		child->memory_new = true;
		if (!grown)
			child->memory_size = 0;
	}
	return true;
}

void child_memory_write(struct child *child, struct state *state)
{
	struct log_fields fields = { .resource = child->resource->name };
	char name[STATE_NAME_MAX];
	int64_t r;

	if (!child->memory_new)
		return;
	child->memory_new = false;
	state_health_name(child->resource->name, name);
	r = state_follow(state, name, child->memory_fd, CONTROL_DEVICES_MAX, &child->memory_size);
	if (r < 0)
		log_full(LOG_WARNING, &fields,
			"the health of devices cannot be kept for a restart of devplugd: %s",
			strerror((int)-r));
}

int child_memory_fd(const struct child *child)
{
	return child->memory_fd;
}

void child_memory_forget(struct child *child)
{
	char name[STATE_NAME_MAX];

	child->memory_size = 0;
	state_health_name(child->resource->name, name);
	state_remove(child->manager->state, name);
}
