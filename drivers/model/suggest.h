/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the word that a mistyped word most likely stands for.
 */

#include <stddef.h>

/* The nearest of `count` words (edit distance, bounded by the word's length), or NULL. */
const char *suggest_word(const char *word, const char *const *words, size_t count);
