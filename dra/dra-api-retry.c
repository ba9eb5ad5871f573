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
/* The same for requests that a call of the kubelet waits for. */
#define PAUSE_MIN       (50 * USEC_PER_MSEC)
#define PAUSE_MAX       (1 * USEC_PER_SEC)
#define PAUSE_AFTER_MAX 5ULL

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

bool dra_api_note_outage(struct dra_outage *outage, const struct dra_answer *answer, uint64_t now)
{
	uint64_t asked = MIN_OF(answer->retry_after, PAUSE_AFTER_MAX) * USEC_PER_SEC;

	if (!dra_api_is_outage(answer)) {
		*outage = (struct dra_outage){ 0 };
		return false;
	}
	if (now >= outage->until)
		outage->delay =
			outage->delay == 0 ? PAUSE_MIN : MIN_OF(outage->delay * 2, PAUSE_MAX);
	outage->until = MAX_OF(outage->until, now + MAX_OF(outage->delay, asked));
	return true;
}
