/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "exporter/exposition.h"

/* Writes the metrics "process_*" of this process. */
void own_process_write(struct exposition *out);
