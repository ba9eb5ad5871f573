/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The plugin's state. The main thread owns it; what gRPC's thread needs to answer calls is set
 * before the server is made and only read from then on, or atomic.
 */

#include <stdatomic.h>
#include <systemd/sd-event.h>

#include "common/error.h"
#include "planted-faults.h"
#include "proto/mailbox.h"
#include "proto/rpc.h"

#define DEVICES 4

struct plugin {
	enum fault fault;
	const char *dir, *resource;
	uint64_t delay; /* of Allocate, for the fault that delays it */
	sd_event *event;
	struct mailbox *mailbox;
	struct rpc_server *server;
	atomic_bool failed, unplugged; /* device 1, device 2 */
	bool ever_failed;
	sd_event_source *publish_source;
	uint64_t published; /* when */
	unsigned flood;     /* lists that are still to be sent */

	/* registration.c */
	char endpoint[64];
	int listen_fd;
	bool bound;       /* the socket has a name in the directory */
	unsigned tries;   /* Register calls */
	unsigned sockets; /* of kubelets that were seen to appear */
	unsigned ended;   /* sessions, by the end of their stream */
	uint64_t session;
	sd_event_source *accept_source, *retry_source, *watch_source;
	struct rpc_client *kubelet; /* while Register is pending, or the fault keeps it */
	unsigned streams;
	bool registered;

	atomic_uint allocations, pre_starts;
};

/* The methods that the server offers, and their state. */
extern const struct rpc_method service_methods[];
extern const size_t service_n_methods;

/* Encodes the list and has it sent. */
void service_publish(struct plugin *plugin);

/* A stream has been opened or has ended; on the main thread. */
void registration_on_stream(struct plugin *plugin, uint64_t session, bool opened);

/* Watches the directory and registers. */
int registration_start(struct plugin *plugin, struct error *error);
void registration_stop(struct plugin *plugin);
