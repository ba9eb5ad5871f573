/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warns, before a change is applied, of devices that are assigned to pods and that the change would
 * remove. The resource is scanned once here, as its child would do it, to find out which devices it
 * would offer. If the scan fails, there is no warning.
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
	const json_t *state;
	struct map pods;    /* UIDs */
	char *text;         /* the devices */
	size_t size, count; /* of the text; of devices */
	FILE *stream;
};

/* {"namespace", "pod", ...} of a booked id, or NULL. */
static const json_t *find_pod(const json_t *state, const struct kubelet_checkpoint_row *row)
{
	const json_t *resources = json_object_get(state, "resources"), *resource, *holder;
	size_t i, k;

	json_array_foreach(resources, i, resource)
	{
		if (!streq(text_of(resource, "name"), row->resource))
			continue;
		json_array_foreach(json_object_get(resource, "assigned"), k,
			holder) if (streq(text_of(holder, "id"), row->id) &&
			streq(text_of(holder, "container"), row->container)) return holder;
	}
	return NULL;
}

static void add_row(struct warning *warning, const struct kubelet_checkpoint_row *row)
{
	const json_t *pod = find_pod(warning->state, row);
	char name[POD_NAME_MAX + 1];

	(void)map_put(&warning->pods, row->pod_uid, warning);
	if (warning->count++ >= NAMED_MAX)
		return;
	if (pod)
		(void)snprintf(name, sizeof(name), "%s/%s", text_of(pod, "namespace"),
			text_of(pod, "pod"));
	else
		(void)snprintf(name, sizeof(name), "%s", row->pod_uid);
	text_sanitize(name);
	(void)fprintf(warning->stream, "%s%s of %s (pod %s, container %s)",
		warning->count > 1 ? ", " : "", row->id, row->resource, name, row->container);
}

static void add_resource(struct warning *warning, const struct kubelet_checkpoint *checkpoint,
	const struct resource_config *from, const struct resource_config *to)
{
	struct change change = { .from = from, .to = to };
	struct error error;
	bool looked = false;

	if (to && streq(from->text, to->text))
		return;
	for (size_t i = 0; i < checkpoint->count; i++) {
		if (!streq(checkpoint->rows[i].resource, from->declaration.name))
			continue;
		if (to && !looked) {
			(void)scan_once(&from->declaration, &change.before, &error);
			(void)scan_once(&to->declaration, &change.after, &error);
			looked = true;
		}
		if (is_removed(&change, checkpoint->rows[i].id))
			add_row(warning, &checkpoint->rows[i]);
	}
	(void)snapshot_unref(change.before);
	(void)snapshot_unref(change.after);
}

void removed_devices_warn(
	const struct config *from, const struct config *to, const json_t *state, FILE *stream)
{
	_cleanup_kubelet_checkpoint_ struct kubelet_checkpoint *checkpoint = NULL;
	struct warning warning = { .state = state };
	struct error error;

	if (!from ||
		kubelet_checkpoint_read(to->kubelet.device_plugin_dir, &checkpoint, &error) < 0)
		return;
	warning.stream = open_memstream(&warning.text, &warning.size);
	if (!warning.stream)
		return;
	for (size_t i = 0; i < from->n_resources; i++)
		add_resource(&warning, checkpoint, &from->resources[i],
			config_find(to, from->resources[i].declaration.name));
	if (fclose(warning.stream) == 0 && warning.count > 0) {
		(void)fprintf(stream, "warning: %zu pod%s devices that this change removes: %s",
			warning.pods.count, warning.pods.count == 1 ? " holds" : "s hold",
			warning.text);
		if (warning.count > NAMED_MAX)
			(void)fprintf(stream, ", and %zu more", warning.count - NAMED_MAX);
		(void)fputs("\n", stream);
	}
	free(warning.text);
	map_done(&warning.pods);
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
