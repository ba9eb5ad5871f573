/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file is written by a child, kept by the supervisor and read by the next child: to each of
 * them it is input from a stranger. What is not understood is left out, and a device that is not
 * remembered is probed like a new one.
 */
#include "drivers/memory.h"

#include "drivers/memory-device.h"

#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_SIZE 64

int memory_new(struct memory **ret)
{
	struct memory *memory = calloc(1, sizeof(*memory));

	if (!memory)
		return -ENOMEM;
	*ret = memory;
	return 0;
}

static struct memory_unit *memory_unit_free(struct memory_unit *unit)
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
DEFINE_CLEANUP(struct memory_unit *, memory_unit_free)

struct memory *memory_free(struct memory *memory)
{
	if (!memory)
		return NULL;
	map_done(&memory->by_id);
	for (size_t i = 0; i < memory->n_units; i++)
		memory_unit_free(memory->units[i]);
	free(memory->units);
	free(memory);
	return NULL;
}

int memory_add(struct memory *memory, const char *id, bool healthy, uint64_t since,
	struct memory_unit **ret)
{
	_cleanup_(memory_unit_freep) struct memory_unit *unit = calloc(1, sizeof(*unit));
	int r;

	if (!unit)
		return -ENOMEM;
	unit->id = strdup(id);
	unit->healthy = healthy;
	unit->since = since;
	if (!unit->id)
		return -ENOMEM;
	r = array_reserve((void **)&memory->units, memory->n_units, sizeof(memory->units[0]));
	if (r < 0)
		return r;
	r = map_put(&memory->by_id, unit->id, unit);
	if (r < 0)
		return r;
	*ret = memory->units[memory->n_units++] = TAKE_PTR(unit);
	return 0;
}

int memory_unit_add(struct memory_unit *unit, uint64_t probe, const struct verdict *verdict)
{
	struct memory_verdict copy = { .probe = probe, .verdict = *verdict };
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

const struct memory_unit *memory_find(const struct memory *memory, const char *id)
{
	return memory ? map_get(&memory->by_id, id) : NULL;
}

int memory_merge(struct memory *memory, const struct memory *other)
{
	int r = 0;

	for (size_t i = 0; i < other->n_units && r >= 0; i++) {
		const struct memory_unit *unit = other->units[i];
		struct memory_unit *copy;

		if (memory_find(memory, unit->id))
			continue;
		r = memory_add(memory, unit->id, unit->healthy, unit->since, &copy);
		if (r >= 0) {
			copy->lent = unit->lent;
			copy->device = unit->device ? device_ref(unit->device) : NULL;
		}
		for (size_t k = 0; k < unit->n_verdicts && r >= 0; k++)
			r = memory_unit_add(
				copy, unit->verdicts[k].probe, &unit->verdicts[k].verdict);
	}
	return r;
}

const struct verdict *memory_verdict(const struct memory_unit *unit, uint64_t probe)
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

static void write_verdict(struct json_writer *writer, const struct memory_verdict *memory)
{
	const struct verdict *verdict = &memory->verdict;

	json_write_text(writer, "{\"probe\":");
	json_write_hex(writer, memory->probe);
	json_write_text(writer, verdict->healthy ? ",\"healthy\":true" : ",\"healthy\":false");
	json_write_text(writer, ",\"streak\":");
	json_write_number(writer, verdict->streak);
	json_write_text(writer, ",\"reason\":");
	json_write_string(writer, verdict->reason);
	json_write_text(writer, "}");
}

static void write_unit(struct json_writer *writer, const struct memory_unit *unit)
{
	json_write_text(writer, "{\"id\":");
	json_write_string(writer, unit->id);
	json_write_text(writer, unit->healthy ? ",\"healthy\":true" : ",\"healthy\":false");
	json_write_text(writer, ",\"since\":");
	json_write_number(writer, unit->since);
	json_write_text(writer, unit->lent ? ",\"lent\":true" : ",\"lent\":false");
	if (unit->device) {
		json_write_text(writer, ",\"device\":");
		memory_device_write(writer, unit->device);
	}
	json_write_text(writer, ",\"probes\":[");
	for (size_t i = 0; i < unit->n_verdicts; i++) {
		json_write_text(writer, i > 0 ? "," : "");
		write_verdict(writer, &unit->verdicts[i]);
	}
	json_write_text(writer, "]}");
}

int memory_write(const struct memory *memory, int fd)
{
	struct json_writer writer;
	const char *boot = boot_id();

	if (!boot)
		return -EIO;
	json_writer_init(&writer, fd);
	json_write_text(&writer, "{\"boot\":");
	json_write_string(&writer, boot);
	json_write_text(&writer, ",\"sought\":");
	json_write_hex(&writer, memory->sought);
	json_write_text(&writer, ",\"units\":[");
	for (size_t i = 0; i < memory->n_units; i++) {
		json_write_text(&writer, i > 0 ? "," : "");
		write_unit(&writer, memory->units[i]);
	}
	json_write_text(&writer, "]}\n");
	return json_writer_finish(&writer);
}

static int read_verdict(struct memory_unit *unit, json_t *json)
{
	const char *key, *reason;
	json_t *said = NULL; /* null where it is healthy */
	struct verdict verdict = { .known = true };
	char text[REASON_MAX];
	uint64_t probe;
	int healthy, streak;

	if (json_unpack(json, "{s:s, s:b, s:i, s?:o}", "probe", &key, "healthy", &healthy, "streak",
		    &streak, "reason", &said) < 0 ||
		sscanf(key, "%" SCNx64, &probe) != 1 || streak < 0)
		return 0;
	verdict.healthy = healthy;
	verdict.streak = (unsigned)streak;
	reason = json_string_value(said);
	if (!healthy) {
		reason_copy(reason ? reason : "it was unhealthy before", text);
		verdict.reason = text;
	}
	return memory_unit_add(unit, probe, &verdict);
}

/* The unit of that id without anything that was known of it before. */
static int renew_unit(struct memory *memory, const char *id, struct memory_unit **ret)
{
	struct memory_unit *unit = map_get(&memory->by_id, id);

	if (!unit)
		return memory_add(memory, id, false, 0, ret);
	while (unit->n_verdicts > 0)
		verdict_done(&unit->verdicts[--unit->n_verdicts].verdict);
	unit->device = device_unref(unit->device);
	*ret = unit;
	return 0;
}

static int read_unit(struct memory *memory, json_t *json)
{
	struct memory_unit *unit;
	const char *id;
	json_t *probes, *probe, *device = NULL;
	json_int_t since;
	size_t i;
	int healthy, lent = 0, r;

	if (json_unpack(json, "{s:s, s:b, s:I, s?:b, s?:o, s:o}", "id", &id, "healthy", &healthy,
		    "since", &since, "lent", &lent, "device", &device, "probes", &probes) < 0 ||
		since < 0)
		return 0;
	r = renew_unit(memory, id, &unit);
	if (r < 0)
		return r;
	unit->healthy = healthy;
	unit->since = (uint64_t)since;
	unit->lent = lent;
	if (lent && device && memory_device_read(id, device, &unit->device) == -ENOMEM)
		return -ENOMEM;
	json_array_foreach(probes, i, probe)
	{
		r = read_verdict(unit, probe);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_units(json_t *root, struct memory *memory)
{
	const char *boot, *sought = "", *now = boot_id();
	json_t *units, *unit;
	size_t i;
	int r;

	if (json_unpack(root, "{s:s, s?:s, s:o}", "boot", &boot, "sought", &sought, "units",
		    &units) < 0)
		return -EBADMSG;
	if (!now || !streq(boot, now))
		return -ESTALE;
	if (sscanf(sought, "%" SCNx64, &memory->sought) != 1)
		memory->sought = 0;
	json_array_foreach(units, i, unit)
	{
		r = read_unit(memory, unit);
		if (r < 0)
			return r;
	}
	return 0;
}

int memory_read(int fd, struct memory **ret)
{
	_cleanup_memory_ struct memory *memory = NULL;
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
	r = memory_new(&memory);
	/* The last one may have been cut short by the death of its writer. */
	for (size_t i = 0; r >= 0; i++) {
		root = json_loadf(stream, JSON_DISABLE_EOF_CHECK, NULL);
		if (!root && i == 0)
			return -EBADMSG;
		if (!root)
			break;
		r = read_units(root, memory);
		json_decref(root);
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(memory);
	return 0;
}
