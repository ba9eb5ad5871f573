/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A condition that cannot be looked at does not hold: a device is left out rather than given to the
 * wrong container. What the kernel does not let us read is said, once.
 */
#include "drivers/selector.h"

#include <fnmatch.h>

#include "drivers/sysfs-walk.h"
#include "drivers/udev-database.h"

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
				"must not contain \"..\" as \"%s\" does: \"parents\" is for what "
				"the devices above say",
				value);
	return 0;
}

int form_subsystem(const char *value, struct error *error)
{
	static const char characters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+";

	if (value[strspn(value, characters)])
		return error_set(error, -EINVAL,
			"must be a directory of /sys/class or /sys/bus, such as \"accel\", not "
			"\"%s\"",
			value);
	return 0;
}

int form_device_directory(const char *value, struct error *error)
{
	if (strchr("*?[", value[0]) || startswith(value, "/sys/devices/"))
		return 0;
	return error_set(error, -EINVAL,
		"must be a pattern of a directory below /sys/devices, where the links of /sys/class and "
		"/sys/bus lead, not \"%s\"",
		value);
}

static const struct option attribute_rule_options[] = {
	{
		.key = "file",
		.type = OPTION_STRING,
		.offset = offsetof(struct attribute_rule, file),
		.maximum = 255,
		.check = check_file,
		.help = "File in the device's directory: \"state\", \"device/vendor\".",
	},
	{
		.key = "property",
		.type = OPTION_STRING,
		.offset = offsetof(struct attribute_rule, property),
		.maximum = 255,
		.help = "Instead of a file, a key of the device's uevent file, or a property that "
			"udev's rules gave it, such as \"ID_MODEL\"; \"TAGS\" is "
			"\":first:second:\".",
	},
	{
		.key = "is",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct attribute_rule, is),
		.help = "Shell pattern of what it says; several are alternatives. Whole numbers "
			"are the same however they are written, 0x10 as 16; a file of USB that says 046d "
			"without 0x is text.",
	},
	{
		.key = "is_not",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct attribute_rule, is_not),
		.help = "What it must not say, none of them.",
	},
	{
		.key = "exists",
		.type = OPTION_BOOL,
		.offset = offsetof(struct attribute_rule, exists),
		.default_integer = 1,
		.help = "Whether it must be there at all, or must not.",
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
		.help = "Class or bus it belongs to.",
	},
	SELECTOR_OPTIONS(0),
};

const struct option_table selector_table = {
	.name = "device",
	.shorthand = "subsystem",
	.size = sizeof(struct selector),
	.options = selector_options,
	.count = ARRAY_SIZE(selector_options),
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
				"what is not there says nothing: remove \"is\" and \"is_not\", or "
				"\"exists\"");
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
				"an entry without any condition is met by every device: say what "
				"it is");
		(void)strcat(place, ".");
		attribute_rules_check(&selector->attributes, place, report);
	}
}

bool patterns_match(const struct strings *patterns, const char *text)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (fnmatch(patterns->items[i], text, 0) == 0)
			return true;
	return patterns->count == 0;
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

static int rule_matches(struct scan *scan, const struct attribute_rule *rule, const char *directory)
{
	const char *root = scan_root(scan);
	char value[SYSFS_VALUE_MAX + 1];
	int r;

	r = rule->file ? sysfs_read(root, directory, rule->file, value)
		       : udev_read_property(root, directory, rule->property, value);
	if (r == -ENOMEM)
		return r;
	/* A directory is there as well; what it says nobody can tell. */
	if (r == -EINVAL && rule->file && rule->is.count == 0 && rule->is_not.count == 0)
		return rule->exists;
	if (r == -ENOENT || r == -ENOTDIR || r == -ENODEV)
		return !rule->exists;
	if (r < 0) {
		scan_note(scan, "%s of %s cannot be read, the device is left out: %s",
			rule->file ?: rule->property, directory, strerror(-r));
		return 0;
	}
	return rule->exists && (rule->is.count == 0 || says(&rule->is, value)) &&
		!says(&rule->is_not, value);
}

int attribute_rules_match(struct scan *scan, const struct groups *rules, const char *directory)
{
	for (size_t i = 0; i < rules->count; i++) {
		int r = rule_matches(scan, groups_get(rules, i), directory);

		if (r <= 0)
			return r;
	}
	return 1;
}

static bool driver_matches(const char *root, const struct strings *patterns, const char *directory)
{
	char name[NAME_MAX + 1];

	if (patterns->count == 0)
		return true;
	return (sysfs_read_link(root, directory, "driver", name) >= 0 ||
		       sysfs_read_link(root, directory, "device/driver", name) >= 0) &&
		patterns_match(patterns, name);
}

int selector_matches(struct scan *scan, const struct selector *selector, const char *directory)
{
	const char *root = scan_root(scan);
	char value[SYSFS_VALUE_MAX + 1];

	if (!patterns_match(&selector->name, strrchr(directory, '/') + 1) ||
		!patterns_match(&selector->path, directory))
		return 0;
	if (selector->subsystem &&
		(sysfs_read_link(root, directory, "subsystem", value) < 0 ||
			!streq(value, selector->subsystem)))
		return 0;
	if (selector->devtype.count > 0 &&
		(sysfs_read_uevent(root, directory, "DEVTYPE", value) < 0 ||
			!patterns_match(&selector->devtype, value)))
		return 0;
	if (!driver_matches(root, &selector->driver, directory))
		return 0;
	return attribute_rules_match(scan, &selector->attributes, directory);
}

int selectors_match_above(struct scan *scan, const struct groups *selectors, const char *directory)
{
	for (size_t i = 0; i < selectors->count; i++) {
		_cleanup_free_ char *path = strdup(directory);
		int r = 0;

		if (!path)
			return -ENOMEM;
		while (r == 0 && sysfs_ascend(path))
			if (sysfs_is_device(scan_root(scan), path))
				r = selector_matches(scan, groups_get(selectors, i), path);
		if (r <= 0)
			return r;
	}
	return 1;
}

struct search {
	struct scan *scan;
	const struct selector *selector;
};

static int on_device_below(const char *directory, void *userdata)
{
	const struct search *search = userdata;
	int r = selector_matches(search->scan, search->selector, directory);

	return r > 0 ? SYSFS_WALK_STOP : r;
}

int selectors_match_below(struct scan *scan, const struct groups *selectors, const char *directory)
{
	for (size_t i = 0; i < selectors->count; i++) {
		struct search search = { .scan = scan, .selector = groups_get(selectors, i) };
		int r = sysfs_walk(scan_root(scan), directory, on_device_below, &search);

		if (r == -ENOMEM)
			return r;
		if (r != SYSFS_WALK_STOP)
			return 0;
	}
	return 1;
}
