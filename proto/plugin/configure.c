/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies a configuration. The new state is built completely beside the old one and replaces it
 * only when it works, so a refusal costs nothing, and the kubelet gets at most one new list.
 */
#include <sys/stat.h>

#include "common/child-sandbox.h"
#include "common/log.h"
#include "proto/plugin/edits.h"
#include "proto/plugin/log-changes.h"
#include "proto/plugin/match-fingerprint.h"
#include "proto/plugin/plugin-send.h"
#include "proto/plugin/plugin.h"

#define CONFIGURATION_MAX (4U << 20)

static int read_text(int fd, char **ret, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > CONFIGURATION_MAX)
		return error_set(error, -EBADMSG, "the configuration was not received");
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return error_set(error, -ENOMEM, "out of memory");
	n = pread(fd, text, (size_t)st.st_size, 0);
	if (n != st.st_size)
		return error_set(error, -EIO, "the configuration cannot be read");
	text[n] = '\0';
	*ret = TAKE_PTR(text);
	return 0;
}

static int load(int fd, struct applied_config **ret, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_config_ struct config *config = NULL;
	struct report report = {};
	int r;

	r = read_text(fd, &text, error);
	if (r < 0)
		return r;
	r = config_load_resource(text, &report, &config);
	if (r < 0)
		(void)error_set(
			error, r, "%s", report.count > 0 ? report.entries[0].text : strerror(-r));
	report_done(&report);
	if (r < 0)
		return r;
	r = applied_config_new(config, ret);
	if (r < 0)
		return error_set(error, r, "out of memory");
	TAKE_PTR(config);
	return 0;
}

/* Offers the inventory's current devices; returns 1 if the kubelet is sent a list. */
static int offer(struct plugin *plugin, struct snapshot *snapshot)
{
	_cleanup_offer_ struct offer *new_offer = NULL;
	int r;

	r = offer_new(plugin->applied_config, snapshot, &new_offer);
	if (r < 0)
		return r;
	if (plugin->booked && plugin->readmission_end > now_usec(CLOCK_MONOTONIC))
		r = offer_readmit(new_offer, plugin->booked, &plugin->readmission_refused);
	if (r < 0)
		return r;
	if (plugin->applied_config->declaration->cdi_spec.kind && plugin->publishing.made) {
		r = offer_use_cdi(new_offer, &plugin->publishing.left_out);
		if (r < 0)
			return r;
	}
	return service_offer(plugin->service, new_offer);
}

static void report_ready(struct plugin *plugin)
{
	const struct control_message message = CHILD_MESSAGE_INIT(CHILD_READY);

	if (plugin->ready_owed)
		plugin_send(plugin->event, &message);
	plugin->ready_owed = false;
}

/* Logs the differences from the last logged state. */
static void report_changes(struct plugin *plugin, struct snapshot *snapshot)
{
	changes_log(plugin->logged, snapshot);
	snapshot_unref(plugin->logged);
	plugin->logged = snapshot_ref(snapshot);
}

/* The supervisor has to find out when they may leave the list. */
static void report_gone(struct plugin *plugin, const struct snapshot *snapshot)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_GONE);

	for (size_t i = 0; i < snapshot->n_units; i++)
		message.removed += !snapshot->units[i].present || snapshot->units[i].may_be_gone;
	if (message.removed == plugin->gone_reported)
		return;
	plugin->gone_reported = message.removed;
	plugin_send(plugin->event, &message);
}

void plugin_report_scanned(struct plugin *plugin)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_SCANNED);

	message.number = plugin->scan_owed;
	if (plugin->scan_owed > 0)
		plugin_send(plugin->event, &message);
	plugin->scan_owed = 0;
}

void plugin_offer(struct plugin *plugin)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(plugin->inventory);
	int waits, r;

	waits = claiming_propose(&plugin->claiming, plugin->applied_config->declaration, snapshot);
	if (waits > 0)
		inventory_await_owners(plugin->inventory);
	waits += publish_propose(&plugin->publishing, plugin->applied_config, snapshot);
	if (waits > 0)
		return;
	r = offer(plugin, snapshot);
	if (r == -EBUSY)
		return;
	if (r < 0) {
		log_error(
			"cannot send a change of devices to the kubelet: %s; the last list stays in use",
			r == -E2BIG ? "the list would exceed 4 MiB" : strerror(-r));
		return;
	}
	plugin->offered = true;
	/* Once ready, the supervisor knows how many devices are missing. */
	report_gone(plugin, snapshot);
	report_ready(plugin);
	edits_offered(plugin, snapshot);
	report_changes(plugin, snapshot);
}

static void on_inventory_changed(struct inventory *inventory, void *userdata)
{
	struct plugin *plugin = userdata;

	/* An inventory that is not applied yet, or no longer. */
	if (inventory != plugin->inventory)
		return;
	plugin_offer(plugin);
	plugin_report(plugin);
}

static void on_measured(struct inventory *inventory, void *userdata)
{
	struct plugin *plugin = userdata;

	if (inventory == plugin->inventory)
		plugin_report(plugin);
}

/* Then a removed device may come back. */
static bool selects_same_devices(const struct declaration *a, const struct declaration *b)
{
	uint64_t fingerprint = match_fingerprint(a);

	return fingerprint != 0 && fingerprint == match_fingerprint(b);
}

/* Without memory, or with one that cannot be read, devices are probed like new ones. */
static int recall(struct inventory *inventory, const struct declaration *declaration, int fd)
{
	struct saved_state *saved;
	uint64_t fingerprint;
	int r = saved_state_read(fd, &saved);

	if (r < 0) {
		if (r != -ESTALE)
			log_warning(
				"cannot read the saved health state: %s; the devices are probed "
				"again",
				strerror(-r));
		return 0;
	}
	fingerprint = saved->match_fingerprint;
	inventory_restore(inventory, saved);
	return fingerprint != 0 && fingerprint == match_fingerprint(declaration)
		? inventory_restore_list(inventory)
		: 0;
}

/* Without this check, it would seem as if the host had no devices. */
static int check_root(const struct declaration *declaration, struct error *error)
{
	const char *root = declaration_root(declaration);
	struct stat st;

	if (!*root)
		return 0;
	if (stat(root, &st) < 0)
		return error_set(error, -errno, "host_root: %s: %s; mount the host there", root,
			strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return error_set(error, -ENOTDIR, "host_root: %s is not a directory", root);
	return 0;
}

/* This happens once, before gRPC starts threads. If the resource needs programs later, its process
 * is replaced. */
static int confine(
	const struct plugin *plugin, const struct declaration *declaration, struct error *error)
{
	int r;

	if (plugin->service || geteuid() == 0 || declaration_runs_programs(declaration))
		return 0;
	r = sandbox_give_up_programs(false);
	return r < 0 ? error_set(error, r, "cannot set up the sandbox: %s", strerror(-r)) : 0;
}

static int configure(struct plugin *plugin, int fd, int saved_state_fd, struct error *error)
{
	_cleanup_(applied_config_unrefp) struct applied_config *applied_config = NULL;
	_cleanup_(inventory_freep) struct inventory *inventory = NULL;
	int r;

	r = load(fd, &applied_config, error);
	if (r < 0)
		return r;
	r = confine(plugin, applied_config->declaration, error);
	if (r >= 0)
		r = check_root(applied_config->declaration, error);
	if (r < 0)
		return r;
	r = inventory_new(plugin->event, applied_config->declaration,
		declaration_root(applied_config->declaration), on_inventory_changed, plugin,
		&inventory);
	if (r < 0)
		return error_set(error, r, "cannot watch for devices: %s", strerror(-r));
	inventory_on_measured(inventory, on_measured);
	if (plugin->inventory) {
		r = inventory_inherit(inventory, plugin->inventory,
			selects_same_devices(
				applied_config->declaration, plugin->applied_config->declaration));
	} else if (saved_state_fd >= 0)
		r = recall(inventory, applied_config->declaration, saved_state_fd);
	if (r >= 0 && !plugin->inventory)
		r = inventory_set_booked(inventory, plugin->booked, 0, plugin->allocated_before);
	if (r >= 0 && plugin->uses.dirty)
		r = inventory_set_dirty(inventory, plugin->uses.dirty);
	if (r < 0)
		return error_set(error, r, "out of memory");
	r = inventory_start(inventory, error);
	if (r < 0)
		return r;
	if (!plugin->service) {
		r = service_new(plugin->event, plugin->service_events, plugin, &plugin->service);
		if (r < 0)
			return error_set(error, r, "cannot start gRPC: %s", strerror(-r));
	}
	inventory_free(plugin->inventory);
	applied_config_unref(plugin->applied_config);
	plugin->inventory = TAKE_PTR(inventory);
	plugin->applied_config = TAKE_PTR(applied_config);
	claiming_renew(&plugin->claiming, plugin->inventory);
	return 0;
}

void plugin_configure(struct plugin *plugin, int fd, int saved_state_fd)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_REFUSED);
	struct error error = {};

	if (configure(plugin, fd, saved_state_fd, &error) < 0) {
		(void)snprintf(message.text, sizeof(message.text), "%s", error.message);
		plugin_send(plugin->event, &message);
		return;
	}
	/* READY means that the kubelet's calls can be answered, from the old offer or the first. It
	 * is sent before the files, which the supervisor checks against the accepted
	 * configuration. */
	plugin->ready_owed = true;
	if (plugin->offered)
		report_ready(plugin);
	plugin_offer(plugin);
	/* The new inventory has scanned. */
	plugin_report_scanned(plugin);
	if (plugin->offered)
		plugin_report(plugin);
}
