/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which failures of devices the supervisor gets, which decides about eviction: those with
 * the severity "evict", of devices that are this resource's. A device that a pod or a claim has,
 * and that no scan finds, is missing, unless the configuration excludes it. One that is free is no
 * failure: no pod loses it, and administrators unplug devices.
 */
#include "common/json-write.h"
#include "common/sealed.h"
#include "proto/plugin/plugin.h"

struct failure_writer {
	struct json_writer json;
	size_t n_written, n_failing;
};

static void write_failure(
	struct failure_writer *writer, const struct device *device, const struct finding *finding)
{
	if (writer->n_written == FAILURES_MAX)
		return;
	json_write_text(&writer->json, writer->n_written++ > 0 ? ",{\"id\":" : "{\"id\":");
	json_write_string(&writer->json, device->id);
	if (finding->reason) {
		json_write_text(&writer->json, ",\"reason\":");
		json_write_string(&writer->json, finding->reason);
	}
	if (!streq(finding->reason ?: "", REASON_MISSING)) {
		json_write_text(&writer->json, ",\"probe\":");
		json_write_number(&writer->json, finding->probe);
	}
	json_write_text(&writer->json, ",\"text\":");
	json_write_string(&writer->json, finding->text);
	json_write_text(&writer->json, finding->could_not_run ? ",\"could_not_run\":true}" : "}");
}

static bool is_missing(const struct snapshot_unit *unit)
{
	return !unit->present && unit->has_pod && !unit->excluded &&
		(unit->cause == CAUSE_GONE || unit->cause == CAUSE_BOOKED);
}

/* Returns how many failures the unit has. */
static size_t write_unit(struct failure_writer *writer, const struct declaration *declaration,
	const struct snapshot_unit *unit)
{
	const struct finding missing = { .reason = REASON_MISSING, .text = unit->reason ?: "" };
	const struct finding *finding;
	size_t n = 0;

	if ((declaration->missing.severity == SEVERITY_EVICT && is_missing(unit)) ||
		unit->cause == CAUSE_RETURNED) {
		write_failure(writer, unit->device, &missing);
		n++;
	}
	for (size_t i = 0; (finding = finding_set_get(unit->findings, i)); i++) {
		if (finding->severity != SEVERITY_EVICT)
			continue;
		write_failure(writer, unit->device, finding);
		n++;
	}
	return n;
}

static int write_document(int fd, const struct plugin *plugin, const struct snapshot *snapshot)
{
	struct failure_writer writer = { 0 };
	size_t n_devices = 0;

	json_writer_init(&writer.json, fd);
	json_write_text(&writer.json, "{\"failures\":[");
	for (size_t i = 0; i < snapshot->n_units; i++) {
		const struct snapshot_unit *unit = &snapshot->units[i];

		if (unit->claimed_by_other)
			continue;
		n_devices++;
		writer.n_failing +=
			write_unit(&writer, plugin->applied_config->declaration, unit) > 0;
	}
	json_write_text(&writer.json, "],\"devices\":");
	json_write_number(&writer.json, n_devices);
	json_write_text(&writer.json, ",\"failing\":");
	json_write_number(&writer.json, writer.n_failing);
	json_write_text(&writer.json, "}\n");
	return json_writer_finish(&writer.json);
}

int plugin_report_failures(const struct plugin *plugin, const struct snapshot *snapshot)
{
	_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(CHILD_FAILURES);
	int r;

	if (!declaration_evicts(plugin->applied_config->declaration))
		return 0;
	message.fds[0] = sealed_begin("failures");
	if (message.fds[0] < 0)
		return -EMFILE;
	r = write_document(message.fds[0], plugin, snapshot);
	if (r >= 0)
		r = sealed_end(message.fds[0]);
	return r < 0 ? r : control_send(CONTROL_FD, &message);
}
