/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a pod is asked about, evicted, and asked about again. One request runs at a time:
 * first the node, which shows whether the scheduler knows of the failures, then the claims, whose
 * status names their pods, then the pods. A pod whose node or slice still shows its device as
 * healthy waits: another pod would get the device.
 */
#include "dra/evictor.h"

#include "common/control-cluster.h"
#include "common/json-read.h"
#include "common/sealed.h"
#include "dra/model/dra-names.h"

#define TRY_MIN         (1 * USEC_PER_SEC)
#define TRY_MAX_SECONDS 60ULL
#define LOOK_AGAIN      (10 * USEC_PER_SEC) /* at a pod that is ending */
#define SEND_RETRY      (100 * USEC_PER_MSEC)
#define TARGETS_MAX     4096

#define NODE_PATH     "/api/v1/nodes/%s"
#define POD_PATH      "/api/v1/namespaces/%s/pods/%s"
#define EVICTION_PATH POD_PATH "/eviction"

/* One pod that has one device. */
struct target {
	char *key;
	json_t *order, *uids;
	bool ordered;                   /* in this round, or the claim could not be read */
	json_t *claim;                  /* by which it has the device; NULL: by a device plugin */
	uint64_t ordered_at;            /* CLOCK_MONOTONIC: since when the order is as it is */
	char uid[DRA_CLAIM_ID_MAX + 1]; /* of the pod; "": not known yet */
	enum eviction_result state;
	char text[CONTROL_TEXT_MAX];
	uint64_t delay;      /* of the last retry; 0: none */
	uint64_t not_before; /* CLOCK_MONOTONIC */
};

struct evictor {
	struct evictor_options options;
	json_t *orders, *claims; /* the newest ones */
	json_t *round_claims;    /* those of this round */
	struct target **targets;
	size_t n_targets;
	json_t *node; /* the Node in this round; NULL: not read */
	char node_failure[256];
	size_t at_claim, at_target; /* the next ones in this round */
	bool busy;                  /* a round runs */
	bool again;                 /* other orders came meanwhile */
	bool unsent;                /* the states have changed */
	sd_event_source *timer;
};

static void go_on(struct evictor *evictor);

/* --- targets --- */

static struct target *target_free(struct target *target)
{
	if (!target)
		return NULL;
	json_decref(target->order);
	json_decref(target->uids);
	json_decref(target->claim);
	free(target->key);
	free(target);
	return NULL;
}
DEFINE_CLEANUP(struct target *, target_free)

static struct target *find_target(const struct evictor *evictor, const char *key)
{
	for (size_t i = 0; i < evictor->n_targets; i++)
		if (streq(evictor->targets[i]->key, key))
			return evictor->targets[i];
	return NULL;
}

/* Adds a target, or renews it: its state and the time of its next attempt stay. Takes `uids`.
 * Returns 0 or -ENOMEM. */
static int order_target(
	struct evictor *evictor, json_t *order, const char *name, json_t *uids, json_t *claim)
{
	_cleanup_(target_freep) struct target *added = NULL;
	_cleanup_free_ char *key = NULL;
	json_auto_t *given = uids;
	struct target *target;
	int r;

	r = format_text(&key, "%s\t%s\t%s\t%s", text_of(order, "resource"),
		text_of(order, "device"), text_of(order, "namespace"), name);
	if (r < 0 || !given)
		return -ENOMEM;
	target = find_target(evictor, key);
	if (!target) {
		if (evictor->n_targets == TARGETS_MAX)
			return 0;
		added = target = calloc(1, sizeof(*target));
		if (!added)
			return -ENOMEM;
		added->key = TAKE_PTR(key);
		r = array_reserve(
			(void **)&evictor->targets, evictor->n_targets, sizeof(struct target *));
		if (r < 0)
			return r;
		evictor->targets[evictor->n_targets++] = TAKE_PTR(added);
	}
	if (!target->order || !json_equal(target->order, order))
		target->ordered_at = now_usec(CLOCK_MONOTONIC);
	json_decref(target->order);
	json_decref(target->uids);
	json_decref(target->claim);
	target->order = json_incref(order);
	target->uids = json_incref(given);
	target->ordered = true;
	target->claim = claim ? json_incref(claim) : NULL;
	return 0;
}

static const char *name_of(const struct target *target)
{
	return strrchr(target->key, '\t') + 1;
}

static void set_state(struct evictor *evictor, struct target *target, enum eviction_result state,
	const char *text, uint64_t pause)
{
	bool changed = target->state != state || !streq(target->text, text);

	target->state = state;
	(void)snprintf(target->text, sizeof(target->text), "%s", text);
	target->not_before = now_usec(CLOCK_MONOTONIC) + pause;
	if (!changed)
		return;
	evictor->unsent = true;
	evictor->options.on_pod(
		&(const struct evictor_pod){ .resource = text_of(target->order, "resource"),
			.device = text_of(target->order, "device"),
			.namespace = text_of(target->order, "namespace"),
			.name = name_of(target),
			.uid = *target->uid ? target->uid : NULL,
			.result = state,
			.text = target->text },
		evictor->options.userdata);
}

/* Tries again after twice the time, and not before `wanted` seconds. */
static void set_refused(
	struct evictor *evictor, struct target *target, const char *text, uint64_t wanted)
{
	const struct dra_answer answer = { .retry_after = MIN_OF(wanted, TRY_MAX_SECONDS) };

	set_state(evictor, target, EVICTION_RESULT_REFUSED, text,
		dra_api_retry_delay(&target->delay, &answer));
}

/* --- results --- */

static json_t *describe_all(const struct evictor *evictor)
{
	json_auto_t *list = json_array();

	for (size_t i = 0; i < evictor->n_targets; i++) {
		const struct target *target = evictor->targets[i];

		if (json_array_append_new(list,
			    json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "resource",
				    text_of(target->order, "resource"), "device",
				    text_of(target->order, "device"), "namespace",
				    text_of(target->order, "namespace"), "name", name_of(target),
				    "uid", target->uid, "state", eviction_results[target->state],
				    "text", target->text)) < 0)
			return NULL;
	}
	return json_incref(list);
}

static int send_results(const struct evictor *evictor)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_EVICTED);
	json_auto_t *list = describe_all(evictor);
	_cleanup_free_ char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
	int fd = text ? sealed_new("evicted", text, strlen(text)) : -ENOMEM;

	if (fd < 0)
		return fd;
	message.fds[0] = fd;
	return control_send(CONTROL_FD, &message);
}

/* --- rounds --- */

static void plan(struct evictor *evictor, uint64_t at)
{
	(void)sd_event_source_set_time(evictor->timer, at);
	(void)sd_event_source_set_enabled(
		evictor->timer, at == USEC_INFINITY ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

static void drop_unordered(struct evictor *evictor)
{
	size_t kept = 0;

	for (size_t i = 0; i < evictor->n_targets; i++)
		if (evictor->targets[i]->ordered)
			evictor->targets[kept++] = evictor->targets[i];
		else
			(void)target_free(evictor->targets[i]);
	evictor->n_targets = kept;
}

static void end_round(struct evictor *evictor)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC), next = USEC_INFINITY;

	evictor->busy = false;
	if (evictor->unsent && send_results(evictor) >= 0)
		evictor->unsent = false;
	for (size_t i = 0; i < evictor->n_targets; i++) {
		const struct target *target = evictor->targets[i];

		if (target->state != EVICTION_RESULT_ENDED)
			next = MIN_OF(next, target->not_before);
	}
	if (next != USEC_INFINITY)
		next = MAX_OF(next, now + TRY_MIN);
	if (evictor->unsent)
		next = MIN_OF(next, now + SEND_RETRY);
	plan(evictor, evictor->again ? 0 : next);
}

static int begin_round(struct evictor *evictor)
{
	json_t *order;
	size_t i;
	int r = 0;

	evictor->busy = true;
	evictor->again = false;
	evictor->at_claim = evictor->at_target = 0;
	json_decref(evictor->round_claims);
	evictor->round_claims = json_incref(evictor->claims);
	json_decref(evictor->node);
	evictor->node = NULL;
	*evictor->node_failure = '\0';
	for (i = 0; i < evictor->n_targets; i++)
		evictor->targets[i]->ordered = false;
	json_array_foreach(evictor->orders, i, order)
	{
		if (r >= 0)
			r = order_target(evictor, order, text_of(order, "name"),
				json_incref(json_object_get(order, "uids")), NULL);
	}
	return r;
}

static int ask(struct evictor *evictor, const char *method, const char *format, const char *a,
	const char *b, const json_t *body, dra_answer_handler on_answer)
{
	_cleanup_free_ char *path = NULL;

	/* Each format has one %s or two. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
	if (format_text(&path, format, a, b) < 0)
		return -ENOMEM;
#pragma GCC diagnostic pop
	return dra_api_request(evictor->options.api, method, path, body, on_answer, evictor);
}

/* --- pods --- */

static struct target *current(const struct evictor *evictor)
{
	return evictor->targets[evictor->at_target];
}

static void on_evicted(const struct dra_answer *answer, void *userdata)
{
	struct evictor *evictor = userdata;
	struct target *target = current(evictor);
	bool force = json_is_true(json_object_get(target->order, "force"));
	char text[CONTROL_TEXT_MAX];
	enum eviction_result result = eviction_judge_answer(
		answer->code, answer->body, answer->failure, force, text, sizeof(text));

	if (result == EVICTION_RESULT_REFUSED)
		set_refused(evictor, target, text, answer->retry_after);
	else
		set_state(evictor, target, result, text, LOOK_AGAIN);
	evictor->at_target++;
	go_on(evictor);
}

static int evict(struct evictor *evictor, const struct target *target)
{
	const char *namespace = text_of(target->order, "namespace");
	bool force = json_is_true(json_object_get(target->order, "force"));
	json_auto_t *body = eviction_body(namespace, name_of(target), target->uid, force);

	if (!body)
		return -ENOMEM;
	return ask(evictor, force ? "DELETE" : "POST", force ? POD_PATH : EVICTION_PATH, namespace,
		name_of(target), body, on_evicted);
}

/* Whether the cluster still shows the device as healthy; if so, fills the text. */
static bool is_shown(const struct evictor *evictor, const struct target *target,
	char ret_text[static CONTROL_TEXT_MAX])
{
	json_int_t limit = json_integer_value(json_object_get(target->order, "allocatable"));
	const char *resource = text_of(target->order, "resource");
	json_int_t shown;

	if (target->claim) {
		(void)snprintf(ret_text, CONTROL_TEXT_MAX,
			"the ResourceSlices in the API server do not have the taint yet");
		return !evictor->options.has_published(text_of(target->claim, "driver"),
			target->ordered_at, evictor->options.userdata);
	}
	shown = eviction_allocatable(evictor->node, resource);
	if (!evictor->node)
		(void)snprintf(ret_text, CONTROL_TEXT_MAX, "the Node cannot be read: %s",
			evictor->node_failure);
	else
		(void)snprintf(ret_text, CONTROL_TEXT_MAX,
			"the Node still shows %lld allocatable %s, and not %lld", (long long)shown,
			resource, (long long)limit);
	return !evictor->node || shown < 0 || shown > limit;
}

/* A pod that this process has evicted stays evicted until its end. */
static bool is_ending(const struct target *target)
{
	return target->state == EVICTION_RESULT_EVICTED || target->state == EVICTION_RESULT_DELETED;
}

/* Returns whether a request was started. */
static bool judge(struct evictor *evictor, struct target *target, const json_t *pod)
{
	const char *uid = text_of(json_object_get(pod, "metadata"), "uid");
	const char *claim = text_of(target->claim, "name");
	char text[CONTROL_TEXT_MAX];
	enum eviction_result result = eviction_judge_pod(
		pod, target->order, target->uids, evictor->options.node, text, sizeof(text));

	if (is_ending(target) && streq(uid, target->uid)) {
		target->not_before = now_usec(CLOCK_MONOTONIC) + LOOK_AGAIN;
		return false;
	}
	if (result == EVICTION_RESULT_REFUSED && target->claim &&
		!eviction_pod_is_by_limits(pod, claim)) {
		result = EVICTION_RESULT_SKIPPED;
		(void)snprintf(text, sizeof(text),
			"it has the claim %.253s, whose pods Kubernetes evicts by the taint of the device",
			claim);
	}
	if (result != EVICTION_RESULT_REFUSED) {
		set_state(evictor, target, result, text, LOOK_AGAIN);
		return false;
	}
	if (strlen(uid) > DRA_CLAIM_ID_MAX) {
		set_refused(evictor, target, "its uid is invalid", TRY_MAX_SECONDS);
		return false;
	}
	if (!streq(target->uid, uid))
		target->delay = 0;
	(void)snprintf(target->uid, sizeof(target->uid), "%s", uid);
	if (is_shown(evictor, target, text)) {
		set_state(evictor, target, EVICTION_RESULT_WAITING, text, 2 * TRY_MIN);
		return false;
	}
	if (evict(evictor, target) >= 0)
		return true;
	set_refused(evictor, target, "out of memory", 0);
	return false;
}

static void on_pod(const struct dra_answer *answer, void *userdata)
{
	struct evictor *evictor = userdata;
	struct target *target = current(evictor);
	char text[CONTROL_TEXT_MAX];

	/* The device may have recovered. */
	if (evictor->again) {
		end_round(evictor);
		return;
	}
	if (!answer->failure && judge(evictor, target, answer->body))
		return;
	if (answer->code == 404)
		set_state(evictor, target, EVICTION_RESULT_ENDED, "it does not exist any more",
			LOOK_AGAIN);
	else if (answer->failure) {
		(void)snprintf(text, sizeof(text), "the pod cannot be read: %s", answer->failure);
		set_refused(evictor, target, text, answer->retry_after);
	}
	evictor->at_target++;
	go_on(evictor);
}

/* --- claims and the node --- */

static json_t *current_claim(const struct evictor *evictor)
{
	return json_array_get(evictor->round_claims, evictor->at_claim);
}

/* Another claim of that name has no pods of ours. */
static int take_claim(struct evictor *evictor, const json_t *found)
{
	json_t *claim = current_claim(evictor), *pod;
	const json_t *status = json_object_get(found, "status");
	size_t i;
	int r = 0;

	if (!streq(text_of(json_object_get(found, "metadata"), "uid"), text_of(claim, "uid")))
		return 0;
	json_array_foreach(json_object_get(status, "reservedFor"), i, pod)
	{
		const char *name = text_of(pod, "name");

		if (r >= 0 && streq(text_of(pod, "resource"), "pods") &&
			dra_name_is_valid(name, DRA_OBJECT_NAME_MAX))
			r = order_target(
				evictor, claim, name, json_pack("[s]", text_of(pod, "uid")), claim);
	}
	return r;
}

/* Its pods of before stay. */
static void keep_pods(struct evictor *evictor, const struct dra_answer *answer)
{
	const json_t *claim = current_claim(evictor);
	char text[CONTROL_TEXT_MAX];

	(void)snprintf(text, sizeof(text), "the claim %.253s cannot be read: %s",
		text_of(claim, "name"), answer->failure);
	for (size_t i = 0; i < evictor->n_targets; i++) {
		struct target *target = evictor->targets[i];

		if (target->ordered || !target->claim ||
			!streq(text_of(target->claim, "uid"), text_of(claim, "uid")))
			continue;
		target->ordered = true;
		if (!is_ending(target) && target->state != EVICTION_RESULT_ENDED)
			set_refused(evictor, target, text, answer->retry_after);
	}
}

static void on_claim(const struct dra_answer *answer, void *userdata)
{
	struct evictor *evictor = userdata;

	if (!answer->failure)
		(void)take_claim(evictor, answer->body);
	else if (answer->code != 404)
		keep_pods(evictor, answer);
	evictor->at_claim++;
	go_on(evictor);
}

static void on_node(const struct dra_answer *answer, void *userdata)
{
	struct evictor *evictor = userdata;

	if (answer->failure)
		(void)snprintf(evictor->node_failure, sizeof(evictor->node_failure), "%s",
			answer->failure);
	else
		evictor->node = json_incref(answer->body);
	go_on(evictor);
}

static bool is_due(const struct target *target)
{
	return target->ordered && target->not_before <= now_usec(CLOCK_MONOTONIC);
}

static bool needs_node(const struct evictor *evictor)
{
	for (size_t i = 0; i < evictor->n_targets; i++)
		if (!evictor->targets[i]->claim && is_due(evictor->targets[i]))
			return !evictor->node && !*evictor->node_failure;
	return false;
}

static int next_request(struct evictor *evictor)
{
	const struct target *target;
	const json_t *claim = current_claim(evictor);

	if (needs_node(evictor))
		return ask(evictor, "GET", NODE_PATH, evictor->options.node, "", NULL, on_node);
	if (claim)
		return ask(evictor, "GET", DRA_CLAIM_PATH, text_of(claim, "namespace"),
			text_of(claim, "name"), NULL, on_claim);
	while (evictor->at_target < evictor->n_targets && !is_due(current(evictor)))
		evictor->at_target++;
	if (evictor->at_target == evictor->n_targets) {
		drop_unordered(evictor);
		return -ENOENT;
	}
	target = current(evictor);
	return ask(evictor, "GET", POD_PATH, text_of(target->order, "namespace"), name_of(target),
		NULL, on_pod);
}

/* Starts the next request of the round, or ends it. */
static void go_on(struct evictor *evictor)
{
	if (evictor->again || next_request(evictor) < 0)
		end_round(evictor);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct evictor *evictor = userdata;

	if (begin_round(evictor) < 0)
		end_round(evictor);
	else
		go_on(evictor);
	return 0;
}

/* --- --- */

static bool is_valid(const json_t *orders)
{
	const json_t *order, *uids;
	size_t i;

	json_array_foreach(orders, i, order)
	{
		uids = json_object_get(order, "uids");
		if (!dra_name_is_valid(text_of(order, "namespace"), DRA_OBJECT_NAME_MAX) ||
			!dra_name_is_valid(text_of(order, "name"), DRA_OBJECT_NAME_MAX) ||
			(uids && !json_is_array(uids)))
			return false;
	}
	return json_is_array(orders);
}

int evictor_take(struct evictor *evictor, const json_t *document)
{
	json_t *orders = json_object_get(document, "pods");
	json_t *claims = json_object_get(document, "claims");

	if (!is_valid(orders) || !is_valid(claims))
		return -EBADMSG;
	evictor->unsent = true;
	if (evictor->orders && json_equal(evictor->orders, orders) &&
		json_equal(evictor->claims, claims)) {
		if (!evictor->busy)
			plan(evictor, 0);
		return 0;
	}
	json_decref(evictor->orders);
	json_decref(evictor->claims);
	evictor->orders = json_incref(orders);
	evictor->claims = json_incref(claims);
	evictor->again = true;
	if (!evictor->busy)
		plan(evictor, 0);
	return 0;
}

int evictor_new(const struct evictor_options *options, struct evictor **ret)
{
	_cleanup_(evictor_freep) struct evictor *evictor = calloc(1, sizeof(*evictor));
	int r;

	if (!evictor)
		return -ENOMEM;
	evictor->options = *options;
	r = sd_event_add_time(options->event, &evictor->timer, CLOCK_MONOTONIC, 0,
		10 * USEC_PER_MSEC, on_timer, evictor);
	if (r >= 0)
		r = sd_event_source_set_enabled(evictor->timer, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(evictor);
	return 0;
}

struct evictor *evictor_free(struct evictor *evictor)
{
	if (!evictor)
		return NULL;
	dra_api_cancel(evictor->options.api, evictor);
	for (size_t i = 0; i < evictor->n_targets; i++)
		(void)target_free(evictor->targets[i]);
	free(evictor->targets);
	json_decref(evictor->orders);
	json_decref(evictor->claims);
	json_decref(evictor->round_claims);
	json_decref(evictor->node);
	sd_event_source_disable_unref(evictor->timer);
	free(evictor);
	return NULL;
}
