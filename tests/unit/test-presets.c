/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every preset that is shipped, on a tree with its hardware and with similar hardware that it must
 * not match.
 */
#include "host-fixture.h"

#include "configuration/preset.h"
#include "drivers/host/scan-run.h"

#define ENTRIES_MAX 8

static const struct {
	const char *preset;
	const char *host[ENTRIES_MAX]; /* "PATH" is a node, "PATH = TEXT" a file */
	const char *ids;               /* what is found, each with a space behind it */
} cases[] = {
	{ "fuse", { "/dev/fuse" }, "fuse " },
	{ "gpio", { "/dev/gpiochip0", "/dev/gpiomem" }, "gpiochip0 " },
	{ "hwrng", { "/dev/hwrng" }, "hwrng " },
	{ "i2c", { "/dev/i2c-1", "/dev/i2c-10" }, "i2c-1 i2c-10 " },
	{ "kvm", { "/dev/kvm" }, "kvm " },
	{ "loop", { "/dev/loop-control", "/dev/loop0", "/dev/loop7" }, "loop0 loop7 " },
	{ "ptp", { "/dev/ptp0", "/dev/ptp_kvm" }, "ptp0 " },
	{ "rtc", { "/dev/rtc", "/dev/rtc0" }, "rtc0 " },
	{ "serial", { "/dev/serial/by-id/usb-FTDI_FT232R_A1-if00-port0", "/dev/ttyUSB0" },
		"serial:by-id:usb-FTDI_FT232R_A1-if00-port0 " },
	{ "sgx-enclave", { "/dev/sgx_enclave", "/dev/sgx_provision", "/dev/sgx_vepc" },
		"sgx_enclave " },
	{ "sgx-provision", { "/dev/sgx_enclave", "/dev/sgx_provision" }, "sgx_provision " },
	{ "snd", { "/dev/snd/controlC0", "/dev/snd/pcmC0D0p" }, "snd " },
	{ "socketcan", { "/sys/class/net/can0/type = 280", "/sys/class/net/eth0/type = 1" },
		"can0 " },
	{ "spi", { "/dev/spidev0.0", "/dev/spidev0.1" }, "spidev0.0 spidev0.1 " },
	{ "tpm", { "/dev/tpm0", "/dev/tpmrm0" }, "tpmrm0 " },
	{ "tun", { "/dev/net/tun" }, "net:tun " },
	{ "uinput", { "/dev/uinput" }, "uinput " },
	{ "vhost-net", { "/dev/vhost-net" }, "vhost-net " },
	{ "vhost-vsock", { "/dev/vhost-vsock" }, "vhost-vsock " },
	{ "video",
		{ "/dev/video0", "/dev/v4l/by-id/usb-Cam_1-video-index0",
			"/dev/v4l/by-id/usb-Cam_1-video-index1" },
		"v4l:by-id:usb-Cam_1-video-index0 " },
	{ "watchdog", { "/dev/watchdog", "/dev/watchdog0" }, "watchdog0 " },
};

static void make_entry(const char *entry)
{
	const char *text = strstr(entry, " = ");
	int length = (int)(text ? (size_t)(text - entry) : strlen(entry));
	char path[256], directory[256];

	(void)snprintf(path, sizeof(path), "%.*s", length, entry);
	(void)snprintf(
		directory, sizeof(directory), "%.*s", (int)(strrchr(path, '/') - path), path);
	host_mkdir(directory);
	if (text)
		host_write(path, text + 3);
	else
		host_mknod(path);
}

static void list(const struct config *config, struct scan *scan)
{
	struct error error;

	scan->root = host_root;
	if (declaration_of(config)->driver->list(declaration_of(config), scan, &error) < 0)
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
	_cleanup_config_ struct config *config = declare_preset(cases[i].preset);
	_cleanup_scan_ struct scan empty = { 0 }, scan = { 0 };
	char ids[512] = "";

	list(config, &empty);
	assert_int_equal(empty.n_devices, 0);
	for (size_t k = 0; k < ENTRIES_MAX && cases[i].host[k]; k++)
		make_entry(cases[i].host[k]);
	list(config, &scan);
	for (size_t k = 0; k < scan.n_devices; k++) {
		(void)strcat(ids, scan.devices[k]->id);
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

static bool has_row(const char *preset)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (streq(cases[i].preset, preset))
			return true;
	return false;
}

/* Whether a page of docs/peers uses it; tests/peers tries those pages. */
static bool has_page(const char *preset)
{
	_cleanup_free_ char *command = NULL;

	assert_true(asprintf(&command, "grep -Fqs 'preset = \"%s\"' " SOURCE_DIR "/docs/peers/*.md",
			    preset) > 0);
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
			fail_msg("%s: add a row to cases[], or use it in docs/peers",
				names.items[i]);
		assert_int_equal(preset_find(names.items[i], &path, &error), 0);
		assert_int_equal(preset_summary(path, &summary, &error), 0);
		if (!strstr(summary, ". Replaces ") || summary[strlen(summary) - 1] != '.')
			fail_msg("%s: \"%s\" must be \"WHAT. Replaces WHICH PLUGIN.\"",
				names.items[i], summary);
	}
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
		cmocka_unit_test(test_all_are_known),
		cmocka_unit_test(test_preset_leaves_no_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
