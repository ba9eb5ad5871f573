/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the data about bookings into lists: one for each resource, and one for each other name in
 * the data, which belongs to another plugin, or to a resource from before it was removed or
 * renamed.
 */
#include "supervisor/books/booked-lists.h"

#include "common/json-read.h"
#include "common/offered-id.h"
#include "dra/model/dra-names.h"
#include "supervisor/books/dra-claim.h"

/* --- what was forgotten --- */

void forgotten_done(struct forgotten *forgotten)
{
	free(forgotten->resource);
	free(forgotten->id);
	free(forgotten->pod_uid);
}

bool booked_lists_is_forgotten(
	const struct booked *booked, const char *resource, const char *id, const char *pod_uid)
{
	for (size_t i = 0; i < booked->n_forgotten; i++) {
		struct forgotten *forgotten = &booked->forgotten[i];

		if (!streq(forgotten->id, id) || !streq(forgotten->resource, resource) ||
			(pod_uid && !streq(forgotten->pod_uid, pod_uid)))
			continue;
		forgotten->seen = true;
		return true;
	}
	return false;
}

json_t *booked_lists_claims_of(const struct booked *booked, const char *resource)
{
	return booked->manager->dra_claims ? dra_claims_of(booked->manager->dra_claims, resource)
					   : json_array();
}

void booked_lists_drop_forgotten(struct booked *booked)
{
	const struct kubelet_checkpoint *checkpoint = booked->checkpoint;
	size_t kept = 0;

	for (size_t i = 0; i < booked->n_forgotten; i++)
		booked->forgotten[i].seen = false;
	for (size_t i = 0; booked->n_forgotten > 0 && checkpoint && i < checkpoint->count; i++)
		(void)booked_lists_is_forgotten(booked, checkpoint->rows[i].resource,
			checkpoint->rows[i].id, checkpoint->rows[i].pod_uid);
	for (size_t i = 0; booked->n_forgotten > 0 && booked->pods && i < booked->pods->n_devices;
		i++)
		(void)booked_lists_is_forgotten(booked, booked->pods->devices[i].resource,
			booked->pods->devices[i].id, NULL);
	for (size_t i = 0; i < booked->n_forgotten; i++)
		if (booked->forgotten[i].seen)
			booked->forgotten[kept++] = booked->forgotten[i];
		else
			forgotten_done(&booked->forgotten[i]);
	booked->n_forgotten = kept;
}

/* --- all bookings --- */

/* Lists of the bookings of one resource, or of all names that no resource has. */
struct collection {
	const char *resource; /* NULL: of the latter */
	struct bookings *bookings;
	const struct manager *manager;
	struct foreign_bookings *foreign;
	size_t n_foreign;
};

/* The list for the bookings of that name. Returns 0, -ENOENT if there is none, or -ENOMEM. */
static int find_list(struct collection *collection, const char *name, struct bookings **ret)
{
	struct foreign_bookings foreign = { 0 };
	int r;

	if (collection->resource) {
		*ret = collection->bookings;
		return streq(collection->resource, name) ? 0 : -ENOENT;
	}
	if (manager_find_child(collection->manager, name))
		return -ENOENT;
	for (size_t i = 0; i < collection->n_foreign; i++)
		if (streq(collection->foreign[i].resource, name)) {
			*ret = collection->foreign[i].booked;
			return 0;
		}
	r = array_reserve((void **)&collection->foreign, collection->n_foreign, sizeof(foreign));
	if (r >= 0)
		r = bookings_new(&foreign.booked);
	foreign.resource = r < 0 ? NULL : strdup(name);
	if (!foreign.resource) {
		(void)bookings_unref(foreign.booked);
		return -ENOMEM;
	}
	*ret = foreign.booked;
	collection->foreign[collection->n_foreign++] = foreign;
	return 0;
}

static int add_pods(const struct booked *booked, struct collection *collection)
{
	const struct pod_table *pods = booked->pods;
	int r = 0;

	for (size_t i = 0; pods && i < pods->n_devices && r >= 0; i++) {
		const struct pod_device *device = &pods->devices[i];
		const char *node = device->nodes;
		struct bookings *list;
		char *end;

		r = find_list(collection, device->resource, &list);
		if (r == -ENOENT ||
			booked_lists_is_forgotten(booked, device->resource, device->id, NULL)) {
			r = 0;
			continue;
		}
		if (r >= 0)
			r = bookings_add(list, device->id, BOOKED_IN_PLUGIN, NULL, 0, 0);
		for (; *node && r >= 0; node = *end == ',' ? end + 1 : end) {
			int number = (int)strtol(node, &end, 10);

			if (end == node)
				break;
			r = bookings_add(list, device->id, BOOKED_IN_PLUGIN, &number, 1, 0);
		}
	}
	return r;
}

static int add_row(const struct booked *booked, struct collection *collection,
	const struct kubelet_checkpoint_row *row, struct strings *ids)
{
	bool lost = pod_directories_lost(booked->directories, row->pod_uid);
	struct bookings *list;
	int r;

	r = find_list(collection, row->resource, &list);
	if (r == -ENOENT || booked_lists_is_forgotten(booked, row->resource, row->id, row->pod_uid))
		return 0;
	if (r >= 0)
		r = bookings_add(list, row->id, lost ? BOOKED_BY_PLUGIN : BOOKED_IN_PLUGIN,
			&row->node, 1, 0);
	/* A container of a removed pod is not started again with the answer. If the resource
	 * is served by DRA, no list makes the kubelet drop it. */
	if (r >= 0 && collection->resource && !lost)
		r = strings_add(ids, row->id, strlen(row->id));
	return r;
}

static int add_checkpoint(const struct booked *booked, struct collection *collection)
{
	const struct kubelet_checkpoint *checkpoint = booked->checkpoint;
	const struct booked_answer *parts = NULL;
	struct strings ids = { 0 };
	int r = 0;

	for (size_t i = 0; checkpoint && i < checkpoint->count && r >= 0; i++) {
		const struct kubelet_checkpoint_row *row = &checkpoint->rows[i];

		if (collection->resource && ids.count > 0 && row->answer != parts)
			r = bookings_add_answer(collection->bookings, &ids, parts);
		if (ids.count == 0)
			parts = row->answer;
		if (r >= 0)
			r = add_row(booked, collection, row, &ids);
	}
	if (collection->resource && r >= 0)
		r = bookings_add_answer(collection->bookings, &ids, parts);
	strings_done(&ids);
	return r;
}

/* Adds the devices of claims, which are neither in the checkpoint nor among the devices in an
 * answer of PodResources. */
static int add_claims(const struct booked *booked, struct collection *collection)
{
	const struct dra_claims *claims = booked->manager->dra_claims;
	struct dra_claims_cursor cursor = { 0 };
	const json_t *device;
	int r = 0;

	while (claims && r >= 0 &&
		(device = dra_claims_next_device(claims, collection->resource, &cursor))) {
		struct bookings *list;

		r = find_list(collection, text_of(device, "resource"), &list);
		if (r >= 0)
			r = bookings_add(list, text_of(device, "id"),
				dra_claim_is_admin(device) ? BOOKED_BY_ADMIN : BOOKED_BY_CLAIM,
				NULL, 0, 0);
		r = r == -ENOENT ? 0 : r;
	}
	if (r >= 0 && collection->resource && claims)
		r = dra_claims_add_answers(claims, collection->resource, collection->bookings);
	return r;
}

static int add_all(const struct booked *booked, struct collection *collection)
{
	int r = add_checkpoint(booked, collection);

	if (r >= 0)
		r = add_pods(booked, collection);
	return r < 0 ? r : add_claims(booked, collection);
}

int booked_lists_collect(const struct booked *booked, const char *resource, struct bookings **ret)
{
	_cleanup_bookings_ struct bookings *bookings = NULL;
	struct collection collection = { .resource = resource };
	int r;

	r = bookings_new(&bookings);
	collection.bookings = bookings;
	if (r >= 0)
		r = add_all(booked, &collection);
	if (r >= 0)
		r = bookings_sort(bookings);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(bookings);
	return 0;
}

int booked_lists_collect_foreign(
	const struct booked *booked, struct foreign_bookings **ret, size_t *ret_n)
{
	struct collection collection = { .manager = booked->manager };
	int r = add_all(booked, &collection);

	for (size_t i = 0; i < collection.n_foreign && r >= 0; i++)
		r = bookings_sort(collection.foreign[i].booked);
	if (r < 0) {
		foreign_bookings_free(collection.foreign, collection.n_foreign);
		return r;
	}
	*ret = collection.foreign;
	*ret_n = collection.n_foreign;
	return 0;
}

/* --- who uses a device --- */

static int add_claim_users(const struct booked *booked, const char *resource, const char *id,
	const char *offered, struct strings *all, struct strings *live, bool *ret_admin)
{
	json_auto_t *rows = booked_lists_claims_of(booked, resource);
	int r = rows ? 0 : -ENOMEM;
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		char user[sizeof(BOOKED_CLAIM) + DRA_CLAIM_ID_MAX];
		const char *held = text_of(row, "id");

		if (r < 0 || !offered_id_is_of(held, id) || (offered && !streq(offered, held)))
			continue;
		if (json_is_true(json_object_get(row, "admin"))) {
			*ret_admin = true;
			continue;
		}
		(void)snprintf(user, sizeof(user), BOOKED_CLAIM "%s", text_of(row, "uid"));
		r = strings_add_once(all, user);
		if (r >= 0)
			r = strings_add_once(live, user);
	}
	return r;
}

int booked_users(const struct booked *booked, const char *resource, const char *id,
	const char *offered, struct strings *all, struct strings *live, bool *ret_admin)
{
	const struct kubelet_checkpoint *checkpoint = booked->checkpoint;
	int r = 0;

	if (booked->problem < 0 && booked->problem != -ENOENT)
		return -EAGAIN;
	for (size_t i = 0; checkpoint && i < checkpoint->count && r >= 0; i++) {
		const struct kubelet_checkpoint_row *row = &checkpoint->rows[i];

		if (!streq(row->resource, resource) || !offered_id_is_of(row->id, id) ||
			(offered && !streq(offered, row->id)))
			continue;
		r = strings_add_once(all, row->pod_uid);
		if (r >= 0 && !pod_directories_lost(booked->directories, row->pod_uid) &&
			!booked_lists_is_forgotten(booked, resource, row->id, row->pod_uid))
			r = strings_add_once(live, row->pod_uid);
	}
	return r < 0 ? r : add_claim_users(booked, resource, id, offered, all, live, ret_admin);
}

static bool name_pod(
	const struct booked *booked, const char *resource, const char *id, char *ret, size_t size)
{
	const struct kubelet_checkpoint *checkpoint = booked->checkpoint;

	for (size_t i = 0; checkpoint && i < checkpoint->count; i++) {
		const struct kubelet_checkpoint_row *row = &checkpoint->rows[i];
		const json_t *pod;

		if (!streq(row->resource, resource) || !offered_id_is_of(row->id, id))
			continue;
		pod = pod_directories_find(booked->directories, row->pod_uid);
		if (!pod)
			continue;
		(void)snprintf(ret, size, "%s/%s", text_of(pod, "namespace"), text_of(pod, "pod"));
		return true;
	}
	return false;
}

void booked_name_user(
	const struct booked *booked, const char *resource, const char *id, char *ret, size_t size)
{
	json_auto_t *rows = booked_lists_claims_of(booked, resource);
	const json_t *row;
	size_t i;

	(void)snprintf(ret, size, "a pod");
	if (name_pod(booked, resource, id, ret, size))
		return;
	json_array_foreach(rows, i, row)
	{
		if (json_is_true(json_object_get(row, "admin")) ||
			!offered_id_is_of(text_of(row, "id"), id))
			continue;
		(void)snprintf(ret, size, "the claim %s/%s", text_of(row, "namespace"),
			text_of(row, "name"));
		return;
	}
}
