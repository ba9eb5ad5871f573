/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which claim's turn it is: preparations wait in the order of their requests, and each asks
 * as soon as no other has an open question to the same resource. One that has asked nothing yet is
 * dropped when its request is no longer waited for; one that has asked holds its devices until the
 * answer, because a program may be running for them. All devices of one group share one CDI device,
 * which is in the answer for the first of them: a runtime would apply a repeated name twice.
 */
#include "supervisor/helpers/dra-prepare.h"

#include <systemd/sd-event.h>

#include "common/json-read.h"
#include "supervisor/books/cleaning.h"
#include "supervisor/books/dra-claim.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/books/dra-metadata.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/helpers/dra-question.h"

/* As many calls of the kubelet as devplugd-cluster takes at once. */
#define REQUESTS_MAX 256

struct preparation {
	struct preparation *next;
	struct dra_preparations *all;
	json_t *claim;
	json_t *spec_devices;
	size_t at; /* the device whose group is being asked for, or is next */
	size_t reserved;
	struct dra_question question;
	bool begun; /* a process was asked */
	bool cancelled;
	struct dra_request requests[REQUESTS_MAX]; /* those that wait */
	size_t n_requests;
	uint64_t answer_deadline;
	sd_event_source *timer;
};

struct dra_preparations {
	struct manager *manager;
	struct dra_claims *claims;
	struct preparation *first;
	size_t count;
	sd_event_source *step;
	dra_prepare_handler on_end;
	void *userdata;
};

static struct preparation *preparation_free(struct preparation *preparation)
{
	if (!preparation)
		return NULL;
	dra_claims_give_back(preparation->all->claims, preparation->reserved);
	sd_event_source_disable_unref(preparation->timer);
	json_decref(preparation->claim);
	json_decref(preparation->spec_devices);
	free(preparation);
	return NULL;
}
DEFINE_CLEANUP(struct preparation *, preparation_free)

static const char *resource_of(const struct preparation *preparation)
{
	return text_of(dra_claim_device(preparation->claim, preparation->at), "resource");
}

static void go_on(struct dra_preparations *all)
{
	(void)sd_event_source_set_enabled(all->step, SD_EVENT_ONESHOT);
}

/* Answers those requests whose time ends until then. */
static void answer_until(struct preparation *preparation, uint64_t until, const json_t *claim,
	const struct error *error)
{
	const struct dra_preparations *all = preparation->all;
	size_t n = 0;

	for (size_t i = 0; i < preparation->n_requests; i++)
		if (preparation->requests[i].until <= until)
			all->on_end(preparation->requests[i].number, preparation->claim,
				claim ? NULL : error, all->userdata);
		else
			preparation->requests[n++] = preparation->requests[i];
	preparation->n_requests = n;
}

static void answer(struct preparation *preparation, const json_t *claim, const struct error *error)
{
	answer_until(preparation, USEC_INFINITY, claim, error);
}

/* Ends it with the claim, or with the error. */
static void finish(struct preparation *preparation, const json_t *claim, const struct error *error)
{
	struct dra_preparations *all = preparation->all;

	for (struct preparation **p = &all->first; *p; p = &(*p)->next)
		if (*p == preparation) {
			*p = preparation->next;
			break;
		}
	all->count--;
	dra_question_release(all->manager, preparation->claim, claim);
	cleaning_end_preparing(all->manager->cleaning, preparation->claim);
	answer(preparation, claim, error);
	(void)preparation_free(preparation);
	go_on(all);
}

/* --- limits of time --- */

static void plan_timer(struct preparation *preparation)
{
	uint64_t next = preparation->answer_deadline;

	for (size_t i = 0; i < preparation->n_requests; i++)
		next = MIN_OF(next, preparation->requests[i].until);
	(void)sd_event_source_set_time(preparation->timer, next);
	(void)sd_event_source_set_enabled(preparation->timer, SD_EVENT_ONESHOT);
}

/* Whether another preparation has an open question to the resource that is next here. */
static const struct preparation *find_earlier(const struct preparation *preparation)
{
	const char *resource = resource_of(preparation);

	for (const struct preparation *p = preparation->all->first; p; p = p->next)
		if (p != preparation && p->question.child && streq(resource_of(p), resource))
			return p;
	return NULL;
}

/* Without a request, only what was begun goes on. */
static void finish_unwanted(struct preparation *preparation)
{
	if (preparation->n_requests == 0 && !preparation->begun)
		finish(preparation, NULL, NULL);
	else
		plan_timer(preparation);
}

static void give_up_requests(struct preparation *preparation, uint64_t now)
{
	const struct preparation *earlier = find_earlier(preparation);
	int code = preparation->begun ? -EINPROGRESS : -ETIMEDOUT;
	struct error error = { 0 };

	if (earlier)
		(void)error_set(&error, code,
			"the process of %s still prepares the claim %s/%s; the kubelet will retry",
			resource_of(preparation), text_of(earlier->claim, "namespace"),
			text_of(earlier->claim, "name"));
	else
		(void)error_set(&error, code,
			"the process of %s did not answer in time; what it runs for the claim goes "
			"on, and the kubelet will retry",
			resource_of(preparation));
	answer_until(preparation, now, NULL, &error);
	finish_unwanted(preparation);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct preparation *preparation = userdata;
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	struct error error = { 0 };

	if (now >= preparation->answer_deadline) {
		(void)error_set(&error, -ETIMEDOUT,
			"the process of %s did not answer within %llu s", resource_of(preparation),
			DRA_ANSWER_TIMEOUT / USEC_PER_SEC);
		finish(preparation, NULL, &error);
		return 0;
	}
	give_up_requests(preparation, now);
	return 0;
}

static void set_request(struct preparation *preparation, const struct dra_request *request)
{
	uint64_t limit = now_usec(CLOCK_MONOTONIC) + DRA_PREPARE_TIMEOUT;

	preparation->requests[preparation->n_requests++] =
		(struct dra_request){ .number = request->number,
			.until = MIN_OF(request->until, limit) };
	plan_timer(preparation);
}

/* --- what a claim takes --- */

typedef int (*clean_function)(struct cleaning *cleaning, const struct child *child,
	const char *offered, const char *claim_uid, struct error *error);

static int for_each_cleaned(
	struct manager *manager, const json_t *claim, clean_function function, struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < dra_claim_count(claim) && r >= 0; i++) {
		const json_t *device = dra_claim_device(claim, i);
		const struct child *child =
			manager_find_child(manager, text_of(device, "resource"));
		const struct declaration *declaration = child ? child_declaration(child) : NULL;

		if (declaration && declaration_cleans(declaration) && !dra_claim_is_admin(device))
			r = function(manager->cleaning, child, text_of(device, "id"),
				text_of(claim, "uid"), error);
	}
	return r;
}

/* Devices that are dirty after another pod are cleaned first. A claim that waits for one takes none
 * of them. */
static int await_clean(struct manager *manager, const json_t *claim, struct error *error)
{
	return for_each_cleaned(manager, claim, cleaning_check_for_claim, error);
}

/* From here on, programs may run with the devices. */
static int take_clean(struct manager *manager, const json_t *claim, struct error *error)
{
	int r = await_clean(manager, claim, error);

	return r < 0 ? r : for_each_cleaned(manager, claim, cleaning_take_for_claim, error);
}

/* --- steps --- */

static void complete(struct preparation *preparation)
{
	struct dra_preparations *all = preparation->all;
	struct error error = { 0 };
	int r;

	dra_claims_give_back(all->claims, preparation->reserved);
	preparation->reserved = 0;
	/* Meanwhile, a resource may have moved to the device plugin. */
	r = dra_question_check_served(all->manager, preparation->claim, &error);
	if (r >= 0)
		r = dra_claims_add(
			all->claims, preparation->claim, preparation->spec_devices, &error);
	finish(preparation, r < 0 ? NULL : preparation->claim, &error);
}

static void step(struct preparation *preparation)
{
	struct manager *manager = preparation->all->manager;
	struct error error = { 0 };
	int r = 0;

	while (preparation->at < dra_claim_count(preparation->claim) &&
		!dra_claim_begins_group(preparation->claim, preparation->at))
		(void)json_object_set_new(dra_claim_device(preparation->claim, preparation->at++),
			"cdi", json_array());
	if (preparation->at == dra_claim_count(preparation->claim)) {
		complete(preparation);
		return;
	}
	if (find_earlier(preparation))
		return;
	if (!preparation->begun)
		r = take_clean(manager, preparation->claim, &error);
	if (r >= 0)
		r = dra_question_ask(&preparation->question, manager, preparation->claim,
			preparation->at, false, &error);
	if (r < 0) {
		finish(preparation, NULL, &error);
		return;
	}
	preparation->begun = true;
	preparation->answer_deadline = now_usec(CLOCK_MONOTONIC) + DRA_ANSWER_TIMEOUT;
	plan_timer(preparation);
}

static int on_step(sd_event_source *source, void *userdata)
{
	struct dra_preparations *all = userdata;
	struct preparation *next;

	for (struct preparation *p = all->first; p; p = next) {
		next = p->next;
		if (!p->question.child)
			step(p);
	}
	return 0;
}

static int take_edits(struct preparation *preparation, struct dra_edits *edits, struct error *error)
{
	json_t *device = dra_claim_device(preparation->claim, preparation->at);
	char name[CDI_DEVICE_NAME_MAX + 1];
	int r;

	if (!edits->names)
		return error_set(
			error, -EIO, "%s: the process gave no reason", resource_of(preparation));
	r = dra_claims_reserve(preparation->all->claims, edits->size, error);
	if (r < 0)
		return r;
	preparation->reserved += edits->size;
	dra_claim_edits_name(preparation->claim, preparation->at, name);
	if ((edits->edits &&
		    json_array_append_new(preparation->spec_devices,
			    json_pack("{s:s, s:O}", "name", name, "containerEdits", edits->edits)) <
			    0) ||
		json_object_set(device, "cdi", edits->names) < 0 ||
		json_object_set(device, "edits", edits->hash) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	return 0;
}

void dra_prepare_take(struct dra_preparations *preparations, const struct child *child,
	struct control_message *message)
{
	struct preparation *preparation = preparations->first;
	_cleanup_edits_ struct dra_edits edits = { 0 };
	struct error error = { 0 };
	int r;

	while (preparation && !dra_question_is_answer(&preparation->question, child, message))
		preparation = preparation->next;
	if (!preparation)
		return;
	preparation->answer_deadline = USEC_INFINITY;
	if (preparation->cancelled) {
		finish(preparation, NULL, &error);
		return;
	}
	r = dra_question_read(child, message, preparation->claim, preparation->at, &edits, &error);
	if (r >= 0)
		r = take_edits(preparation, &edits, &error);
	if (r < 0) {
		finish(preparation, NULL, &error);
		return;
	}
	preparation->at++;
	plan_timer(preparation);
	go_on(preparations);
}

void dra_prepare_child_gone(struct dra_preparations *preparations, const struct child *child)
{
	struct preparation *next;
	struct error error = { 0 };

	(void)error_set(&error, -EAGAIN,
		"the process of %s ended before it answered; the kubelet will retry",
		child->resource->name);
	for (struct preparation *p = preparations->first; p; p = next) {
		next = p->next;
		if (p->question.child == child)
			finish(p, NULL, &error);
	}
}

/* --- requests --- */

static struct preparation *find(
	const struct dra_preparations *preparations, const char *driver, const char *uid)
{
	for (struct preparation *p = preparations->first; p; p = p->next)
		if (dra_claim_is(p->claim, driver, uid))
			return p;
	return NULL;
}

/* The claim of the same driver and uid, prepared or not, or NULL. */
static const json_t *find_known(const struct dra_claims *claims, const json_t *claim)
{
	return dra_claims_get(claims, text_of(claim, "driver"), text_of(claim, "uid"));
}

bool dra_prepare_join(struct dra_preparations *preparations, const char *driver, const char *uid,
	const struct dra_request *request)
{
	struct preparation *preparation = find(preparations, driver, uid);
	struct error error = { 0 };

	if (!preparation)
		return false;
	if (preparation->cancelled || preparation->n_requests == REQUESTS_MAX) {
		(void)error_set(&error, -EBUSY,
			"the process of %s has not ended yet what it runs for the claim, which was "
			"unprepared; the kubelet will retry",
			resource_of(preparation));
		preparations->on_end(
			request->number, preparation->claim, &error, preparations->userdata);
		return true;
	}
	set_request(preparation, request);
	return true;
}

/* Devices that are being prepared for another claim count as its devices. */
static int check(
	const struct dra_preparations *preparations, const json_t *claim, struct error *error)
{
	json_auto_t *preparing = json_array();
	int r;

	for (const struct preparation *p = preparations->first; p; p = p->next)
		if (json_array_append(preparing, p->claim) < 0)
			return error_set(error, -ENOMEM, "out of memory");
	r = dra_claims_check(preparations->claims, claim, preparing, error);
	if (r >= 0 && !find_known(preparations->claims, claim) &&
		dra_claims_total(preparations->claims) + preparations->count >= DRA_CLAIMS_MAX)
		return error_set(error, -ENOSPC,
			"%d claims are prepared on this node; more are not accepted",
			DRA_CLAIMS_MAX);
	return r;
}

static int make(struct dra_preparations *preparations, json_t *claim, struct preparation **ret,
	struct error *error)
{
	_cleanup_(preparation_freep) struct preparation *preparation =
		calloc(1, sizeof(*preparation));
	_cleanup_free_ char *text = json_dumps(claim, JSON_COMPACT);
	int r;

	if (!preparation)
		return error_set(error, -ENOMEM, "out of memory");
	preparation->all = preparations;
	preparation->claim = json_incref(claim);
	preparation->spec_devices = json_array();
	preparation->answer_deadline = USEC_INFINITY;
	if (!text)
		return error_set(error, -ENOMEM, "out of memory");
	r = dra_claims_reserve(preparations->claims, strlen(text), error);
	if (r < 0)
		return r;
	preparation->reserved = strlen(text);
	r = sd_event_add_time(preparations->manager->event, &preparation->timer, CLOCK_MONOTONIC,
		USEC_INFINITY, USEC_PER_SEC, on_timer, preparation);
	if (r < 0)
		return error_set(error, r, "%s", strerror(-r));
	*ret = TAKE_PTR(preparation);
	return 0;
}

int dra_prepare_add(struct dra_preparations *preparations, json_t *claim,
	const struct dra_request *request, struct error *error)
{
	const json_t *known = find_known(preparations->claims, claim);
	struct preparation *preparation = NULL, **last = &preparations->first;
	int r;

	if (known && dra_claim_has_same_devices(claim, known)) {
		dra_claim_copy_names(claim, known);
		dra_claim_copy_parameters(claim, known);
		dra_metadata_follow(claim, known);
		r = 0;
	} else {
		r = dra_question_resolve(preparations->manager, claim, error);
	}
	if (r >= 0)
		r = check(preparations, claim, error);
	if (r >= 0)
		r = await_clean(preparations->manager, claim, error);
	if (r >= 0)
		r = make(preparations, claim, &preparation, error);
	if (r >= 0)
		r = dra_question_hold(preparations->manager, claim, error);
	if (r < 0) {
		(void)preparation_free(preparation);
		return r;
	}
	while (*last)
		last = &(*last)->next;
	*last = preparation;
	preparations->count++;
	set_request(preparation, request);
	go_on(preparations);
	return 0;
}

void dra_prepare_cancel(struct dra_preparations *preparations, const char *driver, const char *uid)
{
	struct preparation *preparation = find(preparations, driver, uid);
	struct error error = { 0 };

	if (!preparation || preparation->cancelled)
		return;
	(void)error_set(&error, -ECANCELED, "the claim was unprepared while it was being prepared");
	preparation->cancelled = true;
	if (preparation->question.child)
		answer(preparation, NULL, &error);
	else
		finish(preparation, NULL, &error);
}

int dra_prepare_add_uids(const struct dra_preparations *preparations, json_t *uids)
{
	for (const struct preparation *p = preparations->first; p; p = p->next)
		if (json_object_set_new(uids, text_of(p->claim, "uid"), json_true()) < 0)
			return -ENOMEM;
	return 0;
}

void dra_prepare_drop_request(struct dra_preparations *preparations, uint64_t number)
{
	for (struct preparation *p = preparations->first; p; p = p->next)
		for (size_t i = 0; i < p->n_requests; i++)
			if (p->requests[i].number == number) {
				p->requests[i] = p->requests[--p->n_requests];
				finish_unwanted(p);
				return;
			}
}

void dra_prepare_drop_requests(struct dra_preparations *preparations)
{
	struct preparation *next;

	for (struct preparation *p = preparations->first; p; p = next) {
		next = p->next;
		p->n_requests = 0;
		finish_unwanted(p);
	}
}

int dra_prepare_new(struct manager *manager, struct dra_claims *claims, dra_prepare_handler on_end,
	void *userdata, struct dra_preparations **ret)
{
	_cleanup_(dra_prepare_freep) struct dra_preparations *preparations =
		calloc(1, sizeof(*preparations));
	int r;

	if (!preparations)
		return -ENOMEM;
	*preparations = (struct dra_preparations){
		.manager = manager, .claims = claims, .on_end = on_end, .userdata = userdata
	};
	r = sd_event_add_defer(manager->event, &preparations->step, on_step, preparations);
	if (r >= 0)
		r = sd_event_source_set_enabled(preparations->step, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(preparations);
	return 0;
}

struct dra_preparations *dra_prepare_free(struct dra_preparations *preparations)
{
	if (!preparations)
		return NULL;
	while (preparations->first) {
		struct preparation *preparation = preparations->first;

		preparations->first = preparation->next;
		(void)preparation_free(preparation);
	}
	sd_event_source_disable_unref(preparations->step);
	free(preparations);
	return NULL;
}
