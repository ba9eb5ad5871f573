/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "net" over time: an interface in a container stays listed, and interfaces appear and
 * disappear.
 */
#include "inventory-fixture.h"
#include "net-fixture.h"

#include <net/route.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <net/if.h>

#include "common/log.h"
#include "drivers/allocation/allocation.h"

static void allocate(const char *id)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	_cleanup_allocation_ struct allocation allocation = { 0 };
	struct error error;

	if (allocation_build(declaration_of(config), snapshot, host_root, &id, 1, NULL, &allocation,
		    &error) < 0)
		fail_msg("%s", error.message);
	allocation_note(snapshot, &id, 1);
}

/* Something else comes, so that a scan is known to have been. */
static void pass_scan(const char *name)
{
	unsigned before = told;

	plant_interface("/sys/devices/virtual", name, 280);
	RUN_UNTIL(told > before);
}

#define VFS \
	NET "( { role = \"vf\"; driver = \"iavf\"; }, { type = \"interface\"; interface = \"vcan*\"; } );"

/* The kernel keeps the directory of a function's interfaces while they are in another namespace.
 * A pod has one function, and another program has the other one. */
static void test_function_stays(void **state)
{
	start_booked(VFS, "0000:3b:02.0\n");
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1 vcan0 ");
	unplant_interface(BRIDGE "/0000:3b:02.0", "ens785f0v0");
	unplant_interface(BRIDGE "/0000:3b:02.1", "ens785f0v1");
	pass_scan("vcan1");
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1! vcan0 vcan1 ");
	assert_string_equal(reason_of("0000:3b:02.1"),
		"the interface of 0000:3b:02.1 is in another network namespace, but no pod uses the device: end the container or service that has it, or move it back");

	/* The next process does not see the interface either. */
	start_booked(VFS, "0000:3b:02.0\n");
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1! vcan0 vcan1 ");
	/* Another pod gets the device, and the first one ends. */
	assert_int_equal(set_booked(inventory, "0000:3b:02.1\n", 0), 1);
	assert_string_equal(seen(), "0000:3b:02.0! 0000:3b:02.1 vcan0 vcan1 ");
	plant_interface(BRIDGE "/0000:3b:02.0", "ens785f0v0", 1);
	pass_scan("vcan2");
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1 vcan0 vcan1 vcan2 ");
}

/* The interfaces of a virtio card are one step below it, and a function without a directory of
 * interfaces may have none at all. */
static void test_function_elsewhere(void **state)
{
	host_write("/proc/net/route", "Iface\n");
	plant_function("0000:00:04.0", "0x020000", "1d0f:efa2", "efa");
	start(NET "( { address = \"0000:00:*\"; }, { type = \"subfunction\"; }, "
		  "{ type = \"interface\"; interface = \"vcan*\"; } );");
	assert_string_equal(seen(), "0000:00:03.0 0000:00:04.0 mlx5_core.sf.4 vcan0 ");
	unplant_interface(BRIDGE "/0000:00:03.0/virtio2", "eth0");
	unplant_interface(MELLANOX "/mlx5_core.sf.4", "enp216s0f0s88");
	pass_scan("vcan1");
	assert_string_equal(seen(), "0000:00:03.0! 0000:00:04.0 mlx5_core.sf.4! vcan0 vcan1 ");
}

static void test_assigned_stays(void **state)
{
	start(NET
		"( { type = \"interface\"; kind = \"can\"; }, { interface = \"ens785f0v*\"; } );");
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1 can0 vcan0 ");
	allocate("vcan0");
	allocate("can0");
	allocate("0000:3b:02.0");
	unplant_interface("/sys/devices/virtual", "vcan0");
	unplant_interface(SPI, "can0");
	unplant_interface(BRIDGE "/0000:3b:02.0", "ens785f0v0");
	/* This one was not allocated: it is not in a container. */
	unplant_interface(BRIDGE "/0000:3b:02.1", "ens785f0v1");
	pass_scan("vcan1");
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1? can0 vcan0 vcan1 ");

	/* What is plugged out is not in a container either. */
	host_rename(SPI, "/sys/devices/gone");
	pass_scan("vcan2");
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1? can0? vcan0 vcan1 vcan2 ");

	/* Back from the container; when it disappears then, it was removed. */
	host_rename("/sys/devices/virtual/moved-vcan0", "/sys/devices/virtual/net/vcan0");
	host_symlink("../../devices/virtual/net/vcan0", "/sys/class/net/vcan0");
	pass_scan("vcan3");
	unplant_interface("/sys/devices/virtual", "vcan0");
	pass_scan("vcan4");
	assert_string_equal(
		seen(), "0000:3b:02.0 0000:3b:02.1? can0? vcan0? vcan1 vcan2 vcan3 vcan4 ");

	/* Plugged in again, it belongs to no container. */
	host_rename("/sys/devices/gone", SPI);
	host_rename(SPI "/moved-can0", SPI "/net/can0");
	host_symlink(SPI "/net/can0", "/sys/class/net/can0");
	RUN_UNTIL(strstr(seen(), "can0 "));
	unplant_interface(SPI, "can0");
	RUN_UNTIL(strstr(seen(), "can0? vcan0?"));
}

/* The kubelet knows when a pod that took an interface along has ended. */
static void test_assigned_is_dropped(void **state)
{
	start(NET "( { type = \"interface\"; kind = \"can\"; } );");
	allocate("vcan0");
	allocate("can0");
	unplant_interface("/sys/devices/virtual", "vcan0");
	unplant_interface(SPI, "can0");
	pass_scan("vcan1");
	assert_int_equal(set_booked(inventory, "vcan0\n", now_usec(CLOCK_MONOTONIC)), 0);
	assert_string_equal(seen(), "can0 vcan0 vcan1 ");
	/* The controller is still there. */
	assert_int_equal(set_booked(inventory, "", now_usec(CLOCK_MONOTONIC)), 1);
	assert_string_equal(seen(), "can0 vcan1 ");
}

/* A program of Allocate renames the interface, so a scan replaces the device before the answer. */
static void test_assigned_after_change(void **state)
{
	static const char *const id = "0000:3b:02.0";
	_cleanup_snapshot_ struct snapshot *offered = NULL, *now = NULL;

	start(NET
		"( { type = \"interface\"; kind = \"can\"; }, { interface = \"ens785f0v*\"; } );");
	offered = inventory_snapshot(inventory);
	unplant_interface(BRIDGE "/0000:3b:02.0", "ens785f0v0");
	plant_interface(BRIDGE "/0000:3b:02.0", "ens785f0v9", 1);
	pass_scan("vcan1");
	now = inventory_snapshot(inventory);
	assert_string_equal(now->units[0].device->id, id);
	assert_ptr_not_equal(now->units[0].device, offered->units[0].device);
	allocation_note(offered, &id, 1);
	assert_int_equal(inventory_note_allocated(inventory, offered, &id, 1), 0);
	unplant_interface(BRIDGE "/0000:3b:02.0", "ens785f0v9");
	pass_scan("vcan2");
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1 can0 vcan0 vcan1 vcan2 ");
}

static void reload(const char *text)
{
	struct inventory *previous = inventory;
	struct config *previous_config = config;
	struct error error;

	config = declare(text);
	assert_int_equal(inventory_new(host_event, declaration_of(config), host_root, on_change,
				 &told, &inventory),
		0);
	assert_int_equal(inventory_inherit(inventory, previous, true), 0);
	assert_int_equal(inventory_start(inventory, &error), 0);
	(void)inventory_free(previous);
	(void)config_free(previous_config);
}

/* A reload while a program of Allocate runs gives the device other ids. */
static void test_assigned_after_reload(void **state)
{
	static const char *const id = "can0";
	_cleanup_snapshot_ struct snapshot *offered = NULL;

	start(NET "( { type = \"interface\"; kind = \"can\"; } );");
	offered = inventory_snapshot(inventory);
	reload(NET "( { type = \"interface\"; kind = \"can\"; } ); share = { replicas = 2; };");
	allocation_note(offered, &id, 1);
	assert_int_equal(inventory_note_allocated(inventory, offered, &id, 1), 0);
	unplant_interface(SPI, "can0");
	plant_interface("/sys/devices/virtual", "vcan1", 280);
	RUN_UNTIL(strstr(seen(), "vcan1"));
	assert_string_equal(seen(), "can0 vcan0 vcan1 can0? ");
}

/* A reload, and a restart of the process, which has the saved state. */
static void test_assigned_is_saved(void **state)
{
	static const char *const text = NET "( { type = \"interface\"; kind = \"can\"; } );";
	struct saved_state *saved;
	int fd;

	start(text);
	allocate("can0");
	allocate("vcan0");
	unplant_interface("/sys/devices/virtual", "vcan0");
	pass_scan("vcan1");

	reload(text);
	assert_string_equal(seen(), "can0 vcan0 vcan1 ");
	unplant_interface(SPI, "can0");
	pass_scan("vcan2");
	assert_string_equal(seen(), "can0 vcan0 vcan1 vcan2 ");

	/* The file keeps it. */
	fd = memfd_create("saved-state", MFD_CLOEXEC);
	assert_int_equal(inventory_write(inventory, 0, fd), 0);
	assert_int_equal(saved_state_read(fd, &saved), 0);
	assert_true(saved_state_find(saved, "can0")->assigned);
	assert_false(saved_state_find(saved, "vcan1")->assigned);
	saved_state_free(saved);
	(void)close(fd);
}

#define ROUTE(interface) \
	"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n" interface "\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"

/* A default route leads through a function of a pod. "devplugctl rescan" applies the same
 * configuration again, which has the same effect as a scan. */
static void test_rescan(void **state)
{
	static const char *const text = NET "( { interface = \"ens785f0v*\"; }, "
					    "{ type = \"interface\"; interface = \"vcan*\"; } );";

	start(text);
	allocate("0000:3b:02.0");
	host_write("/proc/net/route", ROUTE("ens785f0v0"));
	reload(text);
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1 vcan0 ");
	pass_scan("vcan1");
	reload(text);
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1 vcan0 vcan1 ");
	/* Through one that no pod has. */
	host_write("/proc/net/route", ROUTE("ens785f0v1"));
	reload(text);
	assert_string_equal(seen(), "0000:3b:02.0 vcan0 vcan1 ");
}

/* The administrator writes sriov_numvfs again while a pod has one of the functions. */
static void test_functions_are_made_again(void **state)
{
	start(NET "( { role = \"vf\"; driver = \"iavf\"; } );");
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1 ");
	allocate("0000:3b:02.0");
	for (unsigned i = 0; i < 2; i++) {
		host_remove(made("/sys/bus/pci/devices/0000:3b:02.%u", i));
		host_rename(made(BRIDGE "/0000:3b:02.%u", i), made(BRIDGE "/removed%u", i));
	}
	RUN_UNTIL(streq(seen(), "0000:3b:02.0? 0000:3b:02.1? "));
	for (unsigned i = 0; i < 2; i++) {
		host_rename(made(BRIDGE "/removed%u", i), made(BRIDGE "/0000:3b:02.%u", i));
		host_symlink(made("../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:02.%u", i),
			made("/sys/bus/pci/devices/0000:3b:02.%u", i));
	}
	RUN_UNTIL(streq(seen(), "0000:3b:02.0 0000:3b:02.1 "));
}

static void test_hotplug(void **state)
{
	start(NET "( { vendor = 0x8086; role = \"vf\"; } );");
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1 0000:3b:02.2! 0000:3b:02.3! ");
	host_remove("/sys/bus/pci/devices/0000:3b:02.1");
	RUN_UNTIL(told == 1);
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1? 0000:3b:02.2! 0000:3b:02.3! ");
	plant_driver(BRIDGE "/0000:3b:02.3", "pci", "iavf");
	plant_function("0000:3b:02.4", "0x020000", "8086:154c", "iavf");
	plant_vf("0000:3b:00.0", 4, "0000:3b:02.4");
	RUN_UNTIL(strstr(seen(), "0000:3b:02.3 "));
	RUN_UNTIL(strstr(seen(), "0000:3b:02.4 "));
}

/* The core's probe knows the port by a variable, and does not mind an interface that is away. */
static void test_link(void **state)
{
	start(NET "( { role = \"vf\"; driver = \"iavf\"; } ); "
		  "health = ( { probe = \"file\"; healthy = \"up\"; missing = \"healthy\"; "
		  "interval = 0.1; fail_after = 2; "
		  "path = \"/sys/class/net/${pf_interface}/operstate\"; } );");
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1 ");
	host_replace(BRIDGE "/0000:3b:00.0/net/ens785f0/operstate", "down\n");
	RUN_UNTIL(streq(seen(), "0000:3b:02.0! 0000:3b:02.1! "));
	unplant_interface(BRIDGE "/0000:3b:00.0", "ens785f0");
	RUN_UNTIL(streq(seen(), "0000:3b:02.0 0000:3b:02.1 "));
}

/* --- udev --- */

static void run_udev(void)
{
	host_mkdir("/run/udev/data");
	host_write("/run/udev/control", "");
}

/* As udev does when it has processed an interface. */
static void process(unsigned index, const char *properties)
{
	host_replace(made("/run/udev/data/n%u", index), made("I:4711\nG:systemd\n%s", properties));
}

static unsigned index_of(const char *interface)
{
	char path[512], text[16] = "";
	FILE *stream;

	host_path(path, made("/sys/class/net/%s/ifindex", interface));
	stream = fopen(path, "re");
	assert_non_null(stream);
	assert_non_null(fgets(text, sizeof(text), stream));
	(void)fclose(stream);
	return (unsigned)atoi(text);
}

/* At boot and after a hot-plug, the kernel's name appears first; udev's rules give another one.
 * The interface that udev has not processed is no device, also while it has an entry that is not
 * complete. */
static void test_udev_renames(void **state)
{
	run_udev();
	process(index_of("vcan0"), "");
	start(NET "( { type = \"interface\"; kind = \"can\"; } );");
	assert_string_equal(seen(), "vcan0 ");
	process(index_of("can0"), "");
	RUN_UNTIL(streq(seen(), "can0 vcan0 "));

	plant_interface(SPI, "can1", 280);
	process(planted_index, "E:ID_RENAMING=1\n");
	plant_interface("/sys/devices/virtual", "vcan1", 280);
	process(planted_index, "E:ID_NET_DRIVER=vcan\n");
	RUN_UNTIL(streq(seen(), "can0 vcan0 vcan1 "));
	host_rename(SPI "/net/can1", SPI "/net/left");
	host_remove("/sys/class/net/can1");
	host_symlink(made("../..%s/net/left", &SPI[strlen("/sys")]), "/sys/class/net/left");
	process(index_of("left"), "E:ID_NET_NAME=left\n");
	RUN_UNTIL(strstr(seen(), "left"));
	assert_string_equal(seen(), "can0 left vcan0 vcan1 ");

	/* What was found stays, also if its entry is removed from the database. */
	host_remove(made("/run/udev/data/n%u", index_of("can0")));
	plant_interface("/sys/devices/virtual", "vcan2", 280);
	process(planted_index, "");
	RUN_UNTIL(strstr(seen(), "vcan2"));
	assert_string_equal(seen(), "can0 left vcan0 vcan1 vcan2 ");
}

/* --- the host's network --- */

static void set_loopback(int fd, short flags)
{
	struct ifreq loopback = { .ifr_name = "lo", .ifr_flags = flags };

	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &loopback), 0);
}

static void remove_address(int fd)
{
	struct ifreq loopback = { .ifr_name = "lo", .ifr_addr.sa_family = AF_INET };

	assert_int_equal(ioctl(fd, SIOCSIFADDR, &loopback), 0);
}

static void set_default_route(int fd, unsigned long request)
{
	static char device[] = "lo";
	struct rtentry route = {
		.rt_dst = { .sa_family = AF_INET },
		.rt_genmask = { .sa_family = AF_INET },
		.rt_flags = RTF_UP,
		.rt_dev = device,
	};

	assert_int_equal(ioctl(fd, request, &route), 0);
}

/* The network of the kernel gives events, that of the tree is what is read. Tests after the first
 * of these have another network. */
static int enter_network(void)
{
	int fd;

	if (unshare(CLONE_NEWNET) < 0)
		skip();
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	set_loopback(fd, IFF_UP);
	start(NET "( { role = \"vf\"; driver = \"iavf\"; } );");
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1 ");
	return fd;
}

/* When the host boots, interfaces come first, and the route through one of them much later. The
 * kernel removes a route on request, with its interface, or with its interface's last address. */
static void test_default_route(void **state)
{
	_cleanup_close_ int fd = enter_network();

	for (unsigned i = 0; i < 3; i++) {
		host_write("/proc/net/route", ROUTE("ens785f0v1"));
		set_default_route(fd, SIOCADDRT);
		RUN_UNTIL(streq(seen(), "0000:3b:02.0 0000:3b:02.1? "));
		host_write("/proc/net/route", "Iface\n");
		if (i == 0)
			set_default_route(fd, SIOCDELRT);
		else if (i == 1)
			remove_address(fd);
		else
			set_loopback(fd, 0);
		RUN_UNTIL(streq(seen(), "0000:3b:02.0 0000:3b:02.1 "));
	}
}

/* A port joins a bridge, and leaves it: the kernel reports changes of the interface. */
static void test_port(void **state)
{
	_cleanup_close_ int fd = enter_network();

	plant_interface("/sys/devices/virtual", "br0", 1);
	host_symlink("../../../../../../../../../../../sys/devices/virtual/net/br0",
		BRIDGE "/0000:3b:02.1/net/ens785f0v1/master");
	set_loopback(fd, 0);
	RUN_UNTIL(streq(seen(), "0000:3b:02.0 0000:3b:02.1? "));
	assert_non_null(strstr(loss_of("0000:3b:02.1"),
		"the host needs interface ens785f0v1: it is a port of a bridge or bond"));
	host_remove(BRIDGE "/0000:3b:02.1/net/ens785f0v1/master");
	set_loopback(fd, IFF_UP);
	RUN_UNTIL(streq(seen(), "0000:3b:02.0 0000:3b:02.1 "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_function_stays, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(
			test_function_elsewhere, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_assigned_stays, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(
			test_assigned_is_dropped, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(
			test_assigned_after_change, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(
			test_assigned_after_reload, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(
			test_assigned_is_saved, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_rescan, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_hotplug, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(
			test_functions_are_made_again, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_link, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_udev_renames, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_default_route, net_setup, inventory_teardown),
		cmocka_unit_test_setup_teardown(test_port, net_setup, inventory_teardown),
	};

	log_setup("test-net-changes", LOG_TARGET_TEXT, LOG_CRIT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
