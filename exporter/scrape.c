/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which members of the documents of the supervisor and its children become metrics: members
 * of another type are left out, and a child's document that is not valid JSON has no devices.
 */
#include "exporter/scrape.h"

#include "common/json-read.h"
#include "common/offered-id.h"
#include "common/sealed.h"

#define STATE_MAX (64U << 20)

static uint64_t natural(const json_t *value)
{
	json_int_t number = json_integer_value(value);

	return number > 0 ? (uint64_t)number : 0;
}

uint64_t scrape_number(const json_t *object, const char *key)
{
	return natural(json_object_get(object, key));
}

uint64_t scrape_element(const json_t *array, size_t index)
{
	return natural(json_array_get(array, index));
}

/* --- devices --- */

static uint64_t time_of(const json_t *object, const char *key)
{
	const char *end, *text = text_of(object, key);
	struct tm tm = { 0 };
	time_t seconds;

	end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	seconds = end && !*end ? timegm(&tm) : 0;
	return seconds > 0 ? (uint64_t)seconds : 0;
}

static void take_numa(const json_t *numbers, struct unit *unit)
{
	size_t length = 0;

	for (size_t i = 0; i < json_array_size(numbers); i++) {
		char text[24];
		int n = snprintf(text, sizeof(text), "%s%lld", i > 0 ? "," : "",
			(long long)json_integer_value(json_array_get(numbers, i)));

		if (length + (size_t)n >= sizeof(unit->numa_text))
			break;
		memcpy(unit->numa_text + length, text, (size_t)n + 1);
		length += (size_t)n;
	}
}

static void take_unit(const json_t *device, struct unit *unit)
{
	const char *health = text_of(device, "health");

	*unit = (struct unit){
		.id = unit->id,
		.cause = text_of(device, "cause"),
		.findings = json_object_get(device, "findings"),
		.pci_address = text_of(device, "pci_address"),
		.serial = text_of(device, "serial"),
		.model = text_of(device, "model"),
		.healthy = streq(health, "Healthy"),
		.claimed = streq(health, "Claimed"),
		.since = time_of(device, "since"),
		.changes = scrape_number(device, "changes"),
		.replicas =
			json_object_get(device, "replicas") ? scrape_number(device, "replicas") : 1,
	};
	take_numa(json_object_get(device, "numa"), unit);
	unit->numa = unit->numa_text;
}

/* A process may not send one id twice. */
static int take_devices(struct resource *resource, const json_t *document)
{
	const json_t *devices = json_object_get(document, "devices");
	size_t count = json_array_size(devices);

	resource->left_out = !document || json_is_null(document);
	resource->expect = json_object_get(document, "expect");
	resource->measurements = json_object_get(document, "measurements");
	resource->units = calloc(count + 1, sizeof(*resource->units));
	if (!resource->units)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const json_t *device = json_array_get(devices, i);
		struct unit *unit = &resource->units[resource->n_units];
		int r;

		unit->id = text_of(device, "id");
		if (!*unit->id)
			continue;
		r = map_put(&resource->by_id, unit->id, unit);
		if (r == -ENOMEM)
			return r;
		if (r < 0)
			continue;
		take_unit(device, unit);
		resource->n_units++;
	}
	return 0;
}

int scrape_take_devices(json_t *documents, size_t *total, const char *resource, int fd)
{
	_cleanup_free_ char *text = NULL;
	json_t *document = NULL;
	size_t size;
	int r;

	r = sealed_read(
		fd, MIN_OF(SCRAPE_DEVICES_MAX, SCRAPE_ALL_DEVICES_MAX - *total), &text, &size);
	if (r == -EFBIG)
		document = json_null();
	else if (r < 0)
		return r;
	else {
		*total += size;
		document = json_loadb(text, size, 0, NULL);
	}
	if (document && json_object_set_new(documents, resource, document) < 0)
		return -ENOMEM;
	return 0;
}

/* --- resources --- */

static int take_resources(struct scrape *scrape)
{
	const json_t *list = json_object_get(scrape->root, "resources");
	size_t count = json_array_size(list);
	int r = 0;

	scrape->resources = calloc(count + 1, sizeof(*scrape->resources));
	if (!scrape->resources)
		return -ENOMEM;
	for (size_t i = 0; i < count && r >= 0; i++) {
		const json_t *object = json_array_get(list, i);
		struct resource *resource = &scrape->resources[scrape->n_resources];

		*resource = (struct resource){
			.object = object,
			.name = text_of(object, "name"),
			.driver = text_of(object, "driver"),
			.serve = text_of(object, "serve"),
		};
		r = map_put(&scrape->by_name, resource->name, resource);
		/* For a moment, a removed device and an added one may have the same name. */
		if (r == -EEXIST) {
			*resource = (struct resource){ 0 };
			r = 0;
			continue;
		}
		scrape->n_resources++;
		if (r >= 0)
			r = take_devices(
				resource, json_object_get(scrape->documents, resource->name));
	}
	return r;
}

/* --- pods --- */

const struct unit *scrape_unit(const struct resource *resource, const char *offered_id)
{
	const struct unit *unit = map_get(&resource->by_id, offered_id);
	char id[DEVICE_ID_MAX + 1];
	unsigned replica;
	size_t length;

	if (unit || !offered_id_split(offered_id, &length, &replica) || length >= sizeof(id))
		return unit;
	memcpy(id, offered_id, length);
	id[length] = '\0';
	return map_get(&resource->by_id, id);
}

/* Each offered id is counted once, although it may have a row for each of its NUMA nodes, and
 * several containers. */
static int take_assignment(struct scrape *scrape, const struct pod_container *container,
	const char *resource_name, const char *id)
{
	struct resource *resource = map_get(&scrape->by_name, resource_name);
	int r;

	if (!resource)
		return 0;
	scrape->assignments[scrape->n_assignments++] =
		(struct assignment){ container, resource, id };
	r = map_put(&resource->assigned_ids, id, resource);
	resource->assigned = resource->assigned_ids.count;
	return r == -EEXIST ? 0 : r;
}

/* The cluster uses other names for the devices of claims. */
static int take_claim(struct scrape *scrape, const struct pod_claim *claim)
{
	const json_t *claimed = json_object_get(scrape->root, "claimed"), *device;
	_cleanup_free_ char *key = pod_claim_key(claim);

	if (!key)
		return -ENOMEM;
	device = json_object_get(claimed, key);
	/* It belongs to another driver, or takes no device from others. */
	if (!device || json_is_true(json_object_get(device, "admin")))
		return 0;
	return take_assignment(
		scrape, claim->container, text_of(device, "resource"), text_of(device, "id"));
}

static int take_assignments(struct scrape *scrape)
{
	const struct pod_table *pods = scrape->pods;
	int r = 0;

	scrape->assignments =
		calloc(pods->n_devices + pods->n_claims + 1, sizeof(*scrape->assignments));
	if (!scrape->assignments)
		return -ENOMEM;
	for (size_t i = 0; i < pods->n_devices && r >= 0; i++)
		r = take_assignment(scrape, pods->devices[i].container, pods->devices[i].resource,
			pods->devices[i].id);
	for (size_t i = 0; i < pods->n_claims && r >= 0; i++)
		r = take_claim(scrape, &pods->claims[i]);
	return r;
}

/* --- --- */

static int take_state(struct scrape *scrape, int state_fd)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r;

	r = sealed_read(state_fd, STATE_MAX, &text, &size);
	if (r < 0)
		return r;
	scrape->root = json_loadb(text, size, 0, NULL);
	return scrape->root ? 0 : -EBADMSG;
}

int scrape_read(int state_fd, json_t *documents, int pods_fd, struct scrape **ret)
{
	_cleanup_(scrape_freep) struct scrape *scrape = calloc(1, sizeof(*scrape));
	int r;

	if (!scrape)
		return -ENOMEM;
	scrape->documents = json_incref(documents);
	r = take_state(scrape, state_fd);
	if (r >= 0)
		r = take_resources(scrape);
	if (r >= 0 && pods_fd >= 0)
		r = pod_table_read(pods_fd, &scrape->pods);
	if (r >= 0 && scrape->pods)
		r = take_assignments(scrape);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(scrape);
	return 0;
}

struct scrape *scrape_free(struct scrape *scrape)
{
	if (!scrape)
		return NULL;
	for (size_t i = 0; i < scrape->n_resources; i++) {
		map_done(&scrape->resources[i].by_id);
		map_done(&scrape->resources[i].assigned_ids);
		free(scrape->resources[i].units);
	}
	free(scrape->resources);
	map_done(&scrape->by_name);
	(void)pod_table_free(scrape->pods);
	free(scrape->assignments);
	json_decref(scrape->documents);
	json_decref(scrape->root);
	free(scrape);
	return NULL;
}
