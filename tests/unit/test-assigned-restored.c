/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The next process of a resource: interfaces in containers stay listed unchanged although the host
 * does not show them; and a file written by another process is not trusted.
 *
 * complaints.md: M7.
 */
#include <jansson.h>
#include <sys/mman.h>

#include "net-fixture.h"

#include "drivers/health/saved-state.h"
#include "drivers/inventory/inventory.h"

#define NET "driver = \"net\"; match = "

static struct config *config;
static struct inventory *inventory;
static json_t *file; /* what the last process has left */

static void on_change(struct inventory *changed, void *userdata)
{
}

/* Starts an inventory, with the saved state of the file if there is one. */
static void start(const char *text)
{
	struct saved_state *saved;
	struct error error;
	int fd;

	config = declare(text);
	assert_int_equal(inventory_new(host_event, declaration_of(config), host_root, on_change,
				 NULL, &inventory),
		0);
	if (file) {
		fd = memfd_create("saved-state", MFD_CLOEXEC);
		assert_int_equal(json_dumpfd(file, fd, 0), 0);
		assert_int_equal(saved_state_read(fd, &saved), 0);
		(void)close(fd);
		inventory_restore(inventory, saved);
		assert_int_equal(inventory_restore_list(inventory), 0);
	}
	if (inventory_start(inventory, &error) < 0)
		fail_msg("%s", error.message);
}

static void forget(void)
{
	inventory = inventory_free(inventory);
	config = config_free(config);
}

/* Ends the process; its file stays. */
static void end(void)
{
	int fd = memfd_create("saved-state", MFD_CLOEXEC);

	assert_int_equal(inventory_write(inventory, 0, fd), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	json_decref(file);
	file = json_loadfd(fd, 0, NULL);
	assert_non_null(file);
	(void)close(fd);
	forget();
}

static int teardown(void **state)
{
	forget();
	json_decref(file);
	file = NULL;
	return host_teardown(state);
}

static const char *seen(void)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	size_t used = 0;

	fixture_text[0] = '\0';
	for (size_t i = 0; i < snapshot->n_units; i++)
		used += (size_t)snprintf(fixture_text + used, sizeof(fixture_text) - used, "%s%s ",
			snapshot->units[i].device->id, snapshot->units[i].present ? "" : "?");
	return fixture_text;
}

static struct device *device_of(const char *id)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	unsigned replica;
	size_t unit;

	assert_int_equal(snapshot_find(snapshot, id, &unit, &replica), 0);
	return device_ref((struct device *)snapshot->units[unit].device);
}

static void lend(const char *id)
{
	_cleanup_device_ struct device *device = device_of(id);

	device_note_assigned(device);
}

#define INTERFACES NET "( { type = \"interface\"; kind = \"can\"; } );"

static void test_interfaces_stay(void **state)
{
	start(INTERFACES);
	lend("can0");
	lend("vcan0");
	unplant_interface("/sys/devices/virtual", "vcan0");
	unplant_interface(SPI, "can0");
	end();
	start(INTERFACES);
	assert_string_equal(seen(), "can0 vcan0 ");
	end();
	/* The one after that knows it, too, and the kubelet's bookings may contradict. */
	start(INTERFACES);
	assert_string_equal(seen(), "can0 vcan0 ");
	assert_int_equal(set_booked(inventory, "", now_usec(CLOCK_MONOTONIC)), 1);
	assert_string_equal(seen(), "can0 ");
	end();
	/* Hardware that was plugged out meanwhile is not in a container. */
	host_rename(SPI, "/sys/devices/gone");
	start(INTERFACES);
	assert_string_equal(seen(), "can0? ");
	/* Nor is it known to the process after that. */
	end();
	start(INTERFACES);
	assert_string_equal(seen(), "");
}

static void test_unassigned_is_not_there(void **state)
{
	start(INTERFACES);
	lend("can0");
	unplant_interface("/sys/devices/virtual", "vcan0");
	end();
	start(INTERFACES);
	assert_string_equal(seen(), "can0 ");
	/* It is still assigned, so that it may go. */
	unplant_interface(SPI, "can0");
	end();
	start(INTERFACES);
	assert_string_equal(seen(), "can0 ");
	end();
	start(INTERFACES " exclude = \"can*\";");
	assert_string_equal(seen(), "");
}

#define FUNCTIONS                                                                          \
	NET "( { interface = \"ens785f0v*\"; vhost_net = true; permissions = \"rwm\"; }, " \
	    "{ type = \"subfunction\"; rdma = true; interface = \"enp*\"; } );"

#define PUBLISHED                                                                \
	FUNCTIONS " serve = \"dra\"; dra = { attributes = ( { name = \"port\"; " \
		  "value = \"${interface}\"; } ); };"

/* A container that gets it once more gets the same, and DRA publishes the same. */
static void test_all_of_it_is_kept(void **state)
{
	_cleanup_device_ struct device *function = NULL, *subfunction = NULL;
	_cleanup_device_ struct device *function_now = NULL, *subfunction_now = NULL;
	_cleanup_device_ struct device *function_kept = NULL;

	start(PUBLISHED);
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1 mlx5_core.sf.4 ");
	function = device_of("0000:3b:02.1");
	assert_true(strings_contain(&function->attributes, "port=ens785f0v1"));
	assert_true(strings_contain(
		&function->attributes, "resource.kubernetes.io/pciBusID=0000:3b:02.1"));
	subfunction = device_of("mlx5_core.sf.4");
	assert_non_null(function->info);
	assert_int_equal(function->n_numa, 1);
	lend("0000:3b:02.1");
	lend("mlx5_core.sf.4");
	unplant_interface(BRIDGE "/0000:3b:02.1", "ens785f0v1");
	unplant_interface(MELLANOX "/mlx5_core.sf.4", "enp216s0f0s88");
	end();
	start(PUBLISHED);
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1 mlx5_core.sf.4 ");
	function_now = device_of("0000:3b:02.1");
	subfunction_now = device_of("mlx5_core.sf.4");
	/* What the host has for its containers is read when a scan finds it again. */
	function->host_paths = subfunction->host_paths = 0;
	assert_true(device_equal(function, function_now));
	assert_true(device_equal(subfunction, subfunction_now));
	assert_string_equal(function_now->anchor, function->anchor);
	assert_int_equal(subfunction_now->n_nodes, 4);
	assert_true(subfunction_now->nodes[3].shared);
	assert_false(subfunction_now->nodes[0].shared);
	assert_int_equal(device_set_lack(function_now, "no driver"), 0);
	end();
	start(PUBLISHED);
	function_kept = device_of("0000:3b:02.1");
	assert_true(device_equal(function_now, function_kept));
}

static json_t *kept(const char *id)
{
	json_t *units = json_object_get(file, "units"), *unit;
	size_t i;

	json_array_foreach(units, i,
		unit) if (streq(json_string_value(json_object_get(unit, "id")), id)) return unit;
	fail_msg("no %s", id);
	return NULL;
}

static void test_an_untrusted_file_is_not_believed(void **state)
{
	static const struct {
		const char *key, *value;
	} cases[] = {
		{ "numa", "[-1]" },
		{ "numa", "[\"1\"]" },
		{ "claims", "[\"a\\nb\"]" },
		{ "claims", "[1]" },
		{ "nodes", "[{}]" },
		{ "nodes",
			"[{\"host\": \"dev/x\", \"path\": \"/dev/x\", \"permissions\": \"rw\", \"shared\": false}]" },
		{ "nodes",
			"[{\"host\": \"/dev/x\", \"path\": \"/dev/../x\", \"permissions\": \"rw\", \"shared\": false}]" },
		{ "nodes",
			"[{\"host\": \"/dev/x\", \"path\": \"/dev/x\", \"permissions\": \"rwx\", \"shared\": false}]" },
		{ "nodes",
			"[{\"host\": \"/dev/x\", \"path\": \"/dev/x\", \"permissions\": \"\", \"shared\": false}]" },
		{ "nodes",
			"[{\"host\": \"/dev/x\\n\", \"path\": \"/dev/x\", \"permissions\": \"rw\", \"shared\": false}]" },
		{ "variables", "[{\"name\": \"a\"}]" },
		{ "variables", "[{\"name\": \"a\", \"value\": \"b\\u0001\"}]" },
		{ "attributes", "[1]" },
		{ "attributes", "[\"a\"]" },
		{ "attributes", "[\"a-b=x\"]" },
		{ "attributes", "[\"a=\\u0001\"]" },
		{ "anchor", "\"sys/x\"" },
		{ "anchor", "1" },
		{ "info", "\"{}\"" },
		{ "problem", "\"a\\nb\"" },
		{ "lacks_node", "1" },
	};
	json_t *device, *good;

	start(FUNCTIONS);
	lend("0000:3b:02.1");
	unplant_interface(BRIDGE "/0000:3b:02.1", "ens785f0v1");
	end();
	device = json_object_get(kept("0000:3b:02.1"), "device");
	assert_non_null(device);
	good = json_deep_copy(device);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("%s %s\n", cases[i].key, cases[i].value);
		assert_int_equal(json_object_set_new(device, cases[i].key,
					 json_loads(cases[i].value, JSON_DECODE_ANY, NULL)),
			0);
		start(FUNCTIONS);
		assert_string_equal(seen(), "0000:3b:02.0 mlx5_core.sf.4 ");
		forget();
		(void)json_object_clear(device);
		(void)json_object_update(device, good);
	}
	start(FUNCTIONS);
	assert_string_equal(seen(), "0000:3b:02.0 0000:3b:02.1 mlx5_core.sf.4 ");
	forget();
	/* An id that no scan would give. */
	(void)json_object_set_new(kept("0000:3b:02.1"), "id", json_string("a b"));
	start(FUNCTIONS);
	assert_string_equal(seen(), "0000:3b:02.0 mlx5_core.sf.4 ");
	json_decref(good);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, net_setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_interfaces_stay),
		TEST(test_unassigned_is_not_there),
		TEST(test_all_of_it_is_kept),
		TEST(test_an_untrusted_file_is_not_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
