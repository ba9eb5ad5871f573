/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins the kubelet's answer, its checkpoint and DRA claims into a list of the devices of
 * containers, for clients of the control socket, and decides when the kubelet is asked. A failed
 * question is not repeated within the age of an answer, so that a kubelet that does not answer
 * delays only one request.
 */
#include "supervisor/books/pod-assignments.h"

#include <fcntl.h>

#include "common/control-child.h"
#include "common/json-read.h"
#include "supervisor/books/booked.h"
#include "supervisor/books/dra-claim.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/books/pod-resources.h"
#include "supervisor/children/manager.h"
#include "supervisor/control/request-server.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"
#include "supervisor/kubelet/pod-logs.h"

/* The minimum time between two questions, even if everything changes all the time. */
#define QUESTION_INTERVAL (250 * USEC_PER_MSEC)

struct assignments {
	struct manager *manager;
	bool asking;
	bool awaited;         /* a change of the manager is to follow the answer */
	uint64_t asked_at;    /* CLOCK_MONOTONIC */
	uint64_t answered_at; /* CLOCK_MONOTONIC, 0: never */
	uint64_t outdated_at; /* CLOCK_MONOTONIC */
	json_t *resources;    /* object of arrays; NULL: nothing is known */
	json_t *booked;       /* like `resources`: devices that only the checkpoint lists */
	int table_fd;         /* the kubelet's answer, or -EBADF */
	char failure[CONTROL_TEXT_MAX];
};

static json_t *describe(const struct pod_container *container, const char *id)
{
	return json_pack("{s:s, s:s, s:s, s:s}", "id", id, "namespace", container->namespace, "pod",
		container->pod, "container", container->name);
}

/* No field of a pod table contains a tab (common/pod-table.h). */
static json_t *get_by_key(const json_t *object, const char *a, const char *b, const char *c)
{
	_cleanup_free_ char *key = NULL;

	if (format_text(&key, "%s\t%s\t%s", a, b, c) < 0)
		return NULL;
	return json_object_get(object, key);
}

static void set_by_key(json_t *object, const char *a, const char *b, const char *c, json_t *value)
{
	_cleanup_free_ char *key = NULL;

	if (format_text(&key, "%s\t%s\t%s", a, b, c) >= 0)
		(void)json_object_set(object, key, value);
}

/* A device on several NUMA nodes has a row for each; they follow each other. */
static bool is_repeated(const struct pod_device *device, const struct pod_device *before)
{
	return before && before->container == device->container &&
		streq(before->resource, device->resource) && streq(before->id, device->id);
}

static void add_row(json_t *resources, const char *resource, json_t *row)
{
	json_t *array = json_object_get(resources, resource);

	if (!array && json_object_set_new(resources, resource, json_array()) >= 0)
		array = json_object_get(resources, resource);
	(void)json_array_append_new(array, row);
}

/* The rows of the table, by their keys in `listed` too. */
static void collect(const struct pod_table *table, json_t *resources, json_t *listed)
{
	for (size_t i = 0; i < table->n_devices; i++) {
		const struct pod_device *device = &table->devices[i];
		json_t *row;

		/* The devices of a whole pod are the devices of its containers. */
		if (!*device->container->name || is_repeated(device, i > 0 ? device - 1 : NULL))
			continue;
		row = describe(device->container, device->id);
		set_by_key(listed, device->resource, device->id, device->container->name, row);
		add_row(resources, device->resource, row);
	}
}

/* NULL: it belongs to another driver. */
static json_t *find_claimed(const json_t *devices, const struct pod_claim *claim)
{
	_cleanup_free_ char *key = pod_claim_key(claim);

	return key ? json_object_get(devices, key) : NULL;
}

static json_t *describe_claimed(const struct pod_container *container, const json_t *device)
{
	json_t *row = describe(container, text_of(device, "id"));

	if (row && dra_claim_is_admin(device))
		(void)json_object_set_new(row, "admin", json_true());
	return row;
}

/* Whether a container's device is listed already, and if not, notes it. A kubelet lists the devices
 * of a claim once for each time that it has had the claim prepared. */
static bool is_listed(
	json_t *listed, const struct pod_container *container, const char *resource, const char *id)
{
	_cleanup_free_ char *key = NULL;

	if (format_text(&key, "%s\t%s\t%s\t%s\t%s", container->namespace, container->pod,
		    container->name, resource, id) < 0 ||
		json_object_get(listed, key))
		return true;
	return json_object_set_new(listed, key, json_true()) < 0;
}

/* Adds the devices of claims. A claim contains the cluster's name of a device, not the id. */
static void collect_claimed(
	const struct manager *manager, const struct pod_table *table, json_t *resources)
{
	json_auto_t *devices = manager->dra_claims ? dra_claims_devices(manager->dra_claims) : NULL;
	json_auto_t *listed = json_object();

	for (size_t i = 0; i < table->n_claims; i++) {
		const struct pod_claim *claim = &table->claims[i];
		const json_t *device = find_claimed(devices, claim);

		if (device &&
			!is_listed(listed, claim->container, text_of(device, "resource"),
				text_of(device, "id")))
			add_row(resources, text_of(device, "resource"),
				describe_claimed(claim->container, device));
	}
}

/* The kubelet lists neither plain init containers nor removed pods. Its checkpoint contains both,
 * but only with the UIDs of pods. A pod exists if another of its containers is listed, or if it has
 * a directory of logs. */
static void join_checkpoint(struct assignments *assignments,
	const struct kubelet_checkpoint *checkpoint, const json_t *listed)
{
	json_t *known = pod_logs_read(assignments->manager->config->kubelet.pod_logs_dir);
	json_auto_t *pods = known ?: json_object();
	json_auto_t *done = json_object();

	for (size_t i = 0; i < checkpoint->count; i++) {
		const struct kubelet_checkpoint_row *row = &checkpoint->rows[i];
		json_t *found = get_by_key(listed, row->resource, row->id, row->container);

		if (!found)
			continue;
		(void)json_object_set(pods, row->pod_uid, found);
		set_by_key(done, row->resource, row->id, row->pod_uid, json_true());
	}
	for (size_t i = 0; i < checkpoint->count; i++) {
		const struct kubelet_checkpoint_row *row = &checkpoint->rows[i];
		const json_t *pod = json_object_get(pods, row->pod_uid);

		/* Containers of one pod may pass a device on, and each NUMA node has a row. */
		if (get_by_key(done, row->resource, row->id, row->pod_uid))
			continue;
		set_by_key(done, row->resource, row->id, row->pod_uid, json_true());
		if (pod)
			add_row(assignments->resources, row->resource,
				json_pack("{s:s, s:O, s:O, s:s}", "id", row->id, "namespace",
					json_object_get(pod, "namespace"), "pod",
					json_object_get(pod, "pod"), "container", row->container));
		else
			add_row(assignments->booked, row->resource,
				json_pack("{s:s, s:s, s:s}", "id", row->id, "pod_uid", row->pod_uid,
					"container", row->container));
	}
}

static void forget_answer(struct assignments *assignments)
{
	json_decref(assignments->resources);
	json_decref(assignments->booked);
	assignments->resources = assignments->booked = NULL;
	assignments->table_fd = close_fd(assignments->table_fd);
}

static void take_table(struct assignments *assignments, const struct pod_answer *answer)
{
	json_auto_t *listed = json_object();
	const struct kubelet_checkpoint *checkpoint;
	uint64_t written_at;

	assignments->resources = json_object();
	assignments->booked = json_object();
	assignments->table_fd = fcntl(answer->table_fd, F_DUPFD_CLOEXEC, 0);
	collect(answer->table, assignments->resources, listed);
	collect_claimed(assignments->manager, answer->table, assignments->resources);
	checkpoint = booked_checkpoint(assignments->manager->booked, &written_at);
	/* Later bookings may belong to pods that are not in the answer yet. */
	if (checkpoint && written_at <= answer->asked_at)
		join_checkpoint(assignments, checkpoint, listed);
}

static void on_answer(const struct pod_answer *answer, void *userdata)
{
	struct assignments *assignments = userdata;

	assignments->asking = false;
	assignments->answered_at = now_usec(CLOCK_MONOTONIC);
	forget_answer(assignments);
	if (answer->table)
		take_table(assignments, answer);
	(void)snprintf(assignments->failure, sizeof(assignments->failure), "%s", answer->failure);
	request_server_changed(assignments->manager->requests);
	if (assignments->awaited)
		manager_changed(assignments->manager);
	assignments->awaited = false;
}

static bool is_new(const struct assignments *assignments, uint64_t now)
{
	uint64_t age = now - assignments->answered_at;

	if (assignments->answered_at == 0 || age >= POD_ANSWER_AGE)
		return false;
	return assignments->answered_at > assignments->outdated_at || age < QUESTION_INTERVAL;
}

void assignments_outdated(struct assignments *assignments)
{
	assignments->outdated_at = now_usec(CLOCK_MONOTONIC);
}

/* Returns whether the kubelet cannot be asked. */
static bool ask(struct assignments *assignments, uint64_t now, uint64_t age)
{
	int r = pod_resources_ask(
		assignments->manager->pods, POD_QUESTION_LIST, age, on_answer, assignments);

	assignments->asking = r >= 0;
	assignments->asked_at = now;
	if (r < 0)
		(void)snprintf(
			assignments->failure, sizeof(assignments->failure), "%s", strerror(-r));
	return r < 0;
}

bool assignments_ready(struct assignments *assignments)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (assignments->asking)
		return false;
	return is_new(assignments, now) ||
		ask(assignments, now, MIN_OF(now - assignments->outdated_at, USEC_PER_SEC));
}

bool assignments_ready_since(struct assignments *assignments, uint64_t since)
{
	bool ready = !assignments->asking &&
		((assignments->answered_at > 0 && assignments->asked_at >= since) ||
			ask(assignments, now_usec(CLOCK_MONOTONIC), 0));

	assignments->awaited |= !ready;
	return ready;
}

json_t *assignments_of(const struct assignments *assignments, const char *resource)
{
	return json_object_get(assignments->resources, resource);
}

json_t *assignments_booked(const struct assignments *assignments, const char *resource)
{
	return json_object_get(assignments->booked, resource);
}

int assignments_table_fd(const struct assignments *assignments)
{
	return assignments->table_fd;
}

const char *assignments_failure(const struct assignments *assignments)
{
	return assignments->failure;
}

uint64_t assignments_waited(const struct assignments *assignments)
{
	if (assignments->asking)
		return now_usec(CLOCK_MONOTONIC) - assignments->asked_at;
	return *assignments->failure && assignments->answered_at > assignments->asked_at
		? assignments->answered_at - assignments->asked_at
		: 0;
}

int assignments_new(struct manager *manager, struct assignments **ret)
{
	struct assignments *assignments = calloc(1, sizeof(*assignments));

	if (!assignments)
		return -ENOMEM;
	assignments->manager = manager;
	assignments->table_fd = -EBADF;
	*ret = assignments;
	return 0;
}

struct assignments *assignments_free(struct assignments *assignments)
{
	if (!assignments)
		return NULL;
	pod_resources_cancel(assignments->manager->pods, assignments);
	forget_answer(assignments);
	free(assignments);
	return NULL;
}
