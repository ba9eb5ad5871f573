/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Collects the claims of children, decides the owner of each device (ownership.h), and answers the
 * children. A child waits for the answer before it offers its devices. Later it receives an update
 * when the owner of a device changes. The claims of a resource stay valid while its child is
 * replaced. Claims that would exceed CLAIMS_MAX or CLAIMS_BYTES_MAX, together with those of all
 * other resources, are refused, unless they are within an equal share of that limit. The resource's
 * previous claims then stay valid, and its child claims again later.
 */

#include <systemd/sd-event.h>

#include "common/util.h"
#include "supervisor/ownership/decision.h"

/* A child is not answered before the resources before it, and those with booked devices, have sent
 * their claims, so that no device is offered twice even for a moment. If it has found new hardware,
 * the resources before it scan first: the one that claims the hardware, too, may be slower. But no
 * child waits longer than this, and for none that does not scan within this time. */
#define ARBITER_TIMEOUT (2 * USEC_PER_SEC)

/* How often one resource can have others scan within the period. */
#define ARBITER_SCANS_MAX    16
#define ARBITER_SCANS_PERIOD (16 * USEC_PER_SEC)

/* How long a device that was allocated counts as in use although the kubelet has not booked it: it
 * writes its checkpoint within moments, or refuses the pod for another reason. */
#define ARBITER_TAKEN_TIME (60 * USEC_PER_SEC)

struct bookings;
struct error;
struct arbiter;  /* one for all resources */
struct claimant; /* one resource */

/* The functions of the resource's process and state that the arbiter needs. */
struct claimant_operations {
	/* Sends the answer to the claims of that number; `fd`: the devices of other resources, as
	 * in CHILD_OWNERS, or -EBADF; `refusal`: why the claims are not accepted, or empty. Returns
	 * 0 or negative errno, after which the arbiter tries again. */
	int (*answer)(uint64_t number, int fd, const char *refusal, void *userdata);
	/* Asks the child to scan and then to call claimant_scanned() with that number. Returns 0,
	 * or negative errno if there is nothing to wait for. */
	int (*scan)(uint64_t number, void *userdata);
	/* Whether the child is about to report its devices. */
	bool (*is_starting)(void *userdata);
	/* The root of its host, see declaration_root(). */
	const char *(*root)(void *userdata);
	/* The child sent claims that are not valid. */
	void (*on_malformed)(void *userdata);
	/* Names who uses a device, see struct decision. */
	void (*name_user)(const void *userdata, const char *id, char ret[static USER_NAME_MAX]);
	/* Called when the result of claimant_note() has changed. */
	void (*on_note)(void *userdata);
	/* Called when the result of claimant_replays() has changed. */
	void (*on_replays)(void *userdata);
};

/* Both return 0 or -ENOMEM. The name and `userdata` must outlive the claimant. */
int arbiter_new(sd_event *event, struct arbiter **ret);
int arbiter_add(struct arbiter *arbiter, const char *resource,
	const struct claimant_operations *operations, void *userdata, struct claimant **ret);

/* Decides again soon. To be called when ownership may have changed. */
void arbiter_decide(struct arbiter *arbiter);

/* Decides nothing any more. */
void arbiter_stop(struct arbiter *arbiter);

struct arbiter *arbiter_free(struct arbiter *arbiter);
DEFINE_CLEANUP(struct arbiter *, arbiter_free)

/* The place of the resource in the configuration, and whether it shares devices with others
 * (enum overlap). */
void claimant_set_rank(struct claimant *claimant, size_t rank);
void claimant_set_overlap(struct claimant *claimant, int overlap);

/* Sets the kubelet's bookings of the resource, and takes a reference: other resources do not offer
 * devices that are assigned to pods, and what outdated answers lead to is unhealthy. */
void claimant_set_booked(struct claimant *claimant, struct bookings *booked);

/* Adds the paths of the nodes that belong to the device of the resource alone. Returns 0, -ENOMEM,
 * or -EAGAIN if they are not known yet. */
struct strings;
int claimant_nodes(const struct claimant *claimant, const char *id, struct strings *ret);

/* A container is about to get these offered ids. If other devices of the same hardware exclude
 * them (exclusive.h), returns -EBUSY with the error filled. Else, the devices count as in use until
 * they are booked, or for ARBITER_TAKEN_TIME if they never are. Returns 0 or -ENOMEM. */
int claimant_take(
	struct claimant *claimant, const char *const *ids, size_t n_ids, struct error *error);

/* The same for one device of a claim that is being prepared. It counts as in use until the claim
 * releases it; each claim does that for itself, and with `booked`, it stays in use as above. */
int claimant_hold(struct claimant *claimant, const char *id, struct error *error);
void claimant_release(struct claimant *claimant, const char *id, bool booked);

/* Whether any resource excludes others, so that the end of pods matters. */
bool arbiter_is_exclusive(const struct arbiter *arbiter);

/* Whether an answer to Allocate that the kubelet stores for a device of the resource is outdated.
 */
bool claimant_replays(const struct claimant *claimant);

/* Whether a device of it in use excludes others of the same hardware (overlap = "exclusive"). */
bool claimant_excludes(const struct claimant *claimant);

/* Bookings of a resource that devplugd does not serve: of another program, or from before the
 * resource was removed or renamed. */
struct foreign_bookings {
	char *resource;
	struct bookings *booked;
};
void foreign_bookings_free(struct foreign_bookings *items, size_t n);

/* Sets all of them: no resource offers these devices. Takes the array. */
void arbiter_set_foreign(struct arbiter *arbiter, struct foreign_bookings *items, size_t n);

/* Takes a descriptor with the child's claims, and their number; it is read later. */
void claimant_submit(struct claimant *claimant, int fd, uint64_t number);

/* The child has scanned, see claimant_operations. The answer holds for earlier requests, too; a
 * number that it was not asked for is ignored. */
void claimant_scanned(struct claimant *claimant, uint64_t number);

/* Whether the child waits for an answer. */
bool claimant_is_waiting(const struct claimant *claimant);

/* A note about the claims of the resource for the administrator, or NULL. */
const char *claimant_note(const struct claimant *claimant);

/* To be called when the process has ended. Its claims stay with the resource. */
void claimant_end_process(struct claimant *claimant);

/* The resource has no devices. */
void claimant_drop_claims(struct claimant *claimant);

/* Its devices are free for others. */
struct claimant *claimant_free(struct claimant *claimant);
DEFINE_CLEANUP(struct claimant *, claimant_free)
