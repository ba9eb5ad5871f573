/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The part of NVIDIA's management library that is used here: declarations of our own, by the public
 * documentation of its ABI (docs.nvidia.com/deploy/nvml-api), with the sizes asserted. Every
 * function is searched when the library is loaded, and is NULL if an older library lacks it.
 */

#include "common/error.h"

enum nvml_result {
	NVML_OK = 0,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_TIMEOUT = 10,
	NVML_FUNCTION_NOT_FOUND = 13,
	NVML_GPU_IS_LOST = 15,
	NVML_RESET_REQUIRED = 16,
};

typedef void *nvml_device;
typedef void *nvml_event_set;

struct nvml_pci_info {
	char legacy_id[16];
	unsigned domain, bus, device;
	unsigned device_id, subsystem_id;
	char id[32]; /* "00000000:3B:00.0" */
};
_Static_assert(sizeof(struct nvml_pci_info) == 68, "nvmlPciInfo_t");

#define NVML_EVENT_DOUBLE_BIT_ECC  0x2ULL
#define NVML_EVENT_XID             0x8ULL
#define NVML_EVENT_MIG_CHANGE      0x100ULL
#define NVML_EVENT_UNAVAILABLE     0x4000ULL
#define NVML_EVENT_RECOVERY_ACTION 0x8000ULL

struct nvml_event {
	nvml_device device;
	unsigned long long type, data;
	unsigned gi, ci; /* UINT_MAX: of the whole GPU */
};
_Static_assert(sizeof(struct nvml_event) == 32, "nvmlEventData_t");

enum nvml_field {
	NVML_FIELD_DBE_VOLATILE = 4,
	NVML_FIELD_REMAPPED_CORRECTABLE = 142,
	NVML_FIELD_REMAPPED_UNCORRECTABLE = 143,
	NVML_FIELD_REMAP_PENDING = 144,
	NVML_FIELD_REMAP_FAILURE = 145,
	NVML_FIELD_RECOVERY_ACTION = 230,
};

/* The types of value that the fields above have. */
enum nvml_value_type { NVML_UNSIGNED = 1, NVML_UNSIGNED_LONG = 2, NVML_UNSIGNED_LONG_LONG = 3 };

struct nvml_field_value {
	unsigned field, scope;
	long long timestamp, latency;
	unsigned type;
	unsigned result;
	union {
		unsigned number;
		unsigned long long_number;
		unsigned long long long_long_number;
	} value;
};
_Static_assert(sizeof(struct nvml_field_value) == 40, "nvmlFieldValue_t");

/* A structure of this kind contains its own size. */
#define NVML_VERSION(structure, version) ((unsigned)sizeof(structure) | (unsigned)(version) << 24)

struct nvml_fabric {
	unsigned version;
	unsigned char cluster[16];
	unsigned status;
	unsigned clique;
	unsigned char state; /* 0: there is none, 3: complete */
	unsigned health;
};
_Static_assert(sizeof(struct nvml_fabric) == 36, "nvmlGpuFabricInfo_v2_t");
_Static_assert(NVML_VERSION(struct nvml_fabric, 2) == 0x02000024, "nvmlGpuFabricInfo_v2");

#define NVML_TEMPERATURE_GPU 0
#define NVML_LINKS_MAX       36

enum nvml_link_remote { NVML_REMOTE_GPU = 0, NVML_REMOTE_SWITCH = 2 };

/* "Name" stands for nvmlName. Functions of the first list are required. */
#define NVML_REQUIRED(X)                                                                    \
	X(init, "nvmlInit_v2", (void))                                                      \
	X(count, "nvmlDeviceGetCount_v2", (unsigned *count))                                \
	X(by_index, "nvmlDeviceGetHandleByIndex_v2", (unsigned index, nvml_device *device)) \
	X(uuid, "nvmlDeviceGetUUID", (nvml_device device, char *uuid, unsigned size))       \
	X(pci_info, "nvmlDeviceGetPciInfo_v3", (nvml_device device, struct nvml_pci_info * info))

#define NVML_OPTIONAL(X)                                                                      \
	X(name, "nvmlDeviceGetName", (nvml_device device, char *name, unsigned size))         \
	X(field_values, "nvmlDeviceGetFieldValues",                                           \
		(nvml_device device, int count, struct nvml_field_value *values))             \
	X(fabric, "nvmlDeviceGetGpuFabricInfoV",                                              \
		(nvml_device device, struct nvml_fabric * fabric))                            \
	X(temperature, "nvmlDeviceGetTemperature",                                            \
		(nvml_device device, unsigned sensor, unsigned *celsius))                     \
	X(power, "nvmlDeviceGetPowerUsage", (nvml_device device, unsigned *milliwatts))       \
	X(mig_mode, "nvmlDeviceGetMigMode",                                                   \
		(nvml_device device, unsigned *current, unsigned *pending))                   \
	X(mig_count, "nvmlDeviceGetMaxMigDeviceCount", (nvml_device device, unsigned *count)) \
	X(mig_by_index, "nvmlDeviceGetMigDeviceHandleByIndex",                                \
		(nvml_device device, unsigned index, nvml_device *instance))                  \
	X(gi, "nvmlDeviceGetGpuInstanceId", (nvml_device instance, unsigned *number))         \
	X(ci, "nvmlDeviceGetComputeInstanceId", (nvml_device instance, unsigned *number))     \
	X(link_state, "nvmlDeviceGetNvLinkState",                                             \
		(nvml_device device, unsigned link, unsigned *active))                        \
	X(link_type, "nvmlDeviceGetNvLinkRemoteDeviceType",                                   \
		(nvml_device device, unsigned link, unsigned *type))                          \
	X(link_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2",                                 \
		(nvml_device device, unsigned link, struct nvml_pci_info *info))              \
	X(event_set_create, "nvmlEventSetCreate", (nvml_event_set * set))                     \
	X(event_types, "nvmlDeviceGetSupportedEventTypes",                                    \
		(nvml_device device, unsigned long long *types))                              \
	X(register_events, "nvmlDeviceRegisterEvents",                                        \
		(nvml_device device, unsigned long long types, nvml_event_set set))           \
	X(event_wait, "nvmlEventSetWait_v2",                                                  \
		(nvml_event_set set, struct nvml_event * event, unsigned milliseconds))

struct nvml {
#define NVML_MEMBER(member, symbol, parameters) unsigned(*member) parameters;
	NVML_REQUIRED(NVML_MEMBER)
	NVML_OPTIONAL(NVML_MEMBER)
#undef NVML_MEMBER
	const char *(*error_string)(unsigned result);
};

/* Loads the library; it stays until the process ends. Returns 0, or -ENOENT with the error filled.
 */
int nvml_load(const char *path, struct nvml *ret, struct error *error);

/* The library's name for a result. */
const char *nvml_result_text(const struct nvml *nvml, unsigned result);
