/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which resource owns a device that several match: the first in the order of the
 * configuration. One pass over all devices with two tables: the owner of each claim, and the
 * resource of each id. A device that already belongs to another resource claims nothing here, so
 * one pass is enough even where A overlaps B, and B overlaps C. If it is assigned to a pod, it owns
 * its claims nevertheless, which is reported to the earlier resources at the end.
 */
#include "supervisor/ownership/ownership.h"

#include "common/map.h"
#include "common/sealed.h"
#include "common/utf8.h"

/* --- reading --- */

static size_t count(const char *text, char c)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == c;
	return n;
}

static bool id_is_valid(const char *id)
{
	char valid[DEVICE_ID_MAX + 1];

	device_id_make(id, valid);
	return streq(id, valid);
}

/* Cuts the text into its parts. */
static int split(struct hardware_claims *list)
{
	char *line = list->text, *rest;
	size_t used = 0;

	for (; *line; line = rest) {
		struct hardware_device *device = &list->devices[list->n_devices];
		char *tab;

		rest = strchr(line, '\n');
		if (!rest)
			return -EBADMSG;
		*rest++ = '\0';
		device->id = line;
		device->claims = &list->pool[used];
		while ((tab = strchr(line, '\t'))) {
			*tab = '\0';
			line = tab + 1;
			list->pool[used++] = line;
			list->n_claims++;
		}
		list->pool[used++] = NULL;
		if (!id_is_valid(device->id) || !device->claims[0])
			return -EBADMSG;
		list->n_devices++;
	}
	return 0;
}

int hardware_claims_read(int fd, size_t max_claims, size_t max_bytes, struct hardware_claims **ret)
{
	_cleanup_(hardware_claims_freep) struct hardware_claims *list = calloc(1, sizeof(*list));
	size_t lines, tabs;
	int r;

	if (!list)
		return -ENOMEM;
	r = sealed_read(fd, max_bytes, &list->text, &list->size);
	if (r < 0)
		return r;
	if (strlen(list->text) != list->size || !utf8_is_valid(list->text))
		return -EBADMSG;
	lines = count(list->text, '\n');
	tabs = count(list->text, '\t');
	if (lines > tabs)
		return -EBADMSG;
	if (tabs > max_claims)
		return -EFBIG;
	list->devices = calloc(lines + 1, sizeof(*list->devices));
	list->pool = calloc(lines + tabs + 1, sizeof(*list->pool));
	if (!list->devices || !list->pool)
		return -ENOMEM;
	r = split(list);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(list);
	return 0;
}

struct hardware_claims *hardware_claims_free(struct hardware_claims *list)
{
	if (!list)
		return NULL;
	free(list->pool);
	free(list->devices);
	free(list->text);
	free(list);
	return NULL;
}

/* --- deciding --- */

/* A device that owns its claims. */
struct owner {
	struct decision *decision;
	const struct hardware_device *device;
	const struct decision *kept_by; /* the resource that assigned it to a pod; NULL: none */
};

struct tables {
	struct map claims; /* to the owner */
	struct map ids;    /* to the decision */
	struct owner *owners;
	size_t n_owners;
};

static bool share(const struct decision *a, const struct decision *b)
{
	return a == b || (a->overlap && b->overlap);
}

/* A stream that stays empty would leave a hole of 8 KiB in the heap. */
static int write_owner(
	struct decision *decision, const char *id, const struct decision *owner, const char *more)
{
	if (!decision->stream)
		decision->stream = open_memstream(&decision->owners, &decision->size);
	if (!decision->stream)
		return -ENOMEM;
	(void)fprintf(decision->stream, "%s\t%s%s\n", id, owner->name, more);
	return 0;
}

/* Reports the owners of the device's claims. Returns whether the device belongs to another
 * resource, or -ENOMEM; `ret_owns`: it owns its claims, because there is no other owner, or it is
 * assigned to a pod. */
static int find_owner(const struct tables *tables, struct decision *decision,
	const struct hardware_device *device, bool *ret_owns)
{
	bool booked = bookings_have_unit(decision->booked, device->id), contested = false;

	for (const char *const *claim = device->claims; *claim; claim++) {
		struct owner *owner = map_get(&tables->claims, *claim);

		if (!owner || share(owner->decision, decision))
			continue;
		if (!contested && write_owner(decision, device->id, owner->decision, "") < 0)
			return -ENOMEM;
		contested = true;
		if (!booked)
			break;
		owner->kept_by = owner->kept_by ?: decision;
	}
	*ret_owns = !contested || booked;
	return contested;
}

/* `first`: the first id that another resource uses for other hardware, `n`: how many there are. */
static int make_note(
	struct decision *decision, const char *first, const struct decision *other, size_t n)
{
	char more[64] = "";

	if (n == 0)
		return 0;
	if (n > 1)
		(void)snprintf(more, sizeof(more), " (and %zu more)", n - 1);
	return format_text(&decision->note,
		"the id \"%s\" also belongs to another device, of %s%s: the kubelet tracks "
		"the health of devices by id alone, so rename one of them",
		first, other->name, more);
}

static int take(
	struct tables *tables, struct decision *decision, const struct hardware_device *device)
{
	struct owner *owner = &tables->owners[tables->n_owners++];
	int r = 0;

	*owner = (struct owner){ .decision = decision, .device = device };
	for (const char *const *claim = device->claims; *claim && r >= 0; claim++) {
		r = map_put(&tables->claims, *claim, owner);
		r = r == -EEXIST ? 0 : r;
	}
	return r;
}

static int decide(struct tables *tables, struct decision *decision)
{
	const struct decision *other = NULL;
	const char *first = NULL;
	size_t n_same = 0;

	for (size_t i = 0; decision->list && i < decision->list->n_devices; i++) {
		const struct hardware_device *device = &decision->list->devices[i];
		const struct decision *same;
		bool owns;
		int contested = find_owner(tables, decision, device, &owns);

		if (contested < 0 || (owns && take(tables, decision, device) < 0))
			return -ENOMEM;
		if (contested)
			continue;
		same = map_get(&tables->ids, device->id);
		if (same && !share(same, decision)) {
			first = first ?: device->id;
			other = other ?: same;
			n_same++;
		} else if (map_put(&tables->ids, device->id, decision) == -ENOMEM) {
			return -ENOMEM;
		}
	}
	return make_note(decision, first, other, n_same);
}

/* Reports devices that another resource has assigned to pods. */
static int report_kept(const struct tables *tables)
{
	int r = 0;

	for (size_t i = 0; i < tables->n_owners && r >= 0; i++) {
		const struct owner *owner = &tables->owners[i];

		if (owner->kept_by)
			r = write_owner(owner->decision, owner->device->id, owner->kept_by,
				", where a pod still uses it");
	}
	return r;
}

static int close_stream(struct decision *decision)
{
	FILE *stream = TAKE_PTR(decision->stream);
	bool failed = stream && ferror(stream);

	return stream && (fclose(stream) != 0 || failed) ? -ENOMEM : 0;
}

int ownership_decide(struct decision *decisions, size_t n)
{
	struct tables tables = { 0 };
	size_t n_devices = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		n_devices += decisions[i].list ? decisions[i].list->n_devices : 0;
	tables.owners = calloc(n_devices + 1, sizeof(*tables.owners));
	if (!tables.owners)
		return -ENOMEM;
	for (size_t i = 0; i < n && r >= 0; i++)
		r = decide(&tables, &decisions[i]);
	if (r >= 0)
		r = report_kept(&tables);
	for (size_t i = 0; i < n; i++)
		if (close_stream(&decisions[i]) < 0)
			r = -ENOMEM;
	if (r < 0)
		decisions_done(decisions, n);
	free(tables.owners);
	map_done(&tables.claims);
	map_done(&tables.ids);
	return r;
}

void decisions_done(struct decision *decisions, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(decisions[i].owners);
		free(decisions[i].note);
		decisions[i].owners = decisions[i].note = NULL;
	}
}
