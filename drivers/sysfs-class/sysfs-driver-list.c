/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the devices of driver "sysfs" and decides which names are unique. Two passes: the first
 * lists the devices and their possible names, the second makes devices, so that a name that belongs
 * to several is used for none of them, independent of the order.
 */
#include <fnmatch.h>

#include "drivers/host/nvme.h"
#include "drivers/host/sysfs-walk.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/declaration.h"
#include "drivers/sysfs-class/sysfs-driver.h"

#define CLASSES "/sys/class"
#define BUSES   "/sys/bus"

static struct candidate *candidate_free(struct candidate *candidate)
{
	if (!candidate)
		return NULL;
	free(candidate->directory);
	free(candidate->subsystem);
	strings_done(&candidate->members);
	free(candidate);
	return NULL;
}
DEFINE_CLEANUP(struct candidate *, candidate_free)

static void candidates_done(struct candidates *candidates)
{
	for (size_t i = 0; i < candidates->count; i++)
		(void)candidate_free(candidates->items[i]);
	free(candidates->items);
	map_done(&candidates->by_directory);
	map_done(&candidates->seen);
}

static int directory_of_group(const char *root, const char *member, char **ret)
{
	_cleanup_free_ char *directory = strdup(member), *own = strdup(member);
	char subsystem[NAME_MAX + 1];

	if (!directory || !own)
		return -ENOMEM;
	while (sysfs_ascend(directory))
		if (sysfs_is_device(root, directory) &&
			sysfs_read_link(root, directory, "subsystem", subsystem) >= 0) {
			*ret = TAKE_PTR(directory);
			return 0;
		}
	*ret = TAKE_PTR(own);
	return 0;
}

static int candidate_get(struct candidates *candidates, const struct sysfs_match *match,
	char *directory, struct candidate **ret)
{
	_cleanup_(candidate_freep) struct candidate *candidate = NULL;
	_cleanup_free_ char *owned = directory;
	int r;

	*ret = map_get(&candidates->by_directory, directory);
	if (*ret)
		return 0;
	r = array_reserve(
		(void **)&candidates->items, candidates->count, sizeof(*candidates->items));
	if (r < 0)
		return r;
	candidate = calloc(1, sizeof(*candidate));
	if (!candidate)
		return -ENOMEM;
	candidate->match = match;
	candidate->directory = TAKE_PTR(owned);
	candidate->subsystem = strdup(candidates->subsystem);
	if (!candidate->subsystem)
		return -ENOMEM;
	r = candidate_make_ids(candidates, candidate);
	if (r < 0)
		return r;
	r = map_put(&candidates->by_directory, candidate->directory, candidate);
	if (r < 0)
		return r;
	*ret = candidates->items[candidates->count++] = TAKE_PTR(candidate);
	return 0;
}

static int add_member(
	struct candidates *candidates, const struct sysfs_match *match, const char *directory)
{
	struct candidate *candidate;
	char *owner = NULL;
	int r;

	if (match->group == GROUP_PARENT)
		r = directory_of_group(scan_root(candidates->scan), directory, &owner);
	else
		r = (owner = strdup(directory)) ? 0 : -ENOMEM;
	if (r >= 0)
		r = candidate_get(candidates, match, owner, &candidate);
	if (r == -EBUSY) {
		scan_note(candidates->scan,
			"%s is left out: the kernel has locked what its id is made of", directory);
		scan_leave_out(candidates->scan, strrchr(directory, '/') + 1,
			"the kernel has locked what its id is made of");
		return 0;
	}
	if (r >= 0)
		r = strings_add(&candidate->members, directory, strlen(directory));
	if (r >= 0) {
		char *member = candidate->members.items[candidate->members.count - 1];

		r = map_put(&candidates->seen, member, candidate);
	}
	return r;
}

/* --- conditions --- */

/* A device of the class or bus that is being searched. */
struct found {
	struct selected selected; /* first, for the conditions of selectors */
	const char *subsystem;
};

/* An entry of `match` is searched for in its own subsystem only. */
static int test_subsystem(const void *entry, void *candidate)
{
	return fnmatch(((const struct sysfs_match *)entry)->subsystem,
		       ((const struct found *)candidate)->subsystem, 0) == 0;
}

static void found_subsystem(
	const void *entry, const void *candidate, char ret_found[static CONDITION_FOUND_MAX])
{
	(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has \"%.64s\"",
		((const struct found *)candidate)->subsystem);
}

/* The link to its driver appears and disappears here. */
static int watch(const struct condition *condition, void *candidate)
{
	const struct selected *selected = candidate;
	int r = scan_watch(selected->scan, selected->directory);

	return r < 0 ? r : 1;
}

static int test_not(const void *entry, void *candidate)
{
	const struct selected *selected = candidate;

	return selectors_match_none(
		selected->scan, &((const struct sysfs_match *)entry)->not, selected->directory);
}

static int test_upwards(const void *entry, void *candidate)
{
	const struct selected *selected = candidate;

	return selectors_match_above(selected->scan, &((const struct sysfs_match *)entry)->upwards,
		selected->directory, true);
}

static int test_parents(const void *entry, void *candidate)
{
	const struct selected *selected = candidate;

	return selectors_match_above(selected->scan, &((const struct sysfs_match *)entry)->parents,
		selected->directory, false);
}

static int test_children(const void *entry, void *candidate)
{
	const struct selected *selected = candidate;

	return selectors_match_below(selected->scan, &((const struct sysfs_match *)entry)->children,
		selected->directory);
}

static const struct condition table[] = {
	{ .key = "subsystem", .test = test_subsystem, .found = found_subsystem },
	SELECTOR_NAME_CONDITIONS,
	{ .read = watch },
	SELECTOR_READ_CONDITIONS,
	{ .key = "not", .test = test_not, .phrase = "meets one of them" },
	{ .key = "upwards", .test = test_upwards, .phrase = "differs, or the devices above it do" },
	{ .key = "parents", .test = test_parents, .phrase = "differs in the devices above it" },
	{ .key = "children", .test = test_children, .phrase = "differs in the devices below it" },
};

const struct conditions sysfs_driver_conditions = CONDITIONS("device", table);

static int match_one(struct candidates *candidates, const struct sysfs_match *match, size_t entry,
	const char *directory)
{
	struct found found = { .subsystem = candidates->subsystem };
	const char *name;
	int r;

	/* It is only a path to a disk, which is found itself. */
	if (streq(candidates->subsystem, "block") &&
		nvme_is_hidden(scan_root(candidates->scan), directory))
		return 0;
	selected_init(&found.selected, candidates->scan, directory);
	name = found.selected.name;
	r = conditions_hold(&sysfs_driver_conditions, match, &found, name,
		scan_tally(candidates->scan, entry, &sysfs_driver_conditions));
	if (r <= 0 || map_get(&candidates->seen, directory))
		return r;
	r = scan_excludes(candidates->scan, candidates->declaration, &sysfs_driver_conditions,
		&found, name, directory);
	return r == 0 ? add_member(candidates, match, directory) : MIN_OF(r, 0);
}

/* Goes through the directory of a class or bus. Returns 0 or negative errno with the error filled.
 */
static int match_all(struct candidates *candidates, const struct sysfs_match *match, size_t entry,
	const char *place, struct error *error)
{
	_cleanup_strings_ struct strings names = { 0 };
	const char *root = scan_root(candidates->scan);
	int r;

	r = scan_watch(candidates->scan, place);
	if (r >= 0)
		r = sysfs_list(root, place, &names);
	if (sysroot_is_absent(r))
		return 0;
	if (r == -EACCES || r == -EPERM) {
		scan_note(candidates->scan, "%s cannot be read, so its content is unknown: %s",
			place, strerror(-r));
		return 0;
	}
	for (size_t i = 0; i < names.count && r >= 0; i++) {
		_cleanup_free_ char *path = NULL, *directory = NULL;

		if (format_text(&path, "%s/%s", place, names.items[i]) < 0)
			return error_set(error, -ENOMEM, "out of memory");
		r = sysfs_resolve(root, path, &directory);
		if (r >= 0)
			r = match_one(candidates, match, entry, directory);
		else if (!sysroot_is_shortage(r))
			/* The device disappeared, or the link leads elsewhere. */
			r = 0;
	}
	return r < 0 ? error_set(error, r, "cannot read %s: %s", place, strerror(-r)) : 0;
}

/* Goes through a class and a bus of that name. */
static int match_subsystem(struct candidates *candidates, const struct sysfs_match *match,
	size_t entry, const char *subsystem, struct error *error)
{
	_cleanup_free_ char *class = NULL, *bus = NULL;
	int r;

	if (format_text(&class, CLASSES "/%s", subsystem) < 0 ||
		format_text(&bus, BUSES "/%s/devices", subsystem) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	candidates->subsystem = subsystem;
	r = match_all(candidates, match, entry, class, error);
	return r < 0 ? r : match_all(candidates, match, entry, bus, error);
}

/* The host's classes and buses that match the pattern, each once. */
static int list_subsystems(const char *root, const char *pattern, struct strings *ret)
{
	static const char *const places[] = { CLASSES, BUSES };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(places) && r >= 0; i++) {
		_cleanup_strings_ struct strings names = { 0 };

		r = sysfs_list(root, places[i], &names);
		if (r < 0 && !sysroot_is_shortage(r))
			r = 0;
		for (size_t k = 0; k < names.count && r >= 0; k++)
			if (fnmatch(pattern, names.items[k], 0) == 0)
				r = strings_add_once(ret, names.items[k]);
	}
	return r;
}

static int find_one(struct candidates *candidates, const struct sysfs_match *match, size_t entry,
	struct error *error)
{
	_cleanup_strings_ struct strings subsystems = { 0 };
	bool pattern = form_is_pattern(match->subsystem);
	int r;

	/* Later entries may belong to another class or bus that matches, and devices below it to
	 * any. */
	r = scan_events(candidates->scan,
		pattern || match->child_nodes || match->children.count > 0 ? NULL
									   : match->subsystem);
	if (r >= 0 && pattern)
		r = list_subsystems(scan_root(candidates->scan), match->subsystem, &subsystems);
	else if (r >= 0)
		r = strings_add(&subsystems, match->subsystem, strlen(match->subsystem));
	if (r < 0)
		return error_set(error, r, "out of memory");
	for (size_t i = 0; i < subsystems.count && r >= 0; i++)
		r = match_subsystem(candidates, match, entry, subsystems.items[i], error);
	if (r >= 0)
		scan_hint(candidates->scan, entry, "none is in " CLASSES "/%s or " BUSES "/%s",
			match->subsystem, match->subsystem);
	return r;
}

static int find(struct candidates *candidates, struct error *error)
{
	const struct groups *matches = &candidates->declaration->match;
	int r = 0;

	for (size_t i = 0; i < matches->count && r >= 0; i++)
		r = find_one(candidates, groups_get(matches, i), i, error);
	return r;
}

/* Whether the candidate keeps its default id: a pod uses it under that id, or it was listed under
 * that id while another device had the declared one. */
static bool has_default_id(const struct candidates *candidates, const struct candidate *candidate)
{
	const struct scan *scan = candidates->scan;
	const struct device *listed;

	return scan_is_booked(scan, candidate->default_id) ||
		(scan_lists(scan, candidate->default_id, &listed) &&
			(candidate->shares_id || scan_lists(scan, candidate->id, &listed)));
}

/* Whether the candidate, one of several with the same id, had the id before the others appeared.
 * After a boot, that is the first candidate if a pod uses the id. */
static bool had_id(const struct candidates *candidates, const struct candidate *candidate)
{
	const struct device *listed;

	if (!scan_lists(candidates->scan, candidate->id, &listed) &&
		!scan_is_booked(candidates->scan, candidate->id))
		return false;
	if (listed)
		return streq(device_variable(listed, "sysfs") ?: "", candidate->directory);
	for (size_t i = 0; candidates->items[i] != candidate; i++)
		if (streq(candidates->items[i]->id, candidate->id) &&
			!has_default_id(candidates, candidates->items[i]))
			return false;
	return true;
}

static int find_shared(struct candidates *candidates)
{
	struct map by_id = { 0 };
	int r = 0;

	for (size_t i = 0; i < candidates->count && r >= 0; i++) {
		struct candidate *candidate = candidates->items[i];
		struct candidate *other = map_get(&by_id, candidate->id);

		if (other)
			candidate->shares_id = other->shares_id = true;
		else
			r = map_put(&by_id, candidate->id, candidate);
	}
	map_done(&by_id);
	return r;
}

/* Gives candidates with the same id their default ids, except the one that had the id before. */
static int settle_ids(struct candidates *candidates)
{
	_cleanup_free_ bool *by_default = calloc(candidates->count + 1, sizeof(*by_default));
	int r = by_default ? find_shared(candidates) : -ENOMEM;

	for (size_t i = 0; i < candidates->count && r >= 0; i++) {
		const struct candidate *candidate = candidates->items[i];

		by_default[i] = has_default_id(candidates, candidate) ||
			(candidate->shares_id && !had_id(candidates, candidate));
	}
	for (size_t i = 0; i < candidates->count && r >= 0; i++) {
		struct candidate *candidate = candidates->items[i];

		if (!by_default[i] || streq(candidate->id, candidate->default_id))
			continue;
		if (candidate->shares_id)
			scan_note(candidates->scan,
				"%s has the id %s, because several devices would be %s",
				candidate->directory, candidate->default_id, candidate->id);
		(void)strcpy(candidate->id, candidate->default_id);
	}
	return r;
}

static void explain_numbers(
	const struct candidates *candidates, const struct sysfs_match *match, size_t entry)
{
	const char *first = NULL;
	size_t count = 0;

	for (size_t i = 0; i < candidates->count; i++) {
		const struct candidate *candidate = candidates->items[i];

		if (candidate->match != match || !candidate->is_numbered ||
			!streq(candidate->id, candidate->default_id))
			continue;
		if (count++ == 0)
			first = strrchr(candidate->directory, '/') + 1;
	}
	scan_explain_numbers(candidates->scan, entry, first, count);
}

static int add_device(const struct candidates *candidates, struct candidate *candidate)
{
	struct device *device;
	int r;

	r = scan_add(candidates->scan, candidate->id, &device);
	if (r == -EEXIST)
		return 0;
	return r < 0 ? r : candidate_describe(candidates, candidate, device);
}

int sysfs_driver_list(const struct declaration *declaration, struct scan *scan, struct error *error)
{
	_cleanup_(candidates_done) struct candidates candidates = {
		.declaration = declaration,
		.scan = scan,
	};
	int r;

	r = find(&candidates, error);
	if (r < 0)
		return r;
	r = settle_ids(&candidates);
	for (size_t i = 0; i < candidates.count && r >= 0; i++)
		r = add_device(&candidates, candidates.items[i]);
	for (size_t i = 0; i < declaration->match.count; i++)
		explain_numbers(&candidates, groups_get(&declaration->match, i), i);
	return r < 0
		? error_set(error, r, "cannot add the devices that were found: %s", strerror(-r))
		: 0;
}
