/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which health of DRA devices is sent to the kubelet, and when: at each change, and again
 * before the kubelet would take the last message for out of date.
 */
#include "dra/dra-health.h"

#include "common/kubelet.h"
#include "common/log.h"
#include "dra/model/dra-names.h"
#include "drahealth.pb-c.h"
#include "proto/message.h"

/* A kubelet that does not know the timeout in a message uses 30 s. */
#define REPEAT_INTERVAL (10 * USEC_PER_SEC)
#define TIMEOUT_SECONDS 60

struct dra_health {
	struct rpc_server *server;
	const char *node, *driver;
	json_t *names; /* NULL: not known yet */
	sd_event_source *timer;
};

struct device_block {
	Drahealth__DeviceHealth health;
	Drahealth__DeviceIdentifier id;
};

static void fill_device(struct device_block *block, const char *pool, const char *name,
	const json_t *device, int64_t now, bool reasons)
{
	bool healthy = json_is_true(json_object_get(device, "healthy"));
	const char *reason = json_string_value(json_object_get(device, "reason"));

	drahealth__device_health__init(&block->health);
	drahealth__device_identifier__init(&block->id);
	block->id.pool_name = (char *)(uintptr_t)pool;
	block->id.device_name = (char *)(uintptr_t)name;
	block->health.device = &block->id;
	block->health.health =
		healthy ? DRAHEALTH__HEALTH_STATUS__HEALTHY : DRAHEALTH__HEALTH_STATUS__UNHEALTHY;
	block->health.last_updated_time = now;
	block->health.health_check_timeout_seconds = TIMEOUT_SECONDS;
	if (!healthy && reasons && reason)
		block->health.message = (char *)(uintptr_t)reason;
}

/* `maximum`: of devices; those that are not healthy come first. */
static int encode(const json_t *names, const char *node, const char *driver, int64_t now,
	bool reasons, size_t maximum, uint8_t **ret_data, size_t *ret_size)
{
	Drahealth__NodeWatchResourcesResponse response =
		DRAHEALTH__NODE_WATCH_RESOURCES_RESPONSE__INIT;
	size_t n = json_object_size(names);
	_cleanup_free_ struct device_block *blocks = calloc(n + 1, sizeof(*blocks));
	_cleanup_free_ Drahealth__DeviceHealth **devices = calloc(n + 1, sizeof(*devices));
	_cleanup_free_ char *parts = NULL;
	const char *name;
	json_t *device;

	if (!blocks || !devices || dra_parts_pool(node, driver, &parts) < 0)
		return -ENOMEM;
	for (unsigned healthy = 0; healthy < 2; healthy++)
		json_object_foreach((json_t *)(uintptr_t)names, name, device)
		{
			struct device_block *block = &blocks[response.n_devices];

			if (json_is_true(json_object_get(device, "healthy")) != healthy ||
				response.n_devices == maximum)
				continue;
			fill_device(block, json_object_get(device, "part") ? parts : node, name,
				device, now, reasons);
			devices[response.n_devices++] = &block->health;
		}
	response.devices = devices;
	return message_pack(&response.base, ret_data, ret_size);
}

int dra_health_encode(const json_t *names, const char *node, const char *driver, int64_t now,
	uint8_t **ret_data, size_t *ret_size)
{
	size_t maximum = json_object_size(names);
	bool reasons = true;
	int r;

	for (;;) {
		uint8_t *data;
		size_t size;

		r = encode(names, node, driver, now, reasons, maximum, &data, &size);
		if (r < 0)
			return r;
		if (size <= KUBELET_MESSAGE_MAX) {
			*ret_data = data;
			*ret_size = size;
			return 0;
		}
		free(data);
		if (!reasons)
			maximum -= maximum / 10 + 1;
		reasons = false;
	}
}

static void publish(struct dra_health *health)
{
	uint8_t *data;
	size_t size;

	if (dra_health_encode(health->names, health->node, health->driver,
		    (int64_t)(now_usec(CLOCK_REALTIME) / USEC_PER_SEC), &data, &size) < 0)
		log_warning("the kubelet does not get the health of devices: out of memory");
	else
		rpc_publish(health->server, data, size);
}

static int on_repeat(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct dra_health *health = userdata;

	if (health->names)
		publish(health);
	return sd_event_source_set_time_relative(source, REPEAT_INTERVAL);
}

void dra_health_set(struct dra_health *health, json_t *names)
{
	bool same = health->names && json_equal(health->names, names);

	/* The newer one is kept also if both are equal, because others share it. */
	(void)json_incref(names);
	json_decref(health->names);
	health->names = names;
	if (!same)
		publish(health);
}

int dra_health_new(sd_event *event, struct rpc_server *server, const char *node, const char *driver,
	struct dra_health **ret)
{
	_cleanup_(dra_health_freep) struct dra_health *health = calloc(1, sizeof(*health));
	int r;

	if (!health)
		return -ENOMEM;
	health->server = server;
	health->node = node;
	health->driver = driver;
	r = sd_event_add_time_relative(event, &health->timer, CLOCK_MONOTONIC, REPEAT_INTERVAL,
		USEC_PER_SEC, on_repeat, health);
	if (r >= 0)
		r = sd_event_source_set_enabled(health->timer, SD_EVENT_ON);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(health);
	return 0;
}

struct dra_health *dra_health_free(struct dra_health *health)
{
	if (!health)
		return NULL;
	json_decref(health->names);
	sd_event_source_disable_unref(health->timer);
	free(health);
	return NULL;
}
