/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Medians, not means: a machine that does something else for a while spoils few samples.
 */
#include "samples.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/util.h"

uint64_t now_nsec(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

int print_samples(uint64_t *samples, size_t n)
{
	qsort(samples, n, sizeof(*samples), compare);
	(void)printf("{\"samples\": %zu, \"p50\": %.1f, \"p99\": %.1f, \"minimum\": %.1f}\n", n,
		(double)samples[n / 2] / 1000, (double)samples[n * 99 / 100] / 1000,
		(double)samples[0] / 1000);
	return 0;
}

int write_health(const char *path, const char *text)
{
	/* Texts are of one length: nothing to cut off, so one write is one event. */
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}
