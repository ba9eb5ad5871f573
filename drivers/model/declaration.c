/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the options of one resource fit together. The form of one option alone is in its
 * row of the tables (resource-keys.c) and checked while it is read.
 */
#include "drivers/model/declaration.h"
#include "common/finding.h"

#include <fnmatch.h>

#include "drivers/model/capacity.h"
#include "drivers/model/dra-attribute.h"
#include "drivers/model/driver.h"
#include "drivers/model/form.h"
#include "drivers/model/template.h"

const char *declaration_type(const struct declaration *declaration)
{
	return strchr(declaration->name, '/') + 1;
}

const char *declaration_root(const struct declaration *declaration)
{
	const char *root = declaration->host_root;

	return !root || streq(root, "/") ? "" : root;
}

const char *declaration_program_root(const struct declaration *declaration, const char *root)
{
	return streq(root, declaration_root(declaration)) ? "" : root;
}

size_t declaration_assigned_name(const char *assignment)
{
	const char *p = assignment;

	while (*p != '=') {
		const char *end = startswith(p, "${") ? strchr(p, '}') : NULL;

		p = end ? end + 1 : p + 1;
	}
	return (size_t)(p - assignment);
}

static void check_assigned_once(const struct strings *assignments, const struct origin *origin,
	const char *key, struct report *report)
{
	for (size_t i = 0; i < assignments->count; i++) {
		const char *item = assignments->items[i];
		size_t length = declaration_assigned_name(item) + 1;

		for (size_t k = 0; k < i; k++)
			if (strncmp(assignments->items[k], item, length) == 0)
				(void)report_add(report, origin, key,
					"\"%.*s\" is set twice, remove one", (int)length - 1, item);
	}
}

void declared_program_check(const struct strings *command, const struct origin *origin,
	const char *key, struct report *report)
{
	if (command->count > 0 && command->items[0][0] != '/')
		(void)report_add(report, origin, key,
			"must begin with the absolute path of a program, not \"%s\"",
			command->items[0]);
}

/* Whether ids are PCI addresses, or may be. */
static bool has_addresses(const struct driver *driver)
{
	return option_table_find(driver->match, "address") ||
		option_table_find(driver->match, "bdf");
}

/* An address in another form than ids have: of other letters, or without the domain. */
static void check_address(const char *id, const struct origin *origin, const struct driver *driver,
	const char *key, struct report *report)
{
	const char *part = strstr(id, "-p"); /* of a partition: "0000:03:00.0-p1" */
	_cleanup_free_ char *address = strndup(id, part ? (size_t)(part - id) : strlen(id));
	struct error error;

	/* Some devices of such a driver have an id of another kind: "MIG-...", "usb-...". */
	if (!strchr(id, ':') || id[strspn(id, "0123456789abcdefABCDEF:.-*?[]!^\\")] ||
		!has_addresses(driver))
		return;
	if (!address)
		report->incomplete = true;
	else if (form_pci_address(address, &error) < 0)
		(void)report_add(report, origin, key, "%s", error.message);
}

/* An id that no device can have: what device_id_make() replaces, and a number where ids are
 * addresses. */
static void check_excluded_id(const struct exclusion *exclusion, const struct driver *driver,
	const char *key, struct report *report)
{
	static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					 "0123456789._:@+=-*?[]!^\\";

	if (exclusion->id[strspn(exclusion->id, characters)])
		(void)report_add(report, &exclusion->origin, key,
			"\"%s\" can never match: ids of devices consist of letters, digits and "
			"\"._:@+=-\"",
			exclusion->id);
	else if (startswith(exclusion->id, "0x") && has_addresses(driver))
		(void)report_add(report, &exclusion->origin, key,
			"\"%s\" can never match: ids are addresses such as 0000:03:00.0; write "
			"exclude = ( { match = ( { vendor = ...; device = ...; } ); } )",
			exclusion->id);
	else
		check_address(exclusion->id, &exclusion->origin, driver, key, report);
}

static void check_match(const struct declaration *declaration, struct report *report)
{
	const struct driver *driver = declaration->driver;

	for (size_t i = 0; driver->check_entry && i < declaration->match.count; i++) {
		report->entry = i + 1;
		driver->check_entry(declaration, i, report);
	}
	report->entry = 0;
	if (driver->check)
		driver->check(declaration, report);
}

/* Adds the driver's problems with these selectors, as for selectors of `match`. */
static void check_excluded_match(const struct exclusion *exclusion,
	const struct declaration *declaration, const char *key, struct report *report)
{
	struct declaration selected = *declaration;

	selected.match = exclusion->match;
	if (exclusion->id || exclusion->where.count > 0)
		(void)report_add(report, &exclusion->origin, key,
			"has \"match\" and \"id\" or \"where\": use two entries");
	else if (declaration->driver->start)
		(void)report_add(report, &exclusion->origin, key,
			"driver \"%s\" does not support \"match\" here: use \"id\" or \"where\"",
			declaration->driver->name);
	else
		check_match(&selected, report);
}

/* A condition "variable=pattern" on a variable that is a PCI address, or empty. */
static void check_where(const char *condition, const struct origin *origin,
	const struct driver *driver, const char *key, struct report *report)
{
	const char *value = startswith(condition, "bdf=") ?: startswith(condition, "pf=");
	char variable[256];
	struct error error;

	(void)snprintf(
		variable, sizeof(variable), "${%.*s}", (int)strcspn(condition, "="), condition);
	if (template_check(variable, driver, &error) < 0 ||
		(value && *value && form_pci_address(value, &error) < 0))
		(void)report_add(report, origin, key, "%s", error.message);
}

static void check_exclusion(const struct exclusion *exclusion,
	const struct declaration *declaration, const char *key, struct report *report)
{
	const struct driver *driver = declaration->driver;

	if (!exclusion->id && exclusion->where.count == 0 && exclusion->match.count == 0)
		(void)report_add(
			report, &exclusion->origin, key, "needs \"id\", \"where\" or \"match\"");
	if (exclusion->id)
		check_excluded_id(exclusion, driver, key, report);
	if (exclusion->match.count > 0)
		check_excluded_match(exclusion, declaration, key, report);
	for (size_t i = 0; i < exclusion->where.count; i++)
		check_where(exclusion->where.items[i], &exclusion->origin, driver, key, report);
}

/* A value without variables is known before any device. */
static void check_attribute(const struct declared_attribute *attribute,
	const struct declared_dra *dra, size_t index, struct report *report)
{
	char key[64], value[ATTRIBUTE_VALUE_MAX + 1];
	struct error error;

	for (size_t i = 0; i < index; i++) {
		const struct declared_attribute *earlier = groups_get(&dra->attributes, i);

		if (!streq(earlier->name, attribute->name))
			continue;
		(void)snprintf(key, sizeof(key), "dra.attributes[%zu].name", index);
		(void)report_add(report, &attribute->origin, key, "\"%s\" is set twice, remove one",
			attribute->name);
		break;
	}
	(void)snprintf(key, sizeof(key), "dra.attributes[%zu].value", index);
	if (!strchr(attribute->value, '$') &&
		attribute_value_make(attribute->type, attribute->value, value, &error) < 0)
		(void)report_add(report, &attribute->origin, key, "%s", error.message);
}

const struct declared_attribute *declaration_attribute(
	const struct declaration *declaration, const char *name)
{
	for (size_t i = 0; i < declaration->dra.attributes.count; i++) {
		const struct declared_attribute *attribute =
			groups_get(&declaration->dra.attributes, i);

		if (streq(attribute->name, name))
			return attribute;
	}
	return NULL;
}

/* How many attributes and capacities a device may have without those of the configuration. */
static size_t count_attributes(const struct declaration *declaration)
{
	size_t count = ATTRIBUTES_BUILT_IN;

	for (const struct driver_variable *p = declaration->driver->variables; p && p->name; p++) {
		const char *name = driver_variable_attribute(p);

		count += name && !declaration_attribute(declaration, name);
	}
	return count;
}

static void check_attributes(const struct declaration *declaration, struct report *report)
{
	const struct declared_dra *dra = &declaration->dra;
	size_t others = count_attributes(declaration);

	for (size_t i = 0; i < dra->attributes.count; i++)
		check_attribute(groups_get(&dra->attributes, i), dra, i, report);
	/* A capacity of a driver is counted above. */
	others += declaration->capacity.count;
	if (dra->attributes.count > 0 && others + dra->attributes.count > ATTRIBUTES_MAX)
		(void)report_add(report, &dra->origin, "dra.attributes",
			"has %zu attributes, the maximum is %zu: Kubernetes allows %d for a "
			"device, and devplugd itself sets up to %zu for driver \"%s\"",
			dra->attributes.count, (size_t)ATTRIBUTES_MAX - others, ATTRIBUTES_MAX,
			others, declaration->driver->name);
}

/* --- capacities --- */

const struct declared_capacity *declaration_capacity(
	const struct declaration *declaration, const char *name)
{
	for (size_t i = 0; i < declaration->capacity.count; i++) {
		const struct declared_capacity *capacity = groups_get(&declaration->capacity, i);

		if (streq(capacity->name, name))
			return capacity;
	}
	return NULL;
}

/* Whether the driver may know what a device has of it. */
static bool driver_reports(const struct driver *driver, const char *name)
{
	for (const struct driver_variable *p = driver->variables; p && p->name; p++)
		if (p->capacity && streq(p->name, name))
			return true;
	return streq(driver->name, "exec");
}

static void check_capacities(const struct declaration *declaration, struct report *report)
{
	char key[64];

	for (size_t i = 0; i < declaration->capacity.count; i++) {
		const struct declared_capacity *capacity = groups_get(&declaration->capacity, i);

		(void)snprintf(key, sizeof(key), "capacity[%zu]", i);
		capacity_check_declared(capacity, key, report);
		if (declaration_capacity(declaration, capacity->name) != capacity)
			(void)report_add(report, &capacity->origin, key,
				"\"%s\" is declared twice, remove one", capacity->name);
		if (!capacity->value && !driver_reports(declaration->driver, capacity->name))
			(void)report_add(report, &capacity->origin, key,
				"needs \"value\", because driver \"%s\" reports no \"%s\"",
				declaration->driver->name, capacity->name);
	}
	if (declaration->capacity.count > CAPACITIES_MAX)
		(void)report_add(report, &declaration->origin, "capacity",
			"has %zu entries, the maximum is %d", declaration->capacity.count,
			CAPACITIES_MAX);
	if (declaration->capacity.count > 0 && declaration_is_shared(declaration))
		(void)report_add(report, &declaration->share.origin, "share.replicas",
			"cannot be used with \"capacity\", because replicas would share a device "
			"without regard to the amounts: remove one of them");
}

/* Where a template is. */
struct place {
	const struct declaration *declaration;
	const struct origin *origin;
	const char *key;
};

static void check_amount(const struct place *place, const char *text, struct report *report)
{
	char name[TEMPLATE_VARIABLE_MAX + 1];

	while (text && template_next_capacity(&text, name))
		if (!declaration_capacity(place->declaration, name) &&
			!driver_reports(place->declaration->driver, name))
			(void)report_add(report, place->origin, place->key,
				"\"${capacity:%s}\" names no capacity of the resource: add it to "
				"\"capacity\", or correct the name",
				name);
}

static void check_amounts(
	const struct place *place, const struct strings *texts, struct report *report)
{
	for (size_t i = 0; i < texts->count; i++)
		check_amount(place, texts->items[i], report);
}

/* All templates that are expanded at Allocate. */
static void check_used_capacities(const struct declaration *declaration, struct report *report)
{
	const struct container *container = &declaration->container;
	const struct place env = { declaration, &container->origin, "container.env" },
			   annotations = { declaration, &container->origin,
				   "container.annotations" },
			   cdi = { declaration, &container->origin, "container.cdi" },
			   command = { declaration, &declaration->prestart.origin,
				   "prestart.command" };

	check_amounts(&env, &container->env, report);
	check_amounts(&annotations, &container->annotations, report);
	check_amounts(&cdi, &container->cdi, report);
	check_amounts(&command, &declaration->prestart.command, report);
	for (size_t i = 0; i < container->nodes.count; i++) {
		const struct declared_node *node = groups_get(&container->nodes, i);
		const struct place place = { declaration, &node->origin, "container.nodes" };

		check_amount(&place, node->host, report);
		check_amount(&place, node->path, report);
	}
	for (size_t i = 0; i < container->mounts.count; i++) {
		const struct declared_mount *mount = groups_get(&container->mounts, i);
		const struct place place = { declaration, &mount->origin, "container.mounts" };

		check_amount(&place, mount->host, report);
		check_amount(&place, mount->path, report);
	}
}

/* Rejects settings that the kubelet's interfaces do not support. */
static void check_served_by_dra(const struct declaration *declaration, struct report *report)
{
	const struct container *container = &declaration->container;

	if (container->annotations.count > 0)
		(void)report_add(report, &container->origin, "container.annotations",
			"cannot be set with serve = \"dra\": remove them, or use container.env");
	if (declaration->registration != REGISTRATION_DEFAULT)
		(void)report_add(report, &declaration->origin, "registration",
			"is only for serve = \"plugin\", remove it: DRA drivers are found by the "
			"kubelet's plugin watcher");
}

bool declaration_tests(const struct declaration *declaration)
{
	for (size_t i = 0; i < declaration->health.count; i++) {
		const struct declared_probe *probe = groups_get(&declaration->health, i);

		if (probe->on_recovery)
			return true;
	}
	return false;
}

bool declaration_evicts(const struct declaration *declaration)
{
	bool evicts = declaration->missing.severity == SEVERITY_EVICT ||
		declaration->missing.on_return == ON_RETURN_EVICT;

	for (size_t i = 0; i < declaration->health.count; i++) {
		const struct declared_probe *probe = groups_get(&declaration->health, i);

		evicts |= probe->severity == SEVERITY_EVICT;
	}
	return evicts;
}

/* Rejects keys of eviction that would have no effect. */
static void check_eviction(const struct declaration *declaration, struct report *report)
{
	static const char advice[] =
		"has no effect: no health probe has severity = \"evict\", and neither has `missing`";

	for (size_t i = 0; i < declaration->health.count; i++) {
		const struct declared_probe *probe = groups_get(&declaration->health, i);
		char key[64];

		(void)snprintf(key, sizeof(key), "health[%zu].severity", i);
		if (probe->on_recovery && probe->severity == SEVERITY_EVICT)
			(void)report_add(report, &probe->origin, key,
				"cannot be \"evict\" with on_recovery = true: the program runs only for "
				"devices that no pod has");
	}
	if (declaration_evicts(declaration))
		return;
	if (declaration->evict_bare)
		(void)report_add(report, &declaration->origin, "evict_bare", "%s", advice);
	if (declaration->force_after > 0)
		(void)report_add(report, &declaration->origin, "force_after", "%s", advice);
}

int declaration_check(const struct declaration *declaration, struct report *report)
{
	const struct container *container = &declaration->container;
	size_t before = report->count, n_nvml = 0;
	char key[64];

	check_assigned_once(&container->env, &container->origin, "container.env", report);
	check_assigned_once(
		&container->annotations, &container->origin, "container.annotations", report);
	for (size_t i = 0; i < declaration->health.count; i++) {
		const struct declared_probe *probe = groups_get(&declaration->health, i);

		(void)snprintf(key, sizeof(key), "health[%zu].command", i);
		declared_program_check(&probe->command, &probe->origin, key, report);
		(void)snprintf(key, sizeof(key), "health[%zu].probe", i);
		if (probe->kind == PROBE_NVML && declaration->driver->probe != PROBE_NVML)
			(void)report_add(report, &probe->origin, key,
				"\"nvml\" needs driver \"nvidia\", and the driver of this resource is \"%s\"",
				declaration->driver->name);
		if (probe->kind == PROBE_NVML && n_nvml++ == 1)
			(void)report_add(report, &probe->origin, "health",
				"has two probes \"nvml\": merge their keys");
		if (probe->once && probe->severity == SEVERITY_NOTICE)
			(void)report_add(report, &probe->origin, key,
				"with once = true cannot have severity = \"notice\": the device would be "
				"offered before the program has initialised it");
		if (probe->on_recovery && probe->severity == SEVERITY_NOTICE)
			(void)report_add(report, &probe->origin, key,
				"with on_recovery = true cannot have severity = \"notice\": the device would be "
				"offered before the program has tested it");
		if (probe->on_recovery && probe->recover != RECOVER_PROBE)
			(void)report_add(report, &probe->origin, key,
				"with on_recovery = true cannot have `recover`: a device returns when the "
				"program exits 0");
		if (probe->kind == PROBE_PCI && declaration->driver->without_pci)
			(void)report_add(report, &probe->origin, key,
				"\"pci\" would always fail: devices of driver \"%s\" have no PCI "
				"address; use driver \"pci\"",
				declaration->driver->name);
	}
	for (size_t i = 0; i < declaration->where.count; i++)
		check_where(declaration->where.items[i], &declaration->origin, declaration->driver,
			"where", report);
	for (size_t i = 0; i < declaration->exclude.count; i++) {
		(void)snprintf(key, sizeof(key), "exclude[%zu]", i);
		check_exclusion(groups_get(&declaration->exclude, i), declaration, key, report);
	}
	for (size_t i = 0; i < declaration->cordon.count; i++) {
		const struct cordon *cordon = groups_get(&declaration->cordon, i);

		(void)snprintf(key, sizeof(key), "cordon[%zu]", i);
		check_address(cordon->id, &cordon->origin, declaration->driver, key, report);
	}
	for (size_t i = 0; i < declaration->share.devices.count; i++) {
		const struct share_rule *rule = groups_get(&declaration->share.devices, i);

		(void)snprintf(key, sizeof(key), "share.devices[%zu]", i);
		check_address(rule->id, &rule->origin, declaration->driver, key, report);
	}
	declared_program_check(&declaration->allocate.command, &declaration->allocate.origin,
		"allocate.command", report);
	declared_program_check(&declaration->prestart.command, &declaration->prestart.origin,
		"prestart.command", report);
	declared_program_check(&declaration->release.command, &declaration->release.origin,
		"release.command", report);
	check_attributes(declaration, report);
	check_eviction(declaration, report);
	check_capacities(declaration, report);
	check_used_capacities(declaration, report);
	if (declaration->serve == SERVE_DRA)
		check_served_by_dra(declaration, report);
	check_match(declaration, report);
	return report->count > before || report->incomplete ? -EINVAL : 0;
}

const struct allocate_program *declaration_allocate(
	const struct declaration *declaration, size_t entry)
{
	const struct driver *driver = declaration->driver;
	const struct allocate_program *program = NULL;

	if (driver->allocate && entry < declaration->match.count)
		program = driver->allocate(declaration, entry);
	if (!program && declaration->allocate.command.count > 0)
		program = &declaration->allocate;
	return program;
}

bool declaration_runs_programs(const struct declaration *declaration)
{
	if ((declaration->driver && declaration->driver->runs_programs) ||
		declaration->allocate.command.count > 0 || declaration_pre_starts(declaration))
		return true;
	for (size_t i = 0; i < declaration->health.count; i++) {
		const struct declared_probe *probe = groups_get(&declaration->health, i);

		/* The library of NVIDIA is loaded by a program, devplugd-nvml. */
		if (probe->kind == PROBE_EXEC || probe->kind == PROBE_NVML)
			return true;
	}
	return false;
}

bool declaration_condition_holds(const char *condition, const struct device *device)
{
	const char *equals = strchr(condition, '=');

	for (size_t i = 0; equals && i < device->n_variables; i++) {
		const char *rest = startswith(condition, device->variables[i].name);

		if (rest == equals && fnmatch(equals + 1, device->variables[i].value, 0) == 0)
			return true;
	}
	return false;
}

bool exclusion_holds(const struct exclusion *exclusion, const struct device *device)
{
	/* Checks the selectors of this rule, see scan_excludes(). */
	if (exclusion->match.count > 0)
		return false;
	if (exclusion->id && fnmatch(exclusion->id, device->id, 0) != 0)
		return false;
	for (size_t i = 0; i < exclusion->where.count; i++)
		if (!declaration_condition_holds(exclusion->where.items[i], device))
			return false;
	return true;
}

bool declaration_excludes(const struct declaration *declaration, const struct device *device)
{
	for (size_t i = 0; i < declaration->exclude.count; i++)
		if (exclusion_holds(groups_get(&declaration->exclude, i), device))
			return true;
	return false;
}

bool declaration_leaves_out(const struct declaration *declaration, const struct device *device)
{
	for (size_t i = 0; i < declaration->where.count; i++)
		if (!declaration_condition_holds(declaration->where.items[i], device))
			return true;
	return declaration_excludes(declaration, device);
}

const struct cordon *declaration_cordon(const struct declaration *declaration, const char *id)
{
	for (size_t i = 0; i < declaration->cordon.count; i++) {
		const struct cordon *cordon = groups_get(&declaration->cordon, i);

		if (fnmatch(cordon->id, id, 0) == 0)
			return cordon;
	}
	return NULL;
}

unsigned declaration_replicas(const struct declaration *declaration, const char *id)
{
	const struct share *share = &declaration->share;

	for (size_t i = 0; i < share->devices.count; i++) {
		const struct share_rule *rule = groups_get(&share->devices, i);

		if (fnmatch(rule->id, id, 0) == 0)
			return (unsigned)rule->replicas;
	}
	return (unsigned)share->replicas;
}

const char *declaration_other_way(const struct declaration *declaration)
{
	return declaration->serve == SERVE_DRA ? "a pod through the device plugin"
					       : "a claim of Dynamic Resource Allocation";
}

bool declaration_is_shared(const struct declaration *declaration)
{
	const struct share *share = &declaration->share;

	for (size_t i = 0; i < share->devices.count; i++)
		if (((const struct share_rule *)groups_get(&share->devices, i))->replicas > 1)
			return true;
	return share->replicas > 1;
}

void declaration_done(struct declaration *declaration)
{
	option_table_done(&declaration_table, declaration);
}
