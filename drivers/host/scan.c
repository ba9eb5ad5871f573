/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects what a driver finds in one scan. The scan owns everything until the inventory takes it
 * over, so a scan that fails half way leaves no trace.
 */
#include "common/finding.h"
#include "drivers/host/scan-run.h"
#include "drivers/host/sysfs-locked.h"
#include "drivers/model/declaration.h"

int scan_add(struct scan *scan, const char *id, struct device **ret_device)
{
	_cleanup_device_ struct device *device = NULL;
	int r;

	if (map_get(&scan->by_id, id)) {
		scan_note(scan, "device \"%s\" appears twice; the first is used", id);
		return -EEXIST;
	}
	r = array_reserve((void **)&scan->devices, scan->n_devices, sizeof(*scan->devices));
	if (r < 0)
		return r;
	r = device_new(id, &device);
	if (r < 0)
		return r;
	r = map_put(&scan->by_id, device->id, device);
	if (r < 0)
		return r;
	scan->devices[scan->n_devices++] = device;
	*ret_device = TAKE_PTR(device);
	return 0;
}

int scan_take_node(struct scan *scan, const char *node, const struct device *device,
	const struct device **ret_first)
{
	const struct device *first = map_get(&scan->taken, node);
	int r;

	if (first) {
		*ret_first = first;
		return 1;
	}
	r = strings_add(&scan->taken_names, node, strlen(node));
	return r < 0 ? r
		     : map_put(&scan->taken, scan->taken_names.items[scan->taken_names.count - 1],
			       (void *)(uintptr_t)device);
}

void scan_drop_last(struct scan *scan)
{
	struct device *device = scan->devices[--scan->n_devices];

	(void)map_remove(&scan->by_id, device->id);
	(void)device_unref(device);
}

bool scan_lists(const struct scan *scan, const char *id, const struct device **ret_device)
{
	*ret_device = NULL;
	return scan->lists && scan->lists(scan->userdata, id, ret_device);
}

bool scan_is_booked(const struct scan *scan, const char *id)
{
	return bookings_have_unit(scan->booked, id, BOOKED_EVER);
}

static int watch(
	struct scan *scan, const char *directory, enum watch_kind kind, struct map *watched)
{
	struct watch *watch;
	char *name;
	int r;

	if (!scan->watcher || map_get(watched, directory))
		return 0;
	r = strings_add(&scan->watched_names, directory, strlen(directory));
	if (r < 0)
		return r;
	name = scan->watched_names.items[scan->watched_names.count - 1];
	r = map_put(watched, name, name);
	if (r < 0)
		return r;
	r = array_reserve((void **)&scan->watches, scan->n_watches, sizeof(*scan->watches));
	if (r < 0)
		return r;
	r = watch_add(scan->watcher, directory, kind, scan->on_change, scan->userdata, &watch);
	if (r < 0)
		scan->watch_error = r;
	else
		scan->watches[scan->n_watches++] = watch;
	return 0;
}

int scan_watch(struct scan *scan, const char *directory)
{
	return watch(scan, directory, WATCH_ENTRIES, &scan->watched);
}

int scan_watch_parent(struct scan *scan, const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *directory = NULL;

	if (!slash)
		return 0;
	directory = slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
	return directory ? scan_watch(scan, directory) : -ENOMEM;
}

int scan_watch_content(struct scan *scan, const char *directory)
{
	return watch(scan, directory, WATCH_CONTENT, &scan->watched_content);
}

int scan_cdi(struct scan *scan, const struct declaration *declaration, const struct cdi_files **ret)
{
	const struct strings *configured = &declaration->container.cdi_dirs;
	const char *directory;
	int r = 0;

	for (size_t i = 0; !scan->cdi_read && (directory = cdi_directory(configured, i)); i++) {
		r = scan_watch_content(scan, directory);
		if (r >= 0)
			r = cdi_files_add(&scan->cdi, scan->root, directory);
		if (r < 0)
			return r;
	}
	scan->cdi_read = true;
	*ret = &scan->cdi;
	return 0;
}

static int note_events(struct scan *scan, int r)
{
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		scan->events_error = r;
	return 0;
}

int scan_events(struct scan *scan, const char *subsystem)
{
	return scan->uevents ? note_events(scan, uevents_want(scan->uevents, subsystem)) : 0;
}

int scan_network(struct scan *scan)
{
	return scan->uevents ? note_events(scan, uevents_want_network(scan->uevents)) : 0;
}

const char *scan_root(const struct scan *scan)
{
	return scan->root;
}

void *scan_state(const struct scan *scan)
{
	return scan->state;
}

void scan_incomplete(struct scan *scan)
{
	scan->incomplete = true;
}

int scan_measure(
	struct scan *scan, const char *device, const char *name, unsigned code, uint64_t value)
{
	struct measurements *measurements = &scan->measurements;
	struct measurement *measurement;
	int r;

	r = array_reserve((void **)&measurements->items, measurements->count, sizeof(*measurement));
	if (r < 0)
		return r;
	measurement = &measurements->items[measurements->count++];
	*measurement = (struct measurement){ .name = name, .code = code, .value = value };
	(void)snprintf(measurement->device, sizeof(measurement->device), "%s", device);
	return 0;
}

__attribute__((format(printf, 2, 0))) static void add_text(
	struct strings *texts, const char *format, va_list ap)
{
	char text[800];

	if (texts->count >= SCAN_NOTES_MAX)
		return;
	(void)vsnprintf(text, sizeof(text), format, ap);
	/* If memory is short, the next scan adds the text. */
	if (!strings_contain(texts, text))
		(void)strings_add(texts, text, strlen(text));
}

void scan_note(struct scan *scan, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	add_text(&scan->notes, format, ap);
	va_end(ap);
}

void scan_note_absent(struct scan *scan, const char *directory, const char *consequence)
{
	if (*scan->root)
		scan_note(scan, "host_root %s has no %s, so %s: " REMEDY_MOUNT, scan->root,
			directory, consequence);
	else
		scan_note(scan, "the host has no %s, so %s", directory, consequence);
}

void scan_explain(struct scan *scan, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	add_text(&scan->explanations, format, ap);
	va_end(ap);
}

void scan_explain_numbers(struct scan *scan, size_t entry, const char *first, size_t count)
{
	char more[64] = "";

	if (count > 1)
		(void)snprintf(more, sizeof(more), " and %zu more", count - 1);
	if (count > 0)
		scan_explain(scan,
			"match[%zu]: /sys does not show the hardware behind %s%s, so the name is the id: after a reboot or a change of hardware, it may be another device's. If a tool of the vendor lists UUIDs or addresses, use the driver exec",
			entry, first, more);
}

static struct tally *get_tally(
	struct tally **tallies, size_t *n, size_t entry, const struct conditions *conditions)
{
	while (*n <= entry) {
		if (array_reserve((void **)tallies, *n, sizeof(**tallies)) < 0)
			return NULL;
		(*tallies)[(*n)++] = (struct tally){ 0 };
	}
	if (conditions)
		(*tallies)[entry].conditions = conditions;
	return &(*tallies)[entry];
}

struct tally *scan_tally(struct scan *scan, size_t entry, const struct conditions *conditions)
{
	struct tally *tally = get_tally(&scan->tallies, &scan->n_tallies, entry, conditions);

	if (tally) {
		tally->entry = entry;
		tally->left_out = &scan->left_out;
	}
	return tally;
}

/* Whether the candidate is new to the entry of that number. Drivers ask about a path once for each
 * device that has it, and about a device once for each entry of `match` that selects it. */
static bool is_new_candidate(struct scan *scan, size_t number, const char *key)
{
	_cleanup_free_ char *text = NULL;
	const char *kept;

	if (format_text(&text, "%zu %s", number, key) < 0 || map_get(&scan->counted, text) ||
		strings_add(&scan->counted_keys, text, strlen(text)) < 0)
		return false;
	kept = scan->counted_keys.items[scan->counted_keys.count - 1];
	return map_put(&scan->counted, kept, scan) >= 0;
}

/* The part of the entry that leaves the candidate out, or else the first one. */
static int find_part(const struct conditions *conditions, const void *entry, void *candidate,
	const char *name, const void **ret)
{
	const struct groups *parts = conditions->parts ? conditions->parts(entry) : NULL;
	int r = 0;

	*ret = parts && parts->count > 0 ? groups_get(parts, 0) : entry;
	for (size_t i = 0; parts && i < parts->count && r == 0; i++) {
		r = conditions_exclude(conditions, groups_get(parts, i), candidate, name, NULL);
		if (r > 0)
			*ret = groups_get(parts, i);
	}
	return MIN_OF(r, 0);
}

/* Whether the entry, or one of its parts, leaves the candidate out. Its tally has that number. */
static int entry_excludes(struct scan *scan, size_t number, const struct conditions *conditions,
	const void *entry, void *candidate, const char *name, const char *key)
{
	const void *part;
	int r;

	/* Candidates of another kind leave the tally to those that the entry is about. */
	if (conditions->is_for && !conditions->is_for(entry))
		return 0;
	r = find_part(conditions, entry, candidate, name, &part);
	if (r < 0)
		return r;
	return conditions_exclude(conditions, part, candidate, name,
		is_new_candidate(scan, number, key)
			? get_tally(&scan->exclusions, &scan->n_exclusions, number, conditions)
			: NULL);
}

int scan_excludes(struct scan *scan, const struct declaration *declaration,
	const struct conditions *conditions, void *candidate, const char *name, const char *key)
{
	bool excluded = false;
	size_t n = 0;

	/* Each entry is asked, so that it is known which of them leaves out nothing. */
	for (size_t i = 0; i < declaration->exclude.count; i++) {
		const struct exclusion *exclusion = groups_get(&declaration->exclude, i);

		for (size_t k = 0; k < exclusion->match.count; k++) {
			unsigned refusals = sysfs_locked_refusals();
			int r = entry_excludes(scan, n++, conditions,
				groups_get(&exclusion->match, k), candidate, name, key);

			if (r < 0)
				return r;
			if (r == 0)
				continue;
			excluded = true;
			/* An unknown condition excludes, too; what could not be read is noted. */
			if (sysfs_locked_refusals() == refusals)
				scan_leave_out(scan, name, "exclude[%zu] leaves it out", i);
			else
				scan_leave_out(scan, name,
					"the kernel has locked what exclude[%zu] tests", i);
		}
	}
	return excluded;
}

void scan_hint(struct scan *scan, size_t entry, const char *format, ...)
{
	struct tally *tally = scan_tally(scan, entry, NULL);
	va_list ap;

	if (!tally || *tally->hint)
		return;
	va_start(ap, format);
	(void)vsnprintf(tally->hint, sizeof(tally->hint), format, ap);
	va_end(ap);
}

void scan_leave_out(struct scan *scan, const char *name, const char *format, ...)
{
	char text[DEVICE_PROBLEM_MAX];
	va_list ap;

	if (!left_out_wants(&scan->left_out, name, LEFT_OUT_SURE))
		return;
	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	left_out_add(&scan->left_out, name, LEFT_OUT_SURE, "%s", text);
}

static int compare_devices(const void *a, const void *b)
{
	return strcmp((*(struct device *const *)a)->id, (*(struct device *const *)b)->id);
}

void scan_sort(struct scan *scan)
{
	if (scan->n_devices > 0)
		qsort(scan->devices, scan->n_devices, sizeof(*scan->devices), compare_devices);
}

void scan_done(struct scan *scan)
{
	for (size_t i = 0; i < scan->n_devices; i++)
		(void)device_unref(scan->devices[i]);
	free(scan->devices);
	for (size_t i = 0; i < scan->n_watches; i++)
		(void)watch_free(scan->watches[i]);
	free(scan->watches);
	map_done(&scan->by_id);
	map_done(&scan->taken);
	strings_done(&scan->taken_names);
	map_done(&scan->watched);
	map_done(&scan->watched_content);
	strings_done(&scan->watched_names);
	cdi_files_done(&scan->cdi);
	strings_done(&scan->notes);
	strings_done(&scan->explanations);
	free(scan->tallies);
	free(scan->exclusions);
	map_done(&scan->counted);
	strings_done(&scan->counted_keys);
	left_out_done(&scan->left_out);
	free(scan->measurements.items);
	*scan = (struct scan){ 0 };
}
