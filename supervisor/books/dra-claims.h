/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The ResourceClaims that have devices of this node, by the name of the driver and the uid. Each
 * has a file in `claims` below $STATE_DIRECTORY, or below runtime_dir without it, with what
 * dra-claim.h describes, its CDI document as "spec", and the boot id. The files are named by the
 * uid; where another driver's claim has that name, by uid and driver. They outlive a stop, because
 * containers may be started while the daemon is away. They outlive a restart of the host, too, but
 * then a claim is not prepared any more: it keeps its devices and CDI names, loses its CDI file,
 * and is prepared again when the kubelet asks for it, as a kubelet does for each pod after a
 * restart of the host.
 */

#include <jansson.h>

#include "common/error.h"

struct manager;
struct bookings;
struct dra_claims;

/* Maximum number of claims; a kubelet runs a few hundred pods at most. And the maximum size of the
 * files of all claims together, with what is being prepared. */
#define DRA_CLAIMS_MAX       1024
#define DRA_CLAIMS_BYTES_MAX (16U << 20)

/* Reads the claims that an earlier daemon has saved. An invalid one is dropped, and logged. While
 * one cannot be read, for example without a free descriptor, no claim is prepared or removed. If
 * the edits of one are not permitted any more, which is logged, its devices still belong to it, and
 * it has no CDI file until its edits are built again. `on_change` is called after a claim has
 * ended, or was read late. Returns 0 or negative errno. */
int dra_claims_new(struct manager *manager, void (*on_change)(void *userdata), void *userdata,
	struct dra_claims **ret);

/* Makes the CDI files match the claims: writes missing files, and removes those of claims that are
 * not prepared or not known. Claims of an earlier version become claims of the default driver.
 * Logs. */
void dra_claims_configure(struct dra_claims *claims);

/* Writes CDI files that are missing or were changed, after published_forget_damage(). */
void dra_claims_publish(struct dra_claims *claims);

/* Reads claims that could not be read, and writes CDI files and metadata that could not be written
 * earlier. Returns whether none remains;
 * `claims` may be NULL. */
bool dra_claims_write_left(struct dra_claims *claims);

/* The directory of the claims' files. Writes those again that another process has removed. Returns
 * how many those are, or negative errno with the error filled. */
const char *dra_claims_directory(const struct dra_claims *claims);
int dra_claims_restore(struct dra_claims *claims, struct error *error);

/* How many claims are prepared, and how many there are, with those that cannot be read now. */
size_t dra_claims_count(const struct dra_claims *claims);
size_t dra_claims_total(const struct dra_claims *claims);

/* The claim, prepared or not, or NULL. A borrowed reference. */
const json_t *dra_claims_get(const struct dra_claims *claims, const char *driver, const char *uid);

/* The claim if it is prepared and none of its devices was forgotten, or NULL. Restores its CDI file
 * if that is missing or was changed. A borrowed reference. */
const json_t *dra_claims_find(struct dra_claims *claims, const char *driver, const char *uid);

/* How many claims of each driver are prepared, by its name; 0: it has claims, but none of them is
 * prepared. A new reference. NULL: no memory. */
json_t *dra_claims_by_driver(const struct dra_claims *claims);

/* The prepared claim that was added first after `*position`, which begins with 0 and moves on;
 * NULL: none. A borrowed reference. */
const json_t *dra_claims_next(const struct dra_claims *claims, uint64_t *position);

/* All devices, by pod_claim_key(), a new reference. NULL: no memory. */
json_t *dra_claims_devices(const struct dra_claims *claims);

/* The devices that claims hold, by name: {"driver", "resource", "id"}, with the sum of "amounts",
 * and "share": true if these are of shares; a new reference. Admin access holds nothing. NULL: no
 * memory. And a number that changes whenever they may have changed.
 */
json_t *dra_claims_held(const struct dra_claims *claims);

/* An object with the UID of each claim, prepared or not, a new reference. NULL: no memory. */
json_t *dra_claims_uids(const struct dra_claims *claims);
uint64_t dra_claims_revision(const struct dra_claims *claims);

/* Where an iteration is. */
struct dra_claims_cursor {
	size_t claim, device; /* of the next one */
	const json_t *json;   /* the claim of the last one */
};

/* The next device of a resource, NULL: of all; NULL: there are no more. */
const json_t *dra_claims_next_device(
	const struct dra_claims *claims, const char *resource, struct dra_claims_cursor *cursor);

/* The devices of a resource, NULL: of all: an array of {"id", "namespace", "name", "uid",
 * "resource", "admin", "driver", "device"}, and "share" and "amounts" if it has them, with the
 * offered id, the claim and the name in slices, a new reference. NULL: no memory. */
json_t *dra_claims_of(const struct dra_claims *claims, const char *resource);

/* Adds to the bookings of a resource where the CDI files of prepared claims lead. Returns 0 or
 * -ENOMEM. */
int dra_claims_add_answers(
	const struct dra_claims *claims, const char *resource, struct bookings *bookings);

/* Returns 0, or with the error filled -EBUSY if another claim has one of its devices, or if a
 * device does not have enough for the amounts of all its claims; or -EAGAIN while claims cannot be
 * read. `preparing`: an array of claims
 * that are being prepared, borrowed. */
int dra_claims_check(const struct dra_claims *claims, const json_t *claim, const json_t *preparing,
	struct error *error);

/* Counts bytes of a claim that is being prepared, until dra_claims_give_back(). Returns 0, or
 * -ENOSPC with the error filled. */
int dra_claims_reserve(struct dra_claims *claims, size_t size, struct error *error);
void dra_claims_give_back(struct dra_claims *claims, size_t size);

/* Saves a prepared claim and writes its CDI file with these devices, in place of the claim of the
 * same driver and uid, if there is one. Takes no references. Returns 0, or negative errno with the
 * error filled, and then all is as before; -ESTALE: a claim with the same devices has other CDI
 * names. */
int dra_claims_add(
	struct dra_claims *claims, json_t *claim, json_t *spec_devices, struct error *error);

/* Replaces the edits of the group that begins with the device `at` of a prepared claim; `edits`
 * NULL: it has none. `asked` is the claim when they were asked for. Returns as dra_claims_add(), or
 * -ENOENT if the claim is not prepared any more, or was prepared again with other devices. */
int dra_claims_set_edits(struct dra_claims *claims, const json_t *asked, size_t at, json_t *names,
	json_t *edits, const char *hash, struct error *error);

/* Takes attributes of devices of a driver, by the name of the device, for the metadata of the
 * claims that have them (dra-metadata.h). Returns whether files have to be written. */
bool dra_claims_set_attributes(
	struct dra_claims *claims, const char *driver, const json_t *devices);

/* Writes the files of claims whose metadata has changed. Returns whether there are more. Logs. */
bool dra_claims_write_metadata(struct dra_claims *claims, size_t maximum);

/* Drops the claim and removes its files; a claim that is not known is no error, unless claims
 * cannot be read now. Returns 0, or negative errno with the error filled: then both are still
 * there. */
int dra_claims_remove(
	struct dra_claims *claims, const char *driver, const char *uid, struct error *error);

/* Marks a device of a claim as free, for dra_claims_devices(), dra_claims_of() and
 * dra_claims_check(). A later preparation of the claim ends that. The last device of a claim takes
 * the claim with it, as dra_claims_remove() does. Returns 0, or negative errno with the error
 * filled: then it is only free until the daemon ends. */
int dra_claims_forget(struct dra_claims *claims, const char *driver, const char *uid,
	const char *resource, const char *id, struct error *error);

struct dra_claims *dra_claims_free(struct dra_claims *claims);
DEFINE_CLEANUP(struct dra_claims *, dra_claims_free)
