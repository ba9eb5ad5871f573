/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The hash for tables whose keys come from another process: SipHash-2-4 (Aumasson and Bernstein,
 * 2012) with a random key in each process, so that no peer can choose keys that collide.
 * hash_string() is for names that must be the same in every process.
 */

#include "common/util.h"

#define SIPHASH_KEY_SIZE 16

/* The hash of the bytes under a key. */
uint64_t siphash24(const void *data, size_t size, const unsigned char key[static SIPHASH_KEY_SIZE]);

/* The hash of a string under the key of this process. */
uint64_t hash_foreign(const char *string);
