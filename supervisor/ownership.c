/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over all devices with two tables: who holds a claim, and who has an id. A device that is
 * another's holds nothing, so that a chain of resources settles in one pass, too.
 */
#include "ownership.h"

#include "common/sealed.h"
#include "common/utf8.h"
#include "drivers/device.h"
#include "drivers/map.h"

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
	size_t size, lines;
	int r;

	if (!list)
		return -ENOMEM;
	r = sealed_read(fd, CLAIMS_BYTES_MAX, &list->text, &size);
	if (r < 0)
		return r;
	if (strlen(list->text) != size || !utf8_is_valid(list->text))
		return -EBADMSG;
	lines = count(list->text, '\n');
	list->devices = calloc(lines + 1, sizeof(*list->devices));
	list->pool = calloc(lines + count(list->text, '\t') + 1, sizeof(*list->pool));
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

struct decision {
	struct map claims, ids; /* to the claimant */
};

static void decision_done(struct decision *decision)
{
	map_done(&decision->claims);
	map_done(&decision->ids);
}

/* The claimant that the device belongs to, or NULL: the one that found it. */
static const struct claimant *owner_of(const struct decision *decision,
	const struct claimant *claimant, const struct claims_device *device)
{
	for (const char *const *claim = device->claims; *claim; claim++) {
		const struct claimant *holder = map_get(&decision->claims, *claim);

		if (holder && holder != claimant && !(holder->overlap && claimant->overlap))
			return holder;
	}
	return NULL;
}

static int hold(
	struct decision *decision, struct claimant *claimant, const struct claims_device *device)
{
	for (const char *const *claim = device->claims; *claim; claim++) {
		int r = map_put(&decision->claims, *claim, claimant);

		if (r < 0 && r != -EEXIST)
			return r;
	}
	return 0;
}

/* Notes an id that another resource has for other hardware. Returns 1 if it is one. */
static int check_id(struct decision *decision, struct claimant *claimant, const char *id,
	const struct claimant **ret_other)
{
	const struct claimant *other = map_get(&decision->ids, id);
	int r;

	if (other && other != claimant && !(other->overlap && claimant->overlap)) {
		*ret_other = other;
		return 1;
	}
	r = map_put(&decision->ids, id, claimant);
	return r == -EEXIST ? 0 : r;
}

static int make_note(
	struct claimant *claimant, const char *id, const struct claimant *other, size_t n_more)
{
	char more[64] = "";

	if (n_more > 0)
		(void)snprintf(more, sizeof(more), " (and %zu more such)", n_more);
	if (asprintf(&claimant->note,
		    "the id \"%s\" is also that of another device, of %s%s: the kubelet tells the "
		    "health of devices by their id alone, so rename one",
		    id, other->name, more) < 0) {
		claimant->note = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int decide_for(struct decision *decision, struct claimant *claimant, FILE *owners)
{
	const struct claimant *other = NULL, *first_other = NULL;
	const char *first = NULL;
	size_t n_same = 0;
	int r = 0;

	for (size_t i = 0; i < claimant->list->n_devices && r >= 0; i++) {
		const struct claims_device *device = &claimant->list->devices[i];
		const struct claimant *owner = owner_of(decision, claimant, device);

		if (owner) {
			(void)fprintf(owners, "%s\t%s\n", device->id, owner->name);
			continue;
		}
		r = hold(decision, claimant, device);
		if (r >= 0)
			r = check_id(decision, claimant, device->id, &other);
		if (r > 0 && n_same++ == 0) {
			first = device->id;
			first_other = other;
		}
	}
	return r < 0 || !first ? r : make_note(claimant, first, first_other, n_same - 1);
}

static int decide(struct decision *decision, struct claimant *claimant)
{
	FILE *stream;
	size_t size;
	int r;

	if (!claimant->list)
		return 0;
	stream = open_memstream(&claimant->owners, &size);
	if (!stream)
		return -ENOMEM;
	r = decide_for(decision, claimant, stream);
	if (ferror(stream))
		r = -ENOMEM;
	if (fclose(stream) != 0)
		r = -ENOMEM;
	if (size == 0) {
		free(claimant->owners);
		claimant->owners = NULL;
	}
	return r < 0 ? r : 0;
}

int ownership_decide(struct claimant *claimants, size_t n)
{
	_cleanup_(decision_done) struct decision decision = { 0 };

	for (size_t i = 0; i < n; i++) {
		int r = decide(&decision, &claimants[i]);

		if (r < 0) {
			claimants_done(claimants, n);
			return r;
		}
	}
	return 0;
}

void claimants_done(struct claimant *claimants, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(claimants[i].owners);
		free(claimants[i].note);
		claimants[i].owners = claimants[i].note = NULL;
	}
}
