/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The protocol between the supervisor and devplugd-exporter. It is written as in control-child.h.
 */

#include "common/control.h"

enum exporter_type {
	/* supervisor to exporter */
	EXPORTER_CONFIGURE = CONTROL_OWN, /* [fd, fd?] sealed memfd with its settings as JSON; its
					     listening socket */
	EXPORTER_STATE,                   /* [fd?] sealed memfd with the daemon's state as JSON, see
						supervisor/helpers/metrics.h, after an INVENTORY for each resource
						that has devices. Without it, there are no metrics now */
	EXPORTER_PODS,                    /* [fd] sealed memfd with the pods, see pod-table.h */
	/* exporter to supervisor */
	EXPORTER_SCRAPE,   /* [] asks for a STATE, and before it for PODS, if there are any */
	EXPORTER_TEXTFILE, /* [fd] sealed memfd with the text of the file */
};

extern const struct control_protocol control_exporter;

#define EXPORTER_MESSAGE_INIT(t) CONTROL_MESSAGE_INIT(&control_exporter, t)
