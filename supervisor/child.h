/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The process side of one resource: carries out what the state table decides (processes, control
 * socket, sessions, timers) and turns what happens into its events. A child is never believed: its
 * messages are checked, counted and bounded.
 */

#include <systemd/sd-event.h>

#include "ownership.h"
#include "relay.h"
#include "resource.h"
#include "session.h"

/* More messages than this in one second are a flood. */
#define CHILD_MESSAGES_MAX 10000

struct manager;

/* See child-publish.h. */
struct child_publication {
	int fd;          /* the newest, or -EBADF */
	uint64_t number; /* of it */
	char *failure;   /* what went wrong last, for the log; NULL: nothing */
	uint64_t next;   /* CLOCK_MONOTONIC before which none is looked at */
	sd_event_source *timer;
};

/* See child-claims.h. */
struct child_claims {
	struct claims_list *list; /* what it found; NULL: not known */
	int fd;                   /* the same, newer and not read yet, or -EBADF */
	uint64_t number;          /* of what the process sent last; 0: nothing */
	bool asked;               /* it waits for an answer */
	uint64_t asked_at;        /* CLOCK_MONOTONIC */
	char *told;               /* the process, last; NULL: nothing */
	char *note;               /* for people; NULL: none */
};

struct child {
	struct manager *manager;
	struct resource *resource;
	bool leaving; /* not in the configuration any more */

	pid_t pid; /* 0: none */
	int control_fd;
	struct relay *relay;
	sd_event_source *exit_source, *control_source;
	sd_event_source *timers[_RESOURCE_TIMER_MAX];
	struct session session;
	enum registration_way registration; /* of the next session */
	uint64_t started_at;                /* CLOCK_MONOTONIC */

	uint64_t window_start; /* of the count of messages */
	unsigned in_window;

	int devices_fd;        /* newest inventory, or -EBADF */
	bool devices_new;      /* not written yet */
	size_t devices_size;   /* how much of it is in its file; 0: the file is of another one */
	uint64_t devices_next; /* CLOCK_MONOTONIC before which it is not written again */

	struct child_claims claims;
	bool overlap;  /* as the configuration says */
	uint64_t gone; /* devices that have vanished and are still listed */
	struct child_publication publication;

	int memory_fd;      /* what was found about the health of devices, see child-memory.h */
	bool memory_new;    /* not written yet */
	size_t memory_size; /* how much of it is in its file, as of devices_size */
};

/* A resource without a process. Returns 0 or negative errno. */
int child_new(struct manager *manager, const struct resource_config *config, struct child **ret);

/* Kills the process, if any is left, without waiting for it. */
struct child *child_free(struct child *child);
DEFINE_CLEANUP(struct child *, child_free)
