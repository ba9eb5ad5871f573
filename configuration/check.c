/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the resources of a configuration fit together: their number, and names or devices
 * that two resources may not share. Names and claims are sorted before they are compared, so that a
 * thousand resources with many devices take little time. Equal ones stay in the order of
 * declaration, so that the later one is reported.
 */
#include "configuration/check.h"

#include "common/node-condition.h"
#include "drivers/model/dra-attribute.h"
#include "drivers/model/driver.h"

/* Holds any valid name. */
#define CONTEXT_MAX 400

struct claim {
	char *text;
	const struct declaration *declaration;
};

struct claims {
	struct claim *items;
	size_t count;
};

static void claims_done(struct claims *claims)
{
	for (size_t i = 0; i < claims->count; i++)
		free(claims->items[i].text);
	free(claims->items);
}

/* Moves the strings into the claims. */
static int claims_add(
	struct claims *claims, const struct declaration *declaration, struct strings *texts)
{
	for (size_t i = 0; i < texts->count; i++) {
		int r = array_reserve(
			(void **)&claims->items, claims->count, sizeof(*claims->items));

		if (r < 0)
			return r;
		claims->items[claims->count++] = (struct claim){
			.text = TAKE_PTR(texts->items[i]),
			.declaration = declaration,
		};
	}
	return 0;
}

static int compare_claims(const void *left, const void *right)
{
	const struct claim *a = left, *b = right;
	int order = strcmp(a->text, b->text);

	if (order != 0)
		return order;
	/* Both are members of one array, in the order of declaration. */
	return (a->declaration > b->declaration) - (a->declaration < b->declaration);
}

static void claims_sort(struct claims *claims)
{
	if (claims->count > 0)
		qsort(claims->items, claims->count, sizeof(*claims->items), compare_claims);
}

#define complain(report, declaration, key, ...)                                     \
	do {                                                                        \
		char _context[CONTEXT_MAX];                                         \
                                                                                    \
		(void)snprintf(_context, sizeof(_context), "resources[%zu] \"%s\"", \
			(declaration)->position, (declaration)->name);              \
		(report)->context = _context;                                       \
		(void)report_add(report, &(declaration)->origin, key, __VA_ARGS__); \
		(report)->context = NULL;                                           \
	} while (0)

/* Also compares names that differ but become one name in a file of device information. */
static int check_names(const struct config *config, struct report *report)
{
	_cleanup_(claims_done) struct claims names = { 0 };
	int r;

	for (size_t i = 0; i < config->declared.count; i++) {
		const struct declaration *declaration = groups_get(&config->declared, i);
		_cleanup_strings_ struct strings name = { 0 };

		if (!declaration->name)
			continue;
		r = strings_add(&name, declaration->name, strlen(declaration->name));
		if (r < 0)
			return r;
		*strchrnul(name.items[0], '/') = '-';
		r = claims_add(&names, declaration, &name);
		if (r < 0)
			return r;
	}
	claims_sort(&names);
	for (size_t i = 1; i < names.count; i++) {
		const struct declaration *first = names.items[i - 1].declaration;
		const struct declaration *second = names.items[i].declaration;

		if (!streq(names.items[i].text, names.items[i - 1].text))
			continue;
		if (streq(first->name, second->name))
			complain(report, second, "name",
				"already used by resources[%zu] at %s:%u: each resource needs a unique name",
				first->position, first->origin.file, first->origin.line);
		else
			complain(report, second, "name",
				"its device-information files would have the same names as those of \"%s\" at %s:%u: choose another name",
				first->name, first->origin.file, first->origin.line);
	}
	return 0;
}

/* Two files of one kind could define devices with the same name, which runtimes refuse. */
static int check_kinds(const struct config *config, struct report *report)
{
	_cleanup_(claims_done) struct claims kinds = { 0 };
	int r;

	for (size_t i = 0; i < config->declared.count; i++) {
		const struct declaration *declaration = groups_get(&config->declared, i);
		const char *kind = declaration->cdi_spec.kind;
		_cleanup_strings_ struct strings text = { 0 };

		if (!kind)
			continue;
		r = strings_add(&text, kind, strlen(kind));
		if (r < 0)
			return r;
		r = claims_add(&kinds, declaration, &text);
		if (r < 0)
			return r;
	}
	claims_sort(&kinds);
	for (size_t i = 1; i < kinds.count; i++) {
		const struct declaration *first = kinds.items[i - 1].declaration;

		if (streq(kinds.items[i].text, kinds.items[i - 1].text))
			complain(report, kinds.items[i].declaration, "cdi_spec.kind",
				"is \"%s\", the kind of resources[%zu] \"%s\" at %s:%u: each resource needs a unique kind",
				kinds.items[i].text, first->position, first->name,
				first->origin.file, first->origin.line);
	}
	return 0;
}

/* Each resource has a condition of its own. */
static int check_conditions(const struct config *config, struct report *report)
{
	_cleanup_(claims_done) struct claims types = { 0 };
	int r;

	for (size_t i = 0; i < config->declared.count && config->cluster.report; i++) {
		const struct declaration *declaration = groups_get(&config->declared, i);
		_cleanup_strings_ struct strings text = { 0 };
		char type[NODE_CONDITION_TYPE_MAX + 1];

		if (!declaration->name)
			continue;
		node_condition_type(declaration->name, type);
		r = strings_add(&text, type, strlen(type));
		if (r >= 0)
			r = claims_add(&types, declaration, &text);
		if (r < 0)
			return r;
	}
	claims_sort(&types);
	for (size_t i = 1; i < types.count; i++) {
		const struct declaration *first = types.items[i - 1].declaration;
		const struct declaration *second = types.items[i].declaration;

		/* check_names() reports equal names. */
		if (streq(types.items[i].text, types.items[i - 1].text) &&
			!streq(first->name, second->name))
			complain(report, second, "name",
				"its condition of the Node would be %s, as that of \"%s\" at %s:%u: choose another name, or remove cluster.report",
				types.items[i].text, first->name, first->origin.file,
				first->origin.line);
	}
	return 0;
}

/* Whether two claims conflict. The second follows the first in the sorted list. */
static bool is_conflict(const struct claim *first, const struct claim *second)
{
	const struct declaration *a = first->declaration, *b = second->declaration;

	return streq(first->text, second->text) &&
		(a == b || a->overlap == OVERLAP_NONE || a->overlap != b->overlap);
}

/* `more`: how many other claims of the second one's resource are in conflict. */
static void check_claim(
	const struct claim *first, const struct claim *second, size_t more, struct report *report)
{
	const struct declaration *a = first->declaration, *b = second->declaration;
	char others[64] = "";

	if (more > 0)
		(void)snprintf(others, sizeof(others), " (and %zu more duplicates)", more);
	if (a == b)
		complain(report, b, "match", "names \"%s\" twice%s: remove one", second->text,
			others);
	else
		complain(report, b, "match",
			"names \"%s\", as resources[%zu] \"%s\" at %s:%u does%s: remove one, or set "
			"overlap = true or \"exclusive\" in both",
			second->text, a->position, a->name, a->origin.file, a->origin.line, others);
}

/* Reports one conflict of each resource, with the number of the others. */
static int report_conflicts(
	const struct config *config, const struct claims *claims, struct report *report)
{
	const struct declaration *base = config->declared.items;
	_cleanup_free_ size_t *counts = calloc(config->declared.count + 1, sizeof(*counts));

	if (!counts)
		return -ENOMEM;
	for (size_t i = 1; i < claims->count; i++)
		if (is_conflict(&claims->items[i - 1], &claims->items[i]))
			counts[claims->items[i].declaration - base]++;
	for (size_t i = 1; i < claims->count; i++) {
		size_t *count = &counts[claims->items[i].declaration - base];

		if (*count == 0 || !is_conflict(&claims->items[i - 1], &claims->items[i]))
			continue;
		check_claim(&claims->items[i - 1], &claims->items[i], *count - 1, report);
		*count = 0;
	}
	return 0;
}

static int check_claims(const struct config *config, struct report *report)
{
	_cleanup_(claims_done) struct claims claims = { 0 };
	int r;

	for (size_t i = 0; i < config->declared.count; i++) {
		const struct declaration *declaration = groups_get(&config->declared, i);
		_cleanup_strings_ struct strings texts = { 0 };

		if (!declaration->driver || !declaration->driver->claims)
			continue;
		r = declaration->driver->claims(declaration, &texts);
		if (r < 0)
			return r;
		r = claims_add(&claims, declaration, &texts);
		if (r < 0)
			return r;
	}
	claims_sort(&claims);
	return report_conflicts(config, &claims, report);
}

/* The first resource that needs a driver is named. */
static void check_dra_driver(const struct config *config, struct report *report)
{
	for (size_t i = 0; i < config->declared.count; i++) {
		const struct declaration *declaration = groups_get(&config->declared, i);

		if (declaration->serve == SERVE_DRA && !config_driver(config, declaration)) {
			complain(report, declaration, "serve",
				"is \"dra\", which needs a driver's name at the top of the file: dra "
				"= { driver = \"devices.vendor.example\"; };");
			return;
		}
	}
}

static void check_own_names(const struct config *config, struct report *report)
{
	for (size_t i = 0; i < config->declared.count; i++) {
		const struct declaration *declaration = groups_get(&config->declared, i);
		const struct groups *attributes = &declaration->dra.attributes;
		const char *driver = config_driver(config, declaration);

		for (size_t k = 0; driver && k < attributes->count; k++) {
			const struct declared_attribute *attribute = groups_get(attributes, k);

			if (attribute->name && attribute_is_of(attribute->name, driver))
				complain(report, declaration, "dra.attributes",
					"has \"%s\", whose domain is the DRA driver's: write \"%s\"",
					attribute->name, strchr(attribute->name, '/') + 1);
		}
	}
}

int config_check(const struct config *config, bool whole, struct report *report)
{
	size_t before = report->count;
	int r;

	if (config->declared.count > RESOURCES_MAX)
		(void)report_add(report, &config->origin, "resources",
			"%zu are declared, the maximum is %d", config->declared.count,
			RESOURCES_MAX);
	r = check_names(config, report);
	if (r >= 0)
		r = check_kinds(config, report);
	if (r >= 0)
		r = check_conditions(config, report);
	if (r >= 0)
		r = check_claims(config, report);
	check_own_names(config, report);
	if (whole)
		check_dra_driver(config, report);
	if (r < 0)
		report->incomplete = true;
	if (report->incomplete)
		return -ENOMEM;
	return report->count > before ? -EINVAL : 0;
}
