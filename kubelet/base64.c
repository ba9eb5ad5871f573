/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three bytes are four characters.
 */
#include "kubelet/base64.h"

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
	size_t length = strlen(text), padding = 0, size = 0;
	_cleanup_free_ uint8_t *data = malloc(length / 4 * 3 + 1);

	if (!data)
		return -ENOMEM;
	if (length % 4 != 0)
		return -EINVAL;
	while (padding < 2 && padding < length && text[length - padding - 1] == '=')
		padding++;
	for (size_t i = 0; i < length; i += 4) {
		uint32_t group = 0;

		for (size_t k = i; k < i + 4; k++) {
			const char *at =
				k < length - padding ? strchr(alphabet, text[k]) : alphabet;

			if (!at)
				return -EINVAL;
			group = group << 6 | (uint32_t)(at - alphabet);
		}
		data[size++] = (uint8_t)(group >> 16);
		data[size++] = (uint8_t)(group >> 8);
		data[size++] = (uint8_t)group;
	}
	*ret_size = size - padding;
	*ret_data = TAKE_PTR(data);
	return 0;
}
