/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The ResourceClaims that are prepared on this node, and the CDI file of each. They outlive the
 * daemon in runtime_dir and the directory of CDI files, because containers may be started while it
 * is away. A restart of the host removes both, and the kubelet prepares all claims again. A stop of
 * the service removes runtime_dir, too, and then the claims are lost. A claim is
 *
 *   { "uid", "namespace", "name": strings,
 *     "devices": [ { "request", "pool", "name", "resource", "id": strings, "admin": boolean,
 *                    "cdi": [ NAME, ... ], "forgotten": true or absent }, ... ],
 *     "spec": the CDI document, absent if containers get nothing but names of others }
 *
 * devplugd-cluster asks for it with uid, namespace, name and devices without "cdi"; "id" is an
 * offered id of the resource.
 */

#include <jansson.h>

#include "common/error.h"
#include "dra/model/dra-names.h"

struct config;
struct declaration;
struct manager;
struct dra_claims;

#define DRA_CDI_KIND   "devplugd/claim"
#define DRA_CDI_PREFIX "devplugd.dra-"

/* Maximum size of a request of devplugd-cluster. */
#define DRA_REQUEST_MAX (256U << 10)
/* Maximum number of prepared claims; a kubelet runs a few hundred pods at most. */
#define DRA_CLAIMS_MAX 1024

/* Reads the claims that an earlier daemon has saved. Returns 0 or negative errno. */
int dra_claims_new(struct manager *manager, struct dra_claims **ret);

/* Makes the files in cdi_dir match the claims: writes missing files, and removes files that belong
 * to no claim. Logs. */
void dra_claims_configure(struct dra_claims *claims, const char *cdi_dir);

/* Writes the files that could not be written earlier. Returns whether none remains; `claims` may be
 * NULL. */
bool dra_claims_write_left(struct dra_claims *claims);

size_t dra_claims_count(const struct dra_claims *claims);

/* The claim (a borrowed reference), or NULL, also if one of its devices was forgotten or has lost
 * its "cdi" (dra_claims_read_saved()). Restores its file if it is missing or was changed. */
const json_t *dra_claims_find(struct dra_claims *claims, const char *uid);

/* All prepared devices, by "NAMESPACE\tCLAIM\tNAME OF THE DEVICE", a new reference. NULL: no
 * memory. */
json_t *dra_claims_devices(const struct dra_claims *claims);

/* The prepared devices of a resource: an array of {"id", "namespace", "name", "uid"} with the
 * offered id and the claim, a new reference. NULL: no memory. */
json_t *dra_claims_of(const struct dra_claims *claims, const char *resource);

/* Copies the permitted members of a claim from devplugd-cluster: uid, namespace and name, and,
 * unless it is only asked for, devices without "cdi". Returns a new reference, or NULL if it is
 * malformed or has any other member. */
json_t *dra_claims_read(json_t *sent);

/* Copies the members above from a saved claim. Its edits are checked as when they arrived; if they
 * are refused, which is logged, "spec" and the devices' "cdi" are left out: the devices still
 * belong to the claim, and it is prepared again when the kubelet asks for it. Returns a new
 * reference, or NULL if the claim is malformed. */
json_t *dra_claims_read_saved(json_t *saved, const struct config *config);

/* Checks the names of CDI devices that a resource's process gives a claim. Returns 0 or -EBADMSG
 * with the error filled. */
int dra_claims_check_names(const json_t *names, struct error *error);

/* Checks the edits that a resource's process gives a claim: only what the resource could have
 * published itself, or its `allocate` program has added. Returns 0, -EBADMSG or -EPERM with the
 * error filled, or -ENOMEM. */
int dra_claims_check_edits(const struct declaration *declaration, const char *name, json_t *edits,
	struct error *error);

/* Returns 0, or with the error filled -EBUSY if another claim has one of its devices, -ENOSPC if
 * there are too many claims. */
int dra_claims_check(const struct dra_claims *claims, const json_t *claim, struct error *error);

/* Writes the file and saves the claim. Takes the reference on success. Returns 0, or negative errno
 * with the error filled; then there is neither. */
int dra_claims_add(struct dra_claims *claims, json_t *claim, struct error *error);

/* Drops the claim and removes its file; a claim that is not known is no error. Returns 0, or
 * negative errno with the error filled: then both are still there. */
int dra_claims_remove(struct dra_claims *claims, const char *uid, struct error *error);

/* Marks a device of a claim as free, for dra_claims_devices(), dra_claims_of() and
 * dra_claims_check(). A later preparation of the claim ends that. Returns 0, or negative errno with
 * the error filled: then it is only free until the daemon ends. */
int dra_claims_forget(struct dra_claims *claims, const char *uid, const char *resource,
	const char *id, struct error *error);

struct dra_claims *dra_claims_free(struct dra_claims *claims);
DEFINE_CLEANUP(struct dra_claims *, dra_claims_free)
