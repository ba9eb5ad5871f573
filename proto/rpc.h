/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A thin C binding of the gRPC C core: bytes in, bytes and a status out, over sockets that the
 * caller has accepted or connected. This header and server.c, client.c, completion.c are the only
 * places that know gRPC. One completion queue, drained by one thread; every callback below runs on
 * that thread and must not block. gRPC must never be initialised before a fork without exec:
 * rpc_start() is called in main()s only.
 */

#include <systemd/sd-event.h>

#include "common/error.h"

/* Status codes of gRPC (doc/statuscodes.md) that this program sends or distinguishes. */
enum rpc_status {
	RPC_OK = 0,
	RPC_CANCELLED = 1,
	RPC_UNKNOWN = 2,
	RPC_INVALID_ARGUMENT = 3,
	RPC_DEADLINE_EXCEEDED = 4,
	RPC_NOT_FOUND = 5,
	RPC_RESOURCE_EXHAUSTED = 8,
	RPC_FAILED_PRECONDITION = 9,
	RPC_UNIMPLEMENTED = 12,
	RPC_INTERNAL = 13,
	RPC_UNAVAILABLE = 14,
};

/* The largest request that we accept: GetPreferredAllocation carries every id twice at worst. */
#define RPC_REQUEST_MAX (16U << 20)

/* Initialises gRPC and starts the queue's thread, with signals blocked there. Returns 0 or negative
 * errno. */
int rpc_start(void);

/* Whether the queue's thread has worked for a second without delivering anything, since it last did
 * or since this was last true, or gRPC's other threads have worked for a second since the last
 * call: a peer sends faster than gRPC reads, and while that goes on gRPC serves no other client. To
 * be called from the thread that runs the loop, every few seconds. */
bool rpc_is_held_up(void);

/* Ends the queue and its thread; no handler runs any more. Every connection must have ended. */
void rpc_stop(void);

/* --- server --- */

struct rpc_server;
struct rpc_call; /* a unary call that waits for its answer */

struct rpc_method {
	const char *path; /* "/v1beta1.DevicePlugin/Allocate" */

	/* Unary: answer the call exactly once, now or later and from any thread, with rpc_reply()
	 * or rpc_fail(). The request's bytes are valid until the function returns. */
	void (*on_call)(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata);

	/* Broadcast: a server-stream whose every message is the newest of rpc_publish(); on_call is
	 * NULL. The handlers for opened and closed streams get the session of the connection, and
	 * may be NULL. */
	void (*on_opened)(uint64_t session, void *userdata);
	void (*on_closed)(uint64_t session, void *userdata);
};

/* `methods` must outlive the server. Other methods are answered UNIMPLEMENTED. Connections that end
 * are noticed through `event`, the loop of the thread that calls the functions of the server. */
int rpc_server_new(sd_event *event, const struct rpc_method *methods, size_t n_methods,
	void *userdata, struct rpc_server **ret);

/* How many calls a connection may have at a time, unless the server is set to another number before
 * its first connection. */
#define RPC_CALLS_MAX 256
void rpc_server_set_calls_max(struct rpc_server *server, int calls_max);

/* Serves a connected, non-blocking stream socket; takes the descriptor, also on failure. `session`
 * is the caller's label for it. -EMFILE above RPC_CONNECTIONS_MAX connections. */
#define RPC_CONNECTIONS_MAX 64
int rpc_server_add(struct rpc_server *server, int fd, uint64_t session);

/* As rpc_server_add(), for an unknown peer. gRPC reads the first bytes of a connection on the
 * thread that adds it, and goes on as long as there are more: this function uses a thread of its
 * own. */
int rpc_server_add_unknown(struct rpc_server *server, int fd, uint64_t session);

/* Whether the next connection would be refused. */
bool rpc_server_is_full(const struct rpc_server *server);

/* Whether RPC_ENDING_MAX connections have ended and still have their descriptors and calls, because
 * gRPC frees them later, on its own thread. Refuse clients that are not needed meanwhile. */
#define RPC_ENDING_MAX 16
bool rpc_server_is_behind(struct rpc_server *server);

/* Closes the oldest connection of the session to make room. -ENOENT if it has none. */
int rpc_server_evict(struct rpc_server *server, uint64_t session);

/* Closes every connection of the session; its streams end, on_closed is called for each. */
void rpc_server_end_session(struct rpc_server *server, uint64_t session);

/* Makes `data` (malloc'ed, taken) the newest message of every broadcast stream, now and to come. A
 * stream that is slow to read gets the newest message when it is ready for one, never a queue. */
void rpc_publish(struct rpc_server *server, uint8_t *data, size_t size);

/* The last published message, NULL before the first. For the publishing thread, until it publishes
 * again. */
const uint8_t *rpc_newest(const struct rpc_server *server, size_t *ret_size);

/* Waits until every unary call is answered, at most `grace` microseconds. New calls are still
 * served. For a process that is about to end: the kernel closes connections and ends threads faster
 * than gRPC does, so nothing here stops or frees a server. */
void rpc_server_drain(struct rpc_server *server, uint64_t grace);

/* Session of the connection the call came on. */
uint64_t rpc_call_session(const struct rpc_call *call);

/* How long the caller waits, from when the call arrived; USEC_INFINITY: without a limit. */
uint64_t rpc_call_timeout(const struct rpc_call *call);

/* For a call that is answered later: call it within on_call(), before another thread has the call.
 * `on_cancelled` is called on gRPC's thread, with the server's userdata, if the caller cancels or
 * its connection ends before the answer was sent. The call must be answered all the same, and is
 * valid until then. */
typedef void (*rpc_cancel_handler)(struct rpc_call *call, void *userdata);
void rpc_call_watch(struct rpc_call *call, rpc_cancel_handler on_cancelled);

/* Answers with bytes that are copied. */
void rpc_reply(struct rpc_call *call, const uint8_t *data, size_t size);

/* Answers with an error; the caller's user sees the text. */
void rpc_fail(struct rpc_call *call, enum rpc_status status, const char *text);

/* --- client --- */

struct rpc_client;

struct rpc_result {
	int status;          /* enum rpc_status, or another gRPC code */
	const char *text;    /* the peer's words on failure, never NULL */
	const uint8_t *data; /* the reply of a unary call, NULL on failure */
	size_t size;
};

/* Calls the peer of a connected, non-blocking stream socket; takes the descriptor, also on failure.
 * Answers may have up to RPC_REQUEST_MAX, because the kubelet's answer about all pods of a node is
 * larger than a list of devices. */
int rpc_client_new(int fd, struct rpc_client **ret);

/* Calls a unary method; `on_result` is called once. One call at a time. */
typedef void (*rpc_result_handler)(const struct rpc_result *result, void *userdata);
int rpc_client_call(struct rpc_client *client, const char *path, const uint8_t *data, size_t size,
	rpc_result_handler on_result, void *userdata);

/* Cancels the call (its handler gets RPC_CANCELLED) and closes the connection. Does not wait: the
 * handler may run until rpc_stop() returns. Returns NULL. */
struct rpc_client *rpc_client_free(struct rpc_client *client);
