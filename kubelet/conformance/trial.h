/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a case of the conformance run works with: a kubelet in this process that can be stopped,
 * started and made to misbehave, the plugin's process if the tool started it, the resource in
 * question, and calls to the plugin. A case waits for conditions, with a limit that only a fault
 * reaches; while it waits, the kubelet runs.
 */

#include "kubelet/channel.h"
#include "kubelet/conformance/plugin-process.h"
#include "kubelet/kubelet-manager.h"

struct conformance_case;

/* Shell commands that make something happen to the plugin's devices; NULL: cannot be done. */
struct conformance_hooks {
	const char *fail, *heal;   /* one device becomes unhealthy, and healthy again */
	const char *unplug, *plug; /* one device is removed, and is back */
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
	uint64_t timeout;          /* microseconds that a plugin may take for anything else than: */
	uint64_t register_timeout; /* microseconds until a plugin registers, first or again */
	size_t memory;             /* bytes that a hostile peer may cost it */
	bool dra;                  /* a DRA driver is tested, and not a device plugin */
	const json_t *claims;      /* ResourceClaims that the driver finds; NULL: none */
	const char **cdi_dirs;     /* that a runtime would read */
	size_t n_cdi_dirs;         /* 0: /etc/cdi and /var/run/cdi */
};

enum verdict {
	VERDICT_OK,
	VERDICT_NOT_OK,
	VERDICT_SKIP,
};

/* What has happened to the resource since the run began. */
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
	/* Of the last Register. A driver whose endpoint is empty is not registered. */
	char endpoint[256], version[32];
	bool watched;               /* it came from plugins_registry */
	char socket[256];           /* of the driver, in plugins_registry */
	struct channel *driver;     /* the connection to it; NULL: there is none */
	bool asks_socket;           /* that goes to `socket` */
	json_int_t listed_by;       /* the connection of the last list */
	bool plugin_is_suspect;     /* the last case failed: start it again */
	bool interrupted;           /* a signal asks to stop */
	bool played;                /* a kubelet has run: its files are ours */
	struct trial_counts before; /* when the case began */
	char panic[320];            /* over what a kubelet died in this case, or empty */

	char message[720];      /* why the case failed or is skipped */
	char *trace[TRACE_MAX]; /* a ring of the last events as JSON */
	size_t n_traced;
};

int trial_init(struct trial *trial, const struct conformance_options *options, struct error *error);
void trial_done(struct trial *trial);

/* A new case begins: no message, no trace. */
void trial_forget(struct trial *trial);

_printf_(2, 3) enum verdict trial_fail(struct trial *trial, const char *format, ...);
_printf_(2, 3) enum verdict trial_skip(struct trial *trial, const char *format, ...);

/* --- the kubelet --- */

/* Starts the kubelet. A failure is the tool's, not the plugin's, and the message shows that. */
bool trial_start_kubelet(struct trial *trial);

/* The kubelet dies as by SIGKILL: connections break, kubelet.sock stays and refuses. */
void trial_kill_kubelet(struct trial *trial);

/* --- time --- */

typedef bool (*trial_condition)(struct trial *trial, const void *data);

/* Lets the kubelet live until the condition is true, the limit is over or the kubelet has died of
 * what the plugin does. Returns whether the condition is true. */
bool trial_await_within(
	struct trial *trial, trial_condition condition, const void *data, uint64_t limit);

/* As trial_await_within(), with the limit of the run. */
bool trial_await(struct trial *trial, trial_condition condition, const void *data);

/* As trial_await_within(), with the limit for registrations. */
bool trial_await_register(struct trial *trial, trial_condition condition, const void *data);

/* From any thread: a condition may have become true. */
void trial_wake(void);

/* Lets so much time go by. */
void trial_pass(struct trial *trial, uint64_t usec);

/* --- the plugin --- */

/* Starts it; fails if it was started elsewhere. */
bool trial_start_plugin(struct trial *trial);
bool trial_owns_plugin(const struct trial *trial);

/* Kills it, but not in the second in which it was started: plugins name their sockets after that.
 * The kubelet stands still meanwhile. */
void trial_end_plugin(struct trial *trial);

/* As trial_end_plugin(), and waits until the kubelet has noticed. */
bool trial_kill_plugin(struct trial *trial);

/* Sends SIGTERM and waits until the process has ended; otherwise sets the message. */
bool trial_stop_plugin(struct trial *trial);

/* Adds to the message that the plugin's process has ended on its own, if it has. */
void trial_mention_end(struct trial *trial);

/* Runs a hook, for as long as the run's limit. Sets the message on failure. */
bool trial_hook(struct trial *trial, const char *command);

/* Runs the hook that plugs the device in, and keeps a message that there is already. */
bool trial_plug_again(struct trial *trial);

/* Whether the resource is registered, its stream lives and has brought a list. */
bool trial_is_serving(struct trial *trial, const void *data);

/* Waits for that; otherwise the message describes how far it came. */
bool trial_await_serving(struct trial *trial);

/* Brings everything into the state that most cases begin with: kubelet and plugin run, the resource
 * is served, no fault is in force. */
bool trial_prepare(struct trial *trial);

/* Whether calls go to the driver's socket in plugins_registry, and not to its endpoint. */
void trial_ask_socket(struct trial *trial, bool ask);

/* The connection to the resource's endpoint, or to the driver's, which is made if there is none.
 * NULL: there can be none. */
struct channel *trial_client(struct trial *trial);

/* The newest list; NULL: none. */
const struct device_table *trial_devices(struct trial *trial);

/* The path of the plugin's socket, NULL if the resource is not served. */
const char *trial_socket(struct trial *trial);

/* How many devices the kubelet takes for healthy. */
size_t trial_healthy(struct trial *trial);

/* The healthy ids, malloc'ed array into the list: valid until the kubelet runs on. */
int trial_healthy_ids(struct trial *trial, char ***ret, size_t *ret_n);
