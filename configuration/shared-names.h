/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds names that two resources give to different things in a container: a variable, an
 * annotation, or a path. If a container has devices of both, the kubelet keeps one of the two, in
 * random order (pkg/kubelet/cm/devicemanager/pod_devices.go). Only names that are known without a
 * device count, so that none is reported by mistake.
 */

#include "configuration/config.h"

struct shared_name {
	const struct declaration *declaration, *other; /* the later and the earlier resource */
	const struct origin *origin;                   /* in the later one */
	const char *key;                               /* "container.env[0]" */
	const char *kind;                              /* "variable", "annotation", "path" */
	const char *name;
};

/* Visits each such name of the enabled resources, once for each later resource. Returns 0 or
 * -ENOMEM. */
typedef void (*shared_name_visitor)(const struct shared_name *shared, void *userdata);
int shared_names_find(const struct config *config, shared_name_visitor visitor, void *userdata);
