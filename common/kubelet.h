/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Limits of the kubelet that several processes must know.
 */

#include <stddef.h>

/* The largest message that a kubelet accepts from a plugin: the default of grpc-go, which it does
 * not change. */
#define KUBELET_MESSAGE_MAX ((size_t)4 << 20)
