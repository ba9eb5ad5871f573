/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports a refused call to the supervisor, with the devices that it was for. The text of the
 * message is the ids, separated by commas, a space, and the sentence. Our ids have no comma and no
 * space, but a kubelet may send anything.
 */
#include <stdatomic.h>

#include "common/log.h"
#include "proto/plugin/call-failed.h"

/* The ids' part of CONTROL_TEXT_MAX; the sentence needs the rest. */
#define IDS_MAX 400

static atomic_ullong second;
static atomic_uint in_second, left_out;

static bool within_rate(void)
{
	unsigned long long now = now_usec(CLOCK_MONOTONIC) / USEC_PER_SEC;

	if (atomic_exchange(&second, now) != now)
		atomic_store(&in_second, 0);
	return atomic_fetch_add(&in_second, 1) < CALL_FAILED_RATE;
}

static void write_ids(char ret[static IDS_MAX], const char *const *ids, size_t n_ids)
{
	size_t used = 0;

	for (size_t i = 0; i < n_ids; i++) {
		size_t length = strlen(ids[i]);

		if (used + length + sizeof(",...") >= IDS_MAX) {
			(void)strcpy(ret + used, used > 0 ? ",..." : "...");
			return;
		}
		used += (size_t)sprintf(ret + used, "%s%s", used > 0 ? "," : "", ids[i]);
		for (char *p = ret + used - length; *p; p++)
			if (*p == ' ' || *p == ',')
				*p = '?';
	}
}

void call_failed(enum child_call call, const char *const *ids, size_t n_ids, const char *text)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_CALL_FAILED);
	char devices[IDS_MAX] = "";

	if (!within_rate()) {
		(void)atomic_fetch_add(&left_out, 1);
		return;
	}
	write_ids(devices, ids, n_ids);
	(void)snprintf(message.text, sizeof(message.text), "%s %s", devices, text);
	message.call = call;
	message.count = 1 + atomic_exchange(&left_out, 0);
	if (control_send(CONTROL_FD, &message) < 0)
		log_warning("a call of the kubelet failed: %s", text);
}
