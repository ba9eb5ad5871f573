/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when metadata is written again. The process may send changes without end, so files are
 * written later, and a few at a time.
 */
#include "supervisor/helpers/dra-attributes.h"

#include "common/sealed.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/books/dra-metadata-form.h"

#define WRITE_INTERVAL (100 * USEC_PER_MSEC)
#define WRITE_MAX      8

struct dra_attributes {
	struct dra_claims *claims;
	sd_event_source *timer;
	bool planned;
};

static void plan(struct dra_attributes *attributes)
{
	attributes->planned = true;
	(void)sd_event_source_set_time_relative(attributes->timer, WRITE_INTERVAL);
	(void)sd_event_source_set_enabled(attributes->timer, SD_EVENT_ONESHOT);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct dra_attributes *attributes = userdata;

	attributes->planned = false;
	if (dra_claims_write_metadata(attributes->claims, WRITE_MAX))
		plan(attributes);
	return 0;
}

bool dra_attributes_take(
	struct dra_attributes *attributes, const char *driver, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	json_auto_t *devices = NULL;
	size_t size;

	if (sealed_read(message->fds[0], CLUSTER_CLAIM_MAX, &text, &size) < 0)
		return false;
	devices = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	if (!dra_metadata_form_check(devices, CLUSTER_ATTRIBUTES_MAX))
		return false;
	if (driver && dra_claims_set_attributes(attributes->claims, driver, devices) &&
		!attributes->planned)
		plan(attributes);
	return true;
}

int dra_attributes_new(sd_event *event, struct dra_claims *claims, struct dra_attributes **ret)
{
	_cleanup_(dra_attributes_freep) struct dra_attributes *attributes =
		calloc(1, sizeof(*attributes));
	int r;

	if (!attributes)
		return -ENOMEM;
	attributes->claims = claims;
	r = sd_event_add_time(
		event, &attributes->timer, CLOCK_MONOTONIC, USEC_INFINITY, 0, on_timer, attributes);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(attributes);
	return 0;
}

struct dra_attributes *dra_attributes_free(struct dra_attributes *attributes)
{
	if (!attributes)
		return NULL;
	sd_event_source_disable_unref(attributes->timer);
	free(attributes);
	return NULL;
}
