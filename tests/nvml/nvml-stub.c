/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for NVIDIA's library. What it reports is in the file "nvml-state" beside it, which is
 * read at each call, so that a test changes a GPU by replacing the file:
 *
 *   gpu ADDRESS UUID
 *   fail CALL RESULT                   hang CALL            crash CALL          leak CALL
 *   lost ADDRESS [RESULT]              field ADDRESS FIELD VALUE
 *   fabric ADDRESS STATE STATUS        mig ADDRESS MODE
 *   blind                              (at nvmlInit: no instance is ever listed)
 *   instance ADDRESS GI CI UUID PROFILE
 *   link ADDRESS LINK REMOTE           (an address, or "switch")
 *   power ADDRESS MILLIWATTS           (without it: 65000)
 *   xid SERIAL ADDRESS NUMBER GI COUNT (serials ascend, each is delivered once; GI -1: the whole
 * GPU) event SERIAL ADDRESS TYPE
 *   storm ADDRESS NUMBER               (an Xid whenever one is waited for)
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#define TEXT_MAX   65536
#define GPUS_MAX   64
#define WORDS_MAX  8
#define EVENT_STEP 10000

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TIMED_OUT = 10, LOST = 15 };

/* A GPU's handle is the position of its line, an instance's that and more. */
struct handle {
	char address[32];
	char uuid[96];
	unsigned gi, ci;
	bool instance;
	char profile[32];
};

static struct handle handles[GPUS_MAX], instances[GPUS_MAX * 8];
static unsigned long delivered;
static unsigned long repeated; /* of the event in hand */
static bool blind;             /* since the start: it may not see instances */

struct state {
	char text[TEXT_MAX];
	char *cursor;
};

static void read_state(struct state *state)
{
	char path[4096];
	ssize_t n = 0;
	Dl_info info;
	char *slash;
	int fd;

	(void)dladdr((void *)read_state, &info);
	(void)snprintf(path, sizeof(path), "%s", info.dli_fname);
	slash = strrchr(path, '/');
	(void)strcpy(slash ? slash + 1 : path, "nvml-state");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, state->text, TEXT_MAX - 1);
		(void)close(fd);
	}
	state->text[n > 0 ? n : 0] = '\0';
	state->cursor = state->text;
}

/* Cuts the next line that begins with the word. Returns how many words it has, 0 at the end. */
static int next_line(struct state *state, const char *first, char *words[static WORDS_MAX])
{
	while (*state->cursor) {
		char *line = state->cursor, *rest = NULL;
		size_t length = strcspn(line, "\n");
		int n = 0;

		state->cursor += length + (line[length] == '\n');
		line[length] = '\0';
		for (char *word = strtok_r(line, " ", &rest); word && n < WORDS_MAX;
			word = strtok_r(NULL, " ", &rest))
			words[n++] = word;
		if (n > 0 && strcmp(words[0], first) == 0)
			return n;
	}
	return 0;
}

static void *leaked;

/* What is to happen in every call. */
static unsigned enter(const char *call)
{
	static struct state state;
	char *words[WORDS_MAX];

	for (read_state(&state); next_line(&state, "hang", words) == 2;)
		if (strcmp(words[1], call) == 0)
			for (;;)
				(void)pause();
	for (read_state(&state); next_line(&state, "crash", words) == 2;)
		if (strcmp(words[1], call) == 0)
			(void)raise(SIGSEGV);
	for (read_state(&state); next_line(&state, "leak", words) == 2;)
		while (strcmp(words[1], call) == 0 && (leaked = malloc(1 << 24)))
			memset(leaked, 1, 1 << 24);
	for (read_state(&state); next_line(&state, "fail", words) == 3;)
		if (strcmp(words[1], call) == 0)
			return (unsigned)atoi(words[2]);
	return OK;
}

/* The line of a GPU, after its address. Returns how many words it has, 0 if there is none. */
static int find(
	struct state *state, const char *first, const char *address, char *words[static WORDS_MAX])
{
	int n;

	read_state(state);
	while ((n = next_line(state, first, words)) > 0)
		if (n > 1 && strcmp(words[1], address) == 0)
			return n;
	return 0;
}

static unsigned enter_gpu(const char *call, const struct handle *handle)
{
	static struct state state;
	char *words[WORDS_MAX];
	unsigned r = enter(call);

	int n = r == OK ? find(&state, "lost", handle->address, words) : 0;

	if (n > 0)
		r = n == 3 ? (unsigned)atoi(words[2]) : LOST;
	return r;
}

static void copy_text(char *to, unsigned size, const char *text)
{
	(void)snprintf(to, size, "%s", text);
}

/* --- the library --- */

EXPORT unsigned nvmlInit_v2(void);
EXPORT unsigned nvmlInit_v2(void)
{
	static struct state state;
	char *words[WORDS_MAX];

	read_state(&state);
	blind = next_line(&state, "blind", words) > 0;
	return enter("nvmlInit_v2");
}

EXPORT unsigned nvmlDeviceGetCount_v2(unsigned *count);
EXPORT unsigned nvmlDeviceGetCount_v2(unsigned *count)
{
	static struct state state;
	char *words[WORDS_MAX];
	unsigned n = 0;

	for (read_state(&state); next_line(&state, "gpu", words) >= 3 && n < GPUS_MAX; n++) {
		copy_text(handles[n].address, sizeof(handles[n].address), words[1]);
		copy_text(handles[n].uuid, sizeof(handles[n].uuid), words[2]);
	}
	*count = n;
	return enter("nvmlDeviceGetCount_v2");
}

EXPORT unsigned nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
EXPORT unsigned nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	if (index >= GPUS_MAX || !handles[index].address[0])
		return INVALID;
	*device = &handles[index];
	return enter_gpu("nvmlDeviceGetHandleByIndex_v2", &handles[index]);
}

EXPORT unsigned nvmlDeviceGetUUID(void *device, char *uuid, unsigned size);
EXPORT unsigned nvmlDeviceGetUUID(void *device, char *uuid, unsigned size)
{
	const struct handle *handle = device;

	copy_text(uuid, size, handle->uuid);
	return enter_gpu("nvmlDeviceGetUUID", handle);
}

struct pci_info {
	char legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char bus_id[32];
};

static void fill_pci(struct pci_info *info, const char *address)
{
	memset(info, 0, sizeof(*info));
	(void)sscanf(address, "%x:%x:%x", &info->domain, &info->bus, &info->device);
	(void)snprintf(info->bus_id, sizeof(info->bus_id), "%08X:%02X:%02X.0", info->domain,
		info->bus, info->device);
}

EXPORT unsigned nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *info);
EXPORT unsigned nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *info)
{
	const struct handle *handle = device;

	fill_pci(info, handle->address);
	return enter_gpu("nvmlDeviceGetPciInfo_v3", handle);
}

EXPORT const char *nvmlErrorString(unsigned result);
EXPORT const char *nvmlErrorString(unsigned result)
{
	return result == 18    ? "Driver/library version mismatch"
		: result == 9  ? "Driver Not Loaded"
		: result == 4  ? "Insufficient Permissions"
		: result == 16 ? "GPU requires reset"
			       : "Unknown Error";
}

#ifndef STUB_OLD
struct field_value {
	unsigned field, scope;
	long long timestamp, latency;
	unsigned type, result;
	union {
		unsigned number;
		unsigned long long long_number;
	} value;
};

EXPORT unsigned nvmlDeviceGetFieldValues(void *device, int count, struct field_value *values);
EXPORT unsigned nvmlDeviceGetFieldValues(void *device, int count, struct field_value *values)
{
	static struct state state;
	const struct handle *handle = device;
	char *words[WORDS_MAX];
	int n;

	for (int i = 0; i < count; i++) {
		values[i].result = NOT_SUPPORTED;
		read_state(&state);
		while ((n = next_line(&state, "field", words)) > 0) {
			if (n != 4 || strcmp(words[1], handle->address) != 0 ||
				(unsigned)atoi(words[2]) != values[i].field)
				continue;
			values[i].type = 1;
			values[i].value.number = (unsigned)atoi(words[3]);
			values[i].result = OK;
		}
	}
	return enter_gpu("nvmlDeviceGetFieldValues", handle);
}

struct fabric {
	unsigned version;
	unsigned char cluster[16];
	unsigned status, clique;
	unsigned char state;
	unsigned health;
};

EXPORT unsigned nvmlDeviceGetGpuFabricInfoV(void *device, struct fabric *fabric);
EXPORT unsigned nvmlDeviceGetGpuFabricInfoV(void *device, struct fabric *fabric)
{
	static struct state state;
	const struct handle *handle = device;
	char *words[WORDS_MAX];

	if (fabric->version != 0x02000024)
		return 25;
	if (find(&state, "fabric", handle->address, words) != 4)
		return NOT_SUPPORTED;
	fabric->state = (unsigned char)atoi(words[2]);
	fabric->status = (unsigned)atoi(words[3]);
	return enter_gpu("nvmlDeviceGetGpuFabricInfoV", handle);
}

EXPORT unsigned nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *celsius);
EXPORT unsigned nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *celsius)
{
	*celsius = 41 + sensor;
	return enter_gpu("nvmlDeviceGetTemperature", device);
}

EXPORT unsigned nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
EXPORT unsigned nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
	static struct state state;
	const struct handle *handle = device;
	char *words[WORDS_MAX];

	*milliwatts = find(&state, "power", handle->address, words) == 3 ? (unsigned)atoi(words[2])
									 : 65000;
	return enter_gpu("nvmlDeviceGetPowerUsage", device);
}

/* --- instances --- */

EXPORT unsigned nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending);
EXPORT unsigned nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending)
{
	static struct state state;
	const struct handle *handle = device;
	char *words[WORDS_MAX];

	if (find(&state, "mig", handle->address, words) < 3)
		return NOT_SUPPORTED;
	*current = *pending = (unsigned)atoi(words[2]);
	return enter_gpu("nvmlDeviceGetMigMode", handle);
}

EXPORT unsigned nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count);
EXPORT unsigned nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count)
{
	*count = 7;
	return enter_gpu("nvmlDeviceGetMaxMigDeviceCount", device);
}

/* Odd slots are empty. */
EXPORT unsigned nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **instance);
EXPORT unsigned nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **instance)
{
	static struct state state;
	const struct handle *gpu = device;
	char *words[WORDS_MAX];
	unsigned at = 0;
	int n;

	read_state(&state);
	while ((n = next_line(&state, "instance", words)) > 0) {
		struct handle *handle;

		if (blind || n != 6 || strcmp(words[1], gpu->address) != 0 || 2 * at++ != index)
			continue;
		handle = &instances[(gpu - handles) * 8 + index / 2];
		*handle = *gpu;
		handle->gi = (unsigned)atoi(words[2]);
		handle->ci = (unsigned)atoi(words[3]);
		copy_text(handle->uuid, sizeof(handle->uuid), words[4]);
		copy_text(handle->profile, sizeof(handle->profile), words[5]);
		handle->instance = true;
		*instance = handle;
		return enter("nvmlDeviceGetMigDeviceHandleByIndex");
	}
	return NOT_FOUND;
}

EXPORT unsigned nvmlDeviceGetGpuInstanceId(void *device, unsigned *number);
EXPORT unsigned nvmlDeviceGetGpuInstanceId(void *device, unsigned *number)
{
	*number = ((const struct handle *)device)->gi;
	return OK;
}

EXPORT unsigned nvmlDeviceGetComputeInstanceId(void *device, unsigned *number);
EXPORT unsigned nvmlDeviceGetComputeInstanceId(void *device, unsigned *number)
{
	*number = ((const struct handle *)device)->ci;
	return OK;
}

EXPORT unsigned nvmlDeviceGetName(void *device, char *name, unsigned size);
EXPORT unsigned nvmlDeviceGetName(void *device, char *name, unsigned size)
{
	const struct handle *handle = device;

	(void)snprintf(name, size, "NVIDIA H100 80GB HBM3%s%s", handle->instance ? " MIG " : "",
		handle->profile);
	return OK;
}

/* --- links --- */

static int find_link(struct state *state, const struct handle *handle, unsigned link,
	char *words[static WORDS_MAX])
{
	int n;

	read_state(state);
	while ((n = next_line(state, "link", words)) > 0)
		if (n == 4 && strcmp(words[1], handle->address) == 0 &&
			(unsigned)atoi(words[2]) == link)
			return n;
	return 0;
}

EXPORT unsigned nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active);
EXPORT unsigned nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active)
{
	static struct state state;
	char *words[WORDS_MAX];

	*active = find_link(&state, device, link, words) > 0;
	return *active ? OK : NOT_SUPPORTED;
}

EXPORT unsigned nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type);
EXPORT unsigned nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type)
{
	static struct state state;
	char *words[WORDS_MAX];

	if (find_link(&state, device, link, words) == 0)
		return NOT_SUPPORTED;
	*type = strcmp(words[3], "switch") == 0 ? 2 : 0;
	return OK;
}

EXPORT unsigned nvmlDeviceGetNvLinkRemotePciInfo_v2(
	void *device, unsigned link, struct pci_info *info);
EXPORT unsigned nvmlDeviceGetNvLinkRemotePciInfo_v2(
	void *device, unsigned link, struct pci_info *info)
{
	static struct state state;
	char *words[WORDS_MAX];

	if (find_link(&state, device, link, words) == 0)
		return NOT_SUPPORTED;
	fill_pci(info, words[3]);
	return OK;
}

/* --- events --- */

struct event {
	void *device;
	unsigned long long type, data;
	unsigned gi, ci;
};

EXPORT unsigned nvmlEventSetCreate(void **set);
EXPORT unsigned nvmlEventSetCreate(void **set)
{
	static struct state state;
	char *words[WORDS_MAX];

	/* What was before is not delivered. */
	for (read_state(&state); next_line(&state, "xid", words) > 1;)
		delivered = strtoul(words[1], NULL, 10);
	*set = &delivered;
	return enter("nvmlEventSetCreate");
}

EXPORT unsigned nvmlDeviceGetSupportedEventTypes(void *device, unsigned long long *types);
EXPORT unsigned nvmlDeviceGetSupportedEventTypes(void *device, unsigned long long *types)
{
	*types = 0xffff;
	return enter_gpu("nvmlDeviceGetSupportedEventTypes", device);
}

EXPORT unsigned nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set);
EXPORT unsigned nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)
{
	return enter_gpu("nvmlDeviceRegisterEvents", device);
}

static void *find_handle(const char *address)
{
	for (unsigned i = 0; i < GPUS_MAX; i++)
		if (strcmp(handles[i].address, address) == 0)
			return &handles[i];
	return NULL;
}

/* Serials ascend in the file. */
static bool take_event(struct event *event)
{
	static struct state state;
	char *words[WORDS_MAX];
	int n;

	read_state(&state);
	while ((n = next_line(&state, "xid", words)) > 0) {
		if (n != 6 || strtoul(words[1], NULL, 10) <= delivered)
			continue;
		*event = (struct event){
			.device = find_handle(words[2]),
			.type = 0x8,
			.data = strtoull(words[3], NULL, 10),
			.gi = (unsigned)atoi(words[4]),
			.ci = (unsigned)-1,
		};
		if (++repeated >= strtoul(words[5], NULL, 10)) {
			delivered = strtoul(words[1], NULL, 10);
			repeated = 0;
		}
		return true;
	}
	read_state(&state);
	while ((n = next_line(&state, "event", words)) > 0) {
		if (n != 4 || strtoul(words[1], NULL, 10) <= delivered)
			continue;
		*event = (struct event){ .device = find_handle(words[2]),
			.type = strtoull(words[3], NULL, 16),
			.gi = (unsigned)-1,
			.ci = (unsigned)-1 };
		delivered = strtoul(words[1], NULL, 10);
		return true;
	}
	return false;
}

/* The next one comes when it is waited for. */
static bool take_storm(struct event *event)
{
	static struct state state;
	char *words[WORDS_MAX];

	read_state(&state);
	if (next_line(&state, "storm", words) != 3)
		return false;
	*event = (struct event){ .device = find_handle(words[1]),
		.type = 0x8,
		.data = strtoull(words[2], NULL, 10),
		.gi = (unsigned)-1,
		.ci = (unsigned)-1 };
	return true;
}

EXPORT unsigned nvmlEventSetWait_v2(void *set, struct event *event, unsigned milliseconds);
EXPORT unsigned nvmlEventSetWait_v2(void *set, struct event *event, unsigned milliseconds)
{
	unsigned r = enter("nvmlEventSetWait_v2");

	for (unsigned waited = 0; r == OK; waited += EVENT_STEP / 1000) {
		if (take_event(event) || (milliseconds > 0 && take_storm(event)))
			return OK;
		if (waited >= milliseconds)
			return TIMED_OUT;
		(void)usleep(EVENT_STEP);
		r = enter("nvmlEventSetWait_v2");
	}
	return r;
}
#endif
