/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes what a declared resource would find and allocate, for preview and presets. The steps are
 * those of a child, without waiting: one scan, merged into an empty list, is a snapshot, which is
 * all that an allocation needs.
 */
#include "supervisor/ctl/try-out.h"
#include "supervisor/ctl/members.h"

#include "drivers/allocation/allocation-inquiry.h"
#include "drivers/host/scan-run.h"
#include "drivers/inventory/hardware-claims.h"
#include "drivers/inventory/listing.h"
#include "drivers/inventory/units.h"
#include "drivers/model/parameter.h"
#include "supervisor/process/child-user.h"

/* The maximum time for the first answer of a program of driver "exec", and a little more. */
#define TRY_OUT_TIMEOUT (310 * USEC_PER_SEC)

/* The root in the form that a child uses. */
static const char *host_root(const char *root)
{
	return streq(root, "/") ? "" : root;
}

static int pack_devices(const struct snapshot *snapshot, json_t *target)
{
	for (size_t i = 0; i < snapshot->n_units; i++) {
		const struct snapshot_unit *unit = &snapshot->units[i];
		json_t *numa = json_array();

		for (size_t k = 0; k < unit->device->n_numa; k++)
			if (json_array_append_new(numa, json_integer(unit->device->numa[k])) < 0)
				break;
		if (json_array_append_new(target,
			    json_pack("{s:s, s:s, s:s, s:o}", "id", unit->device->id, "health",
				    unit->healthy ? "Healthy" : "Unhealthy", "reason",
				    unit->reason ?: "", "numa", numa)) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int pack_strings(char *const *items, size_t count, json_t *target)
{
	for (size_t i = 0; i < count; i++)
		if (json_array_append_new(target, json_string(items[i])) < 0)
			return -ENOMEM;
	return 0;
}

static int pack_pairs(const struct pair *pairs, size_t count, json_t *target)
{
	for (size_t i = 0; i < count; i++)
		if (json_object_set_new(target, pairs[i].name, json_string(pairs[i].value)) < 0)
			return -ENOMEM;
	return 0;
}

static int pack_nodes(const struct allocation *allocation, json_t *devices, json_t *mounts)
{
	for (size_t i = 0; i < allocation->n_nodes; i++) {
		const struct device_node *node = &allocation->nodes[i];
		json_t *packed;

		if (node->mount)
			packed = json_pack("{s:s, s:s, s:b}", "host_path", node->host,
				"container_path", node->path, "read_only", node->read_only);
		else
			packed = json_pack("{s:s, s:s, s:s}", "host_path", node->host,
				"container_path", node->path, "permissions", node->permissions);
		if (json_array_append_new(node->mount ? mounts : devices, packed) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int pack_allocation(const struct allocation *allocation, json_t **ret)
{
	json_t *devices = json_array(), *mounts = json_array(), *cdi = json_array();
	json_t *envs = json_object(), *annotations = json_object();
	json_auto_t *answer = json_pack("{s:o, s:o, s:o, s:o, s:o}", "devices", devices, "mounts",
		mounts, "envs", envs, "annotations", annotations, "cdi_devices", cdi);

	if (!answer || pack_nodes(allocation, devices, mounts) < 0 ||
		pack_pairs(allocation->env, allocation->n_env, envs) < 0 ||
		pack_pairs(allocation->annotations, allocation->n_annotations, annotations) < 0 ||
		pack_strings(allocation->cdi, allocation->n_cdi, cdi) < 0)
		return -ENOMEM;
	*ret = TAKE_PTR(answer);
	return 0;
}

static int split_ids(const char *text, struct strings *ids)
{
	while (*text) {
		size_t length = strcspn(text, ",");

		if (length > 0 && strings_add(ids, text, length) < 0)
			return -ENOMEM;
		text += length;
		text += strspn(text, ",");
	}
	return 0;
}

static int first_healthy(const struct snapshot *snapshot, struct strings *ids)
{
	char buffer[OFFERED_ID_MAX + 1];

	for (size_t i = 0; i < snapshot->n_units; i++) {
		const char *id;

		if (!snapshot->units[i].healthy)
			continue;
		id = snapshot_offered_id(snapshot, i, 0, buffer);
		return strings_add(ids, id, strlen(id));
	}
	return 0;
}

struct asked {
	sd_event *event;
	int status;
	struct error error;
};

static void on_answers(int status, const struct error *error, void *userdata)
{
	struct asked *asked = userdata;

	asked->status = status;
	if (status < 0)
		asked->error = *error;
	(void)sd_event_exit(asked->event, 0);
}

/* Runs the programs as for a call of the kubelet. */
static int ask_programs(struct inquiry *inquiry, struct error *error)
{
	struct asked asked = { 0 };
	int r;

	r = sd_event_new(&asked.event);
	if (r < 0)
		return error_set(error, r, "cannot set up the event loop: %s", strerror(-r));
	r = inquiry_start(
		inquiry, asked.event, now_usec(CLOCK_MONOTONIC), on_answers, &asked, error);
	if (r >= 0) {
		r = sd_event_loop(asked.event);
		if (r < 0)
			(void)error_set(error, r, "the event loop failed: %s", strerror(-r));
		else if (asked.status < 0)
			*error = asked.error;
		r = r < 0 ? r : asked.status;
	}
	sd_event_unref(asked.event);
	return r;
}

static int note_programs(const struct inquiry *inquiry, json_t *notes)
{
	for (size_t i = 0; i < inquiry_count(inquiry); i++)
		if (json_array_append_new(notes,
			    json_sprintf("%s was not run; use --allocate to include its output",
				    inquiry_program(inquiry, i))) < 0)
			return -ENOMEM;
	return 0;
}

/* The daemon makes the file. */
static int note_metadata(const struct declaration *declaration, json_t *notes)
{
	_cleanup_free_ char *path = NULL;

	if (!declaration->metadata || declaration->serve == SERVE_DRA)
		return 0;
	return allocation_metadata_path(declaration->name, &path) < 0 ||
			json_array_append_new(notes,
				json_sprintf("%s in the container describes its devices", path)) < 0
		? -ENOMEM
		: 0;
}

/* What the container gets depends on its claim. */
static int add_note(json_t *target, struct error *error)
{
	return json_array_append_new(json_object_get(target, "notes"),
		       json_sprintf("what a container gets is not shown: %s", error->message)) < 0
		? error_set(error, -ENOMEM, "out of memory")
		: 0;
}

static int add_answer(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, const char *wanted, bool ask, json_t *target, struct error *error)
{
	_cleanup_allocation_ struct allocation allocation = { 0 };
	_cleanup_(inquiry_freep) struct inquiry *inquiry = NULL;
	_cleanup_strings_ struct strings ids = { 0 };
	json_t *answer, *names = json_array(), *prestart;
	int r;

	if (json_object_set_new(target, "ids", names) < 0 ||
		(wanted ? split_ids(wanted, &ids) : first_healthy(snapshot, &ids)) < 0 ||
		pack_strings(ids.items, ids.count, names) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	if (ids.count == 0)
		return json_object_del(target, "ids");
	r = inquiry_new(declaration, snapshot, host_root(root), (const char *const *)ids.items,
		ids.count, NULL, &inquiry, error);
	if (r >= 0 && !ask && note_programs(inquiry, json_object_get(target, "notes")) < 0)
		r = error_set(error, -ENOMEM, "out of memory");
	if (r >= 0 && ask && inquiry_count(inquiry) > 0)
		r = ask_programs(inquiry, error);
	if (r < 0)
		return r;
	r = allocation_build(declaration, snapshot, root, (const char *const *)ids.items, ids.count,
		inquiry_answers(inquiry), &allocation, error);
	if (r == -ENODATA)
		return add_note(target, error);
	if (r < 0)
		return r;
	if (note_metadata(declaration, json_object_get(target, "notes")) < 0 ||
		pack_allocation(&allocation, &answer) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	prestart = json_array();
	if (json_object_set_new(target, "answer", answer) < 0 ||
		json_object_set_new(answer, "prestart", prestart) < 0 ||
		pack_strings(declaration->prestart.command.items,
			declaration->prestart.command.count, prestart) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	return 0;
}

static void on_driver_change(void *userdata)
{
	bool *changed = userdata;

	*changed = true;
}

/* Scans until all programs of the driver have answered, or one of them has failed. */
static int await_answers(const struct declaration *declaration, const char *root, sd_event *event,
	void *state, bool *changed, struct scan *scan, struct error *error)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC) + TRY_OUT_TIMEOUT, now;
	int r;

	for (;;) {
		if (*changed) {
			*changed = false;
			scan_done(scan);
			*scan = (struct scan){ .root = root, .state = state };
			r = list_devices(declaration, scan, error);
			if (r < 0 || !scan->incomplete || scan->notes.count > 0)
				return r;
		}
		now = now_usec(CLOCK_MONOTONIC);
		if (now >= end)
			return error_set(error, -ETIMEDOUT, "no answer within %llu s",
				TRY_OUT_TIMEOUT / USEC_PER_SEC);
		r = sd_event_run(event, end - now);
		if (r < 0)
			return error_set(error, r, "the event loop failed: %s", strerror(-r));
	}
}

/* Starts the driver like a child, with a loop that runs as long as the driver needs. */
static int list_with_state(const struct declaration *declaration, const char *root,
	struct scan *scan, struct error *error)
{
	bool changed = true;
	struct driver_context context = {
		.declaration = declaration,
		.root = host_root(root),
		.changed = on_driver_change,
		.userdata = &changed,
	};
	void *state = NULL;
	int r;

	r = sd_event_new(&context.event);
	if (r < 0)
		return error_set(error, r, "cannot set up the event loop: %s", strerror(-r));
	r = declaration->driver->start(&context, NULL, &state, error);
	if (r >= 0) {
		r = await_answers(declaration, root, context.event, state, &changed, scan, error);
		(void)declaration->driver->stop(state);
	}
	sd_event_unref(context.event);
	return r;
}

int try_out_list(const struct declaration *declaration, const char *root, struct scan *scan,
	struct error *error)
{
	return declaration->driver->start ? list_with_state(declaration, root, scan, error)
					  : list_devices(declaration, scan, error);
}

static int look(const struct declaration *declaration, const char *root, struct snapshot **ret,
	json_t *notes, struct error *error)
{
	_cleanup_scan_ struct scan scan = { .root = root };
	struct unit_list list = { .declaration = declaration };
	int r;

	r = try_out_list(declaration, root, &scan, error);
	if (r >= 0)
		r = unit_list_merge(&list, &scan, error);
	if (r >= 0 &&
		(pack_strings(scan.notes.items, scan.notes.count, notes) < 0 ||
			pack_strings(scan.explanations.items, scan.explanations.count, notes) < 0 ||
			unit_list_snapshot(&list, NULL, NULL, 0, ret) < 0))
		r = error_set(error, -ENOMEM, "out of memory");
	unit_list_done(&list);
	return r < 0 ? r : 0;
}

int try_out_confine(const char *user, struct error *error)
{
	struct entry_failure failure;
	struct identity identity;
	int r;

	if (geteuid() != 0)
		return 0;
	r = child_user_find_guest(user, &identity, error);
	if (r < 0)
		return r;
	r = entry_confine(&identity, &failure);
	if (r < 0)
		return error_set(error, r, "cannot %s devplugctl itself: %s",
			entry_step_name(failure.step), strerror(-r));
	return 0;
}

int try_out(const struct declaration *declaration, const char *root, const char *ids, bool ask,
	json_t **ret, struct error *error)
{
	json_t *devices = json_array(), *notes = json_array();
	json_auto_t *result = json_pack("{s:i, s:s, s:s, s:o, s:o}", "version", DOCUMENT_VERSION,
		"resource", declaration->name, "driver", declaration->driver->name, "devices",
		devices, "notes", notes);
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	int r;

	if (!result)
		return error_set(error, -ENOMEM, "out of memory");
	r = look(declaration, root, &snapshot, notes, error);
	if (r < 0)
		return r;
	if (pack_devices(snapshot, devices) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	if (declaration->parameters.count > 0 &&
		json_object_set_new(
			result, "parameters", parameters_shown(&declaration->parameters)) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	r = add_answer(declaration, snapshot, root, ids, ask, result, error);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(result);
	return 0;
}

/* The claims of all lines, without the ids in front and without marks. */
static int split_claims(const char *text, struct strings *claims)
{
	for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
		const char *word = line + strcspn(line, "\t\n");

		end = line + strcspn(line, "\n");
		while (word < end) {
			size_t length = strcspn(++word, "\t\n");

			if (is_plain_claim(word) || *word == MARK_OPTIONAL) {
				size_t mark = *word == MARK_OPTIONAL;

				if (strings_add(claims, word + mark, length - mark) < 0)
					return -ENOMEM;
			}
			word += length;
		}
	}
	return 0;
}

/* Why the first unit is unhealthy, if all are; else NULL. */
static int find_problem(const struct snapshot *snapshot, char **ret)
{
	char *copy = NULL;

	for (size_t i = 0; i < snapshot->n_units; i++)
		if (snapshot->units[i].healthy)
			return 0;
	if (snapshot->n_units > 0)
		copy = strdup(snapshot->units[0].reason ?: "");
	if (snapshot->n_units > 0 && !copy)
		return -ENOMEM;
	*ret = copy;
	return 0;
}

int try_out_claims(const struct declaration *declaration, struct scan *scan, struct strings *claims,
	char **ret_problem, struct error *error)
{
	struct unit_list list = { .declaration = declaration };
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	_cleanup_free_ char *text = NULL;
	int r;

	r = unit_list_merge(&list, scan, error);
	if (r >= 0 &&
		(unit_list_snapshot(&list, NULL, NULL, 0, &snapshot) < 0 ||
			hardware_claims_text(declaration, snapshot, scan->root, &text) < 0 ||
			split_claims(text, claims) < 0 || find_problem(snapshot, ret_problem) < 0))
		r = error_set(error, -ENOMEM, "out of memory");
	unit_list_done(&list);
	return r < 0 ? r : 0;
}
