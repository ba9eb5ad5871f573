/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which devices a driver publishes, and when. The waiting after a start is the driver's
 * own, because each driver has its own resources.
 */
#include "dra/served-driver.h"

#include "common/json-read.h"
#include "common/log.h"
#include "dra/claim-status.h"
#include "dra/dra-health.h"
#include "dra/dra-node.h"
#include "dra/dra-publisher.h"
#include "dra/held-attributes.h"

/* How long the first publication waits for resources that have not reported their devices. */
#define REPORT_WAIT (10 * USEC_PER_SEC)

struct served_driver {
	struct served_driver_options options;
	char *name;
	struct dra_publisher *publisher;
	struct dra_node *node;
	struct dra_health *health;
	struct held_attributes *held_attributes;
	struct claim_status *claim_status;
	json_t *resources;      /* their names */
	json_t *devices, *held; /* of served_driver_publish() */
	sd_event_source *report_wait;
	bool waited;  /* known devices are published, although a resource has not reported */
	json_t *told; /* the published resources that the supervisor knows */
};

/* --- what is published --- */

static void report_attributes(struct served_driver *driver)
{
	held_attributes_set(
		driver->held_attributes, dra_publisher_names(driver->publisher), driver->held);
}

static void publish(struct served_driver *driver)
{
	json_auto_t *resources = json_array();
	json_t *name;
	size_t i;

	/* A daemon that has just started may not know which resources there are. */
	if (!driver->waited && json_array_size(driver->resources) == 0)
		return;
	json_array_foreach(driver->resources, i, name)
	{
		json_t *devices = json_object_get(driver->devices, json_string_value(name));

		if (!devices && !driver->waited)
			return;
		if (!devices)
			continue;
		(void)json_array_append_new(
			resources, json_pack("{s:O, s:O}", "name", name, "devices", devices));
	}
	driver->waited = true;
	if (dra_publisher_set(driver->publisher, resources, driver->held) < 0)
		log_error("the devices cannot be published: out of memory");
	dra_health_set(driver->health, dra_publisher_names(driver->publisher));
	report_attributes(driver);
}

void served_driver_publish(struct served_driver *driver, json_t *devices, json_t *held)
{
	driver->devices = devices;
	driver->held = held;
	publish(driver);
}

void served_driver_set_held(struct served_driver *driver, json_t *held)
{
	driver->held = held;
	if (dra_publisher_keep_held(driver->publisher, held))
		report_attributes(driver);
	else
		publish(driver);
	dra_node_held_changed(driver->node);
}

static int on_report_wait(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct served_driver *driver = userdata;

	if (driver->waited)
		return 0;
	driver->waited = true;
	/* A driver may have claims only. */
	if (json_array_size(driver->resources) > 0)
		log_notice("some resources have not reported their devices; the devices of the "
			   "other resources are published now");
	publish(driver);
	return 0;
}

/* Reports each resource whose devices the API server stores, once after a registration. */
static void report_published(struct served_driver *driver)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_PUBLISHED);
	const json_t *resources = dra_publisher_published(driver->publisher), *resource;
	size_t i;

	message.driver = driver->options.number;
	json_array_foreach(resources, i, resource)
	{
		const char *name = text_of(resource, "name");

		if (json_object_get(driver->told, name))
			continue;
		(void)snprintf(message.text, sizeof(message.text), "%s", name);
		if (control_send(CONTROL_FD, &message) >= 0)
			(void)json_object_set_new(driver->told, name, json_true());
	}
}

static void on_pool(const struct dra_pool_state *state, void *userdata)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_POOL);
	struct served_driver *driver = userdata;

	message.driver = driver->options.number;
	message.generation = state->generation;
	message.slices = state->slices;
	message.lacks = state->lacks;
	(void)snprintf(message.text, sizeof(message.text), "%s", state->failure);
	(void)control_send(CONTROL_FD, &message);
	report_published(driver);
}

static struct dra_known get_known(void *userdata)
{
	struct served_driver *driver = userdata;

	return (struct dra_known){
		.driver = driver->name,
		.pool = driver->options.node,
		.names = dra_publisher_names(driver->publisher),
		.held = driver->held,
		.published = dra_publisher_published(driver->publisher),
	};
}

static void on_prepared(const char *namespace, const char *name, const char *uid,
	const json_t *devices, void *userdata)
{
	struct served_driver *driver = userdata;

	claim_status_add(driver->claim_status, namespace, name, uid, devices,
		dra_publisher_names(driver->publisher));
}

/* --- --- */

static int start(struct served_driver *driver)
{
	const struct served_driver_options *options = &driver->options;
	const struct dra_node_options node = {
		.event = options->event,
		.api = options->api,
		.number = options->number,
		.last_question = options->last_question,
		.claims = options->claims,
		.supervisor_uid = options->supervisor_uid,
		.get_known = get_known,
		.on_prepared = on_prepared,
		.userdata = driver,
	};
	int r;

	r = dra_publisher_new(options->event, options->api, driver->name, options->node, on_pool,
		driver, &driver->publisher);
	if (r >= 0)
		r = dra_node_new(&node, &driver->node);
	if (r >= 0)
		r = sd_event_add_time_relative(options->event, &driver->report_wait,
			CLOCK_MONOTONIC, REPORT_WAIT, USEC_PER_SEC, on_report_wait, driver);
	if (r >= 0)
		r = held_attributes_new(
			options->event, driver->name, options->number, &driver->held_attributes);
	if (r >= 0)
		r = claim_status_new(
			options->event, options->api, driver->name, &driver->claim_status);
	return r < 0 ? r
		     : dra_health_new(options->event, dra_node_server(driver->node), options->node,
			       driver->name, &driver->health);
}

int served_driver_new(
	const struct served_driver_options *options, const char *name, struct served_driver **ret)
{
	struct served_driver *driver = calloc(1, sizeof(*driver));
	int r;

	if (!driver)
		return -ENOMEM;
	driver->options = *options;
	driver->name = strdup(name);
	driver->told = json_object();
	r = driver->name && driver->told ? start(driver) : -ENOMEM;
	if (r < 0) {
		served_driver_stop(driver, 0);
		return r;
	}
	*ret = driver;
	return 0;
}

const char *served_driver_name(const struct served_driver *driver)
{
	return driver->name;
}

bool served_driver_has_published(const struct served_driver *driver, uint64_t since)
{
	return dra_publisher_has_published(driver->publisher, since);
}

uint64_t served_driver_number(const struct served_driver *driver)
{
	return driver->options.number;
}

void served_driver_configure(struct served_driver *driver, json_t *resources, bool claim_status)
{
	claim_status_enable(driver->claim_status, claim_status);
	json_decref(driver->resources);
	driver->resources = json_incref(resources);
	/* One that comes back later is a new one for the supervisor. */
	(void)json_object_clear(driver->told);
}

void served_driver_open_session(struct served_driver *driver, struct control_message *message)
{
	dra_node_open_session(driver->node, message);
}

void served_driver_registered(struct served_driver *driver)
{
	(void)json_object_clear(driver->told);
	dra_publisher_registered(driver->publisher);
}

void served_driver_take_prepared(struct served_driver *driver, struct control_message *message)
{
	dra_node_take_prepared(driver->node, message);
}

void served_driver_free_the_way(struct served_driver *driver)
{
	dra_node_free_the_way(driver->node);
}

void served_driver_stop(struct served_driver *driver, uint64_t grace)
{
	if (driver->node)
		dra_node_stop(driver->node, grace);
	(void)dra_health_free(driver->health);
	(void)held_attributes_free(driver->held_attributes);
	(void)claim_status_free(driver->claim_status);
	(void)dra_publisher_free(driver->publisher);
	sd_event_source_disable_unref(driver->report_wait);
	json_decref(driver->resources);
	json_decref(driver->told);
	free(driver->name);
	free(driver);
}
