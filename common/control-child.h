/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The protocol between the supervisor and the process of a resource. The brackets name the parts of
 * a message: fields of control.h, and descriptors, of which "fd?" may be absent; a test compares
 * them with the table in control-child.c.
 */

#include "common/control.h"

enum child_type {
	/* supervisor to child */
	CHILD_CONFIGURE = CONTROL_OWN, /* [fd, fd?] sealed memfd with the resource's text; the
					  health state that an earlier process saved */
	CHILD_SESSION,     /* [session, peer, fd] peer: the kubelet; listening socket, which the
			      kubelet client registers */
	CHILD_END_SESSION, /* [session] close it; the child answers SESSION_ENDED */
	CHILD_PUBLISHED,   /* [number, text] answers PUBLISH; text: why nothing was published, or
			      empty */
	CHILD_OWNERS,      /* [number, text, fd?] number: of the newest CLAIMS; text: why they are
			      refused, or empty; sealed memfd with the devices that belong to
			      other resources, see drivers/inventory/hardware-claims.h. Also sent
			      whenever that changes */
	CHILD_BOOKED,      /* [times, fd] sealed memfd with the offered ids that the kubelet has
			      booked, see drivers/model/bookings.h. A device that is not among
			      them may leave the list if it was removed before gone_by, and is not
			      booked if it was allocated before allocated_before. Since
			      kubelet_restarted a kubelet runs that is not the first one since
			      the boot; 0: it is, or that is not known. Sent before CONFIGURE and
			      SESSION, so that the first list has them */
	CHILD_LIST_AGAIN,  /* [] send the kubelet the same list again, so that it writes its
			      checkpoint */
	CHILD_FORGET,      /* [text] an id that counts as not booked, see inventory_forget() */
	CHILD_RELEASE,     /* [phase, text] text: a device that was reset, or empty */
	CHILD_COUNTERS,    /* [fd] the page that a resource's process counts into, see counters.h */
	CHILD_EDIT, /* [number, text, fd] sealed memfd with JSON, see proto/plugin/edits.h. Asks
		       what a container with devices gets; the child answers EDITS. Text: empty if
		       they are assigned now, which runs prestart; CHILD_EDIT_ADMIN if that is for
		       admin access; else the hash of their edits, or "-" if there are none */
	CHILD_SCAN, /* [number] scan soon; the child answers SCANNED after the CLAIMS of what it
		       found */
	CHILD_LAST_COMPLETE, /* [fd] the last complete list of devices, that an earlier process
				sent in COMPLETE. Sent before CONFIGURE */
	CHILD_USED,  /* [number, text, fd?] answers USE; text: why not, or empty; sealed memfd with
			the host's path of the metadata of each container, one a line */
	CHILD_CLEAN, /* [number, text] text: a device; run the `release` program for it, and answer
			CLEANED */
	CHILD_DIRTY, /* [fd] sealed memfd with the devices that are to be cleaned, could not be, or
			are clean but booked for pods that have ended: lines of ID<TAB>REASON, with
			an empty reason while the device is offered. No pod has any of them.
			Sent whenever that changes, and before CONFIGURE */
	/* child to supervisor */
	CHILD_READY,         /* [] configuration accepted and first inventory complete */
	CHILD_REFUSED,       /* [text] why the last CONFIGURE was refused; the previous
				configuration stays applied */
	CHILD_SERVING,       /* [session] the kubelet opened ListAndWatch */
	CHILD_SESSION_ENDED, /* [session, text] why */
	CHILD_DEVICES,       /* [devices, number, fd, fd?] sealed memfd with the inventory as JSON;
				sealed memfd with the devices' health, to be saved. The number
				stays if only the numbers of allocations have changed */
	CHILD_FAILURES,      /* [fd] sealed memfd with JSON: {"failures": an array of {"id",
				"reason"?, "probe"?: the number of the probe, none: the device is
				missing, "text", "could_not_run"?}, FAILURES_MAX at most, "devices":
				how many there are, "failing": how many have failures}. Only the
				failures of severity "evict", if the configuration has any. Follows
				DEVICES */
	CHILD_GONE,          /* [removed] */
	CHILD_PUBLISH,       /* [number, fd] sealed memfd with all files that others find its
				devices by, see drivers/allocation/publication.h */
	CHILD_CLAIMS,        /* [number, fd] sealed memfd with what it found, see
				drivers/inventory/hardware-claims.h */
	CHILD_SCANNED,       /* [number] answers the newest SCAN */
	CHILD_CALL_FAILED,   /* [call, text] text: ids of devices, separated by commas, a space, and
				why */
	CHILD_EDITS,         /* [number, text, fd?] answers EDIT; text: why not, or sealed memfd
				with JSON, see proto/plugin/edits.h; neither: the hash is still
				right */
	CHILD_COMPLETE,      /* [fd] sealed memfd with a complete list of devices, to be saved,
				see drivers/inventory/complete-list.h */
	CHILD_LABELS,        /* [fd] sealed memfd with labels of the node, which may be empty; see
				drivers/model/node-label.h */
	CHILD_EDITS_CHANGED, /* [] earlier EDITS may be outdated */
	CHILD_USE,           /* [number, phase, fd, fd?] phase: enum child_use; sealed memfd with
				offered ids, one a line, with an empty line between containers;
				sealed memfd with their devices as in ATTRIBUTES, if the containers
				get metadata. The supervisor answers USED */
	CHILD_CLEANED,    /* [number, phase, text] answers CLEAN; phase: enum child_cleaned; text:
			     why not */
	CHILD_ATTRIBUTES, /* [fd] sealed memfd with JSON: an array of ATTRIBUTES_DEVICES_MAX objects
			     at most, {"id", "numa"?, "attributes"}, as in DEVICES. Only devices
			     that containers have, if the resource has `metadata` */
};

#define CHILD_EDIT_ADMIN "admin"

/* Maximum size of the JSON in a CHILD_EDITS. */
#define EDITS_BYTES_MAX (1U << 20)

/* How many failures CHILD_FAILURES has, and the maximum size of its document. */
#define FAILURES_MAX       1024
#define FAILURES_BYTES_MAX (4U << 20)

/* What a child does with what keeps the host's driver in use. */
enum child_release_phase {
	CHILD_RELEASE_BEGIN = 1, /* close it */
	CHILD_RELEASE_END,       /* open it again */
	CHILD_RELEASE_UNTESTED,  /* the same, and the device needs no test (on_recovery) */
};

/* Maximum number of ids in a CHILD_USE. */
#define CHILD_USE_IDS_MAX 1024

/* How many devices of a resource are cleaned at a time: as many as probes run. */
#define CHILD_CLEANINGS_MAX 4

/* The limits of CHILD_ATTRIBUTES. A device with all the attributes that it may have needs 5 KB. */
#define ATTRIBUTES_DEVICES_MAX 128
#define ATTRIBUTES_BYTES_MAX   (1U << 20)

/* What happens to devices of a resource with `release`, `metadata` or overlap = "exclusive". */
enum child_use {
	CHILD_USE_ALLOCATED = 1, /* Allocate is about to be answered */
	CHILD_USE_STARTED,       /* a container is about to start */
	_CHILD_USE_MAX,
};

enum child_cleaned {
	CHILD_CLEANED_OK = 1,
	CHILD_CLEANED_FAILED,
	CHILD_CLEANED_LATER,  /* the program could not be started now */
	CHILD_CLEANED_ABSENT, /* the device is not there */
	_CHILD_CLEANED_MAX,
};

/* Calls of the kubelet that a child can refuse. */
enum child_call {
	CHILD_CALL_ALLOCATE = 1,
	CHILD_CALL_PREFER,
	CHILD_CALL_PRESTART,
	_CHILD_CALL_MAX,
};

extern const struct control_protocol control_child;

#define CHILD_MESSAGE_INIT(t) CONTROL_MESSAGE_INIT(&control_child, t)
