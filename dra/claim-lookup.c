/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what an answer of the API server means for a claim that the kubelet does not know. Any
 * doubt means that the claim exists. Claims are read one after the other, so that they do not delay
 * those that the kubelet waits for; without an answer, the rest is not read.
 */
#include "dra/claim-lookup.h"

#include "common/json-read.h"
#include "common/sealed.h"
#include "common/text.h"
#include "dra/model/dra-names.h"

#define CLAIMS_SIZE_MAX (1U << 20)

struct claim_lookup {
	struct dra_api *api;
	const char *node;
	uint64_t number; /* of the question */
	json_t *claims;  /* {"uid", "namespace", "name"} */
	size_t at;       /* the one that is read */
	json_t *unknown; /* the UIDs of those before */
};

/* --- answers of the API server --- */

static bool is_missing(const json_t *status, const char *name)
{
	const json_t *details = json_object_get(status, "details");

	return streq(text_of(status, "reason"), "NotFound") &&
		streq(text_of(details, "kind"), "resourceclaims") &&
		streq(text_of(details, "name"), name);
}

/* plugin/pkg/auth/authorizer/node, which quotes the node's name in one way or the other. */
static bool is_unrelated(const json_t *status, const char *node)
{
	const char *message = text_of(status, "message");
	char text[512];

	for (size_t i = 0; i < 2; i++) {
		(void)snprintf(text, sizeof(text),
			"no relationship found between node %c%s%c and this object", "'\""[i], node,
			"'\""[i]);
		if (strstr(message, text))
			return true;
	}
	return false;
}

static bool is_other(const json_t *claim, const char *name, const char *uid)
{
	const json_t *metadata = json_object_get(claim, "metadata");
	const char *found = set_text_of(metadata, "uid");

	return streq(text_of(claim, "kind"), "ResourceClaim") &&
		streq(text_of(metadata, "name"), name) && found && !streq(found, uid);
}

bool claim_lookup_is_unknown(
	const struct dra_answer *answer, const char *name, const char *uid, const char *node)
{
	switch (answer->code) {
	case 200:
		return is_other(answer->body, name, uid);
	case 403:
		return is_unrelated(answer->body, node);
	case 404:
		return is_missing(answer->body, name);
	default:
		return false;
	}
}

/* --- questions of the supervisor --- */

static void finish(struct claim_lookup *lookup)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_UNKNOWN);
	_cleanup_free_ char *text = json_dumps(lookup->unknown, JSON_COMPACT);

	message.number = lookup->number;
	message.fds[0] = text ? sealed_new("unknown", text, strlen(text)) : -EBADF;
	/* Without an answer, the supervisor asks again in the next round. */
	if (message.fds[0] >= 0)
		(void)control_send(CONTROL_FD, &message);
}

static void look_up(struct claim_lookup *lookup);

static void on_claim(const struct dra_answer *answer, void *userdata)
{
	struct claim_lookup *lookup = userdata;
	const json_t *claim = json_array_get(lookup->claims, lookup->at);
	json_t *uid = json_object_get(claim, "uid");

	if (claim_lookup_is_unknown(
		    answer, text_of(claim, "name"), json_string_value(uid), lookup->node))
		(void)json_array_append(lookup->unknown, uid);
	lookup->at = answer->code == 0 ? json_array_size(lookup->claims) : lookup->at + 1;
	look_up(lookup);
}

static void look_up(struct claim_lookup *lookup)
{
	const json_t *claim = json_array_get(lookup->claims, lookup->at);
	_cleanup_free_ char *path = NULL;

	if (!claim) {
		finish(lookup);
		return;
	}
	if (format_text(&path, DRA_CLAIM_PATH, text_of(claim, "namespace"),
		    text_of(claim, "name")) >= 0)
		(void)dra_api_request(lookup->api, "GET", path, NULL, on_claim, lookup);
}

static bool are_valid(const json_t *claims)
{
	const json_t *claim;
	size_t i;

	json_array_foreach(claims, i, claim)
	{
		if (!dra_name_is_valid(text_of(claim, "uid"), DRA_CLAIM_ID_MAX) ||
			!dra_name_is_valid(text_of(claim, "namespace"), DRA_OBJECT_NAME_MAX) ||
			!dra_name_is_valid(text_of(claim, "name"), DRA_OBJECT_NAME_MAX))
			return false;
	}
	return json_is_array(claims);
}

int claim_lookup_begin(struct claim_lookup *lookup, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	json_auto_t *claims = NULL;
	size_t size;
	int r;

	r = sealed_read(message->fds[0], CLAIMS_SIZE_MAX, &text, &size);
	if (r < 0)
		return r;
	claims = json_loadb(text, size, 0, NULL);
	if (!are_valid(claims))
		return -EBADMSG;
	dra_api_cancel(lookup->api, lookup);
	json_decref(lookup->claims);
	lookup->claims = json_incref(claims);
	(void)json_array_clear(lookup->unknown);
	lookup->number = message->number;
	lookup->at = 0;
	look_up(lookup);
	return 0;
}

int claim_lookup_new(struct dra_api *api, const char *node, struct claim_lookup **ret)
{
	_cleanup_(claim_lookup_freep) struct claim_lookup *lookup = calloc(1, sizeof(*lookup));

	if (!lookup)
		return -ENOMEM;
	lookup->api = api;
	lookup->node = node;
	lookup->unknown = json_array();
	if (!lookup->unknown)
		return -ENOMEM;
	*ret = TAKE_PTR(lookup);
	return 0;
}

struct claim_lookup *claim_lookup_free(struct claim_lookup *lookup)
{
	if (!lookup)
		return NULL;
	if (lookup->api)
		dra_api_cancel(lookup->api, lookup);
	json_decref(lookup->claims);
	json_decref(lookup->unknown);
	free(lookup);
	return NULL;
}
