/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The functions of plugin-resource.c for the other files of the model.
 */

#include "kubelet/model.h"

struct resource *model_free_resource(struct resource *resource);
