/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which of an answer's members are used: names of CDI devices, and edits that the resource
 * may give. All devices of a group are sent together, as the devices of a container are at
 * Allocate, so that ${ids} names all of them.
 */
#include "supervisor/helpers/dra-question.h"

#include "common/json-read.h"
#include "common/sealed.h"
#include "drivers/model/parameter.h"
#include "supervisor/books/booked.h"
#include "supervisor/books/dra-claim.h"
#include "supervisor/books/dra-metadata.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"

void dra_question_edits_done(struct dra_edits *edits)
{
	json_decref(edits->names);
	json_decref(edits->edits);
	json_decref(edits->hash);
}

/* A container with several shares of a device gets the device once, with their sum. */
static int add_device(json_t *ids, json_t *amounts, const json_t *device)
{
	json_t *id = json_object_get(device, "id"), *sums;
	const char *text = text_of(device, "id");

	if (!json_object_get(device, "amounts"))
		return json_array_append(ids, id);
	sums = json_object_get(amounts, text);
	if (!sums &&
		(json_array_append(ids, id) < 0 ||
			json_object_set_new(amounts, text, json_object()) < 0))
		return -ENOMEM;
	return dra_claim_add_amounts(device, json_object_get(amounts, text));
}

static int make_question(const json_t *claim, size_t at)
{
	const json_t *first = dra_claim_device(claim, at);
	json_auto_t *ids = json_array(), *amounts = json_object(), *question = NULL;
	_cleanup_free_ char *text = NULL;

	for (size_t i = at; i < dra_claim_count(claim); i++) {
		const json_t *device = dra_claim_device(claim, i);

		if (dra_claim_is_group(device, first) && add_device(ids, amounts, device) < 0)
			return -ENOMEM;
	}
	question = json_pack("{s:O, s:O, s:O*}", "ids", ids, "amounts", amounts, "parameters",
		json_object_get(first, "parameters"));
	text = question ? json_dumps(question, JSON_COMPACT) : NULL;
	return text ? sealed_new("devices", text, strlen(text)) : -ENOMEM;
}

static int find_child(const struct manager *manager, const char *name, bool again,
	struct child **ret, struct error *error)
{
	struct child *child = manager_find_child(manager, name);

	if (!child || child->leaving || (!again && child_registration(child) != REGISTRATION_DRA))
		return error_set(error, -ENOENT, "%s is not served by DRA on this node", name);
	*ret = child;
	return 0;
}

int dra_question_check_served(
	const struct manager *manager, const json_t *claim, struct error *error)
{
	struct child *child;
	int r = 0;

	for (size_t i = 0; i < dra_claim_count(claim) && r >= 0; i++)
		r = find_child(manager, text_of(dra_claim_device(claim, i), "resource"), false,
			&child, error);
	return r;
}

int dra_question_resolve(const struct manager *manager, json_t *claim, struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < dra_claim_count(claim) && r >= 0; i++) {
		json_t *device = dra_claim_device(claim, i), *resolved = NULL;
		const struct declaration *declaration;
		struct child *child = NULL;

		r = find_child(manager, text_of(device, "resource"), false, &child, error);
		if (r < 0)
			return r;
		declaration = child_declaration(child);
		if (!declaration)
			return error_set(error, -EAGAIN, "the process of %s is not ready",
				child->resource->name);
		r = parameters_resolve(&declaration->parameters, child->resource->name,
			json_object_get(device, "parameters"), &resolved, error);
		if (r < 0)
			error_prefix(error, "claim %s/%s: opaque.parameters",
				text_of(claim, "namespace"), text_of(claim, "name"));
		else if (json_object_size(resolved) > 0)
			r = json_object_set(device, "parameters", resolved);
		else
			(void)json_object_del(device, "parameters");
		json_decref(resolved);
	}
	return r;
}

/* NULL: the claim does not hold the device. */
static struct claimant *holder_of(const struct manager *manager, const json_t *device)
{
	struct child *child = manager_find_child(manager, text_of(device, "resource"));

	return child && !dra_claim_is_admin(device) ? child->claimant : NULL;
}

static void release_first(
	const struct manager *manager, const json_t *claim, size_t n, bool prepared)
{
	for (size_t i = 0; i < n; i++) {
		const json_t *device = dra_claim_device(claim, i);
		struct claimant *claimant = holder_of(manager, device);

		if (claimant)
			claimant_release(claimant, text_of(device, "id"), prepared);
	}
}

int dra_question_hold(const struct manager *manager, const json_t *claim, struct error *error)
{
	for (size_t i = 0; i < dra_claim_count(claim); i++) {
		const json_t *device = dra_claim_device(claim, i);
		struct claimant *claimant = holder_of(manager, device);
		int r = claimant ? claimant_hold(claimant, text_of(device, "id"), error) : 0;

		if (r < 0) {
			release_first(manager, claim, i, false);
			return r;
		}
	}
	return 0;
}

void dra_question_release(const struct manager *manager, const json_t *claim, bool prepared)
{
	release_first(manager, claim, dra_claim_count(claim), prepared);
}

int dra_question_ask(struct dra_question *question, const struct manager *manager,
	const json_t *claim, size_t at, bool again, struct error *error)
{
	const json_t *first = dra_claim_device(claim, at);
	const char *name = text_of(first, "resource");
	_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(CHILD_EDIT);
	static uint64_t last_number;
	struct child *child = NULL;
	int r;

	r = find_child(manager, name, again, &child, error);
	if (r < 0)
		return r;
	if (child->process.pid == 0 || !child->resource->accepted)
		return error_set(error, -EAGAIN, "the process of %s is not ready: %s", name,
			child->resource->reason);
	if (again)
		(void)snprintf(message.text, sizeof(message.text), "%s",
			set_text_of(first, "edits") ?: "-");
	else if (dra_claim_group_is_admin(claim, at))
		(void)snprintf(message.text, sizeof(message.text), CHILD_EDIT_ADMIN);
	/* The process refuses what a pod has through the device plugin. */
	r = booked_send(manager->booked, child);
	if (r >= 0)
		r = make_question(claim, at);
	if (r >= 0) {
		message.fds[0] = r;
		message.number = ++last_number;
		r = control_send(child->process.control_fd, &message);
	}
	if (r < 0)
		return error_set(error, r, "cannot send the request to the process of %s: %s", name,
			strerror(-r));
	*question = (struct dra_question){ .child = child, .number = last_number };
	return 0;
}

bool dra_question_is_answer(struct dra_question *question, const struct child *child,
	const struct control_message *message)
{
	if (question->child != child || question->number != message->number)
		return false;
	question->child = NULL;
	return true;
}

static int take_members(const struct declaration *declaration, const json_t *answer,
	const char *name, bool mounted, struct dra_edits *edits, struct error *error)
{
	json_t *made = json_object_get(answer, "containerEdits");
	const char *hash = text_of(answer, "hash");
	int r;

	if (!dra_claim_hash_is_valid(hash))
		return error_set(
			error, -EBADMSG, "the answer of the process has a hash that is not valid");
	edits->hash = json_string(hash);
	edits->names = json_deep_copy(json_object_get(answer, "cdi"));
	r = dra_claim_check_names(edits->names, error);
	if (r >= 0 && made)
		r = dra_claim_check_edits(declaration, name, made, error);
	if (r < 0 || (!made && !mounted))
		return r;
	edits->edits = json_incref(made);
	return json_array_append_new(edits->names, dra_claim_full_name(name)) < 0
		? error_set(error, -ENOMEM, "out of memory")
		: 0;
}

static int read_answer(const struct child *child, struct control_message *message, const char *name,
	bool mounted, struct dra_edits *edits, struct error *error)
{
	const struct declaration *declaration = child_declaration(child);
	_cleanup_free_ char *text = NULL;
	json_auto_t *answer = NULL;
	int r;

	if (message->fds[0] < 0 && !message->text[0])
		return 0;
	if (message->fds[0] < 0)
		return error_set(error, -EIO, "%s", message->text);
	if (!declaration)
		return error_set(error, -ENOENT, "the resource is not declared any more");
	r = sealed_read(message->fds[0], EDITS_BYTES_MAX, &text, &edits->size);
	if (r < 0)
		return error_set(
			error, r, "the answer of the process cannot be read: %s", strerror(-r));
	answer = json_loadb(text, edits->size, JSON_REJECT_DUPLICATES, NULL);
	if (!answer)
		return error_set(error, -EBADMSG, "the answer of the process is not valid JSON");
	return take_members(declaration, answer, name, mounted, edits, error);
}

int dra_question_read(const struct child *child, struct control_message *message,
	const json_t *claim, size_t at, struct dra_edits *ret, struct error *error)
{
	_cleanup_edits_ struct dra_edits edits = { 0 };
	char name[CDI_DEVICE_NAME_MAX + 1];
	int r;

	dra_claim_edits_name(claim, at, name);
	r = read_answer(child, message, name, dra_metadata_is_mounted(claim, at), &edits, error);
	if (r < 0) {
		error_prefix(error, "%s", child->resource->name);
		return r;
	}
	*ret = edits;
	edits = (struct dra_edits){ 0 };
	return 0;
}
