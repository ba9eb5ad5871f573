/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a claim that neither the kubelet nor the API server knows ends. devplugd-cluster,
 * which asks the API server, is not trusted: it can end no claim that is in the kubelet's file. The
 * file is read again before a claim ends, because the kubelet may have it by now.
 */
#include "supervisor/helpers/unknown-claims.h"

#include <jansson.h>

#include "common/json-read.h"
#include "common/log.h"
#include "common/sealed.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/children/auxiliary.h"
#include "supervisor/children/manager.h"
#include "supervisor/kubelet/kubelet-claims.h"

/* In dra.forget_after. */
#define ROUNDS 10
/* Maximum size of a CLUSTER_UNKNOWN: more than the UIDs of all claims take. */
#define UIDS_SIZE_MAX (256U << 10)

struct unknown_claims {
	struct manager *manager;
	struct dra_claims *claims;
	struct auxiliary *process;
	sd_event_source *timer;
	uint64_t interval; /* of the timer; 0: off */
	uint64_t number;   /* of the last question */
	uint64_t asked_at; /* CLOCK_MONOTONIC */
	json_t *asked;     /* by UID; NULL: no question is open */
	json_t *since;     /* by UID: when the first round began in which it was unknown */
	struct log_once logged;
};

static uint64_t limit_of(const struct unknown_claims *unknown)
{
	return unknown->manager->config->dra.forget_after;
}

/* --- a round --- */

/* The claims that the kubelet does not know: {UID: {"uid", "namespace", "name"}}. */
static int find_absent(struct unknown_claims *unknown, json_t **ret, struct error *error)
{
	json_auto_t *known = NULL, *absent = json_object();
	struct dra_claims_cursor cursor = { 0 };
	int r;

	r = kubelet_claims_read(unknown->manager->config->kubelet.root_dir, &known, error);
	if (r < 0)
		return r;
	while (dra_claims_next_device(unknown->claims, NULL, &cursor)) {
		const char *uid = text_of(cursor.json, "uid");

		if (!json_object_get(known, uid) &&
			json_object_set_new(absent, uid,
				json_pack("{s:s, s:O, s:O}", "uid", uid, "namespace",
					json_object_get(cursor.json, "namespace"), "name",
					json_object_get(cursor.json, "name"))) < 0)
			return error_set(error, -ENOMEM, "out of memory");
	}
	*ret = json_incref(absent);
	return 0;
}

static int send_question(struct unknown_claims *unknown, json_t *absent)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_LOOK_UP);
	json_auto_t *list = json_array();
	_cleanup_free_ char *text = NULL;
	const char *uid;
	json_t *claim;
	int r;

	json_object_foreach(absent, uid, claim)
	{
		if (json_array_append(list, claim) < 0)
			return -ENOMEM;
	}
	text = list ? json_dumps(list, JSON_COMPACT) : NULL;
	r = text ? sealed_new("claims", text, strlen(text)) : -ENOMEM;
	if (r < 0)
		return r;
	message.fds[0] = r;
	message.number = ++unknown->number;
	return auxiliary_send(unknown->process, &message);
}

/* Begins the time of all claims again but those that are in `absent`. */
static void restart_others(struct unknown_claims *unknown, const json_t *absent)
{
	const char *uid;
	json_t *since;
	void *next;

	json_object_foreach_safe(unknown->since, next, uid, since)
	{
		if (!json_object_get(absent, uid))
			(void)json_object_del(unknown->since, uid);
	}
}

static void begin_round(struct unknown_claims *unknown)
{
	json_auto_t *absent = NULL, *unanswered = TAKE_PTR(unknown->asked);
	struct error error = { 0 };
	int r;

	if (unanswered)
		(void)json_object_clear(unknown->since);
	r = find_absent(unknown, &absent, &error);
	if (log_once_admits(&unknown->logged, r < 0 ? error.message : NULL))
		log_notice("%s; claims that only devplugd knows do not end automatically",
			error.message);
	restart_others(unknown, absent);
	if (r < 0 || json_object_size(absent) == 0)
		return;
	if (send_question(unknown, absent) < 0) {
		(void)json_object_clear(unknown->since);
		return;
	}
	unknown->asked = json_incref(absent);
	unknown->asked_at = now_usec(CLOCK_MONOTONIC);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct unknown_claims *unknown = userdata;

	begin_round(unknown);
	return sd_event_source_set_time_relative(source, unknown->interval);
}

void unknown_claims_follow(struct unknown_claims *unknown)
{
	uint64_t interval = dra_claims_total(unknown->claims) > 0 ? limit_of(unknown) / ROUNDS : 0;

	if (interval == unknown->interval)
		return;
	unknown->interval = interval;
	if (interval == 0)
		(void)json_object_clear(unknown->since);
	else
		(void)sd_event_source_set_time_relative(unknown->timer, interval);
	(void)sd_event_source_set_enabled(
		unknown->timer, interval == 0 ? SD_EVENT_OFF : SD_EVENT_ON);
}

/* --- the answer --- */

/* The devices of the claim, for people; NULL: no memory. */
static char *name_devices(const struct dra_claims *claims, const char *uid)
{
	_cleanup_free_ char *text = strdup("");
	struct dra_claims_cursor cursor = { 0 };
	const json_t *device;
	char *longer;

	while (text && (device = dra_claims_next_device(claims, NULL, &cursor))) {
		if (!streq(text_of(cursor.json, "uid"), uid))
			continue;
		if (format_text(&longer, "%s%s%s/%s", text, *text ? ", " : "",
			    text_of(device, "resource"), text_of(device, "id")) < 0)
			return NULL;
		free(text);
		text = longer;
	}
	return TAKE_PTR(text);
}

/* Ends the claim of each driver that has prepared it. */
static void end_claim(struct unknown_claims *unknown, const char *uid, const json_t *claim)
{
	_cleanup_free_ char *devices = name_devices(unknown->claims, uid);
	struct dra_claims_cursor cursor = { 0 };
	struct error error = { 0 };
	int r = 0;

	while (r >= 0 && dra_claims_next_device(unknown->claims, NULL, &cursor)) {
		if (!streq(text_of(cursor.json, "uid"), uid))
			continue;
		r = dra_claims_remove(unknown->claims, text_of(cursor.json, "driver"), uid, &error);
		cursor = (struct dra_claims_cursor){ 0 };
	}
	if (r < 0)
		log_warning("cannot end the claim %s/%s, which only devplugd knows: %s",
			text_of(claim, "namespace"), text_of(claim, "name"), error.message);
	else
		log_notice("the claim %s/%s has ended, and its devices are free (%s): for %llu s, "
			   "neither the kubelet's " KUBELET_CLAIMS_FILE
			   " nor the API server has had it",
			text_of(claim, "namespace"), text_of(claim, "name"), devices ?: "",
			(unsigned long long)(limit_of(unknown) / USEC_PER_SEC));
}

/* Whether the claim has been unknown for so long that it ends. */
static bool is_due(struct unknown_claims *unknown, const char *uid)
{
	const json_t *since = json_object_get(unknown->since, uid);

	if (!since)
		(void)json_object_set_new(
			unknown->since, uid, json_integer((json_int_t)unknown->asked_at));
	return since &&
		unknown->asked_at - (uint64_t)json_integer_value(since) >= limit_of(unknown);
}

static void take_uids(struct unknown_claims *unknown, const json_t *asked, const json_t *uids)
{
	json_auto_t *still_absent = NULL, *answered = json_object();
	const json_t *uid;
	size_t i;

	json_array_foreach(uids, i, uid)
	{
		const char *text = json_string_value(uid);
		json_t *claim = text ? json_object_get(asked, text) : NULL;

		if (!claim || json_object_set(answered, text, claim) < 0 || !is_due(unknown, text))
			continue;
		if (!still_absent && find_absent(unknown, &still_absent, &(struct error){ 0 }) < 0)
			break;
		if (json_object_get(still_absent, text))
			end_claim(unknown, text, claim);
	}
	restart_others(unknown, answered);
}

bool unknown_claims_take(struct unknown_claims *unknown, struct control_message *message)
{
	json_auto_t *uids = NULL, *asked = NULL;
	_cleanup_free_ char *text = NULL;
	size_t size;

	/* An answer to the question of an earlier round. */
	if (!unknown->asked || message->number != unknown->number)
		return true;
	if (sealed_read(message->fds[0], UIDS_SIZE_MAX, &text, &size) < 0)
		return false;
	uids = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_array(uids))
		return false;
	asked = TAKE_PTR(unknown->asked);
	take_uids(unknown, asked, uids);
	return true;
}

/* --- --- */

int unknown_claims_new(struct manager *manager, struct dra_claims *claims,
	struct auxiliary *process, struct unknown_claims **ret)
{
	_cleanup_(unknown_claims_freep) struct unknown_claims *unknown =
		calloc(1, sizeof(*unknown));
	int r;

	if (!unknown)
		return -ENOMEM;
	unknown->manager = manager;
	unknown->claims = claims;
	unknown->process = process;
	unknown->since = json_object();
	if (!unknown->since)
		return -ENOMEM;
	r = sd_event_add_time(manager->event, &unknown->timer, CLOCK_MONOTONIC, USEC_INFINITY, 0,
		on_timer, unknown);
	if (r >= 0)
		r = sd_event_source_set_enabled(unknown->timer, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(unknown);
	return 0;
}

struct unknown_claims *unknown_claims_free(struct unknown_claims *unknown)
{
	if (!unknown)
		return NULL;
	sd_event_source_disable_unref(unknown->timer);
	json_decref(unknown->asked);
	json_decref(unknown->since);
	free(unknown);
	return NULL;
}
