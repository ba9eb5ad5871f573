/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One ResourceClaim, as JSON that is always made from permitted members, never copied:
 *
 *   { "driver", "uid", "namespace", "name": strings,
 *     "metadata": see dra-metadata.h, absent for claims from before an upgrade,
 *     "devices": [ { "request", "pool", "name", "resource", "id": strings, "admin": boolean,
 *                    "parameters": { NAME: VALUE, ... } or absent,
 *                    "share": string or absent,
 *                    "amounts": { NAME: number, ... }, "of": { NAME: number, ... } or both absent,
 *                    "cdi": [ NAME, ... ], "edits": string, "forgotten": true or absent }, ... ] }
 *
 * devplugd-cluster asks for it with uid, namespace, name and devices without "cdi", "edits" and
 * "forgotten"; "id" is an offered id of the resource. "driver" is the name of the DRA driver that
 * the kubelet asked. A ResourceClaim with devices of two of our drivers is two claims here, with
 * the same uid.
 * "parameters" are those that the claim sets, until dra_question_resolve() makes them texts.
 *
 * "amounts" are what the claim gets of the capacities of a device that others may share, and "of"
 * is what the device has of them; "share" is the API server's id of this share. A claim without
 * amounts has the whole device. Prepared state is known by claim, device and share: a claim may
 * have several shares of a device.
 *
 * The devices of one request and one resource are a group, and their containers get them together.
 * The group has one CDI device, in the claim's own CDI document, unless containers get nothing but
 * names of others. "cdi" and "edits" are those of the group, and stand at its first device; "edits"
 * is the hash of proto/plugin/edits.h.
 */

#include <jansson.h>

#include "common/error.h"
#include "dra/model/dra-names.h"
#include "drivers/allocation/cdi.h"
#include "drivers/model/bookings.h"

struct config;
struct declaration;

#define DRA_CDI_KIND "devplugd/claim"

/* Maximum size of what is saved of a claim. */
#define DRA_CLAIM_BYTES_MAX (2U << 20)

/* Copies the permitted members of a claim from devplugd-cluster: uid, namespace and name, and,
 * unless it is only asked for, devices; and sets the driver. Returns a new reference, or NULL if it
 * is malformed or has any other member. */
json_t *dra_claim_read(json_t *sent, const char *driver);

/* Copies the members above from a saved claim, which has no driver if an earlier version has saved
 * it. Returns a new reference, or NULL if the claim is malformed. */
json_t *dra_claim_read_saved(json_t *saved);

/* Whether it is the claim with that uid of that driver. */
bool dra_claim_is(const json_t *claim, const char *driver, const char *uid);

/* Copies the CDI document of a saved claim: the edits of its groups, checked as when they arrived.
 * `ret_spec` is NULL if it has none. Returns 0, or with the error filled -EBADMSG, -EPERM, -ENOENT:
 * its resource is not configured, or -ENOMEM. */
int dra_claim_read_spec(const json_t *claim, json_t *saved_spec, const struct config *config,
	json_t **ret_spec, struct error *error);

/* Whether a text has the form of "edits". */
bool dra_claim_hash_is_valid(const char *hash);

/* Checks the names of CDI devices that a resource's process gives a claim. Returns 0 or -EBADMSG
 * with the error filled. */
int dra_claim_check_names(const json_t *names, struct error *error);

/* Checks the edits that a resource's process gives a claim: only what the resource could have
 * published itself, or its `allocate` program has added. Returns 0, -EBADMSG or -EPERM with the
 * error filled, or -ENOMEM. */
int dra_claim_check_edits(const struct declaration *declaration, const char *name, json_t *edits,
	struct error *error);

/* The claim's CDI document with these devices, a new reference; NULL: no memory. */
json_t *dra_claim_make_spec(json_t *devices);

/* The devices of a claim, and the device at a position. */
size_t dra_claim_count(const json_t *claim);
json_t *dra_claim_device(const json_t *claim, size_t at);

/* Whether a request with admin access has the device: it gets a device that others may have, too,
 * and takes none. */
bool dra_claim_is_admin(const json_t *device);

/* Whether the device at that position is the first of its group, and whether two devices are of one
 * group. */
bool dra_claim_begins_group(const json_t *claim, size_t at);
bool dra_claim_is_group(const json_t *device, const json_t *other);

/* Whether all devices of the group that begins at that position are for admin access. */
bool dra_claim_group_is_admin(const json_t *claim, size_t at);

/* The name of the CDI device of the group that begins at that position: without the kind, in the
 * document, and with it, for containers. It is in "cdi", or else UID-NAME or UID-NAME-SHARE with
 * the name of the group's first device, which the kubelet shows in the status of pods; a name that
 * an earlier group has ends in the number of the group. Earlier versions named all groups
 * UID-NUMBER. */
void dra_claim_edits_name(const json_t *claim, size_t at, char ret[static CDI_DEVICE_NAME_MAX + 1]);
json_t *dra_claim_full_name(const char *name);

/* Gives a claim the CDI names of another one that has the same devices, so that it keeps them. */
void dra_claim_copy_names(json_t *claim, const json_t *from);

/* Gives a claim the parameters that another one with the same devices was prepared with: the
 * defaults may have changed. */
void dra_claim_copy_parameters(json_t *claim, const json_t *from);

/* Whether both have the same devices, for the same requests; and whether both have the same CDI
 * names: kubelets add names to those that they know of a claim, and do not replace them. */
bool dra_claim_has_same_devices(const json_t *claim, const json_t *other);
bool dra_claim_has_same_names(const json_t *claim, const json_t *other);

/* Whether "devplugctl forget" has freed the device of the claim. */
bool dra_claim_is_forgotten(const json_t *device);

/* The device nodes in a claim's CDI document with these devices, by the name of the CDI device, a
 * new reference; NULL: no memory. */
json_t *dra_claim_nodes(const json_t *devices);

/* Adds to the bookings of a resource what the claim's CDI file leads to, `nodes` of
 * dra_claim_nodes(), for each group of the resource's devices. `follows`: see struct
 * booked_answer. Requests with admin access add nothing, because others do not notice them. Returns
 * 0 or -ENOMEM. */
int dra_claim_add_answers(const json_t *claim, const json_t *nodes, const char *resource,
	bool follows, struct bookings *bookings);

/* A device of `claim` that `other` holds, if they do not both get amounts of it, and that neither
 * has with admin access; NULL: none. */
const json_t *dra_claim_shared_device(const json_t *claim, const json_t *other);

/* Whether two devices are the same hardware: one device, or one and a replica of it. */
bool dra_claim_is_same_hardware(const json_t *device, const json_t *other);

/* Adds what the device's claim gets of it to {NAME: number}. Returns 0 or -ENOMEM. */
int dra_claim_add_amounts(const json_t *device, json_t *sums);
