/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the health of devices over a restart of the child, so that a failed device does not become
 * healthy by a restart. The file is written by a child, kept by the supervisor and read by the next
 * child, and none of them trusts it. Invalid entries are skipped, and a device without an entry is
 * probed like a new one.
 */
#include "drivers/health/saved-state.h"

#include "drivers/health/saved-device.h"

#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>

#include "common/boot-id.h"

int saved_state_new(struct saved_state **ret)
{
	struct saved_state *saved = calloc(1, sizeof(*saved));

	if (!saved)
		return -ENOMEM;
	*ret = saved;
	return 0;
}

static struct saved_unit *saved_unit_free(struct saved_unit *unit)
{
	if (!unit)
		return NULL;
	for (size_t i = 0; i < unit->n_results; i++)
		probe_result_done(&unit->results[i].result);
	free(unit->results);
	(void)device_unref(unit->device);
	free(unit->id);
	free(unit);
	return NULL;
}
DEFINE_CLEANUP(struct saved_unit *, saved_unit_free)

struct saved_state *saved_state_free(struct saved_state *saved)
{
	if (!saved)
		return NULL;
	map_done(&saved->by_id);
	for (size_t i = 0; i < saved->n_units; i++)
		saved_unit_free(saved->units[i]);
	free(saved->units);
	(void)bookings_unref(saved->allocations);
	free(saved);
	return NULL;
}

int saved_state_add(struct saved_state *saved, const char *id, bool healthy, uint64_t since,
	struct saved_unit **ret)
{
	_cleanup_(saved_unit_freep) struct saved_unit *unit = calloc(1, sizeof(*unit));
	int r;

	if (!unit)
		return -ENOMEM;
	unit->id = strdup(id);
	unit->healthy = healthy;
	unit->since = since;
	if (!unit->id)
		return -ENOMEM;
	r = array_reserve((void **)&saved->units, saved->n_units, sizeof(saved->units[0]));
	if (r < 0)
		return r;
	r = map_put(&saved->by_id, unit->id, unit);
	if (r < 0)
		return r;
	*ret = saved->units[saved->n_units++] = TAKE_PTR(unit);
	return 0;
}

int saved_unit_add(struct saved_unit *unit, uint64_t probe, const struct probe_result *result)
{
	struct saved_result copy = { .probe = probe, .result = *result };
	int r;

	r = array_reserve((void **)&unit->results, unit->n_results, sizeof(unit->results[0]));
	if (r < 0)
		return r;
	if (result->reason) {
		copy.result.reason = strdup(result->reason);
		if (!copy.result.reason)
			return -ENOMEM;
	}
	unit->results[unit->n_results++] = copy;
	return 0;
}

const struct saved_unit *saved_state_find(const struct saved_state *saved, const char *id)
{
	return saved ? map_get(&saved->by_id, id) : NULL;
}

int saved_state_add_copy(struct saved_state *saved, const struct saved_unit *unit)
{
	struct saved_unit *copy;
	int r;

	r = saved_state_add(saved, unit->id, unit->healthy, unit->since, &copy);
	if (r < 0)
		return r;
	copy->changes = unit->changes;
	copy->assigned = unit->assigned;
	copy->lost = unit->lost;
	copy->device = unit->device ? device_ref(unit->device) : NULL;
	for (size_t i = 0; i < unit->n_results && r >= 0; i++)
		r = saved_unit_add(copy, unit->results[i].probe, &unit->results[i].result);
	return r;
}

const struct probe_result *saved_state_result(const struct saved_unit *unit, uint64_t probe)
{
	for (size_t i = 0; unit && probe != 0 && i < unit->n_results; i++)
		if (unit->results[i].probe == probe)
			return &unit->results[i].result;
	return NULL;
}

uint64_t probe_key(const struct declared_probe *probe)
{
	const char *const before[] = { probe->path, probe->attribute };
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return 0;
	(void)fprintf(stream, "%d\n%d", probe->kind, probe->missing);
	if (probe->once)
		(void)fprintf(stream, "\nonce");
	if (probe->on_recovery)
		(void)fprintf(stream, "\non_recovery");
	if (probe->maximum >= 0)
		(void)fprintf(stream, "\n%" PRId64, probe->maximum);
	if (probe->changes_within > 0)
		(void)fprintf(stream, "\nchanges %" PRIu64, probe->changes_within);
	for (size_t i = 0; i < ARRAY_SIZE(before); i++)
		(void)fprintf(stream, "\n%s", before[i] ?: "");
	if (probe->healthy.count == 0)
		(void)fprintf(stream, "\nok");
	for (size_t i = 0; i < probe->healthy.count; i++)
		(void)fprintf(stream, "\n%s", probe->healthy.items[i]);
	(void)fprintf(stream, "\n%s", probe->unhealthy ?: "");
	for (size_t i = 0; i < probe->command.count; i++)
		(void)fprintf(stream, "\n%s", probe->command.items[i]);
	if (fclose(stream) != 0) {
		free(text);
		text = NULL;
		return 0;
	}
	return hash_string(text);
}

/* There may be many devices: members with their usual value are left out, and one device after
 * another in the same state is only an id. */
static bool has_same_state(const struct saved_unit *a, const struct saved_unit *b)
{
	bool same = a->healthy == b->healthy && a->since == b->since && a->changes == b->changes &&
		!a->assigned && !b->assigned && !a->lost && !b->lost &&
		a->n_results == b->n_results;

	for (size_t i = 0; same && i < a->n_results; i++) {
		const struct saved_result *x = &a->results[i], *y = &b->results[i];

		same = x->probe == y->probe && x->result.streak == y->result.streak &&
			x->result.healthy && y->result.healthy && x->result.returns == 0 &&
			y->result.returns == 0;
	}
	return same;
}

static void write_result(struct json_writer *writer, const struct saved_result *saved)
{
	const struct probe_result *result = &saved->result;

	json_write_text(writer, "{\"probe\":");
	json_write_hex(writer, saved->probe);
	if (result->streak > 0) {
		json_write_text(writer, ",\"streak\":");
		json_write_number(writer, result->streak);
	}
	if (result->returns > 0) {
		json_write_text(writer, ",\"returns\":");
		json_write_number(writer, result->returns);
		json_write_text(writer, ",\"returned_at\":");
		json_write_number(writer, result->returned_at);
	}
	if (!result->healthy) {
		json_write_text(writer, ",\"healthy\":false,\"reason\":");
		json_write_string(writer, result->reason);
		json_write_text(writer, result->could_not_run ? ",\"could_not_run\":true" : "");
	}
	json_write_text(writer, "}");
}

static void write_unit(struct json_writer *writer, const struct saved_unit *unit)
{
	json_write_text(writer, "{\"id\":");
	json_write_string(writer, unit->id);
	json_write_text(writer, ",\"since\":");
	json_write_number(writer, unit->since);
	json_write_text(writer, unit->healthy ? "" : ",\"healthy\":false");
	if (unit->changes > 0) {
		json_write_text(writer, ",\"changes\":");
		json_write_number(writer, unit->changes);
	}
	json_write_text(writer, unit->assigned ? ",\"assigned\":true" : "");
	json_write_text(writer, unit->lost ? ",\"lost\":true" : "");
	if (unit->device) {
		json_write_text(writer, ",\"device\":");
		saved_device_write(writer, unit->device);
	}
	for (size_t i = 0; i < unit->n_results; i++) {
		json_write_text(writer, i > 0 ? "," : ",\"probes\":[");
		write_result(writer, &unit->results[i]);
	}
	json_write_text(writer, unit->n_results > 0 ? "]}" : "}");
}

static void write_allocations(struct json_writer *writer, const struct bookings *allocations)
{
	json_write_text(writer, ",\"allocations\":[");
	for (size_t i = 0; i < allocations->count; i++) {
		const struct booking *booking = &allocations->items[i];

		json_write_text(writer, i > 0 ? ",{\"id\":" : "{\"id\":");
		json_write_string(writer, booking->id);
		json_write_text(writer, ",\"at\":");
		json_write_number(writer, booking->allocated_at);
		json_write_text(writer, ",\"numa\":[");
		for (size_t k = 0; k < booking->n_numa; k++) {
			json_write_text(writer, k > 0 ? "," : "");
			json_write_number(writer, (uint64_t)booking->numa[k]);
		}
		json_write_text(writer, "]}");
	}
	json_write_text(writer, "]");
}

int saved_state_write_begin(struct saved_state_writer *ret, int fd, uint64_t match_fingerprint)
{
	const char *boot = boot_id();

	if (!boot)
		return -EIO;
	json_writer_init(&ret->json, fd);
	json_write_text(&ret->json, "{\"boot\":");
	json_write_string(&ret->json, boot);
	json_write_text(&ret->json, ",\"match\":");
	json_write_hex(&ret->json, match_fingerprint);
	json_write_text(&ret->json, ",\"units\":[");
	ret->last = (struct saved_unit){ 0 };
	return ret->json.error;
}

int saved_state_write_unit(struct saved_state_writer *writer, const struct saved_unit *unit)
{
	json_write_text(&writer->json, writer->last.id ? "," : "");
	if (writer->last.id && has_same_state(&writer->last, unit))
		json_write_string(&writer->json, unit->id);
	else
		write_unit(&writer->json, unit);
	writer->last = *unit;
	return writer->json.error;
}

int saved_state_write_end(struct saved_state_writer *writer, const struct bookings *allocations)
{
	json_write_text(&writer->json, "]");
	if (allocations)
		write_allocations(&writer->json, allocations);
	json_write_text(&writer->json, "}\n");
	return json_writer_finish(&writer->json);
}

static int read_result(struct saved_unit *unit, json_t *json)
{
	const char *key, *reason = "it was unhealthy before";
	struct probe_result result = { .known = true };
	char text[REASON_MAX];
	uint64_t probe;
	int healthy = 1, streak = 0, returns = 0, could_not_run = 0;
	json_int_t returned_at = 0;

	if (json_unpack(json, "{s:s, s?:b, s?:i, s?:s, s?:i, s?:I, s?:b}", "probe", &key, "healthy",
		    &healthy, "streak", &streak, "reason", &reason, "returns", &returns,
		    "returned_at", &returned_at, "could_not_run", &could_not_run) < 0 ||
		sscanf(key, "%" SCNx64, &probe) != 1 || streak < 0 || returns < 0 ||
		returned_at < 0)
		return 0;
	result.healthy = healthy;
	result.could_not_run = !healthy && could_not_run;
	result.streak = (unsigned)streak;
	result.returns = (unsigned)returns;
	result.returned_at = (uint64_t)returned_at;
	if (!healthy) {
		reason_copy(reason, text);
		result.reason = text;
	}
	return saved_unit_add(unit, probe, &result);
}

static int read_unit(struct saved_state *saved, const char *id, json_t *json)
{
	struct saved_unit *unit;
	json_t *probes = NULL, *probe, *device = NULL;
	json_int_t since, changes = 0;
	size_t i;
	int healthy = 1, assigned = 0, lost = 0, r;

	if (json_unpack(json, "{s?:b, s:I, s?:I, s?:b, s?:b, s?:o, s?:o}", "healthy", &healthy,
		    "since", &since, "changes", &changes, "assigned", &assigned, "lost", &lost,
		    "device", &device, "probes", &probes) < 0 ||
		since < 0 || changes < 0)
		return 0;
	r = saved_state_add(saved, id, healthy, (uint64_t)since, &unit);
	if (r < 0)
		return r == -EEXIST ? 0 : r;
	unit->changes = (uint64_t)changes;
	unit->assigned = assigned;
	unit->lost = lost;
	if (assigned && device && saved_device_read(id, device, &unit->device) == -ENOMEM)
		return -ENOMEM;
	json_array_foreach(probes, i, probe)
	{
		r = read_result(unit, probe);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_allocation(json_t *json, struct bookings *allocations)
{
	const char *id;
	json_int_t at;
	json_t *numa, *node;
	size_t i, n = 0;
	int nodes[8];

	if (json_unpack(json, "{s:s, s:I, s:o}", "id", &id, "at", &at, "numa", &numa) < 0 ||
		at <= 0)
		return 0;
	json_array_foreach(numa, i, node)
	{
		json_int_t number = json_integer_value(node);

		if (n < ARRAY_SIZE(nodes) && json_is_integer(node) && number >= 0 &&
			number <= BOOKING_NUMA_MAX)
			nodes[n++] = (int)number;
	}
	return bookings_add(allocations, id, BOOKED_IN_PLUGIN, nodes, n, (uint64_t)at);
}

static int read_allocations(const json_t *list, struct saved_state *saved)
{
	_cleanup_bookings_ struct bookings *allocations = NULL;
	json_t *allocation;
	size_t i;
	int r = bookings_new(&allocations);

	json_array_foreach(list, i, allocation) if (r >= 0) r =
		read_allocation(allocation, allocations);
	if (r >= 0)
		r = bookings_sort(allocations);
	if (r < 0)
		return r;
	saved->allocations = TAKE_PTR(allocations);
	return 0;
}

static int read_units(json_t *root, struct saved_state *saved)
{
	const char *boot, *match_fingerprint = "", *now = boot_id();
	json_t *units, *unit, *last = NULL, *allocations = NULL;
	size_t i;
	int r;

	if (json_unpack(root, "{s:s, s?:s, s:o, s?:o}", "boot", &boot, "match", &match_fingerprint,
		    "units", &units, "allocations", &allocations) < 0)
		return -EBADMSG;
	if (!now || !streq(boot, now))
		return -ESTALE;
	if (sscanf(match_fingerprint, "%" SCNx64, &saved->match_fingerprint) != 1)
		saved->match_fingerprint = 0;
	json_array_foreach(units, i, unit)
	{
		const char *id = json_string_value(unit);

		if (!id) {
			id = json_string_value(json_object_get(unit, "id"));
			last = unit;
		}
		r = id ? read_unit(saved, id, last) : 0;
		if (r < 0)
			return r;
	}
	return allocations ? read_allocations(allocations, saved) : 0;
}

int saved_state_read(int fd, struct saved_state **ret)
{
	_cleanup_saved_state_ struct saved_state *saved = NULL;
	_cleanup_fclose_ FILE *stream = NULL;
	json_auto_t *root = NULL;
	int copy, r;

	copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (copy < 0)
		return -errno;
	stream = fdopen(copy, "re");
	if (!stream) {
		close_fd(copy);
		return -ENOMEM;
	}
	if (fseek(stream, 0, SEEK_SET) < 0)
		return -errno;
	root = json_loadf(stream, 0, NULL);
	if (!root)
		return -EBADMSG;
	r = saved_state_new(&saved);
	if (r >= 0)
		r = read_units(root, saved);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(saved);
	return 0;
}
