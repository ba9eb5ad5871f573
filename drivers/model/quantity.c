/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what is a quantity. The digits become one number and a power of ten, so that no fraction
 * is computed before the suffix is known.
 */
#include "drivers/model/quantity.h"

#include <inttypes.h>

/* More digits than that are in no number of 64 bits with nine decimals. */
#define DIGITS_MAX   30
#define EXPONENT_MAX 99
#define SUFFIXES     "kMGTPE"

__extension__ typedef unsigned __int128 wide;

struct digits {
	wide number;
	int exponent; /* of ten */
};

static int read_digits(const char **text, struct digits *ret)
{
	const char *p = *text;
	bool fraction = false;
	size_t n = 0, significant = 0;

	for (; (*p >= '0' && *p <= '9') || (*p == '.' && !fraction); p++) {
		if (*p == '.') {
			fraction = true;
			continue;
		}
		n++;
		significant += ret->number > 0 || *p != '0';
		if (significant > DIGITS_MAX || n > 100)
			return -ERANGE;
		ret->number = ret->number * 10 + (unsigned)(*p - '0');
		ret->exponent -= fraction;
	}
	*text = p;
	return n > 0 ? 0 : -EINVAL;
}

/* "e3", "E-6". */
static int read_exponent(const char *text, int *ret)
{
	bool negative = text[1] == '-';
	int exponent = 0;

	text += 1 + (text[1] == '-' || text[1] == '+');
	if (!*text)
		return -EINVAL;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || exponent > EXPONENT_MAX)
			return -EINVAL;
		exponent = exponent * 10 + (*text - '0');
	}
	*ret = negative ? -exponent : exponent;
	return 0;
}

int64_t quantity_unit(const char *suffix)
{
	static const char suffixes[] = SUFFIXES;
	const char *found = *suffix ? strchr(suffixes, *suffix == 'K' ? 'k' : *suffix) : NULL;
	bool binary = found && suffix[1] == 'i';
	int64_t unit = 1;

	if (!found || *suffix == (binary ? 'k' : 'K') || suffix[binary ? 2 : 1])
		return 0;
	for (size_t i = 0; i <= (size_t)(found - suffixes); i++)
		unit *= binary ? 1024 : 1000;
	return unit;
}

static int read_suffix(const char *suffix, struct digits *digits, wide *ret_unit)
{
	static const char small[] = "mun";
	const char *found;
	int exponent, r;

	*ret_unit = 1;
	if (!*suffix)
		return 0;
	found = suffix[1] ? NULL : strchr(small, *suffix);
	if (found) {
		digits->exponent -= 3 * (int)(found - small + 1);
		return 0;
	}
	/* "E" alone is a suffix. */
	if (quantity_unit(suffix) > 0) {
		*ret_unit = (wide)quantity_unit(suffix);
		return 0;
	}
	if (*suffix != 'e' && *suffix != 'E')
		return -EINVAL;
	r = read_exponent(suffix, &exponent);
	if (r >= 0)
		digits->exponent += exponent;
	return r;
}

int quantity_read(const char *text, int64_t *ret)
{
	struct digits digits = { 0 };
	bool negative = *text == '-', rounded = false;
	wide unit;
	int r;

	text += *text == '-' || *text == '+';
	r = read_digits(&text, &digits);
	if (r >= 0)
		r = read_suffix(text, &digits, &unit);
	if (r < 0)
		return r;
	if (__builtin_mul_overflow(digits.number, unit, &digits.number))
		return -ERANGE;
	for (; digits.number > 0 && digits.exponent > 0; digits.exponent--)
		if (__builtin_mul_overflow(digits.number, (wide)10, &digits.number))
			return -ERANGE;
	for (; digits.number > 0 && digits.exponent < 0; digits.exponent++) {
		rounded |= digits.number % 10 != 0;
		digits.number /= 10;
	}
	digits.number += rounded;
	if (digits.number > INT64_MAX || (negative && digits.number > 0))
		return -ERANGE;
	*ret = (int64_t)digits.number;
	return rounded;
}

void quantity_write(int64_t number, char ret[static QUANTITY_MAX + 1])
{
	bool binary = number % 1024 == 0;
	int base = binary ? 1024 : 1000;
	size_t factors = 0;

	for (; number > 0 && factors < strlen(SUFFIXES) && number % base == 0; factors++)
		number /= base;
	(void)snprintf(ret, QUANTITY_MAX + 1, "%" PRId64 "%.1s%s", number,
		factors == 0 ? "" : &(binary ? "KMGTPE" : SUFFIXES)[factors - 1],
		factors > 0 && binary ? "i" : "");
}

int form_quantity(const char *value, struct error *error)
{
	int64_t number;

	if (quantity_read(value, &number) != 0)
		return error_set(error, -EINVAL,
			"must be a whole number from 0 to %" PRId64
			" such as \"80Gi\", \"5k\" or \"16\", not \"%.40s\"",
			INT64_MAX, value);
	return 0;
}
