/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The devices and resources of containers, as reported by the kubelet's PodResources API: text in a
 * sealed memfd from the process that reads the kubelet's answer, and rows that point into the text
 * in the process that uses it. The writer is not trusted, so reading checks every line.
 *
 * A line is a word and its fields, separated by tabs:
 *
 * 	container	NAMESPACE	POD	CONTAINER	CPUS
 * 	device	RESOURCE	NODES
 * 	id	ID
 * 	memory	TYPE	BYTES	NODES
 * 	claim	NAMESPACE	NAME	DRIVER	POOL	DEVICE
 *
 * A line belongs to the container above it, an id to the device line above it. CPUS and NODES are
 * lists of numbers such as "0,1,4", or empty. A container without a name stands for the whole pod,
 * and includes the resources of its containers. An answer about the node is one container without
 * namespace, pod and name.
 */

#include "common/util.h"

#define POD_TABLE_TEXT_MAX (32U << 20)
#define POD_TABLE_ROWS_MAX 500000U /* of all kinds together */
#define POD_TABLE_WORD_MAX 1024U   /* bytes of one field, except CPUS */

struct pod_container {
	const char *namespace, *pod, *name, *cpus;
};

struct pod_device {
	const struct pod_container *container;
	const char *resource, *id, *nodes;
};

struct pod_memory {
	const struct pod_container *container;
	const char *type, *nodes;
	uint64_t bytes;
};

/* A device of a dynamic resource claim; driver, pool and device are empty for a claim that has
 * none. */
struct pod_claim {
	const struct pod_container *container;
	const char *namespace, *name, *driver, *pool, *device;
};

struct pod_table {
	struct pod_container *containers;
	struct pod_device *devices; /* one row for each id; a device on several NUMA nodes may have
				       one row for each of them */
	struct pod_memory *memory;
	struct pod_claim *claims;
	size_t n_containers, n_devices, n_memory, n_claims;
	char *text; /* what the rows point into */
};

/* Whether a text can be a field: printable UTF-8 of up to POD_TABLE_WORD_MAX bytes. */
bool pod_field_is_plain(const char *text);

/* The key of a claim's device among those of devplugd: "DRIVER\tNAMESPACE\tCLAIM\tDEVICE"
 * (malloc'ed), or NULL without memory. */
char *pod_claim_key(const struct pod_claim *claim);

/* Reads a table from another process. -EBADMSG: not a sealed memfd, or a malformed line; -EFBIG:
 * too many bytes or rows. The caller keeps the descriptor. */
int pod_table_read(int fd, struct pod_table **ret);

struct pod_table *pod_table_free(struct pod_table *table);
DEFINE_CLEANUP(struct pod_table *, pod_table_free)
