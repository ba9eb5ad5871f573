/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a device in /sys meets the conditions of an entry. If a condition cannot be read,
 * neither it nor its negation holds: a device is left out rather than assigned to the wrong
 * container. Each value that may not be read is noted once. A missing value differs from every
 * value, as in udev's enumeration.
 */
#include "drivers/host/selector.h"

#include <fnmatch.h>

#include "drivers/host/sysfs-walk.h"
#include "drivers/host/sysroot.h"
#include "drivers/host/udev-database.h"

static int check_file(const char *value, struct error *error)
{
	if (value[0] == '/')
		return error_set(error, -EINVAL,
			"must name a file in the device's directory, such as \"device/vendor\", "
			"not \"%s\"",
			value);
	for (const char *p = value; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
		if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0'))
			return error_set(error, -EINVAL,
				"must not contain \"..\" as \"%s\" does: use \"parents\" for the "
				"attributes of parent devices",
				value);
	return 0;
}

int form_subsystem(const char *value, struct error *error)
{
	static const char characters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+*?[]!";

	if (value[strspn(value, characters)])
		return error_set(error, -EINVAL,
			"must be a directory of /sys/class or /sys/bus, such as \"accel\", or a "
			"pattern of several, not \"%s\"",
			value);
	return 0;
}

int form_device_directory(const char *value, struct error *error)
{
	if (strchr("*?[", value[0]) || startswith(value, "/sys/devices/"))
		return 0;
	return error_set(error, -EINVAL,
		"must be a pattern of a directory below /sys/devices, the target of links in /sys/class and /sys/bus, not \"%s\"",
		value);
}

static const struct option attribute_rule_options[] = {
	{
		.key = "file",
		.type = OPTION_STRING,
		.offset = offsetof(struct attribute_rule, file),
		.maximum = 255,
		.check = check_file,
		.help = "File in the device's directory: \"state\", \"device/vendor\". With a pattern, as in \"rom*/VBNV\", one of the files must match `is`, and none `is_not`.",
	},
	{
		.key = "property",
		.type = OPTION_STRING,
		.offset = offsetof(struct attribute_rule, property),
		.maximum = 255,
		.help = "Instead of a file, a key of the device's uevent file, or a property from udev's rules, such as \"ID_MODEL\"; \"TAGS\" is \":first:second:\".",
	},
	{
		.key = "is",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct attribute_rule, is),
		.help = "Shell pattern of its value; several are alternatives. Numbers are "
			"compared by value, so 0x10 equals 16; a USB attribute such as 046d, "
			"without 0x, is text.",
	},
	{
		.key = "is_not",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct attribute_rule, is_not),
		.help = "Patterns, none of which its value may match. A device without the "
			"file or property meets this condition; add is = \"*\" to require it.",
	},
	{
		.key = "exists",
		.type = OPTION_BOOL,
		.offset = offsetof(struct attribute_rule, exists),
		.default_integer = 1,
		.help = "Whether the file or property must exist; with false, it must not.",
	},
};

const struct option_table attribute_rule_table = {
	.name = "attribute",
	.shorthand = "file",
	.size = sizeof(struct attribute_rule),
	.options = attribute_rule_options,
	.count = ARRAY_SIZE(attribute_rule_options),
};

static const struct option selector_options[] = {
	{
		.key = "subsystem",
		.type = OPTION_STRING,
		.offset = offsetof(struct selector, subsystem),
		.check = form_subsystem,
		.help = "Its class or bus, or a pattern of several.",
	},
	SELECTOR_OPTIONS(0),
	{
		.key = "exists",
		.type = OPTION_BOOL,
		.offset = offsetof(struct selector, exists),
		.default_integer = 1,
		.help = "Whether such a device must exist; with false, none may.",
	},
};

const struct option_table selector_table = {
	.name = "device",
	.shorthand = "subsystem",
	.size = sizeof(struct selector),
	.options = selector_options,
	.count = ARRAY_SIZE(selector_options),
};

/* Without the last one. */
const struct option_table plain_selector_table = {
	.name = "device",
	.shorthand = "subsystem",
	.size = sizeof(struct selector),
	.options = selector_options,
	.count = ARRAY_SIZE(selector_options) - 1,
};

/* Room for "children[NUMBER].attributes[NUMBER].exists". */
#define KEY_MAX 96

void attribute_rules_check(const struct groups *rules, const char *prefix, struct report *report)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct attribute_rule *rule = groups_get(rules, i);
		bool ambiguous = !rule->file == !rule->property;
		char key[KEY_MAX];

		(void)snprintf(key, sizeof(key), "%sattributes[%zu]%s", prefix, i,
			ambiguous ? "" : ".exists");
		if (ambiguous)
			(void)report_add(report, &rule->origin, key,
				"an entry has either \"file\" or \"property\", this one has %s",
				rule->file ? "both" : "neither");
		else if (!rule->exists && (rule->is.count > 0 || rule->is_not.count > 0))
			(void)report_add(report, &rule->origin, key,
				"an absent file has no value: remove \"is\" and \"is_not\", or "
				"\"exists");
	}
}

void selectors_check(const struct groups *selectors, const char *key, struct report *report)
{
	for (size_t i = 0; i < selectors->count; i++) {
		const struct selector *selector = groups_get(selectors, i);
		char place[KEY_MAX / 2];

		(void)snprintf(place, sizeof(place), "%s[%zu]", key, i);
		if (!selector->subsystem && selector->name.count == 0 &&
			selector->devtype.count == 0 && selector->driver.count == 0 &&
			selector->path.count == 0 && selector->attributes.count == 0)
			(void)report_add(report, &selector->origin, place,
				"an entry without a condition matches every device: add one");
		(void)strcat(place, ".");
		attribute_rules_check(&selector->attributes, place, report);
	}
}

static bool parse_number(const char *text, long long *ret)
{
	bool hexadecimal = startswith(text, "0x") || startswith(text, "0X");
	char *end;

	/* strtoll() would take white space, and signs behind "0x". */
	if (!*text || text[strspn(text, "0123456789abcdefABCDEFxX-")])
		return false;
	errno = 0;
	*ret = strtoll(text, &end, hexadecimal ? 16 : 10);
	return end != text && !*end && errno == 0;
}

static bool says(const struct strings *wanted, const char *value)
{
	for (size_t i = 0; i < wanted->count; i++) {
		long long a, b;

		if (fnmatch(wanted->items[i], value, 0) == 0 ||
			(parse_number(wanted->items[i], &a) && parse_number(value, &b) && a == b))
			return true;
	}
	return false;
}

/* The answer to two conditions. Negative: memory or descriptors are short. */
static int both(int a, int b)
{
	if (a <= CONDITION_FAILS || b <= CONDITION_FAILS)
		return MIN_OF(a, b);
	return MAX_OF(a, b);
}

/* The combined result for the files that a rule names, or for the property. */
struct findings {
	bool exists, is, is_not, unknown;
};

static int find_value(struct scan *scan, const struct attribute_rule *rule, const char *directory,
	const char *file, struct findings *findings)
{
	const char *root = scan_root(scan);
	char value[SYSFS_VALUE_MAX + 1];
	int r;

	r = file ? sysfs_read(root, directory, file, value)
		 : udev_read_property(root, directory, rule->property, value);
	if (sysroot_is_shortage(r))
		return r;
	if (r == -ENOENT || r == -ENOTDIR || r == -ENODEV)
		return 0;
	if (r == -ENODATA && rule->property) {
		scan_note_absent(scan, UDEV_DATABASE,
			"properties of udev's rules are unknown, and devices with conditions on them "
			"are left out");
		findings->unknown = true;
		return 0;
	}
	/* A directory exists, but its value cannot be known. */
	if (r < 0 && !(r == -EINVAL && file && rule->is.count == 0 && rule->is_not.count == 0)) {
		scan_note(scan, "%s of %s cannot be read, the device is left out: %s",
			file ?: rule->property, directory, strerror(-r));
		findings->unknown = true;
		return 0;
	}
	findings->exists = true;
	findings->is |= rule->is.count == 0 || (r >= 0 && says(&rule->is, value));
	findings->is_not |= r >= 0 && says(&rule->is_not, value);
	return 0;
}

static int find_values(struct scan *scan, const struct attribute_rule *rule, const char *directory,
	struct findings *findings)
{
	_cleanup_strings_ struct strings files = { 0 };
	int r;

	if (!rule->file) {
		/* Where udev's events do not arrive, they are in the database later than the
		 * kernel's events. */
		r = *scan_root(scan) ? scan_watch(scan, UDEV_DATABASE) : 0;
		return r < 0 ? r : find_value(scan, rule, directory, NULL, findings);
	}
	r = sysfs_expand(scan_root(scan), directory, rule->file, &files);
	if (sysroot_is_shortage(r))
		return r;
	if (r < 0) {
		scan_note(scan, "%s of %s cannot be listed, the device is left out: %s", rule->file,
			directory, strerror(-r));
		findings->unknown = true;
		return 0;
	}
	for (size_t i = 0; i < files.count && r >= 0; i++)
		r = find_value(scan, rule, directory, files.items[i], findings);
	return r;
}

static int rule_matches(struct scan *scan, const struct attribute_rule *rule, const char *directory)
{
	struct findings findings = { 0 };
	int r;

	r = find_values(scan, rule, directory, &findings);
	if (r < 0)
		return r;
	if (findings.is_not)
		return CONDITION_FAILS;
	if (findings.unknown)
		return CONDITION_UNKNOWN;
	if (!findings.exists)
		return !rule->exists || (rule->is.count == 0 && rule->is_not.count > 0)
			? CONDITION_HOLDS
			: CONDITION_FAILS;
	return rule->exists && findings.is ? CONDITION_HOLDS : CONDITION_FAILS;
}

int attribute_rules_match(struct scan *scan, const struct groups *rules, const char *directory)
{
	int answer = CONDITION_HOLDS;

	for (size_t i = 0; i < rules->count && answer > CONDITION_FAILS; i++)
		answer = both(answer, rule_matches(scan, groups_get(rules, i), directory));
	return answer;
}

bool attribute_rules_near(struct scan *scan, const struct groups *rules, const char *directory)
{
	return rules->count > 1 &&
		rule_matches(scan, groups_get(rules, 0), directory) == CONDITION_HOLDS;
}

void attribute_rules_describe(struct scan *scan, const struct groups *rules, const char *directory,
	char ret_found[static CONDITION_FOUND_MAX])
{
	const char *root = scan_root(scan);

	(void)strcpy(ret_found, "does not meet them");
	for (size_t i = 0; i < rules->count; i++) {
		const struct attribute_rule *rule = groups_get(rules, i);
		const char *name = rule->file ?: rule->property;
		const char *kind = rule->file ? "file" : "property";
		char value[SYSFS_VALUE_MAX + 1];
		int r;

		if (rule_matches(scan, rule, directory) == CONDITION_HOLDS)
			continue;
		r = rule->file ? sysfs_read(root, directory, rule->file, value)
			       : udev_read_property(root, directory, rule->property, value);
		if (r >= 0)
			(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has \"%.64s\" in %s %.40s",
				value, kind, name);
		else if (r == -EBUSY)
			(void)snprintf(ret_found, CONDITION_FOUND_MAX,
				"has %s %.40s, which the kernel has locked", kind, name);
		else
			/* What must not exist may be a directory, which has no value. */
			(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has %s%s %.40s",
				rule->exists ? "no " : "", kind, name);
		return;
	}
}

/* --- a device --- */

void selected_init(struct selected *selected, struct scan *scan, const char *directory)
{
	selected->scan = scan;
	selected->directory = directory;
	selected->name = strrchr(directory, '/') + 1;
}

int selected_read_devtype(const struct condition *condition, void *candidate)
{
	struct selected *selected = candidate;
	int r = sysfs_read_uevent(
		scan_root(selected->scan), selected->directory, "DEVTYPE", selected->texts[0]);

	selected->devtype = r < 0 ? NULL : selected->texts[0];
	return 1;
}

int selected_read_driver(const struct condition *condition, void *candidate)
{
	struct selected *selected = candidate;
	const char *root = scan_root(selected->scan);
	int r;

	r = sysfs_read_link(root, selected->directory, "driver", selected->texts[1]);
	if (r < 0)
		r = sysfs_read_link(root, selected->directory, "device/driver", selected->texts[1]);
	selected->driver = r < 0 ? NULL : selected->texts[1];
	return 1;
}

int selected_test_attributes(const void *entry, void *candidate)
{
	const struct selected *selected = candidate;

	return attribute_rules_match(
		selected->scan, &((const struct selector *)entry)->attributes, selected->directory);
}

void selected_found_attributes(const void *entry, const void *candidate, char *ret_found)
{
	const struct selected *selected = candidate;

	attribute_rules_describe(selected->scan, &((const struct selector *)entry)->attributes,
		selected->directory, ret_found);
}

bool selected_near_attributes(const void *entry, const void *candidate)
{
	const struct selected *selected = candidate;

	return attribute_rules_near(
		selected->scan, &((const struct selector *)entry)->attributes, selected->directory);
}

static int test_subsystem(const void *entry, void *candidate)
{
	const char *pattern = ((const struct selector *)entry)->subsystem;
	const struct selected *selected = candidate;
	char subsystem[NAME_MAX + 1];

	return !pattern ||
		(sysfs_read_link(scan_root(selected->scan), selected->directory, "subsystem",
			 subsystem) >= 0 &&
			fnmatch(pattern, subsystem, 0) == 0);
}

static const struct condition table[] = {
	SELECTOR_NAME_CONDITIONS,
	{ .key = "subsystem", .test = test_subsystem },
	SELECTOR_READ_CONDITIONS,
};

static const struct conditions conditions = CONDITIONS("device", table);

static int answer_of(struct scan *scan, const struct selector *selector, const char *directory)
{
	struct selected selected;

	selected_init(&selected, scan, directory);
	return conditions_answer(&conditions, selector, &selected);
}

int selectors_match_none(struct scan *scan, const struct groups *selectors, const char *directory)
{
	int answer = CONDITION_HOLDS;

	for (size_t i = 0; i < selectors->count && answer > CONDITION_FAILS; i++) {
		int r = answer_of(scan, groups_get(selectors, i), directory);

		answer = both(answer,
			r == CONDITION_HOLDS           ? CONDITION_FAILS
				: r == CONDITION_FAILS ? CONDITION_HOLDS
						       : r);
	}
	return answer;
}

/* A search for a device that meets the conditions. */
struct search {
	struct scan *scan;
	const struct selector *selector;
	bool unknown; /* one that was met may be one */
};

/* Returns whether it is found, or negative errno if memory or descriptors are short. */
static int search_one(struct search *search, const char *directory)
{
	int r = answer_of(search->scan, search->selector, directory);

	if (r == CONDITION_UNKNOWN)
		search->unknown = true;
	return r < 0 ? r : r == CONDITION_HOLDS;
}

/* Whether the result of the search is the wanted one. */
static int search_answer(const struct search *search, bool found)
{
	if (!found && search->unknown)
		return CONDITION_UNKNOWN;
	return found == search->selector->exists ? CONDITION_HOLDS : CONDITION_FAILS;
}

static int match_above(
	struct scan *scan, const struct selector *selector, const char *directory, bool own)
{
	struct search search = { .scan = scan, .selector = selector };
	_cleanup_free_ char *path = strdup(directory);
	int r = 0;

	if (!path)
		return -ENOMEM;
	if (own)
		r = search_one(&search, path);
	while (r == 0 && sysfs_ascend(path))
		if (sysfs_is_device(scan_root(scan), path))
			r = search_one(&search, path);
	return r < 0 ? r : search_answer(&search, r > 0);
}

int selectors_match_above(
	struct scan *scan, const struct groups *selectors, const char *directory, bool own)
{
	int answer = CONDITION_HOLDS;

	for (size_t i = 0; i < selectors->count && answer > CONDITION_FAILS; i++)
		answer = both(answer, match_above(scan, groups_get(selectors, i), directory, own));
	return answer;
}

static int on_device_below(const char *directory, void *userdata)
{
	int r = search_one(userdata, directory);

	return r > 0 ? SYSFS_WALK_STOP : r;
}

int selectors_match_below(struct scan *scan, const struct groups *selectors, const char *directory)
{
	int answer = CONDITION_HOLDS;

	for (size_t i = 0; i < selectors->count && answer > CONDITION_FAILS; i++) {
		struct search search = { .scan = scan, .selector = groups_get(selectors, i) };
		int r = sysfs_walk(scan_root(scan), directory, on_device_below, &search);

		if (sysroot_is_shortage(r))
			return r;
		/* The walk entered its maximum number of directories, so the rest is unknown. */
		search.unknown |= r < 0;
		answer = both(answer, search_answer(&search, r == SYSFS_WALK_STOP));
	}
	return answer;
}
