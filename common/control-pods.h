/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The protocol between the supervisor and a reader of PodResources, which runs for one question. It
 * is written as in control-child.h.
 */

#include "common/control.h"

enum pods_type {
	/* supervisor to reader */
	PODS_QUESTION = CONTROL_OWN, /* [text, fd] text: the question, see spawn-request.h;
					connection to the kubelet */
	/* reader to supervisor */
	PODS_ANSWER,  /* [fd] sealed memfd, see pod-table.h */
	PODS_REFUSED, /* [text] why there is no answer */
};

extern const struct control_protocol control_pods;

#define PODS_MESSAGE_INIT(t) CONTROL_MESSAGE_INIT(&control_pods, t)
