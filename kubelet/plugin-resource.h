/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What resource.c offers to the other files of the model only.
 */

#include "kubelet/model.h"

struct resource *model_free_resource(struct resource *resource);
