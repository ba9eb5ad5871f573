/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and polls the GPUs. A GPU keeps the handle that it was opened with, so that a lost GPU is
 * still known by its address. A failure of one GPU does not affect the others.
 */
#include "nvml/nvml-gpus.h"

#include <ctype.h>
#include <limits.h>

/* Maximum number of events that are read at once. */
#define EVENTS_AT_ONCE 4096

/* "00000000:3B:00.0" to "0000:3b:00.0": the kernel's domains have four digits, or five. */
static void make_address(const struct nvml_pci_info *info, char ret[static ADDRESS_MAX])
{
	(void)snprintf(ret, ADDRESS_MAX, "%04x:%02x:%02x.0", info->domain, info->bus & 0xff,
		info->device & 0x1f);
}

/* Retries are rare, because a failing GPU takes long to open and the kernel logs each failure. */
#define POLLS_PER_REOPEN 6

/* The driver's recovery actions. */
#define RECOVERY_RESET 1

/* Whether the call succeeded. Records what a failure means for the GPU. */
static bool went_well(struct gpu *gpu, unsigned result)
{
	if (result == NVML_GPU_IS_LOST)
		gpu->lost = true;
	else if (result == NVML_RESET_REQUIRED)
		gpu->needs_reset = true;
	return result == NVML_OK;
}

/* --- GPUs and instances --- */

static void register_events(struct gpus *gpus, struct gpu *gpu)
{
	unsigned long long types = NVML_EVENT_DOUBLE_BIT_ECC | NVML_EVENT_XID |
		NVML_EVENT_MIG_CHANGE | NVML_EVENT_UNAVAILABLE | NVML_EVENT_RECOVERY_ACTION;
	const struct nvml *nvml = gpus->nvml;
	unsigned long long supported = 0;

	if (!gpus->events || !nvml->event_types || !nvml->register_events)
		return;
	if (nvml->event_types(gpu->device, &supported) == NVML_OK && (types & supported) != 0)
		(void)nvml->register_events(gpu->device, types & supported, gpus->events);
}

/* Without permission, the state of the GPU is unknown. */
static void note_unopened(struct gpus *gpus, unsigned index, unsigned result)
{
	if (result == NVML_NO_PERMISSION)
		return;
	gpus->unopened[gpus->n_unopened++] = index;
	if (result != NVML_GPU_IS_LOST)
		gpus->failure = result;
}

static void open_gpu(struct gpus *gpus, unsigned index)
{
	const struct nvml *nvml = gpus->nvml;
	struct gpu *gpu = &gpus->items[gpus->count];
	struct nvml_pci_info info = { 0 };
	unsigned result;

	*gpu = (struct gpu){ 0 };
	result = nvml->by_index(index, &gpu->device);
	if (result == NVML_OK)
		result = nvml->pci_info(gpu->device, &info);
	if (result != NVML_OK) {
		note_unopened(gpus, index, result);
		return;
	}
	make_address(&info, gpu->address);
	register_events(gpus, gpu);
	gpus->count++;
}

int gpus_open(
	struct gpus *gpus, const struct nvml *nvml, unsigned *ret_result, const char **ret_call)
{
	unsigned count = 0, result;

	gpus->nvml = nvml;
	result = nvml->init();
	*ret_call = "nvmlInit_v2";
	if (result == NVML_OK) {
		result = nvml->count(&count);
		*ret_call = "nvmlDeviceGetCount_v2";
	}
	*ret_result = result;
	if (result != NVML_OK)
		return -EIO;
	if (!nvml->event_set_create || !nvml->event_wait ||
		nvml->event_set_create(&gpus->events) != NVML_OK)
		gpus->events = NULL;
	for (unsigned i = 0; i < MIN_OF(count, (unsigned)GPUS_MAX); i++)
		open_gpu(gpus, i);
	return 0;
}

/* --- what changes --- */

static void read_fields(const struct nvml *nvml, struct gpu *gpu)
{
	struct {
		enum nvml_field field;
		struct reading *reading;
	} wanted[] = {
		{ NVML_FIELD_RECOVERY_ACTION, &gpu->recovery },
		{ NVML_FIELD_REMAP_PENDING, &gpu->remap_pending },
		{ NVML_FIELD_REMAP_FAILURE, &gpu->remap_failure },
		{ NVML_FIELD_REMAPPED_CORRECTABLE, &gpu->remapped_correctable },
		{ NVML_FIELD_REMAPPED_UNCORRECTABLE, &gpu->remapped_uncorrectable },
		{ NVML_FIELD_DBE_VOLATILE, &gpu->dbe },
	};
	struct nvml_field_value values[ARRAY_SIZE(wanted)] = { 0 };
	bool well;

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		values[i].field = wanted[i].field;
		values[i].result = NVML_NOT_SUPPORTED;
	}
	well = nvml->field_values &&
		went_well(gpu, nvml->field_values(gpu->device, (int)ARRAY_SIZE(wanted), values));
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		const struct nvml_field_value *value = &values[i];

		*wanted[i].reading = (struct reading){ 0 };
		if (!well || !went_well(gpu, value->result))
			continue;
		wanted[i].reading->known = true;
		wanted[i].reading->value = value->type == NVML_UNSIGNED ? value->value.number
			: value->type == NVML_UNSIGNED_LONG             ? value->value.long_number
							    : value->value.long_long_number;
	}
}

static void read_fabric(const struct nvml *nvml, struct gpu *gpu)
{
	struct nvml_fabric fabric = { .version = NVML_VERSION(struct nvml_fabric, 2) };

	gpu->fabric_state.known = nvml->fabric &&
		went_well(gpu, nvml->fabric(gpu->device, &fabric)) && fabric.state != 0;
	gpu->fabric_state.value = fabric.state;
	gpu->fabric_status = (struct reading){ gpu->fabric_state.known, fabric.status };
}

/* "NVIDIA A100-SXM4-40GB MIG 1g.5gb" */
static void make_profile(const char *name, char ret[static 32])
{
	const char *profile = strstr(name, "MIG ");

	(void)snprintf(ret, 32, "%s", profile ? profile + strlen("MIG ") : "");
}

static void read_instance(const struct nvml *nvml, struct gpu *gpu, unsigned index)
{
	struct instance *instance = &gpu->instances[gpu->n_instances];
	char name[NAME_MAX_KEPT] = "";
	nvml_device device;

	/* Slots may be empty. */
	if (nvml->mig_by_index(gpu->device, index, &device) != NVML_OK)
		return;
	*instance = (struct instance){ 0 };
	if (nvml->uuid(device, instance->uuid, sizeof(instance->uuid)) != NVML_OK ||
		nvml->gi(device, &instance->gi) != NVML_OK ||
		nvml->ci(device, &instance->ci) != NVML_OK)
		return;
	instance->uuid[sizeof(instance->uuid) - 1] = '\0';
	if (nvml->name && nvml->name(device, name, sizeof(name) - 1) == NVML_OK)
		make_profile(name, instance->profile);
	gpu->n_instances++;
}

static void read_instances(const struct nvml *nvml, struct gpu *gpu)
{
	unsigned current = 0, pending = 0, count = 0;

	gpu->n_instances = 0;
	gpu->mig.known =
		nvml->mig_mode && went_well(gpu, nvml->mig_mode(gpu->device, &current, &pending));
	gpu->mig.value = current;
	if (!gpu->mig.known || !current || !nvml->mig_count || !nvml->mig_by_index || !nvml->gi ||
		!nvml->ci || nvml->mig_count(gpu->device, &count) != NVML_OK)
		return;
	for (unsigned i = 0; i < MIN_OF(count, (unsigned)INSTANCES_MAX); i++)
		read_instance(nvml, gpu, i);
}

static void read_sensors(const struct nvml *nvml, struct gpu *gpu)
{
	unsigned value = 0;

	gpu->temperature.known = nvml->temperature &&
		went_well(gpu, nvml->temperature(gpu->device, NVML_TEMPERATURE_GPU, &value));
	gpu->temperature.value = value;
	gpu->power.known = nvml->power && went_well(gpu, nvml->power(gpu->device, &value));
	gpu->power.value = value;
}

static int compare_links(const char *a, const char *b)
{
	return strncmp(a, b, ADDRESS_MAX);
}

/* Counts the active links of a GPU by their remote ends. */
static void read_links(const struct nvml *nvml, struct gpu *gpu)
{
	char remotes[NVML_LINKS_MAX][ADDRESS_MAX];
	unsigned n = 0;
	size_t used = 0;

	gpu->links[0] = '\0';
	for (unsigned link = 0; nvml->link_state && nvml->link_remote && link < NVML_LINKS_MAX;
		link++) {
		struct nvml_pci_info info = { 0 };
		unsigned active = 0, type = NVML_REMOTE_GPU;

		if (nvml->link_state(gpu->device, link, &active) != NVML_OK || !active)
			continue;
		if (nvml->link_type)
			(void)nvml->link_type(gpu->device, link, &type);
		if (type == NVML_REMOTE_SWITCH)
			(void)strcpy(remotes[n++], "switch");
		else if (type == NVML_REMOTE_GPU &&
			nvml->link_remote(gpu->device, link, &info) == NVML_OK)
			make_address(&info, remotes[n++]);
	}
	for (unsigned i = 0; i < n && used < sizeof(gpu->links); i++) {
		unsigned count = 0;
		bool first = true;

		for (unsigned k = 0; k < n; k++) {
			if (compare_links(remotes[i], remotes[k]) != 0)
				continue;
			first = first && k >= i;
			count++;
		}
		if (first)
			used += (size_t)snprintf(gpu->links + used, sizeof(gpu->links) - used,
				"%s%s=%u", used > 0 ? " " : "", remotes[i], count);
	}
}

static void open_rest(struct gpus *gpus)
{
	unsigned n = gpus->n_unopened;

	gpus->n_unopened = 0;
	gpus->failure = NVML_OK;
	for (unsigned i = 0; i < n; i++)
		open_gpu(gpus, gpus->unopened[i]);
}

void gpus_poll(struct gpus *gpus)
{
	if (++gpus->n_polls % POLLS_PER_REOPEN == 0)
		open_rest(gpus);
	for (unsigned i = 0; i < gpus->count; i++) {
		struct gpu *gpu = &gpus->items[i];

		gpu->lost = gpu->needs_reset = false;
		read_fields(gpus->nvml, gpu);
		read_fabric(gpus->nvml, gpu);
		read_instances(gpus->nvml, gpu);
		read_sensors(gpus->nvml, gpu);
		read_links(gpus->nvml, gpu);
		if (gpu->needs_reset && !gpu->recovery.known)
			gpu->recovery = (struct reading){ true, RECOVERY_RESET };
	}
}

/* --- events --- */

static void take_xid(struct gpu *gpu, const struct nvml_event *event)
{
	struct xid xid = { .number = (unsigned)MIN_OF(event->data, 0xffffULL), .gi = event->gi };
	unsigned at = 0;

	while (at < gpu->n_xids &&
		(gpu->xids[at].number != xid.number || gpu->xids[at].gi != xid.gi))
		at++;
	if (at < gpu->n_xids)
		xid.count = gpu->xids[at].count;
	else if (gpu->n_xids < XIDS_MAX)
		gpu->n_xids++;
	else
		at = 0;
	memmove(&gpu->xids[at], &gpu->xids[at + 1], (gpu->n_xids - at - 1) * sizeof(gpu->xids[0]));
	xid.count++;
	gpu->xids[gpu->n_xids - 1] = xid;
}

static void take_event(struct gpus *gpus, const struct nvml_event *event)
{
	for (unsigned i = 0; i < gpus->count; i++)
		if (gpus->items[i].device == event->device && event->type == NVML_EVENT_XID)
			take_xid(&gpus->items[i], event);
}

bool gpus_wait(struct gpus *gpus, unsigned milliseconds)
{
	struct nvml_event event;
	unsigned n = 0;

	if (!gpus->events)
		return false;
	for (; n < EVENTS_AT_ONCE; n++) {
		event = (struct nvml_event){ .gi = UINT_MAX, .ci = UINT_MAX };
		if (gpus->nvml->event_wait(gpus->events, &event, n > 0 ? 0 : milliseconds) !=
			NVML_OK)
			break;
		take_event(gpus, &event);
	}
	return n > 0;
}
