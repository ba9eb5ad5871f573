/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether, and when, a request that the API server has not answered, or has refused, is
 * repeated.
 */
#include <sys/random.h>

#include "dra/dra-api.h"

#define RETRY_MIN       (1 * USEC_PER_SEC)
#define RETRY_MAX       (60 * USEC_PER_SEC)
#define RETRY_AFTER_MAX 300ULL

bool dra_api_is_outage(const struct dra_answer *answer)
{
	return answer->failure &&
		(answer->code < 300 || answer->code == 401 || answer->code == 408 ||
			answer->code == 429 || answer->code >= 500);
}

uint64_t dra_api_retry_delay(uint64_t *delay, const struct dra_answer *answer)
{
	uint64_t wait = MIN_OF(answer->retry_after, RETRY_AFTER_MAX) * USEC_PER_SEC;
	uint32_t number = (uint32_t)now_usec(CLOCK_MONOTONIC) * 2654435761U;

	(void)!getrandom(&number, sizeof(number), GRND_NONBLOCK);
	*delay = *delay == 0 ? RETRY_MIN : MIN_OF(*delay * 2, RETRY_MAX);
	wait = MAX_OF(wait, *delay);
	return wait + (uint64_t)((double)wait / 4 * number / UINT32_MAX);
}
