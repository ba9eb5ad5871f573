/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The messages between the supervisor and its template over a SOCK_SEQPACKET pair. One request, one
 * reply; both processes come from one package and trust each other.
 */

#include "common/child-entry.h"

/* The template's only argument. The padding after it is the room into which its children write
 * their own arguments, so that ps shows which is which. */
#define TEMPLATE_ARGUMENT "--template"
#define TEMPLATE_ROOM     320

/* Set in the template's environment: the dynamic linker binds all functions once, in the template.
 * Otherwise each child would bind them at the first call and keep its own copy of the tables. */
#define TEMPLATE_VARIABLE    "LD_BIND_NOW"
#define TEMPLATE_ENVIRONMENT TEMPLATE_VARIABLE "=1"

/* Used instead of a resource's name, which always contains a "/", for the reader of pod resources
 * (proto/plugin/pod-reader.h) and the kubelet client (proto/plugin/kubelet-client.h). */
#define POD_READER_NAME     "pod-resources"
#define KUBELET_CLIENT_NAME "kubelet-client"

/* The questions to the reader: the pods of the node, or the node's allocatable devices. The reader
 * answers or fails within the deadline. */
#define POD_QUESTION_LIST        "list"
#define POD_QUESTION_ALLOCATABLE "allocatable"
#define POD_READER_DEADLINE      (8 * USEC_PER_SEC)

/* Descriptors of a request: output, control and status of struct child_ends. */
#define TEMPLATE_FDS 3

struct spawn_request {
	struct identity identity;
	char resource[TEMPLATE_ROOM]; /* NUL-terminated */
};

struct spawn_reply {
	pid_t pid; /* a child of the supervisor by now; 0: none was made */
	int code;  /* positive errno if none was made */
};
