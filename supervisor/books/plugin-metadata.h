/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What containers of a device plugin can read of their devices (`metadata`), in the format of the
 * metadata of claims (dra-metadata.h). There is one file on the host for each set of offered ids of
 * a resource. The answer to Allocate mounts it, and the kubelet stores that answer, so the file has
 * to be there whenever a container of the pod starts: also after a restart of the host, of
 * devplugd, and without the resource. It stays until the kubelet's checkpoint no longer names it.
 */

#include "common/control.h"
#include "common/error.h"

struct child;
struct kubelet_checkpoint;
struct manager;
struct plugin_metadata;

int plugin_metadata_new(struct manager *manager, struct plugin_metadata **ret);

/* Containers are about to get devices: writes the file of each. Takes the descriptors of CHILD_USE,
 * which stay the message's, and fills that of CHILD_USED. Returns 0, -EBADMSG if the message is
 * malformed, or another negative errno with the error filled. */
int plugin_metadata_take(struct plugin_metadata *metadata, const struct child *child,
	const struct control_message *message, int *ret_fd, struct error *error);

/* CHILD_ATTRIBUTES: writes the files that differ, as plugin_metadata_write(). Returns 0, -EBADMSG
 * or -ENOMEM. */
int plugin_metadata_update(struct plugin_metadata *metadata, const struct child *child, int fd);

/* To be called when the kubelet has written its checkpoint, and before it may start: finds the file
 * of each stored answer that mounts one, which plugin_metadata_write() writes, and drops others.
 * NULL: what is stored is not known. */
void plugin_metadata_follow(struct plugin_metadata *metadata,
	const struct kubelet_checkpoint *checkpoint, uint64_t written_at);

/* Writes files that are not as they should be: `all`, or as many as is admissible now. Returns when
 * to call again (CLOCK_MONOTONIC), or USEC_INFINITY. */
uint64_t plugin_metadata_write(struct plugin_metadata *metadata, bool all);

/* Another process has damaged published files. */
void plugin_metadata_write_again(struct plugin_metadata *metadata);

struct plugin_metadata *plugin_metadata_free(struct plugin_metadata *metadata);
DEFINE_CLEANUP(struct plugin_metadata *, plugin_metadata_free)
