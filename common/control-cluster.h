/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The protocol between the supervisor and devplugd-cluster. It is written as in control-child.h.
 */

#include "common/control.h"

/* Maximum size of the documents of PREPARE and ATTRIBUTES, and of devices in one of the latter. */
#define CLUSTER_CLAIM_MAX      (256U << 10)
#define CLUSTER_ATTRIBUTES_MAX 16

enum cluster_type {
	/* supervisor to devplugd-cluster */
	CLUSTER_CONFIGURE = CONTROL_OWN, /* [fd] sealed memfd with its settings as JSON */
	CLUSTER_SESSION,    /* [driver, session, fd] listening socket, which the kubelet client
			       registers */
	CLUSTER_REGISTERED, /* [driver] the kubelet has registered the driver, maybe again */
	CLUSTER_FILE,       /* [number, text, fd?] answers FILE_WANTED; sealed memfd with the
			       content, and as text the path of the kubeconfig file; without it:
			       why not */
	CLUSTER_PREPARED, /* [number, again, text, fd?] answers PREPARE or UNPREPARE; text: why not;
			     sealed memfd with JSON, if the claim is prepared, see
			     supervisor/books/dra-claim.h. Neither: PREPARE named no devices, and
			     the claim is not known */
	CLUSTER_HELD, /* [fd] sealed memfd with JSON; replaces the one before. "devices": by name,
			 {"driver", "resource", "id"} of each device that a claim holds. "claims":
			 an object with the UID of each claim that devplugd knows or prepares */
	CLUSTER_LOOK_UP,   /* [number, fd] sealed memfd with JSON: an array of claims, each {"uid",
			      "namespace", "name"}, to be read from the API server */
	CLUSTER_RESOURCES, /* [fd] sealed memfd with JSON, by name: each resource that is reported,
			      as {"failure": why it does not work, or empty, "evictions": see
			      evictions_report()}. It replaces the one before. None: what was
			      reported is removed */
	CLUSTER_LABELS,    /* [fd] sealed memfd with JSON, by resource: its labels of the Node by
			      name, or null if they are not known yet. It replaces the one before.
			      None: those that were written are removed */
	CLUSTER_EVICT,     /* [fd] sealed memfd with JSON, see dra/model/eviction-order.h */
	CLUSTER_HOLDERS,   /* [number, fd] answers HOLDERS_WANTED; sealed memfd with JSON: by
			      resource, an array of {"id", "namespace", "pod"} for each
			      container's device */
	/* devplugd-cluster to supervisor */
	CLUSTER_SESSION_ENDED, /* [session, text] why */
	CLUSTER_FILE_WANTED,   /* [number, text] the kubeconfig file, if empty, or a path that is in
				  it */
	CLUSTER_NODE,          /* [text] the node in the client certificate, or empty */
	CLUSTER_PREPARE,       /* [driver, number, until, fd] sealed memfd with JSON, see
				  supervisor/books/dra-claim.h */
	CLUSTER_CANCEL,        /* [number] the answer to that PREPARE is no longer waited for */
	CLUSTER_UNPREPARE,     /* [driver, number, text] uid of the claim */
	CLUSTER_PUBLISHED,  /* [driver, text] resource whose devices are stored in ResourceSlices,
			       since the driver was registered */
	CLUSTER_HAPPENED,   /* [driver, number, text] an event that is counted, see cluster_events;
			       number: microseconds that it took */
	CLUSTER_REFUSED,    /* [text] a claim of the kubelet's calls was refused: which, and why */
	CLUSTER_API_FAILED, /* [] a request to the API server failed, for the metrics */
	CLUSTER_UNKNOWN,    /* [number, fd] answers LOOK_UP; sealed memfd with JSON: an array of the
			       UIDs of the claims that the API server does not have */
	CLUSTER_ATTRIBUTES, /* [driver, fd] sealed memfd with JSON: the attributes of devices that
			       claims hold, by the name of the device */
	CLUSTER_EVICTED,    /* [fd] sealed memfd with JSON: the state of each pod of EVICT; when
			       one has changed, and after each EVICT */
	CLUSTER_POOL,       /* [driver, pool, text] what is published; text: what fails, or empty */
	CLUSTER_HOLDERS_WANTED, /* [number] asks which pods use which devices */
	CLUSTER_REPORTED,       /* [text] what fails in reporting, or empty; when that changes */
	CLUSTER_LABELLED, /* [text] why labels could not be written, or empty; after each LABELS,
			     and when that changes */
};

/* Whether a claim that could not be prepared is worth another try during the kubelet's call. */
enum cluster_again {
	CLUSTER_NEVER,
	CLUSTER_WHEN_FREE, /* something that passes: another claim has a device, a process starts */
	CLUSTER_A_FEW_TIMES, /* a program failed, which may be different the next time */
	CLUSTER_GOES_ON,     /* no: the preparation goes on, and the next call waits for it */
};

/* What devplugd-cluster counts: a claim of the kubelet's calls that was answered. */
enum cluster_event {
	CLUSTER_PREPARE_OK,
	CLUSTER_PREPARE_FAILED,
	CLUSTER_UNPREPARE_OK,
	CLUSTER_UNPREPARE_FAILED,
	_CLUSTER_EVENT_MAX,
};

/* The names in CLUSTER_HAPPENED. */
extern const char *const cluster_events[_CLUSTER_EVENT_MAX];

/* Sends CLUSTER_HAPPENED to the supervisor; one that it cannot take is not counted. */
void control_cluster_count(enum cluster_event event, uint64_t driver, uint64_t usec);

extern const struct control_protocol control_cluster;

#define CLUSTER_MESSAGE_INIT(t) CONTROL_MESSAGE_INIT(&control_cluster, t)
