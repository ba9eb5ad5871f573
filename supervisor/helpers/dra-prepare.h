/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Prepares one claim: the processes of its resources build the edits, one after the other. The
 * edits are checked like a child's publications (publication-policy.h). Then the CDI file is
 * written and the claim saved. devplugd-cluster asks for one claim at a time.
 */

#include <jansson.h>

#include "common/control-child.h"
#include "common/error.h"

struct child;
struct dra_claims;
struct dra_preparation;
struct manager;

/* The time limit: longer than any prestart, shorter than the kubelet's 45 s. */
#define DRA_PREPARE_TIMEOUT (40 * USEC_PER_SEC)

/* Called once, never before dra_prepare() has returned: the claim as in dra-claims.h, or NULL with
 * the error. The preparation is freed by then. */
typedef void (*dra_prepare_handler)(const json_t *claim, const struct error *error, void *userdata);

/* Takes the claim, which is well-formed (dra_claims_read()) and not prepared. Returns 0, or
 * negative errno with the error filled: then the handler is not called. */
int dra_prepare(struct manager *manager, struct dra_claims *claims, json_t *claim,
	dra_prepare_handler on_end, void *userdata, struct dra_preparation **ret,
	struct error *error);

void dra_prepare_take_edits(struct dra_preparation *preparation, const struct child *child,
	struct control_message *message);
void dra_prepare_child_gone(struct dra_preparation *preparation, const struct child *child);

/* Gives up; the handler is not called. */
struct dra_preparation *dra_prepare_free(struct dra_preparation *preparation);
DEFINE_CLEANUP(struct dra_preparation *, dra_prepare_free)
