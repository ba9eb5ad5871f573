/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the files of a resource (CDI, device information) are proposed: when devices are
 * added, removed or changed, not when only their health changes; and again after a while, as long
 * as a file could not be made. scan-timing.c decides when the list of devices is sent.
 */
#include "proto/plugin/propose-files.h"

#include "common/log.h"
#include "common/sealed.h"
#include "drivers/allocation/publication.h"
#include "proto/plugin/plugin-send.h"

#define RETRY_INTERVAL (10 * USEC_PER_SEC)

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct publishing *publishing = userdata;

	publishing->retry = sd_event_source_disable_unref(publishing->retry);
	publishing->snapshot = snapshot_unref(publishing->snapshot);
	publishing->on_answer(publishing->userdata);
	return 0;
}

static void try_again(struct publishing *publishing)
{
	if (!publishing->retry)
		(void)sd_event_add_time_relative(publishing->event, &publishing->retry,
			CLOCK_MONOTONIC, RETRY_INTERVAL, USEC_PER_SEC, on_retry, publishing);
}

static int send_proposal(struct publishing *publishing, const char *text)
{
	_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(CHILD_PUBLISH);
	int r;

	r = sealed_new("files", text, strlen(text));
	if (r < 0)
		return r;
	message.fds[0] = r;
	message.number = ++publishing->number;
	plugin_send(publishing->event, &message);
	return 0;
}

/* Whether a device was left out that may be in the files without a change that a scan sees. */
static bool may_find_more(const struct strings *left_out, const struct snapshot *snapshot)
{
	size_t k = 0;

	for (size_t i = 0; i < snapshot->n_units && k < left_out->count; i++) {
		const struct device *device = snapshot_existing(snapshot, i);

		if (!device || !streq(device->id, left_out->items[k]))
			continue;
		if (!device->lacks_node)
			return true;
		k++;
	}
	return false;
}

/* Makes the text and sends it if it is new. Returns 1 if it was sent, or 0. */
static int propose(struct publishing *publishing, const struct declaration *declaration,
	struct snapshot *snapshot)
{
	_cleanup_strings_ struct strings left_out = { 0 };
	_cleanup_free_ char *text = NULL;
	struct strings old = publishing->left_out;
	int r;

	r = publication_build(
		declaration, snapshot, declaration_root(declaration), &text, &left_out);
	if (r < 0)
		return r;
	publishing->left_out = left_out;
	left_out = old;
	if (may_find_more(&publishing->left_out, snapshot))
		try_again(publishing);
	if (publishing->made && publishing->text && streq(publishing->text, text))
		return 0;
	r = send_proposal(publishing, text);
	if (r < 0)
		return r;
	publishing->waiting = true;
	publishing->made = false;
	free(publishing->text);
	publishing->text = TAKE_PTR(text);
	return 1;
}

int publish_propose(struct publishing *publishing, struct applied_config *applied_config,
	struct snapshot *snapshot)
{
	const struct declaration *declaration = applied_config->declaration;
	int r;

	if (publishing->applied_config == applied_config &&
		snapshot_shares_devices(publishing->snapshot, snapshot))
		return publishing->waiting;
	/* Files that were published earlier have to be removed too. */
	r = publishing->text || publication_is_wanted(declaration, snapshot)
		? propose(publishing, declaration, snapshot)
		: 0;
	if (r < 0) {
		publishing->waiting = publishing->made = false;
		log_error("cannot build the files for the devices: %s; containers get device "
			  "nodes instead",
			r == -E2BIG ? "they would exceed 4 MiB" : strerror(-r));
		if (r != -E2BIG)
			try_again(publishing);
	}
	(void)snapshot_unref(publishing->snapshot);
	publishing->snapshot = snapshot_ref(snapshot);
	(void)applied_config_unref(publishing->applied_config);
	publishing->applied_config = applied_config_ref(applied_config);
	return publishing->waiting;
}

void publish_answered(struct publishing *publishing, const struct control_message *message)
{
	bool made = message->text[0] == '\0';

	/* The answer may also arrive without a question, when files had to be written again. */
	if (message->number != publishing->number ||
		(!publishing->waiting && made == publishing->made))
		return;
	publishing->waiting = false;
	publishing->made = made;
	if (!publishing->made)
		try_again(publishing);
	publishing->on_answer(publishing->userdata);
}

void publish_done(struct publishing *publishing)
{
	(void)snapshot_unref(publishing->snapshot);
	(void)applied_config_unref(publishing->applied_config);
	free(publishing->text);
	strings_done(&publishing->left_out);
	sd_event_source_disable_unref(publishing->retry);
}
