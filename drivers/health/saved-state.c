/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the health of devices over a restart of the child, so that a failed device does not become
 * healthy by a restart. The file is written by a child, kept by the supervisor and read by the next
 * child, and none of them trusts it. Entries that are not understood are left out, and a device
 * without an entry is probed like a new one.
 */
#include "drivers/health/saved-state.h"

#include "drivers/health/saved-device.h"

#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_SIZE 64

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
	for (size_t i = 0; i < unit->n_verdicts; i++)
		verdict_done(&unit->verdicts[i].verdict);
	free(unit->verdicts);
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

int saved_unit_add(struct saved_unit *unit, uint64_t probe, const struct verdict *verdict)
{
	struct saved_result copy = { .probe = probe, .verdict = *verdict };
	int r;

	r = array_reserve((void **)&unit->verdicts, unit->n_verdicts, sizeof(unit->verdicts[0]));
	if (r < 0)
		return r;
	if (verdict->reason) {
		copy.verdict.reason = strdup(verdict->reason);
		if (!copy.verdict.reason)
			return -ENOMEM;
	}
	unit->verdicts[unit->n_verdicts++] = copy;
	return 0;
}

const struct saved_unit *saved_state_find(const struct saved_state *saved, const char *id)
{
	return saved ? map_get(&saved->by_id, id) : NULL;
}

int saved_state_merge(struct saved_state *saved, const struct saved_state *other)
{
	int r = 0;

	for (size_t i = 0; i < other->n_units && r >= 0; i++) {
		const struct saved_unit *unit = other->units[i];
		struct saved_unit *copy;

		if (saved_state_find(saved, unit->id))
			continue;
		r = saved_state_add(saved, unit->id, unit->healthy, unit->since, &copy);
		if (r >= 0) {
			copy->changes = unit->changes;
			copy->assigned = unit->assigned;
			copy->device = unit->device ? device_ref(unit->device) : NULL;
		}
		for (size_t k = 0; k < unit->n_verdicts && r >= 0; k++)
			r = saved_unit_add(
				copy, unit->verdicts[k].probe, &unit->verdicts[k].verdict);
	}
	return r;
}

const struct verdict *saved_state_result(const struct saved_unit *unit, uint64_t probe)
{
	for (size_t i = 0; unit && probe != 0 && i < unit->n_verdicts; i++)
		if (unit->verdicts[i].probe == probe)
			return &unit->verdicts[i].verdict;
	return NULL;
}

uint64_t probe_key(const struct declared_probe *probe)
{
	const char *const texts[] = { probe->path, probe->attribute, probe->healthy,
		probe->unhealthy };
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return 0;
	(void)fprintf(stream, "%d\n%d", probe->kind, probe->missing);
	if (probe->once)
		(void)fprintf(stream, "\nonce");
	if (probe->maximum >= 0)
		(void)fprintf(stream, "\n%" PRId64, probe->maximum);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		(void)fprintf(stream, "\n%s", texts[i] ?: "");
	for (size_t i = 0; i < probe->command.count; i++)
		(void)fprintf(stream, "\n%s", probe->command.items[i]);
	if (fclose(stream) != 0) {
		free(text);
		text = NULL;
		return 0;
	}
	return hash_string(text);
}

/* NULL if it cannot be read. */
static const char *boot_id(void)
{
	static char id[BOOT_ID_SIZE];
	_cleanup_fclose_ FILE *stream = NULL;

	if (*id)
		return id;
	stream = fopen(BOOT_ID_FILE, "re");
	if (!stream || !fgets(id, BOOT_ID_SIZE, stream))
		return NULL;
	id[strcspn(id, "\n")] = '\0';
	return id;
}

static void write_verdict(struct json_writer *writer, const struct saved_result *saved)
{
	const struct verdict *verdict = &saved->verdict;

	json_write_text(writer, "{\"probe\":");
	json_write_hex(writer, saved->probe);
	json_write_text(writer, verdict->healthy ? ",\"healthy\":true" : ",\"healthy\":false");
	json_write_text(writer, ",\"streak\":");
	json_write_number(writer, verdict->streak);
	json_write_text(writer, ",\"reason\":");
	json_write_string(writer, verdict->reason);
	json_write_text(writer, "}");
}

static void write_unit(struct json_writer *writer, const struct saved_unit *unit)
{
	json_write_text(writer, "{\"id\":");
	json_write_string(writer, unit->id);
	json_write_text(writer, unit->healthy ? ",\"healthy\":true" : ",\"healthy\":false");
	json_write_text(writer, ",\"since\":");
	json_write_number(writer, unit->since);
	/* Short for devices about which there is nothing to know, of which there may be many. */
	if (unit->changes > 0) {
		json_write_text(writer, ",\"changes\":");
		json_write_number(writer, unit->changes);
	}
	json_write_text(writer, unit->assigned ? ",\"assigned\":true" : "");
	if (unit->device) {
		json_write_text(writer, ",\"device\":");
		saved_device_write(writer, unit->device);
	}
	json_write_text(writer, ",\"probes\":[");
	for (size_t i = 0; i < unit->n_verdicts; i++) {
		json_write_text(writer, i > 0 ? "," : "");
		write_verdict(writer, &unit->verdicts[i]);
	}
	json_write_text(writer, "]}");
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

int saved_state_write(const struct saved_state *saved, int fd)
{
	struct json_writer writer;
	const char *boot = boot_id();

	if (!boot)
		return -EIO;
	json_writer_init(&writer, fd);
	json_write_text(&writer, "{\"boot\":");
	json_write_string(&writer, boot);
	json_write_text(&writer, ",\"match\":");
	json_write_hex(&writer, saved->match_fingerprint);
	json_write_text(&writer, ",\"units\":[");
	for (size_t i = 0; i < saved->n_units; i++) {
		json_write_text(&writer, i > 0 ? "," : "");
		write_unit(&writer, saved->units[i]);
	}
	json_write_text(&writer, "]");
	if (saved->allocations)
		write_allocations(&writer, saved->allocations);
	json_write_text(&writer, "}\n");
	return json_writer_finish(&writer);
}

static int read_verdict(struct saved_unit *unit, json_t *json)
{
	const char *key, *reason;
	json_t *saved_reason = NULL; /* null where it is healthy */
	struct verdict verdict = { .known = true };
	char text[REASON_MAX];
	uint64_t probe;
	int healthy, streak;

	if (json_unpack(json, "{s:s, s:b, s:i, s?:o}", "probe", &key, "healthy", &healthy, "streak",
		    &streak, "reason", &saved_reason) < 0 ||
		sscanf(key, "%" SCNx64, &probe) != 1 || streak < 0)
		return 0;
	verdict.healthy = healthy;
	verdict.streak = (unsigned)streak;
	reason = json_string_value(saved_reason);
	if (!healthy) {
		reason_copy(reason ? reason : "it was unhealthy before", text);
		verdict.reason = text;
	}
	return saved_unit_add(unit, probe, &verdict);
}

/* The unit of that id without anything that was known of it before. */
static int renew_unit(struct saved_state *saved, const char *id, struct saved_unit **ret)
{
	struct saved_unit *unit = map_get(&saved->by_id, id);

	if (!unit)
		return saved_state_add(saved, id, false, 0, ret);
	while (unit->n_verdicts > 0)
		verdict_done(&unit->verdicts[--unit->n_verdicts].verdict);
	unit->device = device_unref(unit->device);
	*ret = unit;
	return 0;
}

static int read_unit(struct saved_state *saved, json_t *json)
{
	struct saved_unit *unit;
	const char *id;
	json_t *probes, *probe, *device = NULL;
	json_int_t since, changes = 0;
	size_t i;
	int healthy, assigned = 0, r;

	if (json_unpack(json, "{s:s, s:b, s:I, s?:I, s?:b, s?:o, s:o}", "id", &id, "healthy",
		    &healthy, "since", &since, "changes", &changes, "assigned", &assigned, "device",
		    &device, "probes", &probes) < 0 ||
		since < 0 || changes < 0)
		return 0;
	r = renew_unit(saved, id, &unit);
	if (r < 0)
		return r;
	unit->healthy = healthy;
	unit->since = (uint64_t)since;
	unit->changes = (uint64_t)changes;
	unit->assigned = assigned;
	if (assigned && device && saved_device_read(id, device, &unit->device) == -ENOMEM)
		return -ENOMEM;
	json_array_foreach(probes, i, probe)
	{
		r = read_verdict(unit, probe);
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
	return bookings_add(allocations, id, nodes, n, (uint64_t)at);
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
	(void)bookings_unref(saved->allocations);
	saved->allocations = TAKE_PTR(allocations);
	return 0;
}

static int read_units(json_t *root, struct saved_state *saved)
{
	const char *boot, *match_fingerprint = "", *now = boot_id();
	json_t *units, *unit, *allocations = NULL;
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
		r = read_unit(saved, unit);
		if (r < 0)
			return r;
	}
	return allocations ? read_allocations(allocations, saved) : 0;
}

int saved_state_read(int fd, struct saved_state **ret)
{
	_cleanup_saved_state_ struct saved_state *saved = NULL;
	_cleanup_fclose_ FILE *stream = NULL;
	int copy, r;
	json_t *root;

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
	r = saved_state_new(&saved);
	/* The last one may have been cut short by the death of its writer. */
	for (size_t i = 0; r >= 0; i++) {
		root = json_loadf(stream, JSON_DISABLE_EOF_CHECK, NULL);
		if (!root && i == 0)
			return -EBADMSG;
		if (!root)
			break;
		r = read_units(root, saved);
		json_decref(root);
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(saved);
	return 0;
}
