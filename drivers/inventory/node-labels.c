/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which value a label has. The devices are first grouped by the name that the template has
 * for each of them, because ${n} is the size of such a group; then each group must agree about the
 * value. A label about which devices disagree is left out: any of the values would be wrong.
 */
#include "drivers/inventory/node-labels.h"

#include "drivers/host/device-values.h"
#include "drivers/model/node-label.h"
#include "drivers/model/template.h"

/* Maximum number of names; a file has no room for many more. */
#define NAMES_MAX 1000

/* Devices with one name. */
struct group {
	char name[NODE_LABEL_NAME_MAX + 1];
	const struct device **devices;
	size_t *indexes; /* of the devices in the snapshot */
	size_t count;
};

struct building {
	const struct declaration *declaration;
	const struct snapshot *snapshot;
	const char *root;
	const char *template; /* of the value */
	struct group *groups;
	size_t n_groups;
	size_t left_out; /* devices whose names are too many */
	struct strings lines;
	struct node_labels *labels;
};

static void forget_groups(struct building *building)
{
	for (size_t i = 0; i < building->n_groups; i++) {
		free(building->groups[i].devices);
		free(building->groups[i].indexes);
	}
	free(building->groups);
	building->groups = NULL;
	building->n_groups = 0;
}

_printf_(2, 3) static int add_note(struct building *building, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&text, format, ap);
	va_end(ap);
	return n < 0 ? -ENOMEM : strings_add(&building->labels->notes, text, strlen(text));
}

/* Expands for a device, of a group or of none yet. Returns 0, -ENOENT with the error filled if the
 * device has no value, or -ENOMEM. */
static int expand(struct building *building, const char *template, const struct group *group,
	size_t index, char **ret, struct error *error)
{
	struct device_values values = {
		.root = building->root,
		.device = building->snapshot->units[index].device,
		.index = index,
	};
	const struct template_context context = {
		.name = building->declaration->name,
		.device_value = device_values_get,
		.userdata = &values,
		.devices = group ? group->devices : NULL,
		.n_devices = group ? group->count : 0,
	};
	int r = template_expand(template, &context, ret, error);

	building->labels->busy = building->labels->busy || values.busy;
	return r;
}

/* NULL without memory, or if there are too many. */
static struct group *find_group(struct building *building, const char *name)
{
	struct group *group;

	for (size_t i = 0; i < building->n_groups; i++)
		if (streq(building->groups[i].name, name))
			return &building->groups[i];
	if (building->n_groups == NAMES_MAX ||
		array_reserve((void **)&building->groups, building->n_groups, sizeof(*group)) < 0)
		return NULL;
	group = &building->groups[building->n_groups++];
	*group = (struct group){ 0 };
	(void)snprintf(group->name, sizeof(group->name), "%s", name);
	return group;
}

static int join_group(struct building *building, const char *name, size_t index)
{
	struct group *group = find_group(building, name);

	if (!group && building->n_groups == NAMES_MAX) {
		building->left_out++;
		return 0;
	}
	if (!group ||
		array_reserve((void **)&group->devices, group->count, sizeof(*group->devices)) <
			0 ||
		array_reserve((void **)&group->indexes, group->count, sizeof(*group->indexes)) < 0)
		return -ENOMEM;
	group->devices[group->count] = building->snapshot->units[index].device;
	group->indexes[group->count++] = index;
	return 0;
}

/* Puts each device into the group of its name. */
static int make_groups(struct building *building, const char *template, bool domain)
{
	const struct snapshot *snapshot = building->snapshot;
	bool noted = false;
	int r = 0;

	for (size_t i = 0; i < snapshot->n_units - snapshot->n_placeholders && r >= 0; i++) {
		const struct snapshot_unit *unit = &snapshot->units[i];
		_cleanup_free_ char *text = NULL;
		char name[NODE_LABEL_NAME_MAX + 1];
		struct error error;

		if (!unit->present || unit->of_other_resource)
			continue;
		r = expand(building, template, NULL, i, &text, &error);
		if (r == -ENOMEM)
			return r;
		if (r >= 0) {
			node_label_make(text, domain, name);
			if (node_label_is_declared(name, &building->declaration->labels,
				    building->declaration->name)) {
				r = join_group(building, name, i);
				continue;
			}
			(void)error_set(&error, -EINVAL, "\"%s\" is not a name", name);
		}
		r = noted ? 0
			  : add_note(building, "labels: device %s has no label \"%s\": %s",
				    unit->device->id, template, error.message);
		noted = true;
	}
	return r;
}

static int add_line(struct building *building, const char *name, const char *value)
{
	_cleanup_free_ char *line = NULL;

	for (size_t i = 0; i < building->lines.count; i++) {
		const char *rest = startswith(building->lines.items[i], name);

		if (rest && *rest == '=')
			return add_note(building,
				"labels: two entries have the name \"%s\"; the first one is used",
				name);
	}
	if (format_text(&line, "%s=%s", name, value) < 0)
		return -ENOMEM;
	return strings_add(&building->lines, line, strlen(line));
}

/* Adds the label of the group if all of its devices agree. */
static int add_group(struct building *building, const struct group *group)
{
	char first[NODE_LABEL_NAME_MAX + 1] = "", value[NODE_LABEL_NAME_MAX + 1];

	for (size_t i = 0; i < group->count; i++) {
		_cleanup_free_ char *text = NULL;
		struct error error;
		int r = expand(
			building, building->template, group, group->indexes[i], &text, &error);

		if (r == -ENOMEM)
			return r;
		if (r < 0)
			return add_note(building,
				"labels: \"%s\" is not set, because device %s has no value: %s",
				group->name, group->devices[i]->id, error.message);
		node_label_make(text, false, value);
		if (i == 0)
			(void)strcpy(first, value);
		else if (!streq(first, value))
			return add_note(building,
				"labels: \"%s\" is not set, because device %s has the value \"%s\" and device %s \"%s\"; use the variable in the name, such as \"%s.${...}=true\"",
				group->name, group->devices[0]->id, first, group->devices[i]->id,
				value, group->name);
	}
	return add_line(building, group->name, first);
}

static int add_label(struct building *building, const char *label)
{
	size_t length = declaration_assigned_name(label);
	_cleanup_free_ char *name = strndup(label, length);
	int r;

	if (!name)
		return -ENOMEM;
	building->template = label + length + 1;
	r = make_groups(building, name, node_label_has_domain(label));
	for (size_t i = 0; i < building->n_groups && r >= 0; i++)
		r = add_group(building, &building->groups[i]);
	forget_groups(building);
	return r;
}

/* Lines that a file has no room for are left out. */
static int join_lines(struct building *building)
{
	FILE *stream = open_memstream(&building->labels->text, &(size_t){ 0 });
	size_t size = 0, left_out = building->left_out;
	int r = 0;

	if (!stream)
		return -ENOMEM;
	strings_sort(&building->lines);
	for (size_t i = 0; i < building->lines.count; i++) {
		const char *line = building->lines.items[i];

		if (i >= NAMES_MAX || size + strlen(line) + 1 > NODE_LABELS_SIZE_MAX) {
			left_out++;
			continue;
		}
		size += strlen(line) + 1;
		(void)fprintf(stream, "%s\n", line);
	}
	if (left_out > 0)
		r = add_note(building,
			"labels: %zu are left out, the limit is %d labels and %d KiB", left_out,
			NAMES_MAX, NODE_LABELS_SIZE_MAX >> 10);
	return fclose(stream) != 0 ? -ENOMEM : r;
}

int node_labels_build(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, struct node_labels *ret)
{
	_cleanup_node_labels_ struct node_labels labels = { 0 };
	struct building building = {
		.declaration = declaration,
		.snapshot = snapshot,
		.root = root,
		.labels = &labels,
	};
	int r = 0;

	for (size_t i = 0; i < declaration->labels.count && r >= 0; i++)
		r = add_label(&building, declaration->labels.items[i]);
	if (r >= 0)
		r = join_lines(&building);
	strings_done(&building.lines);
	forget_groups(&building);
	if (r < 0)
		return r;
	*ret = labels;
	labels = (struct node_labels){ 0 };
	return 0;
}

void node_labels_done(struct node_labels *labels)
{
	free(labels->text);
	strings_done(&labels->notes);
}
