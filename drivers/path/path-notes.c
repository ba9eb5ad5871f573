/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out where paths hide what they lead to. Equal devices share one link in a directory
 * "by-id", because such a link is made of the maker's name and the serial number, and udev keeps
 * the last one. And matches that are joined by position may not belong together.
 */
#include "common/map.h"
#include "drivers/host/sysfs.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/form.h"
#include "drivers/path/path.h"

#define BY_ID   "/by-id"
#define BY_PATH "/by-path"

/* Nodes that links lead to, each once. */
struct targets {
	struct strings texts;
	struct map has;
};

static void targets_done(struct targets *targets)
{
	map_done(&targets->has);
	strings_done(&targets->texts);
}

/* Takes the path. Returns 1 if it is new, 0 or -ENOMEM. */
static int targets_add(struct targets *targets, char *path)
{
	_cleanup_free_ char *owned = path;
	int r;

	if (map_get(&targets->has, owned))
		return 0;
	r = strings_add(&targets->texts, owned, strlen(owned));
	if (r >= 0)
		r = map_put(&targets->has, targets->texts.items[targets->texts.count - 1], targets);
	return r < 0 ? r : 1;
}

/* Adds the nodes that links in the directory lead to, of names that end so, but for those of
 * `known`. */
static int read_links(const char *root, const char *directory, const char *end,
	const struct targets *known, struct targets *targets)
{
	_cleanup_strings_ struct strings names = { 0 };
	int r;

	r = sysfs_list(root, directory, &names);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	for (size_t i = 0; i < names.count && r >= 0; i++) {
		_cleanup_free_ char *link = NULL;
		size_t length = strlen(names.items[i]), tail = strlen(end);
		char *target;

		if (length < tail || !streq(names.items[i] + length - tail, end))
			continue;
		if (format_text(&link, "%s/%s", directory, names.items[i]) < 0)
			return -ENOMEM;
		r = sysroot_resolve(root, link, &target);
		if (r < 0) {
			r = sysroot_is_shortage(r) ? r : 0;
			continue;
		}
		if (known && map_get(&known->has, target))
			free(target);
		else
			r = targets_add(targets, target);
	}
	return MIN_OF(r, 0);
}

static int compare(struct scan *scan, const char *by_id, const char *by_path, const char *end)
{
	_cleanup_(targets_done) struct targets named = { 0 }, nameless = { 0 };
	const char *root = scan_root(scan);
	char more[64] = "";
	size_t n;
	int r;

	r = scan_watch(scan, by_path);
	if (r >= 0)
		r = read_links(root, by_id, "", NULL, &named);
	if (r >= 0)
		r = read_links(root, by_path, end, &named, &nameless);
	n = nameless.texts.count;
	if (r < 0 || n == 0)
		return r;
	if (n > 1)
		(void)snprintf(more, sizeof(more), " (and %zu more)", n - 1);
	scan_explain(scan,
		"no link in %.80s leads to %.80s%s, as when equal devices share a name: match links in "
		"%.80s, or use driver = \"usb\"",
		by_id, nameless.texts.items[0], more, by_path);
	return 0;
}

int path_note_names(struct scan *scan, const char *pattern)
{
	static const char wild[] = "*?]";
	const char *below = strstr(pattern, BY_ID "/"), *end = pattern + strlen(pattern);
	_cleanup_free_ char *by_id = NULL, *by_path = NULL;
	int length;

	/* Disks without a serial number have no link in by-id, so a missing link means nothing. */
	if (!below || !form_is_pattern(below) || startswith(pattern, "/dev/disk/") ||
		strcspn(pattern, "*?[\\") < (size_t)(below - pattern))
		return 0;
	while (end > below && !strchr(wild, end[-1]))
		end--;
	length = (int)(below - pattern);
	if (format_text(&by_id, "%.*s" BY_ID, length, pattern) < 0 ||
		format_text(&by_path, "%.*s" BY_PATH, length, pattern) < 0)
		return -ENOMEM;
	return compare(scan, by_id, by_path, end);
}

void path_note_counts(struct scan *scan, const struct path_match *match, size_t entry,
	const struct strings *found)
{
	size_t n = path_member_count(match), first = n;
	char counts[128] = "";
	bool differ = false;

	for (size_t i = 0; i < n; i++) {
		const struct path_member *member = path_member_get(match, i);
		size_t used = strlen(counts);

		if (!form_is_pattern(member->path) || member->limit > 1 || found[i].count == 0)
			continue;
		differ = differ || (first < n && found[i].count != found[first].count);
		(void)snprintf(counts + used, sizeof(counts) - used, "%s%zu",
			used > 0 ? " and " : "", found[i].count);
		first = MIN_OF(first, i);
	}
	if (differ)
		scan_note(scan,
			"match[%zu].paths: they match %s paths, which are joined by position, not by what belongs "
			"together: set join = \"number\", or narrower patterns",
			entry, counts);
}
