/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The checksum of Ethernet and zlib (IEEE 802.3), which the kubelet also uses for its files.
 */

#include "common/util.h"

uint32_t crc32_ieee(const void *data, size_t size);
