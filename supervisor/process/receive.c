/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what happens to the messages of a child while devplugd is at its limit of open files:
 * they wait in the socket, because a message that is received without its descriptors is lost.
 */
#include "supervisor/process/receive.h"

#include "common/log.h"

/* Between two attempts, so that a socket that stays readable does not keep the event loop busy. */
#define RETRY_INTERVAL USEC_PER_SEC
#define LOG_INTERVAL   (60 * USEC_PER_SEC)

/* Once for all processes: they wait for the same reason. */
static void log_shortage(void)
{
	static uint64_t not_before;
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (now < not_before)
		return;
	not_before = now + LOG_INTERVAL;
	log_error(
		"cannot receive messages of child processes, which wait: devplugd has reached its "
		"limit of open files; raise LimitNOFILE= of devplugd.service");
}

int receive_from_child(int control_fd, sd_event_source *source, struct control_message *ret_message)
{
	int r = control_receive_from_child(control_fd, ret_message);
	uint64_t interval;
	unsigned burst;
	bool slow = sd_event_source_get_ratelimit(source, &interval, &burst) >= 0;

	if (r == -EMFILE)
		log_shortage();
	/* Setting it again would begin another interval. */
	if (slow != (r == -EMFILE))
		(void)sd_event_source_set_ratelimit(source, slow ? 0 : RETRY_INTERVAL, 1);
	return r;
}
