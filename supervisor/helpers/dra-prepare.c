/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which resource's process builds the edits of which device when a claim is prepared. All
 * devices of one request and one resource are sent together, as the devices of a container are at
 * Allocate, so that ${ids} names all of them. They share one CDI device, which is in the answer for
 * the first of them: a runtime would apply a repeated name twice.
 */
#include "supervisor/helpers/dra-prepare.h"

#include "common/json-read.h"
#include "common/sealed.h"
#include "drivers/allocation/cdi.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"

/* As proto/plugin/edits.h. */
#define EDITS_MAX (1U << 20)

struct dra_preparation {
	struct manager *manager;
	struct dra_claims *claims;
	json_t *claim;
	json_t *spec_devices;
	size_t at; /* the device whose group is being asked for */
	size_t n_groups;
	const struct child *child;
	uint64_t number; /* of the question */
	sd_event_source *step, *timeout;
	dra_prepare_handler on_end;
	void *userdata;
};

static bool is_of_group(const json_t *device, const json_t *first)
{
	return streq(text_of(device, "request"), text_of(first, "request")) &&
		streq(text_of(device, "resource"), text_of(first, "resource"));
}

static json_t *device_at(const struct dra_preparation *preparation, size_t i)
{
	return json_array_get(json_object_get(preparation->claim, "devices"), i);
}

static size_t count_devices(const struct dra_preparation *preparation)
{
	return json_array_size(json_object_get(preparation->claim, "devices"));
}

static void finish(
	struct dra_preparation *preparation, const json_t *claim, const struct error *error)
{
	dra_prepare_handler on_end = preparation->on_end;
	void *userdata = preparation->userdata;
	json_t *kept = json_incref((json_t *)(uintptr_t)claim);

	(void)dra_prepare_free(preparation);
	on_end(kept, error, userdata);
	json_decref(kept);
}

/* --- a question --- */

static int make_question(const struct dra_preparation *preparation)
{
	const json_t *first = device_at(preparation, preparation->at);
	_cleanup_close_ int fd = sealed_begin("devices");
	int r;

	for (size_t i = preparation->at; i < count_devices(preparation) && fd >= 0; i++) {
		const json_t *device = device_at(preparation, i);

		if (is_of_group(device, first) && dprintf(fd, "%s\n", text_of(device, "id")) < 0)
			return -ENOMEM;
	}
	if (fd < 0)
		return fd;
	r = sealed_end(fd);
	return r < 0 ? r : TAKE_FD(fd);
}

static int ask(struct dra_preparation *preparation, struct error *error)
{
	const char *name = text_of(device_at(preparation, preparation->at), "resource");
	_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(CHILD_EDIT);
	const struct child *child = manager_find_child(preparation->manager, name);
	static uint64_t last_number;
	int r;

	if (!child || child->leaving || child_registration(child) != REGISTRATION_DRA)
		return error_set(error, -ENOENT, "%s is not served by DRA on this node", name);
	if (child->process.pid == 0 || !child->resource->accepted)
		return error_set(error, -EAGAIN, "the process of %s is not ready: %s", name,
			child->resource->reason);
	r = make_question(preparation);
	if (r >= 0) {
		message.fds[0] = r;
		message.number = ++last_number;
		r = control_send(child->process.control_fd, &message);
	}
	if (r < 0)
		return error_set(error, r, "cannot send the request to the process of %s: %s", name,
			strerror(-r));
	preparation->child = child;
	preparation->number = last_number;
	return 0;
}

/* --- an answer --- */

static int take_answer(struct dra_preparation *preparation, json_t *answer, struct error *error)
{
	json_t *device = device_at(preparation, preparation->at);
	const struct child *child =
		manager_find_child(preparation->manager, text_of(device, "resource"));
	const struct declaration *declaration = child ? child_declaration(child) : NULL;
	json_t *edits = json_object_get(answer, "containerEdits");
	json_t *names = json_object_get(answer, "cdi");
	char name[CDI_DEVICE_NAME_MAX + 1], full[CDI_DEVICE_NAME_MAX + sizeof(DRA_CDI_KIND "=")];
	int r;

	(void)snprintf(name, sizeof(name), "%.*s-%zu", DRA_CLAIM_ID_MAX,
		text_of(preparation->claim, "uid"), preparation->n_groups++);
	(void)snprintf(full, sizeof(full), DRA_CDI_KIND "=%s", name);
	if (!declaration)
		return error_set(error, -ENOENT, "the resource is not declared any more");
	r = dra_claims_check_names(names, error);
	if (r >= 0 && edits)
		r = dra_claims_check_edits(declaration, name, edits, error);
	if (r < 0)
		return r;
	if (edits &&
		(json_array_append_new(preparation->spec_devices,
			 json_pack("{s:s, s:O}", "name", name, "containerEdits", edits)) < 0 ||
			json_array_append_new(names, json_string(full)) < 0))
		return error_set(error, -ENOMEM, "out of memory");
	return json_object_set(device, "cdi", names) < 0
		? error_set(error, -ENOMEM, "out of memory")
		: 0;
}

static int read_answer(
	struct dra_preparation *preparation, struct control_message *message, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	json_auto_t *answer = NULL;
	size_t size;
	int r;

	if (message->fds[0] < 0)
		return error_set(error, -EIO, "%s",
			message->text[0] ? message->text : "the process gave no reason");
	r = sealed_read(message->fds[0], EDITS_MAX, &text, &size);
	if (r < 0)
		return error_set(
			error, r, "the answer of the process cannot be read: %s", strerror(-r));
	answer = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	if (!answer)
		return error_set(error, -EBADMSG, "the answer of the process is not valid JSON");
	return take_answer(preparation, answer, error);
}

/* --- steps --- */

static int complete(struct dra_preparation *preparation, struct error *error)
{
	json_t *claim = preparation->claim, *spec;
	int r;

	(void)json_object_del(claim, "spec");
	if (json_array_size(preparation->spec_devices) > 0) {
		spec = json_pack("{s:s, s:s, s:O}", "cdiVersion", "0.3.0", "kind", DRA_CDI_KIND,
			"devices", preparation->spec_devices);
		if (!spec)
			return error_set(error, -ENOMEM, "out of memory");
		(void)json_object_set_new(spec, "cdiVersion", json_string(cdi_version(spec)));
		(void)json_object_set_new(claim, "spec", spec);
	}
	r = dra_claims_add(preparation->claims, json_incref(claim), error);
	if (r < 0)
		json_decref(claim);
	return r;
}

/* Asks for the next group, or finishes. */
static void go_on(struct dra_preparation *preparation)
{
	struct error error = { 0 };
	int r;

	while (preparation->at < count_devices(preparation) &&
		json_object_get(device_at(preparation, preparation->at), "cdi"))
		preparation->at++;
	if (preparation->at < count_devices(preparation)) {
		r = ask(preparation, &error);
		if (r >= 0)
			return;
	} else
		r = complete(preparation, &error);
	finish(preparation, r < 0 ? NULL : preparation->claim, &error);
}

static int on_step(sd_event_source *source, void *userdata)
{
	go_on(userdata);
	return 0;
}

/* The other devices of the group get the names of the first one. */
static void mark_group(struct dra_preparation *preparation)
{
	const json_t *first = device_at(preparation, preparation->at);

	for (size_t i = preparation->at + 1; i < count_devices(preparation); i++)
		if (is_of_group(device_at(preparation, i), first))
			(void)json_object_set_new(device_at(preparation, i), "cdi", json_array());
}

void dra_prepare_take_edits(struct dra_preparation *preparation, const struct child *child,
	struct control_message *message)
{
	struct error error = { 0 };

	if (!preparation || preparation->child != child || preparation->number != message->number)
		return;
	preparation->child = NULL;
	if (read_answer(preparation, message, &error) < 0) {
		error_prefix(&error, "%s", child->resource->name);
		finish(preparation, NULL, &error);
		return;
	}
	mark_group(preparation);
	go_on(preparation);
}

void dra_prepare_child_gone(struct dra_preparation *preparation, const struct child *child)
{
	struct error error = { 0 };

	if (!preparation || preparation->child != child)
		return;
	(void)error_set(&error, -EAGAIN,
		"the process of %s ended before it answered; the kubelet will retry",
		child->resource->name);
	finish(preparation, NULL, &error);
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct dra_preparation *preparation = userdata;
	struct error error = { 0 };

	(void)error_set(&error, -ETIMEDOUT, "the process of %s did not answer within %llu s",
		text_of(device_at(preparation, preparation->at), "resource"),
		DRA_PREPARE_TIMEOUT / USEC_PER_SEC);
	finish(preparation, NULL, &error);
	return 0;
}

int dra_prepare(struct manager *manager, struct dra_claims *claims, json_t *claim,
	dra_prepare_handler on_end, void *userdata, struct dra_preparation **ret,
	struct error *error)
{
	_cleanup_(dra_prepare_freep) struct dra_preparation *preparation = NULL;
	int r;

	preparation = calloc(1, sizeof(*preparation));
	if (!preparation) {
		json_decref(claim);
		return error_set(error, -ENOMEM, "out of memory");
	}
	preparation->manager = manager;
	preparation->claims = claims;
	preparation->claim = claim;
	preparation->spec_devices = json_array();
	preparation->on_end = on_end;
	preparation->userdata = userdata;
	r = dra_claims_check(claims, claim, error);
	if (r < 0)
		return r;
	r = sd_event_add_defer(manager->event, &preparation->step, on_step, preparation);
	if (r >= 0)
		r = sd_event_add_time_relative(manager->event, &preparation->timeout,
			CLOCK_MONOTONIC, DRA_PREPARE_TIMEOUT, USEC_PER_SEC, on_timeout,
			preparation);
	if (r < 0)
		return error_set(error, r, "%s", strerror(-r));
	*ret = TAKE_PTR(preparation);
	return 0;
}

struct dra_preparation *dra_prepare_free(struct dra_preparation *preparation)
{
	if (!preparation)
		return NULL;
	sd_event_source_disable_unref(preparation->step);
	sd_event_source_disable_unref(preparation->timeout);
	json_decref(preparation->claim);
	json_decref(preparation->spec_devices);
	free(preparation);
	return NULL;
}
