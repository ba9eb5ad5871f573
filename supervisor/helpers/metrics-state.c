/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which data about the daemon and its resources the exporter receives. Their devices are
 * in documents of their processes, which it receives unchanged.
 */
#include "supervisor/helpers/metrics-state.h"

#include <jansson.h>
#include <sys/resource.h>

#include "common/counters.h"
#include "common/numa-nodes.h"
#include "common/sealed.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/children/registrations.h"
#include "supervisor/eviction/eviction.h"
#include "supervisor/files/published-files.h"
#include "supervisor/helpers/dra.h"
#include "supervisor/kubelet/kubelet-watch.h"

/* --- the daemon --- */

struct member {
	const char *key;
	uint64_t value;
};

static json_t *pack_members(const struct member *members, size_t count)
{
	json_auto_t *object = json_object();
	int r = 0;

	for (size_t i = 0; i < count; i++)
		r |= json_object_set_new(
			object, members[i].key, json_integer((json_int_t)members[i].value));
	return r < 0 ? NULL : json_incref(object);
}

static json_t *pack_numbers(const uint64_t *numbers, size_t count)
{
	json_auto_t *list = json_array();
	int r = 0;

	for (size_t i = 0; i < count; i++)
		r |= json_array_append_new(list, json_integer((json_int_t)numbers[i]));
	return r < 0 ? NULL : json_incref(list);
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

/* 0: it does not run. */
static uint64_t client_bytes(const struct manager *manager)
{
	pid_t pid = kubelet_client_pid(manager->kubelet_client);

	return pid > 0 ? resident_bytes(pid) : 0;
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

static json_t *pack_daemon(const struct manager *manager, const struct metrics_facts *facts)
{
	const struct member members[] = {
		{ "generation", manager->generation },
		{ "accepted_at", manager->accepted_at },
		{ "pending_changes", pending_changes(manager) },
		{ "reload_successful", !manager->reload_failed && !manager->on_last_accepted },
		{ "kubelet_up", kubelet_watch_is_present(manager->watch) },
		{ "pods_wanted", facts->pods_wanted },
		{ "pod_errors", facts->pod_errors },
		{ "publication_errors", published_failures(manager->published) },
		{ "resident_bytes", resident_bytes(getpid()) },
		{ "children_bytes", children_bytes(manager) },
		{ "client_bytes", client_bytes(manager) },
		{ "processor_usec", processor_usec() },
	};

	return pack_members(members, ARRAY_SIZE(members));
}

/* --- resources --- */

/* Kind of probe to its numbers of results and their times; only of kinds that have results. */
static json_t *pack_probes(const uint64_t counters[static _COUNTER_MAX])
{
	json_auto_t *probes = json_object();
	int r = 0;

	for (size_t i = 0; probe_kinds[i] && i < COUNTED_PROBES; i++) {
		const uint64_t numbers[] = {
			counters[COUNTER_PROBES_HEALTHY + i],
			counters[COUNTER_PROBES_UNHEALTHY + i],
			counters[COUNTER_PROBES_TIMED + i],
			counters[COUNTER_PROBE_USEC + i],
		};

		if (numbers[0] + numbers[1] > 0)
			r |= json_object_set_new(
				probes, probe_kinds[i], pack_numbers(numbers, ARRAY_SIZE(numbers)));
	}
	return r < 0 ? NULL : json_incref(probes);
}

static json_t *pack_counters(
	const struct child *child, const uint64_t counters[static _COUNTER_MAX])
{
	const struct resource *resource = child->resource;
	const struct resource_counts *counts = &resource->counts;
	const struct member members[] = {
		{ "registered", resource->registered },
		{ "expect", (uint64_t)resource_applied(resource)->declaration.expect },
		{ "published", child_registration(child) != REGISTRATION_DRA || child->published },
		{ "registrations", counts->registrations },
		{ "registration_failures", counts->registration_failures },
		{ "last_registration", counts->last_registration },
		{ "list_updates", counters[COUNTER_LIST_UPDATES] },
		{ "preferred_allocations", counters[COUNTER_PREFERRED_ALLOCATIONS] },
		{ "prestarts_ok", counters[COUNTER_PRESTARTS_OK] },
		{ "prestarts_failed", counters[COUNTER_PRESTARTS_FAILED] },
		{ "cleanings_ok", counters[COUNTER_CLEANINGS_OK] },
		{ "cleanings_failed", counters[COUNTER_CLEANINGS_FAILED] },
		{ "scans", counters[COUNTER_SCANS] },
		{ "scans_failed", counters[COUNTER_SCANS_FAILED] },
		{ "scan_usec", counters[COUNTER_SCAN_USEC] },
		{ "allocations_ok", counters[COUNTER_ALLOCATIONS_OK] },
		{ "allocations_failed", counters[COUNTER_ALLOCATIONS_FAILED] },
		{ "allocation_usec", counters[COUNTER_ALLOCATION_USEC] },
	};

	return pack_members(members, ARRAY_SIZE(members));
}

/* By name, because the exporter is of a package of its own and may be of another version. */
static json_t *pack_resource(const struct manager *manager, const struct child *child)
{
	const struct resource *resource = child->resource;
	const struct declaration *declaration = &resource_applied(resource)->declaration;
	uint64_t counters[_COUNTER_MAX] = { 0 };
	json_auto_t *object = NULL, *numbers = NULL;

	if (child->counters_fd >= 0)
		(void)counters_read(child->counters_fd, counters);
	object = json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o*}", "name", resource->name,
		"driver", declaration->driver_name, "serve",
		declaration->serve == SERVE_DRA ? "dra" : "plugin", "state",
		resource_state_name(resource), "exits",
		pack_numbers(resource->counts.exits, _EXIT_CAUSE_MAX), "allocation_buckets",
		pack_numbers(&counters[COUNTER_ALLOCATION_BUCKET], ALLOCATION_BUCKETS), "probes",
		pack_probes(counters), "eviction",
		evictions_numbers(manager->evictions, resource->name));
	numbers = pack_counters(child, counters);
	return json_object_update(object, numbers) < 0 ? NULL : json_incref(object);
}

int metrics_state(const struct manager *manager, const struct metrics_facts *facts, int *ret_fd)
{
	json_auto_t *root = pack_daemon(manager, facts);
	json_t *resources = json_array(), *dra;
	_cleanup_free_ char *text = NULL;
	int r = json_object_set_new(root, "version", json_string(DEVPLUGD_VERSION));

	for (size_t i = 0; i < manager->n_children; i++)
		r |= json_array_append_new(resources, pack_resource(manager, manager->children[i]));
	r |= json_object_set_new(root, "resources", resources);
	dra = dra_numbers(manager->dra);
	if (dra)
		r |= json_object_set_new(root, "dra", dra);
	/* The resource and the id of each device that a claim has by another name. */
	if (facts->pods_known && manager->dra_claims)
		r |= json_object_set_new(root, "claimed", dra_claims_devices(manager->dra_claims));
	if (facts->pods_known)
		r |= json_object_set_new(root, "cpus", numa_cpus_read(manager->config->host_root));
	text = r < 0 ? NULL : json_dumps(root, JSON_COMPACT);
	r = text ? sealed_new("state", text, strlen(text)) : -ENOMEM;
	if (r < 0)
		return r;
	*ret_fd = r;
	return 0;
}
