/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the labels of resources on the Node (cluster.labels). An annotation of the Node has their
 * names by resource, so that they are removed with the resource also after a restart. A label that
 * is not in the annotation belongs to another client, and stays as it is. Changes are written
 * together, at most every LABEL_WRITER_PAUSE, and compared with the Node every
 * LABEL_WRITER_INTERVAL; a failure is repeated after 1 s to a minute.
 */

#include <jansson.h>
#include <systemd/sd-event.h>

#include "dra/dra-api.h"

#define LABEL_WRITER_ANNOTATION "devplugd/labels"
#define LABEL_WRITER_PAUSE      (2 * USEC_PER_SEC)
#define LABEL_WRITER_INTERVAL   (300 * USEC_PER_SEC)

struct label_writer;

/* `node` outlives the object. Failures are sent to the supervisor (CLUSTER_LABELLED). */
int label_writer_new(
	sd_event *event, struct dra_api *api, const char *node, struct label_writer **ret);

/* Takes a CLUSTER_LABELS. Returns 0, -EBADMSG or -ENOMEM. */
int label_writer_take(struct label_writer *writer, struct control_message *message);

struct label_writer *label_writer_free(struct label_writer *writer);
DEFINE_CLEANUP(struct label_writer *, label_writer_free)
