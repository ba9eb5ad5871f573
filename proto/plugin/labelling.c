/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the labels of the node are sent: when they differ from those sent last. While the
 * kernel has locked a file that a label needs, the labels stay as they are.
 */
#include "proto/plugin/labelling.h"

#include "common/log.h"
#include "common/sealed.h"
#include "proto/plugin/plugin-send.h"

static int send_labels(sd_event *event, const char *text)
{
	_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(CHILD_LABELS);

	message.fds[0] = sealed_new("labels", text, strlen(text));
	if (message.fds[0] < 0)
		return message.fds[0];
	plugin_send(event, &message);
	return 0;
}

bool labelling_update(struct labelling *labelling, sd_event *event,
	const struct declaration *declaration, const struct snapshot *snapshot)
{
	_cleanup_node_labels_ struct node_labels labels = { 0 };
	int r = 0;

	if (declaration->labels.count == 0 && !labelling->sent)
		return false;
	/* Without memory, the next report tries again. */
	if (node_labels_build(declaration, snapshot, declaration_root(declaration), &labels) < 0)
		return false;
	if (labels.busy)
		return true;
	if (!labelling->sent || !streq(labelling->sent, labels.text))
		r = send_labels(event, labels.text);
	if (r < 0) {
		log_warning(
			"cannot send the labels of the node to the supervisor: %s", strerror(-r));
		return false;
	}
	for (size_t i = 0; i < labels.notes.count; i++)
		if (!strings_contain(&labelling->notes, labels.notes.items[i]))
			log_warning("%s", labels.notes.items[i]);
	free(labelling->sent);
	labelling->sent = TAKE_PTR(labels.text);
	strings_done(&labelling->notes);
	labelling->notes = labels.notes;
	labels.notes = (struct strings){ 0 };
	return false;
}

void labelling_done(struct labelling *labelling)
{
	free(labelling->sent);
	strings_done(&labelling->notes);
}
