/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds ResourceSlices from devices. Which slice a device is in depends on its place among all
 * listed devices, healthy or not, so it stays there when its health changes. Devices that claims
 * hold, but no resource lists, follow.
 */
#include "dra/model/dra-slices.h"

#include "common/json-read.h"
#include "dra/model/dra-counters.h"
#include "dra/model/dra-names.h"
#include "dra/model/slice-amounts.h"
#include "dra/model/slice-lacks.h"
#include "dra/model/slice-order.h"
#include "dra/model/slice-taints.h"
#include "drivers/model/declaration.h"
#include "drivers/model/device.h"
#include "drivers/model/dra-attribute.h"
#include "drivers/model/form.h"

/* Attributes that are added behind those of the report, unless it has them. */
#define N_CNI 2

/* --- attributes --- */

static void add_attribute(json_t *attributes, const char *name, json_t *value)
{
	if (json_object_size(attributes) < ATTRIBUTES_MAX && !json_object_get(attributes, name))
		(void)json_object_set(attributes, name, value);
	json_decref(value);
}

static void add_string(json_t *attributes, const char *name, const char *value)
{
	if (*value && strlen(value) <= ATTRIBUTE_VALUE_MAX)
		add_attribute(attributes, name, json_pack("{s:s}", "string", value));
}

bool dra_attribute_is_valid(const json_t *attribute)
{
	char made[ATTRIBUTE_VALUE_MAX + 1];
	const json_t *value;
	struct error error;

	if (json_object_size(attribute) != 1)
		return false;
	if (json_is_integer(json_object_get(attribute, attribute_types[ATTRIBUTE_INT])) ||
		json_is_boolean(json_object_get(attribute, attribute_types[ATTRIBUTE_BOOL])))
		return true;
	value = json_object_get(attribute, attribute_types[ATTRIBUTE_STRING]);
	if (json_is_string(value))
		return attribute_value_make(
			       ATTRIBUTE_STRING, json_string_value(value), made, &error) >= 0;
	value = json_object_get(attribute, attribute_types[ATTRIBUTE_VERSION]);
	return json_is_string(value) &&
		attribute_value_make(ATTRIBUTE_VERSION, json_string_value(value), made, &error) >=
		0 &&
		streq(made, json_string_value(value));
}

/* Numbers, each once. */
static bool is_list_of_nodes(const json_t *attribute)
{
	const json_t *list = json_object_get(attribute, "ints"), *value, *other;
	size_t i, k;

	if (json_object_size(attribute) != 1 || json_array_size(list) == 0 ||
		json_array_size(list) > ATTRIBUTE_LIST_MAX)
		return false;
	json_array_foreach(list, i, value)
	{
		if (!json_is_integer(value) || json_integer_value(value) < 0)
			return false;
		json_array_foreach(list, k, other)
		{
			if (k < i && json_equal(other, value))
				return false;
		}
	}
	return true;
}

/* The API server refuses all devices of a slice for one invalid attribute, and a faulty process may
 * report any. A name with the driver's own domain would be a second one without it. */
static bool is_valid(const char *driver, const char *name, const json_t *attribute)
{
	const char *text = text_of(attribute, attribute_types[ATTRIBUTE_STRING]);

	if (!attribute_name_is_valid(name) || attribute_is_of(name, driver) ||
		!dra_attribute_is_valid(attribute))
		return false;
	if (streq(name, ATTRIBUTE_PCI_ADDRESS))
		return form_is_pci_address(text);
	if (streq(name, ATTRIBUTE_PCI_ROOT))
		return startswith(text, "pci");
	return !attribute_is_built_in(name);
}

/* The API counts attributes and capacities together. */
static json_t *make_attributes(
	const char *driver, const char *resource, const json_t *device, size_t n_capacities)
{
	json_t *reported = json_object_get(device, "attributes"), *value;
	const char *id = text_of(device, "id"), *key;
	const json_t *numa = json_object_get(device, "numa");
	json_t *attributes = json_object();
	char name[ATTRIBUTE_VALUE_MAX + 1];

	dra_resource_value(resource, name);
	add_string(attributes, "resource", name);
	add_string(attributes, "id", id);
	if (json_array_size(numa) == 1 && json_is_integer(json_array_get(numa, 0)))
		add_attribute(attributes, ATTRIBUTE_NUMA_NODE,
			json_pack("{s:O}", "int", json_array_get(numa, 0)));
	json_object_foreach(reported, key, value) if (is_valid(driver, key, value) &&
		json_object_size(attributes) + n_capacities + N_CNI < ATTRIBUTES_MAX)
		add_attribute(attributes, key, json_incref(value));
	/* The values are shared, because a node may have many devices. */
	value = json_object_get(attributes, ATTRIBUTE_PCI_ADDRESS);
	if (!*text_of(value, "string"))
		value = json_object_get(attributes, "id");
	add_attribute(attributes, ATTRIBUTE_CNI_DEVICE, json_incref(value));
	add_attribute(attributes, ATTRIBUTE_CNI_RESOURCE,
		json_incref(json_object_get(attributes, "resource")));
	return attributes;
}

json_t *dra_attributes_make(const char *driver, const char *resource, const json_t *device)
{
	return make_attributes(driver, resource, device, 0);
}

/* Attributes for a slice, a new reference: with the list of NUMA nodes if the process reports one
 * and the server stores it. Metadata has the number, because older readers know no lists. */
static json_t *list_nodes(
	json_t *attributes, const json_t *device, unsigned lacks, size_t n_capacities)
{
	json_t *nodes = json_object_get(json_object_get(device, "attributes"), ATTRIBUTE_NUMA_NODE);
	json_t *listed;

	if (lacks & 1U << LACK_LISTS || !is_list_of_nodes(nodes) ||
		(!json_object_get(attributes, ATTRIBUTE_NUMA_NODE) &&
			json_object_size(attributes) + n_capacities >= ATTRIBUTES_MAX))
		return json_incref(attributes);
	listed = json_copy(attributes);
	(void)json_object_set(listed, ATTRIBUTE_NUMA_NODE, nodes);
	return listed;
}

/* --- devices --- */

static bool is_healthy(const json_t *device)
{
	return streq(text_of(device, "health"), "Healthy");
}

/* A device that is missing, belongs to another resource, or is in use by the device plugin cannot
 * be offered at all. */
static bool is_offered(const json_t *device)
{
	static const char *const absent[] = { "gone", "claimed", "booked" };

	for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
		if (streq(text_of(device, "cause"), absent[i]))
			return false;
	return !streq(text_of(device, "health"), "Claimed");
}

struct building {
	const struct dra_inventory_options *options;
	const char *resource;
	size_t maximum;      /* of devices of a resource */
	const json_t *units; /* see collect_units() */
	json_t *waiting;     /* by unit: the reported device, if claims hold it in another way */
	size_t n_devices;
	struct dra_inventory *inventory;
	struct dra_counters counters;
	json_t *parts, *wholes; /* devices with counters */
};

/* What a slice has of a device. NULL if memory is short: a bad device may not lose its taint. */
static json_t *make_device(const struct building *building, const char *name, const json_t *device,
	enum slice_use use, json_t *attributes, json_t *capacity)
{
	unsigned lacks = building->options->lacks;
	json_auto_t *taints = slice_taints(device, building->options->driver, lacks);
	bool tainted = json_array_size(taints) > 0 && !(lacks & 1U << LACK_TAINTS);
	json_t *made = json_pack("{s:s, s:O, s:O*, s:O*}", "name", name, "attributes", attributes,
		"capacity", capacity, "taints", tainted ? taints : NULL);

	while (lacks & 1U << LACK_MANY_TAINTS && tainted &&
		json_array_size(taints) > DRA_TAINTS_FEW_MAX) {
		(void)json_array_remove(taints, DRA_TAINTS_FEW_MAX);
		building->inventory->missed |= 1U << LACK_MANY_TAINTS;
	}
	if (!taints || !made ||
		(use == SLICE_SHARE && !(lacks & 1U << LACK_AMOUNTS) &&
			json_object_set_new(made, "allowMultipleAllocations", json_true()) < 0)) {
		json_decref(made);
		return NULL;
	}
	return made;
}

/* The slice of the next device; NULL if memory is short. */
static json_t *next_place(struct building *building)
{
	json_t *slices = building->inventory->slices;
	size_t slice = building->n_devices++ / DRA_SLICE_DEVICES_MAX;

	if (slice >= json_array_size(slices) && json_array_append_new(slices, json_array()) < 0)
		return NULL;
	return json_array_get(slices, slice);
}

/* Keeps the place of a device. */
static int leave_out(struct building *building)
{
	building->inventory->left_out++;
	return next_place(building) ? 0 : -ENOMEM;
}

/* Takes the device; NULL is memory that is short. */
static int add_to_slice(struct building *building, json_t *made)
{
	json_t *place = next_place(building);

	if (place)
		return json_array_append_new(place, made) < 0 ? -ENOMEM : 0;
	json_decref(made);
	return -ENOMEM;
}

/* Whether a claim holds the device; `ret_elsewhere`: and by another driver. */
static bool is_held(
	const struct dra_inventory_options *options, const char *name, bool *ret_elsewhere)
{
	const json_t *held = json_object_get(options->held, name);

	*ret_elsewhere = held && !streq(text_of(held, "driver"), options->driver);
	return held;
}

/* Has the slices follow whether a claim holds the device. */
static int note_bound(struct building *building, const char *name)
{
	return json_object_set_new(building->inventory->bound, name, json_true());
}

/* Adds the device to those with counters. */
static int add_part(struct building *building, const char *key, json_t *made)
{
	bool whole = json_object_get(building->counters.wholes, key);

	if (made &&
		json_object_set(made, "consumesCounters",
			json_object_get(building->counters.uses, key)) >= 0 &&
		json_array_append(whole ? building->wholes : building->parts, made) >= 0) {
		json_decref(made);
		return 0;
	}
	json_decref(made);
	return -ENOMEM;
}

/* How claims hold a device, or may get it: a bit for the use and the pool. */
static json_int_t way_of(enum slice_use use, bool part)
{
	return 1 << (use + (part ? _SLICE_USE_MAX : 0));
}

static json_int_t way_of_held(const json_t *held)
{
	return way_of(slice_use_of_held(held), json_is_true(json_object_get(held, "part")));
}

/* The key of a device, of which claims may hold replicas or parts. NULL: no memory. */
static char *unit_key(const char *resource, const char *offered_id)
{
	size_t length = strlen(offered_id);
	unsigned replica;
	char *key;

	(void)offered_id_split(offered_id, &length, &replica);
	return format_text(&key, "%s\t%.*s", resource, (int)length, offered_id) < 0 ? NULL : key;
}

/* Returns, by unit, how claims hold it: a set of way_of(). NULL: no memory. */
static json_t *collect_units(json_t *held)
{
	json_t *units = json_object(), *device;
	const char *name;

	json_object_foreach(held, name, device)
	{
		_cleanup_free_ char *key =
			unit_key(text_of(device, "resource"), text_of(device, "id"));
		json_int_t ways = json_integer_value(key ? json_object_get(units, key) : NULL);

		if (!key ||
			json_object_set_new(units, key, json_integer(ways | way_of_held(device))) <
				0) {
			json_decref(units);
			return NULL;
		}
	}
	return units;
}

/* Whether the device waits until claims end that hold it in another way. Returns 1, 0 or -ENOMEM.
 */
static int is_waiting(const struct building *building, const json_t *device, enum slice_use use)
{
	_cleanup_free_ char *key = NULL;
	json_int_t ways;

	if (json_object_size(building->units) == 0)
		return 0;
	key = unit_key(building->resource, text_of(device, "id"));
	if (!key)
		return -ENOMEM;
	ways = json_integer_value(json_object_get(building->units, key));
	if (!(ways & ~way_of(use, json_object_get(building->counters.uses, key))))
		return 0;
	return json_object_set(building->waiting, key, (json_t *)(uintptr_t)device) < 0 ? -ENOMEM
											: 1;
}

/* What is known of a device by its name. */
static json_t *describe(const struct building *building, const json_t *device, const char *id,
	enum slice_use use, json_t *attributes, bool part)
{
	const char *driver = building->options->driver;
	bool counted = use == SLICE_SHARE || use == SLICE_PART;

	return json_pack("{s:s, s:s, s:b, s:s, s:O, s:O*, s:O*, s:o*, s:i, s:o*, s:o*}", "resource",
		building->resource, "id", id, "healthy", (int)is_healthy(device), "reason",
		text_of(device, "reason"), "attributes", attributes, "interface",
		json_object_get(device, "interface"), "hardware_address",
		json_object_get(device, "hardware_address"), "part", part ? json_true() : NULL,
		"use", (int)use, "of", counted ? slice_totals(device, driver) : NULL, "amounts",
		use == SLICE_PART ? slice_part_amounts(device, driver) : NULL);
}

static int add_place(struct building *building, const struct slice_place *place, enum slice_use use)
{
	const struct dra_inventory_options *options = building->options;
	char buffer[OFFERED_ID_MAX + 1], name[DRA_DEVICE_NAME_MAX + 1];
	const char *id = text_of(place->device, "id"), *offered = id;
	json_t *names = building->inventory->names;
	_cleanup_free_ char *key = dra_counters_key(building->resource, offered);
	json_auto_t *attributes = NULL, *listed = NULL, *capacity = NULL;
	bool offer, held, elsewhere, part, left_out;

	if (!key)
		return -ENOMEM;
	part = json_object_get(building->counters.uses, key);
	left_out = json_object_get(building->counters.left_out, key);

	if (use == SLICE_REPLICA || use == SLICE_PART)
		offered = offered_id_make(id, (unsigned)place->replica, buffer);
	dra_device_name(building->resource, offered, name);
	if (json_object_get(names, name))
		return 0;
	capacity = slice_capacity(place->device, options->driver, use);
	attributes = make_attributes(
		options->driver, building->resource, place->device, json_object_size(capacity));
	listed = list_nodes(attributes, place->device, options->lacks, json_object_size(capacity));
	/* The resource's process knows no parts. */
	if (json_object_set_new(names, name,
		    describe(building, place->device, use == SLICE_PART ? id : offered, use,
			    attributes, part)) < 0)
		return -ENOMEM;
	offer = is_offered(place->device) && !place->withheld && !left_out &&
		(is_healthy(place->device) || !(options->lacks & 1U << LACK_TAINTS));
	if (!offer && note_bound(building, name) < 0)
		return -ENOMEM;
	held = is_held(options, name, &elsewhere);
	if (part)
		return elsewhere || (!offer && !held)
			? 0
			: add_part(building, key,
				  make_device(
					  building, name, place->device, use, listed, capacity));
	if (elsewhere || (!offer && !held))
		return leave_out(building);
	return add_to_slice(
		building, make_device(building, name, place->device, use, listed, capacity));
}

static int add_resource(struct building *building, const json_t *resource)
{
	const struct dra_inventory_options *options = building->options;
	_cleanup_free_ struct slice_place *places = NULL;
	size_t n = 0;
	int r;

	building->resource = text_of(resource, "name");
	r = slice_order(json_object_get(resource, "devices"), building->maximum, options->driver,
		options->lacks, &places, &n);
	for (size_t i = 0; i < n && r >= 0; i++) {
		enum slice_use use =
			slice_use_of(places[i].device, options->driver, options->lacks);

		r = is_waiting(building, places[i].device, use);
		if (r > 0)
			r = leave_out(building);
		else if (r == 0)
			r = add_place(building, &places[i], use);
	}
	return r;
}

/* Adds slices with these elements as their member of that name, `maximum` in each. */
static int add_slices(
	struct building *building, const char *member, const json_t *elements, size_t maximum)
{
	json_t *element, *list = NULL;
	size_t i;

	json_array_foreach(elements, i, element)
	{
		if (i % maximum == 0) {
			list = json_array();
			if (json_array_append_new(building->inventory->slices,
				    json_pack("{s:o}", member, list)) < 0)
				return -ENOMEM;
		}
		if (json_array_append(list, element) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* The first that fits is allocated, so the smaller devices come first. */
static int add_parts(struct building *building)
{
	int r = json_array_extend(building->parts, building->wholes) < 0 ? -ENOMEM : 0;

	if (r < 0 || json_array_size(building->parts) == 0)
		return r;
	r = add_slices(building, "devices", building->parts, DRA_SLICE_DEVICES_MAX);
	return r < 0
		? r
		: add_slices(building, "sharedCounters", building->counters.sets, DRA_SETS_MAX);
}

/* Adds a device as claims hold it, in the pool from which they have it. Without counters there, the
 * taints of the other devices of its hardware, which is in use, keep other claims from them. */
static int add_held(
	struct building *building, const char *name, const json_t *held, const json_t *device)
{
	json_auto_t *capacity = slice_capacity_held(held);
	json_auto_t *attributes = make_attributes(
		building->options->driver, building->resource, device, json_object_size(capacity));

	json_t *made =
		make_device(building, name, device, slice_use_of_held(held), attributes, capacity);

	if (!json_is_true(json_object_get(held, "part")))
		return add_to_slice(building, made);
	return json_array_append_new(building->parts, made) < 0 ? -ENOMEM : 0;
}

/* It gets no other claim: claims have the whole capacity that it shows. */
static int add_waiting(
	struct building *building, const char *name, const json_t *held, const json_t *device)
{
	enum slice_use use = slice_use_of_held(held);
	json_auto_t *attributes =
		make_attributes(building->options->driver, building->resource, device, 0);
	json_auto_t *known = describe(building, device, text_of(held, "id"), use, attributes,
		json_is_true(json_object_get(held, "part")));
	json_t *amounts = json_object_get(held, "amounts");

	if (!known || note_bound(building, name) < 0 ||
		(amounts && json_object_set(known, "of", amounts) < 0) ||
		(use == SLICE_PART && json_object_set(known, "amounts", amounts) < 0) ||
		json_object_set(building->inventory->names, name, known) < 0)
		return -ENOMEM;
	return add_held(building, name, held, device);
}

/* Adds devices that a claim holds, but that are not offered in this way, or whose resource does not
 * list them any more. */
static int add_unlisted(struct building *building)
{
	json_t *held = (json_t *)(uintptr_t)building->options->held, *device;
	const char *name;
	int r = 0;

	json_object_foreach(held, name, device)
	{
		_cleanup_free_ char *key = NULL;
		json_auto_t *gone = NULL;
		const json_t *waiting;
		bool elsewhere;

		if (r < 0 || json_object_get(building->inventory->names, name))
			continue;
		(void)is_held(building->options, name, &elsewhere);
		building->resource = text_of(device, "resource");
		key = unit_key(building->resource, text_of(device, "id"));
		waiting = key ? json_object_get(building->waiting, key) : NULL;
		if (!key)
			r = -ENOMEM;
		else if (elsewhere)
			r = waiting ? note_bound(building, name) : 0;
		else if (waiting)
			r = add_waiting(building, name, device, waiting);
		else {
			gone = json_pack(
				"{s:s, s:s}", "id", text_of(device, "id"), "cause", "gone");
			r = gone ? add_held(building, name, device, gone) : -ENOMEM;
		}
	}
	return r;
}

int dra_inventory_build(const json_t *resources, const struct dra_inventory_options *options,
	struct dra_inventory *ret)
{
	struct dra_inventory inventory = {
		.slices = json_array(),
		.names = json_object(),
		.bound = json_object(),
	};
	json_auto_t *units = collect_units((json_t *)(uintptr_t)options->held);
	json_auto_t *waiting = json_object();
	struct building building = {
		.options = options,
		.units = units,
		.waiting = waiting,
		.inventory = &inventory,
		.parts = json_array(),
		.wholes = json_array(),
	};
	const json_t *resource;
	size_t i;
	int r = !units || !waiting ? -ENOMEM
				   : dra_counters_build(resources, options->driver, options->lacks,
					     &building.counters);

	if (r >= 0)
		r = slice_order_share(resources, DRA_DRIVER_DEVICES_MAX, options->driver,
			options->lacks, &building.maximum);
	json_array_foreach(resources, i, resource) if (r >= 0) r =
		add_resource(&building, resource);
	if (r >= 0)
		r = add_unlisted(&building);
	if (r >= 0 && json_array_size(inventory.slices) == 0 &&
		json_array_append_new(inventory.slices, json_array()) < 0)
		r = -ENOMEM;
	if (r >= 0)
		r = add_parts(&building);
	inventory.missed |= building.counters.missed;
	dra_counters_done(&building.counters);
	json_decref(building.parts);
	json_decref(building.wholes);
	if (r < 0) {
		dra_inventory_done(&inventory);
		return r;
	}
	*ret = inventory;
	return 0;
}

void dra_inventory_done(struct dra_inventory *inventory)
{
	json_decref(inventory->slices);
	json_decref(inventory->names);
	json_decref(inventory->bound);
	*inventory = (struct dra_inventory){ 0 };
}

/* Whether claims hold the device in another way than it is published. */
static bool is_held_otherwise(const json_t *known, const json_t *held)
{
	return way_of((enum slice_use)json_integer_value(json_object_get(known, "use")),
		       json_object_get(known, "part")) != way_of_held(held);
}

/* The slice shows the pool and the amounts that are held, or the device begins to wait. */
static bool is_held_as(const json_t *held, const json_t *other)
{
	const json_t *a = json_object_get(held, "amounts"), *b = json_object_get(other, "amounts");

	return way_of_held(held) == way_of_held(other) && (a == b || json_equal(a, b));
}

/* Whether the slices depend on a device that is in `held`, but not by the same driver in `other`.
 */
static bool depends(const struct dra_inventory *inventory, const char *driver, const json_t *held,
	const json_t *other)
{
	const char *name;
	json_t *device;

	json_object_foreach((json_t *)(uintptr_t)held, name, device)
	{
		const json_t *same = json_object_get(other, name);
		const json_t *listed = json_object_get(inventory->names, name);
		bool bound = json_object_get(inventory->bound, name);
		bool matters = streq(text_of(device, "driver"), driver)
			? !listed || bound || is_held_otherwise(listed, device)
			: listed || bound;

		if (matters && !(same && streq(text_of(same, "driver"), text_of(device, "driver"))))
			return true;
		if (matters && !is_held_as(device, same))
			return true;
	}
	return false;
}

bool dra_inventory_follows_held(const struct dra_inventory *inventory, const char *driver,
	const json_t *before, const json_t *now)
{
	return depends(inventory, driver, before, now) || depends(inventory, driver, now, before);
}

/* --- objects --- */

/* How many slices are in the same pool as one of them. */
static size_t count_slices(const struct dra_inventory *inventory, bool parts)
{
	const json_t *slice;
	size_t i, n = 0;

	json_array_foreach(inventory->slices, i, slice)
	{
		n += json_is_object(slice) == parts;
	}
	return n;
}

json_t *dra_slice_object(
	const struct dra_pool *pool, const struct dra_inventory *inventory, size_t number)
{
	json_t *slice = json_array_get(inventory->slices, number), *object;
	bool parts = json_is_object(slice);
	json_t *sets = json_object_get(slice, "sharedCounters");
	_cleanup_free_ char *name = NULL;
	char prefix[400];

	if (parts && dra_parts_pool(pool->node, pool->driver, &name) < 0)
		return NULL;
	(void)snprintf(prefix, sizeof(prefix), "%05zx-%s-%s-", number, pool->driver, pool->node);
	object = json_pack("{s:s, s:s, s:{s:s}, s:{s:s, s:s, s:{s:s, s:I, s:I}, s:O*, s:O*}}",
		"apiVersion", DRA_API_VERSION, "kind", "ResourceSlice", "metadata", "generateName",
		prefix, "spec", "driver", pool->driver, "nodeName", pool->node, "pool", "name",
		name ?: pool->node, "generation", pool->generation, "resourceSliceCount",
		(json_int_t)count_slices(inventory, parts), "devices",
		parts ? json_object_get(slice, "devices") : slice, "sharedCounters", sets);
	if (object && pool->node_uid &&
		json_object_set_new(json_object_get(object, "metadata"), "ownerReferences",
			json_pack("[{s:s, s:s, s:s, s:s, s:b}]", "apiVersion", "v1", "kind", "Node",
				"name", pool->node, "uid", pool->node_uid, "controller", 1)) < 0) {
		json_decref(object);
		return NULL;
	}
	return object;
}

json_t *dra_class_object(const char *driver, const char *resource)
{
	char name[DRA_CLASS_NAME_MAX + 1], value[ATTRIBUTE_VALUE_MAX + 1], expression[512];

	dra_class_name(resource, name);
	dra_resource_value(resource, value);
	(void)snprintf(expression, sizeof(expression),
		"device.driver == \"%s\" && device.attributes[\"%s\"].resource == \"%s\"", driver,
		driver, value);
	return json_pack("{s:s, s:s, s:{s:s}, s:{s:s, s:[{s:{s:s}}]}}", "apiVersion",
		DRA_API_VERSION, "kind", "DeviceClass", "metadata", "name", name, "spec",
		"extendedResourceName", resource, "selectors", "cel", "expression", expression);
}

/* --- what was reported --- */

/* A device that its process does not list any more, which is always unhealthy. */
static json_t *make_missing(const json_t *missing)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:O*, s:O*}", "id", text_of(missing, "id"), "health",
		"Unhealthy", "cause", "missing", "reason", "the host does not have the device",
		"replicas", json_object_get(missing, "replicas"), "shared",
		json_object_get(missing, "shared"));
}

/* Keeps the devices in their slices that are missing of those that the resource should have
 * (`expect`). One that is not listed any more follows the listed ones. Returns 0 or -ENOMEM. */
static int add_missing(const json_t *document, json_t *devices)
{
	const json_t *all = json_object_get(json_object_get(document, "expect"), "missing");
	json_auto_t *listed = json_object();
	json_t *device;
	size_t i;

	if (json_array_size(all) == 0 || !json_is_array(devices))
		return 0;
	json_array_foreach(devices, i, device)
	{
		if (json_object_set(listed, text_of(device, "id"), device) < 0)
			return -ENOMEM;
	}
	for (i = 0; i < json_array_size(all) && i < EXPECT_MAX; i++) {
		const json_t *missing = json_array_get(all, i);

		device = json_object_get(listed, text_of(missing, "id"));
		if (!device && json_array_append_new(devices, make_missing(missing)) < 0)
			return -ENOMEM;
		if (streq(text_of(device, "cause"), "gone") &&
			json_object_set_new(device, "cause", json_string("missing")) < 0)
			return -ENOMEM;
	}
	return 0;
}

json_t *dra_devices_read(const char *text, size_t size, json_t **ret_expect)
{
	json_auto_t *document = json_loadb(text, size, 0, NULL);
	json_t *devices = json_object_get(document, "devices");

	if (add_missing(document, devices) < 0)
		return NULL;
	if (ret_expect)
		*ret_expect = json_incref(json_object_get(document, "expect"));
	return json_incref(devices);
}

void dra_devices_strip(json_t *devices)
{
	/* Members for people. They change at each allocation, which changes no slice. */
	static const char *const unused[] = { "allocations", "changes", "since" };
	static const char *const often_empty[] = { "attributes", "capacity" };
	json_t *device;
	size_t i;

	json_array_foreach(devices, i, device)
	{
		for (size_t k = 0; k < ARRAY_SIZE(unused); k++)
			(void)json_object_del(device, unused[k]);
		for (size_t k = 0; k < ARRAY_SIZE(often_empty); k++)
			if (json_object_size(json_object_get(device, often_empty[k])) == 0)
				(void)json_object_del(device, often_empty[k]);
	}
}
