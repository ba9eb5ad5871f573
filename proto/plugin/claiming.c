/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a child sends the supervisor its claims, and waits for the owners before devices are
 * offered. Health does not change the hardware, so a new text is made only when a device is added,
 * removed or replaced, and sent only if it differs.
 */
#include "proto/plugin/claiming.h"

#include "common/log.h"
#include "common/sealed.h"
#include "drivers/inventory/claims.h"
#include "proto/plugin/plugin.h"

/* Of an answer. */
#define OWNERS_MAX     (64U << 20)
#define RETRY_INTERVAL (10 * USEC_PER_SEC)

static int send_claims(struct plugin *plugin, const char *text)
{
	_cleanup_control_ struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_CLAIMS);
	int r;

	r = sealed_new("claims", text, strlen(text));
	if (r < 0)
		return r;
	message.fds[0] = r;
	message.number = ++plugin->claiming.number;
	plugin_send(plugin, &message);
	return 0;
}

static int propose(struct plugin *plugin, struct snapshot *snapshot)
{
	struct claiming *claiming = &plugin->claiming;
	_cleanup_free_ char *text = NULL;
	int r;

	r = claims_text(snapshot, declaration_root(plugin->applied_config->declaration), &text);
	if (r < 0)
		return r;
	if (!claiming->text || !streq(claiming->text, text)) {
		r = send_claims(plugin, text);
		if (r < 0)
			return r;
		claiming->waiting = true;
		free(claiming->text);
		claiming->text = TAKE_PTR(text);
	}
	(void)snapshot_unref(claiming->snapshot);
	claiming->snapshot = snapshot_ref(snapshot);
	return 0;
}

/* Logs the same only once. */
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
	struct plugin *plugin = userdata;

	plugin->claiming.retry = sd_event_source_disable_unref(plugin->claiming.retry);
	plugin_offer(plugin);
	return 0;
}

static void try_again(struct plugin *plugin)
{
	if (!plugin->claiming.retry)
		(void)sd_event_add_time_relative(plugin->event, &plugin->claiming.retry,
			CLOCK_MONOTONIC, RETRY_INTERVAL, USEC_PER_SEC, on_retry, plugin);
}

int claiming_propose(struct plugin *plugin, struct snapshot *snapshot)
{
	struct claiming *claiming = &plugin->claiming;
	int r;

	if (!snapshot_same_devices(claiming->snapshot, snapshot)) {
		r = propose(plugin, snapshot);
		note(claiming, r);
		/* Serving is more than sharing well. */
		if (r < 0) {
			try_again(plugin);
			return 0;
		}
	}
	return claiming->waiting;
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

int claiming_answered(struct plugin *plugin, const struct control_message *message)
{
	struct claiming *claiming = &plugin->claiming;
	bool waited = claiming->waiting;
	char *owners;
	int r;

	/* Of what has changed meanwhile. */
	if (message->number != claiming->number)
		return 0;
	r = read_owners(message, &owners);
	if (r >= 0) {
		free(claiming->owners);
		claiming->owners = owners;
		r = inventory_set_owners(plugin->inventory, owners);
	}
	if (r < 0) {
		log_error(
			"cannot determine the owners of devices: %s; next automatic retry in 10 s",
			strerror(-r));
		/* The supervisor answers new claims only. */
		claiming->snapshot = snapshot_unref(claiming->snapshot);
		free(claiming->text);
		claiming->text = NULL;
		try_again(plugin);
		return 0;
	}
	claiming->waiting = false;
	return waited || r > 0;
}

void claiming_renew(struct plugin *plugin)
{
	if (plugin->claiming.owners)
		(void)inventory_set_owners(plugin->inventory, plugin->claiming.owners);
}

void claiming_done(struct claiming *claiming)
{
	(void)snapshot_unref(claiming->snapshot);
	free(claiming->text);
	free(claiming->owners);
	sd_event_source_disable_unref(claiming->retry);
}
