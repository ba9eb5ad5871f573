/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every preset that is shipped, on a tree with its hardware and with similar hardware that it must
 * not match.
 */
#include "sysfs-fixture.h"

#include "configuration/preset.h"

#define ENTRIES_MAX 40

#define SLOT(address) "pci0000:00/" address " : bus/pci"

#define HUB "pci0000:00/0000:00:14.0/usb1"
/* A USB device with one interface, whose kind is that of others. */
#define USB_DEVICE(port, product)                                                           \
	HUB "/1-" #port " : bus/usb", "/sys/devices/" HUB "/1-" #port "/idVendor = 1a86\n", \
		"/sys/devices/" HUB "/1-" #port "/idProduct = " product "\n",               \
		"/sys/devices/" HUB "/1-" #port "/bDeviceClass = 00\n",                     \
		"/sys/devices/" HUB "/1-" #port "/busnum = 1\n",                            \
		"/sys/devices/" HUB "/1-" #port "/devnum = " #port "\n",                    \
		HUB "/1-" #port "/1-" #port ":1.0 : bus/usb"
#define USB_CHILD(port, rest) HUB "/1-" #port "/1-" #port ":1.0/" rest

/* Devices have other numbers than in their ids: the kernel counts in the order of discovery. */
static const struct {
	const char *preset;
	/* "PATH" is a node, "PATH = TEXT" a file, "DIRECTORY : SUBSYSTEM NODE" a device in
	 * /sys/devices and its node in /dev, which it may lack. */
	const char *host[ENTRIES_MAX];
	const char *ids; /* what is found, each with a space behind it */
} cases[] = {
	{ "fuse", { "/dev/fuse" }, "fuse " },
	{ "gpio",
		{ "platform/soc : bus/platform", "platform/soc/fe200000.gpio : bus/platform",
			"platform/soc/fe200000.gpio/gpiochip4 : bus/gpio gpiochip4",
			"platform/soc/fe200000.gpio/gpio/gpiochip512 : class/gpio",
			"/sys/class/gpio/export = ", "platform/INT33FF:01 : bus/platform",
			"platform/INT33FF:01/gpiochip0 : bus/gpio gpiochip0", "/dev/gpiomem" },
		"INT33FF:01:gpiochip.0 fe200000.gpio:gpiochip.0 " },
	{ "hwrng", { "/dev/hwrng" }, "hwrng " },
	{ "i2c",
		{ SLOT("0000:00:1f.4"), "pci0000:00/0000:00:1f.4/i2c-3 : bus/i2c",
			"pci0000:00/0000:00:1f.4/i2c-3/i2c-dev/i2c-3 : class/i2c-dev i2c-3",
			"i2c-10 : bus/i2c", "i2c-10/i2c-dev/i2c-10 : class/i2c-dev i2c-10" },
		"0000:00:1f.4:i2c.0 i2c.0 " },
	{ "kvm", { "/dev/kvm" }, "kvm " },
	{ "loop", { "/dev/loop-control", "/dev/loop0", "/dev/loop7" }, "loop0 loop7 " },
	{ "ptp",
		{ SLOT("0000:00:03.0"), SLOT("0000:00:03.1"),
			"pci0000:00/0000:00:03.1/ptp/ptp0 : class/ptp ptp0",
			"pci0000:00/0000:00:03.0/ptp/ptp2 : class/ptp ptp2",
			"virtual/ptp/ptp1 : class/ptp ptp1",
			"/sys/devices/virtual/ptp/ptp1/clock_name = KVM\n", "/dev/ptp_kvm" },
		"ptp-KVM 0000:00:03.1:ptp.0 0000:00:03.0:ptp.0 " },
	{ "rtc", { "pnp0/00:03 : bus/pnp", "pnp0/00:03/rtc/rtc1 : class/rtc rtc1", "/dev/rtc" },
		"00:03:rtc.0 " },
	{ "serial",
		{ SLOT("0000:00:14.0"), HUB " : bus/usb", USB_DEVICE(1, "7523"),
			USB_CHILD(1, "ttyUSB1/tty/ttyUSB1 : class/tty ttyUSB1"),
			USB_DEVICE(2, "7523"),
			USB_CHILD(2, "ttyUSB0/tty/ttyUSB0 : class/tty ttyUSB0"),
			USB_DEVICE(3, "0001"),
			USB_CHILD(3, "input/input7/event7 : class/input event7"),
			"pnp0/00:04 : bus/pnp", "pnp0/00:04/tty/ttyS0 : class/tty ttyS0" },
		"usb-0000:00:14.0-0:1 usb-0000:00:14.0-0:2 " },
	{ "sgx-enclave", { "/dev/sgx_enclave", "/dev/sgx_provision", "/dev/sgx_vepc" },
		"sgx_enclave " },
	{ "sgx-provision", { "/dev/sgx_enclave", "/dev/sgx_provision" }, "sgx_provision " },
	{ "snd", { "/dev/snd/controlC0", "/dev/snd/pcmC0D0p" }, "snd " },
	{ "socketcan", { "/sys/class/net/can0/type = 280", "/sys/class/net/eth0/type = 1" },
		"can0 " },
	{ "spi",
		{ "platform/fe204000.spi : bus/platform",
			"platform/fe204000.spi/spi_master/spi2 : class/spi_master",
			"platform/fe204000.spi/spi_master/spi2/spi2.0 : bus/spi",
			"platform/fe204000.spi/spi_master/spi2/spi2.0/spidev/spidev2.0 : class/spidev spidev2.0",
			"platform/fe204000.spi/spi_master/spi2/spi2.1 : bus/spi",
			"platform/fe204000.spi/spi_master/spi2/spi2.1/spidev/spidev2.1 : class/spidev spidev2.1" },
		"fe204000.spi:spi.0.0:spidev.0 fe204000.spi:spi.0.1:spidev.0 " },
	{ "tpm",
		{ "platform/MSFT0101:00 : bus/platform",
			"platform/MSFT0101:00/tpm/tpm0 : class/tpm tpm0",
			"platform/MSFT0101:00/tpmrm/tpmrm1 : class/tpmrm tpmrm1",
			"virtual/tpmrm/tpmrm0 : class/tpmrm tpmrm0" },
		"MSFT0101:00:tpmrm.0 " },
	{ "tun", { "/dev/net/tun" }, "net:tun " },
	{ "uinput", { "/dev/uinput" }, "uinput " },
	{ "vhost-net", { "/dev/vhost-net" }, "vhost-net " },
	{ "vhost-vsock", { "/dev/vhost-vsock" }, "vhost-vsock " },
	{ "video",
		{ SLOT("0000:00:14.0"), HUB " : bus/usb", USB_DEVICE(1, "0825"),
			USB_CHILD(1, "video4linux/video2 : class/video4linux video2"),
			USB_CHILD(1, "video4linux/video3 : class/video4linux video3"),
			USB_DEVICE(2, "0825"),
			USB_CHILD(2, "video4linux/video0 : class/video4linux video0"),
			USB_DEVICE(3, "7523"),
			USB_CHILD(3, "ttyUSB0/tty/ttyUSB0 : class/tty ttyUSB0"),
			"platform/vivid.0 : bus/platform",
			"platform/vivid.0/video4linux/video4 : class/video4linux video4" },
		"usb-0000:00:14.0-0:1 usb-0000:00:14.0-0:2 " },
	{ "watchdog",
		{ SLOT("0000:00:05.0"), "/dev/watchdog",
			"pci0000:00/0000:00:05.0/watchdog/watchdog2 : class/watchdog watchdog2",
			"virtual/watchdog/watchdog0 : class/watchdog watchdog0",
			"/sys/devices/virtual/watchdog/watchdog0/identity = Software Watchdog\n",
			SLOT("0000:00:1f.0"),
			"pci0000:00/0000:00:1f.0/iTCO_wdt.1.auto : bus/platform",
			"pci0000:00/0000:00:1f.0/iTCO_wdt.1.auto/watchdog/watchdog1 : class/watchdog watchdog1" },
		"watchdog-Software-Watchdog-7d7df968a8b8 0000:00:1f.0:iTCO_wdt.0:watchdog.0 "
		"0000:00:05.0:watchdog.0 " },
};

/* "DIRECTORY : SUBSYSTEM NODE" */
static void make_device(const char *entry)
{
	char directory[256], subsystem[64], node[64] = "";

	assert_true(sscanf(entry, "%255s : %63s %63s", directory, subsystem, node) >= 2);
	sys_device(directory, subsystem, *node ? made("DEVNAME=%s\n", node) : "");
	if (!*node)
		return;
	sys_write(directory, "dev", "1:1\n");
	host_mknod(made("/dev/%s", node));
}

static void make_entry(const char *entry)
{
	const char *text = strstr(entry, " = ");
	int length = (int)(text ? (size_t)(text - entry) : strlen(entry));
	char path[256], directory[256];

	if (strstr(entry, " : ")) {
		make_device(entry);
		return;
	}
	(void)snprintf(path, sizeof(path), "%.*s", length, entry);
	(void)snprintf(
		directory, sizeof(directory), "%.*s", (int)(strrchr(path, '/') - path), path);
	host_mkdir(directory);
	if (text)
		host_write(path, text + 3);
	else
		host_mknod(path);
}

static void scan_devices(const struct config *declared, struct scan *devices)
{
	struct error error;

	devices->root = host_root;
	if (declaration_of(declared)->driver->list(declaration_of(declared), devices, &error) < 0)
		fail_msg("%s", error.message);
}

static struct config *declare_preset(const char *preset)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "preset = \"%s\";", preset);
	return declare(text);
}

static void test_case(size_t i)
{
	_cleanup_config_ struct config *declared = declare_preset(cases[i].preset);
	_cleanup_scan_ struct scan none = { 0 }, all = { 0 };
	char ids[512] = "";

	scan_devices(declared, &none);
	assert_int_equal(none.n_devices, 0);
	for (size_t k = 0; k < ENTRIES_MAX && cases[i].host[k]; k++)
		make_entry(cases[i].host[k]);
	scan_devices(declared, &all);
	for (size_t k = 0; k < all.n_devices; k++) {
		assert_null(all.devices[k]->problem);
		(void)strcat(ids, all.devices[k]->id);
		(void)strcat(ids, " ");
	}
	if (!streq(ids, cases[i].ids))
		fail_msg("%s finds \"%s\", not \"%s\"", cases[i].preset, ids, cases[i].ids);
}

static void test_what_they_find(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(host_setup(state), 0);
		test_case(i);
		assert_int_equal(host_teardown(state), 0);
	}
}

/* Software that has one name: each is a device, and the kernel's number in its id is reported. */
static void test_equal_software(void **state)
{
	_cleanup_config_ struct config *declared = declare_preset("watchdog");
	_cleanup_scan_ struct scan found = { 0 };

	make_entry("virtual/watchdog/watchdog0 : class/watchdog watchdog0");
	make_entry("/sys/devices/virtual/watchdog/watchdog0/identity = Software Watchdog\n");
	make_entry("virtual/watchdog/watchdog2 : class/watchdog watchdog2");
	make_entry("/sys/devices/virtual/watchdog/watchdog2/identity = Software Watchdog\n");
	scan_devices(declared, &found);
	assert_int_equal(found.n_devices, 2);
	assert_string_equal(found.devices[0]->id, "watchdog:watchdog0");
	assert_string_equal(found.devices[1]->id, "watchdog:watchdog2");
	assert_int_equal(found.notes.count, 2);
	assert_non_null(strstr(found.notes.items[0],
		" has the id watchdog:watchdog0, because several devices would be watchdog-"));
}

static bool has_row(const char *preset)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (streq(cases[i].preset, preset))
			return true;
	return false;
}

/* Whether a page of docs/peers uses it, which tests/peers tries, or it is one of the accelerators
 * whose trees accelerator_hosts.py makes. */
static bool has_page(const char *preset)
{
	_cleanup_free_ char *command = NULL;

	assert_true(
		asprintf(&command,
			"grep -Fqs 'preset = \"%s\"' " SOURCE_DIR "/docs/peers/*.md || "
			"grep -Fqs '\"%s\":' " SOURCE_DIR "/tests/promises/accelerator_hosts.py",
			preset, preset) > 0);
	return system(command) == 0;
}

/* A preset without a test, or without a summary. */
static void test_all_are_known(void **state)
{
	_cleanup_strings_ struct strings names = { 0 };
	struct error error;

	assert_int_equal(preset_list(&names, &error), 0);
	assert_true(names.count >= ARRAY_SIZE(cases));
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = NULL, *summary = NULL;

		if (!has_row(names.items[i]) && !has_page(names.items[i]))
			fail_msg(
				"%s: add a row to cases[], or a host to accelerator_hosts.py, or use it in docs/peers",
				names.items[i]);
		assert_int_equal(preset_find(names.items[i], &path, &error), 0);
		assert_int_equal(preset_summary(path, &summary, &error), 0);
		if (!strstr(summary, ". Replaces ") || summary[strlen(summary) - 1] != '.')
			fail_msg("%s: \"%s\" must be \"WHAT. Replaces WHICH PLUGIN.\"",
				names.items[i], summary);
	}
}

/* The name that discover proposes is the one that the summary has, and can be used. */
static void test_resource_names(void **state)
{
	_cleanup_strings_ struct strings names = { 0 };
	struct error error;
	size_t n_named = 0;

	assert_int_equal(preset_list(&names, &error), 0);
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = NULL, *summary = NULL, *name = NULL;

		assert_int_equal(preset_find(names.items[i], &path, &error), 0);
		assert_int_equal(preset_summary(path, &summary, &error), 0);
		assert_int_equal(preset_resource_name(path, &name, &error), 0);
		n_named += *name != '\0';
		if (*name && resource_name_check(name, &error) < 0)
			fail_msg("%s: %s", names.items[i], error.message);
		if (strstr(summary, ".com/") && (!*name || !strstr(summary, name)))
			fail_msg("%s: \"%s\" has another name than \"%s\"", names.items[i], summary,
				name);
	}
	assert_true(n_named > 20);
}

/* What is read is the same as if it had been written out, so that a child needs no presets. */
static void test_preset_leaves_no_trace(void **state)
{
	_cleanup_config_ struct config *with = declare_preset("kvm");
	_cleanup_config_ struct config *without =
		declare("driver = \"path\"; match = \"/dev/kvm\"; "
			"share = { max_per_container = 1; replicas = 1000; };");

	assert_string_equal(with->resources[0].text, without->resources[0].text);
	assert_null(declaration_of(with)->preset);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_they_find),
		HOST_TEST(test_equal_software),
		cmocka_unit_test(test_all_are_known),
		cmocka_unit_test(test_resource_names),
		cmocka_unit_test(test_preset_leaves_no_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
