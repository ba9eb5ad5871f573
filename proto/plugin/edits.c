/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds what a container gets for devices that DRA has allocated. Each question keeps the offer
 * that was current when it arrived. First the programs run, then the edits are built, then prestart
 * runs; the answer comes last, because the container may be started at once.
 */
#include "proto/plugin/edits.h"

#include "common/log.h"
#include "common/sealed.h"
#include "drivers/allocation/allocation-inquiry.h"
#include "drivers/allocation/cdi.h"
#include "drivers/model/parameter.h"
#include "proto/plugin/call-failed.h"
#include "proto/plugin/plugin-send.h"
#include "proto/plugin/plugin.h"

#define HASH_SIZE 17

struct edits {
	struct edits *next;
	struct plugin *plugin;
	uint64_t number;
	struct offer *offer;
	json_t *question;
	const char **ids; /* in it */
	size_t n_ids;
	struct strings parameters;
	struct amounts amounts;     /* in the question, too */
	struct claim_values values; /* both */
	bool again;                 /* the claim is prepared already */
	bool admin;                 /* it has admin access, which others do not notice */
	char known[HASH_SIZE], hash[HASH_SIZE];
	struct inquiry *inquiry;
	char *answer; /* JSON */
};

static struct edits *edits_free(struct edits *edits)
{
	for (struct edits **e = &edits->plugin->edits; *e; e = &(*e)->next)
		if (*e == edits) {
			*e = edits->next;
			break;
		}
	(void)inquiry_free(edits->inquiry);
	offer_unref(edits->offer);
	json_decref(edits->question);
	free(edits->ids);
	strings_done(&edits->parameters);
	free(edits->amounts.items);
	free(edits->answer);
	free(edits);
	return NULL;
}

static void send_refusal(const struct plugin *plugin, uint64_t number, const struct error *error)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_EDITS);

	message.number = number;
	(void)snprintf(message.text, sizeof(message.text), "%s", error->message);
	plugin_send(plugin->event, &message);
}

static void refuse(struct edits *edits, const struct error *error)
{
	if (edits->again)
		edits->plugin->edits_owed = true;
	else
		call_failed(CHILD_CALL_ALLOCATE, edits->ids, edits->n_ids, error->message);
	send_refusal(edits->plugin, edits->number, error);
	(void)edits_free(edits);
}

/* Without an answer, the edits are the same as before. */
static void send_answer(struct edits *edits)
{
	_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(CHILD_EDITS);
	struct plugin *plugin = edits->plugin;
	struct error error = { 0 };

	message.number = edits->number;
	if (edits->answer)
		message.fds[0] = sealed_new("edits", edits->answer, strlen(edits->answer));
	if (edits->answer && message.fds[0] < 0) {
		(void)error_set(&error, -ENOMEM, "out of memory");
		refuse(edits, &error);
		return;
	}
	if (!edits->again) {
		if (!edits->admin)
			inventory_note_assigned(plugin->inventory, edits->ids, edits->n_ids);
		allocation_count_add(&plugin->allocation_count, edits->ids, edits->n_ids);
	}
	plugin_send(plugin->event, &message);
	if (!edits->again)
		plugin_report_counts(plugin);
	(void)edits_free(edits);
}

static void on_prestarted(int status, const struct error *error, void *userdata)
{
	struct edits *edits = userdata;

	if (status < 0)
		refuse(edits, error);
	else
		send_answer(edits);
}

/* NULL if a text is not UTF-8 or memory is short. */
static json_t *make_answer(const struct cdi_spec *spec, const struct allocation *allocation)
{
	json_auto_t *root = json_object(), *names = json_array();
	json_auto_t *made = cdi_edits(spec, allocation);

	for (size_t i = 0; i < allocation->n_cdi; i++)
		if (json_array_append_new(names, json_string(allocation->cdi[i])) < 0)
			return NULL;
	if (!made || json_object_set(root, "cdi", names) < 0 ||
		(json_object_size(made) > 0 && json_object_set(root, "containerEdits", made) < 0))
		return NULL;
	return json_incref(root);
}

static int build(const struct edits *edits, const struct allocation_answers *of_programs,
	json_t **ret, struct error *error)
{
	const struct offer *offer = edits->offer;
	const struct declaration *declaration = offer->applied_config->declaration;
	struct allocation_answers answers = { 0 };
	_cleanup_allocation_ struct allocation allocation = { 0 };
	int r;

	if (of_programs)
		answers = *of_programs;
	answers.values = edits->values;
	answers.claim = true;
	answers.admin = edits->admin;
	answers.in_use = edits->again;
	r = (offer_has_cdi(offer, edits->ids, edits->n_ids) ? allocation_build_cdi
							    : allocation_build)(declaration,
		offer->snapshot, declaration_root(declaration), edits->ids, edits->n_ids, &answers,
		&allocation, error);
	if (r < 0)
		return r;
	if (allocation.n_annotations > 0 && !edits->again)
		log_warning(
			"annotations of %s are left out: DRA does not support them", edits->ids[0]);
	*ret = make_answer(&declaration->cdi_spec, &allocation);
	return *ret ? 0
		    : error_set(error, -EILSEQ, "a path or variable of \"%s\" is not valid UTF-8",
			      edits->ids[0]);
}

static int set_answer(struct edits *edits, json_t *answer, struct error *error)
{
	if (json_object_set_new(answer, "hash", json_string(edits->hash)) >= 0)
		edits->answer = json_dumps(answer, JSON_COMPACT);
	if (!edits->answer)
		return error_set(error, -ENOMEM, "out of memory");
	if (strlen(edits->answer) > EDITS_BYTES_MAX)
		return error_set(error, -E2BIG,
			"the container edits take more than 1 MiB; request fewer devices in the claim");
	return 0;
}

static int make_hash(struct edits *edits, struct error *error)
{
	json_auto_t *answer = NULL;
	_cleanup_free_ char *text = NULL;
	int r;

	r = build(edits, NULL, &answer, error);
	if (r < 0)
		return r;
	text = json_dumps(answer, JSON_COMPACT);
	if (!text)
		return error_set(error, -ENOMEM, "out of memory");
	(void)snprintf(
		edits->hash, sizeof(edits->hash), "%016llx", (unsigned long long)hash_string(text));
	return 0;
}

static void finish(struct edits *edits)
{
	struct plugin *plugin = edits->plugin;
	json_auto_t *answer = NULL;
	struct error error = { 0 };
	int r;

	r = build(edits, edits->inquiry ? inquiry_answers(edits->inquiry) : NULL, &answer, &error);
	if (r >= 0)
		r = set_answer(edits, answer, &error);
	if (r < 0) {
		refuse(edits, &error);
		return;
	}
	/* A prestart program may reset a device that a pod uses. */
	if (edits->again || edits->admin ||
		edits->offer->applied_config->declaration->prestart.command.count == 0)
		send_answer(edits);
	else
		pre_start_run(&plugin->pre_starts, plugin->event, edits->offer, edits->ids,
			edits->n_ids, &edits->values, on_prestarted, edits);
}

static void on_inquired(int status, const struct error *error, void *userdata)
{
	if (status < 0)
		refuse(userdata, error);
	else
		finish(userdata);
}

static int inquire(struct edits *edits, struct error *error)
{
	const struct declaration *declaration = edits->offer->applied_config->declaration;
	int r;

	r = inquiry_new(declaration, edits->offer->snapshot, declaration_root(declaration),
		edits->ids, edits->n_ids, &edits->values, &edits->inquiry, error);
	if (r < 0 || inquiry_count(edits->inquiry) == 0)
		return r;
	r = inquiry_start(edits->inquiry, edits->plugin->event, now_usec(CLOCK_MONOTONIC),
		on_inquired, edits, error);
	return r < 0 ? r : 1;
}

static int read_ids(struct edits *edits, const json_t *ids, struct error *error)
{
	edits->ids = calloc(json_array_size(ids) + 1, sizeof(*edits->ids));
	if (!edits->ids)
		return error_set(error, -ENOMEM, "out of memory");
	for (size_t i = 0; i < json_array_size(ids); i++) {
		const char *id = json_string_value(json_array_get(ids, i));

		if (id)
			edits->ids[edits->n_ids++] = id;
	}
	if (!edits->offer || edits->n_ids == 0)
		return error_set(error, -EAGAIN, "the resource has no devices yet");
	return 0;
}

static int read_amounts(struct edits *edits, json_t *devices, struct error *error)
{
	struct amounts *amounts = &edits->amounts;
	const char *id, *name;
	json_t *of_device, *amount;

	json_object_foreach(devices, id, of_device) json_object_foreach(of_device, name, amount)
	{
		if (array_reserve(
			    (void **)&amounts->items, amounts->count, sizeof(*amounts->items)) < 0)
			return error_set(error, -ENOMEM, "out of memory");
		amounts->items[amounts->count++] = (struct amount){
			.id = id,
			.name = name,
			.amount = json_integer_value(amount),
		};
	}
	return 0;
}

/* The supervisor has checked the parameters of a new claim, perhaps by another configuration. */
static int read_question(struct edits *edits, int fd, struct error *error)
{
	const struct declaration *declaration;
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r;

	r = sealed_read(fd, EDITS_QUESTION_MAX, &text, &size);
	if (r < 0)
		return error_set(error, r, "the devices cannot be read: %s", strerror(-r));
	edits->question = json_loadb(text, size, 0, NULL);
	if (!edits->question)
		return error_set(error, -EBADMSG, "the question about devices is not valid JSON");
	r = read_ids(edits, json_object_get(edits->question, "ids"), error);
	if (r >= 0)
		r = read_amounts(edits, json_object_get(edits->question, "amounts"), error);
	if (r < 0)
		return r;
	declaration = edits->offer->applied_config->declaration;
	r = parameters_read(&declaration->parameters,
		json_object_get(edits->question, "parameters"), &edits->parameters, error);
	if (r == -EINVAL)
		error_prefix(error,
			"the configuration of %s does not permit a parameter that the claim was "
			"prepared with",
			declaration->name);
	return r;
}

static struct edits *edits_new(struct plugin *plugin, const struct control_message *message)
{
	struct edits *edits = calloc(1, sizeof(*edits));

	if (!edits)
		return NULL;
	edits->plugin = plugin;
	edits->values = (struct claim_values){ &edits->parameters, &edits->amounts };
	edits->number = message->number;
	edits->admin = streq(message->text, CHILD_EDIT_ADMIN);
	edits->again = *message->text && !edits->admin;
	(void)snprintf(edits->known, sizeof(edits->known), "%.*s", HASH_SIZE - 1, message->text);
	edits->next = plugin->edits;
	plugin->edits = edits;
	edits->offer = plugin->service ? service_current(plugin->service) : NULL;
	return edits;
}

/* Returns 1 if the answer follows, or 0. */
static int begin(struct edits *edits, int fd, struct error *error)
{
	int r;

	r = read_question(edits, fd, error);
	if (r >= 0)
		r = make_hash(edits, error);
	if (r < 0)
		return r;
	if (edits->again && streq(edits->known, edits->hash)) {
		send_answer(edits);
		return 1;
	}
	return inquiry_is_possible(edits->offer->applied_config->declaration)
		? inquire(edits, error)
		: 0;
}

void edits_begin(struct plugin *plugin, struct control_message *message)
{
	struct edits *edits = edits_new(plugin, message);
	struct error error = { 0 };
	int r;

	if (!edits) {
		(void)error_set(&error, -ENOMEM, "out of memory");
		send_refusal(plugin, message->number, &error);
		return;
	}
	r = begin(edits, message->fds[0], &error);
	if (r < 0)
		refuse(edits, &error);
	else if (r == 0)
		finish(edits);
}

void edits_offered(struct plugin *plugin, struct snapshot *snapshot)
{
	const struct control_message message = CHILD_MESSAGE_INIT(CHILD_EDITS_CHANGED);

	/* Claims may outlive the time when DRA served the resource. */
	if ((plugin->applied_config->declaration->serve != SERVE_DRA &&
		    !bookings_have_use(plugin->booked, BOOKED_IN_DRA)) ||
		(plugin->edits_config == plugin->applied_config && !plugin->edits_owed &&
			snapshot_shares_devices(plugin->edits_snapshot, snapshot)))
		return;
	plugin->edits_owed = false;
	(void)applied_config_unref(plugin->edits_config);
	plugin->edits_config = applied_config_ref(plugin->applied_config);
	(void)snapshot_unref(plugin->edits_snapshot);
	plugin->edits_snapshot = snapshot_ref(snapshot);
	plugin_send(plugin->event, &message);
}

void edits_done(struct plugin *plugin)
{
	/* Edits that wait for prestart end with it. */
	while (plugin->edits)
		(void)edits_free(plugin->edits);
	plugin->edits_config = applied_config_unref(plugin->edits_config);
	plugin->edits_snapshot = snapshot_unref(plugin->edits_snapshot);
}
