/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks that a CDI document adds to containers only what the resource's own configuration names.
 * The child that made it may have been compromised, and the container runtime follows the document
 * with the rights of root, for every container that names the device.
 */

#include <jansson.h>

#include "drivers/model/declaration.h"

/* A document that publication_check_cdi() has passed. Refuses:
 * - mounts whose source container.mounts does not name, unless the driver brings mounts of its own
 *   (struct driver, `mounts`); "/" only if container.mounts names it;
 * - variables that container.env does not name, unless the driver runs programs that may; never
 *   those of the dynamic loader (LD_...);
 * - nodes outside of /dev that container.nodes does not name.
 * A template names what begins with the text before its first variable of a device. After that, a
 * path has no "/" unless the template has one or a variable is a path. Returns 0, -EPERM with the
 * error filled, or -ENOMEM. */
int publication_check_allowed(
	const struct declaration *declaration, const json_t *spec, struct error *error);

/* As publication_check_allowed(), for the edits of a claim. A resource's `allocate` program may add
 * as much to them as a driver that runs programs and brings mounts of its own. */
int publication_check_allowed_claim(
	const struct declaration *declaration, const json_t *spec, struct error *error);
