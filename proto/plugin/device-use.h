/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The part of a resource's process in cleaning devices after pods (`release`), in excluding other
 * resources (overlap = "exclusive"), and in files about devices for containers (`metadata`). The
 * supervisor is asked before Allocate is answered, for `release` also before a container starts. It
 * decides when a device is cleaned (supervisor/books/cleaning.h), and has this process run the
 * program.
 */

#include <systemd/sd-event.h>

#include "common/control-child.h"
#include "common/error.h"
#include "proto/plugin/offer.h"

struct device_use;
struct cleaning;

struct device_uses {
	sd_event *event;
	uint64_t number; /* of the last question */
	struct device_use *uses;
	struct cleaning *runs;
	size_t n_runs;
	char *dirty; /* the text of the last CHILD_DIRTY; NULL: none came */
};

/* 0: the devices may be used; or negative errno with the reason. `metadata_fd`: the paths in
 * CHILD_USED, if it has them; it stays the caller's. */
typedef void (*device_use_handler)(
	int status, int metadata_fd, const struct error *error, void *userdata);

/* Asks the supervisor about offered ids, with an empty one between containers. `attributes_fd` as
 * in CHILD_USE, or -EBADF; it stays the caller's. The handler is called once, later, unless the
 * question is freed before. Returns 0 or negative errno with the error filled. */
int device_use_ask(struct device_uses *uses, enum child_use use, const char *const *ids,
	size_t n_ids, int attributes_fd, uint64_t timeout, device_use_handler handler,
	void *userdata, struct device_use **ret, struct error *error);

/* Its answer is not waited for. Returns NULL. */
struct device_use *device_use_free(struct device_use *use);

/* Takes CHILD_USED. */
void device_use_answered(struct device_uses *uses, const struct control_message *message);

/* Carries out CHILD_CLEAN with the current offer, or NULL if there is none, and answers. */
void device_use_clean(
	struct device_uses *uses, struct offer *offer, const struct control_message *message);

/* Takes the text of CHILD_DIRTY. Returns 0 or negative errno. */
int device_use_take_dirty(struct device_uses *uses, const struct control_message *message);

/* Kills what runs. The questions must have been freed. */
void device_uses_done(struct device_uses *uses);
