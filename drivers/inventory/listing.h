/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A driver's list() without the devices that the selectors of `exclude` find. Exclusions by id or
 * variable are left to declaration_excludes(), which needs no scan.
 */

#include "drivers/host/scan-run.h"
#include "drivers/model/declaration.h"

/* Runs the driver's list(), drops the excluded devices from the scan, and explains entries of the
 * declaration that find nothing (scan_explain()). Returns 0 or negative errno with the error
 * filled. */
int list_devices(const struct declaration *declaration, struct scan *scan, struct error *error);
