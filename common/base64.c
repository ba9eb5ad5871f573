/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and decodes base64: three bytes become four characters.
 */
#include "common/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(const uint8_t *data, size_t size)
{
	char *text = malloc((size + 2) / 3 * 4 + 1), *out = text;

	if (!text)
		return NULL;
	for (size_t i = 0; i < size; i += 3) {
		size_t n = MIN_OF(size - i, (size_t)3);
		uint32_t group = (uint32_t)data[i] << 16;

		if (n > 1)
			group |= (uint32_t)data[i + 1] << 8;
		if (n > 2)
			group |= data[i + 2];
		*out++ = alphabet[group >> 18];
		*out++ = alphabet[group >> 12 & 63];
		*out++ = n > 1 ? alphabet[group >> 6 & 63] : '=';
		*out++ = n > 2 ? alphabet[group & 63] : '=';
	}
	*out = '\0';
	return text;
}

int base64_decode(const char *text, uint8_t **ret_data, size_t *ret_size)
{
	_cleanup_free_ uint8_t *data = malloc(strlen(text) / 4 * 3 + 4);
	size_t n = 0, padding = 0, size = 0;
	uint32_t group = 0;

	if (!data)
		return -ENOMEM;
	for (; *text; text++) {
		const char *at = strchr(alphabet, *text);

		if (strchr(" \t\r\n", *text))
			continue;
		if (*text == '=' ? ++padding > 2 || n % 4 < 2 : !at || padding > 0)
			return -EINVAL;
		group = group << 6 | (at ? (uint32_t)(at - alphabet) : 0);
		if (++n % 4 != 0)
			continue;
		data[size++] = (uint8_t)(group >> 16);
		data[size++] = (uint8_t)(group >> 8);
		data[size++] = (uint8_t)group;
	}
	if (n % 4 != 0)
		return -EINVAL;
	*ret_size = size - padding;
	*ret_data = TAKE_PTR(data);
	return 0;
}
