/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every family is written by a function of its own or is a row of a table; a family begins once,
 * and goes through all resources.
 */
#include "exporter/families.h"

#include "common/counters.h"
#include "common/finding.h"
#include "common/json-read.h"
#include "common/text.h"
#include "exporter/families-eviction.h"
#include "exporter/own-process.h"
#include "exporter/placement.h"
#include "exporter/readiness.h"

#define LABELS(...)                            \
	(const struct label[]){ __VA_ARGS__ }, \
		sizeof((const struct label[]){ __VA_ARGS__ }) / sizeof(struct label)

/* Iterates over all resources of a scrape. */
/* An empty list is NULL, and adding even 0 to NULL is undefined. */
#define FOR_EACH_RESOURCE(resource, scrape)                         \
	for (const struct resource *resource = (scrape)->resources; \
		resource && resource < (scrape)->resources + (scrape)->n_resources; resource++)
#define FOR_EACH_UNIT(unit, resource)                     \
	for (const struct unit *unit = (resource)->units; \
		unit && unit < (resource)->units + (resource)->n_units; unit++)

enum scale { SCALE_ONE, SCALE_SECONDS /* of microseconds */ };

/* A row for one number of the daemon or of a resource. */
struct number {
	const char *name, *type, *help;
	const char *key;
	enum scale scale;
	bool if_known; /* left out while it is 0 */
};

static void add_scaled(struct exposition *out, const struct number *number, const json_t *from,
	const struct label *labels, size_t n_labels)
{
	uint64_t value = scrape_number(from, number->key);

	if (number->if_known && value == 0)
		return;
	if (number->scale == SCALE_SECONDS)
		exposition_add_seconds(out, "", labels, n_labels, value);
	else
		exposition_add(out, "", labels, n_labels, value);
}

/* --- the daemon --- */

static const struct number daemon_numbers[] = {
	{ "devplugd_kubelet_up", "gauge", "Whether the socket of the kubelet exists.",
		.key = "kubelet_up" },
	{ "devplugd_config_generation", "gauge",
		"Number of configurations accepted since devplugd started.", .key = "generation" },
	{ "devplugd_config_pending_changes", "gauge",
		"Number of resources that have not applied the current configuration: they start, stop, or have refused it.",
		.key = "pending_changes" },
	{ "devplugd_config_last_reload_successful", "gauge",
		"Whether the configuration files are applied; 0 after a failed reload.",
		.key = "reload_successful" },
	{ "devplugd_config_last_reload_success_timestamp_seconds", "gauge",
		"Time when the applied configuration was accepted.", .key = "accepted_at",
		.scale = SCALE_SECONDS },
	{ "devplugd_pod_resources_request_errors_total", "counter",
		"Scrapes without an answer of the kubelet about its pods.", .key = "pod_errors" },
	{ "devplugd_published_files_errors_total", "counter",
		"Failures to write CDI or device information files.", .key = "publication_errors" },
	{ "devplugd_supervisor_resident_memory_bytes", "gauge",
		"Resident memory of the devplugd process.", .key = "resident_bytes",
		.if_known = true },
	{ "devplugd_supervisor_cpu_seconds_total", "counter",
		"Processor time of the devplugd process.", .key = "processor_usec",
		.scale = SCALE_SECONDS },
	{ "devplugd_children_resident_memory_bytes", "gauge",
		"Resident memory of all processes that serve resources; shared memory counts for "
		"each.",
		.key = "children_bytes", .if_known = true },
	{ "devplugd_kubelet_client_resident_memory_bytes", "gauge",
		"Resident memory of the process that registers with the kubelet, while it runs.",
		.key = "client_bytes", .if_known = true },
};

static void write_daemon(const struct scrape *scrape, struct exposition *out)
{
	exposition_begin(out, "devplugd_build_info", "gauge", "The version of devplugd; always 1.");
	exposition_add(out, "", LABELS({ "version", text_of(scrape->root, "version") }), 1);
	for (size_t i = 0; i < ARRAY_SIZE(daemon_numbers); i++) {
		const struct number *number = &daemon_numbers[i];

		exposition_begin(out, number->name, number->type, number->help);
		add_scaled(out, number, scrape->root, NULL, 0);
	}
	if (!scrape_number(scrape->root, "pods_wanted"))
		return;
	exposition_begin(out, "devplugd_pod_resources_up", "gauge",
		"Whether the kubelet reported which pod uses which device.");
	exposition_add(out, "", NULL, 0, scrape->pods != NULL);
}

/* --- resources --- */

static const struct number resource_numbers[] = {
	{ "devplugd_registrations_total", "counter", "Registrations that the kubelet accepted.",
		.key = "registrations" },
	{ "devplugd_registration_failures_total", "counter",
		"Registrations that failed or were not answered.", .key = "registration_failures" },
	{ "devplugd_last_registration_timestamp_seconds", "gauge",
		"Time of the last registration that the kubelet accepted.",
		.key = "last_registration", .scale = SCALE_SECONDS, .if_known = true },
	{ "devplugd_list_updates_total", "counter", "Device lists sent to the kubelet.",
		.key = "list_updates" },
	{ "devplugd_preferred_allocations_total", "counter",
		"Calls of GetPreferredAllocation by the kubelet.", .key = "preferred_allocations" },
	{ "devplugd_scan_errors_total", "counter", "Scans for devices that failed.",
		.key = "scans_failed" },
};

static void write_numbers(const struct scrape *scrape, struct exposition *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(resource_numbers); i++) {
		const struct number *number = &resource_numbers[i];

		exposition_begin(out, number->name, number->type, number->help);
		FOR_EACH_RESOURCE(resource, scrape)
		add_scaled(out, number, resource->object, LABELS({ "resource", resource->name }));
	}
}

#define KUBE_NAME_MAX 320

/* Uses the form of kube-state-metrics: letters, digits and "_". */
static void kube_name(const char *resource, char ret[static KUBE_NAME_MAX])
{
	(void)snprintf(ret, KUBE_NAME_MAX, "%s", resource);
	for (char *c = ret; *c; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
			    (*c >= '0' && *c <= '9')))
			*c = '_';
}

static void write_state(const struct scrape *scrape, struct exposition *out)
{
	static const char *const states[] = { "waiting", "registering", "serving", "stopping",
		"backoff", "failed" };

	exposition_begin(out, "devplugd_resource_state", "gauge",
		"The state of a resource: 1 for the current state, 0 for the others.");
	FOR_EACH_RESOURCE(resource, scrape)
	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		exposition_add(out, "",
			LABELS({ "resource", resource->name }, { "state", states[i] }),
			streq(text_of(resource->object, "state"), states[i]));
	exposition_begin(out, "devplugd_resource_info", "gauge",
		"Information about a resource; always 1. kube_resource is its name in kube-state-metrics.");
	FOR_EACH_RESOURCE(resource, scrape)
	{
		char name[KUBE_NAME_MAX];

		kube_name(resource->name, name);
		exposition_add(out, "",
			LABELS({ "resource", resource->name }, { "driver", resource->driver },
				{ "serve", resource->serve }, { "kube_resource", name }),
			1);
	}
	exposition_begin(out, "devplugd_registered", "gauge",
		"Whether the resource is registered with the kubelet.");
	FOR_EACH_RESOURCE(resource, scrape)
	exposition_add(out, "", LABELS({ "resource", resource->name }),
		scrape_number(resource->object, "registered"));
}

/* Counts the offered devices: with replicas, without devices of another resource. */
static void write_devices(const struct scrape *scrape, struct exposition *out)
{
	exposition_begin(out, "devplugd_resource_devices", "gauge",
		"Devices offered to the kubelet, counting each replica.");
	FOR_EACH_RESOURCE(resource, scrape)
	{
		uint64_t healthy = 0, unhealthy = 0;

		if (resource->left_out)
			continue;
		FOR_EACH_UNIT(unit, resource)
		*(unit->healthy ? &healthy : &unhealthy) += unit->claimed ? 0 : unit->replicas;
		exposition_add(out, "",
			LABELS({ "resource", resource->name }, { "health", "healthy" }), healthy);
		exposition_add(out, "",
			LABELS({ "resource", resource->name }, { "health", "unhealthy" }),
			unhealthy);
	}
	if (!scrape->pods)
		return;
	exposition_begin(out, "devplugd_resource_assigned_devices", "gauge",
		"Devices assigned to containers, counting each replica, as reported by the kubelet; without admin access.");
	FOR_EACH_RESOURCE(resource, scrape)
	exposition_add(out, "", LABELS({ "resource", resource->name }), resource->assigned);
}

static void write_placement(const struct scrape *scrape, struct exposition *out)
{
	uint64_t count;

	if (!scrape->pods || placement_misplaced(scrape, &count) < 0)
		return;
	exposition_begin(out, "devplugd_misplaced_containers", "gauge",
		"Containers with exclusive CPUs and a device that is on none of their NUMA nodes.");
	exposition_add(out, "", NULL, 0, count);
}

/* Counts the devices in each of these states: */
static const char *const unit_states[] = { "healthy", "unhealthy", "cordoned", "gone", "claimed" };

static bool unit_has_state(const struct unit *unit, const char *state)
{
	if (unit->healthy || streq(unit->cause, "cordoned") || streq(unit->cause, "gone") ||
		unit->claimed)
		return streq(state,
			unit->healthy           ? "healthy"
				: unit->claimed ? "claimed"
						: unit->cause);
	return streq(state, "unhealthy");
}

static void write_units(const struct scrape *scrape, struct exposition *out)
{
	exposition_begin(out, "devplugd_resource_units", "gauge",
		"Physical units of a resource by state; each has one state.");
	FOR_EACH_RESOURCE(resource, scrape)
	for (size_t i = 0; i < ARRAY_SIZE(unit_states) && !resource->left_out; i++) {
		uint64_t count = 0;

		FOR_EACH_UNIT(unit, resource)
		count += unit_has_state(unit, unit_states[i]);
		exposition_add(out, "",
			LABELS({ "resource", resource->name }, { "state", unit_states[i] }), count);
	}
}

/* Only of resources that have the key `expect`. */
static void write_expected(const struct scrape *scrape, struct exposition *out)
{
	exposition_begin(out, "devplugd_resource_expected_units", "gauge",
		"Physical units that a resource should have, by its key expect.");
	FOR_EACH_RESOURCE(resource, scrape)
	if (readiness_is_required(resource))
		exposition_add(out, "", LABELS({ "resource", resource->name }),
			scrape_number(resource->object, "expect"));
	exposition_begin(out, "devplugd_resource_found_units", "gauge",
		"Physical units that count for the key expect and are present.");
	FOR_EACH_RESOURCE(resource, scrape)
	if (readiness_is_required(resource) && resource->expect)
		exposition_add(out, "", LABELS({ "resource", resource->name }),
			scrape_number(resource->expect, "found"));
	exposition_begin(out, "devplugd_resource_ready", "gauge",
		"Whether a resource with the key expect is ready, as for /readyz.");
	FOR_EACH_RESOURCE(resource, scrape)
	if (readiness_is_required(resource))
		exposition_add(out, "", LABELS({ "resource", resource->name }),
			!readiness_reason(resource));
}

static void write_histogram(const struct resource *resource, struct exposition *out)
{
	static const char *const bounds[ALLOCATION_BUCKETS] = { "0.001", "0.0025", "0.005", "0.01",
		"0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf" };
	const json_t *buckets = json_object_get(resource->object, "allocation_buckets");
	uint64_t sum = 0;

	for (size_t i = 0; i < ALLOCATION_BUCKETS; i++) {
		sum += scrape_element(buckets, i);
		exposition_add(out, "_bucket",
			LABELS({ "resource", resource->name }, { "le", bounds[i] }), sum);
	}
	exposition_add_seconds(out, "_sum", LABELS({ "resource", resource->name }),
		scrape_number(resource->object, "allocation_usec"));
	exposition_add(out, "_count", LABELS({ "resource", resource->name }), sum);
}

static void write_outcomes(
	struct exposition *out, const struct resource *resource, const char *ok, const char *failed)
{
	exposition_add(out, "", LABELS({ "resource", resource->name }, { "outcome", "ok" }),
		scrape_number(resource->object, ok));
	exposition_add(out, "", LABELS({ "resource", resource->name }, { "outcome", "failed" }),
		scrape_number(resource->object, failed));
}

static void write_calls(const struct scrape *scrape, struct exposition *out)
{
	exposition_begin(out, "devplugd_allocations_total", "counter",
		"Calls of Allocate by the kubelet, answered or refused.");
	FOR_EACH_RESOURCE(resource, scrape)
	write_outcomes(out, resource, "allocations_ok", "allocations_failed");
	exposition_begin(out, "devplugd_allocation_duration_seconds", "histogram",
		"Duration of Allocate; the kubelet starts no other container meanwhile.");
	FOR_EACH_RESOURCE(resource, scrape)
	write_histogram(resource, out);
	exposition_begin(out, "devplugd_prestarts_total", "counter",
		"Calls of PreStartContainer that had a command to run, answered or refused.");
	FOR_EACH_RESOURCE(resource, scrape)
	write_outcomes(out, resource, "prestarts_ok", "prestarts_failed");
	exposition_begin(out, "devplugd_cleanings_total", "counter",
		"Devices that were cleaned after a pod, or could not be.");
	FOR_EACH_RESOURCE(resource, scrape)
	write_outcomes(out, resource, "cleanings_ok", "cleanings_failed");
}

static void write_processes(const struct scrape *scrape, struct exposition *out)
{
	static const char *const causes[] = { "crash", "hang", "killed" };
	const char *kind;
	json_t *counts;

	exposition_begin(out, "devplugd_child_restarts_total", "counter",
		"Processes of a resource that ended unexpectedly.");
	FOR_EACH_RESOURCE(resource, scrape)
	for (size_t i = 0; i < ARRAY_SIZE(causes); i++)
		exposition_add(out, "",
			LABELS({ "resource", resource->name }, { "cause", causes[i] }),
			scrape_element(json_object_get(resource->object, "exits"), i));
	exposition_begin(
		out, "devplugd_scan_duration_seconds", "summary", "Duration of scans for devices.");
	FOR_EACH_RESOURCE(resource, scrape)
	{
		exposition_add_seconds(out, "_sum", LABELS({ "resource", resource->name }),
			scrape_number(resource->object, "scan_usec"));
		exposition_add(out, "_count", LABELS({ "resource", resource->name }),
			scrape_number(resource->object, "scans"));
	}
	exposition_begin(out, "devplugd_probe_runs_total", "counter",
		"Results of health probes, before fail_after and recover_after apply.");
	FOR_EACH_RESOURCE(resource, scrape)
	json_object_foreach(json_object_get(resource->object, "probes"), kind, counts)
	{
		exposition_add(out, "",
			LABELS({ "resource", resource->name }, { "probe", kind },
				{ "outcome", "healthy" }),
			scrape_element(counts, 0));
		exposition_add(out, "",
			LABELS({ "resource", resource->name }, { "probe", kind },
				{ "outcome", "unhealthy" }),
			scrape_element(counts, 1));
	}
	exposition_begin(out, "devplugd_probe_duration_seconds", "summary",
		"Duration of the probes that run programs.");
	FOR_EACH_RESOURCE(resource, scrape)
	json_object_foreach(json_object_get(resource->object, "probes"), kind, counts)
	{
		if (scrape_element(counts, 2) == 0)
			continue;
		exposition_add_seconds(out, "_sum",
			LABELS({ "resource", resource->name }, { "probe", kind }),
			scrape_element(counts, 3));
		exposition_add(out, "_count",
			LABELS({ "resource", resource->name }, { "probe", kind }),
			scrape_element(counts, 2));
	}
}

/* --- Dynamic Resource Allocation --- */

static const char *const dra_calls[] = { "prepare", "unprepare" };
static const char *const dra_outcomes[] = { "ok", "failed" };

/* The number of the claims of a driver with that outcome (0), or the microseconds that they took
 * (1). */
static uint64_t dra_call_number(const json_t *driver, size_t call, size_t outcome, size_t which)
{
	char key[32];

	(void)snprintf(key, sizeof(key), "%s %s", dra_calls[call], dra_outcomes[outcome]);
	return scrape_element(json_object_get(driver, key), which);
}

#define FOR_EACH_DRA_CALL(name, driver, all)                                                       \
	json_object_foreach(all, name, driver) for (size_t call = 0; call < ARRAY_SIZE(dra_calls); \
						    call++)

static void write_dra_calls(json_t *all, struct exposition *out)
{
	const char *name;
	json_t *driver;

	exposition_begin(out, "devplugd_dra_calls_total", "counter",
		"Claims that the kubelet had prepared or unprepared, or was refused.");
	FOR_EACH_DRA_CALL(name, driver, all)
	for (size_t i = 0; i < ARRAY_SIZE(dra_outcomes); i++)
		exposition_add(out, "",
			LABELS({ "driver", name }, { "call", dra_calls[call] },
				{ "outcome", dra_outcomes[i] }),
			dra_call_number(driver, call, i, 0));
	exposition_begin(out, "devplugd_dra_call_duration_seconds", "summary",
		"Time until a claim was prepared or unprepared, or refused.");
	FOR_EACH_DRA_CALL(name, driver, all)
	{
		exposition_add_seconds(out, "_sum",
			LABELS({ "driver", name }, { "call", dra_calls[call] }),
			dra_call_number(driver, call, 0, 1) + dra_call_number(driver, call, 1, 1));
		exposition_add(out, "_count",
			LABELS({ "driver", name }, { "call", dra_calls[call] }),
			dra_call_number(driver, call, 0, 0) + dra_call_number(driver, call, 1, 0));
	}
}

static void write_dra(const struct scrape *scrape, struct exposition *out)
{
	const json_t *dra = json_object_get(scrape->root, "dra");
	json_t *all = json_object_get(dra, "drivers"), *driver;
	const char *name;

	if (!dra)
		return;
	write_dra_calls(all, out);
	exposition_begin(out, "devplugd_dra_claims", "gauge", "Claims that are prepared.");
	json_object_foreach(all, name, driver)
	{
		exposition_add(
			out, "", LABELS({ "driver", name }), scrape_number(driver, "claims"));
	}
	exposition_begin(out, "devplugd_dra_slices", "gauge",
		"ResourceSlices of this node that the API server has stored.");
	json_object_foreach(all, name, driver)
	{
		exposition_add(
			out, "", LABELS({ "driver", name }), scrape_number(driver, "slices"));
	}
	exposition_begin(out, "devplugd_dra_api_errors_total", "counter",
		"Requests to the API server that failed.");
	exposition_add(out, "", NULL, 0, scrape_number(dra, "api_failures"));
}

/* --- devices; those that belong to another resource are shown there --- */

#define UNIT_LABELS(resource, unit)       \
	{ "resource", (resource)->name }, \
	{                                 \
		"device", (unit)->id      \
	}
#define FOR_EACH_OWN_UNIT(unit, resource, scrape) \
	FOR_EACH_RESOURCE(resource, scrape)       \
	FOR_EACH_UNIT(unit, resource)             \
	if (!unit->claimed)

static const char *unit_cause(const struct unit *unit)
{
	static const char *const causes[] = { "gone", "cordoned", "device", "probe", "stale",
		"returned", "in_use", "booked", "cleaning" };

	for (size_t i = 0; i < ARRAY_SIZE(causes); i++)
		if (streq(unit->cause, causes[i]))
			return causes[i];
	return "other";
}

/* A process may report any reason and severity. */
static struct finding read_finding(const struct unit *unit, size_t at)
{
	const json_t *finding = json_array_get(unit->findings, at);
	const char *reason = text_of(finding, "reason");

	return (struct finding){
		.reason = finding_reason_is_valid(reason) ? reason : "",
		.severity = finding_severity(text_of(finding, "severity")),
	};
}

/* Whether no earlier finding has the same labels. */
static bool is_first(const struct unit *unit, size_t at)
{
	struct finding finding = read_finding(unit, at);

	for (size_t i = 0; i < at; i++) {
		struct finding earlier = read_finding(unit, i);

		if (streq(earlier.reason, finding.reason) && earlier.severity == finding.severity)
			return false;
	}
	return true;
}

static void write_findings(const struct scrape *scrape, struct exposition *out)
{
	exposition_begin(out, "devplugd_device_finding_info", "gauge",
		"What a health probe finds wrong with a device, by the reason and severity of the "
		"probe; always 1. A device with notices only is healthy. The text is in devplugctl status.");
	FOR_EACH_OWN_UNIT(unit, resource, scrape)
	for (size_t i = 0; i < json_array_size(unit->findings) && i < FINDINGS_MAX; i++)
		if (is_first(unit, i))
			exposition_add(out, "",
				LABELS(UNIT_LABELS(resource, unit),
					{ "reason", read_finding(unit, i).reason },
					{ "severity",
						probe_severities[read_finding(unit, i).severity] }),
				1);
}

static void write_health(const struct scrape *scrape, struct exposition *out)
{
	exposition_begin(out, "devplugd_device_healthy", "gauge", "Whether a device is healthy.");
	FOR_EACH_OWN_UNIT(unit, resource, scrape)
	exposition_add(out, "", LABELS(UNIT_LABELS(resource, unit)), unit->healthy);
	exposition_begin(out, "devplugd_device_unhealthy_reason_info", "gauge",
		"Why a device is unhealthy: gone, cordoned, device (its driver found it unusable), "
		"probe, stale, returned, in_use, booked (only the kubelet still lists it), cleaning, or other; always 1. The text is in devplugctl status.");
	FOR_EACH_OWN_UNIT(unit, resource, scrape)
	if (!unit->healthy)
		exposition_add(out, "",
			LABELS(UNIT_LABELS(resource, unit), { "reason", unit_cause(unit) }), 1);
	write_findings(scrape, out);
	exposition_begin(out, "devplugd_device_health_changes_total", "counter",
		"Changes of the health of a device.");
	FOR_EACH_OWN_UNIT(unit, resource, scrape)
	exposition_add(out, "", LABELS(UNIT_LABELS(resource, unit)), unit->changes);
	exposition_begin(out, "devplugd_device_last_change_timestamp_seconds", "gauge",
		"Time of the last change of the health of a device.");
	FOR_EACH_OWN_UNIT(unit, resource, scrape)
	if (unit->since > 0)
		exposition_add(out, "", LABELS(UNIT_LABELS(resource, unit)), unit->since);
}

static void write_info(const struct scrape *scrape, struct exposition *out)
{
	exposition_begin(
		out, "devplugd_device_info", "gauge", "Information about a device; always 1.");
	FOR_EACH_OWN_UNIT(unit, resource, scrape)
	exposition_add(out, "",
		LABELS(UNIT_LABELS(resource, unit), { "driver", resource->driver },
			{ "numa_node", unit->numa }, { "pci_address", unit->pci_address },
			{ "model", unit->model }, { "serial", unit->serial }),
		1);
}

/* --- what drivers measure (drivers/model/measurement.h) --- */

static const struct {
	const char *name, *type, *help;
	const char *measurement;
	const char *label; /* of a code; NULL: it has none */
	uint64_t scale;    /* factor in millionths; 0: no conversion */
} measured[] = {
	{ "devplugd_gpu_monitored", "gauge",
		"Whether NVIDIA's library reports on the GPU; if not, its health comes from the kernel alone.",
		.measurement = "gpu_monitored" },
	{ "devplugd_gpu_xid_errors_total", "counter", "Xid errors since devplugd-nvml was started.",
		.measurement = "gpu_xids", .label = "xid" },
	{ "devplugd_gpu_recovery_action", "gauge",
		"What NVIDIA's driver recommends: 0 nothing, 1 reset, 2 reboot, 3 drain peers, 4 drain and reset.",
		.measurement = "gpu_recovery_action" },
	{ "devplugd_gpu_correctable_remapped_rows", "gauge",
		"Memory rows that were remapped because of correctable errors.",
		.measurement = "gpu_remapped_correctable" },
	{ "devplugd_gpu_uncorrectable_remapped_rows", "gauge",
		"Memory rows that were remapped because of uncorrectable errors.",
		.measurement = "gpu_remapped_uncorrectable" },
	{ "devplugd_gpu_row_remap_pending", "gauge",
		"Whether rows are to be remapped at the next reset.",
		.measurement = "gpu_remap_pending" },
	{ "devplugd_gpu_row_remap_failure", "gauge", "Whether rows could not be remapped.",
		.measurement = "gpu_remap_failure" },
	{ "devplugd_gpu_uncorrected_ecc_errors_total", "counter",
		"Uncorrected memory errors since the driver was loaded.",
		.measurement = "gpu_ecc_uncorrected" },
	{ "devplugd_gpu_fabric_state", "gauge",
		"Whether the GPU has joined the NVSwitch fabric: 1 not begun, 2 begun, 3 complete.",
		.measurement = "gpu_fabric_state" },
	{ "devplugd_gpu_temperature_celsius", "gauge", "Temperature of the GPU.",
		.measurement = "gpu_temperature" },
	{ "devplugd_gpu_power_watts", "gauge", "Power that the GPU draws.",
		.measurement = "gpu_power", .scale = 1000 },
};

static void write_value(struct exposition *out, const struct label *labels, size_t n_labels,
	const json_t *value, uint64_t scale)
{
	json_int_t number = json_integer_value(value);

	if (!json_is_integer(value) || number < 0)
		return;
	if (scale == 0)
		exposition_add(out, "", labels, n_labels, (uint64_t)number);
	else
		exposition_add_seconds(out, "", labels, n_labels, (uint64_t)number * scale);
}

/* At most 5 digits, so that a malicious process cannot invent labels. */
static bool is_code(const char *text)
{
	return text_is_number(text) && strlen(text) <= 5;
}

static void write_measured(const struct scrape *scrape, struct exposition *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(measured); i++) {
		exposition_begin(out, measured[i].name, measured[i].type, measured[i].help);
		FOR_EACH_OWN_UNIT(unit, resource, scrape)
		{
			json_t *value =
				json_object_get(json_object_get(resource->measurements, unit->id),
					measured[i].measurement);
			json_t *part;
			const char *code;

			if (!measured[i].label)
				write_value(out, LABELS(UNIT_LABELS(resource, unit)), value,
					measured[i].scale);
			else
				json_object_foreach(value, code, part) if (is_code(code))
					write_value(out,
						LABELS(UNIT_LABELS(resource, unit),
							{ measured[i].label, code }),
						part, measured[i].scale);
		}
	}
}

/* Writes one sample, even if a container has several replicas of a unit or an id has several
 * rows. */
static int write_assigned(const struct scrape *scrape, struct exposition *out)
{
	struct map seen = { 0 };
	char **keys = calloc(scrape->n_assignments + 1, sizeof(*keys));
	size_t n_keys = 0;
	int r = keys ? 0 : -ENOMEM;

	exposition_begin(out, "devplugd_device_assigned", "gauge",
		"The container that uses a device, as reported by the kubelet, without those with admin access; always 1.");
	for (size_t i = 0; r >= 0 && i < scrape->n_assignments; i++) {
		const struct assignment *row = &scrape->assignments[i];
		const struct resource *resource = row->resource;
		const struct unit *unit = scrape_unit(resource, row->id);
		const struct pod_container *container = row->container;

		if (!unit)
			continue;
		if (format_text(&keys[n_keys], "%s\t%s\t%s\t%s\t%s", resource->name, unit->id,
			    container->namespace, container->pod, container->name) < 0) {
			r = -ENOMEM;
			break;
		}
		r = map_put(&seen, keys[n_keys++], keys);
		if (r == 0)
			exposition_add(out, "",
				LABELS(UNIT_LABELS(resource, unit),
					{ "namespace", container->namespace },
					{ "pod", container->pod },
					{ "container", container->name }),
				1);
		r = r == -EEXIST ? 0 : r;
	}
	map_done(&seen);
	for (size_t i = 0; keys && i < n_keys; i++)
		free(keys[i]);
	free(keys);
	return r;
}

/* --- --- */

int families_write(
	const struct scrape *scrape, const struct families_options *options, struct exposition *out)
{
	int r = 0;

	write_daemon(scrape, out);
	write_state(scrape, out);
	write_devices(scrape, out);
	write_units(scrape, out);
	write_placement(scrape, out);
	write_expected(scrape, out);
	write_numbers(scrape, out);
	write_calls(scrape, out);
	write_processes(scrape, out);
	write_dra(scrape, out);
	families_eviction_write(scrape, out);
	write_health(scrape, out);
	write_info(scrape, out);
	write_measured(scrape, out);
	if (options->assigned && scrape->pods)
		r = write_assigned(scrape, out);
	if (options->process)
		own_process_write(out);
	return out->failed ? -ENOMEM : r;
}
