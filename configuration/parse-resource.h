/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads a resource from its own keys and the keys of its preset. */

#include "configuration/value.h"

/* Reads one resource and checks it. `declaration` holds the defaults. */
void parse_resource(struct parser *parser, config_setting_t *setting, void *declaration);
