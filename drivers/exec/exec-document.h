/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The output of a program of driver "exec": one JSON document that lists devices, see
 * docs/exec-protocol.md. It is untrusted: a document is accepted as a whole or not at all, and
 * reading it is bounded in memory and depth.
 */

#include "common/error.h"
#include "drivers/model/device.h"

/* Where a device's properties are available, in addition to ${property:NAME}. */
enum exec_properties {
	PROPERTIES_VARIABLES, /* nowhere */
	PROPERTIES_ENV,       /* into the container's environment */
	PROPERTIES_AKRI,      /* there as NAME and as NAME_HASH, as Akri's brokers expect them */
};

/* Devices of one document. Never changed once made. Main thread only. */
struct exec_list {
	unsigned references;
	struct device **devices;
	size_t n_devices;
};

struct exec_list *exec_list_ref(struct exec_list *list);
struct exec_list *exec_list_unref(struct exec_list *list);
DEFINE_CLEANUP(struct exec_list *, exec_list_unref)

/* Whether both have the same content. */
bool exec_list_equal(const struct exec_list *a, const struct exec_list *b);

/* Reads a document. Returns 0, -EBADMSG with the place and the fault, or -ENOMEM. */
int exec_document_read(const char *text, size_t size, enum exec_properties properties,
	struct exec_list **ret, struct error *error);
