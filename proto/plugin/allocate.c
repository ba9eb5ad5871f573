/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers Allocate calls after their programs have answered, and the supervisor knows that their
 * devices are in use. Each call keeps the offer that was current when it arrived, so a later reload
 * does not affect it. The answer is built when all programs have answered, or not at all.
 */
#include "proto/plugin/allocate.h"

#include "common/counters.h"
#include "common/log.h"
#include "common/sealed.h"
#include "drivers/allocation/allocation-inquiry.h"
#include "proto/plugin/device-attributes.h"
#include "proto/plugin/response.h"

/* More than the paths of as many containers as a call may have. */
#define METADATA_PATHS_MAX (8U << 20)
/* The supervisor writes a file meanwhile. */
#define ALLOCATE_SAVE_TIMEOUT (5 * USEC_PER_SEC)

struct allocate {
	struct mailbox_message base; /* on its way from gRPC's thread */
	struct allocate *next;
	struct allocates *allocates;
	struct offer *offer;
	struct rpc_call *call; /* NULL once answered */
	struct message message;
	size_t size;                             /* of it, in the call */
	const V1beta1__AllocateRequest *request; /* in it */
	struct inquiry **inquiries;              /* for each container of the request */
	size_t n_open;                           /* of them, not answered */
	struct device_use *use;                  /* the question whether that is saved */
	struct strings metadata;                 /* host paths, one for each container, or none */
	uint64_t since;                          /* CLOCK_MONOTONIC microseconds */
	bool running, answered;
};

/* Used by any thread before the call is in the list, then by the main thread. */
static struct allocate *allocate_free(struct allocate *allocate)
{
	struct allocates *allocates;

	if (!allocate)
		return NULL;
	allocates = allocate->allocates;
	for (size_t i = 0; allocate->inquiries && i < allocate->request->n_container_requests; i++)
		(void)inquiry_free(allocate->inquiries[i]);
	free(allocate->inquiries);
	(void)device_use_free(allocate->use);
	strings_done(&allocate->metadata);
	if (allocate->call)
		rpc_fail(allocate->call, RPC_UNAVAILABLE, "the plugin is stopping");
	message_done(&allocate->message);
	offer_unref(allocate->offer);
	atomic_fetch_sub(&allocates->n_calls, 1);
	atomic_fetch_sub(&allocates->n_bytes, allocate->size);
	free(allocate);
	return NULL;
}

static int add_pending(const struct allocate *allocate, struct bookings *pending)
{
	const V1beta1__AllocateRequest *request = allocate->request;
	int r = 0;

	for (size_t i = 0; i < request->n_container_requests && r >= 0; i++)
		r = snapshot_add_bookings(allocate->offer->snapshot,
			(const char *const *)request->container_requests[i]->devices_ids,
			request->container_requests[i]->n_devices_ids, 0, pending);
	return r;
}

/* After every change of the list of calls. */
static void report_pending(const struct allocates *allocates)
{
	_cleanup_bookings_ struct bookings *pending = NULL;
	int r = 0;

	if (allocates->first)
		r = bookings_new(&pending);
	for (const struct allocate *a = allocates->first; a && r >= 0; a = a->next)
		r = add_pending(a, pending);
	if (pending && r >= 0)
		r = bookings_sort(pending);
	if (r >= 0)
		allocates->on_pending(pending, allocates->userdata);
}

static void refuse(struct allocate *allocate, const struct error *error)
{
	const V1beta1__AllocateRequest *request = allocate->request;
	const struct allocates *allocates = allocate->allocates;

	response_refuse(TAKE_PTR(allocate->call), request, error);
	for (size_t i = 0; allocate->offer->readmitted && i < request->n_container_requests; i++)
		allocates->on_refused(
			(const char *const *)request->container_requests[i]->devices_ids,
			request->container_requests[i]->n_devices_ids, allocates->userdata);
}

static void answer(struct allocate *allocate)
{
	const V1beta1__AllocateRequest *request = allocate->request;
	const struct allocates *allocates = allocate->allocates;
	size_t n = request->n_container_requests;
	_cleanup_free_ const struct allocation_answers **answers = calloc(n, sizeof(*answers));
	_cleanup_free_ uint8_t *reply = NULL;
	struct error error = {};
	size_t size;
	int r;

	for (size_t i = 0; answers && i < n; i++)
		answers[i] = inquiry_answers(allocate->inquiries[i]);
	r = answers ? response_allocate(allocate->offer, request, answers, &allocate->metadata,
			      &reply, &size, &error)
		    : error_set(&error, -ENOMEM, "out of memory");
	if (r < 0) {
		refuse(allocate, &error);
		return;
	}
	for (size_t i = 0; i < n; i++)
		allocates->on_allocated(
			(const char *const *)request->container_requests[i]->devices_ids,
			request->container_requests[i]->n_devices_ids, allocates->userdata);
	rpc_reply(TAKE_PTR(allocate->call), reply, size);
	allocate->answered = true;
}

static void start_waiting(struct allocates *allocates);

/* Takes it out of the list. */
static void end(struct allocate *allocate)
{
	struct allocates *allocates = allocate->allocates;

	counters_add_allocation(allocate->answered, now_usec(CLOCK_MONOTONIC) - allocate->since);
	for (struct allocate **a = &allocates->first; *a; a = &(*a)->next)
		if (*a == allocate) {
			*a = allocate->next;
			break;
		}
	allocates->n_running -= allocate->running;
	(void)allocate_free(allocate);
	report_pending(allocates);
}

/* It has been answered. */
static void leave(struct allocate *allocate)
{
	struct allocates *allocates = allocate->allocates;

	end(allocate);
	start_waiting(allocates);
}

static int read_metadata(struct allocate *allocate, int fd, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	char *rest, *line;
	size_t size;
	int r = sealed_read(fd, METADATA_PATHS_MAX, &text, &size);

	rest = r < 0 ? NULL : text;
	while (r >= 0 && (line = strsep(&rest, "\n")))
		r = *line ? strings_add(&allocate->metadata, line, strlen(line)) : 0;
	if (r >= 0 && allocate->metadata.count != allocate->request->n_container_requests)
		r = -EBADMSG;
	return r < 0 ? error_set(error, r, "cannot read devplugd's answer: %s", strerror(-r)) : 0;
}

static void on_saved(int status, int metadata_fd, const struct error *error, void *userdata)
{
	struct allocate *allocate = userdata;
	struct error unread = {};

	if (status >= 0 && allocate->offer->applied_config->declaration->metadata) {
		status = read_metadata(allocate, metadata_fd, &unread);
		error = &unread;
	}
	if (status < 0)
		refuse(allocate, error);
	else
		answer(allocate);
	leave(allocate);
}

static int save_use(struct allocate *allocate, struct error *error)
{
	const V1beta1__AllocateRequest *request = allocate->request;
	size_t n = request->n_container_requests, n_ids = 0;
	_cleanup_free_ const char **ids = NULL;
	_cleanup_close_ int attributes_fd = -EBADF;

	for (size_t i = 0; i < request->n_container_requests; i++)
		n += request->container_requests[i]->n_devices_ids;
	ids = calloc(n, sizeof(*ids));
	if (!ids)
		return error_set(error, -ENOMEM, "out of memory");
	for (size_t i = 0; i < request->n_container_requests; i++) {
		if (i > 0)
			ids[n_ids++] = "";
		for (size_t k = 0; k < request->container_requests[i]->n_devices_ids; k++)
			ids[n_ids++] = request->container_requests[i]->devices_ids[k];
	}
	if (allocate->offer->applied_config->declaration->metadata) {
		attributes_fd = device_attributes_for_use(allocate->offer, ids, n_ids);
		if (attributes_fd < 0)
			return error_set(error, attributes_fd,
				"cannot send the attributes of devices to devplugd: %s",
				strerror(-attributes_fd));
	}
	return device_use_ask(allocate->allocates->uses, CHILD_USE_ALLOCATED, ids, n_ids,
		attributes_fd, ALLOCATE_SAVE_TIMEOUT, on_saved, allocate, &allocate->use, error);
}

/* All programs have answered. The call is answered when this returns, or later. */
static void conclude(struct allocate *allocate)
{
	struct error error = {};

	if (!declaration_asks_use(allocate->offer->applied_config->declaration))
		answer(allocate);
	else if (save_use(allocate, &error) < 0)
		refuse(allocate, &error);
}

static void on_answers(int status, const struct error *error, void *userdata)
{
	struct allocate *allocate = userdata;

	if (status >= 0 && --allocate->n_open > 0)
		return;
	if (status < 0)
		refuse(allocate, error);
	else
		conclude(allocate);
	if (!allocate->call)
		leave(allocate);
}

static int ask(struct allocate *allocate, struct error *error)
{
	const V1beta1__AllocateRequest *request = allocate->request;
	const struct declaration *declaration = allocate->offer->applied_config->declaration;
	int r;

	allocate->inquiries = calloc(request->n_container_requests, sizeof(*allocate->inquiries));
	if (!allocate->inquiries)
		return error_set(error, -ENOMEM, "out of memory");
	/* All are checked before any program runs. */
	for (size_t i = 0; i < request->n_container_requests; i++) {
		const V1beta1__ContainerAllocateRequest *container = request->container_requests[i];

		r = inquiry_new(declaration, allocate->offer->snapshot,
			declaration_root(declaration), (const char *const *)container->devices_ids,
			container->n_devices_ids, NULL, &allocate->inquiries[i], error);
		if (r < 0)
			return r;
		allocate->n_open += inquiry_count(allocate->inquiries[i]) > 0;
	}
	for (size_t i = 0; i < request->n_container_requests; i++) {
		if (inquiry_count(allocate->inquiries[i]) == 0)
			continue;
		r = inquiry_start(allocate->inquiries[i], allocate->allocates->event,
			allocate->since, on_answers, allocate, error);
		if (r < 0)
			return r;
	}
	return 0;
}

static void start(struct allocate *allocate)
{
	struct error error = {};

	allocate->running = true;
	allocate->allocates->n_running++;
	if (ask(allocate, &error) < 0)
		refuse(allocate, &error);
	else if (allocate->n_open == 0)
		conclude(allocate);
	if (!allocate->call)
		end(allocate);
}

static void start_waiting(struct allocates *allocates)
{
	struct allocate *next;

	for (struct allocate *a = allocates->first; a; a = next) {
		next = a->next;
		if (allocates->n_running >= ALLOCATE_RUNNING_MAX)
			return;
		if (!a->running)
			start(a);
	}
}

/* --- from gRPC's thread --- */

static void deliver_allocate(struct mailbox_message *base, void *userdata)
{
	struct allocate *allocate = (struct allocate *)(void *)base;
	struct allocates *allocates = allocate->allocates;
	struct allocate **last = &allocates->first;

	if (!userdata) {
		(void)allocate_free(allocate);
		return;
	}
	while (*last)
		last = &(*last)->next;
	*last = allocate;
	allocate->since = now_usec(CLOCK_MONOTONIC);
	report_pending(allocates);
	start_waiting(allocates);
}

void allocate_post(struct allocates *allocates, struct mailbox *mailbox, struct offer *offer,
	struct rpc_call *call, struct message *request, size_t size)
{
	size_t n_calls = atomic_fetch_add(&allocates->n_calls, 1);
	size_t n_bytes = atomic_fetch_add(&allocates->n_bytes, size);
	bool too_many = n_calls >= ALLOCATE_CALLS_MAX ||
		(n_calls > 0 && n_bytes + size > ALLOCATE_BYTES_MAX);
	struct allocate *allocate = too_many ? NULL : calloc(1, sizeof(*allocate));
	struct error error;

	if (!allocate) {
		atomic_fetch_sub(&allocates->n_calls, 1);
		atomic_fetch_sub(&allocates->n_bytes, size);
		if (too_many)
			(void)error_set(&error, -EBUSY,
				"programs of %s are running for %zu other containers: create the pod again later",
				offer->applied_config->declaration->name, n_calls);
		else
			(void)error_set(&error, -ENOMEM, "out of memory");
		counters_add_allocation(false, 0);
		response_refuse(call, (const void *)request->base, &error);
		return;
	}
	*allocate = (struct allocate){
		.base.deliver = deliver_allocate,
		.allocates = allocates,
		.offer = offer_ref(offer),
		.call = call,
		.message = *request,
		.size = size,
		.request = (const void *)request->base,
	};
	*request = (struct message){};
	mailbox_post(mailbox, &allocate->base);
}

void allocates_cancel(struct allocates *allocates, const struct rpc_call *call)
{
	for (struct allocate *a = allocates->first; a; a = a->next)
		if (a->call == call) {
			log_info("the kubelet cancelled an allocation; its programs are killed");
			rpc_fail(TAKE_PTR(a->call), RPC_CANCELLED, "cancelled");
			end(a);
			start_waiting(allocates);
			return;
		}
}

void allocates_done(struct allocates *allocates)
{
	while (allocates->first)
		end(allocates->first);
}
