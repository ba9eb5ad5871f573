/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Ends a kubelet's server while its process continues. A plugin's process ends with its server. */

#include "proto/rpc.h"

/* Breaks every connection of the server, waits until gRPC has freed them, and frees the server.
 * Calls whose answer was deferred must have been answered. Aborts the process if gRPC has not ended
 * a connection a minute later, because its memory cannot be freed. */
void server_end(struct rpc_server *server);
