/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The environment of a conformance case: a kubelet in this process that can be stopped, started and
 * made to misbehave, the plugin's process if the tool started it, the tested resource, and calls to
 * the plugin. A case waits for conditions, with a limit that is only reached after a fault; while
 * it waits, the kubelet runs.
 */

#include "kubelet/channel.h"
#include "kubelet/conformance/plugin-process.h"
#include "kubelet/kubelet-manager.h"

struct conformance_case;

/* Shell commands that change the plugin's devices; NULL: not possible. */
struct conformance_hooks {
	const char *fail, *heal;   /* one device becomes unhealthy, and healthy again */
	const char *unplug, *plug; /* one device is removed, and added again */
};

struct conformance_options {
	const char *plugin_dir;
	const char *plugins_registry; /* NULL: none is watched */
	const struct kubelet_version *version;
	uint64_t seed;
	const char *plugin_command; /* NULL: started by another process */
	struct conformance_hooks hooks;
	const char **resources;
	size_t n_resources;        /* 0: the first that registers */
	const char *cases;         /* "3,7-9", NULL: all */
	const char *junit;         /* file, "-": instead of TAP; NULL: none */
	uint64_t timeout;          /* microseconds that a plugin may take, except for: */
	uint64_t register_timeout; /* microseconds until a plugin registers, first or again */
	size_t memory;             /* bytes that a hostile peer may cost it */
	bool dra;                  /* a DRA driver is tested, and not a device plugin */
	const char *apiserver; /* directory of the driver's devplug-apiserver; NULL: another one */
	const json_t *claims;  /* ResourceClaims that the driver finds; NULL: none */
	const char **cdi_dirs; /* that a runtime would read */
	size_t n_cdi_dirs;     /* 0: /etc/cdi and /var/run/cdi */
};

enum outcome {
	OUTCOME_OK,
	OUTCOME_NOT_OK,
	OUTCOME_SKIP,
};

/* The resource's events since the run began. */
struct trial_counts {
	unsigned registers; /* Register calls, with any result */
	unsigned registered, refused, lists, ended;
};

#define TRACE_MAX 24

struct trial {
	const struct conformance_options *options;
	struct manager_options kubelet_options;
	struct kubelet_faults faults;
	struct manager *manager; /* NULL: no kubelet runs */
	struct plugin_process plugin;
	char *resource; /* or the driver; NULL: none has registered yet */
	struct trial_counts counts;
	char ended_by[320], refused_by[320]; /* the last error of a stream, of a registration */
	/* The endpoint of the last Register. A driver whose endpoint is empty is not registered. */
	char endpoint[256], version[32];
	bool watched;               /* it came from plugins_registry */
	char socket[256];           /* of the driver, in plugins_registry */
	struct channel *driver;     /* the connection to it; NULL: there is none */
	bool asks_socket;           /* that goes to `socket` */
	json_int_t listed_by;       /* the connection of the last list */
	bool plugin_is_suspect;     /* the last case failed: start it again */
	bool interrupted;           /* a signal asks to stop */
	bool played;                /* a kubelet of this run has started, so the kubelet's files are
				     * ours */
	struct trial_counts before; /* when the case began */
	char panic[320];            /* cause of a kubelet's panic in this case, or empty */

	char message[720];      /* why the case failed or is skipped */
	char *trace[TRACE_MAX]; /* a ring of the last events as JSON */
	size_t n_traced;

	json_t *claims; /* the given ones, or those that are made in devplug-apiserver */
	json_t *made;   /* by name: the claims that are made there */
};

int trial_init(struct trial *trial, const struct conformance_options *options, struct error *error);
void trial_done(struct trial *trial);

/* Begins a new case: clears the message and the events. */
void trial_forget(struct trial *trial);

_printf_(2, 3) enum outcome trial_fail(struct trial *trial, const char *format, ...);
_printf_(2, 3) enum outcome trial_skip(struct trial *trial, const char *format, ...);

/* --- the kubelet --- */

/* Starts the kubelet. A failure is a fault of the tool, not of the plugin, and the message reports
 * it as such. */
bool trial_start_kubelet(struct trial *trial);

/* Ends the kubelet as SIGKILL does: connections break, and kubelet.sock stays and refuses
 * connections. */
void trial_kill_kubelet(struct trial *trial);

/* --- time --- */

typedef bool (*trial_condition)(struct trial *trial, const void *data);

/* Runs the kubelet until the condition is true, the limit is over or the plugin has made the
 * kubelet panic. Returns whether the condition is true. */
bool trial_await_within(
	struct trial *trial, trial_condition condition, const void *data, uint64_t limit);

/* As trial_await_within(), with the limit of the run. */
bool trial_await(struct trial *trial, trial_condition condition, const void *data);

/* As trial_await_within(), with the limit for registrations. */
bool trial_await_register(struct trial *trial, trial_condition condition, const void *data);

/* To be called, from any thread, when a condition may have become true. */
void trial_wake(void);

/* Runs the kubelet for this time. */
void trial_pass(struct trial *trial, uint64_t usec);

/* --- the plugin --- */

/* Starts the plugin; fails if another process started it. */
bool trial_start_plugin(struct trial *trial);
bool trial_owns_plugin(const struct trial *trial);

/* Kills the plugin, but not within the second of its start, because plugins name their sockets
 * after that second. The kubelet does not run in the meantime. */
void trial_end_plugin(struct trial *trial);

/* As trial_end_plugin(), and waits until the kubelet has noticed. */
bool trial_kill_plugin(struct trial *trial);

/* Sends SIGTERM and waits until the process has ended; otherwise sets the message. */
bool trial_stop_plugin(struct trial *trial);

/* If the plugin's process has ended on its own, adds that to the message. */
void trial_mention_end(struct trial *trial);

/* Runs a hook, with the run's limit. Sets the message on failure. */
bool trial_hook(struct trial *trial, const char *command);

/* Runs the hook that plugs the device in, and keeps an existing message. */
bool trial_plug_again(struct trial *trial);

/* Whether the resource is registered, its stream is open and a list has arrived. */
bool trial_is_serving(struct trial *trial, const void *data);

/* Waits for trial_is_serving(); on failure, the message describes the last step that succeeded. */
bool trial_await_serving(struct trial *trial);

/* Establishes the state in which most cases begin: kubelet and plugin run, the resource is served,
 * and no fault is set. */
bool trial_prepare(struct trial *trial);

/* Whether calls are sent to the driver's socket in plugins_registry instead of its endpoint. */
void trial_ask_socket(struct trial *trial, bool ask);

/* The connection to the resource's endpoint, or to the driver's, which is opened if necessary.
 * NULL: it cannot be opened. */
struct channel *trial_client(struct trial *trial);

/* The newest list; NULL: none. */
const struct device_table *trial_devices(struct trial *trial);

/* The path of the plugin's socket, NULL if the resource is not served. */
const char *trial_socket(struct trial *trial);

/* How many devices the kubelet considers healthy. */
size_t trial_healthy(struct trial *trial);

/* The healthy ids as a malloc'ed array that points into the list. Valid until the kubelet runs
 * again. */
int trial_healthy_ids(struct trial *trial, char ***ret, size_t *ret_n);
