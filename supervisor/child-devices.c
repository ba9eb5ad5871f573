/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child's inventory on its way to the state files, where `devplugctl devices` reads it. Nothing
 * looks into it here. The file is never ahead of what the process has said, and goes with it.
 */
#include "child-devices.h"
#include "child-memory.h"
#include "common/control.h"
#include "common/log.h"
#include "manager.h"
#include "state.h"

#define DEVICES_INTERVAL      (100 * USEC_PER_MSEC)
#define DEVICES_BYTES_PER_SEC (32ULL << 20)

void child_devices_forget(struct child *child)
{
	char name[STATE_NAME_MAX];

	child->devices_fd = close_fd(child->devices_fd);
	child->devices_new = false;
	child->devices_size = 0;
	state_devices_name(child->resource->name, name);
	state_remove(child->manager->state, name);
}

uint64_t child_devices_write(struct child *child, struct state *state)
{
	const struct log_fields fields = {
		.resource = child->resource->name,
		.child_pid = child->pid,
	};
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	char name[STATE_NAME_MAX];
	int64_t r;

	if (!child->devices_new)
		return USEC_INFINITY;
	if (now < child->devices_next)
		return child->devices_next;
	state_devices_name(child->resource->name, name);
	r = state_follow(state, name, child->devices_fd, CONTROL_DEVICES_MAX, &child->devices_size);
	if (r < 0)
		log_full(LOG_WARNING, &fields, "cannot write the state of the devices: %s",
			strerror((int)-r));
	child->devices_fd = close_fd(child->devices_fd);
	child->devices_new = false;
	child_memory_write(child, state);
	/* Great inventories are copied less often: no child may keep the loop busy. */
	child->devices_next = now_usec(CLOCK_MONOTONIC) + DEVICES_INTERVAL +
		(r < 0 ? CONTROL_DEVICES_MAX : (uint64_t)r) * USEC_PER_SEC / DEVICES_BYTES_PER_SEC;
	return USEC_INFINITY;
}
