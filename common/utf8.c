/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether bytes are UTF-8, by the table of well-formed sequences in the Unicode standard
 * (table 3-7): what may follow the first byte is narrower for E0, ED, F0 and F4, which excludes
 * overlong forms, surrogates and code points above U+10FFFF.
 */
#include "common/utf8.h"

static const struct {
	unsigned char first, last; /* of the first byte */
	unsigned char low, high;   /* of the second; later ones are 80..BF */
	unsigned char length;
} sequences[] = {
	{ 0x00, 0x7f, 0, 0, 1 },
	{ 0xc2, 0xdf, 0x80, 0xbf, 2 },
	{ 0xe0, 0xe0, 0xa0, 0xbf, 3 },
	{ 0xe1, 0xec, 0x80, 0xbf, 3 },
	{ 0xed, 0xed, 0x80, 0x9f, 3 },
	{ 0xee, 0xef, 0x80, 0xbf, 3 },
	{ 0xf0, 0xf0, 0x90, 0xbf, 4 },
	{ 0xf1, 0xf3, 0x80, 0xbf, 4 },
	{ 0xf4, 0xf4, 0x80, 0x8f, 4 },
};

static size_t sequence_length(const unsigned char *p, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(sequences); i++) {
		size_t length = sequences[i].length;

		if (p[0] < sequences[i].first || p[0] > sequences[i].last)
			continue;
		if (length > size)
			return 0;
		for (size_t k = 1; k < length; k++)
			if (p[k] < (k == 1 ? sequences[i].low : 0x80) ||
				p[k] > (k == 1 ? sequences[i].high : 0xbf))
				return 0;
		return length;
	}
	return 0;
}

size_t utf8_next(const char *data, size_t size, uint32_t *ret_code)
{
	static const unsigned char first_bits[] = {
		[1] = 0x7f, [2] = 0x1f, [3] = 0x0f, [4] = 0x07
	};
	const unsigned char *p = (const unsigned char *)data;
	size_t length = size > 0 ? sequence_length(p, size) : 0;
	uint32_t code;

	if (length == 0)
		return 0;
	code = p[0] & first_bits[length];
	for (size_t k = 1; k < length; k++)
		code = code << 6 | (p[k] & 0x3f);
	*ret_code = code;
	return length;
}

size_t utf8_valid_length(const char *data, size_t size)
{
	size_t done = 0;

	while (done < size) {
		size_t length = sequence_length((const unsigned char *)data + done, size - done);

		if (length == 0)
			break;
		done += length;
	}
	return done;
}
