/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets an administrator declare bookings wrong: they count as none until the data that contain them
 * change.
 */
#include "common/control-child.h"
#include "common/json-read.h"
#include "drivers/model/device.h"
#include "supervisor/books/booked-lists.h"
#include "supervisor/children/child.h"
#include "supervisor/control/request.h"

static int forget(struct booked *booked, const char *resource, const char *id, const char *pod_uid,
	json_t *ids)
{
	struct forgotten forgotten;

	if (booked_lists_is_forgotten(booked, resource, id, pod_uid))
		return 0;
	forgotten = (struct forgotten){
		.resource = strdup(resource),
		.id = strdup(id),
		.pod_uid = strdup(pod_uid ?: ""),
	};
	if (!forgotten.resource || !forgotten.id || !forgotten.pod_uid ||
		json_array_append_new(ids, json_string(id)) < 0 ||
		array_reserve((void **)&booked->forgotten, booked->n_forgotten, sizeof(forgotten)) <
			0) {
		forgotten_done(&forgotten);
		return -ENOMEM;
	}
	booked->forgotten[booked->n_forgotten++] = forgotten;
	return 0;
}

/* Whether the device of a resource may be in use under that name: its own, or one that no resource
 * has. */
static bool counts_for(const struct booked *booked, const char *name, const char *resource)
{
	return streq(name, resource) || !manager_find_child(booked->manager, name);
}

static int forget_all(struct booked *booked, const char *resource, const char *device, json_t *ids)
{
	const struct kubelet_checkpoint *checkpoint = booked->checkpoint;
	const struct pod_table *pods = booked->pods;
	int r = 0;

	for (size_t i = 0; checkpoint && i < checkpoint->count && r >= 0; i++)
		if (counts_for(booked, checkpoint->rows[i].resource, resource) &&
			offered_id_is_of(checkpoint->rows[i].id, device))
			r = forget(booked, checkpoint->rows[i].resource, checkpoint->rows[i].id,
				checkpoint->rows[i].pod_uid, ids);
	for (size_t i = 0; pods && i < pods->n_devices && r >= 0; i++)
		if (counts_for(booked, pods->devices[i].resource, resource) &&
			offered_id_is_of(pods->devices[i].id, device))
			r = forget(
				booked, pods->devices[i].resource, pods->devices[i].id, NULL, ids);
	return r;
}

/* A claim may have several shares of a device. */
static bool is_repeated(json_t *done, const json_t *row)
{
	_cleanup_free_ char *key = NULL;

	if (format_text(&key, "%s\t%s\t%s\t%s", text_of(row, "driver"), text_of(row, "uid"),
		    text_of(row, "resource"), text_of(row, "id")) < 0 ||
		json_object_get(done, key))
		return true;
	return json_object_set_new(done, key, json_true()) < 0;
}

static int forget_claimed(struct booked *booked, const char *resource, const char *device,
	json_t *ids, struct error *error)
{
	json_auto_t *rows = booked_lists_claims_of(booked, NULL);
	json_auto_t *done = json_object();
	const json_t *row;
	int r = 0;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const char *id = text_of(row, "id"), *name = text_of(row, "resource");

		if (r < 0 || !offered_id_is_of(id, device) || !counts_for(booked, name, resource) ||
			is_repeated(done, row))
			continue;
		r = dra_claims_forget(booked->manager->dra_claims, text_of(row, "driver"),
			text_of(row, "uid"), name, id, error);
		if (r >= 0 && json_array_append_new(ids, json_string(id)) < 0)
			r = error_set(error, -ENOMEM, "out of memory");
	}
	return r;
}

int forget_request(struct request *request, json_t **ret_answer, struct error *error)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_FORGET);
	struct booked *booked = request->manager->booked;
	const char *resource, *device;
	struct child *child;
	json_auto_t *ids = json_array();
	uint64_t written_at;
	int r;

	r = request_string(request, "resource", &resource, error);
	if (r >= 0)
		r = request_string(request, "device", &device, error);
	if (r < 0)
		return r;
	child = resource ? manager_find_child(request->manager, resource) : NULL;
	if (!child)
		return error_set(error, -ENOENT, "there is no resource \"%s\"", resource ?: "");
	if (!device || !*device || strlen(device) >= sizeof(message.text))
		return error_set(error, -EINVAL, "\"device\" is not a device of the resource");
	(void)booked_checkpoint(booked, &written_at);
	r = ids ? forget_all(booked, resource, device, ids) : -ENOMEM;
	if (r < 0)
		return error_set(error, r, "out of memory");
	r = forget_claimed(booked, resource, device, ids, error);
	if (r >= 0 && json_array_size(ids) == 0)
		r = error_set(error, -ENOENT,
			"neither the kubelet's data nor a claim assigns \"%s\" of %s to a pod; "
			"\"devplugctl devices %s\" lists the devices",
			device, resource, resource);
	if (r < 0)
		return r;
	(void)snprintf(message.text, sizeof(message.text), "%s", device);
	booked_resources_changed(booked);
	if (child->process.pid > 0)
		r = booked_send(booked, child);
	if (r >= 0 && child->process.pid > 0)
		r = control_send(child->process.control_fd, &message);
	if (r < 0)
		return error_set(
			error, r, "cannot send to the child of %s: %s", resource, strerror(-r));
	log_full(LOG_NOTICE, &(struct log_fields){ .resource = resource, .device = device },
		"device \"%s\" counts as not assigned to a pod: forgotten on request", device);
	*ret_answer = json_pack("{s:O}", "forgotten", ids);
	return *ret_answer ? 0 : error_set(error, -ENOMEM, "out of memory");
}
