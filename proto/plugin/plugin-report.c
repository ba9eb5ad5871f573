/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when and how a child reports its devices to the supervisor: counts in the message, the
 * inventory and the saved health state as JSON in sealed memfds that the supervisor passes on
 * without reading them. Each is always complete. The more processor time a report costs, the less
 * often it is sent.
 */
#include "common/json-write.h"
#include "common/log.h"
#include "common/sealed.h"
#include "common/text.h"
#include "drivers/inventory/published-capacity.h"
#include "proto/plugin/device-attributes.h"
#include "proto/plugin/match-fingerprint.h"
#include "proto/plugin/plugin.h"

#define REPORT_INTERVAL (100 * USEC_PER_MSEC)
/* The kubelet hears of a change first: the list is on its way to it by then. */
#define REPORT_DELAY (50 * USEC_PER_MSEC)
#define REPORT_RETRY USEC_PER_SEC

/* Most devices have been as they are since the same second. */
struct since {
	uint64_t seconds;
	char member[sizeof(",\"since\":\"\"") + TEXT_TIME_MAX];
};

static void write_since(struct json_writer *writer, uint64_t usec, struct since *last)
{
	char text[TEXT_TIME_MAX];

	if (usec / USEC_PER_SEC != last->seconds) {
		last->seconds = usec / USEC_PER_SEC;
		text_time(usec, text);
		(void)snprintf(last->member, sizeof(last->member), ",\"since\":\"%s\"", text);
	}
	json_write_text(writer, last->member);
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

/* The replicas that are not offered, if the others are. */
static void write_withheld(struct json_writer *writer, const struct snapshot *snapshot, size_t i)
{
	const struct snapshot_unit *unit = &snapshot->units[i];
	char buffer[OFFERED_ID_MAX + 1];
	bool any = false;

	if (unit->claimed_by_other || unit->withheld == 0)
		return;
	for (unsigned replica = 0; replica < unit->replicas; replica++) {
		if (!snapshot_withholds(
			    snapshot, i, snapshot_offered_id(snapshot, i, replica, buffer)))
			continue;
		json_write_text(writer, any ? "," : ",\"withheld\":[");
		json_write_number(writer, replica);
		any = true;
	}
	json_write_text(writer, any ? "]" : "");
}

/* The health in the kubelet's list; devices that are not offered are not in that list. */
static const char *health_member(const struct snapshot_unit *unit)
{
	return unit->claimed_by_other ? ",\"health\":\"Claimed\""
		: unit->healthy       ? ",\"health\":\"Healthy\""
				      : ",\"health\":\"Unhealthy\"";
}

/* What probes find wrong; most devices have nothing. */
static void write_findings(struct json_writer *writer, const struct snapshot_unit *unit)
{
	const struct finding *finding;

	for (size_t i = 0; (finding = finding_set_get(unit->findings, i)); i++) {
		json_write_text(writer, i > 0 ? ",{" : ",\"findings\":[{");
		if (finding->reason) {
			json_write_text(writer, "\"reason\":");
			json_write_string(writer, finding->reason);
			json_write_text(writer, ",");
		}
		json_write_text(writer, "\"severity\":");
		json_write_string(writer, probe_severities[finding->severity]);
		json_write_text(writer, ",\"text\":");
		json_write_string(writer, finding->text);
		json_write_text(writer, finding->could_not_run ? ",\"could_not_run\":true}" : "}");
	}
	json_write_text(writer, unit->findings ? "]" : "");
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
		{ "interface", ",\"interface\":" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = device_variable(device, names[i].variable);

		if (!value || !*value)
			continue;
		json_write_text(writer, names[i].key);
		json_write_string(writer, value);
	}
}

struct capacity_writer {
	struct json_writer *writer;
	bool any;
};

static void write_amount(struct json_writer *writer, const char *key, int64_t amount)
{
	if (amount == CAPACITY_UNSET)
		return;
	json_write_text(writer, key);
	json_write_number(writer, (uint64_t)amount);
}

static void write_capacity(const char *name, const struct capacity *capacity, void *userdata)
{
	struct capacity_writer *capacities = userdata;
	struct json_writer *writer = capacities->writer;

	json_write_text(writer, capacities->any ? "," : "");
	json_write_string(writer, name);
	write_amount(writer, ":{\"value\":", capacity->value);
	write_amount(writer, ",\"default\":", capacity->fallback);
	write_amount(writer, ",\"min\":", capacity->min);
	write_amount(writer, ",\"step\":", capacity->step);
	write_amount(writer, ",\"max\":", capacity->max);
	for (size_t i = 0; i < capacity->n_values; i++)
		write_amount(writer, i > 0 ? "," : ",\"values\":[", capacity->values[i]);
	json_write_text(writer, capacity->n_values > 0 ? "]}" : "}");
	capacities->any = true;
}

/* What DRA publishes of the device, and how its ids are made. */
static void write_published(struct json_writer *writer, const struct declaration *declaration,
	const struct device *device, bool shared)
{
	struct capacity_writer capacities = { .writer = writer };
	const char *memory =
		device_variable(device, "memory") ?: device_variable(device, "property:memory");
	const char *mac = device_variable(device, "mac");

	json_write_text(writer, shared ? ",\"shared\":true" : ",\"shared\":false");
	json_write_text(writer, ",\"prefer\":");
	json_write_string(writer, preferences[declaration->prefer]);
	if (memory && *memory) {
		json_write_text(writer, ",\"memory\":");
		json_write_string(writer, memory);
	}
	if (mac && *mac) {
		json_write_text(writer, ",\"hardware_address\":");
		json_write_string(writer, mac);
	}
	json_write_text(writer, ",\"capacity\":{");
	published_capacity_each(declaration, device, write_capacity, &capacities);
	json_write_text(writer, "}");
	if (published_capacity_is_shared(declaration, device))
		json_write_text(writer, ",\"by_amount\":true");
	device_attributes_write(writer, declaration, device);
}

/* The hardware behind a device that others exclude, see dra/model/dra-counters.h. */
static void write_hardware(struct json_writer *writer, const struct device *device)
{
	bool any = false;

	for (size_t i = 0; i < device->n_nodes; i++) {
		if (device->nodes[i].shared)
			continue;
		json_write_text(writer, any ? "," : ",\"hardware\":[");
		json_write_string(writer, device->nodes[i].host);
		any = true;
	}
	for (size_t i = 0; i < device->claims.count; i++) {
		json_write_text(writer, any ? "," : ",\"hardware\":[");
		json_write_string(writer, device->claims.items[i]);
		any = true;
	}
	json_write_text(writer, any ? "]" : "");
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
	const struct snapshot *snapshot, size_t i, struct since *last)
{
	const struct declaration *declaration = plugin->applied_config->declaration;
	const struct snapshot_unit *unit = &snapshot->units[i];

	json_write_text(writer, i == 0 ? "{\"id\":" : ",{\"id\":");
	json_write_string(writer, unit->device->id);
	json_write_text(writer, health_member(unit));
	if (unit->reason) {
		json_write_text(writer, ",\"reason\":");
		json_write_string(writer, unit->reason);
	}
	write_since(writer, unit->since, last);
	device_numa_write(writer, unit->device);
	if (unit->cause != CAUSE_NONE) {
		json_write_text(writer, ",\"cause\":");
		json_write_string(writer, unit_cause_name(unit->cause));
	}
	write_findings(writer, unit);
	write_count(writer, ",\"changes\":", unit->changes, 0);
	write_count(writer, ",\"replicas\":", unit->replicas, 1);
	write_withheld(writer, snapshot, i);
	write_identity(writer, unit->device);
	if (declaration->serve == SERVE_DRA)
		write_published(writer, declaration, unit->device, snapshot->shared);
	if (declaration->serve == SERVE_DRA && declaration->overlap == OVERLAP_EXCLUSIVE)
		write_hardware(writer, unit->device);
	write_count(writer,
		",\"allocations\":", allocations_of(&plugin->allocation_count, snapshot, i), 0);
	json_write_text(writer, "}");
}

/* What keeps devices from being found. */
static void write_notes(struct json_writer *writer, const struct plugin *plugin)
{
	const struct strings *notes = inventory_notes(plugin->inventory);
	const struct strings *labels = &plugin->labelling.notes;
	const char *failure = inventory_failure(plugin->inventory);

	if (failure)
		json_write_string(writer, failure);
	for (size_t i = 0; i < notes->count; i++) {
		json_write_text(writer, failure || i > 0 ? "," : "");
		json_write_string(writer, notes->items[i]);
	}
	for (size_t i = 0; i < labels->count; i++) {
		json_write_text(writer, failure || notes->count > 0 || i > 0 ? "," : "");
		json_write_string(writer, labels->items[i]);
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

static void count(const struct snapshot_unit *unit, struct control_message *message)
{
	message->healthy += unit->healthy;
	if (unit->claimed_by_other)
		return;
	message->devices++;
	message->ids += unit->replicas - MIN_OF(unit->withheld, unit->replicas);
	message->healthy_ids +=
		unit->healthy ? unit->replicas - MIN_OF(unit->withheld, unit->replicas) : 0;
}

/* The ids that are listed as healthy although their devices are not. */
static uint64_t count_readmitted(const struct plugin *plugin)
{
	_cleanup_offer_ struct offer *offer =
		plugin->service ? service_current(plugin->service) : NULL;
	uint64_t n = 0;

	for (size_t i = 0; offer && offer->readmitted && i < offer->readmitted->count; i++)
		n += offer_is_readmitted(offer, offer->readmitted->items[i].id);
	return n;
}

/* Writes all devices, and counts them for the message. */
static int write_inventory(int fd, const struct plugin *plugin, const struct snapshot *snapshot,
	struct control_message *message)
{
	uint64_t last_allocation = plugin->allocation_count.last;
	struct since last = { 0 };
	char text[TEXT_TIME_MAX];
	struct json_writer writer;

	json_writer_init(&writer, fd);
	json_write_text(&writer, "{\"allocations\":");
	json_write_number(&writer, plugin->allocation_count.allocations);
	json_write_text(&writer, ",\"last_allocation\":");
	if (last_allocation > 0)
		text_time(last_allocation, text);
	json_write_string(&writer, last_allocation > 0 ? text : NULL);
	json_write_text(&writer, ",\"devices\":[");
	for (size_t i = 0; i < snapshot->n_units; i++) {
		snapshot_prefetch(snapshot, i);
		count(&snapshot->units[i], message);
		write_device(&writer, plugin, snapshot, i, &last);
	}
	json_write_text(&writer, "]");
	expecting_write(&plugin->expecting, &writer, plugin->applied_config->declaration);
	json_write_text(&writer, ",\"scan_notes\":[");
	write_notes(&writer, plugin);
	json_write_text(&writer, "],\"measurements\":{");
	write_measurements(&writer, inventory_measurements(plugin->inventory));
	json_write_text(&writer, "}}\n");
	return json_writer_finish(&writer);
}

/* Which devices count is known when all were found and offered, and have owners. */
static void compare(struct plugin *plugin, const struct snapshot *snapshot)
{
	const struct declaration *declaration = plugin->applied_config->declaration;

	if (!plugin->offered || plugin->ready_owed || claiming_waits(&plugin->claiming) ||
		!inventory_is_complete(plugin->inventory))
		return;
	expecting_update(&plugin->expecting, plugin->event, declaration,
		match_fingerprint_whole(declaration), snapshot);
	plugin->labels_busy =
		labelling_update(&plugin->labelling, plugin->event, declaration, snapshot);
}

static int report_devices(struct plugin *plugin)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(plugin->inventory);
	_cleanup_close_ int devices_fd = sealed_begin("devices"), state_fd = sealed_begin("health");
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_DEVICES);
	int r;

	if (devices_fd < 0 || state_fd < 0)
		return -EMFILE;
	compare(plugin, snapshot);
	/* The comparison may be the first one. */
	plugin->report_version += plugin->applied_config->declaration->expect > 0;
	r = write_inventory(devices_fd, plugin, snapshot, &message);
	if (r >= 0)
		r = sealed_end(devices_fd);
	if (r >= 0)
		r = inventory_write(plugin->inventory,
			match_fingerprint(plugin->applied_config->declaration), state_fd);
	if (r >= 0)
		r = sealed_end(state_fd);
	if (r < 0)
		return r;
	message.healthy_ids += count_readmitted(plugin);
	message.number = plugin->report_version;
	message.fds[0] = devices_fd;
	message.fds[1] = state_fd;
	r = control_send(CONTROL_FD, &message);
	if (r >= 0)
		r = device_attributes_report(plugin->applied_config->declaration, snapshot,
			plugin->booked, &plugin->attributes_sent);
	return r < 0 ? r : plugin_report_failures(plugin, snapshot);
}

static void send_report(struct plugin *plugin)
{
	int r;

	pace_begin(&plugin->reporting);
	r = report_devices(plugin);
	/* The pause begins at the end of the report, so that reports take a fifth of a processor at
	 * most, however often one is wanted. */
	(void)pace_end(&plugin->reporting, REPORT_INTERVAL);
	if (r < 0) {
		/* A supervisor that is paused does not read, and gets all of it later. */
		if (r != -EAGAIN)
			log_warning("cannot report devices to the supervisor: %s", strerror(-r));
		plugin->reporting.not_before += REPORT_RETRY;
		plugin_report(plugin);
	} else if (plugin->labels_busy) {
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
	plugin->report_version++;
	plugin_report_counts(plugin);
}

void plugin_report_counts(struct plugin *plugin)
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
