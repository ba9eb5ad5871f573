/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the checksum bit by bit, without a table: the files are small and rarely read.
 */
#include "common/crc32.h"

#define POLYNOMIAL 0xedb88320U

uint32_t crc32_ieee(const void *data, size_t size)
{
	const unsigned char *bytes = data;
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < size; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ (crc & 1 ? POLYNOMIAL : 0);
	}
	return ~crc;
}
