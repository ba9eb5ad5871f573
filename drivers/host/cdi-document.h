/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The content of one file of the Container Device Interface, as yaml_read() gives it, and what
 * container runtimes make of it: SPEC.md and pkg/cdi of cncf-tags/container-device-interface.
 */

#include <jansson.h>

#include "common/error.h"

/* Checks whether container runtimes load the file: they ignore all of it if any part is not valid.
 * Members that later versions may add are accepted. Returns 0; -EBADMSG with the error filled, as a
 * clause: "it has no cdiVersion"; or -ENOMEM. */
int cdi_document_check(const json_t *document, struct error *error);

/* The device of that name, if the file is of that kind; or NULL. */
const json_t *cdi_document_find(const json_t *document, const char *kind, const char *name);

enum cdi_source {
	CDI_NODE,  /* a device node */
	CDI_MOUNT, /* a file or directory that is mounted */
	CDI_HOOK,  /* a program that the runtime executes */
};

/* Called with a path of the host. Returns 0 or negative errno, which ends the calls. */
typedef int (*cdi_source_handler)(enum cdi_source source, const char *path, void *userdata);

/* Calls the handler for each path that must exist on the host when a container with the device is
 * made: of the device, and of all devices of the file. A node whose type and number the file
 * contains need not exist. Returns 0 or what the handler returned. */
int cdi_document_sources(
	const json_t *document, const json_t *device, cdi_source_handler on_source, void *userdata);
