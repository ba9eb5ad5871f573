/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what files outside of a device's directory contain about it: drivers whose class has no
 * link to the PCI function list the device's node in /proc, or the function in an attribute. A
 * value that cannot be read is no value, never an empty one, so a device does not get another's
 * node.
 */
#include "drivers/host/device-values.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/declaration.h"
#include "drivers/model/form.h"
#include "drivers/model/template.h"
#include "drivers/sysfs-class/sysfs-driver.h"

#include "common/text.h"

/* What is read of a file. */
#define VALUE_FILE_MAX 65536

#define VALUE_PREFIX "value:"

int candidate_expand(const struct candidates *candidates, const struct device *device,
	const char *template, char **ret, struct error *error)
{
	struct device_values values = {
		.root = scan_root(candidates->scan),
		.device = device,
	};
	struct template_context context = {
		.name = candidates->declaration->name,
		.device_value = device_values_get,
		.userdata = &values,
	};

	int r = template_expand(template, &context, ret, error);

	return r < 0 && values.busy ? -EBUSY : r;
}

/* What follows the beginning of one of the lines of a text, which is cut into lines; or NULL. */
static char *find_line(char *text, const char *beginning)
{
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n"))) {
		line = text_trim(line);
		if (startswith(line, beginning))
			return text_trim(line + strlen(beginning));
	}
	return NULL;
}

/* Returns 0, -ENOENT with the error filled, or a shortage (sysroot.h). */
static int read_value(const struct candidates *candidates, const struct sysfs_value *value,
	const struct device *device, char ret_value[static SYSFS_VALUE_MAX + 1],
	struct error *error)
{
	_cleanup_free_ char *path = NULL, *content = malloc(VALUE_FILE_MAX);
	const char *found;
	ssize_t n;
	int r;

	if (!content)
		return -ENOMEM;
	r = candidate_expand(candidates, device, value->file, &path, error);
	if (r < 0)
		return r;
	n = sysroot_read(scan_root(candidates->scan), path, content, VALUE_FILE_MAX);
	if (n < 0 && sysroot_is_shortage((int)n))
		return (int)n;
	if (n < 0)
		return error_set(error, -ENOENT, "%s %s%s", path,
			sysroot_is_absent((int)n) ? "is missing" : "cannot be read: ",
			sysroot_is_absent((int)n) ? "" : strerror((int)-n));
	found = value->line ? find_line(content, value->line) : text_trim(content);
	if (!found)
		return error_set(error, -ENOENT, "%s has no line \"%s\"", path, value->line);
	if (!*found || sysfs_copy_value(found, ret_value) < 0)
		return error_set(error, -ENOENT, "%s has no valid value%s%s", path,
			value->line ? " behind " : "", value->line ?: "");
	return 0;
}

static int add_values(
	const struct candidates *candidates, const struct sysfs_match *match, struct device *device)
{
	for (size_t i = 0; i < match->values.count; i++) {
		const struct sysfs_value *value = groups_get(&match->values, i);
		char text[SYSFS_VALUE_MAX + 1], name[sizeof(VALUE_PREFIX) + 64];
		struct error error;
		int r;

		r = read_value(candidates, value, device, text, &error);
		if (r == -ENOENT)
			continue;
		if (r < 0)
			return r;
		(void)snprintf(name, sizeof(name), VALUE_PREFIX "%.63s", value->name);
		r = device_add_variable(device, name, text);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_function(
	const struct candidates *candidates, const struct sysfs_match *match, struct device *device)
{
	char directory[sizeof("/sys/bus/pci/devices/") + PCI_ADDRESS_SIZE];
	_cleanup_free_ char *address = NULL;
	struct error error;
	int r;

	if (!match->function || device_variable(device, "bdf"))
		return 0;
	r = candidate_expand(candidates, device, match->function, &address, &error);
	if (r == -ENOENT || (r >= 0 && !form_is_pci_address(address)))
		return 0;
	if (r >= 0)
		r = device_add_variable(device, "bdf", address);
	if (r < 0)
		return r;
	(void)snprintf(directory, sizeof(directory), "/sys/bus/pci/devices/%s", address);
	return sysfs_add_numa(scan_root(candidates->scan), directory, device);
}

int candidate_add_values(
	const struct candidates *candidates, const struct sysfs_match *match, struct device *device)
{
	int r = add_function(candidates, match, device);

	return r < 0 ? r : add_values(candidates, match, device);
}

void candidate_explain_value(const struct candidates *candidates, const struct sysfs_match *match,
	const struct device *device, const char *template, struct error *error)
{
	for (size_t i = 0; i < match->values.count; i++) {
		const struct sysfs_value *value = groups_get(&match->values, i);
		char text[SYSFS_VALUE_MAX + 1], variable[sizeof("${" VALUE_PREFIX "}") + 64];

		(void)snprintf(variable, sizeof(variable), "${" VALUE_PREFIX "%.63s}", value->name);
		if (!strstr(template, variable))
			continue;
		(void)read_value(candidates, value, device, text, error);
		return;
	}
}
