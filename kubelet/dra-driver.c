/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the connections to DRA drivers. As in a kubelet, one connection carries the calls and the
 * stream, and is opened when it is needed. The stream is opened again 5 s after its end, as long as
 * the driver is registered; up to 1.36 also if the driver does not announce the service.
 */
#include "kubelet/dra-driver.h"

#include "drahealth.pb-c.h"
#include "kubelet/plugin-call.h"
#include "kubelet/plugin-dir.h"
#include "kubelet/plugin-text.h"
#include "kubelet/utf8-message.h"
#include "proto/message.h"
#include "proto/methods.h"

#define STREAM_PAUSE    (5 * USEC_PER_SEC)
#define DEFAULT_TIMEOUT 30

struct dra_driver {
	struct dra_driver *next;
	struct manager *manager;
	char *name, *endpoint;
	const char *version;           /* of the service for claims */
	const char *health_version;    /* NULL: its health is not followed */
	struct connection *connection; /* NULL: there is none */
	sd_event_source *stream_timer;
	json_t *health; /* by "POOL/DEVICE": {"health", "message", "updated", "timeout"} */
};

static struct dra_driver *find(const struct manager *manager, const char *name)
{
	struct dra_driver *first = NULL;

	for (struct dra_driver *d = manager->drivers; d; d = d->next) {
		if (!streq(d->name, name))
			continue;
		if (d->connection)
			return d;
		first = first ? first : d;
	}
	return first;
}

static struct dra_driver *find_connection(
	const struct manager *manager, const struct connection *connection)
{
	for (struct dra_driver *d = manager->drivers; d; d = d->next)
		if (d->connection == connection)
			return d;
	return NULL;
}

static void plan_stream(struct dra_driver *driver, uint64_t delay)
{
	if (!driver->health_version)
		return;
	(void)sd_event_source_set_time(driver->stream_timer, manager_now() + delay);
	(void)sd_event_source_set_enabled(driver->stream_timer, SD_EVENT_ONESHOT);
}

/* Without a stream, the health of devices is unknown. */
static void end_stream(struct dra_driver *driver)
{
	(void)json_object_clear(driver->health);
	plan_stream(driver, STREAM_PAUSE / driver->manager->options->time_scale);
}

static void disconnect(struct dra_driver *driver)
{
	struct connection *connection = TAKE_PTR(driver->connection);

	if (!connection)
		return;
	connection_close(connection);
	connection_release(connection);
	end_stream(driver);
}

static int driver_connect(struct dra_driver *driver, struct error *error)
{
	int fd, r;

	if (driver->connection)
		return 0;
	r = socket_connect(driver->endpoint, &fd);
	if (r < 0)
		return error_set(error, r,
			"rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: dial unix %s: %s\"",
			driver->endpoint, strerror(-r));
	r = connection_new(driver->manager, driver->name, driver->endpoint, driver->endpoint,
		&driver->connection);
	if (r < 0)
		(void)close(fd);
	else
		r = channel_new(fd, NULL, &driver->connection->client);
	if (r < 0) {
		disconnect(driver);
		return error_set(error, r, "%s", strerror(-r));
	}
	return 0;
}

/* --- health --- */

static const char *health_name(Drahealth__HealthStatus health)
{
	return health == DRAHEALTH__HEALTH_STATUS__HEALTHY      ? "Healthy"
		: health == DRAHEALTH__HEALTH_STATUS__UNHEALTHY ? "Unhealthy"
								: "Unknown";
}

static void take_device(struct dra_driver *driver, const Drahealth__DeviceHealth *health)
{
	char key[640];

	if (!health->device)
		return;
	(void)snprintf(key, sizeof(key), "%.300s/%.300s", health->device->pool_name,
		health->device->device_name);
	(void)json_object_set_new(driver->health, key,
		json_pack("{s:s, s:o, s:I, s:I}", "health", health_name(health->health), "message",
			text_json(health->message), "updated",
			(json_int_t)health->last_updated_time, "timeout",
			(json_int_t)(health->health_check_timeout_seconds > 0
					? health->health_check_timeout_seconds
					: DEFAULT_TIMEOUT)));
}

/* A device that a message does not name keeps its health until its timeout. */
static void on_health(struct connection *connection, const struct list *list)
{
	_cleanup_message_ struct message message = message_unpack(
		&drahealth__node_watch_resources_response__descriptor, list->data, list->size);
	const Drahealth__NodeWatchResourcesResponse *response = (const void *)message.base;
	struct dra_driver *driver = find_connection(connection->manager, connection);
	size_t unhealthy = 0;

	if (!driver)
		return;
	if (!response || !message_is_utf8(message.base)) {
		if (connection->client)
			channel_cancel(connection->client, connection->stream);
		return;
	}
	for (size_t i = 0; i < response->n_devices; i++) {
		take_device(driver, response->devices[i]);
		unhealthy += response->devices[i]->health == DRAHEALTH__HEALTH_STATUS__UNHEALTHY;
	}
	manager_emit(driver->manager,
		json_pack("{s:s, s:s, s:I, s:I}", "event", "driver-health", "driver", driver->name,
			"devices", (json_int_t)response->n_devices, "unhealthy",
			(json_int_t)unhealthy));
}

static void on_stream_result(struct manager *manager, const struct answer *answer, void *userdata)
{
	struct connection *connection = userdata;
	struct dra_driver *driver = find_connection(manager, connection);

	if (!driver)
		return;
	manager_emit(manager,
		json_pack("{s:s, s:s, s:o}", "event", "driver-health-ended", "driver", driver->name,
			"error", text_json(answer->error ? answer->error : "EOF")));
	end_stream(driver);
	if (answer->status == RPC_UNAVAILABLE)
		disconnect(driver);
}

static int on_stream_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct dra_driver *driver = userdata;
	struct error error = {};

	if (driver_connect(driver, &error) < 0 ||
		connection_stream(driver->connection,
			streq(driver->health_version, "v1") ? METHOD_DRA_HEALTH("v1")
							    : METHOD_DRA_HEALTH("v1alpha1"),
			on_health, on_stream_result) < 0)
		end_stream(driver);
	return 0;
}

json_t *dra_driver_health(
	const struct manager *manager, const char *name, const char *pool, const char *device)
{
	const struct dra_driver *driver = find(manager, name);
	int64_t now = (int64_t)(now_usec(CLOCK_REALTIME) / USEC_PER_SEC);
	const json_t *found;
	char key[640];

	(void)snprintf(key, sizeof(key), "%.300s/%.300s", pool, device);
	found = driver ? json_object_get(driver->health, key) : NULL;
	if (!found ||
		now - json_integer_value(json_object_get(found, "updated")) >
			json_integer_value(json_object_get(found, "timeout")))
		return json_pack("{s:s, s:s}", "health", "Unknown", "message", "");
	return json_pack("{s:O, s:O}", "health", json_object_get(found, "health"), "message",
		json_object_get(found, "message"));
}

/* --- registration --- */

static void driver_free(struct dra_driver *driver)
{
	for (struct dra_driver **d = &driver->manager->drivers; *d; d = &(*d)->next)
		if (*d == driver) {
			*d = driver->next;
			break;
		}
	sd_event_source_disable_unref(driver->stream_timer);
	json_decref(driver->health);
	free(driver->name);
	free(driver->endpoint);
	free(driver);
}

static bool announces(char *const *services, size_t n_services, const char *service)
{
	for (size_t i = 0; i < n_services; i++)
		if (streq(services[i], service))
			return true;
	return false;
}

/* NULL: none. */
static const char *choose_health(
	const struct kubelet_version *version, char *const *services, size_t n_services)
{
	if (!version->resource_health)
		return NULL;
	if (!version->resource_health_v1)
		return "v1alpha1";
	if (announces(services, n_services, "v1.DRAResourceHealth"))
		return "v1";
	return announces(services, n_services, "v1alpha1.DRAResourceHealth") ? "v1alpha1" : NULL;
}

/* The first announced version that the kubelet knows; NULL: none. */
static const char *choose_service(char *const *services, size_t n_services)
{
	static const char *const versions[] = { "v1", "v1beta1" };
	char service[32];

	for (size_t i = 0; i < n_services; i++)
		for (size_t k = 0; k < ARRAY_SIZE(versions); k++) {
			(void)snprintf(service, sizeof(service), "%s.DRAPlugin", versions[k]);
			if (streq(services[i], service))
				return versions[k];
		}
	return NULL;
}

static int check(const struct manager *manager, const char *name, const char *endpoint,
	const char *version, struct error *error)
{
	if (!version)
		return error_set(error, -EPROTONOSUPPORT,
			"invalid supported gRPC versions of DRA driver plugin %s at endpoint %s: none of services supported by the plugin are supported by the kubelet ([\"v1.DRAPlugin\" \"v1beta1.DRAPlugin\"])",
			name, endpoint);
	for (const struct dra_driver *d = manager->drivers; d; d = d->next)
		if (streq(d->name, name) && streq(d->endpoint, endpoint))
			return error_set(error, -EEXIST,
				"endpoint %s already registered for DRA driver plugin %s", endpoint,
				name);
	return 0;
}

int dra_driver_add(struct manager *manager, const char *name, const char *endpoint,
	char *const *services, size_t n_services, struct error *error)
{
	const char *version = choose_service(services, n_services);
	struct dra_driver *driver;
	int r;

	r = check(manager, name, endpoint, version, error);
	if (r < 0)
		return r;
	driver = calloc(1, sizeof(*driver));
	if (!driver)
		return error_set(error, -ENOMEM, "out of memory");
	driver->manager = manager;
	driver->name = strdup(name);
	driver->endpoint = strdup(endpoint);
	driver->version = version;
	driver->health_version = choose_health(manager->model->version, services, n_services);
	driver->health = json_object();
	driver->next = manager->drivers;
	manager->drivers = driver;
	r = driver->name && driver->endpoint && driver->health ? 0 : -ENOMEM;
	if (r >= 0)
		r = sd_event_add_time(manager->event, &driver->stream_timer, CLOCK_MONOTONIC,
			UINT64_MAX, 1, on_stream_due, driver);
	if (r < 0) {
		driver_free(driver);
		return error_set(error, r, "%s", strerror(-r));
	}
	manager_emit(manager,
		json_pack("{s:s, s:s, s:o, s:s, s:s*}", "event", "driver-registered", "driver",
			name, "endpoint", text_json(endpoint), "version", version, "health_version",
			driver->health_version));
	plan_stream(driver, 0);
	return 0;
}

void dra_driver_remove(struct manager *manager, const char *name, const char *endpoint)
{
	for (struct dra_driver *d = manager->drivers; d; d = d->next) {
		if (!streq(d->name, name) || !streq(d->endpoint, endpoint))
			continue;
		manager_emit(manager,
			json_pack("{s:s, s:s, s:o}", "event", "driver-removed", "driver", name,
				"endpoint", text_json(endpoint)));
		disconnect(d);
		driver_free(d);
		return;
	}
}

/* --- calls --- */

int dra_driver_check(struct manager *manager, const char *name, struct error *error)
{
	return find(manager, name)
		? 0
		: error_set(error, -ENOENT, "DRA driver %s is not registered", name);
}

void dra_driver_answered(struct manager *manager, const char *name, const struct answer *answer)
{
	struct dra_driver *driver = find(manager, name);

	if (driver && answer->status == RPC_UNAVAILABLE)
		disconnect(driver);
}

int dra_driver_call(struct manager *manager, const char *name, const char *method,
	const ProtobufCMessage *request, answer_handler handler, void *userdata,
	struct error *error)
{
	struct dra_driver *driver = find(manager, name);
	char path[160];
	int r;

	r = dra_driver_check(manager, name, error);
	if (r >= 0)
		r = driver_connect(driver, error);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "/k8s.io.kubelet.pkg.apis.dra.%s.DRAPlugin/%s",
		driver->version, method);
	r = connection_call(driver->connection, path, request,
		(uint64_t)(manager->options->claim_timeout * USEC_PER_SEC), handler, userdata);
	return r < 0 ? error_set(error, r, "%s", strerror(-r)) : 0;
}

json_t *dra_driver_view(const struct manager *manager)
{
	_cleanup_json_ json_t *drivers = json_array();

	for (const struct dra_driver *d = manager->drivers; d; d = d->next)
		if (json_array_append_new(drivers,
			    json_pack("{s:s, s:o, s:s, s:b, s:O}", "name", d->name, "endpoint",
				    text_json(d->endpoint), "version", d->version, "connected",
				    d->connection != NULL, "health", d->health)) < 0)
			return NULL;
	return json_incref(drivers);
}

void dra_driver_free_all(struct manager *manager)
{
	while (manager->drivers)
		driver_free(manager->drivers);
}
