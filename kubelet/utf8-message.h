/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks the strings of a message, as kubelets from 1.34 on do.
 */

#include <protobuf-c/protobuf-c.h>

#include "common/util.h"

/* Whether every string in the message, at any depth, is UTF-8. */
bool message_is_utf8(const ProtobufCMessage *message);
