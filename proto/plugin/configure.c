/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting a configuration into force. The new state is built completely beside the old one and
 * replaces it only when it works, so a refusal costs nothing, and the kubelet sees at most one new
 * list.
 */
#include <malloc.h>
#include <sys/stat.h>

#include "common/log.h"
#include "config/text.h"
#include "proto/plugin/changes.h"
#include "proto/plugin/plugin.h"

#define CONFIGURATION_MAX (4U << 20)

static int read_text(int fd, char **ret, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > CONFIGURATION_MAX)
		return error_set(error, -EBADMSG, "the configuration did not arrive");
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

static int load(int fd, struct edition **ret, struct error *error)
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
	r = edition_new(config, ret);
	if (r < 0)
		return error_set(error, r, "out of memory");
	TAKE_PTR(config);
	return 0;
}

/* Offers what the inventory has now; 1 if the kubelet is sent a list. */
static int offer(struct plugin *plugin, struct snapshot *snapshot)
{
	_cleanup_offer_ struct offer *new_offer = NULL;
	int r;

	r = offer_new(plugin->edition, snapshot, &new_offer);
	if (r < 0)
		return r;
	if (plugin->edition->declaration->cdi_spec.kind && plugin->publishing.made) {
		r = offer_use_cdi(new_offer, &plugin->publishing.left_out);
		if (r < 0)
			return r;
	}
	return service_offer(plugin->service, new_offer);
}

static void tell_ready(struct plugin *plugin)
{
	const struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_READY);

	if (plugin->ready_owed)
		plugin_tell(plugin, &message);
	plugin->ready_owed = false;
}

/* Logs what differs from what was logged last. */
static void say_changes(struct plugin *plugin, struct snapshot *snapshot)
{
	changes_log(plugin->said, snapshot);
	snapshot_unref(plugin->said);
	plugin->said = snapshot_ref(snapshot);
}

/* Somebody has to find out when they may be forgotten. */
static void tell_gone(struct plugin *plugin, const struct snapshot *snapshot)
{
	struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_GONE);

	for (size_t i = 0; i < snapshot->n_units; i++)
		message.devices += !snapshot->units[i].present || snapshot->units[i].may_be_gone;
	if (message.devices == plugin->gone_told)
		return;
	plugin->gone_told = message.devices;
	plugin_tell(plugin, &message);
}

void plugin_offer(struct plugin *plugin)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(plugin->inventory);
	int waits, r;

	waits = claiming_propose(plugin, snapshot);
	waits += publish_propose(plugin, snapshot);
	if (waits > 0)
		return;
	r = offer(plugin, snapshot);
	if (r < 0) {
		log_error(
			"a change of devices cannot be told to the kubelet: %s; the last list stays",
			r == -E2BIG ? "the list would pass 4 MiB" : strerror(-r));
		return;
	}
	plugin->offered = true;
	tell_ready(plugin);
	tell_gone(plugin, snapshot);
	say_changes(plugin, snapshot);
}

static void on_inventory_changed(struct inventory *inventory, void *userdata)
{
	struct plugin *plugin = userdata;

	/* One that is not in force yet, or no longer. */
	if (inventory != plugin->inventory)
		return;
	plugin_offer(plugin);
	plugin_report(plugin);
}

/* What the declaration looks for, and where. */
static char *sought_text(const struct declaration *declaration)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return NULL;
	(void)fprintf(stream, "%s\n%s\n", declaration->driver->name, declaration_root(declaration));
	for (size_t i = 0; i < declaration->match.count; i++)
		text_write(stream, declaration->match.table, groups_get(&declaration->match, i),
			TEXT_CANONICAL, 0);
	if (fclose(stream) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* Whether both look for the same devices: then one that has vanished may come back. */
static bool same_sought(const struct declaration *a, const struct declaration *b)
{
	_cleanup_free_ char *a_text = sought_text(a), *b_text = sought_text(b);

	return a_text && b_text && streq(a_text, b_text);
}

uint64_t plugin_sought(const struct declaration *declaration)
{
	_cleanup_free_ char *text = sought_text(declaration);

	return text ? hash_string(text) : 0;
}

/* Without memory, or with one that cannot be read, devices are probed like new ones. */
static int recall(struct inventory *inventory, const struct declaration *declaration, int fd)
{
	struct memory *memory;
	uint64_t sought;
	int r = memory_read(fd, &memory);

	if (r < 0) {
		if (r != -ESTALE)
			log_warning(
				"what was known of the devices' health cannot be read: %s; they "
				"are probed anew",
				strerror(-r));
		return 0;
	}
	sought = memory->sought;
	inventory_recall(inventory, memory);
	return sought != 0 && sought == plugin_sought(declaration)
		? inventory_recall_list(inventory)
		: 0;
}

/* Without it, all devices of the host would just not be there. */
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

static int configure(struct plugin *plugin, int fd, int memory_fd, struct error *error)
{
	_cleanup_(edition_unrefp) struct edition *edition = NULL;
	_cleanup_(inventory_freep) struct inventory *inventory = NULL;
	int r;

	r = load(fd, &edition, error);
	if (r < 0)
		return r;
	r = check_root(edition->declaration, error);
	if (r < 0)
		return r;
	r = inventory_new(plugin->event, edition->declaration,
		declaration_root(edition->declaration), on_inventory_changed, plugin, &inventory);
	if (r < 0)
		return error_set(error, r, "cannot watch for devices: %s", strerror(-r));
	if (plugin->inventory) {
		r = inventory_inherit(inventory, plugin->inventory,
			same_sought(edition->declaration, plugin->edition->declaration));
	} else if (memory_fd >= 0) {
		plugin->remembers = true;
		r = recall(inventory, edition->declaration, memory_fd);
	}
	if (r < 0)
		return error_set(error, r, "out of memory");
	r = inventory_start(inventory, error);
	if (r < 0)
		return r;
	if (!plugin->service) {
		r = service_new(plugin->event, &plugin_service_events, plugin, &plugin->service);
		if (r < 0)
			return error_set(error, r, "cannot start gRPC: %s", strerror(-r));
	}
	inventory_free(plugin->inventory);
	edition_unref(plugin->edition);
	plugin->inventory = TAKE_PTR(inventory);
	plugin->edition = TAKE_PTR(edition);
	claiming_renew(plugin);
	return 0;
}

void plugin_configure(struct plugin *plugin, int fd, int memory_fd)
{
	struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_REFUSED);
	struct error error = {};

	if (configure(plugin, fd, memory_fd, &error) < 0) {
		(void)snprintf(message.text, sizeof(message.text), "%s", error.message);
		plugin_tell(plugin, &message);
		return;
	}
	/* READY says that the kubelet's calls can be answered, from the old offer or the first. */
	plugin->ready_owed = true;
	plugin_offer(plugin);
	if (plugin->offered) {
		tell_ready(plugin);
		plugin_report(plugin);
	}
	/* The kubelet reads options at registration only. The other way round needs nothing: a
	 * PreStartContainer without a command is answered OK. */
	if (plugin->session && !plugin->session_pre_starts &&
		plugin->edition->declaration->prestart.command.count > 0)
		plugin_end_session(plugin,
			"prestart was added, which the kubelet learns at registration only");
	(void)malloc_trim(0);
}
