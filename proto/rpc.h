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

/* Status codes of gRPC (doc/statuscodes.md) that we send or tell apart. */
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

/* The greatest message a kubelet accepts from a plugin: grpc-go's default, which it does not raise.
 */
#define RPC_KUBELET_MESSAGE_MAX (4U << 20)
/* What we accept: GetPreferredAllocation carries every id twice at worst. */
#define RPC_REQUEST_MAX (16U << 20)

/* Initialises gRPC and starts the queue's thread, with signals blocked there. In devplugd-plugin
 * gRPC's own timers come up to 50 s late (plugin/lazy-timers.c): time limits are the caller's to
 * keep. Returns 0 or negative errno. */
int rpc_start(void);

/* Whether the queue's thread has worked for a second without delivering anything, since it last did
 * or since this was last true: somebody sends faster than gRPC reads, and it reads nobody else's
 * socket as long as it finds something in that one. For one thread to ask, now and then. */
bool rpc_is_held_up(void);

/* Ends the queue and its thread; no handler runs any more. Servers and clients must have been
 * freed. */
void rpc_stop(void);

/* Frees what gRPC holds, after rpc_stop(). May wait as long as timers are late: devplugd-plugin
 * ends with _exit() instead. */
void rpc_shutdown(void);

/* --- server --- */

struct rpc_server;
struct rpc_call; /* a unary call that waits for its answer */

struct rpc_method {
	const char *path; /* "/v1beta1.DevicePlugin/Allocate" */

	/* Unary: answer the call exactly once, now or later and from any thread, with rpc_reply()
	 * or rpc_fail(). The request's bytes are valid until the function returns. */
	void (*on_call)(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata);

	/* Broadcast: a server-stream whose every message is the newest of rpc_publish(); on_call is
	 * NULL. Opened and closed are told with the session of the connection; they may be NULL. */
	void (*on_opened)(uint64_t session, void *userdata);
	void (*on_closed)(uint64_t session, void *userdata);
};

/* `methods` must outlive the server. Other methods are answered UNIMPLEMENTED. Connections that end
 * are noticed through `event`, the loop of the thread that calls the functions of the server. */
int rpc_server_new(sd_event *event, const struct rpc_method *methods, size_t n_methods,
	void *userdata, struct rpc_server **ret);

/* Serves a connected, non-blocking stream socket; takes the descriptor, also on failure. `session`
 * is the caller's name for it. -EMFILE beyond RPC_CONNECTIONS_MAX connections. */
#define RPC_CONNECTIONS_MAX 64
int rpc_server_add(struct rpc_server *server, int fd, uint64_t session);

/* The same for a peer that nobody knows. gRPC reads the first bytes of a connection on the thread
 * that adds it, and goes on as long as there are more: that is a thread of its own here. */
int rpc_server_add_stranger(struct rpc_server *server, int fd, uint64_t session);

/* Whether the next connection would be refused. */
bool rpc_server_is_full(const struct rpc_server *server);

/* Closes the oldest connection of the session to make room. -ENOENT if it has none. */
int rpc_server_evict(struct rpc_server *server, uint64_t session);

/* Closes every connection of the session; its streams end, on_closed is called for each. */
void rpc_server_end_session(struct rpc_server *server, uint64_t session);

/* Makes `data` (malloc'ed, taken) the newest message of every broadcast stream, now and to come. A
 * stream that is slow to read gets the newest message when it is ready for one, never a queue. */
void rpc_publish(struct rpc_server *server, uint8_t *data, size_t size);

/* What was published last, NULL before the first. For the thread that publishes, until it does so
 * again. */
const uint8_t *rpc_newest(const struct rpc_server *server, size_t *ret_size);

/* Ends streams with UNAVAILABLE, waits at most `grace` microseconds for calls, cancels the rest. No
 * handler is called for a new call afterwards. Calls whose answer was put off must have been
 * answered. */
void rpc_server_stop(struct rpc_server *server, uint64_t grace);

/* Waits until no unary call is without its answer, at most `grace` microseconds. New calls are
 * still served: for a process that is about to end, which the kernel does sooner than
 * rpc_server_stop(). */
void rpc_server_drain(struct rpc_server *server, uint64_t grace);

/* Frees a stopped server. May wait for gRPC's timer threads, see rpc_shutdown(). Returns NULL. */
struct rpc_server *rpc_server_free(struct rpc_server *server);

/* Session of the connection the call came on. */
uint64_t rpc_call_session(const struct rpc_call *call);

/* For a call whose answer takes its time: within on_call(), before anybody else has the call.
 * `on_cancelled` is called on gRPC's thread, with the server's userdata, if the caller cancels or
 * its connection ends; unless the answer was sent before, the call is to be answered all the same,
 * and is valid until then. */
typedef void (*rpc_cancel_handler)(struct rpc_call *call, void *userdata);
void rpc_call_watch(struct rpc_call *call, rpc_cancel_handler on_cancelled);

/* Answers with bytes that are copied. */
void rpc_reply(struct rpc_call *call, const uint8_t *data, size_t size);

/* Answers with an error; the text is what the caller's user sees. */
void rpc_fail(struct rpc_call *call, enum rpc_status status, const char *text);

/* --- client --- */

struct rpc_client;

struct rpc_result {
	int status;          /* enum rpc_status, or another gRPC code */
	const char *text;    /* the peer's words on failure, never NULL */
	const uint8_t *data; /* the reply of a unary call, NULL on failure */
	size_t size;
};

/* Speaks to the peer of a connected, non-blocking stream socket; takes the descriptor, also on
 * failure. */
int rpc_client_new(int fd, struct rpc_client **ret);

/* The same with another :authority than "localhost". */
int rpc_client_new_for(int fd, const char *authority, struct rpc_client **ret);

/* The same for answers of up to RPC_REQUEST_MAX, where others take RPC_KUBELET_MESSAGE_MAX as the
 * kubelet does: all pods of a node are more than a list of devices. */
int rpc_client_new_large(int fd, struct rpc_client **ret);

/* For small answers: without the frames that measure the bandwidth, which cost both ends a wakeup.
 */
int rpc_client_new_brief(int fd, struct rpc_client **ret);

/* Calls a unary method; `on_result` is called once. `timeout` in microseconds, 0: none. */
typedef void (*rpc_result_handler)(const struct rpc_result *result, void *userdata);
int rpc_client_call(struct rpc_client *client, const char *path, const uint8_t *data, size_t size,
	uint64_t timeout, rpc_result_handler on_result, void *userdata);

/* Calls a server-streaming method; `on_message` for each message, then `on_result` once (data is
 * NULL). */
typedef void (*rpc_message_handler)(const uint8_t *data, size_t size, void *userdata);
int rpc_client_stream(struct rpc_client *client, const char *path, const uint8_t *data, size_t size,
	rpc_message_handler on_message, rpc_result_handler on_result, void *userdata);

/* Cancels the calls that were started with this `userdata`, as RST_STREAM does; their on_result is
 * called with RPC_CANCELLED unless they are over. The connection stays. */
void rpc_client_cancel(struct rpc_client *client, const void *userdata);

/* Cancels what is outstanding (handlers are called with RPC_CANCELLED) and closes the connection.
 * Does not wait: handlers may run until rpc_stop() returns. Returns NULL. */
struct rpc_client *rpc_client_free(struct rpc_client *client);
