/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses what a mistyped word was meant to be. A wrong guess is worse than none, so the allowed
 * distance grows with the word's length. Words that are too long are not compared, which bounds the
 * work.
 */
#include "drivers/model/suggest.h"

#include <ctype.h>

#include "common/util.h"

#define WORD_MAX 47

/* Shortest prefix that is taken for an abbreviation. */
#define PREFIX_MIN 3

static bool same_letter(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Edits (insert, delete, replace, swap of neighbours) between two words of at most WORD_MAX bytes,
 * case not counting. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t rows[3][WORD_MAX + 1];
	size_t *before = rows[0], *previous = rows[1], *current = rows[2];
	size_t length_a = strlen(a), length_b = strlen(b);

	for (size_t j = 0; j <= length_b; j++)
		previous[j] = j;
	for (size_t i = 1; i <= length_a; i++) {
		size_t *spare = before;

		current[0] = i;
		for (size_t j = 1; j <= length_b; j++) {
			size_t cost = same_letter(a[i - 1], b[j - 1]) ? 0 : 1;
			size_t best = previous[j - 1] + cost;

			best = MIN_OF(best, previous[j] + 1);
			best = MIN_OF(best, current[j - 1] + 1);
			if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
				same_letter(a[i - 2], b[j - 1]))
				best = MIN_OF(best, before[j - 2] + 1);
			current[j] = best;
		}
		before = previous;
		previous = current;
		current = spare;
	}
	return previous[length_b];
}

/* One edit for each four letters of the longer word, but not half of a word: that is another one.
 */
static size_t allowed_distance(size_t length)
{
	size_t allowed = MAX_OF(length / 4, (size_t)1);

	return length < 3 ? 0 : MIN_OF(allowed, (size_t)3);
}

const char *suggest_word(const char *word, const char *const *words, size_t count)
{
	size_t length = strlen(word), best_distance = SIZE_MAX;
	const char *best = NULL;

	if (length == 0 || length > WORD_MAX)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		size_t allowed, distance;

		if (strlen(words[i]) > WORD_MAX)
			continue;
		allowed = allowed_distance(MAX_OF(length, strlen(words[i])));
		distance = edit_distance(word, words[i]);
		if (distance > allowed && length >= PREFIX_MIN && startswith(words[i], word))
			distance = allowed;
		if (distance > allowed)
			continue;
		if (distance < best_distance) {
			best_distance = distance;
			best = words[i];
		}
	}
	return best;
}
