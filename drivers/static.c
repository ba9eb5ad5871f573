/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists devices that exist because they are configured: licences, slots, tokens. The host is not
 * read. The only possible failure, a list too long for the kubelet, is reported when the
 * configuration is checked.
 */
#include <inttypes.h>

#include "drivers/host/scan.h"
#include "drivers/inventory/list-size.h"
#include "drivers/model/declaration.h"
#include "drivers/model/driver.h"

#define COUNT_MAX     200000
#define NUMA_NODE_MAX 65535

struct static_match {
	struct origin origin;
	char *id;
	int64_t count; /* 0: not given */
	int64_t numa;
};

static int check_id(const char *value, struct error *error)
{
	char id[DEVICE_ID_MAX + 1];

	device_id_make(value, id);
	if (!streq(id, value))
		return error_set(error, -EINVAL,
			"must be at most %d letters, digits and \"._:@+=-\", not \"%s\"",
			DEVICE_ID_MAX, value);
	return 0;
}

static const struct option static_options[] = {
	{
		.key = "id",
		.type = OPTION_STRING,
		.offset = offsetof(struct static_match, id),
		.check = check_id,
		.help = "A device with this id.",
	},
	{
		.key = "count",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct static_match, count),
		.minimum = 1,
		.maximum = COUNT_MAX,
		.unit = "devices",
		.help = "Number of devices. Their ids are made from the name of the resource: gpu-0, gpu-1, ...",
	},
	{
		.key = "numa",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct static_match, numa),
		.minimum = -1,
		.maximum = NUMA_NODE_MAX,
		.default_integer = -1,
		.help = "NUMA node of the devices; -1 is none.",
	},
};

static const struct option_table static_match_table = {
	.name = "match entry",
	.shorthand = "id",
	.size = sizeof(struct static_match),
	.options = static_options,
	.count = ARRAY_SIZE(static_options),
};

/* Id of the `number`th device of an entry. */
static void make_id(const struct declaration *declaration, const struct static_match *match,
	int64_t number, char ret_id[static DEVICE_ID_MAX + 1])
{
	char text[512];

	if (match->id)
		(void)snprintf(text, sizeof(text), "%s", match->id);
	else
		(void)snprintf(
			text, sizeof(text), "%s-%" PRId64, declaration_type(declaration), number);
	device_id_make(text, ret_id);
}

static int64_t match_count(const struct static_match *match)
{
	return match->id ? 1 : match->count;
}

static uint64_t match_size(const struct declaration *declaration, const struct static_match *match)
{
	int numa = (int)match->numa;
	bool has_numa = declaration->topology && numa >= 0;
	char id[DEVICE_ID_MAX + 1];
	uint64_t total = 0;

	for (int64_t i = 0; i < match_count(match); i++) {
		make_id(declaration, match, i, id);
		total += device_list_unit_size(strlen(id), declaration_is_shared(declaration),
			declaration_replicas(declaration, id), &numa, has_numa ? 1 : 0);
	}
	return total;
}

static void static_check_entry(
	const struct declaration *declaration, size_t index, struct report *report)
{
	const struct static_match *match = groups_get(&declaration->match, index), *earlier;

	if (!match->id == (match->count == 0)) {
		(void)report_add(report, &match->origin, "match",
			"an entry has either \"id\" or \"count\", this one has %s",
			match->id ? "both" : "neither");
		return;
	}
	for (size_t i = 0; match->count > 0 && i < index; i++) {
		earlier = groups_get(&declaration->match, i);
		if (earlier->id || earlier->count == 0)
			continue;
		(void)report_add(report, &match->origin, "count",
			"can be set in one entry only, because the ids of each such entry begin with \"%s-0\": set the sum in one entry",
			declaration_type(declaration));
		return;
	}
}

static void static_check(const struct declaration *declaration, struct report *report)
{
	uint64_t size = 0;
	int64_t n = 0;
	struct error error;

	for (size_t i = 0; i < declaration->match.count; i++) {
		const struct static_match *match = groups_get(&declaration->match, i);

		n += match_count(match);
		size += match_size(declaration, match);
	}
	if (declaration->serve != SERVE_DRA && device_list_check((size_t)n, size, &error) < 0)
		(void)report_add(report, &declaration->origin, "match", "%s", error.message);
}

static int static_claims(const struct declaration *declaration, struct strings *ret_claims)
{
	_cleanup_strings_ struct strings claims = { 0 };
	char id[DEVICE_ID_MAX + 1];
	int r;

	for (size_t i = 0; i < declaration->match.count; i++) {
		const struct static_match *match = groups_get(&declaration->match, i);

		for (int64_t k = 0; k < match_count(match); k++) {
			make_id(declaration, match, k, id);
			r = strings_add(&claims, id, strlen(id));
			if (r < 0)
				return r;
		}
	}
	*ret_claims = claims;
	claims = (struct strings){ 0 };
	return 0;
}

static const char *static_without_cdi(const struct declaration *declaration)
{
	return declaration->container.nodes.count > 0 ? NULL : WITHOUT_NODES;
}

struct unit_name {
	const char *id;
	int64_t number; /* of an entry with `count`; -1: the entry has an id */
};

static int test_unit(const void *entry, void *candidate)
{
	const struct static_match *match = entry;
	const struct unit_name *unit = candidate;

	return match->id ? streq(match->id, unit->id)
			 : unit->number >= 0 && unit->number < match->count;
}

/* For entries of `exclude`. */
static const struct condition conditions[] = {
	{ .key = "id", .test = test_unit, .phrase = "differs" },
};

static const struct conditions static_conditions = CONDITIONS("device", conditions);

static int static_list(
	const struct declaration *declaration, struct scan *scan, struct error *error)
{
	char id[DEVICE_ID_MAX + 1];
	int r;

	for (size_t i = 0; i < declaration->match.count; i++) {
		const struct static_match *match = groups_get(&declaration->match, i);

		for (int64_t k = 0; k < match_count(match); k++) {
			struct unit_name unit = { .id = id, .number = match->id ? -1 : k };
			struct device *device;

			make_id(declaration, match, k, id);
			r = scan_excludes(scan, declaration, &static_conditions, &unit, id, id);
			if (r > 0)
				continue;
			if (r >= 0)
				r = scan_add(scan, id, &device);
			if (r == -EEXIST)
				continue;
			if (r >= 0)
				r = device_add_numa(device, (int)match->numa);
			if (r < 0)
				return error_set(error, r, "out of memory");
		}
	}
	return 0;
}

const struct driver static_driver = {
	.name = "static",
	.summary = "named units or a number of tokens, without hardware",
	.match = &static_match_table,
	.without_pci = true,
	.check_entry = static_check_entry,
	.check = static_check,
	.without_cdi = static_without_cdi,
	.claims = static_claims,
	.list = static_list,
};
