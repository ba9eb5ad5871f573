/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the hash of all tables whose keys an attacker may choose. Words are little-endian, as in
 * the reference values.
 */
#include "common/siphash.h"

#include <endian.h>
#include <sys/random.h>

struct sip {
	uint64_t a, b, c, d;
};

static inline uint64_t rotate(uint64_t word, unsigned bits)
{
	return word << bits | word >> (64 - bits);
}

static inline void rounds(struct sip *s, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		s->a += s->b;
		s->c += s->d;
		s->b = rotate(s->b, 13) ^ s->a;
		s->d = rotate(s->d, 16) ^ s->c;
		s->a = rotate(s->a, 32);
		s->c += s->b;
		s->a += s->d;
		s->b = rotate(s->b, 17) ^ s->c;
		s->d = rotate(s->d, 21) ^ s->a;
		s->c = rotate(s->c, 32);
	}
}

static inline uint64_t load(const void *data, size_t size)
{
	uint64_t word = 0;

	memcpy(&word, data, size);
	return le64toh(word);
}

uint64_t siphash24(const void *data, size_t size, const unsigned char key[static SIPHASH_KEY_SIZE])
{
	const unsigned char *bytes = data, *end = bytes + size - size % 8;
	uint64_t low = load(key, 8), high = load(key + 8, 8), word;
	struct sip s = {
		.a = low ^ 0x736f6d6570736575ULL,
		.b = high ^ 0x646f72616e646f6dULL,
		.c = low ^ 0x6c7967656e657261ULL,
		.d = high ^ 0x7465646279746573ULL,
	};

	for (; bytes < end; bytes += 8) {
		word = load(bytes, 8);
		s.d ^= word;
		rounds(&s, 2);
		s.a ^= word;
	}
	word = load(bytes, size % 8) | (uint64_t)size << 56;
	s.d ^= word;
	rounds(&s, 2);
	s.a ^= word;
	s.c ^= 0xff;
	rounds(&s, 4);
	return s.a ^ s.b ^ s.c ^ s.d;
}

uint64_t hash_foreign(const char *string)
{
	static unsigned char key[SIPHASH_KEY_SIZE];
	static bool drawn;

	if (!drawn) {
		/* At an early boot there may be none yet; the address space is random, too. */
		if (getrandom(key, sizeof(key), GRND_NONBLOCK) != (ssize_t)sizeof(key)) {
			uint64_t now = now_usec(CLOCK_MONOTONIC) ^ (uintptr_t)&now;

			memcpy(key, &now, sizeof(now));
		}
		drawn = true;
	}
	return siphash24(string, strlen(string), key);
}
