/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An answer to Allocate as the kubelet stores it in its checkpoint ("AllocResp"): the bytes of a
 * ContainerAllocateResponse (proto/deviceplugin.proto) in base64. Whenever a container of the pod
 * is started again, the kubelet uses the stored answer and does not ask the plugin.
 */

#include "drivers/model/option.h"

/* Adds the kinds of the CDI devices in the answer to those in the list. An answer that cannot be
 * read has none: the kubelet does not use it either. Returns 0 or -ENOMEM. */
int stored_answer_add_kinds(const char *answer, struct strings *kinds);
