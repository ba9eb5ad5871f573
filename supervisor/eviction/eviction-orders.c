/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which pods use a device, and so what devplugd-cluster is to do. A pod counts if the
 * kubelet names it now; its UID is from the kubelet's checkpoint, so that another pod of the same
 * name is not evicted. Claims are left to devplugd-cluster, which reads them. Also takes the
 * results.
 */
#include "supervisor/eviction/eviction-orders.h"

#include "common/json-read.h"
#include "common/message-id.h"
#include "common/offered-id.h"
#include "common/sealed.h"
#include "common/text.h"
#include "dra/model/eviction-order.h"
#include "supervisor/books/booked.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/books/pod-resources.h"
#include "supervisor/children/auxiliary.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"

#define RESULTS_SIZE_MAX (1U << 20)
#define RESULTS_MAX      4096

/* --- orders --- */

/* What is being collected. */
struct collection {
	const struct evicting *evicting;
	const struct child *child;
	const struct declaration *declaration;
	const struct eviction_failure *failure;
	json_t *pods, *claims;
	int r;
};

/* The pod with that name that has the device, as far as it is listed already. */
static json_t *find_pod(const struct collection *collection, const struct pod_container *container)
{
	json_t *pod;
	size_t i;

	json_array_foreach(collection->pods, i, pod)
	{
		if (streq(text_of(pod, "namespace"), container->namespace) &&
			streq(text_of(pod, "name"), container->pod) &&
			streq(text_of(pod, "resource"), collection->evicting->resource) &&
			streq(text_of(pod, "device"), collection->failure->device))
			return pod;
	}
	return NULL;
}

static json_t *make_order(const struct collection *collection)
{
	const struct declaration *declaration = collection->declaration;
	const struct eviction_failure *failure = collection->failure;
	bool force = declaration->force_after > 0 &&
		now_usec(CLOCK_BOOTTIME) >= failure->begun + declaration->force_after;

	return json_pack("{s:s, s:s, s:s, s:b, s:b}", "resource", collection->evicting->resource,
		"device", failure->device, "reason", failure->text, "bare",
		(int)declaration->evict_bare, "force", (int)force);
}

/* Adds an order with these members, which it takes. Returns it, or NULL without memory. */
static json_t *add_order(struct collection *collection, json_t *orders, json_t *members)
{
	json_auto_t *given = members, *order = make_order(collection);

	if (json_object_update(order, given) < 0 || json_array_append(orders, order) < 0) {
		collection->r = -ENOMEM;
		return NULL;
	}
	return order;
}

/* The UIDs of pods to which the checkpoint assigns the id; old pods may be among them. */
static void add_uids(const struct kubelet_checkpoint *checkpoint, const char *resource,
	const char *id, json_t *uids)
{
	for (size_t i = 0; checkpoint && i < checkpoint->count; i++)
		if (streq(checkpoint->rows[i].resource, resource) &&
			streq(checkpoint->rows[i].id, id))
			(void)json_array_append_new(uids, json_string(checkpoint->rows[i].pod_uid));
}

/* How many devices the node may still show: it has learned of the failure if it shows no more. */
static json_int_t allocatable_of(const struct child *child)
{
	return child_registration(child) == REGISTRATION_DRA
		? 0
		: (json_int_t)child->resource->healthy_ids;
}

static void collect_pods(struct collection *collection, const struct pod_table *table,
	const struct kubelet_checkpoint *checkpoint)
{
	for (size_t i = 0; i < table->n_devices; i++) {
		const struct pod_device *device = &table->devices[i];
		json_t *pod;

		if (!*device->container->name ||
			!streq(device->resource, collection->evicting->resource) ||
			!offered_id_is_of(device->id, collection->failure->device))
			continue;
		pod = find_pod(collection, device->container);
		if (!pod) {
			pod = add_order(collection, collection->pods,
				json_pack("{s:s, s:s, s:I, s:[]}", "namespace",
					device->container->namespace, "name",
					device->container->pod, "allocatable",
					allocatable_of(collection->child), "uids"));
		}
		add_uids(checkpoint, device->resource, device->id, json_object_get(pod, "uids"));
	}
}

static void collect_claims(struct collection *collection, const json_t *claims)
{
	const json_t *claim;
	size_t i;

	json_array_foreach(claims, i, claim)
	{
		if (json_is_true(json_object_get(claim, "admin")) ||
			!offered_id_is_of(text_of(claim, "id"), collection->failure->device))
			continue;
		(void)add_order(collection, collection->claims,
			json_pack("{s:s, s:s, s:s, s:s}", "namespace", text_of(claim, "namespace"),
				"name", text_of(claim, "name"), "uid", text_of(claim, "uid"),
				"driver", text_of(claim, "driver")));
	}
}

static void collect_failure(
	struct collection *collection, const struct manager *manager, const struct pod_table *table)
{
	json_auto_t *claims = manager->dra_claims
		? dra_claims_of(manager->dra_claims, collection->evicting->resource)
		: NULL;
	uint64_t written_at;

	if (table)
		collect_pods(collection, table, booked_checkpoint(manager->booked, &written_at));
	collect_claims(collection, claims);
}

/* The devices of a resource whose taints evict. */
static json_t *list_devices(const struct evicting *evicting)
{
	json_t *devices = json_object();

	for (size_t i = 0; i < evicting->plan.n_failures; i++)
		if (evicting->plan.failures[i].state == EVICTION_ACTIVE)
			(void)json_object_set_new(
				devices, evicting->plan.failures[i].device, json_true());
	return devices;
}

/* NULL: no memory. */
static json_t *make_orders(const struct evictions *evictions, const struct pod_table *table)
{
	json_auto_t *pods = json_array(), *claims = json_array(), *taints = json_object();
	int r = 0;

	for (size_t i = 0; i < evictions->n_items; i++) {
		const struct evicting *evicting = evictions->items[i];
		struct collection collection = {
			.evicting = evicting,
			.child = manager_find_child(evictions->manager, evicting->resource),
			.pods = pods,
			.claims = claims,
		};

		if (!collection.child || !evicting->reported)
			continue;
		collection.declaration = child_declaration(collection.child);
		for (size_t k = 0; collection.declaration && k < evicting->plan.n_failures; k++) {
			collection.failure = &evicting->plan.failures[k];
			if (collection.failure->state == EVICTION_ACTIVE)
				collect_failure(&collection, evictions->manager, table);
		}
		r |= collection.r;
		r |= json_object_set_new(taints, evicting->resource, list_devices(evicting));
	}
	return r < 0
		? NULL
		: json_pack("{s:O, s:O, s:O}", "pods", pods, "claims", claims, "taints", taints);
}

static void send(struct evictions *evictions)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_EVICT);
	int fd = sealed_new("evictions", evictions->sent, strlen(evictions->sent));

	if (fd < 0)
		return;
	message.fds[0] = fd;
	(void)auxiliary_send(evictions->process, &message);
}

static void on_pods(const struct pod_answer *answer, void *userdata)
{
	struct evictions *evictions = userdata;
	json_auto_t *orders = make_orders(evictions, answer->table);
	char *text = orders ? json_dumps(orders, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

	evictions->asking = false;
	(void)snprintf(evictions->problem, sizeof(evictions->problem), "%s", answer->failure);
	text_sanitize(evictions->problem);
	if (!text)
		return;
	free(evictions->sent);
	evictions->sent = text;
	send(evictions);
}

void eviction_orders_begin(struct evictions *evictions)
{
	if (evictions->asking)
		return;
	evictions->asking = pod_resources_ask(evictions->manager->pods, POD_QUESTION_LIST, 0,
				    on_pods, evictions) >= 0;
}

void eviction_orders_send(struct evictions *evictions)
{
	if (evictions->sent)
		send(evictions);
}

/* --- results --- */

/* The earlier result of the same pod and device, or NULL. */
static const json_t *find_result(const struct evicting *evicting, const json_t *result)
{
	const json_t *earlier;
	size_t i;

	json_array_foreach(evicting->results, i, earlier)
	{
		if (streq(text_of(earlier, "uid"), text_of(result, "uid")) &&
			streq(text_of(earlier, "namespace"), text_of(result, "namespace")) &&
			streq(text_of(earlier, "name"), text_of(result, "name")) &&
			streq(text_of(earlier, "device"), text_of(result, "device")))
			return earlier;
	}
	return NULL;
}

static void log_result(
	struct evictions *evictions, const struct evicting *evicting, const json_t *result)
{
	const struct log_fields fields = {
		.resource = evicting->resource,
		.device = text_of(result, "device"),
		.message_id = MESSAGE_ID_EVICTION,
	};
	enum eviction_result state = eviction_result_of(text_of(result, "state"));
	const char *namespace = text_of(result, "namespace"), *name = text_of(result, "name");

	if (state == EVICTION_RESULT_WAITING || state == EVICTION_RESULT_ENDED ||
		!log_budget_admits(&evictions->log_budget, &fields))
		return;
	if (state == EVICTION_RESULT_EVICTED || state == EVICTION_RESULT_DELETED)
		log_full(LOG_NOTICE, &fields, "%s pod %s/%s, which had device %s",
			state == EVICTION_RESULT_EVICTED ? "evicted" : "deleted", namespace, name,
			fields.device);
	else
		log_full(LOG_WARNING, &fields, "pod %s/%s, which has device %s, is not evicted: %s",
			namespace, name, fields.device, text_of(result, "text"));
}

static void take_result(struct evictions *evictions, struct evicting *evicting, json_t *result)
{
	enum eviction_result state = eviction_result_of(text_of(result, "state"));
	const json_t *earlier = find_result(evicting, result);
	enum eviction_result before =
		earlier ? eviction_result_of(text_of(earlier, "state")) : EVICTION_RESULT_WAITING;

	(void)json_array_append(evicting->newest, result);
	if (earlier && before == state && streq(text_of(earlier, "text"), text_of(result, "text")))
		return;
	if (state != before) {
		evicting->evicted += state == EVICTION_RESULT_EVICTED;
		evicting->deleted += state == EVICTION_RESULT_DELETED;
	}
	log_result(evictions, evicting, result);
}

/* Copies what a result may contain, or returns NULL. */
static json_t *read_result(const json_t *sent)
{
	static const char *const keys[] = { "resource", "device", "namespace", "name", "uid",
		"state", "text" };
	json_auto_t *result = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		_cleanup_free_ char *text = strndup(text_of(sent, keys[i]), CONTROL_TEXT_MAX);

		if (!text)
			return NULL;
		text_sanitize(text);
		if (json_object_set_new(result, keys[i], json_string(text)) < 0)
			return NULL;
	}
	return eviction_result_of(text_of(result, "state")) == _EVICTION_RESULT_MAX
		? NULL
		: json_incref(result);
}

/* Takes all results, of which each resource gets its own. Returns whether they are valid. */
static bool take_all(struct evictions *evictions, const json_t *sent)
{
	const json_t *item;
	size_t i;

	json_array_foreach(sent, i, item)
	{
		json_auto_t *result = read_result(item);
		struct evicting *evicting =
			result ? eviction_list_find(evictions, text_of(result, "resource")) : NULL;

		if (!result)
			return false;
		if (evicting && evicting->newest &&
			eviction_plan_find(&evicting->plan, text_of(result, "device")))
			take_result(evictions, evicting, result);
	}
	return true;
}

bool eviction_orders_take_results(struct evictions *evictions, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	json_auto_t *sent = NULL;
	bool valid;
	size_t size;

	if (sealed_read(message->fds[0], RESULTS_SIZE_MAX, &text, &size) < 0)
		return false;
	sent = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_array(sent) || json_array_size(sent) > RESULTS_MAX)
		return false;
	for (size_t i = 0; i < evictions->n_items; i++)
		evictions->items[i]->newest = json_array();
	valid = take_all(evictions, sent);
	for (size_t i = 0; i < evictions->n_items; i++) {
		struct evicting *evicting = evictions->items[i];

		json_decref(evicting->results);
		evicting->results = evicting->newest ?: json_array();
		evicting->newest = NULL;
	}
	manager_changed(evictions->manager);
	return valid;
}
