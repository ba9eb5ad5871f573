/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Computes the devices and allocations of a declared resource in this process, with the driver and
 * the core of the daemon's children. Nothing is registered and no probe is run. Programs for
 * Allocate run only on demand, because their effects may last.
 */

#include <jansson.h>

#include "drivers/model/declaration.h"

/* If we are root, permanently turns this process into a child of a resource with that `user`, so
 * that a scan gives the same result as the child's, and programs do not run as root. Returns 0 or
 * negative errno with the error filled. */
int try_out_confine(const char *user, struct error *error);

/* Scans once, and builds the answer for a container with the devices `ids` (separated by commas;
 * NULL: the first healthy one, if any). Programs that the devices' entries name for Allocate are
 * run if `ask`; if not, a note names what is missing. Returns
 *
 *   {"resource", "driver",
 *    "devices": [{"id", "healthy", "reason", "numa": []}], "notes": [],
 *    "parameters": [{"name", "type", "permitted", "default"}] if any are declared,
 *    "ids": [], "answer": {"devices": [{"host_path", "container_path", "permissions"}],
 *                          "mounts": [{"host_path", "container_path", "read_only"}],
 *                          "envs": {}, "annotations": {}, "cdi_devices": [],
 *               "prestart": [words of the command, as configured]}}
 *
 * "ids" and "answer" are missing where there is no device, and "answer" where only a claim can set
 * a parameter, which a note names. Returns 0 or negative errno with the error filled. */
int try_out(const struct declaration *declaration, const char *root, const char *ids, bool ask,
	json_t **ret, struct error *error);

struct scan;

/* Lists the devices into a scan of that root, and waits for the data that the driver gets between
 * scans: answers of programs, or of NVIDIA's library. Returns 0 or negative errno with the error
 * filled. */
int try_out_list(const struct declaration *declaration, const char *root, struct scan *scan,
	struct error *error);

/* Adds the hardware behind the devices of the scan (claims.h), to find out which resources have the
 * same hardware. `ret_problem` is why the first device is unhealthy if all are (malloc'ed), or
 * NULL. Returns 0 or negative errno with the error filled. */
int try_out_claims(const struct declaration *declaration, struct scan *scan, struct strings *claims,
	char **ret_problem, struct error *error);
