/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when and how a child reports its devices to the supervisor: counts in the message, the
 * inventory as JSON in a memfd that the supervisor stores without reading it. Where only health has
 * changed, a document with the changes is appended to that file, until half of it consists of
 * changes. The more a report costs, the rarer it is sent.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/json-write.h"
#include "common/log.h"
#include "common/text.h"
#include "proto/plugin/match-fingerprint.h"
#include "proto/plugin/plugin.h"

#define REPORT_INTERVAL (100 * USEC_PER_MSEC)
/* The kubelet hears of a change first: the list is on its way to it by then. */
#define REPORT_DELAY (50 * USEC_PER_MSEC)
#define REPORT_RETRY USEC_PER_SEC
/* A path in /sys; what is published is shorter. */
#define ATTRIBUTE_VALUE_MAX 1024

/* Most devices have been as they are since the same second. */
struct last_time {
	uint64_t seconds;
	char text[TEXT_TIME_MAX];
};

static const char *time_text(struct last_time *last, uint64_t usec)
{
	if (usec == 0)
		return NULL;
	if (usec / USEC_PER_SEC != last->seconds) {
		last->seconds = usec / USEC_PER_SEC;
		text_time(usec, last->text);
	}
	return last->text;
}

/* Counts of all replicas of the unit. */
static uint64_t allocations_of(const struct allocation_count *allocation_count,
	const struct snapshot *snapshot, size_t unit)
{
	char buffer[OFFERED_ID_MAX + 1];
	uint64_t sum = 0;

	for (unsigned replica = 0;
		allocation_count->n_entries > 0 && replica < snapshot->units[unit].replicas;
		replica++) {
		sum += allocation_count_of(
			allocation_count, snapshot_offered_id(snapshot, unit, replica, buffer));
	}
	return sum;
}

/* The health in the kubelet's list; devices of another resource are not in that list. */
static const char *health_text(const struct snapshot_unit *unit)
{
	return unit->claimed_by_other ? "Claimed" : unit->healthy ? "Healthy" : "Unhealthy";
}

/* Members by which other programs know the device. */
static void write_identity(struct json_writer *writer, const struct device *device)
{
	static const struct {
		const char *variable, *key;
	} names[] = {
		{ "bdf", ",\"pci_address\":" },
		{ "serial", ",\"serial\":" },
		{ "model", ",\"model\":" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = device_variable(device, names[i].variable);

		if (!value || !*value)
			continue;
		json_write_text(writer, names[i].key);
		json_write_string(writer, value);
	}
}

/* What DRA publishes of the device (dra/model/dra-slices.c chooses), and how its ids are made. */
static void write_attributes(struct json_writer *writer, const struct device *device, bool shared)
{
	const char *separator = "";

	json_write_text(writer, shared ? ",\"shared\":true" : ",\"shared\":false");
	json_write_text(writer, ",\"attributes\":{");
	for (size_t i = 0; i < device->n_variables; i++) {
		const struct device_variable *variable = &device->variables[i];

		if (strlen(variable->value) > ATTRIBUTE_VALUE_MAX)
			continue;
		json_write_text(writer, separator);
		json_write_string(writer, variable->name);
		json_write_text(writer, ":");
		json_write_string(writer, variable->value);
		separator = ",";
	}
	json_write_text(writer, "}");
}

static void write_numa(struct json_writer *writer, const struct device *device)
{
	for (size_t k = 0; k < device->n_numa; k++) {
		json_write_text(writer, k > 0 ? "," : ",\"numa\":[");
		json_write_number(writer, (uint64_t)device->numa[k]);
	}
	json_write_text(writer, device->n_numa > 0 ? "]" : "");
}

/* Unless it has the value that a reader assumes. */
static void write_count(
	struct json_writer *writer, const char *key, uint64_t number, uint64_t assumed)
{
	if (number == assumed)
		return;
	json_write_text(writer, key);
	json_write_number(writer, number);
}

static void write_device(struct json_writer *writer, const struct plugin *plugin,
	const struct snapshot *snapshot, size_t i, bool first, struct last_time *last)
{
	const struct snapshot_unit *unit = &snapshot->units[i];

	json_write_text(writer, first ? "{\"id\":" : ",{\"id\":");
	json_write_string(writer, unit->device->id);
	json_write_text(writer, ",\"health\":");
	json_write_string(writer, health_text(unit));
	if (unit->reason) {
		json_write_text(writer, ",\"reason\":");
		json_write_string(writer, unit->reason);
	}
	json_write_text(writer, ",\"since\":");
	json_write_string(writer, time_text(last, unit->since));
	write_numa(writer, unit->device);
	if (unit->cause != CAUSE_NONE) {
		json_write_text(writer, ",\"cause\":");
		json_write_string(writer, unit_cause_name(unit->cause));
	}
	write_count(writer, ",\"changes\":", unit->changes, 0);
	write_count(writer, ",\"replicas\":", unit->replicas, 1);
	write_identity(writer, unit->device);
	if (plugin->applied_config->declaration->serve == SERVE_DRA)
		write_attributes(writer, unit->device, snapshot->shared);
	write_count(writer,
		",\"allocations\":", allocations_of(&plugin->allocation_count, snapshot, i), 0);
	json_write_text(writer, "}");
}

static bool has_changed(const struct snapshot *before, const struct snapshot *now, size_t i)
{
	const struct snapshot_unit *a = &before->units[i], *b = &now->units[i];

	return a->healthy != b->healthy || a->changes != b->changes ||
		a->claimed_by_other != b->claimed_by_other || a->since != b->since ||
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

/* {"GPU":{"temperature":41,"xids":{"79":1,"13":2}}}. */
static void write_measurements(struct json_writer *writer, const struct measurements *measurements)
{
	const struct measurement *last = NULL;

	for (size_t i = 0; i < measurements->count; i++) {
		const struct measurement *now = &measurements->items[i];
		bool same_device = last && streq(last->device, now->device);
		bool same_name = same_device && streq(last->name, now->name);
		char code[16];

		if (!same_name) {
			json_write_text(writer, last && last->code > 0 ? "}" : "");
			json_write_text(writer, !last ? "" : same_device ? "," : "},");
			if (!same_device) {
				json_write_string(writer, now->device);
				json_write_text(writer, ":{");
			}
			json_write_string(writer, now->name);
			json_write_text(writer, now->code > 0 ? ":{" : ":");
		}
		if (now->code > 0) {
			(void)snprintf(
				code, sizeof(code), "%s\"%u\":", same_name ? "," : "", now->code);
			json_write_text(writer, code);
		}
		json_write_number(writer, now->value);
		last = now;
	}
	json_write_text(writer, last && last->code > 0 ? "}" : "");
	json_write_text(writer, last ? "}" : "");
}

/* `before`: what has been written; NULL: nothing. */
static int write_inventory(int fd, const struct plugin *plugin, const struct snapshot *before,
	const struct snapshot *snapshot)
{
	struct json_writer writer;
	struct last_time last = { 0 };
	bool first = true;

	json_writer_init(&writer, fd);
	json_write_text(&writer, "{\"allocations\":");
	json_write_number(&writer, plugin->allocation_count.allocations);
	json_write_text(&writer, ",\"last_allocation\":");
	json_write_string(&writer, time_text(&last, plugin->allocation_count.last));
	json_write_text(&writer, ",\"devices\":[");
	for (size_t i = 0; i < snapshot->n_units; i++) {
		if (before && !has_changed(before, snapshot, i))
			continue;
		write_device(&writer, plugin, snapshot, i, first, &last);
		first = false;
	}
	json_write_text(&writer, "],\"scan_notes\":[");
	write_notes(&writer, plugin->inventory);
	json_write_text(&writer, "],\"measurements\":{");
	write_measurements(&writer, inventory_measurements(plugin->inventory));
	json_write_text(&writer, "}}\n");
	return json_writer_finish(&writer);
}

/* Every write appends, independent of readers. */
static int growing_memfd(const char *name)
{
	_cleanup_close_ int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0 || fcntl(fd, F_SETFL, O_APPEND) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* The health of the devices and which of them are in containers, for the next process: all, or what
 * is new. */
static int write_memory(int fd, struct plugin *plugin, bool all)
{
	_cleanup_saved_state_ struct saved_state *saved = NULL;
	int r;

	r = all ? inventory_save(plugin->inventory, &saved)
		: inventory_save_changes(plugin->inventory, &saved);
	if (r < 0 || (!all && saved->n_units == 0))
		return r;
	saved->match_fingerprint = match_fingerprint(plugin->applied_config->declaration);
	r = saved_state_write(saved, fd);
	if (r >= 0 && all)
		inventory_note_saved(plugin->inventory);
	return r;
}

void reported_done(struct reported *reported)
{
	reported->snapshot = snapshot_unref(reported->snapshot);
	reported->devices_fd = close_fd(reported->devices_fd);
	reported->saved_state_fd = close_fd(reported->saved_state_fd);
}

/* Writes the report into the files; what cannot be appended is written from the start. */
static int write_report(struct plugin *plugin, struct snapshot *snapshot, bool grow)
{
	struct reported *reported = &plugin->reported;
	struct stat st;
	int r;

	if (!grow) {
		reported_done(reported);
		reported->devices_fd = growing_memfd("devices");
		reported->saved_state_fd = growing_memfd("health");
		if (reported->devices_fd < 0 || reported->saved_state_fd < 0)
			return -EMFILE;
	}
	r = write_inventory(reported->devices_fd, plugin, reported->snapshot, snapshot);
	if (r >= 0)
		r = write_memory(reported->saved_state_fd, plugin, !grow);
	if (r >= 0 && fstat(reported->devices_fd, &st) < 0)
		r = -errno;
	if (r < 0)
		return r;
	reported->size = st.st_size;
	if (!grow)
		reported->whole = st.st_size;
	(void)snapshot_unref(reported->snapshot);
	reported->snapshot = snapshot_ref(snapshot);
	reported->allocations = plugin->allocation_count.allocations;
	return 0;
}

/* Whether nothing but health can have changed (no allocation, either), and the files are not full
 * of changes. */
static bool may_grow(const struct plugin *plugin, const struct snapshot *snapshot)
{
	const struct reported *reported = &plugin->reported;

	return snapshot_shares_devices(reported->snapshot, snapshot) && snapshot->n_held == 0 &&
		reported->allocations == plugin->allocation_count.allocations &&
		reported->size < 2 * reported->whole;
}

static int report_devices(struct plugin *plugin)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(plugin->inventory);
	struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_DEVICES);
	bool grow;
	int r;

	grow = may_grow(plugin, snapshot);
	if (grow)
		message.type = CONTROL_CHANGES;

	for (size_t i = 0; i < snapshot->n_units; i++) {
		const struct snapshot_unit *unit = &snapshot->units[i];

		message.healthy += unit->healthy;
		if (unit->claimed_by_other)
			continue;
		message.devices++;
		message.ids += unit->replicas;
		message.healthy_ids += unit->healthy ? unit->replicas : 0;
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
	message.fds[1] = plugin->reported.saved_state_fd;
	r = control_send(CONTROL_FD, &message);
	/* The next report must be complete: this one was not received. */
	if (r < 0)
		reported_done(&plugin->reported);
	return r;
}

static void send_report(struct plugin *plugin)
{
	int r;

	pace_begin(&plugin->reporting);
	r = report_devices(plugin);
	/* From its end: reports take a fifth of a processor at most, however many letters ask for
	 * one. */
	(void)pace_end(&plugin->reporting, REPORT_INTERVAL);
	if (r < 0) {
		/* A supervisor that is paused does not read, and gets all of it later. */
		if (r != -EAGAIN)
			log_warning("cannot report devices to the supervisor: %s", strerror(-r));
		plugin->reporting.not_before += REPORT_RETRY;
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
	if (plugin->reporting.not_before == 0) {
		send_report(plugin);
		return;
	}
	r = sd_event_add_time(plugin->event, &plugin->report_source, CLOCK_MONOTONIC,
		MAX_OF(plugin->reporting.not_before, soon), 0, on_report_due, plugin);
	if (r < 0) {
		log_warning("cannot report devices to the supervisor: out of memory");
		return;
	}
	/* When it is due it does not stand in the way of the next change. */
	(void)sd_event_source_set_priority(plugin->report_source, SD_EVENT_PRIORITY_IDLE);
}
