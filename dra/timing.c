/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a change moves a planned request.
 */
#include "dra/timing.h"

bool timing_is_planned(sd_event_source *timer)
{
	return sd_event_source_get_enabled(timer, NULL) > 0;
}

void timing_plan(sd_event_source *timer, uint64_t at)
{
	(void)sd_event_source_set_time(timer, at);
	(void)sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

void timing_plan_by(sd_event_source *timer, uint64_t at)
{
	uint64_t planned;

	if (!timing_is_planned(timer) || sd_event_source_get_time(timer, &planned) < 0 ||
		planned > at)
		timing_plan(timer, at);
}
