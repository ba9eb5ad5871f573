/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the kubelet offers the devices that a child lists, and how to react if not. A
 * session is renewed rarely, because the kubelet marks the devices unhealthy in the meantime.
 * Sending the list again would hide the difference and not help: the kubelet would count the
 * devices, and refuse each pod, because Allocate goes to the plugin that registered last, even if
 * that has ended. If the kubelet cannot be asked, nothing changes.
 */
#include "supervisor/sessions/offer-check.h"

#include <dirent.h>

#include "common/log.h"
#include "supervisor/books/pod-resources.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"

#define NAMED_SOCKETS_MAX 3
#define OFFER_PREFIX      "the kubelet offers "

struct offer_check {
	struct manager *manager;
	sd_event_source *timer;
	bool waiting;       /* for an answer */
	uint64_t last_at;   /* CLOCK_MONOTONIC of the last question */
	uint64_t wanted_at; /* when an early check is due; USEC_INFINITY: none */
};

/* The answer does not contain devices of DRA. */
static bool is_checked(const struct child *child)
{
	return child->resource->state == RESOURCE_SERVING && !child->leaving &&
		child_registration(child) != REGISTRATION_DRA;
}

uint64_t offer_count(const struct pod_table *table, const char *resource)
{
	const char *last = NULL;
	uint64_t count = 0;

	for (size_t i = 0; i < table->n_devices; i++) {
		const struct pod_device *device = &table->devices[i];

		if (!streq(device->resource, resource))
			continue;
		if (!last || !streq(last, device->id))
			count++;
		last = device->id;
	}
	return count;
}

/* --- explanations --- */

/* Appends the sockets of other plugins in the plugin directory; one of them may have registered the
 * same name. */
static void name_others(const char *directory, char *text, size_t size)
{
	DIR *stream = opendir(directory);
	size_t used = strlen(text);
	const struct dirent *entry;
	unsigned named = 0;

	while (stream && named < NAMED_SOCKETS_MAX && used < size && (entry = readdir(stream))) {
		if (entry->d_type != DT_SOCK || streq(entry->d_name, KUBELET_SOCKET_NAME) ||
			startswith(entry->d_name, SESSION_SOCKET_PREFIX))
			continue;
		used += (size_t)snprintf(text + used, size - used, "%s%.80s",
			named == 0 ? "; another plugin may use the same resource name, sockets of "
				     "others: "
				   : ", ",
			entry->d_name);
		named++;
	}
	if (stream)
		(void)closedir(stream);
}

/* Does not replace the explanation of a refused configuration. */
static void explain(const struct manager *manager, struct child *child, uint64_t offered)
{
	struct resource *resource = child->resource;
	char text[sizeof(resource->reason)];

	if (resource->reason[0] && !startswith(resource->reason, OFFER_PREFIX))
		return;
	(void)snprintf(text, sizeof(text), OFFER_PREFIX "%llu of %llu", (unsigned long long)offered,
		(unsigned long long)resource->healthy_ids);
	name_others(manager->config->kubelet.device_plugin_dir, text, sizeof(text));
	if (!streq(text, resource->reason))
		resource_explain(resource, "%s", text);
}

/* --- what is done --- */

static void on_agreement(struct child *child)
{
	const struct log_fields fields = { .resource = child->resource->name };

	if (child->offer.step == OFFER_DIFFERS)
		log_full(LOG_NOTICE, &fields, OFFER_PREFIX "all %llu healthy devices again",
			(unsigned long long)child->resource->healthy_ids);
	if (startswith(child->resource->reason, OFFER_PREFIX))
		resource_explain(child->resource, "%s", "");
	child->offer.step = OFFER_AGREES;
	child->offer.none_at = child->offer.delay = 0;
}

static void renew(struct child *child, uint64_t offered, uint64_t now)
{
	const struct log_fields fields = { .resource = child->resource->name };
	struct offer_state *offer = &child->offer;

	log_full(LOG_WARNING, &fields,
		OFFER_PREFIX "%llu of %llu healthy devices; the resource is registered again",
		(unsigned long long)offered, (unsigned long long)child->resource->healthy_ids);
	offer->delay =
		offer->delay == 0 ? OFFER_RENEWAL_MIN : MIN_OF(2 * offer->delay, OFFER_RENEWAL_MAX);
	offer->next_renewal = now + offer->delay;
	resource_handle(child->resource, RESOURCE_NOT_OFFERED, NULL);
}

static void on_difference(
	const struct manager *manager, struct child *child, uint64_t offered, uint64_t now)
{
	struct offer_state *offer = &child->offer;

	/* Once a minute after the first renewal. */
	offer->check_at = now + (offer->delay == 0 ? OFFER_CHECK_DELAY : OFFER_CHECK_INTERVAL);
	if (offer->step == OFFER_AGREES) {
		offer->step = OFFER_SUSPECT;
		return;
	}
	explain(manager, child, offered);
	if (offered > 0)
		offer->none_at = 0;
	else if (offer->none_at == 0)
		offer->none_at = now;
	if (offer->step == OFFER_SUSPECT) {
		offer->step = OFFER_DIFFERS;
		offer->next_renewal = MAX_OF(offer->next_renewal, now + OFFER_SETTLE_TIME);
	} else if (now >= offer->next_renewal) {
		renew(child, offered, now);
	}
}

/* The kubelet counts the devices of a later list although it sends each Allocate to the plugin that
 * has ended. */
static bool is_hidden(const struct offer_state *offer)
{
	return offer->step == OFFER_DIFFERS && offer->none_at > 0 &&
		offer->reported_at > offer->none_at;
}

static void on_answer(const struct pod_answer *answer, void *userdata)
{
	struct offer_check *check = userdata;
	const struct manager *manager = check->manager;
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	check->waiting = false;
	for (size_t i = 0; i < manager->n_children; i++) {
		struct child *child = manager->children[i];
		uint64_t offered;

		if (!is_checked(child) ||
			child->resource->serving_since + OFFER_CHECK_DELAY > answer->asked_at)
			continue;
		if (child->offer.session != child->resource->session)
			child->offer.none_at = 0;
		child->offer.session = child->resource->session;
		child->offer.check_at = now + OFFER_CHECK_INTERVAL;
		/* The kubelet may have answered before it received the list. */
		if (!answer->table ||
			child->offer.changed_at + OFFER_CHECK_DELAY > answer->asked_at)
			continue;
		offered = is_hidden(&child->offer)
			? 0
			: offer_count(answer->table, child->resource->name);
		if (offered == child->resource->healthy_ids)
			on_agreement(child);
		else
			on_difference(manager, child, offered, now);
	}
	offer_check_plan(check);
}

/* --- when --- */

static uint64_t due_of(const struct offer_check *check, const struct child *child)
{
	if (child->offer.session != child->resource->session)
		return child->resource->serving_since + OFFER_CHECK_DELAY;
	if (child->offer.step != OFFER_AGREES)
		return child->offer.check_at;
	return MIN_OF(check->last_at + OFFER_CHECK_INTERVAL, check->wanted_at);
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct offer_check *check = userdata;

	check->last_at = now_usec(CLOCK_MONOTONIC);
	check->wanted_at = USEC_INFINITY;
	check->waiting = pod_resources_ask(check->manager->pods, POD_QUESTION_ALLOCATABLE, 0,
				 on_answer, check) >= 0;
	/* If the kubelet cannot be asked now, the next check asks it. */
	if (!check->waiting)
		(void)sd_event_source_set_time(check->timer, check->last_at + OFFER_CHECK_INTERVAL);
	return check->waiting ? 0 : sd_event_source_set_enabled(check->timer, SD_EVENT_ONESHOT);
}

void offer_check_plan(struct offer_check *check)
{
	const struct manager *manager = check->manager;
	uint64_t due = USEC_INFINITY;

	if (check->waiting)
		return;
	for (size_t i = 0; i < manager->n_children && manager->config->kubelet.pod_resources; i++)
		if (is_checked(manager->children[i]))
			due = MIN_OF(due, due_of(check, manager->children[i]));
	if (due == USEC_INFINITY || manager->stopping)
		(void)sd_event_source_set_enabled(check->timer, SD_EVENT_OFF);
	else if (sd_event_source_set_time(check->timer, due) >= 0)
		(void)sd_event_source_set_enabled(check->timer, SD_EVENT_ONESHOT);
}

void offer_check_soon(struct offer_check *check)
{
	check->wanted_at = MIN_OF(check->wanted_at, now_usec(CLOCK_MONOTONIC) + OFFER_CHECK_DELAY);
	offer_check_plan(check);
}

int offer_check_new(struct manager *manager, struct offer_check **ret)
{
	_cleanup_(offer_check_freep) struct offer_check *check = calloc(1, sizeof(*check));
	int r;

	if (!check)
		return -ENOMEM;
	check->manager = manager;
	check->wanted_at = USEC_INFINITY;
	r = sd_event_add_time(manager->event, &check->timer, CLOCK_MONOTONIC, USEC_INFINITY,
		100 * USEC_PER_MSEC, on_due, check);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(check);
	return 0;
}

struct offer_check *offer_check_free(struct offer_check *check)
{
	if (!check)
		return NULL;
	if (check->manager->pods)
		pod_resources_cancel(check->manager->pods, check);
	sd_event_source_disable_unref(check->timer);
	free(check);
	return NULL;
}
