/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The life of one resource as a table of states and events (resource-lifecycle.c). This part does
 * not know processes, sockets or clocks: actions go through `struct resource_operations`, and what
 * has happened arrives as events. A resource has at most one child and at most one session, and the
 * next session begins only when the last has ended or its child is dead.
 */

#include <sys/types.h>

#include "common/error.h"
#include "configuration/config.h"
#include "supervisor/children/failure.h"

#define RESOURCE_READY_TIMEOUT     (30 * USEC_PER_SEC) /* for the answer to a configuration */
#define RESOURCE_REGISTER_TIMEOUT  (30 * USEC_PER_SEC) /* for the kubelet to register it */
#define RESOURCE_WATCH_TIMEOUT     (15 * USEC_PER_SEC) /* from then on for its ListAndWatch */
#define RESOURCE_END_TIMEOUT       (5 * USEC_PER_SEC)  /* for the end of a session or process */
#define RESOURCE_HANGUP_TIMEOUT    (1 * USEC_PER_SEC)  /* from a closed control socket to exit */
#define RESOURCE_REFUSED_RETRY     (60 * USEC_PER_SEC) /* of a configuration */
#define RESOURCE_CONFIGURE_RETRY   (10 * USEC_PER_SEC) /* when it could not even be sent */
#define RESOURCE_SESSION_DELAY_MIN (100 * USEC_PER_MSEC)
#define RESOURCE_SESSION_DELAY_MAX (10 * USEC_PER_SEC)
#define RESOURCE_SESSION_PROVEN    (1 * USEC_PER_SEC) /* of serving, resets that delay */
#define RESOURCE_CONNECT_DELAY_MIN (1 * USEC_PER_MSEC)
#define RESOURCE_CONNECT_DELAY_MAX (1 * USEC_PER_SEC)

enum resource_state {
	RESOURCE_STOPPED,     /* no child and none wanted */
	RESOURCE_STARTING,    /* the child has not answered its configuration yet */
	RESOURCE_WAITING,     /* ready, no session: the kubelet is away or between two attempts */
	RESOURCE_REGISTERING, /* session handed over, not registered and watched yet */
	RESOURCE_SERVING,     /* registered, and the kubelet watches */
	RESOURCE_ENDING,      /* asked to end its session */
	RESOURCE_FAILED,      /* configuration refused and none applied; a child may exist */
	RESOURCE_BACKOFF,     /* no child; the next is due when the timer fires */
	RESOURCE_DYING,       /* child killed or misbehaving; its exit is awaited, then backoff */
	RESOURCE_RESTARTING,  /* asked to stop, to be started again at once */
	RESOURCE_STOPPING,    /* asked to stop permanently */
	_RESOURCE_STATE_MAX,
};

enum resource_event {
	/* what the administrator wants */
	RESOURCE_START,
	RESOURCE_STOP,
	RESOURCE_RESTART,   /* the configuration changed in a way that needs a new process */
	RESOURCE_CONFIGURE, /* `wanted` changed, or is to be tried again */
	RESOURCE_RENEW,     /* the plugin directory changed: another kubelet */
	/* what the world does */
	RESOURCE_KUBELET,          /* kubelet.sock is new */
	RESOURCE_KUBELET_REPLACED, /* kubelet.sock is not the session's any more */
	RESOURCE_SOCKET_LOST,      /* the session's socket was removed */
	RESOURCE_TIMEOUT,          /* the state's timer */
	RESOURCE_UNANSWERED,
	RESOURCE_SILENT,      /* no heartbeat */
	RESOURCE_NOT_OFFERED, /* the kubelet does not offer what is listed */
	/* from the child */
	RESOURCE_READY,
	RESOURCE_REFUSED,
	RESOURCE_WATCHED, /* CHILD_SERVING */
	RESOURCE_SESSION_ENDED,
	RESOURCE_ALIVE,
	/* from the kubelet client, before or after what the child reports of the session */
	RESOURCE_REGISTERED,
	RESOURCE_REGISTRATION_FAILED,
	/* the end of the child */
	RESOURCE_BROKEN, /* a malformed message, or a flood */
	RESOURCE_HANGUP, /* its control socket is closed */
	RESOURCE_EXIT,
	_RESOURCE_EVENT_MAX,
};

enum resource_timer {
	RESOURCE_TIMER_STATE,    /* RESOURCE_TIMEOUT */
	RESOURCE_TIMER_ANSWER,   /* RESOURCE_UNANSWERED */
	RESOURCE_TIMER_WATCHDOG, /* RESOURCE_SILENT */
	_RESOURCE_TIMER_MAX,
};

/* The consequence for a resource whose configuration was refused. */
enum refusal {
	REFUSAL_PREVIOUS_USED,
	REFUSAL_IN_FORCE_STAYS,
	REFUSAL_RETRY,
	_REFUSAL_MAX,
};

/* The actions that a resource needs. `userdata` is the resource's; every function but the void ones
 * returns 0 or negative errno. */
struct resource_operations {
	/* Starts a child and sends it the text. After a failure there is no child. */
	int (*start)(const struct resource_config *config, void *userdata, struct error *error);
	int (*configure)(const struct resource_config *config, void *userdata, struct error *error);
	/* A child has accepted a configuration: the first, or another than resource_applied()
	 * returned before. */
	void (*applied)(const struct resource_config *before, void *userdata);
	/* Opens a session (errors as session_open()), sends it to the child, and begins to
	 * register it. `ret_number`: its number, above all earlier ones. Returns 1 instead of 0 if
	 * the kubelet will connect on its own, in its own time. */
	int (*open_session)(void *userdata, uint64_t *ret_number, struct error *error);
	/* Cancels the registration, if it is pending, and asks the child to end the session. */
	int (*end_session)(uint64_t number, void *userdata);
	int (*stop)(void *userdata);
	void (*kill)(int signal, void *userdata);
	void (*remove_socket)(void *userdata);
	/* Fires once at that CLOCK_MONOTONIC time; USEC_INFINITY: not at all. */
	void (*set_timer)(enum resource_timer timer, uint64_t at, void *userdata);
	uint64_t (*now)(void *userdata);
	uint32_t (*random)(void *userdata);
	/* The visible state of the resource has changed. */
	void (*changed)(void *userdata);
};

/* The reason why a process ended without being asked to. */
enum exit_cause {
	EXIT_CAUSE_CRASH,  /* the process ended on its own */
	EXIT_CAUSE_HANG,   /* ended by the supervisor */
	EXIT_CAUSE_KILLED, /* SIGKILL by an administrator, or by the kernel without memory */
	_EXIT_CAUSE_MAX,
};

/* For metrics; they only grow. */
struct resource_counts {
	uint64_t registrations, registration_failures;
	uint64_t last_registration; /* CLOCK_REALTIME microseconds, 0: none yet */
	uint64_t exits[_EXIT_CAUSE_MAX];
};

struct resource {
	char *name;
	char *user;    /* of the process, as configured */
	bool confined; /* the process can run no programs */
	const struct resource_operations *operations;
	void *userdata;

	enum resource_state state;
	const struct resource_config *wanted;   /* of the newest generation */
	const struct resource_config *sent;     /* not answered by the child yet, or NULL */
	const struct resource_config *accepted; /* by a child, last, or NULL */
	bool refused;                           /* `wanted` was refused */
	/* Reasons by the consequence of the refusal, since a configuration was taken over. */
	struct log_once refusals_logged[_REFUSAL_MAX];
	struct log_once starts_logged, sessions_logged; /* failures to start it, to open one */
	bool child;                                     /* a process exists */
	bool started;                                   /* a process has existed */
	bool registered, watched;
	bool by_watcher;  /* the session is for the kubelet's plugin watcher */
	uint64_t session; /* number, 0: none */

	uint64_t child_delay, session_delay, connect_delay; /* last delays; 0: none yet */
	uint64_t serving_since;                             /* CLOCK_MONOTONIC */
	uint64_t next_try;                                  /* CLOCK_MONOTONIC, 0: none planned */

	unsigned restarts;
	uint64_t since;    /* CLOCK_REALTIME of the last change of the visible state */
	char reason[1024]; /* why it does not serve, or what is wrong although it does */
	uint64_t devices, healthy;
	uint64_t ids;         /* that are listed for the kubelet */
	uint64_t healthy_ids; /* that the kubelet is to offer */
	struct resource_counts counts;
	struct failure failures[FAILURE_KINDS];
};

/* Takes a reference to the configuration. Returns 0 or -ENOMEM. */
int resource_new(const struct resource_config *config, const struct resource_operations *operations,
	void *userdata, struct resource **ret);

/* Takes over a new configuration. Returns the event that applies it: CONFIGURE, RESTART, or
 * _RESOURCE_EVENT_MAX if nothing changes. */
enum resource_event resource_update(
	struct resource *resource, const struct resource_config *config);

/* The configuration that the resource is judged by in everything that devplugd does for it: what
 * its child has accepted, also while a newer one is tried or was refused, and while the child is
 * replaced. Before a child has accepted the first one, the one that is to be accepted. */
const struct resource_config *resource_applied(const struct resource *resource);

/* Whether only a new process can take over the configuration, because the one that runs has another
 * user or has given up programs. */
bool resource_needs_process(const struct resource *resource, const struct resource_config *config);

/* The child has accepted the configuration, of which a reference is taken. */
void resource_accept(struct resource *resource, const struct resource_config *config);

/* The child publishes files. Before its first READY it does that only after it has accepted what it
 * was sent. */
void resource_publishes(struct resource *resource);

/* Handles an event. `text`: the sentence that came with it, or NULL. */
void resource_handle(struct resource *resource, enum resource_event event, const char *text);

/* Makes a child that is ready open the applied configuration again, which scans for devices and
 * starts the probes. Returns whether there was such a child. */
bool resource_reopen(struct resource *resource);

/* The displayed name of the state: waiting, registering, serving, stopping, backoff or failed. */
const char *resource_state_name(const struct resource *resource);

/* Replaces the displayed sentence. */
_printf_(2, 3) void resource_explain(struct resource *resource, const char *format, ...);

struct resource *resource_free(struct resource *resource);
DEFINE_CLEANUP(struct resource *, resource_free)
