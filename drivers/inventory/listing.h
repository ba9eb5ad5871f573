/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A driver's list(), which leaves out what the selectors of `exclude` find, with explanations.
 * Exclusions by id or variable are left to declaration_excludes(), which needs no scan.
 */

#include "drivers/host/scan-run.h"
#include "drivers/model/declaration.h"

/* Runs the driver's list(), and explains entries of the declaration that find nothing, or apply to
 * no device (scan_explain()). Returns 0 or negative errno with the error
 * filled. */
int list_devices(const struct declaration *declaration, struct scan *scan, struct error *error);
