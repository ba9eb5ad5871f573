/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which devices consume which counters. The names of sets and counters are hashes of the
 * hardware, so that they stay when other devices appear. Every device refers only to counters of
 * its own set, which is made of the same pieces: one bad reference makes a whole pool invalid.
 */
#include "dra/model/dra-counters.h"

#include "common/json-read.h"
#include "dra/model/slice-amounts.h"
#include "dra/model/slice-lacks.h"
#include "drivers/model/device.h"

/* Larger values would have another form in the server's answer. */
#define VALUE_MAX 999

struct unit {
	const char *resource, *id;
	const json_t *hardware;
	size_t parent; /* of the tree of its component */
	enum slice_use use;
	const struct unit *next; /* of its component */
};

/* Hardware, and who has it: as a whole, and a part. */
struct piece {
	const char *name; /* without the mark */
	json_t *wholes, *parts;
	bool has_whole, has_part; /* one that is offered, while devices are left out */
	bool repeated;            /* another piece before it has the same users */
	struct piece *next;       /* of its component */
};

/* Devices that have hardware in common, directly or by way of others. */
struct component {
	const struct unit *units;
	struct piece *pieces; /* those that exclude devices; NULL: none */
};

struct building {
	const char *driver;
	unsigned lacks;
	struct unit *units;
	size_t n_units;
	struct piece *pieces;
	size_t n_pieces;
	json_t *by_name; /* the position of a piece */
	struct dra_counters *counters;
};

char *dra_counters_key(const char *resource, const char *id)
{
	char *key;

	return format_text(&key, "%s\t%s", resource, id) < 0 ? NULL : key;
}

static int set_flag(json_t *set, const struct unit *unit)
{
	_cleanup_free_ char *key = dra_counters_key(unit->resource, unit->id);

	return key && json_object_set_new(set, key, json_true()) >= 0 ? 0 : -ENOMEM;
}

/* --- who has what --- */

static struct piece *find_piece(const struct building *building, const char *name)
{
	const json_t *at = json_object_get(building->by_name, name);

	return at ? &building->pieces[json_integer_value(at)] : NULL;
}

static int add_piece(struct building *building, const char *entry, size_t unit)
{
	bool part = *entry == MARK_CONTAINER;
	const char *name = entry + part;
	struct piece *piece = find_piece(building, name);

	if (!piece) {
		if (array_reserve((void **)&building->pieces, building->n_pieces, sizeof(*piece)) <
				0 ||
			json_object_set_new(building->by_name, name,
				json_integer((json_int_t)building->n_pieces)) < 0)
			return -ENOMEM;
		piece = &building->pieces[building->n_pieces++];
		*piece = (struct piece){
			.name = name, .wholes = json_array(), .parts = json_array()
		};
	}
	return json_array_append_new(
		       part ? piece->parts : piece->wholes, json_integer((json_int_t)unit)) < 0
		? -ENOMEM
		: 0;
}

static int add_unit(struct building *building, const char *resource, const json_t *device)
{
	const json_t *hardware = json_object_get(device, "hardware");
	size_t at = building->n_units;
	int r = 0;

	if (json_array_size(hardware) == 0)
		return 0;
	if (array_reserve((void **)&building->units, at, sizeof(*building->units)) < 0)
		return -ENOMEM;
	building->units[building->n_units++] = (struct unit){
		.resource = resource,
		.id = text_of(device, "id"),
		.hardware = hardware,
		.parent = at,
		.use = slice_use_of(device, building->driver, building->lacks),
	};
	for (size_t i = 0; i < json_array_size(hardware) && r >= 0; i++) {
		const char *entry = json_string_value(json_array_get(hardware, i));

		if (entry && *entry && !(*entry == MARK_CONTAINER && !entry[1]))
			r = add_piece(building, entry, at);
	}
	return r;
}

static size_t root_of(struct building *building, size_t unit)
{
	while (building->units[unit].parent != unit) {
		size_t parent = building->units[unit].parent;

		building->units[unit].parent = building->units[parent].parent;
		unit = parent;
	}
	return unit;
}

/* A piece that one device has, or whose devices are all parts of something that is not offered, is
 * no reason to exclude any. */
static bool excludes(const struct piece *piece)
{
	size_t wholes = json_array_size(piece->wholes);

	return wholes > 1 || (wholes == 1 && json_array_size(piece->parts) > 0);
}

static size_t unit_at(const json_t *users, size_t at)
{
	return (size_t)json_integer_value(json_array_get(users, at));
}

/* The first unit stays the root, so that the order of the file decides about names of sets. */
static void join(struct building *building, const json_t *users, size_t *first)
{
	for (size_t i = 0; i < json_array_size(users); i++) {
		size_t root = root_of(building, unit_at(users, i));

		if (*first == SIZE_MAX) {
			*first = root;
			continue;
		}
		*first = root_of(building, *first);
		if (root < *first) {
			building->units[*first].parent = root;
			*first = root;
		} else {
			building->units[root].parent = *first;
		}
	}
}

/* --- counters --- */

static int consume(struct building *building, const json_t *users, const char *set,
	const char *counter, size_t value)
{
	for (size_t i = 0; i < json_array_size(users); i++) {
		const struct unit *unit = &building->units[unit_at(users, i)];
		_cleanup_free_ char *key = dra_counters_key(unit->resource, unit->id);
		json_t *uses = key ? json_object_get(building->counters->uses, key) : NULL;

		if (!uses && key) {
			uses = json_pack("[{s:s, s:{}}]", "counterSet", set, "counters");
			if (json_object_set_new(building->counters->uses, key, uses) < 0)
				return -ENOMEM;
		}
		if (!uses ||
			json_object_set_new(json_object_get(json_array_get(uses, 0), "counters"),
				counter,
				json_pack("{s:o}", "value", json_sprintf("%zu", value))) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int add_counter(
	struct building *building, const struct piece *piece, const char *set, json_t *counters)
{
	size_t n_parts = json_array_size(piece->parts), value = MAX_OF(n_parts, (size_t)1);
	char name[24];
	int r;

	(void)snprintf(
		name, sizeof(name), "p-%016llx", (unsigned long long)hash_string(piece->name));
	if (json_object_set_new(
		    counters, name, json_pack("{s:o}", "value", json_sprintf("%zu", value))) < 0)
		return -ENOMEM;
	r = consume(building, piece->parts, set, name, 1);
	if (r >= 0)
		r = consume(building, piece->wholes, set, name, value);
	for (size_t i = 0; i < json_array_size(piece->wholes) && n_parts > 0 && r >= 0; i++)
		r = set_flag(
			building->counters->wholes, &building->units[unit_at(piece->wholes, i)]);
	return r;
}

/* One counter is enough for pieces with the same users. */
static bool is_repeated(const struct piece *piece, const struct piece *const *others, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (json_equal(others[i]->wholes, piece->wholes) &&
			json_equal(others[i]->parts, piece->parts))
			return true;
	return false;
}

/* Whether counters can exclude the devices of a component from each other. Counters of replicas,
 * and of parts, would exclude these, too. A device that claims share by amount consumes its
 * counters once. */
static bool can_consume(struct building *building, const struct component *component)
{
	unsigned needs = 1U << LACK_COUNTERS;

	for (const struct unit *unit = component->units; unit; unit = unit->next) {
		if (unit->use == SLICE_SHARE)
			needs |= 1U << LACK_SHARED_COUNTERS;
		if (unit->use == SLICE_REPLICA || unit->use == SLICE_PART)
			return false;
	}
	building->counters->missed |= needs & building->lacks;
	return !(needs & building->lacks);
}

static bool has_room(const struct component *component)
{
	const struct piece *counted[DRA_COUNTERS_MAX];
	size_t n = 0;

	for (struct piece *piece = component->pieces; piece; piece = piece->next) {
		if (json_array_size(piece->parts) > VALUE_MAX)
			return false;
		piece->repeated = is_repeated(piece, counted, n);
		if (piece->repeated)
			continue;
		if (n == DRA_COUNTERS_MAX)
			return false;
		counted[n++] = piece;
	}
	return true;
}

static int make_set(struct building *building, const struct component *component)
{
	json_t *counters = json_object();
	char set[24];
	int r = 0;

	(void)snprintf(set, sizeof(set), "s-%016llx",
		(unsigned long long)hash_string(component->pieces->name));
	for (const struct piece *piece = component->pieces; piece && r >= 0; piece = piece->next)
		if (!piece->repeated)
			r = add_counter(building, piece, set, counters);
	if (r < 0) {
		json_decref(counters);
		return r;
	}
	return json_array_append_new(building->counters->sets,
		       json_pack("{s:s, s:o}", "name", set, "counters", counters)) < 0
		? -ENOMEM
		: 0;
}

/* --- without counters --- */

/* "" if it is not a string. */
static const char *entry_at(const struct unit *unit, size_t at)
{
	return json_string_value(json_array_get(unit->hardware, at)) ?: "";
}

static bool meets_offered(const struct building *building, const struct unit *unit)
{
	for (size_t i = 0; i < json_array_size(unit->hardware); i++) {
		const char *entry = entry_at(unit, i);
		bool part = *entry == MARK_CONTAINER;
		const struct piece *piece = find_piece(building, entry + part);

		if (piece && (piece->has_whole || (!part && piece->has_part)))
			return true;
	}
	return false;
}

/* The first device of the file is offered, and those that it does not meet. */
static int leave_out(struct building *building, const struct component *component)
{
	int r = 0;

	for (const struct unit *unit = component->units; unit && r >= 0; unit = unit->next) {
		if (meets_offered(building, unit)) {
			r = set_flag(building->counters->left_out, unit);
			continue;
		}
		for (size_t k = 0; k < json_array_size(unit->hardware); k++) {
			const char *entry = entry_at(unit, k);
			bool part = *entry == MARK_CONTAINER;
			struct piece *piece = find_piece(building, entry + part);

			if (piece && part)
				piece->has_part = true;
			else if (piece)
				piece->has_whole = true;
		}
	}
	return r;
}

/* Finds the components, by their roots. */
static void divide(struct building *building, struct component *components)
{
	for (size_t i = 0; i < building->n_pieces; i++) {
		const struct piece *piece = &building->pieces[i];
		size_t first = SIZE_MAX;

		if (!excludes(piece))
			continue;
		join(building, piece->wholes, &first);
		join(building, piece->parts, &first);
	}
	for (size_t i = building->n_units; i-- > 0;) {
		struct component *component = &components[root_of(building, i)];

		building->units[i].next = component->units;
		component->units = &building->units[i];
	}
	for (size_t i = building->n_pieces; i-- > 0;) {
		struct piece *piece = &building->pieces[i];
		struct component *component;

		if (!excludes(piece))
			continue;
		component = &components[root_of(building, unit_at(piece->wholes, 0))];
		piece->next = component->pieces;
		component->pieces = piece;
	}
}

static int decide(struct building *building)
{
	_cleanup_free_ struct component *components =
		calloc(building->n_units + 1, sizeof(*components));
	int r = components ? 0 : -ENOMEM;

	if (r >= 0)
		divide(building, components);
	for (size_t i = 0; i < building->n_units && r >= 0; i++) {
		const struct component *component = &components[i];

		if (!component->pieces)
			continue;
		r = has_room(component) && can_consume(building, component)
			? make_set(building, component)
			: leave_out(building, component);
	}
	return r;
}

static void building_done(struct building *building)
{
	for (size_t i = 0; i < building->n_pieces; i++) {
		json_decref(building->pieces[i].wholes);
		json_decref(building->pieces[i].parts);
	}
	free(building->pieces);
	free(building->units);
	json_decref(building->by_name);
}

int dra_counters_build(
	const json_t *resources, const char *driver, unsigned lacks, struct dra_counters *ret)
{
	struct dra_counters counters = {
		.uses = json_object(),
		.sets = json_array(),
		.wholes = json_object(),
		.left_out = json_object(),
	};
	struct building building = {
		.driver = driver,
		.lacks = lacks,
		.by_name = json_object(),
		.counters = &counters,
	};
	const json_t *resource, *device;
	size_t i, k;
	int r = building.by_name && counters.left_out ? 0 : -ENOMEM;

	json_array_foreach(resources, i, resource)
	{
		json_array_foreach(json_object_get(resource, "devices"), k, device)
		{
			if (r >= 0)
				r = add_unit(&building, text_of(resource, "name"), device);
		}
	}
	if (r >= 0)
		r = decide(&building);
	building_done(&building);
	if (r < 0)
		dra_counters_done(&counters);
	else
		*ret = counters;
	return r;
}

void dra_counters_done(struct dra_counters *counters)
{
	json_decref(counters->uses);
	json_decref(counters->sets);
	json_decref(counters->wholes);
	json_decref(counters->left_out);
	*counters = (struct dra_counters){ 0 };
}
