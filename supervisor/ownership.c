/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which resource owns a device that several match: the first in the order of the
 * configuration. One pass over all devices with two tables: the holder of each claim, and the
 * holder of each id. A device that already belongs to another resource claims nothing here, so one
 * pass is enough even where A overlaps B, and B overlaps C. If a pod has it, it holds its claims
 * all the same, and a second pass reports that to the resources before it. Passes can be
 * interrupted after every claim, because children decide how many there are.
 */
#include "supervisor/ownership.h"

#include "common/map.h"
#include "common/sealed.h"
#include "common/utf8.h"
#include "drivers/model/device.h"

/* --- reading --- */

/* Of a device or a claim: pointers to it, and its place in a table that is half full. */
#define ENTRY_COST 64

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
static int split(struct claims_list *list)
{
	char *line = list->text, *rest;
	size_t used = 0;

	for (; *line; line = rest) {
		struct claims_device *device = &list->devices[list->n_devices];
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
		if (!id_is_valid(device->id))
			return -EBADMSG;
		list->n_devices++;
	}
	return 0;
}

int claims_list_read(int fd, struct claims_list **ret)
{
	_cleanup_(claims_list_freep) struct claims_list *list = calloc(1, sizeof(*list));
	size_t size, lines, tabs;
	int r;

	if (!list)
		return -ENOMEM;
	r = sealed_read(fd, CLAIMS_BYTES_MAX, &list->text, &size);
	if (r < 0)
		return r;
	if (strlen(list->text) != size || !utf8_is_valid(list->text))
		return -EBADMSG;
	lines = count(list->text, '\n');
	tabs = count(list->text, '\t');
	if (lines + tabs > CLAIMS_MAX)
		return -EFBIG;
	list->cost = size + (lines + tabs) * ENTRY_COST;
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

struct claims_list *claims_list_free(struct claims_list *list)
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

/* A device that holds its claims. */
struct holding {
	struct decision *decision;
	const struct claims_device *device;
	const struct decision *kept_by; /* a pod has it from this one; NULL: none */
};

struct ownership {
	struct decision *decisions;
	size_t n;
	struct map claims; /* to the holding */
	struct map ids;    /* to the decision */
	struct holding *holdings;
	size_t n_holdings;

	/* The place of the pass: a decision's device, and the claim that is next. All claims of a
	 * device are searched for first; they are entered only if none is taken. */
	size_t decision, device;
	const char *const *claim; /* NULL: the device is not begun */
	bool holds, contested;
	bool any_kept;
	size_t reported; /* holdings that the second pass has read */

	/* Of the decision: */
	bool begun;
	FILE *owners; /* NULL: nothing is written yet */
	char *text;   /* what is written there in the second pass */
	size_t owners_size;
	const char *first_same; /* an id that another resource has for other hardware */
	const struct decision *first_other;
	size_t n_same;
};

static bool share(const struct decision *a, const struct decision *b)
{
	return a == b || (a->overlap && b->overlap);
}

/* Notes an id that another resource has for other hardware. */
static int hold_id(struct ownership *ownership, struct decision *decision, const char *id)
{
	const struct decision *other = map_get(&ownership->ids, id);
	int r;

	if (other && !share(other, decision)) {
		if (ownership->n_same++ == 0) {
			ownership->first_same = id;
			ownership->first_other = other;
		}
		return 0;
	}
	r = map_put(&ownership->ids, id, decision);
	return r == -EEXIST ? 0 : r;
}

static int make_note(const struct ownership *ownership, struct decision *decision)
{
	char more[64] = "";

	if (ownership->n_same > 1)
		(void)snprintf(more, sizeof(more), " (and %zu more)", ownership->n_same - 1);
	if (asprintf(&decision->note,
		    "the id \"%s\" also belongs to another device, of %s%s: the kubelet tracks "
		    "the health of devices by id alone, so rename one of them",
		    ownership->first_same, ownership->first_other->name, more) < 0) {
		decision->note = NULL;
		return -ENOMEM;
	}
	return 0;
}

static void begin_resource(struct ownership *ownership)
{
	ownership->begun = true;
	ownership->device = 0;
	ownership->claim = NULL;
	ownership->n_same = 0;
}

static int close_owners(struct ownership *ownership)
{
	FILE *stream = TAKE_PTR(ownership->owners);
	bool failed = stream && ferror(stream);

	return stream && (fclose(stream) != 0 || failed) ? -ENOMEM : 0;
}

static int end_resource(struct ownership *ownership, struct decision *decision)
{
	int r = close_owners(ownership);

	if (r < 0)
		return r;
	ownership->begun = false;
	ownership->decision++;
	return ownership->n_same > 0 ? make_note(ownership, decision) : 0;
}

static void end_device(struct ownership *ownership)
{
	ownership->device++;
	ownership->claim = NULL;
}

/* A stream that stays empty would leave a hole of 8 KiB in the heap. */
static int write_owner(
	struct ownership *ownership, struct decision *decision, const char *id, const char *owner)
{
	if (!ownership->owners)
		ownership->owners = open_memstream(&decision->owners, &ownership->owners_size);
	if (!ownership->owners)
		return -ENOMEM;
	(void)fprintf(ownership->owners, "%s\t%s\n", id, owner);
	return 0;
}

/* Who holds the next claim of the device. */
static int look_up(
	struct ownership *ownership, struct decision *decision, const struct claims_device *device)
{
	struct holding *holding = map_get(&ownership->claims, *ownership->claim++);
	int r;

	if (!holding || share(holding->decision, decision))
		return 0;
	if (!ownership->contested) {
		r = write_owner(ownership, decision, device->id, holding->decision->name);
		if (r < 0)
			return r;
	}
	ownership->contested = true;
	if (!bookings_have_unit(decision->booked, device->id)) {
		end_device(ownership);
		return 0;
	}
	ownership->any_kept = true;
	if (!holding->kept_by)
		holding->kept_by = decision;
	return 0;
}

/* One claim of the device, or the device after its last one. */
static int step_device(struct ownership *ownership, struct decision *decision)
{
	const struct claims_device *device = &decision->list->devices[ownership->device];
	int r = 0;

	if (!ownership->claim) {
		ownership->claim = device->claims;
		ownership->holds = ownership->contested = false;
	}
	if (!*ownership->claim && !ownership->holds) {
		ownership->claim = device->claims;
		ownership->holds = true;
		ownership->holdings[ownership->n_holdings++] =
			(struct holding){ .decision = decision, .device = device };
	} else if (!*ownership->claim) {
		r = ownership->contested ? 0 : hold_id(ownership, decision, device->id);
		end_device(ownership);
	} else if (ownership->holds) {
		r = map_put(&ownership->claims, *ownership->claim++,
			&ownership->holdings[ownership->n_holdings - 1]);
		r = r == -EEXIST ? 0 : r;
	} else {
		r = look_up(ownership, decision, device);
	}
	return r;
}

/* --- what pods have --- */

/* Takes what was written as the owners of the last resource. */
static int end_report(struct ownership *ownership, struct decision *decision)
{
	int r = close_owners(ownership);

	if (r < 0)
		return r;
	free(decision->owners);
	decision->owners = TAKE_PTR(ownership->text);
	return 0;
}

/* Reports to the resource of the next holding that a pod has it from another. Holdings are in the
 * order of resources. */
static int step_report(struct ownership *ownership)
{
	struct holding *holding = &ownership->holdings[ownership->reported];
	bool is_end = ownership->reported == ownership->n_holdings;

	if (ownership->owners && (is_end || holding[-1].decision != holding->decision))
		return end_report(ownership, holding[-1].decision);
	ownership->reported++;
	if (is_end || !holding->kept_by)
		return 0;
	if (!ownership->owners) {
		ownership->owners = open_memstream(&ownership->text, &ownership->owners_size);
		if (!ownership->owners)
			return -ENOMEM;
		(void)fputs(holding->decision->owners ?: "", ownership->owners);
	}
	(void)fprintf(ownership->owners, "%s\t%s, where a pod still uses it\n", holding->device->id,
		holding->kept_by->name);
	return 0;
}

static int step(struct ownership *ownership)
{
	struct decision *decision = &ownership->decisions[ownership->decision];

	if (ownership->decision == ownership->n)
		return step_report(ownership);
	if (!decision->list) {
		ownership->decision++;
		return 0;
	}
	if (!ownership->begun)
		begin_resource(ownership);
	if (ownership->device == decision->list->n_devices)
		return end_resource(ownership, decision);
	return step_device(ownership, decision);
}

int ownership_new(struct decision *decisions, size_t n, struct ownership **ret)
{
	_cleanup_(ownership_freep) struct ownership *ownership = calloc(1, sizeof(*ownership));
	size_t n_devices = 0, n_claims = 0;
	int r;

	if (!ownership)
		return -ENOMEM;
	ownership->decisions = decisions;
	ownership->n = n;
	for (size_t i = 0; i < n; i++) {
		n_devices += decisions[i].list ? decisions[i].list->n_devices : 0;
		n_claims += decisions[i].list ? decisions[i].list->n_claims : 0;
	}
	/* Now, because a table that grows takes as long as all that was put into it. */
	ownership->holdings = calloc(n_devices + 1, sizeof(*ownership->holdings));
	r = ownership->holdings ? map_reserve(&ownership->ids, n_devices) : -ENOMEM;
	if (r >= 0)
		r = map_reserve(&ownership->claims, n_claims);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(ownership);
	return 0;
}

static bool is_done(const struct ownership *ownership)
{
	return ownership->decision == ownership->n &&
		(!ownership->any_kept || ownership->reported > ownership->n_holdings);
}

int ownership_run(struct ownership *ownership, size_t n_steps)
{
	for (; !is_done(ownership) && n_steps > 0; n_steps--) {
		int r = step(ownership);

		if (r < 0)
			return r;
	}
	return !is_done(ownership);
}

struct ownership *ownership_free(struct ownership *ownership)
{
	if (!ownership)
		return NULL;
	if (ownership->owners)
		(void)fclose(ownership->owners);
	free(ownership->text);
	free(ownership->holdings);
	map_done(&ownership->claims);
	map_done(&ownership->ids);
	free(ownership);
	return NULL;
}

void decisions_done(struct decision *decisions, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(decisions[i].owners);
		free(decisions[i].note);
		decisions[i].owners = decisions[i].note = NULL;
	}
}
