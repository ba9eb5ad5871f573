/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what else an interface needs to get into a pod, such as a CNI plugin
 * (docs/networking.md). The files are read here and not in the daemon, because they do not change
 * what the kubelet is offered.
 */
#include "supervisor/ctl/network-path.h"

#include <inttypes.h>

#include "configuration/config.h"
#include "drivers/host/sysfs.h"
#include "drivers/host/sysroot.h"

#define INTERFACES "/sys/class/net"

static const char *const plugin_directories[] = { "/opt/cni/bin", "/usr/lib/cni",
	"/usr/libexec/cni" };
static const char *const plugins[] = { "host-device", "sriov" };

/* The name of a file of device information: slashes become dashes, as CNI's readers have it. */
static bool has_information(const char *directory, const char *resource, const char *id)
{
	char name[NAME_MAX + 1], path[PATH_MAX];

	if (snprintf(name, sizeof(name), "%s-%s-device.json", resource, id) >= (int)sizeof(name))
		return false;
	for (char *p = name; *p; p++)
		if (*p == '/')
			*p = '-';
	return snprintf(path, sizeof(path), "%s/%s", directory, name) < (int)sizeof(path) &&
		access(path, F_OK) == 0;
}

/* Only functions of the PCI bus have any for certain. */
static void explain_information(const json_t *resource, const char *directory)
{
	const json_t *devices = json_object_get(resource, "devices");
	size_t wanted = 0, found = 0;

	for (size_t i = 0; i < json_array_size(devices); i++) {
		const json_t *device = json_array_get(devices, i);
		const char *id = text_of(device, "id");

		if (!form_is_pci_address(id) || streq(text_of(device, "health"), "Claimed"))
			continue;
		wanted++;
		found += has_information(directory, text_of(resource, "name"), id);
	}
	if (wanted == 0)
		return;
	(void)printf(
		"Device information for CNI: %zu of %zu files in %s.\n", found, wanted, directory);
	if (found < wanted)
		(void)puts("devplugd writes a file for each function that is present, before it "
			   "offers the device; see its log.");
}

static void explain_plugins(const char *root)
{
	bool any = false;

	for (size_t i = 0; i < ARRAY_SIZE(plugins); i++)
		for (size_t k = 0; k < ARRAY_SIZE(plugin_directories); k++) {
			char path[64];
			struct stat st;

			(void)snprintf(
				path, sizeof(path), "%s/%s", plugin_directories[k], plugins[i]);
			if (sysroot_stat(root, path, &st) < 0 || !(st.st_mode & 0111))
				continue;
			(void)printf(
				"%s%s", any ? ", " : "CNI plugins that move interfaces: ", path);
			any = true;
		}
	if (any)
		(void)puts(".");
	else
		(void)puts("No CNI plugin that moves interfaces (host-device, sriov) is in "
			   "/opt/cni/bin, /usr/lib/cni or /usr/libexec/cni: install "
			   "containernetworking-plugins or sriov-cni.");
}

/* Ports that could have virtual functions and have none. */
static void explain_functions(const char *root)
{
	_cleanup_strings_ struct strings names = { 0 };

	if (sysfs_list(root, INTERFACES, &names) < 0)
		return;
	for (size_t i = 0; i < names.count; i++) {
		char directory[sizeof(INTERFACES) + NAME_MAX + sizeof("//device")];
		int64_t most;

		(void)snprintf(
			directory, sizeof(directory), INTERFACES "/%s/device", names.items[i]);
		if (sysfs_read_number(root, directory, "sriov_totalvfs", &most) >= 0 && most > 0 &&
			!sysfs_has_vfs(root, directory))
			(void)printf("%s can have %" PRId64
				     " virtual functions and has none: a unit "
				     "such as sriov-vfs@%s.service makes them.\n",
				names.items[i], most, names.items[i]);
	}
}

void network_path_explain(const json_t *resource, const struct request *request)
{
	_cleanup_report_ struct report report = { 0 };
	struct config *config = NULL;
	const char *root;

	if (!streq(text_of(resource, "driver"), "net") ||
		config_load(request->config_file ?: DEFAULT_CONFIG_FILE, &report, &config) < 0)
		return;
	root = streq(config->host_root, "/") ? "" : config->host_root;
	if (snapshot_integer(resource, "devices_total") == 0)
		explain_functions(root);
	explain_information(resource, config->device_info_dir);
	explain_plugins(root);
	(void)config_free(config);
}
