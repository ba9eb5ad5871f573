/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides for how long a device that was allocated counts as in use although it is not booked. Each
 * device has a time of its own, because others may be allocated all the time. A device whose former
 * pod has ended is not booked for the next one before the kubelet has written it.
 */
#include "supervisor/ownership/taken.h"

#include "drivers/model/device.h"
#include "supervisor/ownership/arbiter.h"

struct taken {
	struct taken *next;
	char *id;
	bool again;  /* it is still booked for a former pod */
	uint64_t at; /* CLOCK_MONOTONIC */
};

int taken_add(struct taken_devices *taken, const char *id, bool again, uint64_t now)
{
	struct taken *added = map_get(&taken->by_id, id);

	if (!added) {
		if (taken->by_id.count >= CLAIMS_MAX)
			return -ENOSPC;
		added = calloc(1, sizeof(*added));
		if (!added)
			return -ENOMEM;
		added->id = strdup(id);
		if (!added->id || map_put(&taken->by_id, added->id, added) < 0) {
			free(added->id);
			free(added);
			return -ENOMEM;
		}
		added->next = taken->first;
		taken->first = added;
	}
	added->again = again;
	added->at = now;
	return 0;
}

static void drop_next(struct taken_devices *taken, struct taken **at)
{
	struct taken *dropped = *at;

	*at = dropped->next;
	(void)map_remove(&taken->by_id, dropped->id);
	free(dropped->id);
	free(dropped);
}

uint64_t taken_drop(struct taken_devices *taken, const struct bookings *booked, uint64_t now)
{
	uint64_t next = 0;

	for (struct taken **at = &taken->first; *at;) {
		struct taken *device = *at;
		uint64_t due = device->at + ARBITER_TAKEN_TIME;
		bool is_booked = bookings_have_unit(booked, device->id, BOOKED_ALONE);

		device->again = device->again && is_booked;
		if (now >= due || (is_booked && !device->again)) {
			drop_next(taken, at);
			continue;
		}
		next = next == 0 ? due : MIN_OF(next, due);
		at = &device->next;
	}
	return next;
}

void taken_done(struct taken_devices *taken)
{
	while (taken->first)
		drop_next(taken, &taken->first);
	map_done(&taken->by_id);
}
