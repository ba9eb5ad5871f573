/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the supervisor and its template say to each other over a SOCK_SEQPACKET pair. One request,
 * one reply; both come from one package and trust each other.
 */

#include "common/child-entry.h"

/* The template's only word on the command line, and the room behind it that its children write
 * their own into, so that ps shows which is which. */
#define TEMPLATE_ARGUMENT "--template"
#define TEMPLATE_ROOM     320

/* In the template's environment: it binds the functions of its libraries once for all children,
 * which would each do so at the first call, and keep a copy of the tables they write to. */
#define TEMPLATE_VARIABLE    "LD_BIND_NOW"
#define TEMPLATE_ENVIRONMENT TEMPLATE_VARIABLE "=1"

/* In the place of a resource's name, which has a "/": the process is the reader of pod resources
 * (proto/plugin/pod-reader.h). */
#define POD_READER_NAME "pod-resources"

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
