/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes devices of driver "nvidia" from GPUs and their instances, and decides their ids. The id is
 * the UUID, which monitoring and NVIDIA's own plugin use. The kernel driver does not know it before
 * the first use of the GPU after the driver was loaded; until then the id is the PCI address.
 */
#include <sys/sysmacros.h>

#include "common/finding.h"
#include "drivers/host/cdi-lookup.h"
#include "drivers/host/node-state.h"
#include "drivers/host/selector.h"
#include "drivers/host/sysroot.h"
#include "drivers/nvidia/nvidia-health.h"
#include "drivers/nvidia/nvidia-host.h"

#define PCI_DEVICES "/sys/bus/pci/devices"
#define GPUS        "/proc/driver/nvidia/gpus"
#define INSTANCES   "/proc/driver/nvidia/capabilities/gpu%u/mig/gi%u/ci%u"

/* One entry of `match` while its devices are made. */
struct entry {
	struct scan *scan;
	const struct nvidia_match *match;
	const struct nvidia_host *host;
	const struct nvidia_reports *reports;
	size_t number;
	struct nvidia_libraries libraries;
	const char *dev_root; /* in front of /dev */
	const struct declaration *declaration;
};

/* --- which --- */

/* A GPU that an entry is tested on. */
struct candidate {
	const struct nvidia_gpu *gpu;
	const struct nvidia_reports *reports;
	const char *address, *uuid, *model;
	int64_t minor;
};

/* "" if it is not known. */
static const char *profile_of(const struct nvidia_reports *reports, const struct nvidia_gpu *gpu,
	const struct nvidia_instance *instance)
{
	const struct device *report = nvidia_report_of_instance(reports, gpu->address, instance);

	return report ? nvidia_report_property(report, "profile") ?: "" : "";
}

static void found_minor(
	const void *entry, const void *userdata, char ret_found[static CONDITION_FOUND_MAX])
{
	(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has %lld",
		(long long)((const struct candidate *)userdata)->minor);
}

static int test_mig(const void *entry, void *userdata)
{
	int mig = ((const struct nvidia_match *)entry)->mig;
	bool has_instances = ((struct candidate *)userdata)->gpu->n_instances > 0;

	return mig != (has_instances ? NVIDIA_MIG_NONE : NVIDIA_MIG_ONLY);
}

static void found_mig(
	const void *entry, const void *userdata, char ret_found[static CONDITION_FOUND_MAX])
{
	(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has %s instances",
		((const struct candidate *)userdata)->gpu->n_instances > 0 ? "MIG" : "no MIG");
}

static int test_profile(const void *entry, void *userdata)
{
	const struct strings *profiles = &((const struct nvidia_match *)entry)->profiles;
	const struct candidate *candidate = userdata;
	const struct nvidia_gpu *gpu = candidate->gpu;

	for (size_t i = 0; profiles->count > 0 && i < gpu->n_instances; i++)
		if (patterns_match(
			    profiles, profile_of(candidate->reports, gpu, &gpu->instances[i])))
			return 1;
	return profiles->count == 0;
}

static void found_profile(
	const void *entry, const void *userdata, char ret_found[static CONDITION_FOUND_MAX])
{
	const struct candidate *candidate = userdata;
	const char *profile = candidate->gpu->n_instances > 0
		? profile_of(candidate->reports, candidate->gpu, &candidate->gpu->instances[0])
		: NULL;

	if (!profile)
		(void)strcpy(ret_found, "has no MIG instances");
	else if (*profile)
		(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has \"%.64s\"", profile);
	else
		(void)strcpy(ret_found,
			"has instances whose profile only NVIDIA's library knows: add a probe "
			"\"nvml\" to \"health\"");
}

#define STRINGS(k, name, value) \
	CONDITION_OF_STRING(k, struct nvidia_match, name, struct candidate, value)

static const struct condition conditions[] = {
	{ CONDITION_OF_INTEGERS("minor", struct nvidia_match, minors, struct candidate, minor),
		.found = found_minor },
	{ STRINGS("bdf", addresses, address) },
	{ STRINGS("model", models, model) },
	{ STRINGS("uuid", uuids, uuid) },
	{ .key = "mig", .test = test_mig, .found = found_mig },
	{ .key = "profile", .test = test_profile, .found = found_profile },
};

const struct conditions nvidia_conditions = CONDITIONS("NVIDIA GPU", conditions);

/* Whether the GPU is a candidate: not if it is excluded from its driver or only drives the display.
 */
static bool is_candidate(struct scan *scan, size_t entry, const struct nvidia_gpu *gpu)
{
	/* NVIDIA's name for a card that only drives the display. */
	bool display = strstr(gpu->model, "DGX Display");

	if (gpu->excluded)
		scan_hint(scan, entry, "%s is excluded from its driver (NVreg_ExcludedGpus)",
			gpu->address);
	if (display)
		scan_hint(scan, entry, "%s only drives the display", gpu->address);
	return !gpu->excluded && !display;
}

/* The GPU's id stays its address as long as it is assigned to a container under that name, also
 * after a boot, or if it was listed by its UUID before the driver was loaded again. */
static bool keeps_address(struct scan *scan, const struct nvidia_gpu *gpu)
{
	const struct device *by_uuid, *by_address;

	if (!*gpu->uuid || scan_is_booked(scan, gpu->address))
		return true;
	if (!scan_lists(scan, gpu->address, &by_address))
		return false;
	return by_address ? device_was_assigned(by_address)
			  : !scan_lists(scan, gpu->uuid, &by_uuid);
}

static void choose_gpu_id(
	struct scan *scan, const struct nvidia_gpu *gpu, char ret_id[static DEVICE_ID_MAX + 1])
{
	device_id_make(keeps_address(scan, gpu) ? gpu->address : gpu->uuid, ret_id);
}

/* The instance's own UUID, which only the library knows. Without it, GPU and numbers. */
static void make_instance_id(const struct nvidia_gpu *gpu, const struct nvidia_instance *instance,
	const char *uuid, char ret_id[static DEVICE_ID_MAX + 1])
{
	char text[96];

	if (*uuid)
		(void)snprintf(text, sizeof(text), "%s", uuid);
	else
		(void)snprintf(text, sizeof(text), "MIG-%s:%u:%u",
			*gpu->uuid ? gpu->uuid : gpu->address, instance->gi, instance->ci);
	device_id_make(text, ret_id);
}

/* --- nodes --- */

/* A node of the kernel driver, which user space makes. */
struct maker_node {
	const char *name;
	enum nvidia_node kind;
	unsigned minor;
	const char *maker; /* the command that makes it; NULL: the device may lack it */
};

/* Writes what is wrong with the number of a node, as a phrase; empty: nothing. */
static void check_number(const struct entry *entry, const struct maker_node *node, const char *host,
	char *ret_phrase, size_t size)
{
	unsigned major_number = entry->host->majors[node->kind];
	struct stat st;

	*ret_phrase = '\0';
	if (major_number == 0 || sysroot_stat(scan_root(entry->scan), host, &st) < 0 ||
		st.st_rdev == makedev(major_number, node->minor))
		return;
	(void)snprintf(ret_phrase, size, "has the number %u:%u, but the driver's is %u:%u",
		major(st.st_rdev), minor(st.st_rdev), major_number, node->minor);
}

static int add_node(struct entry *entry, struct device *device, const struct maker_node *node)
{
	char host[PATH_MAX], path[64], number[96] = "";
	enum node_state state;
	int r;

	(void)snprintf(path, sizeof(path), "/dev/%s", node->name);
	(void)snprintf(host, sizeof(host), "%s%s", entry->dev_root, path);
	r = node_state_read(scan_root(entry->scan), host, entry->scan, &state);
	if (r < 0)
		return r;
	if (node_state_is_usable(state, false))
		check_number(entry, node, host, number, sizeof(number));
	if (!node_state_is_usable(state, false) || *number)
		return !node->maker ? 0
				    : device_set_lack(device, "%s %s: %srun \"%s\"", host,
					      *number ? number : node_state_phrase(state),
					      *number ? "remove it and " : node_state_remedy(state),
					      node->maker);
	r = device_add_node(device, host, path, entry->match->permissions);
	if (r >= 0 && !node->maker)
		device->nodes[device->n_nodes - 1].optional = true;
	return r;
}

static int add_gpu_node(struct entry *entry, struct device *device, const struct nvidia_gpu *gpu)
{
	char name[32], maker[64];

	(void)snprintf(name, sizeof(name), "nvidia%u", gpu->minor);
	(void)snprintf(maker, sizeof(maker), "nvidia-modprobe -c %u", gpu->minor);
	return add_node(
		entry, device, &(struct maker_node){ name, NVIDIA_NODE_GPU, gpu->minor, maker });
}

/* The nodes that every container needs, with any GPU. */
static int add_common_nodes(struct entry *entry, struct device *device)
{
	static const struct maker_node nodes[] = {
		{ "nvidiactl", NVIDIA_NODE_GPU, 255, "nvidia-modprobe" },
		{ "nvidia-uvm", NVIDIA_NODE_UVM, 0, "nvidia-modprobe -u -c 0" },
		{ "nvidia-uvm-tools", NVIDIA_NODE_UVM, 1, NULL },
		{ "nvidia-modeset", NVIDIA_NODE_GPU, 254, NULL },
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(nodes) && r >= 0; i++)
		r = add_node(entry, device, &nodes[i]);
	return r;
}

/* `instance` is the directory's name below that of the GPU, "gi1/ci0". */
static int add_capability_node(struct entry *entry, struct device *device,
	const struct nvidia_gpu *gpu, const char *instance, unsigned number)
{
	char name[64], maker[128];

	(void)snprintf(name, sizeof(name), "nvidia-caps/nvidia-cap%u", number);
	(void)snprintf(maker, sizeof(maker),
		"nvidia-modprobe -f /proc/driver/nvidia/capabilities/gpu%u/mig/%s/access",
		gpu->minor, instance);
	return add_node(
		entry, device, &(struct maker_node){ name, NVIDIA_NODE_CAPABILITY, number, maker });
}

static int add_instance_node(struct entry *entry, struct device *device,
	const struct nvidia_gpu *gpu, const struct nvidia_instance *instance)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "gi%u/ci%u", instance->gi, instance->ci);
	return add_capability_node(entry, device, gpu, name, instance->ci_cap);
}

/* Instances of one GPU share it, and so do compute instances of one GPU instance. */
static int add_nodes_above(struct entry *entry, struct device *device, const struct nvidia_gpu *gpu,
	const struct nvidia_instance *instance)
{
	char name[32];
	int r;

	(void)snprintf(name, sizeof(name), "gi%u", instance->gi);
	r = add_capability_node(entry, device, gpu, name, instance->gi_cap);
	return r < 0 ? r : add_gpu_node(entry, device, gpu);
}

static int add_nodes(struct entry *entry, struct device *device, const struct nvidia_gpu *gpu,
	const struct nvidia_instance *instance)
{
	size_t own;
	int r = 0;

	/* The device's own nodes come first. */
	r = instance ? add_instance_node(entry, device, gpu, instance)
		     : add_gpu_node(entry, device, gpu);
	own = device->n_nodes;
	if (r >= 0 && instance)
		r = add_nodes_above(entry, device, gpu, instance);
	if (r >= 0)
		r = add_common_nodes(entry, device);
	if (r >= 0 && entry->match->libraries)
		r = nvidia_libraries_mount(
			entry->scan, &entry->libraries, entry->match->library_path, device);
	/* Keeps NVIDIA's runtime, if it is the default, from giving the container all GPUs because
	 * an image asks for that. */
	if (r >= 0)
		r = strings_add(&device->env, "NVIDIA_VISIBLE_DEVICES=void",
			strlen("NVIDIA_VISIBLE_DEVICES=void"));
	device_share_nodes(device, own);
	return r;
}

/* --- ways in --- */

#define CDI_REMEDY "run \"systemctl restart nvidia-cdi-refresh\" or \"nvidia-ctk cdi generate\""

/* A device that a file of CDI describes. */
struct described {
	const struct entry *entry;
	struct device *device;
	const char *file;
};

/* A library of another version fails in every program that loads it. */
static int on_cdi_source(enum cdi_source source, const char *path, void *userdata)
{
	const struct described *described = userdata;
	char version[NVIDIA_VERSION_SIZE];

	if (source != CDI_MOUNT || !nvidia_library_version(path, version) ||
		streq(version, described->entry->host->version) ||
		!*described->entry->host->version)
		return 0;
	return device_set_problem(described->device,
		"%s was made for another driver: the kernel driver is %s, but it mounts %s: " CDI_REMEDY,
		described->file, described->entry->host->version, strrchr(path, '/') + 1);
}

/* Why no file defines the name, unless a file is not valid or not known. */
static int set_undefined(const struct entry *entry, struct device *device, const char *name)
{
	const struct strings *cdi_dirs = &entry->declaration->container.cdi_dirs;
	const char *root = scan_root(entry->scan);
	struct stat st;

	if (cdi_dirs->count == 0 && *root && sysroot_is_absent(sysroot_stat(root, "/etc/cdi", &st)))
		return device_set_lack(device,
			"%s is not defined in /run/cdi, and host_root %s has no /etc/cdi: " REMEDY_MOUNT,
			name, root);
	return device_set_lack(device, "%s is in no file of %s: " CDI_REMEDY, name,
		cdi_dirs->count > 0 ? "container.cdi_dirs" : CDI_DIRECTORIES);
}

static int add_cdi_name(struct entry *entry, struct device *device, const char *uuid)
{
	struct described described = { .entry = entry, .device = device };
	const char *kind = entry->match->cdi_kind;
	struct cdi_definition definition;
	const struct cdi_files *files;
	char name[128];
	int r;

	(void)snprintf(name, sizeof(name), "%s=%s", kind, uuid);
	r = scan_cdi(entry->scan, entry->declaration, &files);
	if (r < 0)
		return r;
	cdi_files_find(files, kind, uuid, &definition);
	if (definition.status == CDI_UNDEFINED && !definition.file)
		return set_undefined(entry, device, name);
	if (definition.status == CDI_DEFINED) {
		described.file = definition.file->path;
		r = cdi_document_sources(
			definition.file->document, definition.device, on_cdi_source, &described);
	}
	/* The core checks what else a container needs. */
	return r < 0 ? r : strings_add(&device->cdi, name, strlen(name));
}

static int add_visible(struct device *device, const char *uuid)
{
	char text[96];
	int n = snprintf(text, sizeof(text), "NVIDIA_VISIBLE_DEVICES=%s", uuid);

	return strings_add(&device->env, text, (size_t)n);
}

static int expose(struct entry *entry, struct device *device, const struct nvidia_gpu *gpu,
	const struct nvidia_instance *instance, const char *uuid)
{
	if (entry->match->expose == NVIDIA_EXPOSE_NODES)
		return add_nodes(entry, device, gpu, instance);
	if (!*uuid && instance)
		return device_set_lack(device,
			"its UUID is not known: add a probe \"nvml\" to \"health\", because only "
			"NVIDIA's library knows it");
	if (!*uuid)
		return device_set_lack(device,
			"its UUID is not known before its first use: start nvidia-persistenced, or run nvidia-smi");
	return entry->match->expose == NVIDIA_EXPOSE_CDI ? add_cdi_name(entry, device, uuid)
							 : add_visible(device, uuid);
}

/* A library of another version fails in every program that loads it. */
static int check_versions(struct entry *entry, struct device *device)
{
	if (!entry->match->libraries || entry->match->expose != NVIDIA_EXPOSE_NODES ||
		!*entry->libraries.other)
		return 0;
	return device_set_problem(device,
		"the kernel driver is %s, but the libraries on the host are %s: load the new driver (stop the programs that use the GPUs, then \"modprobe -r nvidia-uvm nvidia; modprobe "
		"nvidia\"), or reboot the host",
		entry->host->version, entry->libraries.other);
}

/* --- devices --- */

static int add_number(struct device *device, const char *name, unsigned value)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%u", value);
	return device_add_variable(device, name, text);
}

static int add_identity(struct device *device, const struct nvidia_gpu *gpu,
	const struct nvidia_instance *instance, const char *uuid, const char *profile)
{
	int r = device_add_variable(device, "type", instance ? "mig" : "gpu");

	if (r >= 0 && *uuid)
		r = device_add_variable(device, "uuid", uuid);
	if (r >= 0 && *gpu->uuid)
		r = device_add_variable(device, "gpu_uuid", gpu->uuid);
	if (r >= 0 && instance && *gpu->uuid)
		r = device_add_variable(device, "parent_uuid", gpu->uuid);
	if (r >= 0)
		r = device_add_variable(device, "model", gpu->model);
	if (r >= 0)
		r = add_number(device, "minor", gpu->minor);
	if (r >= 0 && instance)
		r = add_number(device, "gi", instance->gi);
	if (r >= 0 && instance)
		r = add_number(device, "ci", instance->ci);
	if (r >= 0 && *profile)
		r = device_add_variable(device, "profile", profile);
	return r;
}

static int describe(struct entry *entry, struct device *device, const struct nvidia_gpu *gpu,
	const struct nvidia_instance *instance)
{
	char directory[64], claim[96];
	int r;

	(void)snprintf(directory, sizeof(directory), PCI_DEVICES "/%s", gpu->address);
	r = sysfs_describe(scan_root(entry->scan), directory, device);
	if (r < 0 && r != -ENOMEM)
		r = device_add_variable(device, "bdf", gpu->address);
	if (r >= 0)
		r = device_add_variable(device, "driver_version", entry->host->version);
	if (r >= 0 && instance) {
		(void)snprintf(claim, sizeof(claim), "nvidia:%s:%u:%u", gpu->address, instance->gi,
			instance->ci);
		r = device_add_claim(device, claim);
	}
	if (r >= 0)
		r = instance ? device_add_pci_container(device, gpu->address)
			     : device_add_pci_claim(device, gpu->address);
	if (r >= 0)
		r = check_versions(entry, device);
	device->part = instance != NULL;
	device->entry = entry->number;
	device->finding_period = gpu->period;
	return r < 0 ? r : nvidia_find(entry->reports, gpu, instance, device);
}

/* Without compute instances it is whole again only if it has left MIG mode, which the kernel driver
 * does not show. */
static int check_split(
	const struct entry *entry, const struct nvidia_gpu *gpu, struct device *device)
{
	bool asked = entry->reports->knowledge != NVIDIA_UNASKED, enabled;

	if (gpu->is_split)
		return device_set_problem(device,
			"its GPU instances have no compute instances: create some (nvidia-smi mig -cci)");
	if (!gpu->was_split || nvidia_mig_mode(entry->reports, gpu, &enabled))
		return 0;
	return device_set_problem(device,
		"its instances were removed, and only NVIDIA's library reports whether it is still in "
		"MIG mode: create instances, %s, or load the driver again",
		asked ? "make the library available" : "add a probe \"nvml\" to \"health\"");
}

/* Its name changes when its UUID is known, unless a container uses it. */
static int add_gpu(struct entry *entry, struct nvidia_gpu *gpu)
{
	char id[DEVICE_ID_MAX + 1], anchor[64];
	struct device *device;
	int r;

	choose_gpu_id(entry->scan, gpu, id);
	r = scan_add(entry->scan, id, &device);
	if (r < 0)
		return r == -EEXIST ? 0 : r;
	gpu->device = device;
	(void)snprintf(anchor, sizeof(anchor), GPUS "/%s", gpu->address);
	if (streq(id, gpu->address))
		r = device_set_mobile(device, anchor);
	if (r >= 0)
		r = describe(entry, device, gpu, NULL);
	if (r >= 0)
		r = check_split(entry, gpu, device);
	if (r >= 0)
		r = add_identity(device, gpu, NULL, gpu->uuid, "");
	if (r >= 0)
		r = nvidia_measure(entry->scan, entry->reports, gpu, NULL, device);
	return r < 0 ? r : expose(entry, device, gpu, NULL, gpu->uuid);
}

/* An instance is not offered under a name that it will not keep. */
static int explain_missing_uuid(const struct nvidia_reports *reports, struct device *device)
{
	if (reports->knowledge == NVIDIA_UNASKED)
		return 0;
	if (reports->knowledge != NVIDIA_KNOWN || *reports->trouble)
		return device_set_problem(device, "its UUID is not known: %s",
			*reports->trouble ? reports->trouble
					  : "devplugd-nvml has not answered yet");
	if (sysroot_is_absent(reports->monitor))
		return device_set_problem(device,
			"its UUID is not known: " NVIDIA_MONITOR " (MIG monitor) is missing: run "
			"\"nvidia-modprobe -f /proc/driver/nvidia/capabilities/mig/monitor\"");
	if (reports->monitor < 0)
		return device_set_problem(device,
			"its UUID is not known: " NVIDIA_MONITOR
			" (MIG monitor): %s; run \"systemctl "
			"restart devplugd\", or see DeviceAllow= in devplugd.service",
			strerror(-reports->monitor));
	return device_set_problem(
		device, "its UUID is not known: NVIDIA's library does not list it yet");
}

static int add_instance(
	struct entry *entry, const struct nvidia_gpu *gpu, struct nvidia_instance *instance)
{
	const struct device *report =
		nvidia_report_of_instance(entry->reports, gpu->address, instance);
	const char *profile = profile_of(entry->reports, gpu, instance);
	const char *uuid = report ? report->id : "";
	char id[DEVICE_ID_MAX + 1], anchor[96];
	struct device *device;
	int r;

	if (entry->match->profiles.count > 0 && !patterns_match(&entry->match->profiles, profile))
		return 0;
	make_instance_id(gpu, instance, uuid, id);
	r = scan_add(entry->scan, id, &device);
	if (r < 0)
		return r == -EEXIST ? 0 : r;
	instance->device = device;
	/* A container keeps it while the library cannot be asked for its name. */
	(void)snprintf(anchor, sizeof(anchor), INSTANCES, gpu->minor, instance->gi, instance->ci);
	r = *uuid ? device_set_mobile(device, anchor)
		  : explain_missing_uuid(entry->reports, device);
	if (r >= 0)
		r = describe(entry, device, gpu, instance);
	if (r >= 0)
		r = add_identity(device, gpu, instance, uuid, profile);
	if (r >= 0)
		r = nvidia_measure(entry->scan, entry->reports, gpu, instance, device);
	return r < 0 ? r : expose(entry, device, gpu, instance, uuid);
}

static int add_instances(struct entry *entry, struct nvidia_gpu *gpu)
{
	int r = 0;

	for (size_t i = 0; i < gpu->n_instances && r >= 0; i++)
		if (!gpu->instances[i].device)
			r = add_instance(entry, gpu, &gpu->instances[i]);
	return r;
}

static int add_wanted(struct entry *entry, struct nvidia_gpu *gpu)
{
	struct candidate candidate = { .gpu = gpu,
		.reports = entry->reports,
		.address = gpu->address,
		.uuid = gpu->uuid,
		.model = gpu->model,
		.minor = gpu->minor };

	if (!is_candidate(entry->scan, entry->number, gpu) ||
		conditions_hold(&nvidia_conditions, entry->match, &candidate, gpu->address,
			scan_tally(entry->scan, entry->number, &nvidia_conditions)) == 0)
		return 0;
	if (gpu->n_instances > 0) {
		scan_leave_out(entry->scan, gpu->address,
			"it has MIG instances, which are listed instead");
		return add_instances(entry, gpu);
	}
	return gpu->device ? 0 : add_gpu(entry, gpu);
}

/* A driver in a container makes the nodes in its own /dev. */
static int find_dev_root(struct entry *entry)
{
	static const char in_container[] = "/run/nvidia/driver";
	struct stat st;
	int r;

	entry->dev_root = entry->match->driver_root ?: in_container;
	r = scan_watch(entry->scan, "/dev");
	if (r >= 0)
		r = scan_watch(entry->scan, "/dev/nvidia-caps");
	if (r >= 0) {
		char path[PATH_MAX];

		(void)snprintf(path, sizeof(path), "%s/dev/nvidiactl", entry->dev_root);
		if (sysroot_stat(scan_root(entry->scan), "/dev/nvidiactl", &st) >= 0 ||
			sysroot_stat(scan_root(entry->scan), path, &st) < 0)
			entry->dev_root = "";
	}
	return r;
}

static int list_entry(struct entry *entry, struct nvidia_host *host)
{
	int r;

	r = find_dev_root(entry);
	if (r >= 0 && entry->match->expose == NVIDIA_EXPOSE_NODES && entry->match->libraries) {
		r = nvidia_libraries_find(
			entry->scan, entry->match->driver_root, host->version, &entry->libraries);
		if (r >= 0 && !entry->libraries.directory && !*entry->libraries.other)
			scan_note(entry->scan,
				"no libraries of NVIDIA's driver %s were found, so containers "
				"only get nodes: set \"driver_root\" to where it is installed, or "
				"\"libraries = false\" if images have them",
				host->version);
	}
	for (size_t i = 0; i < host->n_gpus && r >= 0; i++)
		r = add_wanted(entry, &host->gpus[i]);
	return r;
}

/* Sets distances only between whole GPUs, because instances of two GPUs cannot use links. */
static int add_distances(const struct nvidia_host *host, const struct nvidia_reports *reports)
{
	int r = 0;

	for (size_t i = 0; i < host->n_gpus; i++)
		for (size_t k = 0; k < host->n_gpus && r >= 0; k++) {
			const struct nvidia_gpu *from = &host->gpus[i], *to = &host->gpus[k];
			unsigned distance;

			if (i == k || !from->device || !to->device)
				continue;
			distance = nvidia_link_distance(reports, from->address, to->address);
			if (distance > 0)
				r = device_add_distance(from->device, to->device->id, distance);
		}
	return r;
}

int nvidia_list(const struct declaration *declaration, struct scan *scan, struct nvidia_host *host,
	const struct nvidia_reports *reports, struct error *error)
{
	int r = 0;

	if (host->n_gpus == 0)
		nvidia_explain_none(declaration, scan);
	for (size_t i = 0; i < declaration->match.count && host->n_gpus > 0 && r >= 0; i++) {
		struct entry entry = {
			.scan = scan,
			.match = groups_get(&declaration->match, i),
			.host = host,
			.reports = reports,
			.number = i,
			.declaration = declaration,
		};

		r = list_entry(&entry, host);
		nvidia_libraries_done(&entry.libraries);
	}
	if (r >= 0)
		r = add_distances(host, reports);
	return r < 0 ? error_set(error, r, "cannot list NVIDIA GPUs: %s", strerror(-r)) : 0;
}
