/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of config: the key `cdi` of a file. `cdi = true` gives resources a `cdi_spec` that they do
 * not have. Later code does not distinguish it from a declared one, except where it shows why a
 * resource has none.
 */

#include "configuration/config.h"
#include "drivers/host/cdi-lookup.h"

/* Gives the enabled resources among those that were declared their kind; to be called when all are
 * read and checked. Reads the directories of CDI files, because a kind must be in no file of
 * another program. Returns 0 or -ENOMEM. */
int cdi_spec_assign(struct config *config);

/* Why `cdi` leaves the resource as it is declared, as a clause, or NULL. */
const char *cdi_spec_exempts(const struct declaration *declaration);

/* Reads the files of all directories in which devplugd or a container runtime searches. Returns 0
 * or -ENOMEM. */
int cdi_spec_read_files(const struct config *config, struct cdi_files *files);

/* A file of another program that has the kind of a resource's `cdi_spec`, too, or NULL. */
const struct cdi_file *cdi_spec_foreign_file(const struct cdi_files *files, const char *kind);
