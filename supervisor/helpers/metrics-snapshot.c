/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which data about the daemon and its resources the exporter receives. Their devices are
 * in documents of their processes, which it receives unchanged.
 */
#include "supervisor/helpers/metrics-snapshot.h"

#include <sys/resource.h>

#include "common/counters.h"
#include "common/json-write.h"
#include "common/sealed.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/files/published.h"
#include "supervisor/kubelet/kubelet-watch.h"

/* --- the daemon --- */

static void write_member(struct json_writer *writer, const char *key, uint64_t number)
{
	json_write_text(writer, ",\"");
	json_write_text(writer, key);
	json_write_text(writer, "\":");
	json_write_number(writer, number);
}

static uint64_t resident_bytes(pid_t pid)
{
	unsigned long size, resident;
	char path[64];
	FILE *stream;
	int n;

	(void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	stream = fopen(path, "re");
	if (!stream)
		return 0;
	n = fscanf(stream, "%lu %lu", &size, &resident);
	(void)fclose(stream);
	return n == 2 ? (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static uint64_t children_bytes(const struct manager *manager)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < manager->n_children; i++)
		if (manager->children[i]->process.pid > 0)
			sum += resident_bytes(manager->children[i]->process.pid);
	return sum;
}

static uint64_t processor_usec(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) < 0)
		return 0;
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * USEC_PER_SEC +
		(uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Counts resources that have not applied their configuration, or not ended yet. */
static uint64_t pending_changes(const struct manager *manager)
{
	uint64_t n = 0;

	for (size_t i = 0; i < manager->n_children; i++) {
		const struct resource *resource = manager->children[i]->resource;

		n += manager->children[i]->leaving || !resource->accepted ||
			!streq(resource->accepted->text, resource->wanted->text);
	}
	return n;
}

static void write_daemon(struct json_writer *writer, const struct manager *manager,
	const struct metrics_facts *facts)
{
	const struct {
		const char *key;
		uint64_t value;
	} members[] = {
		{ "generation", manager->generation },
		{ "accepted_at", manager->accepted_at },
		{ "pending_changes", pending_changes(manager) },
		{ "reload_successful", !manager->reload_failed && !manager->on_last_accepted },
		{ "kubelet_up", kubelet_watch_is_present(manager->watch) },
		{ "pods_wanted", facts->pods_wanted },
		{ "pods_known", facts->pods_known },
		{ "pod_errors", facts->pod_errors },
		{ "publication_errors", published_failures(manager->published) },
		{ "resident_bytes", resident_bytes(getpid()) },
		{ "children_bytes", children_bytes(manager) },
		{ "processor_usec", processor_usec() },
	};

	json_write_text(writer, "{\"version\":");
	json_write_string(writer, DEVPLUGD_VERSION);
	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		write_member(writer, members[i].key, members[i].value);
}

/* --- resources --- */

static void write_array(
	struct json_writer *writer, const char *key, const uint64_t *numbers, size_t count)
{
	json_write_text(writer, ",\"");
	json_write_text(writer, key);
	json_write_text(writer, "\":[");
	for (size_t i = 0; i < count; i++) {
		json_write_text(writer, i > 0 ? "," : "");
		json_write_number(writer, numbers[i]);
	}
	json_write_text(writer, "]");
}

/* By name, because the exporter is of a package of its own and may be of another version. */
static void write_counters(struct json_writer *writer, const struct child *child)
{
	static const struct {
		const char *key;
		enum counter counter;
	} members[] = {
		{ "list_updates", COUNTER_LIST_UPDATES },
		{ "preferred_allocations", COUNTER_PREFERRED_ALLOCATIONS },
		{ "prestarts_ok", COUNTER_PRESTARTS_OK },
		{ "prestarts_failed", COUNTER_PRESTARTS_FAILED },
		{ "scans", COUNTER_SCANS },
		{ "scans_failed", COUNTER_SCANS_FAILED },
		{ "scan_usec", COUNTER_SCAN_USEC },
		{ "allocations_ok", COUNTER_ALLOCATIONS_OK },
		{ "allocations_failed", COUNTER_ALLOCATIONS_FAILED },
		{ "allocation_usec", COUNTER_ALLOCATION_USEC },
	};
	uint64_t counters[_COUNTER_MAX] = { 0 };
	bool first = true;

	if (child->counters_fd >= 0)
		(void)counters_read(child->counters_fd, counters);
	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		write_member(writer, members[i].key, counters[members[i].counter]);
	write_array(writer, "allocation_buckets", &counters[COUNTER_ALLOCATION_BUCKET],
		ALLOCATION_BUCKETS);
	json_write_text(writer, ",\"probes\":{");
	for (size_t i = 0; probe_kinds[i] && i < COUNTED_PROBES; i++) {
		uint64_t healthy = counters[COUNTER_PROBES_HEALTHY + i];
		uint64_t unhealthy = counters[COUNTER_PROBES_UNHEALTHY + i];

		if (healthy + unhealthy == 0)
			continue;
		json_write_text(writer, first ? "" : ",");
		first = false;
		json_write_string(writer, probe_kinds[i]);
		json_write_text(writer, ":[");
		json_write_number(writer, healthy);
		json_write_text(writer, ",");
		json_write_number(writer, unhealthy);
		json_write_text(writer, ",");
		json_write_number(writer, counters[COUNTER_PROBES_TIMED + i]);
		json_write_text(writer, ",");
		json_write_number(writer, counters[COUNTER_PROBE_USEC + i]);
		json_write_text(writer, "]");
	}
	json_write_text(writer, "}");
}

static void write_resource(struct json_writer *writer, const struct child *child)
{
	const struct resource *resource = child->resource;
	const struct resource_counts *counts = &resource->counts;

	json_write_text(writer, "{\"name\":");
	json_write_string(writer, resource->name);
	json_write_text(writer, ",\"driver\":");
	json_write_string(writer, resource_applied(resource)->declaration.driver_name);
	json_write_text(writer, ",\"state\":");
	json_write_string(writer, resource_state_name(resource));
	write_member(writer, "registered", resource->registered);
	write_member(writer, "registrations", counts->registrations);
	write_member(writer, "registration_failures", counts->registration_failures);
	write_member(writer, "last_registration", counts->last_registration);
	write_array(writer, "exits", counts->exits, _EXIT_CAUSE_MAX);
	write_counters(writer, child);
	json_write_text(writer, "}");
}

/* The resource and the id of each device that has another name in claims. */
static int write_claimed(struct json_writer *writer, const struct manager *manager,
	const struct metrics_facts *facts)
{
	json_auto_t *devices = NULL;
	const char *name;
	json_t *device;
	bool first = true;

	if (!facts->pods_known || !manager->dra_claims)
		return 0;
	devices = dra_claims_devices(manager->dra_claims);
	if (!devices)
		return -ENOMEM;
	json_write_text(writer, ",\"dra_driver\":");
	json_write_string(writer, manager->dra_driver);
	json_write_text(writer, ",\"claimed\":{");
	json_object_foreach(devices, name, device)
	{
		json_write_text(writer, first ? "" : ",");
		first = false;
		json_write_string(writer, name);
		json_write_text(writer, ":{\"resource\":");
		json_write_string(writer, json_string_value(json_object_get(device, "resource")));
		json_write_text(writer, ",\"id\":");
		json_write_string(writer, json_string_value(json_object_get(device, "id")));
		json_write_text(writer, "}");
	}
	json_write_text(writer, "}");
	return 0;
}

int metrics_snapshot(const struct manager *manager, const struct metrics_facts *facts, int *ret_fd)
{
	_cleanup_close_ int fd = sealed_begin("state");
	struct json_writer writer;
	int r;

	if (fd < 0)
		return fd;
	json_writer_init(&writer, fd);
	write_daemon(&writer, manager, facts);
	json_write_text(&writer, ",\"resources\":[");
	for (size_t i = 0; i < manager->n_children; i++) {
		json_write_text(&writer, i > 0 ? "," : "");
		write_resource(&writer, manager->children[i]);
	}
	json_write_text(&writer, "]");
	r = write_claimed(&writer, manager, facts);
	if (r < 0)
		return r;
	json_write_text(&writer, "}\n");
	r = json_writer_finish(&writer);
	if (r >= 0)
		r = sealed_end(fd);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}
