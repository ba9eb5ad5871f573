/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a number is in a range such as "0-3,5". The check of a configuration and the
 * query use one reader, so that both read a text in the same way.
 */
#include "drivers/host/ranges.h"

/* Reads one number and moves behind it. */
static bool read_number(const char **text, unsigned long *ret)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	*ret = strtoul(*text, &end, 10);
	*text = end;
	return *ret <= UINT32_MAX;
}

/* Reads "5" or "0-3" and moves behind it. */
static bool read_range(const char **text, unsigned long *ret_first, unsigned long *ret_last)
{
	if (!read_number(text, ret_first))
		return false;
	*ret_last = *ret_first;
	if (**text != '-')
		return true;
	(*text)++;
	return read_number(text, ret_last) && *ret_first <= *ret_last;
}

int ranges_check(const char *value, struct error *error)
{
	const char *rest = value;
	unsigned long first, last;

	while (read_range(&rest, &first, &last)) {
		if (!*rest)
			return 0;
		if (*rest++ != ',')
			break;
	}
	return error_set(error, -EINVAL,
		"must be numbers and ranges such as \"0-3,5\", without spaces, not \"%s\"", value);
}

bool ranges_contain(const char *ranges, int64_t number)
{
	unsigned long first, last;

	while (read_range(&ranges, &first, &last)) {
		if (number >= (int64_t)first && number <= (int64_t)last)
			return true;
		if (*ranges++ != ',')
			break;
	}
	return false;
}
