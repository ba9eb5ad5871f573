/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The check of strings that kubelets from 1.36 on apply to every message.
 */

#include <protobuf-c/protobuf-c.h>

#include "common/util.h"

/* Whether every string in the message, at any depth, is UTF-8. */
bool message_is_utf8(const ProtobufCMessage *message);
