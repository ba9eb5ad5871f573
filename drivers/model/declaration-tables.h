/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of a resource's option table, one part in each file.
 */

#include "drivers/model/declaration.h"

/* PATH_MAX without the NUL. */
#define PATH_LENGTH_MAX 4095

/* Milliseconds. */
#define EVICT_AFTER_MAX     (7LL * 24 * 60 * 60 * 1000)
#define EVICT_AFTER_DEFAULT (300 * 1000)

extern const struct option_table container_table; /* struct container */
extern const struct option_table cdi_spec_table;
extern const struct option_table dra_table;       /* struct declared_dra */
extern const struct option_table capacity_table;  /* struct declared_capacity */
extern const struct option_table parameter_table; /* struct declared_parameter */
extern const struct option_table probe_table;     /* struct declared_probe */
