/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides the id of a device that has no permanent name, from its location. The path below
 * /sys/devices is read from the top. Each device on the way adds a part that differs from its
 * siblings'; a device with a permanent name (a PCI address) restarts the name.
 */
#include "drivers/host/identity.h"
#include "drivers/model/form.h"

#include <ctype.h>

#include "drivers/host/sysfs-walk.h"

/* More siblings than any controller has; beyond, counting them for each would take too long. */
#define SIBLINGS_MAX 1024

struct path_state {
	const char *root;
	char text[IDENTITY_MAX + 1];
	char hub[IDENTITY_MAX + 1]; /* of USB: controller and root hub */
	char parent[NAME_MAX + 1];  /* the kernel's name of the device above */
	bool is_virtual;
};

/* Appends as much as fits; a name that long is no longer readable, so its tail is cut. */
_printf_(2, 3) static void append(struct path_state *state, const char *format, ...)
{
	size_t length = strlen(state->text);
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(state->text + length, sizeof(state->text) - length, format, ap);
	va_end(ap);
}

/* Length of the name without the number at its end ("wq0.1", "controlC0"). */
static size_t head_length(const char *name)
{
	size_t length = strlen(name);

	while (length > 0 && strchr("0123456789.:", name[length - 1]))
		length--;
	return length;
}

static bool is_alike(const char *a, const char *b)
{
	size_t length = head_length(a);

	/* Names without a number ("sda") share nothing else. */
	if (!a[length])
		return !b[head_length(b)];
	return length == head_length(b) && b[length] && strncmp(a, b, length) == 0;
}

/* How many devices like this one come before it in its directory. */
static int position_of(
	const char *root, const char *directory, const char *name, size_t *ret_position)
{
	_cleanup_strings_ struct strings names = { 0 };
	size_t position = 0;
	int r;

	r = sysfs_list_directories(root, directory, &names);
	if (r < 0)
		return r;
	if (names.count > SIBLINGS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < names.count && !streq(names.items[i], name); i++) {
		_cleanup_free_ char *path = NULL;

		if (!is_alike(name, names.items[i]))
			continue;
		if (format_text(&path, "%s/%s", directory, names.items[i]) < 0)
			return -ENOMEM;
		if (sysfs_is_device(root, path))
			position++;
	}
	*ret_position = position;
	return 0;
}

static bool is_root_hub(const char *name)
{
	const char *number = startswith(name, "usb");

	return number && *number && number[strspn(number, "0123456789")] == '\0';
}

/* "1-1.4" */
static const char *usb_ports(const char *name)
{
	size_t bus = strspn(name, "0123456789");

	if (bus == 0 || name[bus] != '-' || !isdigit((unsigned char)name[bus + 1]))
		return NULL;
	return name[bus + 1 + strspn(name + bus + 1, "0123456789.")] ? NULL : name + bus + 1;
}

static void add_usb(struct path_state *state, const char *directory, const char *name)
{
	const char *ports = usb_ports(name), *interface = strchr(name, ':');
	size_t position = 0;

	if (is_root_hub(name)) {
		(void)position_of(state->root, directory, name, &position);
		append(state, "-%zu", position);
		(void)snprintf(state->hub, sizeof(state->hub), "%s", state->text);
		return;
	}
	if (ports) {
		state->text[0] = '\0';
		append(state, "usb-%s:%s", state->hub, ports);
	} else
		append(state, "%s%s", interface ? "" : ":", interface ?: name);
}

static void add_other(
	struct path_state *state, const char *directory, const char *name, const char *subsystem)
{
	const char *rest = startswith(name, state->parent);
	size_t position, head = head_length(name);

	if (!*state->text)
		append(state, "%s", name);
	else if (*state->parent && rest)
		/* Adds nothing for the ttyUSB0 of a class below the ttyUSB0 of a bus. */
		append(state, "%s%s", strchr(":.-", *rest) ? "" : ":", rest);
	else if (position_of(state->root, directory, name, &position) < 0)
		append(state, ":%s", name);
	else if (name[head] && head > 0)
		append(state, ":%.*s.%zu", (int)head, name, position);
	else
		append(state, ":%s.%zu", subsystem, position);
}

/* Adds one more directory: `path` is cut behind `name`. */
static void add_component(
	struct path_state *state, const char *path, const char *directory, const char *name)
{
	char subsystem[NAME_MAX + 1];

	if (sysfs_read_link(state->root, path, "subsystem", subsystem) < 0)
		return;
	if (form_is_pci_address(name))
		(void)snprintf(state->text, sizeof(state->text), "%s", name);
	else if (streq(subsystem, "usb"))
		add_usb(state, directory, name);
	else if (state->is_virtual && !*state->text)
		append(state, "%s:%s", subsystem, name);
	else
		add_other(state, directory, name, subsystem);
	if (strlen(name) <= NAME_MAX)
		(void)strcpy(state->parent, name);
}

static int build(const char *root, const char *directory, struct path_state *state)
{
	static const char top[] = "/sys/devices/";
	_cleanup_free_ char *path = strdup(directory), *parent = strdup(directory);
	size_t end;

	if (!path || !parent)
		return -ENOMEM;
	if (!startswith(directory, top))
		return -EXDEV;
	state->root = root;
	state->is_virtual = startswith(directory, "/sys/devices/virtual/") != NULL;
	for (size_t begin = strlen(top); directory[begin]; begin = end + !!directory[end]) {
		end = begin + strcspn(directory + begin, "/");
		memcpy(path, directory, end);
		path[end] = '\0';
		memcpy(parent, directory, begin - 1);
		parent[begin - 1] = '\0';
		add_component(state, path, parent, path + begin);
	}
	return 0;
}

int identity_of(const char *root, const char *directory, char ret_identity[static IDENTITY_MAX + 1])
{
	struct path_state state = { 0 };
	int r;

	r = build(root, directory, &state);
	if (r < 0)
		return r;
	(void)stpcpy(ret_identity, *state.text ? state.text : strrchr(directory, '/') + 1);
	return 0;
}

int identity_usb_port(
	const char *root, const char *directory, char ret_port[static IDENTITY_MAX + 1])
{
	char identity[IDENTITY_MAX + 1];
	const char *port;
	int r;

	if (!usb_ports(strrchr(directory, '/') + 1))
		return -ENOENT;
	r = identity_of(root, directory, identity);
	if (r < 0)
		return r;
	port = startswith(identity, "usb-");
	if (!port || !*port)
		return -ENOENT;
	(void)stpcpy(ret_port, port);
	return 0;
}
