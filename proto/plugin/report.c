/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling the supervisor what there is: counts in the message, the whole inventory as JSON in a
 * memfd that the supervisor stores without looking into it. The dearer a report is, the rarer it
 * comes.
 */
#include <jansson.h>
#include <sys/mman.h>

#include "common/log.h"
#include "drivers/json-write.h"
#include "proto/plugin/plugin.h"

#define REPORT_INTERVAL    (100 * USEC_PER_MSEC)
#define REPORT_COST_FACTOR 4
#define REPORT_RETRY       USEC_PER_SEC

static json_t *time_text(uint64_t usec)
{
	time_t seconds = (time_t)(usec / USEC_PER_SEC);
	struct tm tm;
	char text[40];

	if (usec == 0 || !gmtime_r(&seconds, &tm))
		return json_null();
	(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return json_string(text);
}

/* Counts of all replicas of the unit. */
static uint64_t allocations_of(
	const struct tally *tally, const struct snapshot *snapshot, size_t unit)
{
	char id[OFFERED_ID_MAX + 1];
	uint64_t sum = 0;

	for (unsigned replica = 0; tally->n_entries > 0 && replica < snapshot->replicas;
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

static json_t *device_json(const struct plugin *plugin, const struct snapshot *snapshot, size_t i)
{
	const struct snapshot_unit *unit = &snapshot->units[i];
	json_t *numa = json_array();

	for (size_t k = 0; k < unit->device->n_numa; k++)
		(void)json_array_append_new(numa, json_integer(unit->device->numa[k]));
	return json_pack("{s:s, s:s, s:s?, s:o, s:o, s:I}", "id", unit->device->id, "health",
		health_text(unit), "reason", unit->reason, "since", time_text(unit->since), "numa",
		numa, "allocations", (json_int_t)allocations_of(&plugin->tally, snapshot, i));
}

static json_t *inventory_json(const struct plugin *plugin, const struct snapshot *snapshot)
{
	json_t *devices = json_array();

	for (size_t i = 0; i < snapshot->n_units; i++)
		(void)json_array_append_new(devices, device_json(plugin, snapshot, i));
	return json_pack("{s:I, s:I, s:o, s:o}", "replicas", (json_int_t)snapshot->replicas,
		"allocations", (json_int_t)plugin->tally.allocations, "last_allocation",
		time_text(plugin->tally.last), "devices", devices);
}

static int inventory_memfd(const struct plugin *plugin, const struct snapshot *snapshot)
{
	_cleanup_close_ int fd = -EBADF;
	json_t *json = inventory_json(plugin, snapshot);
	int r;

	if (!json)
		return -ENOMEM;
	fd = memfd_create("devices", MFD_CLOEXEC);
	r = fd < 0 ? -errno : json_write(fd, json);
	json_decref(json);
	return r < 0 ? r : TAKE_FD(fd);
}

/* What probes have found, for the next process. */
static int memory_memfd(const struct plugin *plugin)
{
	_cleanup_memory_ struct memory *memory = NULL;
	_cleanup_close_ int fd = -EBADF;
	int r;

	r = inventory_remember(plugin->inventory, &memory);
	if (r < 0)
		return r;
	fd = memfd_create("health", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = memory_write(memory, fd);
	return r < 0 ? r : TAKE_FD(fd);
}

static int tell_devices(struct plugin *plugin)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	_cleanup_control_ struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_DEVICES);
	int r;

	snapshot = inventory_snapshot(plugin->inventory);
	for (size_t i = 0; i < snapshot->n_units; i++) {
		message.devices += !snapshot->units[i].foreign;
		message.healthy += snapshot->units[i].healthy;
	}
	r = inventory_memfd(plugin, snapshot);
	if (r < 0)
		return r;
	message.fds[0] = r;
	if (plugin->edition->declaration->health.count > 0)
		message.fds[1] = memory_memfd(plugin);
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

void plugin_report(struct plugin *plugin)
{
	if (plugin->report_source)
		return;
	if (now_usec(CLOCK_MONOTONIC) >= plugin->report_due)
		send_report(plugin);
	else if (sd_event_add_time(plugin->event, &plugin->report_source, CLOCK_MONOTONIC,
			 plugin->report_due, 0, on_report_due, plugin) < 0)
		log_warning("devices cannot be reported to the supervisor now: out of memory");
}
