/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds out whether a process of the host has the device nodes of a device open, by a process that
 * runs for one question (node-users/main.c). One question is handled at a time.
 */

#include "common/error.h"
#include "drivers/model/option.h"

struct manager;
struct node_users;

/* How long an answer may take. */
#define NODE_USERS_TIMEOUT (10 * USEC_PER_SEC)

/* `user`: a process that has one open, as a sentence, or "". NULL: that is not known, and `failure`
 * is why. */
typedef void (*node_users_handler)(const char *user, const char *failure, void *userdata);

int node_users_new(struct manager *manager, struct node_users **ret);

/* Whether a question has no answer yet. */
bool node_users_is_busy(const struct node_users *users);

/* Asks about nodes, by their paths below `root`, unless it is busy. The handler is called once,
 * later. A path that is no device node is left out. Returns 1, 0 if no node is left, so that
 * nothing is asked, or negative errno with the error filled; -E2BIG: more than NODE_USERS_MAX. */
int node_users_ask(struct node_users *users, const char *root, const struct strings *paths,
	node_users_handler handler, void *userdata, struct error *error);

struct node_users *node_users_free(struct node_users *users);
DEFINE_CLEANUP(struct node_users *, node_users_free)
