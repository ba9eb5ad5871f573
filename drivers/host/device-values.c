/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the values of a template's variables for one device. The core's variables are in a table;
 * those of the driver come from the device. Attributes are read on demand, because they may change
 * while the device stays the same.
 */
#include "drivers/host/device-values.h"

#include <ctype.h>
#include <inttypes.h>

#include "drivers/host/sysfs.h"
#include "drivers/model/quantity.h"
#include "drivers/model/template.h"

static const char *get_id(struct device_values *values)
{
	return values->device->id;
}

static const char *get_index(struct device_values *values)
{
	(void)snprintf(values->buffer, sizeof(values->buffer), "%zu", values->index);
	return values->buffer;
}

static const char *get_node(struct device_values *values)
{
	return values->device->n_nodes > 0 ? values->device->nodes[0].host : NULL;
}

static const char *get_number(struct device_values *values)
{
	const char *node = get_node(values), *number;

	if (!node)
		return NULL;
	number = node + strlen(node);
	while (number > node && isdigit((unsigned char)number[-1]))
		number--;
	return *number ? number : NULL;
}

/* Number `which` in the name of the node, from 1. */
static const char *get_number_in_name(struct device_values *values, unsigned which)
{
	static const char digits[] = "0123456789";
	const char *node = get_node(values), *p = node ? strrchr(node, '/') : NULL;
	size_t length = 0;

	for (unsigned i = 0; p && i < which; i++) {
		p += length;
		p += strcspn(p, digits);
		length = strspn(p, digits);
	}
	if (length == 0)
		return NULL;
	(void)snprintf(values->buffer, sizeof(values->buffer), "%.*s", (int)length, p);
	return values->buffer;
}

static const char *get_numa(struct device_values *values)
{
	if (values->device->n_numa == 0)
		return "";
	(void)snprintf(values->buffer, sizeof(values->buffer), "%d", values->device->numa[0]);
	return values->buffer;
}

static const char *get_replica(struct device_values *values)
{
	(void)snprintf(values->buffer, sizeof(values->buffer), "%u", values->replica);
	return values->buffer;
}

static const char *get_position(struct device_values *values)
{
	(void)snprintf(values->buffer, sizeof(values->buffer), "%zu", values->position);
	return values->buffer;
}

/* For a program's devices, these are digits of the program's name for the device. */
static const char *get_hash(struct device_values *values)
{
	const char *own = device_variable(values->device, "hash");
	uint64_t hash = hash_string(values->device->id);

	if (own)
		return own;
	(void)snprintf(values->buffer, sizeof(values->buffer), "%06X",
		(unsigned)((hash ^ hash >> 24 ^ hash >> 48) & 0xffffff));
	return values->buffer;
}

static const struct {
	const char *name;
	const char *(*get)(struct device_values *values);
} core_values[] = {
	{ "id", get_id },
	{ "hash", get_hash },
	{ "index", get_index },
	{ "node", get_node },
	{ "number", get_number },
	{ "numa", get_numa },
	{ "replica", get_replica },
	{ "position", get_position },
};

/* The attribute may be in the directory of the class or in the directory of the device. */
static const char *get_attribute(struct device_values *values, const char *file)
{
	static const char *const places[] = { "", "/device" };
	const char *sysfs = device_variable(values->device, "sysfs");

	for (size_t i = 0; sysfs && i < ARRAY_SIZE(places); i++) {
		_cleanup_free_ char *directory = NULL;
		int r;

		if (format_text(&directory, "%s%s", sysfs, places[i]) < 0)
			return NULL;
		r = sysfs_read(values->root, directory, file, values->buffer);
		if (r >= 0)
			return values->buffer;
		values->busy |= r == -EBUSY;
	}
	return NULL;
}

/* "NAME" or "NAME:UNIT". */
static const char *get_capacity(struct device_values *values, const char *argument)
{
	const char *unit = strchrnul(argument, ':');
	char name[TEMPLATE_VARIABLE_MAX + 1];
	int64_t amount;

	(void)snprintf(name, sizeof(name), "%.*s", (int)(unit - argument), argument);
	amount = amounts_get(values->amounts, values->device, name);
	if (amount == CAPACITY_UNSET)
		return NULL;
	if (*unit)
		amount /= MAX_OF(quantity_unit(unit + 1), (int64_t)1);
	(void)snprintf(values->buffer, sizeof(values->buffer), "%" PRId64, amount);
	return values->buffer;
}

const char *device_values_get(void *userdata, const char *variable)
{
	struct device_values *values = userdata;
	const char *file = startswith(variable, "attr:");
	const char *which = startswith(variable, "number:");
	const char *capacity = startswith(variable, "capacity:");

	if (capacity)
		return get_capacity(values, capacity);
	if (file)
		return get_attribute(values, file);
	if (which)
		return get_number_in_name(values, (unsigned)(*which - '0'));
	for (size_t i = 0; i < ARRAY_SIZE(core_values); i++)
		if (streq(core_values[i].name, variable))
			return core_values[i].get(values);
	return device_variable(values->device, variable);
}
