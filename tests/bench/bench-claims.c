/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-claims: what the claims of a child cost the supervisor. Prints JSON: the CPU time for
 * 80,000 claims that collide in a table with an FNV hash that has no key, for as many that do not,
 * and for the maximum number of claims, in milliseconds.
 */
#include <stdio.h>
#include <time.h>

#include "common/sealed.h"
#include "supervisor/ownership/ownership.h"

#define DEVICES 80000
/* Each block of a colliding id is one of two: 2^17 ids. */
#define BLOCKS     17
#define BLOCK_SIZE 3
/* Bits of the hash that are the same, enough for a table of so many devices. */
#define SAME_BITS 20
#define ROUNDS    5

static double cpu_msec(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static uint64_t fnv(uint64_t hash, const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3ULL;
	return hash & ((1U << SAME_BITS) - 1);
}

static void make_block(unsigned number, char ret[static BLOCK_SIZE])
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

	for (size_t i = 0; i < BLOCK_SIZE; i++, number /= 64)
		ret[i] = letters[number % 64];
}

/* Two blocks after which the hash is the same. Returns it. */
static uint64_t find_pair(uint64_t hash, char ret[2][BLOCK_SIZE])
{
	static unsigned seen[1U << SAME_BITS]; /* number of a block, plus one */

	memset(seen, 0, sizeof(seen));
	for (unsigned number = 0;; number++) {
		uint64_t next;

		make_block(number, ret[1]);
		next = fnv(hash, ret[1], BLOCK_SIZE);
		if (seen[next]) {
			make_block(seen[next] - 1, ret[0]);
			return next;
		}
		seen[next] = number + 1;
	}
}

static void write_colliding(FILE *stream)
{
	char blocks[BLOCKS][2][BLOCK_SIZE];
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < BLOCKS; i++)
		hash = find_pair(hash, blocks[i]);
	for (unsigned n = 0; n < DEVICES; n++) {
		(void)fprintf(stream, "%u\t", n);
		for (size_t i = 0; i < BLOCKS; i++)
			(void)fwrite(blocks[i][n >> i & 1], 1, BLOCK_SIZE, stream);
		(void)fputc('\n', stream);
	}
}

static void write_random(FILE *stream)
{
	for (unsigned n = 0; n < DEVICES; n++) {
		(void)fprintf(stream, "%u\t", n);
		for (size_t i = 0; i < BLOCKS * BLOCK_SIZE; i++)
			(void)fputc('a' + rand() % 26, stream);
		(void)fputc('\n', stream);
	}
}

static void write_most(FILE *stream)
{
	for (unsigned n = 0; n < CLAIMS_MAX; n++)
		(void)fprintf(stream, "device-%u\tclaim-%u\n", n, n);
}

static double measure_once(int fd)
{
	_cleanup_(hardware_claims_freep) struct hardware_claims *list = NULL;
	struct decision decision = { .name = "vendor.example/a" };
	double began = cpu_msec();

	if (hardware_claims_read(fd, SIZE_MAX, SIZE_MAX, &list) < 0)
		abort();
	decision.list = list;
	if (ownership_decide(&decision, 1) < 0)
		abort();
	decisions_done(&decision, 1);
	return cpu_msec() - began;
}

static double measure(void (*write)(FILE *stream))
{
	_cleanup_close_ int fd = sealed_begin("claims");
	FILE *stream = fdopen(dup(fd), "w");
	double best = 1e9;

	if (!stream)
		abort();
	write(stream);
	if (fclose(stream) != 0 || sealed_end(fd) < 0)
		abort();
	for (unsigned i = 0; i < ROUNDS; i++) {
		double cost = measure_once(fd);

		best = MIN_OF(best, cost);
	}
	return best;
}

int main(void)
{
	double colliding = measure(write_colliding), random = measure(write_random),
	       most = measure(write_most);

	(void)printf("{\"colliding\": %.1f, \"random\": %.1f, \"most\": %.1f}\n", colliding, random,
		most);
	return 0;
}
