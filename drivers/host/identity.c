/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides the id of a device that has no permanent name, from its location. The path below
 * /sys/devices is read from the top. Each device on the way adds a part that differs from its
 * siblings'; a device with a permanent name (a PCI address) restarts the name. A number that the
 * kernel assigns in the order of discovery is never part of it: it is replaced by what the device
 * has of its own, or by the position among its siblings.
 */
#include "drivers/host/identity.h"
#include "drivers/model/form.h"

#include <ctype.h>

#include "common/text.h"
#include "drivers/host/sysfs-walk.h"

#define VIRTUAL "/sys/devices/virtual/"

/* More siblings than any controller has; beyond, counting them for each would take too long. */
#define SIBLINGS_MAX 1024

struct path_state {
	const char *root;
	char text[IDENTITY_MAX + 1];
	char hub[IDENTITY_MAX + 1]; /* of USB: controller and root hub */
	char parent[NAME_MAX + 1];  /* the kernel's name of the device above */
	bool is_virtual;
	bool has_target; /* the text names the port of a disk, so only its unit is missing */
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

/* Length of the name without the number at its end ("wq0.1", "controlC0", "iTCO_wdt.1.auto"). */
static size_t head_length(const char *name)
{
	static const char automatic[] = ".auto";
	size_t length = strlen(name), tail = strlen(automatic);

	if (length > tail && streq(name + length - tail, automatic))
		length -= tail;
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
	return text_is_number(startswith(name, "usb"));
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

/* --- names with a number of the kernel inside --- */

/* Names of the form "BEFORE NUMBER AFTER REST" (without spaces). What follows the number is
 * permanent, or known from elsewhere. */
struct numbered_name {
	const char *subsystem, *before;
	char after;
	bool drop;        /* the rest, too */
	const char *kind; /* differs from that of others with the same rest; NULL: none has it */
};
static const struct numbered_name numbered[] = {
	{ "i2c", "", '-', false, NULL },       /* 1-0068: bus, address */
	{ "scsi", "", ':', false, NULL },      /* 0:0:2:1: host, channel, target, unit */
	{ "scsi", "target", ':', true, NULL }, /* the unit below repeats it */
	{ "mmc", "mmc", ':', true, NULL }, /* mmc0:0a1e: the card gets a new address each time */
	{ "block", "nvme", 'n', false, NULL },       /* nvme0n1 */
	{ "nvme-generic", "ng", 'n', false, "ng" },  /* the same */
	{ "hdaudio", "hdaudioC", 'D', false, NULL }, /* card, codec */
	{ "sound", "hwC", 'D', false, NULL },        /* card, device */
	{ "sound", "midiC", 'D', false, "midi" },    /* the same */
	{ "sound", "pcmC", 'D', false, NULL },       /* the same */
};

/* What is permanent of such a name, perhaps nothing; NULL: the name is none of these. */
static const char *rest_of(const char *subsystem, const char *name, const char **ret_kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(numbered); i++) {
		const char *number = startswith(name, numbered[i].before);
		size_t length = number ? strspn(number, "0123456789") : 0;

		if (length == 0 || number[length] != numbered[i].after ||
			!streq(subsystem, numbered[i].subsystem))
			continue;
		*ret_kind = numbered[i].kind;
		return numbered[i].drop ? "" : number + length + strspn(number + length, ":-");
	}
	return NULL;
}

/* Buses whose devices the firmware names. */
static bool is_named_by_firmware(const char *subsystem)
{
	return streq(subsystem, "platform") || streq(subsystem, "acpi") || streq(subsystem, "amba");
}

/* "fe804000.i2c" of a device tree, "MSFT0101:00" of ACPI: unique on its bus. */
static bool is_firmware_address(const char *name)
{
	size_t length = strspn(name, "0123456789abcdef");

	if (length >= 4 && name[length] == '.' && isalpha((unsigned char)name[length + 1]))
		return true;
	length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
	return (length == 7 || length == 8) && name[length] == ':' && strlen(name + length) == 3 &&
		isxdigit((unsigned char)name[length + 1]) &&
		isxdigit((unsigned char)name[length + 2]);
}

/* "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001": a mediated device, or one of a hypervisor's bus. */
static bool is_uuid(const char *name)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	if (strlen(name) != strlen(form))
		return false;
	for (size_t i = 0; form[i]; i++)
		if (form[i] == '-' ? name[i] != '-' : !isxdigit((unsigned char)name[i]))
			return false;
	return true;
}

/* Whether `rest`, which follows the parent's name in the device's, is not the end of a number. */
static bool is_suffix(const char *parent, const char *rest)
{
	size_t length = strlen(parent);

	return length > 0 &&
		!(isdigit((unsigned char)parent[length - 1]) && isdigit((unsigned char)*rest));
}

/* Adds the position among devices alike: ":ttyUSB.0", or ":block.0" for "sda". */
static void add_position(
	struct path_state *state, const char *directory, const char *name, const char *subsystem)
{
	const char *colon = *state->text ? ":" : "";
	size_t position, head = head_length(name);

	if (position_of(state->root, directory, name, &position) < 0)
		append(state, "%s%s", colon, name);
	else if (name[head] && head > 0)
		append(state, "%s%.*s.%zu", colon,
			(int)(head - (head > 1 && name[head - 1] == '-')), name, position);
	else if (is_named_by_firmware(subsystem))
		append(state, "%s%s", colon, name);
	else
		append(state, "%s%s.%zu", colon, subsystem, position);
}

/* The last number of a disk's, the others being those of its port. */
static const char *unit_of(const char *numbers)
{
	const char *colon = strrchr(numbers, ':');

	return colon ? colon + 1 : numbers;
}

static void add_other(
	struct path_state *state, const char *directory, const char *name, const char *subsystem)
{
	const char *kind = NULL, *rest = rest_of(subsystem, name, &kind);
	const char *suffix = startswith(name, state->parent);

	if (!*state->text && !streq(subsystem, "i2c") && !streq(subsystem, "scsi"))
		append(state, "%s", name);
	else if (*state->text && rest && !*rest)
		return;
	else if (*state->text && suffix && is_suffix(state->parent, suffix))
		/* Adds nothing for the ttyUSB0 of a class below the ttyUSB0 of a bus. */
		append(state, "%s%s", strchr(":.-", *suffix) ? "" : ":", suffix);
	else if (*state->text && rest)
		append(state, ":%s%s%s", kind ?: "", kind ? ":" : "",
			state->has_target ? unit_of(rest) : rest);
	else
		add_position(state, directory, name, subsystem);
}

/* --- devices without a subsystem --- */

/* Ports of storage, and where they have a permanent name; without one, they have positions. */
static const struct {
	const char *name, *class, *file;
} ports[] = {
	{ "ata", NULL, NULL },
	{ "end_device-", "sas_device", "sas_address" },
	{ "rport-", "fc_remote_ports", "port_name" },
	{ "session", "iscsi_session", "targetname" },
};

static void add_port(
	struct path_state *state, const char *path, const char *directory, const char *name)
{
	char class[NAME_MAX + 1], value[SYSFS_VALUE_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(ports); i++) {
		const char *number = startswith(name, ports[i].name);

		if (!number || !isdigit((unsigned char)*number) || !*state->text ||
			!sysfs_is_device(state->root, path))
			continue;
		if (!ports[i].class) {
			add_position(state, directory, name, "port");
			return;
		}
		if (snprintf(class, sizeof(class), "%s/%s/%s", ports[i].class, name,
			    ports[i].file) >= (int)sizeof(class) ||
			sysfs_read(state->root, path, class, value) < 0 || !*value)
			return;
		append(state, ":%s", value);
		state->has_target = true;
	}
}

/* A subsystem of NVMe that several controllers lead to is called after itself. */
static bool add_nvme_subsystem(struct path_state *state, const char *path)
{
	char name[SYSFS_VALUE_MAX + 1];

	if (sysfs_read(state->root, path, "subsysnqn", name) < 0 || !*name)
		return false;
	append(state, "%s", name);
	return true;
}

/* Adds one more directory: `path` is cut behind `name`. */
static void add_component(
	struct path_state *state, const char *path, const char *directory, const char *name)
{
	char subsystem[NAME_MAX + 1];

	if (sysfs_read_link(state->root, path, "subsystem", subsystem) < 0) {
		add_port(state, path, directory, name);
		return;
	}
	if (form_is_pci_address(name) || is_uuid(name) ||
		(is_named_by_firmware(subsystem) && is_firmware_address(name)))
		(void)snprintf(state->text, sizeof(state->text), "%s", name);
	else if (streq(subsystem, "usb"))
		add_usb(state, directory, name);
	else if (state->is_virtual && !*state->text) {
		if (!streq(subsystem, "nvme-subsystem") || !add_nvme_subsystem(state, path))
			append(state, "%s:%s", subsystem, name);
	} else
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
	state->is_virtual = startswith(directory, VIRTUAL) != NULL;
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

bool identity_is_numbered(const char *directory, const char *identity)
{
	const char *place = startswith(directory, VIRTUAL);
	const char *name = place ? strchr(place, '/') : NULL;
	size_t head, length;

	if (!name)
		return false;
	head = (size_t)(name++ - place);
	length = strcspn(name, "/");
	return length > 0 && isdigit((unsigned char)name[length - 1]) &&
		strncmp(identity, place, head) == 0 && identity[head] == ':' &&
		strncmp(identity + head + 1, name, length) == 0;
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
