/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a child sends the supervisor its claims, and waits for the owners before devices are
 * offered. Health does not change the hardware, so a new text is made only when a device is added,
 * removed or replaced, and sent only if it differs. If the supervisor refuses the claims, only
 * devices with the claims that it accepted before are offered.
 */
#include "proto/plugin/claiming.h"

#include "common/log.h"
#include "common/map.h"
#include "common/sealed.h"
#include "drivers/inventory/hardware-claims.h"
#include "proto/plugin/plugin-send.h"

/* Maximum size of an answer. */
#define OWNERS_MAX     (64U << 20)
#define RETRY_INTERVAL (10 * USEC_PER_SEC)

/* The text is no longer valid; the accepted claims are kept. */
static void take_text(struct claiming *claiming, char *text)
{
	if (claiming->is_accepted) {
		free(claiming->accepted);
		claiming->accepted = TAKE_PTR(claiming->text);
	}
	free(claiming->text);
	claiming->text = text;
	claiming->is_accepted = false;
}

/* Claims again as soon as devices are offered. */
static void forget_claims(struct claiming *claiming)
{
	claiming->snapshot = snapshot_unref(claiming->snapshot);
	take_text(claiming, NULL);
}

static int send_claims(struct claiming *claiming, const char *text)
{
	_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(CHILD_CLAIMS);
	int r;

	r = sealed_new("claims", text, strlen(text));
	if (r < 0)
		return r;
	message.fds[0] = r;
	message.number = ++claiming->number;
	plugin_send(claiming->event, &message);
	return 0;
}

static int propose(
	struct claiming *claiming, const struct declaration *declaration, struct snapshot *snapshot)
{
	_cleanup_free_ char *text = NULL;
	int r;

	r = hardware_claims_text(declaration, snapshot, declaration_root(declaration), &text);
	if (r < 0)
		return r;
	if (!claiming->text || !streq(claiming->text, text)) {
		r = send_claims(claiming, text);
		if (r < 0)
			return r;
		claiming->waiting = true;
		take_text(claiming, TAKE_PTR(text));
	}
	(void)snapshot_unref(claiming->snapshot);
	claiming->snapshot = snapshot_ref(snapshot);
	return 0;
}

/* Logs the same text only once. */
static void note(struct claiming *claiming, int r)
{
	if (r < 0 && !claiming->failed)
		log_error(
			"cannot ask the supervisor for the owners of devices: %s; until then, new devices are offered even if another resource offers them",
			strerror(-r));
	claiming->failed = r < 0;
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct claiming *claiming = userdata;

	claiming->retry = sd_event_source_disable_unref(claiming->retry);
	forget_claims(claiming);
	claiming->on_answer(claiming->userdata);
	return 0;
}

static void try_again(struct claiming *claiming)
{
	if (!claiming->retry)
		(void)sd_event_add_time_relative(claiming->event, &claiming->retry, CLOCK_MONOTONIC,
			RETRY_INTERVAL, USEC_PER_SEC, on_retry, claiming);
}

int claiming_propose(
	struct claiming *claiming, const struct declaration *declaration, struct snapshot *snapshot)
{
	int r;

	if (!snapshot_shares_devices(claiming->snapshot, snapshot)) {
		r = propose(claiming, declaration, snapshot);
		note(claiming, r);
		/* Serving is more than sharing well. */
		if (r < 0) {
			try_again(claiming);
			return 0;
		}
	}
	return claiming_waits(claiming);
}

bool claiming_waits(const struct claiming *claiming)
{
	return claiming->waiting && *claiming->text;
}

/* The answer as text; empty where it has none. */
static int read_owners(const struct control_message *message, char **ret)
{
	size_t size;

	if (message->fds[0] >= 0)
		return sealed_read(message->fds[0], OWNERS_MAX, ret, &size);
	*ret = strdup("");
	return *ret ? 0 : -ENOMEM;
}

/* Adds the lines of the text that are not among the known ones, because their devices are not
 * ours. */
static int write_refused(FILE *stream, const struct map *known, char *text, const char *resource)
{
	char *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (!map_get(known, line))
			(void)fprintf(stream, "%.*s\t%s, but refused\n", (int)strcspn(line, "\t"),
				line, resource);
	return ferror(stream) ? -ENOMEM : 0;
}

/* Extends the owners by the devices whose claims are refused. */
static int add_refused(const struct claiming *claiming, char **owners)
{
	_cleanup_free_ char *text = strdup(claiming->text), *new_owners = NULL;
	_cleanup_free_ char *accepted = strdup(claiming->accepted ?: "");
	_cleanup_(map_done) struct map known = { 0 };
	FILE *stream = open_memstream(&new_owners, &(size_t){ 0 });
	char *rest = NULL;
	int r = text && accepted && stream ? 0 : -ENOMEM;

	for (char *line = r < 0 ? NULL : strtok_r(accepted, "\n", &rest); line && r >= 0;
		line = strtok_r(NULL, "\n", &rest)) {
		r = map_put(&known, line, line);
		r = r == -EEXIST ? 0 : r;
	}
	if (r >= 0 && fputs(*owners, stream) == EOF)
		r = -ENOMEM;
	if (r >= 0)
		r = write_refused(stream, &known, text, claiming->resource);
	if (stream && fclose(stream) != 0)
		r = -ENOMEM;
	if (r < 0)
		return r;
	free(*owners);
	*owners = TAKE_PTR(new_owners);
	return 0;
}

void claiming_answered(struct claiming *claiming, struct inventory *inventory,
	const struct control_message *message)
{
	bool waited = claiming->waiting, refused = *message->text;
	_cleanup_free_ char *owners = NULL;
	int r;

	/* Ignores the answer to claims that have changed in the meantime. */
	if (message->number != claiming->number || !claiming->text)
		return;
	r = read_owners(message, &owners);
	if (r >= 0 && refused)
		r = add_refused(claiming, &owners);
	if (r >= 0) {
		free(claiming->owners);
		claiming->owners = TAKE_PTR(owners);
		r = inventory_set_owners(inventory, claiming->owners);
	}
	if (r < 0) {
		log_error(
			"cannot determine the owners of devices: %s; next automatic retry in 10 s",
			strerror(-r));
		/* The supervisor answers new claims only. */
		forget_claims(claiming);
		try_again(claiming);
		return;
	}
	claiming->waiting = false;
	claiming->is_accepted = !refused;
	if (refused)
		try_again(claiming);
	if (waited || r > 0)
		claiming->on_answer(claiming->userdata);
}

void claiming_renew(const struct claiming *claiming, struct inventory *inventory)
{
	if (claiming->owners)
		(void)inventory_set_owners(inventory, claiming->owners);
}

void claiming_done(struct claiming *claiming)
{
	(void)snapshot_unref(claiming->snapshot);
	free(claiming->text);
	free(claiming->accepted);
	free(claiming->owners);
	sd_event_source_disable_unref(claiming->retry);
}
