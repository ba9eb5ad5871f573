/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how long a retry waits: twice as long as the last one, up to a maximum, and less again
 * after a time of service.
 */
#include "supervisor/process/retry-delay.h"

#include <sys/random.h>

uint32_t retry_delay_random(void)
{
	uint32_t number;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != (ssize_t)sizeof(number))
		number = (uint32_t)now_usec(CLOCK_MONOTONIC) * 2654435761U;
	return number;
}

void retry_delay_credit(uint64_t *delay, uint64_t served)
{
	uint64_t credits = served / RETRY_CHILD_CREDIT;

	*delay = credits < 32 ? *delay >> credits : 0;
	if (*delay < RETRY_CHILD_DELAY_MIN)
		*delay = 0;
}

uint64_t retry_delay_next(
	uint64_t *delay, uint64_t minimum, uint64_t maximum, uint32_t random_number)
{
	*delay = *delay == 0 ? minimum : MIN_OF(*delay * 2, maximum);
	return *delay * 9 / 10 + (uint64_t)((double)*delay / 5 * random_number / UINT32_MAX);
}
