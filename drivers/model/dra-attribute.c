/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks names and values of attributes. The API server refuses a whole ResourceSlice for one
 * invalid value, so every value is checked before it is published.
 */
#include "drivers/model/dra-attribute.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/utf8.h"

#define LETTERS  "abcdefghijklmnopqrstuvwxyz"
#define CAPITALS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS   "0123456789"

/* The domain of attributes that Kubernetes defines. */
#define STANDARD_DOMAIN "resource.kubernetes.io/"

const char *const attribute_types[] = {
	[ATTRIBUTE_STRING] = "string",
	[ATTRIBUTE_INT] = "int",
	[ATTRIBUTE_BOOL] = "bool",
	[ATTRIBUTE_VERSION] = "version",
	NULL,
};

/* --- names --- */

static bool is_domain(const char *text, size_t length)
{
	const char *end = text + length;

	if (length == 0 || length > ATTRIBUTE_DOMAIN_MAX)
		return false;
	for (const char *label = text;; label++) {
		size_t n = strspn(label, LETTERS DIGITS "-");

		if (n == 0 || label[0] == '-' || label[n - 1] == '-')
			return false;
		label += n;
		if (label == end || *label != '.')
			return label == end;
	}
}

static bool is_identifier(const char *text)
{
	size_t length = strlen(text);

	return length > 0 && length <= ATTRIBUTE_IDENTIFIER_MAX && !strchr(DIGITS, text[0]) &&
		strspn(text, LETTERS CAPITALS DIGITS "_") == length;
}

bool attribute_name_is_valid(const char *name)
{
	const char *slash = strchr(name, '/');

	return (!slash || is_domain(name, (size_t)(slash - name))) &&
		is_identifier(slash ? slash + 1 : name);
}

bool attribute_is_built_in(const char *name)
{
	return streq(name, "resource") || streq(name, "id") || startswith(name, STANDARD_DOMAIN);
}

bool attribute_is_of(const char *name, const char *domain)
{
	const char *rest = startswith(name, domain);

	return rest && *rest == '/';
}

int form_attribute_name(const char *value, struct error *error)
{
	if (attribute_is_built_in(value))
		return error_set(error, -EINVAL,
			"must not be \"%s\", which devplugd sets for every device: choose another "
			"name",
			value);
	if (!attribute_name_is_valid(value))
		return error_set(error, -EINVAL,
			"must be a name of at most %d letters, digits and \"_\", not beginning with "
			"a digit, or DOMAIN/NAME with a DNS name of at most %d bytes in lower case, "
			"not \"%s\"",
			ATTRIBUTE_IDENTIFIER_MAX, ATTRIBUTE_DOMAIN_MAX, value);
	return 0;
}

/* --- values --- */

static bool make_string(const char *text, char *ret)
{
	if (strlen(text) > ATTRIBUTE_VALUE_MAX || !utf8_is_valid(text))
		return false;
	(void)strcpy(ret, text);
	return true;
}

static bool make_int(const char *text, char *ret)
{
	bool negative = text[0] == '-', hexadecimal = startswith(text, "0x");
	const char *digits = hexadecimal ? text + 2 : text + negative;
	int64_t number;
	char *end;

	if (digits[0] == '\0' || !strchr(hexadecimal ? DIGITS "abcdefABCDEF" : DIGITS, digits[0]))
		return false;
	errno = 0;
	number = strtoll(hexadecimal ? digits : text, &end, hexadecimal ? 16 : 10);
	if (errno != 0 || *end)
		return false;
	(void)snprintf(ret, ATTRIBUTE_VALUE_MAX + 1, "%" PRId64, number);
	return true;
}

static bool make_bool(const char *text, char *ret)
{
	static const char *const words[][2] = { { "false", "true" }, { "0", "1" }, { "N", "Y" } };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		for (size_t k = 0; k < 2; k++)
			if (streq(text, words[i][k])) {
				(void)strcpy(ret, words[0][k]);
				return true;
			}
	return false;
}

/* Whether a pre-release or the metadata of a build consists of valid parts: "rc.1". Numbers of a
 * pre-release have no leading zeros. */
static bool has_valid_parts(const char *text, size_t length, bool pre_release)
{
	for (const char *end = text + length;; text++) {
		size_t n = strspn(text, LETTERS CAPITALS DIGITS "-");

		n = MIN_OF(n, (size_t)(end - text));
		if (n == 0 || (pre_release && n > 1 && text[0] == '0' && strspn(text, DIGITS) >= n))
			return false;
		text += n;
		if (text == end || *text != '.')
			return text == end;
	}
}

/* "-rc.1+build.5", "+build.5" or "". */
static bool is_version_suffix(const char *text)
{
	const char *plus = strchrnul(text, '+');

	if (text[0] == '-' && !has_valid_parts(text + 1, (size_t)(plus - text) - 1, true))
		return false;
	if (text[0] != '-' && plus != text)
		return false;
	return *plus == '\0' || has_valid_parts(plus + 1, strlen(plus + 1), false);
}

/* Kubernetes reads versions so in CEL: semver(text, true). */
static bool make_version(const char *text, char *ret)
{
	const char *numbers[3] = { "0", "0", "0" };
	int lengths[3] = { 1, 1, 1 };
	const char *at = text + (text[0] == 'v');

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		size_t n = strspn(at, DIGITS), zeros = strspn(at, "0");

		if (n == 0)
			return false;
		zeros -= zeros == n;
		if (n - zeros > 18)
			return false;
		numbers[i] = at + zeros;
		lengths[i] = (int)(n - zeros);
		at += n;
		if (*at != '.')
			break;
		at += i + 1 < ARRAY_SIZE(numbers);
	}
	return is_version_suffix(at) &&
		snprintf(ret, ATTRIBUTE_VALUE_MAX + 1, "%.*s.%.*s.%.*s%s", lengths[0], numbers[0],
			lengths[1], numbers[1], lengths[2], numbers[2], at) <= ATTRIBUTE_VALUE_MAX;
}

int attribute_value_make(enum attribute_type type, const char *text,
	char ret[static ATTRIBUTE_VALUE_MAX + 1], struct error *error)
{
	static const struct {
		bool (*make)(const char *text, char *ret);
		const char *form;
	} forms[] = {
		[ATTRIBUTE_STRING] = { make_string, "a text of at most 64 bytes" },
		[ATTRIBUTE_INT] = { make_int, "a whole number of 64 bits" },
		[ATTRIBUTE_BOOL] = { make_bool, "\"true\" or \"false\"" },
		[ATTRIBUTE_VERSION] = { make_version, "a version such as \"2.1.0\"" },
	};
	char value[ATTRIBUTE_VALUE_MAX + 1];

	if (!*text)
		return error_set(error, -EINVAL, "is empty");
	if (!forms[type].make(text, value))
		return error_set(error, -EINVAL, "is not %s: \"%.80s\"", forms[type].form, text);
	(void)strcpy(ret, value);
	return 0;
}
