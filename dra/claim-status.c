/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what the status of a claim contains, and when it is written: one claim after the other,
 * some time after the kubelet has its answer. Server-side apply keeps the entries of other drivers.
 * After a 403 nothing is sent until the credentials have changed.
 */
#include "dra/claim-status.h"

#include <net/if.h>

#include "common/json-read.h"
#include "common/log.h"
#include "common/text.h"
#include "dra/model/dra-slices.h"

/* From an answer to the kubelet to the request, and between two requests. */
#define DELAY (50 * USEC_PER_MSEC)
/* While the server fails. */
#define ATTEMPTS_MAX 8

struct entry {
	struct entry *next;
	char *path;
	json_t *body;
	unsigned attempts;
	uint64_t delay; /* before the last attempt, 0: the first one */
};

struct claim_status {
	struct dra_api *api;
	const char *driver;
	bool enabled;
	struct entry *first; /* the one that is being written, or is next */
	size_t count;
	bool sent;
	bool refused;        /* by a 403 */
	unsigned refused_by; /* the credentials, see dra_api_credentials() */
	sd_event_source *timer;
};

/* --- the document --- */

/* The longest hardware address that the API accepts. */
#define HARDWARE_ADDRESS_MAX 128

/* What is known of a network function before the pod has a network: CNI decides about the rest. A
 * process of a resource may report anything. */
static json_t *make_network(const json_t *device)
{
	const char *interface = text_of(device, "interface");
	const char *address = text_of(device, "hardware_address");
	size_t length = strspn(address, "0123456789abcdef:");

	if (!*interface || strlen(interface) >= IF_NAMESIZE)
		return NULL;
	return json_pack("{s:s, s:s*}", "interfaceName", interface, "hardwareAddress",
		length > 0 && length <= HARDWARE_ADDRESS_MAX && !address[length] ? address : NULL);
}

static json_t *make_device(const char *driver, const json_t *device, const json_t *names)
{
	const char *name = text_of(device, "name");
	char time[TEXT_TIME_MAX];

	text_time(now_usec(CLOCK_REALTIME), time);
	return json_pack("{s:s, s:s, s:s, s:s*, s:[{s:s, s:s, s:s, s:s, s:s}], s:o*}", "driver",
		driver, "pool", text_of(device, "pool"), "device", name, "shareID",
		set_text_of(device, "share"), "conditions", "type", "Ready", "status", "True",
		"reason", "Prepared", "message", "the device is prepared for containers",
		"lastTransitionTime", time, "networkData",
		make_network(json_object_get(names, name)));
}

/* Two requests of a claim may have the same device. */
static bool is_repeated(const json_t *devices, size_t at)
{
	const json_t *device = json_array_get(devices, at);

	for (size_t i = 0; i < at; i++)
		if (streq(text_of(json_array_get(devices, i), "name"), text_of(device, "name")) &&
			streq(text_of(json_array_get(devices, i), "share"),
				text_of(device, "share")))
			return true;
	return false;
}

static json_t *make_body(const char *driver, const char *namespace, const char *name,
	const char *uid, const json_t *devices, const json_t *names)
{
	json_t *list = json_array();

	for (size_t i = 0; i < json_array_size(devices); i++)
		if (!is_repeated(devices, i))
			(void)json_array_append_new(
				list, make_device(driver, json_array_get(devices, i), names));
	/* With the uid, a claim of the same name that was created later is refused. */
	return json_pack("{s:s, s:s, s:{s:s, s:s, s:s}, s:{s:o}}", "apiVersion", DRA_API_VERSION,
		"kind", "ResourceClaim", "metadata", "namespace", namespace, "name", name, "uid",
		uid, "status", "devices", list);
}

/* --- requests --- */

static struct entry *entry_free(struct entry *entry)
{
	if (!entry)
		return NULL;
	free(entry->path);
	json_decref(entry->body);
	free(entry);
	return NULL;
}
DEFINE_CLEANUP(struct entry *, entry_free)

static void drop_first(struct claim_status *status)
{
	struct entry *entry = status->first;

	status->first = entry->next;
	status->count--;
	(void)entry_free(entry);
}

static void drop_all(struct claim_status *status)
{
	while (status->first)
		drop_first(status);
}

static void plan(struct claim_status *status, uint64_t delay)
{
	(void)sd_event_source_set_time_relative(status->timer, delay);
	(void)sd_event_source_set_enabled(status->timer, SD_EVENT_ONESHOT);
}

static void take_refusal(struct claim_status *status, const struct dra_answer *answer)
{
	unsigned credentials = dra_api_credentials(status->api);

	if (!status->refused || status->refused_by != credentials)
		log_notice("the status of claims is not written, which has no effect on pods: %s. "
			   "\"devplugctl dra credentials\" prints the rights that "
			   "dra.claim_status needs",
			answer->failure);
	status->refused = true;
	status->refused_by = credentials;
	drop_all(status);
}

/* With 404, 409 and 422, the claim is not there any more, or has other devices. */
static void log_failure(const struct dra_answer *answer)
{
	if (answer->failure && answer->code != 404 && answer->code != 409 && answer->code != 422)
		log_notice("the status of a claim is not written, which has no effect on pods: %s",
			answer->failure);
}

static void on_answer(const struct dra_answer *answer, void *userdata)
{
	struct claim_status *status = userdata;
	struct entry *entry = status->first;
	uint64_t delay = DELAY;

	status->sent = false;
	if (answer->code == 403) {
		take_refusal(status, answer);
		return;
	}
	if (dra_api_is_outage(answer) && ++entry->attempts < ATTEMPTS_MAX)
		delay = dra_api_retry_delay(&entry->delay, answer);
	else {
		log_failure(answer);
		drop_first(status);
	}
	if (status->first)
		plan(status, delay);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct claim_status *status = userdata;

	if (!status->first || status->sent)
		return 0;
	status->sent = dra_api_apply(status->api, status->first->path, status->first->body,
			       on_answer, status) >= 0;
	if (status->sent)
		return 0;
	drop_first(status);
	if (status->first)
		plan(status, DELAY);
	return 0;
}

void claim_status_add(struct claim_status *status, const char *namespace, const char *name,
	const char *uid, const json_t *devices, const json_t *names)
{
	_cleanup_(entry_freep) struct entry *entry = NULL;
	struct entry **last = &status->first;

	if (!status->enabled || json_array_size(devices) == 0 ||
		status->count >= CLAIM_STATUS_MAX ||
		(status->refused && status->refused_by == dra_api_credentials(status->api)))
		return;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return;
	entry->body = make_body(status->driver, namespace, name, uid, devices, names);
	/* The manager is the driver, because claims may have devices of several of ours. */
	if (!entry->body ||
		format_text(&entry->path, DRA_CLAIM_PATH "/status?fieldManager=%s&force=true",
			namespace, name, status->driver) < 0)
		return;
	while (*last)
		last = &(*last)->next;
	*last = TAKE_PTR(entry);
	if (status->count++ == 0)
		plan(status, DELAY);
}

void claim_status_enable(struct claim_status *status, bool enabled)
{
	status->enabled = enabled;
	if (enabled)
		return;
	dra_api_cancel(status->api, status);
	status->sent = false;
	drop_all(status);
}

/* --- --- */

int claim_status_new(
	sd_event *event, struct dra_api *api, const char *driver, struct claim_status **ret)
{
	_cleanup_(claim_status_freep) struct claim_status *status = calloc(1, sizeof(*status));
	int r;

	if (!status)
		return -ENOMEM;
	status->api = api;
	status->driver = driver;
	r = sd_event_add_time(
		event, &status->timer, CLOCK_MONOTONIC, USEC_INFINITY, 0, on_timer, status);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(status);
	return 0;
}

struct claim_status *claim_status_free(struct claim_status *status)
{
	if (!status)
		return NULL;
	dra_api_cancel(status->api, status);
	drop_all(status);
	sd_event_source_disable_unref(status->timer);
	free(status);
	return NULL;
}
