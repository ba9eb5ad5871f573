/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files are built again only while that may put more devices into them.
 */
#include "inventory-fixture.h"
#include "pci-fixture.h"

#include "common/log.h"
#include "proto/plugin/plugin-send.h"
#include "proto/plugin/propose-files.h"

static struct publishing publishing;
static struct applied_config *applied_config;
static unsigned sent;

/* Takes the place of the real one. */
void plugin_send(sd_event *event, const struct control_message *message)
{
	sent++;
	(void)close(message->fds[0]);
}

static int setup(void **state)
{
	log_setup("test-propose-files", LOG_TARGET_TEXT, LOG_CRIT);
	return host_setup(state);
}

static int teardown(void **state)
{
	publish_done(&publishing);
	publishing = (struct publishing){ 0 };
	applied_config = applied_config_unref(applied_config);
	sent = 0;
	return inventory_teardown(state);
}

/* Proposes the files of the first list, with the configuration's text. */
static void propose(const char *text)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	struct config *declared;

	start(text);
	snapshot = inventory_snapshot(inventory);
	declared = declare(text);
	declared->resources[0].declaration.host_root = strdup(host_root);
	assert_int_equal(applied_config_new(declared, &applied_config), 0);
	publishing.event = host_event;
	assert_int_equal(publish_propose(&publishing, applied_config, snapshot), 1);
	assert_int_equal(sent, 1);
	assert_int_equal(publishing.left_out.count, 1);
}

#define KIND "cdi_spec = { kind = \"vendor.example/card\"; };\n"

/* A node that a scan does not see may be there later. */
static void test_missing_node(void **state)
{
	host_mknod("/dev/card0");
	host_mknod("/dev/card1");
	host_mknod("/dev/aux-card1");
	propose("driver = \"path\"; match = ( { path = \"/dev/card*\"; type = \"device\"; } );\n" KIND
		"container = { nodes = ( \"/dev/aux-${id}\" ); };");
	assert_non_null(publishing.retry);
}

/* A scan sees that a device has its node again. */
static void test_lack(void **state)
{
	pci_plant("0000:03:00.0", "0x10de", "0x1eb8", "0x030200");
	propose("driver = \"pci\"; match = ( { access = \"vfio\"; vendor = 0x10de; } );\n" KIND);
	assert_null(publishing.retry);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_missing_node, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lack, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
