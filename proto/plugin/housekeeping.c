/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a child returns memory to the kernel, ends processes that programs left behind, and
 * does other work that is not urgent: one timer, which fires together with the heartbeat, is
 * enough.
 */
#include "proto/plugin/housekeeping.h"

#include <malloc.h>

#include "common/log.h"
#include "drivers/host/command.h"

/* Above this growth, unused memory is returned to the kernel. */
#define UNUSED_MEMORY_MAX (512UL << 10)

static void end_orphans(struct housekeeping *housekeeping)
{
	bool ended = command_end_orphans();

	if (ended && !housekeeping->orphans_logged)
		log_warning("processes that programs left behind were ended; a program must wait "
			    "for the processes that it starts. This is logged once");
	housekeeping->orphans_logged = housekeeping->orphans_logged || ended;
}

/* Memory of our own, in bytes. */
static size_t private_memory(void)
{
	_cleanup_fclose_ FILE *stream = fopen("/proc/self/statm", "re");
	unsigned long size, resident, shared;

	if (!stream || fscanf(stream, "%lu %lu %lu", &size, &resident, &shared) != 3)
		return 0;
	return (resident - shared) * (size_t)sysconf(_SC_PAGESIZE);
}

/* gRPC frees the memory that a flood of frames took, but malloc keeps it. It may still be in use at
 * the first check. */
static void return_memory(struct housekeeping *housekeeping)
{
	size_t now = private_memory(), in_use = mallinfo2().uordblks;

	if (now > housekeeping->memory_kept + UNUSED_MEMORY_MAX ||
		housekeeping->memory_in_use > in_use + UNUSED_MEMORY_MAX) {
		(void)malloc_trim(0);
		housekeeping->memory_kept = private_memory();
		housekeeping->memory_in_use = in_use;
	} else {
		housekeeping->memory_kept = MIN_OF(now, housekeeping->memory_kept);
		housekeeping->memory_in_use = MAX_OF(in_use, housekeeping->memory_in_use);
	}
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct housekeeping *housekeeping = userdata;

	end_orphans(housekeeping);
	housekeeping->on_due(housekeeping->userdata);
	return_memory(housekeeping);
	(void)sd_event_source_set_time_relative(source, HOUSEKEEPING_INTERVAL);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int housekeeping_start(struct housekeeping *housekeeping, sd_event *event)
{
	return sd_event_add_time_relative(event, &housekeeping->timer, CLOCK_MONOTONIC,
		HOUSEKEEPING_INTERVAL, USEC_PER_SEC, on_due, housekeeping);
}

void housekeeping_done(struct housekeeping *housekeeping)
{
	housekeeping->timer = sd_event_source_disable_unref(housekeeping->timer);
}
