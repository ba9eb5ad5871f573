/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling the supervisor what there is: counts in the message, the inventory as JSON in a memfd
 * that the supervisor stores without looking into it. Where only health has changed, a document
 * with what changed is added to that file, until half of it consists of such. The dearer a report
 * is, the rarer it comes.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/log.h"
#include "drivers/json-write.h"
#include "proto/plugin/plugin.h"

#define REPORT_INTERVAL    (100 * USEC_PER_MSEC)
#define REPORT_COST_FACTOR 4
/* The kubelet hears of a change first: the list is on its way to it by then. */
#define REPORT_DELAY (50 * USEC_PER_MSEC)
#define REPORT_RETRY USEC_PER_SEC

/* Most devices have been as they are since the same second. */
struct last_time {
	time_t seconds;
	char text[40];
};

#define LAST_TIME_INIT ((struct last_time){ .seconds = -1 })

static const char *time_text(struct last_time *last, uint64_t usec)
{
	time_t seconds = (time_t)(usec / USEC_PER_SEC);
	struct tm tm;

	if (usec == 0)
		return NULL;
	if (seconds == last->seconds)
		return last->text;
	if (!gmtime_r(&seconds, &tm))
		return NULL;
	(void)strftime(last->text, sizeof(last->text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	last->seconds = seconds;
	return last->text;
}

/* Counts of all replicas of the unit. */
static uint64_t allocations_of(
	const struct tally *tally, const struct snapshot *snapshot, size_t unit)
{
	char id[OFFERED_ID_MAX + 1];
	uint64_t sum = 0;

	for (unsigned replica = 0; tally->n_entries > 0 && replica < snapshot->units[unit].replicas;
		replica++) {
		snapshot_offered_id(snapshot, unit, replica, id);
		sum += tally_of(tally, id);
	}
	return sum;
}

/* What the kubelet is told, and of what it is not told that it belongs to another resource. */
static const char *health_text(const struct snapshot_unit *unit)
{
	return unit->foreign ? "Claimed" : unit->healthy ? "Healthy" : "Unhealthy";
}

static void write_device(struct json_writer *writer, const struct plugin *plugin,
	const struct snapshot *snapshot, size_t i, bool first, struct last_time *last)
{
	const struct snapshot_unit *unit = &snapshot->units[i];

	json_write_text(writer, first ? "{\"id\":" : ",{\"id\":");
	json_write_string(writer, unit->device->id);
	json_write_text(writer, ",\"health\":");
	json_write_string(writer, health_text(unit));
	json_write_text(writer, ",\"reason\":");
	json_write_string(writer, unit->reason);
	json_write_text(writer, ",\"since\":");
	json_write_string(writer, time_text(last, unit->since));
	json_write_text(writer, ",\"numa\":[");
	for (size_t k = 0; k < unit->device->n_numa; k++) {
		json_write_text(writer, k > 0 ? "," : "");
		json_write_number(writer, (uint64_t)unit->device->numa[k]);
	}
	json_write_text(writer, "],\"allocations\":");
	json_write_number(writer, allocations_of(&plugin->tally, snapshot, i));
	json_write_text(writer, "}");
}

static bool has_changed(const struct snapshot *before, const struct snapshot *now, size_t i)
{
	const struct snapshot_unit *a = &before->units[i], *b = &now->units[i];

	return a->healthy != b->healthy || a->foreign != b->foreign || a->since != b->since ||
		(b->reason && (!a->reason || !streq(a->reason, b->reason)));
}

/* What keeps devices from being found. */
static void write_notes(struct json_writer *writer, const struct inventory *inventory)
{
	const struct strings *notes = inventory_notes(inventory);
	const char *failure = inventory_failure(inventory);

	if (failure)
		json_write_string(writer, failure);
	for (size_t i = 0; i < notes->count; i++) {
		json_write_text(writer, failure || i > 0 ? "," : "");
		json_write_string(writer, notes->items[i]);
	}
}

/* `before`: what has been written; NULL: nothing. */
static int write_inventory(int fd, const struct plugin *plugin, const struct snapshot *before,
	const struct snapshot *snapshot)
{
	struct json_writer writer;
	struct last_time last = LAST_TIME_INIT;
	bool first = true;

	json_writer_init(&writer, fd);
	json_write_text(&writer, "{\"allocations\":");
	json_write_number(&writer, plugin->tally.allocations);
	json_write_text(&writer, ",\"last_allocation\":");
	json_write_string(&writer, time_text(&last, plugin->tally.last));
	json_write_text(&writer, ",\"devices\":[");
	for (size_t i = 0; i < snapshot->n_units; i++) {
		if (before && !has_changed(before, snapshot, i))
			continue;
		write_device(&writer, plugin, snapshot, i, first, &last);
		first = false;
	}
	json_write_text(&writer, "],\"scan_notes\":[");
	write_notes(&writer, plugin->inventory);
	json_write_text(&writer, "]}\n");
	return json_writer_finish(&writer);
}

/* Every write goes to the end, whoever reads. */
static int growing_memfd(const char *name)
{
	_cleanup_close_ int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0 || fcntl(fd, F_SETFL, O_APPEND) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* Whether there are probes, devices that leave the host's view, or names to be kept. */
static bool is_worth_remembering(const struct plugin *plugin, const struct snapshot *snapshot)
{
	const struct declaration *declaration = plugin->edition->declaration;

	if (declaration->health.count > 0 ||
		(declaration->driver->names_by_list && snapshot->n_units > 0))
		return true;
	for (size_t i = 0; i < snapshot->n_units; i++)
		if (snapshot->units[i].device->lent)
			return true;
	return false;
}

/* What probes have found and which devices are in containers, for the next process: all, or what
 * is new. */
static int write_memory(int fd, struct plugin *plugin, bool all)
{
	_cleanup_memory_ struct memory *memory = NULL;
	int r;

	r = all ? inventory_remember(plugin->inventory, &memory)
		: inventory_remember_changes(plugin->inventory, &memory);
	if (r < 0 || (!all && memory->n_units == 0))
		return r;
	memory->sought = plugin_sought(plugin->edition->declaration);
	r = memory_write(memory, fd);
	if (r >= 0 && all)
		inventory_note_remembered(plugin->inventory);
	return r;
}

void reported_done(struct reported *reported)
{
	reported->snapshot = snapshot_unref(reported->snapshot);
	reported->devices_fd = close_fd(reported->devices_fd);
	reported->memory_fd = close_fd(reported->memory_fd);
}

/* Puts what the supervisor is to know into the files; what cannot be added is written anew. */
static int write_report(struct plugin *plugin, struct snapshot *snapshot, bool grow)
{
	struct reported *reported = &plugin->reported;
	struct stat st;
	int r;

	if (!grow) {
		reported_done(reported);
		reported->devices_fd = growing_memfd("devices");
		if (plugin->remembers)
			reported->memory_fd = growing_memfd("health");
		if (reported->devices_fd < 0 || (plugin->remembers && reported->memory_fd < 0))
			return -EMFILE;
	}
	r = write_inventory(reported->devices_fd, plugin, reported->snapshot, snapshot);
	if (r >= 0 && plugin->remembers)
		r = write_memory(reported->memory_fd, plugin, !grow);
	if (r >= 0 && fstat(reported->devices_fd, &st) < 0)
		r = -errno;
	if (r < 0)
		return r;
	reported->size = st.st_size;
	if (!grow)
		reported->whole = st.st_size;
	(void)snapshot_unref(reported->snapshot);
	reported->snapshot = snapshot_ref(snapshot);
	reported->allocations = plugin->tally.allocations;
	return 0;
}

/* Whether nothing but health can have changed (no container was given a device, either), and the
 * files are not full of changes. */
static bool may_grow(const struct plugin *plugin, const struct snapshot *snapshot)
{
	const struct reported *reported = &plugin->reported;

	return snapshot_shares_devices(reported->snapshot, snapshot) &&
		reported->allocations == plugin->tally.allocations &&
		plugin->remembers == (reported->memory_fd >= 0) &&
		reported->size < 2 * reported->whole;
}

static int tell_devices(struct plugin *plugin)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(plugin->inventory);
	struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_DEVICES);
	bool grow;
	int r;

	plugin->remembers = plugin->remembers || is_worth_remembering(plugin, snapshot);
	grow = may_grow(plugin, snapshot);
	if (grow)
		message.type = CONTROL_CHANGES;

	for (size_t i = 0; i < snapshot->n_units; i++) {
		message.devices += !snapshot->units[i].foreign;
		message.healthy += snapshot->units[i].healthy;
	}
	r = write_report(plugin, snapshot, grow);
	if (r == -ESTALE) {
		message.type = CONTROL_DEVICES;
		r = write_report(plugin, snapshot, false);
	}
	if (r < 0) {
		reported_done(&plugin->reported);
		return r;
	}
	message.fds[0] = plugin->reported.devices_fd;
	message.fds[1] = plugin->reported.memory_fd;
	plugin_tell(plugin, &message);
	return 0;
}

static void send_report(struct plugin *plugin)
{
	uint64_t begin = now_usec(CLOCK_MONOTONIC), end;
	int r;

	r = tell_devices(plugin);
	/* From its end: reports take a fifth of this thread's time at most, however slow the
	 * host is and however many letters ask for one. */
	end = now_usec(CLOCK_MONOTONIC);
	plugin->report_due = end + REPORT_INTERVAL + REPORT_COST_FACTOR * (end - begin);
	if (r < 0) {
		log_warning("devices cannot be reported to the supervisor now: %s", strerror(-r));
		plugin->report_due += REPORT_RETRY;
		plugin_report(plugin);
	}
}

static int on_report_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct plugin *plugin = userdata;

	plugin->report_source = sd_event_source_disable_unref(plugin->report_source);
	send_report(plugin);
	return 0;
}

void plugin_report_overdue(struct plugin *plugin)
{
	if (plugin->report_source)
		(void)sd_event_source_set_priority(plugin->report_source, SD_EVENT_PRIORITY_NORMAL);
}

void plugin_report(struct plugin *plugin)
{
	uint64_t soon = now_usec(CLOCK_MONOTONIC) + REPORT_DELAY;
	int r;

	if (plugin->report_source)
		return;
	/* The first at once: the supervisor waits for it. */
	if (plugin->report_due == 0) {
		send_report(plugin);
		return;
	}
	r = sd_event_add_time(plugin->event, &plugin->report_source, CLOCK_MONOTONIC,
		MAX_OF(plugin->report_due, soon), 0, on_report_due, plugin);
	if (r < 0) {
		log_warning("devices cannot be reported to the supervisor now: out of memory");
		return;
	}
	/* When it is due it does not stand in the way of the next change. */
	(void)sd_event_source_set_priority(plugin->report_source, SD_EVENT_PRIORITY_IDLE);
}
