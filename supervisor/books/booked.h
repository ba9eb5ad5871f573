/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's bookings (promise P17): the union of its checkpoint, which it reads at its own
 * start, of its PodResources API, and of the prepared claims. Each child gets the bookings of its
 * resource before its first list and whenever they change, and lists them until an update no longer
 * has them. PodResources is asked only while a child lists a removed device, or while the
 * checkpoint has an unknown form. A device leaves its list when no source contains it. If neither
 * the checkpoint nor PodResources can be read, every device stays listed.
 *
 * The bookings also contain the way in which a device is in use: by a pod through the device
 * plugin, or by a claim. A child does not offer a device that is in use by the way in which its
 * resource is not served now (drivers/inventory/keep-booked.c); the arbiter keeps devices that are
 * booked for other names from being offered. So this is the only place that decides whether a pod
 * has a device.
 */

#include "common/error.h"

/* Before the uid of a claim, where pods have none. */
#define BOOKED_CLAIM "claim "

struct booked;
struct child;
struct manager;
struct request;

typedef struct json_t json_t;

int booked_new(struct manager *manager, struct booked **ret);

/* Follows the bookings; there is one observer. `on_change` is called when they may have changed,
 * and `awaits_pods` returns whether the end of any pod matters. */
struct booked_observer {
	void (*on_change)(void *userdata);
	bool (*awaits_pods)(const void *userdata);
	void *userdata;
};
void booked_observe(struct booked *booked, const struct booked_observer *observer);

/* To be called when there is another kubelet.sock, before a resource is registered there: sends the
 * children whether the kubelet that made it is the first one since the boot. */
void booked_kubelet_appeared(struct booked *booked);

/* To be called when the kubelet has written its checkpoint, its directory has changed, a claim was
 * prepared or unprepared, or a CDI file may be needed only for what the checkpoint contains. */
void booked_checkpoint_changed(struct booked *booked);

/* The number of devices that are listed only because they are booked, the configuration, or the set
 * of served resources has changed. */
void booked_changed(struct booked *booked);

/* To be called as soon as there are fewer resources: their bookings go on to belong to their names.
 */
void booked_resources_changed(struct booked *booked);

/* Sends the newest bookings to a child that is about to be configured, or to be asked what a claim
 * gets. Returns 0 or negative errno. */
int booked_send(struct booked *booked, struct child *child);

/* The checkpoint as it is now, valid until the event loop continues; NULL: there is none, or it
 * cannot be read. Also returns when it was written, CLOCK_MONOTONIC. */
struct kubelet_checkpoint;
const struct kubelet_checkpoint *booked_checkpoint(struct booked *booked, uint64_t *ret_written_at);

/* Whether there is one that can be read, by the data that were read last. */
bool booked_has_checkpoint(const struct booked *booked);

/* Adds to `all` each pod, by UID, that the checkpoint books a device of that id for, under any of
 * its offered ids, and each claim that has it without admin access, as "claim UID"; and to `live`
 * those of them that may still use it. `offered`: only for that offered id; NULL: any.
 * `ret_admin`: whether a claim with admin access has it. By the data that were read last. Returns
 * 0, -ENOMEM, or -EAGAIN if the checkpoint cannot be read. */
struct strings;
int booked_users(const struct booked *booked, const char *resource, const char *id,
	const char *offered, struct strings *all, struct strings *live, bool *ret_admin);

/* Names a pod or claim that uses the device: "default/a", "the claim default/c"; or "a pod" if it
 * has no name yet. */
void booked_name_user(
	const struct booked *booked, const char *resource, const char *id, char *ret, size_t size);

/* Handles the verb "forget" of the control socket: {"resource", "device"}. An offered id of the
 * resource, or all of a device, counts as not booked until the kubelet's data about it change.
 * Answers {"forgotten": [ids]}. */
int forget_request(struct request *request, json_t **ret_answer, struct error *error);

/* Ends the watch of directories, when the daemon stops. */
void booked_stop(struct booked *booked);

struct booked *booked_free(struct booked *booked);
DEFINE_CLEANUP(struct booked *, booked_free)
