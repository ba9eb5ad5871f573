/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's side of one registered plugin: dials back, asks for the options, follows the list,
 * and carries the calls of admissions. Several connections of one resource can exist at a time;
 * the client table and the endpoint table decide which one counts.
 */

#include <protobuf-c/protobuf-c.h>

#include "kubelet/channel.h"
#include "kubelet/kubelet-manager.h"

struct register_request;

/* What a plugin answered; valid during the handler. */
struct answer {
	int status;          /* enum rpc_status */
	const char *error;   /* the error as Go prints it, NULL on success */
	const uint8_t *data; /* NULL on failure */
	size_t size;
};
typedef void (*answer_handler)(
	struct manager *manager, const struct answer *answer, void *userdata);

/* grpc-go's error for a message that cannot be decoded. */
extern const char *const answer_unreadable;

/* Writes that error with a reason: -EILSEQ for text that is not UTF-8, -EBADMSG for malformed
 * bytes. */
void answer_describe_unreadable(char *buffer, size_t size, int code);

/* Begins to dial for a Register call that passed the checks and is in the client table. Takes the
 * request, which is answered when the plugin's options are known, or when that failed. */
int connection_start(struct manager *manager, const char *resource, const char *endpoint,
	const char *path, struct register_request *request);

/* The connection with that number; NULL if it was closed. */
struct connection *connection_find(struct manager *manager, uint64_t number);

/* Calls a unary method; `timeout` in microseconds, 0: none. The handler is called once, later, on
 * the main loop, unless the manager is freed before. */
int connection_call(struct connection *connection, const char *method,
	const ProtobufCMessage *request, uint64_t timeout, answer_handler handler, void *userdata);

/* Handles a Register whose caller hung up. Kubelets from 1.36 on cancel the registration. */
void connection_caller_gone(struct manager *manager, uint64_t caller);

/* Disconnects the client that is registered for the resource, as the kubelet does when a socket
 * that its watcher has registered is removed. */
void connection_deregister(struct manager *manager, const char *resource);

/* For tests: cancels the resource's oldest stream (RST_STREAM) and handles its end, or breaks the
 * connection of its client. Returns -ENOTCONN if there is none. */
int connection_end_stream(struct manager *manager, const char *resource);
int connection_drop(struct manager *manager, const char *resource);

/* The channel to the plugin at the resource's endpoint; NULL if there is none. */
struct channel *connection_client(struct manager *manager, const char *resource);

/* Closes connections and frees those without a call; for manager_free(). */
void connection_close_all(struct manager *manager);
void connection_free_all(struct manager *manager);
