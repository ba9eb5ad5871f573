/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One Register call to the kubelet, on a connection of its own. It ends with an answer, with the
 * end of the connection, or after REGISTER_TIMEOUT.
 */

#include "proto/mailbox.h"

/* The kubelet dials back for up to 10 s inside Register. */
#define REGISTER_TIMEOUT (20 * USEC_PER_SEC)

struct registration;

struct registration_parameters {
	const char *name;     /* of the resource */
	const char *endpoint; /* file name in the kubelet's plugin directory */
	bool pre_start_required;
};

/* The call has ended; the callee frees the registration. `why` is for people; NULL: the resource is
 * registered. */
typedef void (*registration_handler)(
	struct registration *registration, const char *why, void *userdata);

/* Calls. Takes the connection to the kubelet, also on failure. gRPC must have been started. The
 * mailbox is that of the loop. Returns 0 or negative errno. */
int registration_new(sd_event *event, struct mailbox *mailbox, int fd,
	const struct registration_parameters *parameters, registration_handler on_end,
	void *userdata, struct registration **ret);

/* Cancels the call if it is pending, and closes the connection. */
struct registration *registration_free(struct registration *registration);
DEFINE_CLEANUP(struct registration *, registration_free)
