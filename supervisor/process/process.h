/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One process that devplugd runs: its start, its messages, its output and its end. When it is
 * started and ended is decided by its owner, who has a struct process for each that can run at the
 * same time. A process is not trusted: its messages are checked, counted and bounded. No function
 * but process_start() blocks.
 */

#include <signal.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "common/control.h"
#include "supervisor/process/relay.h"
#include "supervisor/process/spawn.h"

/* More messages than this in one second are a flood. When the kubelet starts, devplugd-cluster asks
 * for all of DRA_CLAIMS_MAX claims. */
#define PROCESS_MESSAGES_MAX 10000

/* What happens to a process. Each function may call process_done(). */
struct process_events {
	/* May take descriptors. NULL: no message is received. */
	void (*on_message)(struct control_message *message, void *userdata);
	/* It "sent a malformed message" or "sent too many messages", and is ignored from now on. */
	void (*on_broken)(const char *what, void *userdata);
	/* It has closed its control socket; may be NULL. */
	void (*on_hangup)(void *userdata);
	/* It has ended, and its output was logged. Its last messages can still be received. The
	 * owner calls process_done(). */
	void (*on_exit)(const siginfo_t *info, void *userdata);
};

struct process {
	sd_event *event;
	const struct control_protocol *protocol;
	const struct process_events *events;
	void *userdata;
	const char *name; /* for its output in the log; NULL: none */

	pid_t pid;           /* 0: no process; the members below belong to the process */
	int control_fd;      /* non-blocking */
	bool killed;         /* by us */
	bool messages_wait;  /* in its socket, because devplugd has no free descriptors */
	uint64_t started_at; /* CLOCK_MONOTONIC */
	struct relay *relay;
	sd_event_source *exit_source, *control_source;
	uint64_t window_start; /* of the count of messages */
	unsigned in_window;
};

/* Prepares the structure; there is no process yet. All arguments must outlive it.
 * `protocol`: NULL if no message is received. */
void process_init(struct process *process, sd_event *event, const struct control_protocol *protocol,
	const char *name, const struct process_events *events, void *userdata);

/* Starts a process. Returns 0 or negative errno with the error filled, after which there is none.
 */
int process_start(
	struct process *process, const struct spawn_options *options, struct error *error);

/* Receives no more messages from the process. */
void process_ignore(struct process *process);

/* Receives the messages that wait in the socket, which may be those of a process that has ended.
 * Returns whether some cannot be received now. */
bool process_receive(struct process *process);

/* Sends a signal, if there is a process: by the pidfd where there is one, so never to another
 * process that has the number now. */
void process_kill(struct process *process, int signal);

/* How the process ended: "(pid 7) exited with status 1 after 2.0 s; its last log line: ...". */
void process_exit_text(
	const struct process *process, const siginfo_t *info, char *ret, size_t size);

/* Kills the process, if it has not ended, and releases everything that belongs to it; another one
 * can be started. Who calls this before the end leaves the rest to orphans.h. */
void process_done(struct process *process);
