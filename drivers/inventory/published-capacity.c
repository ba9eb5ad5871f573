/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what a device has of each capacity, and whether it can be shared by amount. A device that
 * breaks a rule is offered as a whole: without limits, the scheduler would allocate it to any
 * number of claims.
 */
#include "drivers/inventory/published-capacity.h"

#include <inttypes.h>

#include "drivers/host/device-values.h"
#include "drivers/host/scan-run.h"
#include "drivers/model/declaration.h"
#include "drivers/model/device.h"
#include "drivers/model/driver.h"
#include "drivers/model/quantity.h"
#include "drivers/model/template.h"

static int add(struct device *device, const char *name, int64_t amount)
{
	char variable[sizeof(CAPACITY_VARIABLE) + ATTRIBUTE_NAME_MAX], value[QUANTITY_MAX + 1];

	(void)snprintf(variable, sizeof(variable), CAPACITY_VARIABLE "%s", name);
	(void)snprintf(value, sizeof(value), "%" PRId64, amount);
	return device_add_variable(device, variable, value);
}

/* What the driver knows; NULL: nothing. */
static const char *reported_value(
	const struct declaration *declaration, const struct device *device, const char *name)
{
	const struct driver_variable *p = declaration->driver->variables;
	char variable[sizeof(CAPACITY_PRINTED) + ATTRIBUTE_NAME_MAX];

	(void)snprintf(variable, sizeof(variable), CAPACITY_PRINTED "%s", name);
	if (device_variable(device, variable))
		return device_variable(device, variable);
	for (; p && p->name; p++)
		if (p->capacity && streq(p->name, name))
			return device_variable(device, name);
	/* The program of the driver exec may print it as a property, too. */
	return streq(name, "memory") ? device_variable(device, "property:memory") : NULL;
}

/* --- declared capacities --- */

struct measuring {
	const struct declaration *declaration;
	const struct declared_capacity *declared;
	struct scan *scan;
	size_t left_out;        /* how many devices are not shared because of it */
	const char *first;      /* one of them */
	struct error first_why; /* and the reason */
};

/* Returns 0 with an allocated text, -EBUSY if the kernel has locked a file that it needs, or as
 * template_expand(). */
static int find_value(
	const struct measuring *measuring, size_t index, char **ret, struct error *error)
{
	const struct device *device = measuring->scan->devices[index];
	struct device_values values = {
		.root = scan_root(measuring->scan),
		.device = device,
		.index = index,
	};
	const struct template_context context = {
		.name = measuring->declaration->name,
		.device_value = device_values_get,
		.userdata = &values,
	};
	const char *reported;
	int r;

	if (measuring->declared->value) {
		r = template_expand(measuring->declared->value, &context, ret, error);
		return values.busy ? -EBUSY : r;
	}
	reported = reported_value(measuring->declaration, device, measuring->declared->name);
	*ret = reported ? strdup(reported) : NULL;
	if (!*ret)
		return error_set(error, reported ? -ENOMEM : -ENOENT, "%s",
			reported ? "out of memory" : "its driver does not report it");
	return 0;
}

/* While the kernel has locked a file, the last value stays. */
static int keep_value(const struct measuring *measuring, struct device *device)
{
	const struct device *listed;
	int64_t amount;

	if (!scan_lists(measuring->scan, device->id, &listed) || !listed)
		return 0;
	amount = capacity_of(listed, CAPACITY_VARIABLE, measuring->declared->name);
	return amount == CAPACITY_UNSET ? 0 : add(device, measuring->declared->name, amount);
}

static int measure(struct measuring *measuring, size_t index)
{
	struct device *device = measuring->scan->devices[index];
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };
	struct capacity capacity;
	int64_t value = 0;
	int r;

	r = find_value(measuring, index, &text, &error);
	if (r == -ENOMEM)
		return r;
	if (r == -EBUSY)
		return keep_value(measuring, device);
	if (r >= 0 && (quantity_read(text, &value) != 0 || value == 0))
		r = error_set(&error, -EINVAL, "the value is not a whole number above 0: \"%.80s\"",
			text);
	if (r >= 0)
		r = capacity_make(measuring->declared, value, &capacity, &error);
	if (r < 0 && measuring->left_out++ == 0) {
		measuring->first = device->id;
		measuring->first_why = error;
	}
	if (value == 0)
		return 0;
	return add(device, measuring->declared->name, r < 0 ? value : capacity.value);
}

static int measure_devices(struct measuring *measuring)
{
	int r = 0;

	for (size_t i = 0; i < measuring->scan->n_devices && r >= 0; i++)
		if (!declaration_leaves_out(measuring->declaration, measuring->scan->devices[i]))
			r = measure(measuring, i);
	if (r >= 0 && measuring->left_out > 0)
		scan_explain(measuring->scan,
			"devices that cannot be shared by \"%s\": %zu, such as %s: %s",
			measuring->declared->name, measuring->left_out, measuring->first,
			measuring->first_why.message);
	return r;
}

bool published_capacity_is_shared(
	const struct declaration *declaration, const struct device *device)
{
	for (size_t i = 0; i < declaration->capacity.count; i++) {
		const struct declared_capacity *declared = groups_get(&declaration->capacity, i);
		int64_t value = capacity_of(device, CAPACITY_VARIABLE, declared->name);
		struct capacity capacity;

		if (value == CAPACITY_UNSET ||
			capacity_make(declared, value, &capacity, &(struct error){ 0 }) < 0)
			return false;
	}
	return declaration->capacity.count > 0;
}

/* --- others that the driver knows --- */

static int add_reported(
	const struct declaration *declaration, struct device *device, const char *name)
{
	const char *value = reported_value(declaration, device, name);
	int64_t amount;

	if (!value || declaration_capacity(declaration, name) ||
		quantity_read(value, &amount) != 0 || amount == 0)
		return 0;
	return add(device, name, amount);
}

/* A device that is shared by amount has no others: a claim that names none would take all. */
static int add_all_reported(const struct declaration *declaration, struct device *device)
{
	size_t n = device->n_variables;
	int r;

	if (published_capacity_is_shared(declaration, device))
		return 0;
	r = add_reported(declaration, device, "memory");
	for (size_t i = 0; i < n && r >= 0; i++) {
		char name[ATTRIBUTE_NAME_MAX + 1];
		const char *printed = startswith(device->variables[i].name, CAPACITY_PRINTED);

		(void)snprintf(name, sizeof(name), "%s", printed ?: "memory");
		if (!streq(name, "memory"))
			r = add_reported(declaration, device, name);
	}
	return r;
}

int published_capacity_add(const struct declaration *declaration, struct scan *scan)
{
	int r = 0;

	for (size_t i = 0; i < declaration->capacity.count && r >= 0; i++) {
		struct measuring measuring = {
			.declaration = declaration,
			.declared = groups_get(&declaration->capacity, i),
			.scan = scan,
		};

		r = measure_devices(&measuring);
	}
	for (size_t i = 0; i < scan->n_devices && r >= 0; i++)
		r = add_all_reported(declaration, scan->devices[i]);
	return r;
}

/* --- --- */

void published_capacity_each(const struct declaration *declaration, const struct device *device,
	published_capacity_handler handler, void *userdata)
{
	bool shared = published_capacity_is_shared(declaration, device);

	for (size_t i = 0; i < device->n_variables; i++) {
		const char *name = startswith(device->variables[i].name, CAPACITY_VARIABLE);
		const struct declared_capacity *declared =
			name ? declaration_capacity(declaration, name) : NULL;
		struct capacity capacity = { 0 };
		int64_t value;

		if (!name || (shared && !declared))
			continue;
		value = capacity_of(device, CAPACITY_VARIABLE, name);
		if (!shared)
			capacity = (struct capacity){ .value = value,
				.fallback = value,
				.min = CAPACITY_UNSET,
				.step = CAPACITY_UNSET,
				.max = CAPACITY_UNSET };
		else if (capacity_make(declared, value, &capacity, &(struct error){ 0 }) < 0)
			continue;
		handler(name, &capacity, userdata);
	}
}
