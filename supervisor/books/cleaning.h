/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Cleans devices between pods, for resources with `release`. A device is dirty from its first
 * allocation on, which is saved before Allocate is answered. It is cleaned when no pod and no claim
 * has it any more, or else before a container of a pod starts that has not had it: a container that
 * starts again, and the app container after the init container of the same pod, get it as it is.
 * The process of the resource runs the program. While another pod has a share of the device, or a
 * claim with admin access has it, it is not cleaned.
 */

#include "common/control.h"
#include "common/error.h"

struct child;
struct cleaning;
struct manager;

/* How long a container that is about to start waits, below the kubelet's 30 s. */
#define CLEANING_WAIT (25 * USEC_PER_SEC)

/* Reads what an earlier daemon has saved. Returns 0 or -ENOMEM. */
int cleaning_new(struct manager *manager, struct cleaning **ret);

/* The process has reported its devices. Dirty ones that are free are cleaned soon. */
void cleaning_changed(struct cleaning *cleaning, const struct child *child);

/* Takes CHILD_USE and CHILD_CLEANED. Returns false if the message is malformed. */
bool cleaning_take(
	struct cleaning *cleaning, struct child *child, const struct control_message *message);

/* The process has ended. */
void cleaning_child_gone(struct cleaning *cleaning, const struct child *child);

/* Sends the process which devices are dirty, if that differs from what it has. Returns 0 or
 * negative errno. */
int cleaning_send(struct cleaning *cleaning, struct child *child);

/* Who waits until devices of claims are clean: called when some may be. */
void cleaning_observe(struct cleaning *cleaning, void (*handler)(void *userdata), void *userdata);

/* Whether a claim may have a device, by its offered id. Returns 0, or negative errno with the error
 * filled; -EBUSY: it is cleaned first. */
int cleaning_check_for_claim(struct cleaning *cleaning, const struct child *child,
	const char *offered, const char *claim_uid, struct error *error);

/* The same, and the claim has it from now on, which is saved. To be called before the claim's
 * programs run, and then cleaning_end_preparing() when they have ended: by then, the claim is
 * prepared, or no longer has the device. */
int cleaning_take_for_claim(struct cleaning *cleaning, const struct child *child,
	const char *offered, const char *claim_uid, struct error *error);
typedef struct json_t json_t;
void cleaning_end_preparing(struct cleaning *cleaning, const json_t *claim);

/* The claim is unprepared. Returns 0 if none of its devices is left to be cleaned, or could be
 * cleaned now; or -EBUSY with the error filled, while one is cleaned, or about to be. */
int cleaning_end_claim(struct cleaning *cleaning, const char *claim_uid, struct error *error);

/* Ends a failure, or the wait for a process that has the device open: the device is cleaned again,
 * or with `force` counts as clean. Returns whether there was one. */
bool cleaning_resume(struct cleaning *cleaning, const char *resource, const char *id, bool force);

struct cleaning *cleaning_free(struct cleaning *cleaning);
DEFINE_CLEANUP(struct cleaning *, cleaning_free)
