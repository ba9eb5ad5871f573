/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warns, before a change is applied, of devices that are assigned to pods and that the change would
 * remove, or move between the device plugin and DRA. The resource is scanned once here, as its
 * child would do it, to find out which devices it would offer. If the scan fails, there is no
 * warning.
 */
#include "supervisor/removal-warning.h"

#include "common/json-read.h"
#include "common/text.h"
#include "drivers/host/scan-run.h"
#include "drivers/inventory/units.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"

/* Named in a warning. */
#define NAMED_MAX 10
/* NAMESPACE/NAME: the longest that Kubernetes has. */
#define POD_NAME_MAX (63 + 1 + 253)
/* How long the kubelet keeps its lock for each pair of a new id and an id in use (1.36). */
#define NSEC_PER_PAIR 100

/* The devices that the resource would offer on this host, or NULL if they are not known. Returns
 * negative errno with the error filled if a scan fails. */
static int scan_once(
	const struct declaration *declaration, struct snapshot **ret, struct error *error)
{
	_cleanup_scan_ struct scan scan = { .root = declaration_root(declaration) };
	struct unit_list list = { .declaration = declaration };
	struct snapshot *snapshot = NULL;
	int r = 0;

	if (!declaration->driver->start) {
		r = declaration->driver->list(declaration, &scan, error);
		if (r >= 0)
			r = unit_list_merge(&list, &scan, error);
		if (r >= 0 && unit_list_snapshot(&list, NULL, NULL, 0, &snapshot) < 0)
			snapshot = NULL;
	}
	unit_list_done(&list);
	if (r < 0)
		return r;
	*ret = snapshot;
	return 0;
}

/* One resource before and after the change; `to` NULL: it is removed. */
struct change {
	const struct resource_config *from, *to;
	struct snapshot *before, *after;
};

/* Without a scan: whether the id alone shows that the device is not offered. */
static bool is_refused(const struct declaration *declaration, const char *id)
{
	_cleanup_free_ char *unit_id = NULL;
	struct device *device = NULL;
	size_t length = strlen(id);
	unsigned replica = 0;
	bool refused;

	if (declaration_is_shared(declaration) && !offered_id_split(id, &length, &replica))
		return true;
	unit_id = strndup(id, length);
	if (!unit_id || device_new(unit_id, &device) < 0)
		return false;
	refused = declaration_excludes(declaration, device) ||
		replica >= declaration_replicas(declaration, unit_id);
	(void)device_unref(device);
	return refused;
}

static bool offers(const struct snapshot *snapshot, const char *id)
{
	unsigned replica;
	size_t unit;

	return snapshot_find(snapshot, id, &unit, &replica) >= 0;
}

/* The kubelet has the id from this resource, so it was offered even where that cannot be seen. */
static bool is_removed(const struct change *change, const char *id)
{
	const struct declaration *from = &change->from->declaration, *to;

	if (!change->to)
		return true;
	to = &change->to->declaration;
	if (change->after)
		return (!change->before || offers(change->before, id)) &&
			!offers(change->after, id);
	return from->driver != to->driver ||
		declaration_is_shared(from) != declaration_is_shared(to) || is_refused(to, id);
}

struct warning {
	struct map pods;    /* UIDs of pods, or of claims */
	char *text;         /* the devices */
	size_t size, count; /* of the text; of devices */
	FILE *stream;
};

static const json_t *find_resource(const json_t *state, const char *name)
{
	const json_t *resources = json_object_get(state, "resources"), *resource;
	size_t i;

	json_array_foreach(resources, i, resource)
	{
		if (streq(text_of(resource, "name"), name))
			return resource;
	}
	return NULL;
}

/* {"namespace", "pod", ...} of an id, or NULL; `container` NULL: of any. */
static const json_t *find_pod(
	const json_t *state, const char *resource, const char *id, const char *container)
{
	const json_t *holders = json_object_get(find_resource(state, resource), "assigned"),
		     *holder;
	size_t i;

	json_array_foreach(holders, i, holder)
	{
		if (streq(text_of(holder, "id"), id) &&
			(!container || streq(text_of(holder, "container"), container)))
			return holder;
	}
	return NULL;
}

static bool begin_entry(
	struct warning *warning, const char *uid, const char *id, const char *resource)
{
	(void)map_put(&warning->pods, uid, warning);
	if (warning->count++ >= NAMED_MAX)
		return false;
	(void)fprintf(warning->stream, "%s%s of %s", warning->count > 1 ? ", " : "", id, resource);
	return true;
}

static void add_row(
	struct warning *warning, const json_t *state, const struct kubelet_checkpoint_row *row)
{
	const json_t *pod = find_pod(state, row->resource, row->id, row->container);
	char name[POD_NAME_MAX + 1];

	if (!begin_entry(warning, row->pod_uid, row->id, row->resource))
		return;
	if (pod)
		(void)snprintf(name, sizeof(name), "%s/%s", text_of(pod, "namespace"),
			text_of(pod, "pod"));
	else
		(void)snprintf(name, sizeof(name), "%s", row->pod_uid);
	text_sanitize(name);
	(void)fprintf(warning->stream, " (pod %s, container %s)", name, row->container);
}

static void add_claim(
	struct warning *warning, const json_t *state, const char *resource, const json_t *claim)
{
	const json_t *pod = find_pod(state, resource, text_of(claim, "id"), NULL);
	char text[4 * POD_NAME_MAX];

	if (!begin_entry(warning, text_of(claim, "uid"), text_of(claim, "id"), resource))
		return;
	if (pod)
		(void)snprintf(text, sizeof(text), "pod %s/%s, container %s",
			text_of(pod, "namespace"), text_of(pod, "pod"), text_of(pod, "container"));
	else
		(void)snprintf(text, sizeof(text), "claim %s/%s", text_of(claim, "namespace"),
			text_of(claim, "name"));
	text_sanitize(text);
	(void)fprintf(warning->stream, " (%s)", text);
}

/* The changes that matter to pods. */
struct warnings {
	const json_t *state;
	struct warning removed, moved;
};

static void add_claims(struct warnings *warnings, const struct resource_config *from,
	const struct resource_config *to)
{
	const char *name = from->declaration.name;
	const json_t *claims = json_object_get(find_resource(warnings->state, name), "claims"),
		     *claim;
	size_t i;

	if (to && to->declaration.serve == SERVE_DRA)
		return;
	json_array_foreach(claims, i, claim)
		add_claim(to ? &warnings->moved : &warnings->removed, warnings->state, name, claim);
}

static void add_resource(struct warnings *warnings, const struct kubelet_checkpoint *checkpoint,
	const struct resource_config *from, const struct resource_config *to)
{
	struct change change = { .from = from, .to = to };
	bool moves = to && to->declaration.serve == SERVE_DRA;
	struct error error;
	bool looked = false;

	if (to && streq(from->text, to->text))
		return;
	for (size_t i = 0; checkpoint && i < checkpoint->count; i++) {
		const struct kubelet_checkpoint_row *row = &checkpoint->rows[i];

		if (!streq(row->resource, from->declaration.name))
			continue;
		if (moves) {
			if (from->declaration.serve != SERVE_DRA)
				add_row(&warnings->moved, warnings->state, row);
			continue;
		}
		if (to && !looked) {
			(void)scan_once(&from->declaration, &change.before, &error);
			(void)scan_once(&to->declaration, &change.after, &error);
			looked = true;
		}
		if (is_removed(&change, row->id))
			add_row(&warnings->removed, warnings->state, row);
	}
	add_claims(warnings, from, to);
	(void)snapshot_unref(change.before);
	(void)snapshot_unref(change.after);
}

static void print(struct warning *warning, const char *what, const char *advice, FILE *stream)
{
	if (warning->stream && fclose(warning->stream) == 0 && warning->count > 0) {
		(void)fprintf(stream, "warning: %zu pod%s devices that this change %s: %s",
			warning->pods.count, warning->pods.count == 1 ? " holds" : "s hold", what,
			warning->text);
		if (warning->count > NAMED_MAX)
			(void)fprintf(stream, ", and %zu more", warning->count - NAMED_MAX);
		(void)fprintf(stream, "%s\n", advice);
	}
	free(warning->text);
	map_done(&warning->pods);
}

void removed_devices_warn(
	const struct config *from, const struct config *to, const json_t *state, FILE *stream)
{
	_cleanup_kubelet_checkpoint_ struct kubelet_checkpoint *checkpoint = NULL;
	struct warnings warnings = { .state = state };
	struct error error;

	if (!from)
		return;
	if (kubelet_checkpoint_read(to->kubelet.device_plugin_dir, &checkpoint, &error) < 0)
		checkpoint = NULL;
	warnings.removed.stream = open_memstream(&warnings.removed.text, &warnings.removed.size);
	warnings.moved.stream = open_memstream(&warnings.moved.text, &warnings.moved.size);
	for (size_t i = 0;
		warnings.removed.stream && warnings.moved.stream && i < from->n_resources; i++)
		add_resource(&warnings, checkpoint, &from->resources[i],
			config_find(to, from->resources[i].declaration.name));
	print(&warnings.removed, "removes", "", stream);
	print(&warnings.moved, "moves between the device plugin and DRA",
		"; each is offered again when its pod has ended", stream);
}

/* --- what is found on this host, and how many ids there are --- */

/* How many ids the kubelet would get in a list. */
static uint64_t count_ids(const struct declaration *declaration, const struct snapshot *snapshot)
{
	uint64_t count = 0;

	for (size_t i = 0; snapshot && declaration->serve != SERVE_DRA && i < snapshot->n_units;
		i++)
		count += snapshot->units[i].replicas;
	return count;
}

int offered_devices_check(const struct config *config, struct report *report, uint64_t *ret_ids)
{
	size_t before = report->count;
	uint64_t count = 0;

	for (size_t i = 0; i < config->n_resources; i++) {
		const struct declaration *declaration = &config->resources[i].declaration;
		_cleanup_snapshot_ struct snapshot *snapshot = NULL;
		struct error error;
		int r = scan_once(declaration, &snapshot, &error);

		/* As inventory_start(): after other failures, the next scan tries again. */
		report->context = declaration->name;
		if (r == -E2BIG || r == -EINVAL)
			(void)report_add(
				report, &declaration->origin, "match", "%s", error.message);
		report->context = NULL;
		count += count_ids(declaration, snapshot);
	}
	if (report->count > before || report->incomplete)
		return -EINVAL;
	*ret_ids = count;
	return 0;
}

void offered_ids_warn(uint64_t count, FILE *stream)
{
	if (count <= OFFERED_IDS_MANY)
		return;
	(void)fprintf(stream,
		"warning: the resources offer %llu ids on this host. After a restart, the kubelet is busy for about %.1f s if 1000 of them are in use, and for %.1f s if all are; lower share.replicas or match fewer devices\n",
		(unsigned long long)count, (double)count * 1000 * NSEC_PER_PAIR / 1e9,
		(double)count * (double)count * NSEC_PER_PAIR / 1e9);
}
