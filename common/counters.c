/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets a child count events for metrics without a message for each: it writes to a page of memory
 * that the supervisor reads. The size is sealed, so that a truncated page cannot end a reader. A
 * reader copies the page and never maps memory that another process writes.
 */
#include "common/counters.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "common/sealed.h"

#define PAGE_SIZE_BYTES (_COUNTER_MAX * sizeof(uint64_t))

static atomic_uint_least64_t own[_COUNTER_MAX];
static atomic_uint_least64_t *counters = own;

static_assert(sizeof(own) == PAGE_SIZE_BYTES, "a counter is eight bytes");

void counters_add(enum counter counter, uint64_t number)
{
	atomic_fetch_add_explicit(&counters[counter], number, memory_order_relaxed);
}

void counters_add_allocation(bool answered, uint64_t usec)
{
	static const uint64_t bounds[] = ALLOCATION_BOUNDS;
	unsigned bucket = 0;

	static_assert(ARRAY_SIZE(bounds) + 1 == ALLOCATION_BUCKETS, "one more without a bound");
	while (bucket < ARRAY_SIZE(bounds) && usec > bounds[bucket])
		bucket++;
	counters_add((enum counter)(COUNTER_ALLOCATION_BUCKET + bucket), 1);
	counters_add(COUNTER_ALLOCATION_USEC, usec);
	counters_add(answered ? COUNTER_ALLOCATIONS_OK : COUNTER_ALLOCATIONS_FAILED, 1);
}

void counters_add_probe_time(unsigned kind, uint64_t usec)
{
	counters_add((enum counter)(COUNTER_PROBES_TIMED + kind), 1);
	counters_add((enum counter)(COUNTER_PROBE_USEC + kind), usec);
}

int counters_new(void)
{
	_cleanup_close_ int fd = sealed_begin("counters");

	if (fd < 0)
		return fd;
	if (ftruncate(fd, PAGE_SIZE_BYTES) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int counters_use(int fd)
{
	void *page = mmap(NULL, PAGE_SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		return -errno;
	counters = page;
	return 0;
}

int counters_read(int fd, uint64_t ret[static _COUNTER_MAX])
{
	ssize_t n = RETRY_ON_EINTR(pread(fd, ret, PAGE_SIZE_BYTES, 0));

	if (n != (ssize_t)PAGE_SIZE_BYTES)
		return n < 0 ? -errno : -EBADMSG;
	for (size_t i = 0; i < _COUNTER_MAX; i++)
		ret[i] = MIN_OF(ret[i], COUNT_MAX);
	return 0;
}
