/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owners of devices: claims, reading them from an untrusted process, and the decision. The
 * decision is compared with its definition on small cases made at random.
 */
#include "host-fixture.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "common/log.h"
#include "common/map.h"
#include "common/sealed.h"
#include "drivers/inventory/hardware-claims.h"
#include "supervisor/ownership/exclusive.h"
#include "supervisor/ownership/ownership.h"

#define MAX 6

static struct decision decisions[MAX];
static struct hardware_claims *lists[MAX];
static size_t n_decisions;

static struct hardware_claims *read_list(const char *text)
{
	_cleanup_close_ int fd = sealed_new("claims", text, strlen(text));
	struct hardware_claims *list = NULL;

	assert_true(fd >= 0);
	assert_int_equal(hardware_claims_read(fd, CLAIMS_MAX, CLAIMS_BYTES_MAX, &list), 0);
	return list;
}

static void clear(void)
{
	decisions_done(decisions, n_decisions);
	for (size_t i = 0; i < n_decisions; i++)
		lists[i] = hardware_claims_free(lists[i]);
	n_decisions = 0;
}

static void add(const char *name, int overlap, const char *text)
{
	lists[n_decisions] = text ? read_list(text) : NULL;
	decisions[n_decisions] =
		(struct decision){ .name = name, .overlap = overlap, .list = lists[n_decisions] };
	n_decisions++;
}

static void decide(void)
{
	assert_int_equal(ownership_decide(decisions, n_decisions), 0);
}

static void expect(size_t index, const char *owners)
{
	assert_string_equal(decisions[index].owners ?: "", owners);
}

static void test_decision(void **state)
{
	add("a", false, "x\t/dev/0\ny\t/dev/1\t/dev/2\n");
	add("b", false, "y\t/dev/2\nz\t/dev/3\n");
	add("c", false, NULL);
	add("d", false, "p\t/dev/3\nq\t/dev/4\n");
	decide();
	expect(0, "");
	expect(1, "y\ta\n");
	expect(2, "");
	expect(3, "p\tb\n");
	clear();

	/* What is another's holds nothing. */
	add("a", false, "x\t/dev/0\n");
	add("b", false, "x\t/dev/0\t/dev/1\n");
	add("c", false, "x\t/dev/1\n");
	decide();
	expect(1, "x\ta\n");
	expect(2, "");
	clear();

	/* A resource is not in its own way. */
	add("a", false, "x\t/dev/0\ny\t/dev/0\n");
	decide();
	expect(0, "");
	clear();
}

static void test_overlap(void **state)
{
	add("a", true, "x\t/dev/0\n");
	add("b", true, "x\t/dev/0\n");
	add("c", false, "x\t/dev/0\n");
	add("d", true, "x\t/dev/0\n");
	decide();
	expect(1, "");
	expect(2, "x\ta\n");
	expect(3, "");
	clear();

	add("a", false, "x\t/dev/0\n");
	add("b", true, "x\t/dev/0\n");
	decide();
	expect(1, "x\ta\n");
	clear();
}

static struct bookings *bookings_of(const char *const *ids)
{
	struct bookings *bookings;

	assert_int_equal(bookings_new(&bookings), 0);
	for (; *ids; ids++)
		assert_int_equal(bookings_add(bookings, *ids, BOOKED_IN_PLUGIN, NULL, 0, 0), 0);
	assert_int_equal(bookings_sort(bookings), 0);
	return bookings;
}

/* Not two pods with one device: the owner waits, and so does every resource before the holder. */
static void test_P17_booked(void **state)
{
	_cleanup_bookings_ struct bookings *plain = bookings_of((const char *[]){ "p", NULL });
	_cleanup_bookings_ struct bookings *shared = bookings_of((const char *[]){ "p#3", NULL });

	for (unsigned round = 0; round < 3; round++) {
		add("a", false, "x\t/dev/0\ny\t/dev/1\nw\t/dev/9\n");
		add("b", false, "z\t/dev/2\n");
		add("c", false, "p\t/dev/1\t/dev/2\t/dev/3\nq\t/dev/0\n");
		add("d", false, "v\t/dev/3\n");
		decisions[2].booked = round == 0 ? NULL : round == 1 ? plain : shared;
		decide();
		expect(0, round == 0 ? "" : "y\tc, where a pod still uses it\n");
		expect(1, round == 0 ? "" : "z\tc, where a pod still uses it\n");
		expect(2, "p\ta\nq\ta\n");
		expect(3, round == 0 ? "" : "v\tc\n");
		for (size_t i = 0; i < n_decisions; i++)
			assert_null(decisions[i].note);
		clear();
	}

	/* A pod uses it under a name that no resource has; another resource finds the same
	 * hardware.
	 */
	add("a", false, "p\t/dev/0\nq\t/dev/1\n");
	add("b", false, "x\t/dev/0\n");
	add("old", false, NULL);
	decisions[2].booked = shared;
	decisions[2].foreign = true;
	decide();
	expect(0, "p\told, where a pod still uses it\n");
	expect(1, "x\told, where a pod still uses it\n");
	expect(2, "");
	clear();

	/* The same, where the other resource comes first. */
	add("a", false, "x\t/dev/0\n");
	add("b", false, "p\t/dev/0\nq\t/dev/1\n");
	add("old", false, NULL);
	decisions[2].booked = plain;
	decisions[2].foreign = true;
	decide();
	expect(0, "x\told, where a pod still uses it\n");
	expect(1, "p\told, where a pod still uses it\n");
	clear();

	/* Pods of both have it: neither gives it to another one. */
	add("a", false, "p\t/dev/0\n");
	add("b", false, "p\t/dev/0\n");
	decisions[0].booked = decisions[1].booked = plain;
	decide();
	expect(0, "p\tb, where a pod still uses it\n");
	expect(1, "p\ta\n");
	clear();

	add("a", true, "p\t/dev/0\n");
	add("b", true, "p\t/dev/0\n");
	decisions[1].booked = plain;
	decide();
	expect(0, "");
	expect(1, "");
	clear();
}

/* A pod's device is offered by no resource that does not share with the pod's. */
static void test_P17_booked_and_shared(void **state)
{
	static const char *const orders[] = { "abc", "acb", "cab" },
				 *const names[] = { "a", "b", "c" };
	_cleanup_bookings_ struct bookings *booked = bookings_of((const char *[]){ "x", NULL });
	static const char *const kept = "x\tc, where a pod still uses it\n";

	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		bool follows_c = false;

		for (const char *name = orders[i]; *name; name++) {
			add(names[*name - 'a'], *name != 'c', "x\t/dev/0\n");
			if (*name == 'c')
				decisions[n_decisions - 1].booked = booked;
		}
		decide();
		for (size_t k = 0; k < n_decisions; k++) {
			if (orders[i][k] != 'c')
				expect(k, follows_c ? "x\tc\n" : kept);
			else
				expect(k, k > 0 ? "x\ta\n" : "");
			follows_c = follows_c || orders[i][k] == 'c';
		}
		clear();
	}

	/* Two devices of one resource with a claim in common. */
	add("a", false, "x\t/dev/0\ny\t/dev/0\nz\t/dev/1\n");
	add("c", false, "x\t/dev/0\n");
	decisions[1].booked = booked;
	decide();
	expect(0, "x\tc, where a pod still uses it\ny\tc, where a pod still uses it\n");
	expect(1, "x\ta\n");
	clear();
}

static void test_ids(void **state)
{
	add("a", false, "x\t/dev/0\ny\t/dev/5\nz\t/dev/6\n");
	add("b", false, "x\t/dev/1\ny\t/dev/7\n");
	add("c", false, "x\t/dev/0\n");
	decide();
	assert_null(decisions[0].note);
	assert_non_null(decisions[1].note);
	assert_non_null(strstr(decisions[1].note,
		"the id \"x\" also belongs to another device, of a (and 1 more)"));
	/* The same device is not another one. */
	assert_null(decisions[2].note);
	expect(1, "");
	clear();

	add("a", true, "x\t/dev/0\n");
	add("b", true, "x\t/dev/0\n");
	decide();
	assert_null(decisions[1].note);
	clear();
}

#define EX OVERLAP_EXCLUSIVE

static int check(size_t i, const char *id, struct error *error)
{
	_cleanup_(map_done) struct map ids = { 0 };

	assert_int_equal(map_put(&ids, id, decisions), 0);
	return exclusive_check(decisions, n_decisions, &decisions[i], &ids, error);
}

/* Whose hardware is in use is unhealthy, but for what is in use itself. Parts of one device do not
 * exclude each other. */
static void test_exclusive(void **state)
{
	static const char *const none[] = { NULL }, *const whole[] = { "w", NULL },
				 *const part[] = { "p#1", NULL };
	struct bookings *booked;
	struct error error = { 0 };

	add("whole", EX, "w\tpci:0\nx\tpci:1\n");
	add("part", EX, "p\tpci:0.1\t<pci:0\nq\tpci:0.2\t<pci:0\nr\tpci:1.1\t<pci:1\n");
	add("same", EX, "s\tpci:0.1\n");
	add("shared", OVERLAP_SHARED, "t\tpci:0\n");
	booked = bookings_of(whole);
	decisions[0].booked = booked;
	decide();
	expect(0, "");
	expect(1, "p\t&in use as whole by a pod\nq\t&in use as whole by a pod\n");
	expect(2, "");
	/* Another value than "exclusive": as without `overlap`. */
	expect(3, "t\twhole\n");
	assert_int_equal(check(1, "p", &error), -EBUSY);
	assert_string_equal(error.message,
		"device \"p\" of part is in use as whole by a pod; it is free when that has ended");
	assert_int_equal(check(1, "r", &error), 0);
	assert_int_equal(check(0, "w", &error), 0);
	assert_int_equal(check(1, "zz", &error), 0);
	(void)bookings_unref(booked);
	clear();

	add("whole", EX, "w\tpci:0\nx\tpci:1\n");
	add("part", EX, "p\tpci:0.1\t<pci:0\nq\tpci:0.2\t<pci:0\n");
	add("same", EX, "s\tpci:0.1\n");
	booked = bookings_of(part);
	decisions[1].booked = booked;
	decide();
	expect(0, "w\t&in use as part by a pod\n");
	expect(1, "");
	expect(2, "s\t&in use as part by a pod\n");
	(void)bookings_unref(booked);
	clear();

	/* Both are in use, as after a change of `overlap`. */
	add("a", EX, "w\t/dev/0\n");
	add("b", EX, "w\t/dev/0\n");
	booked = bookings_of(whole);
	decisions[0].booked = decisions[1].booked = booked;
	decide();
	expect(0, "");
	expect(1, "");
	(void)bookings_unref(booked);
	booked = bookings_of(none);
	decisions_done(decisions, n_decisions);
	decisions[0].booked = decisions[1].booked = booked;
	decide();
	expect(1, "");
	(void)bookings_unref(booked);
	clear();
}

/* The definition alone: a device is offered unless a resource before offers one of the same
 * hardware, and not both set overlap. */
static bool have_common(const struct hardware_device *a, const struct hardware_device *b)
{
	for (const char *const *x = a->claims; *x; x++)
		for (const char *const *y = b->claims; *y; y++)
			if (streq(*x, *y))
				return true;
	return false;
}

static bool offered(size_t who, size_t device)
{
	for (size_t i = 0; i < who; i++)
		for (size_t k = 0; k < lists[i]->n_devices; k++)
			if (!(decisions[i].overlap && decisions[who].overlap) && offered(i, k) &&
				have_common(&lists[i]->devices[k], &lists[who]->devices[device]))
				return false;
	return true;
}

static void test_definition(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d" };

	srand(1);
	for (unsigned round = 0; round < 2000; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			char text[512] = "";

			for (int d = 0; d < rand() % 4; d++) {
				(void)sprintf(text + strlen(text), "%s%d", names[i], d);
				for (int c = rand() % 2; c < 2; c++)
					(void)sprintf(text + strlen(text), "\t%d", rand() % 5);
				(void)strcat(text, "\n");
			}
			add(names[i], rand() % 2, text);
		}
		decide();
		for (size_t i = 0; i < n_decisions; i++)
			for (size_t k = 0; k < lists[i]->n_devices; k++) {
				char line[64];
				bool refused;

				(void)snprintf(line, sizeof(line), "%s\t", lists[i]->devices[k].id);
				refused = decisions[i].owners && strstr(decisions[i].owners, line);
				assert_int_equal(refused, !offered(i, k));
			}
		clear();
	}
}

static void expect_size(off_t size, int result)
{
	_cleanup_close_ int fd = memfd_create("claims", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct hardware_claims *list = NULL;

	assert_int_equal(ftruncate(fd, size), 0);
	assert_int_equal(
		fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE),
		0);
	assert_int_equal(hardware_claims_read(fd, CLAIMS_MAX, CLAIMS_BYTES_MAX, &list), result);
	assert_null(list);
}

static void expect_parts(size_t n, int result)
{
	_cleanup_free_ char *text = malloc(4 * n);
	_cleanup_(hardware_claims_freep) struct hardware_claims *list = NULL;
	_cleanup_close_ int fd = -EBADF;

	assert_non_null(text);
	for (size_t i = 0; i < n; i++)
		memcpy(text + 4 * i, "x\t<\n", 4);
	fd = sealed_new("claims", text, 4 * n);
	assert_int_equal(hardware_claims_read(fd, CLAIMS_MAX, CLAIMS_BYTES_MAX, &list), result);
}

static void expect_claims(size_t n, int result)
{
	_cleanup_free_ char *text = malloc(n + 2);
	_cleanup_(hardware_claims_freep) struct hardware_claims *list = NULL;
	_cleanup_close_ int fd = -EBADF;

	assert_non_null(text);
	memset(text, '\t', n + 1);
	text[0] = 'x';
	text[n + 1] = '\n';
	fd = sealed_new("claims", text, n + 2);
	assert_int_equal(hardware_claims_read(fd, CLAIMS_MAX, CLAIMS_BYTES_MAX, &list), result);
	assert_int_equal(list ? list->n_claims : 0, result < 0 ? 0 : n);
}

static void test_hostile(void **state)
{
	static const struct {
		const char *text;
		size_t size;
	} cases[] = {
		{ "x", 1 },
		{ "\n", 1 },
		{ "x\n\n", 3 },
		{ "x\n", 2 },
		{ "x\ny\t1\t2\n", 8 },
		{ "\t/dev/x\n", 8 },
		{ "x/y\t1\n", 6 },
		{ "x\0y\t1\n", 6 },
		{ "x\t\xff\n", 4 },
		{ "x\t1\ny", 5 },
		{ "0123456789012345678901234567890123456789012345678901234567890123\t1\n", 67 },
	};
	struct hardware_claims *list = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_close_ int fd = sealed_new("claims", cases[i].text, cases[i].size);

		assert_int_equal(
			hardware_claims_read(fd, CLAIMS_MAX, CLAIMS_BYTES_MAX, &list), -EBADMSG);
		assert_null(list);
	}
	assert_int_equal(
		hardware_claims_read(STDIN_FILENO, CLAIMS_MAX, CLAIMS_BYTES_MAX, &list), -EBADMSG);
	expect_size(CLAIMS_BYTES_MAX + 1, -EFBIG);
	/* All of it is NULs. */
	expect_size(CLAIMS_BYTES_MAX, -EBADMSG);
	expect_claims(CLAIMS_MAX, 0);
	expect_claims(CLAIMS_MAX + 1, -EFBIG);
	/* What a device is a part of counts, too. */
	expect_parts(CLAIMS_MAX, 0);
	expect_parts(CLAIMS_MAX + 1, -EFBIG);
	list = hardware_claims_free(read_list(""));
	list = read_list("x\t\t/a\n");
	assert_int_equal(list->n_devices, 1);
	assert_int_equal(list->n_claims, 2);
	(void)hardware_claims_free(list);
}

/* --- what a child claims --- */

static void test_claims(void **state)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	_cleanup_config_ struct config *config = NULL;
	_cleanup_free_ char *text = NULL;
	struct inventory *inventory = NULL;
	struct device *device;
	size_t n_nodes;

	host_mknod("/dev/card\xff");
	host_mknod("/dev/control");
	host_symlink("card\xff", "/dev/by-id");
	config = declare(
		"driver = \"path\"; match = ( { paths = ( { path = \"/dev/by-id\"; type = "
		"\"device\"; }, { path = \"/dev/control\"; type = \"device\"; limit = 4; } ); "
		"} );");
	assert_int_equal(inventory_new(host_event, declaration_of(config), host_root, NULL, NULL,
				 &inventory),
		0);
	assert_int_equal(inventory_start(inventory, NULL), 0);
	snapshot = inventory_snapshot(inventory);
	/* As a driver does while it scans. */
	device = (struct device *)snapshot->units[0].device;
	assert_int_equal(device_add_claim(device, "pci:0000:03:00.0"), 0);
	assert_int_equal(device_add_claim(device, "a\tb\nc"), 0);
	assert_int_equal(
		hardware_claims_text(declaration_of(config), snapshot, host_root, &text), 0);
	assert_string_equal(text,
		"by-id+control\t/dev/card?\t@/dev/by-id\tpci:0000:03:00.0\ta?b?c\n\t+/dev/control\n");
	assert_int_equal(device_count_claims(device), 3);
	/* A device without hardware has no line. */
	device->claims.count = 0;
	n_nodes = device->n_nodes;
	device->n_nodes = 0;
	free(text);
	text = NULL;
	assert_int_equal(
		hardware_claims_text(declaration_of(config), snapshot, host_root, &text), 0);
	assert_string_equal(text, "");
	device->claims.count = 2;
	device->n_nodes = n_nodes;
	(void)inventory_free(inventory);
}

/* A container gets the nodes in a directory, which other resources may offer one by one. */
static void test_claims_of_directories(void **state)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	_cleanup_config_ struct config *config = NULL;
	_cleanup_free_ char *text = NULL;
	struct inventory *inventory = NULL;

	host_mkdir("/dev/snd/by-id");
	host_mknod("/dev/snd/controlC0");
	host_symlink("../controlC0", "/dev/snd/by-id/usb-A");
	host_mkdir("/dev/dri");
	host_mknod("/dev/dri/card0");
	host_mknod("/dev/x");
	config = declare("driver = \"path\"; match = ( \"/dev/snd\", { paths = ( \"/dev/x\", "
			 "{ path = \"/dev/dri\"; limit = 2; } ); } );");
	assert_int_equal(inventory_new(host_event, declaration_of(config), host_root, NULL, NULL,
				 &inventory),
		0);
	assert_int_equal(inventory_start(inventory, NULL), 0);
	snapshot = inventory_snapshot(inventory);
	assert_int_equal(
		hardware_claims_text(declaration_of(config), snapshot, host_root, &text), 0);
	assert_string_equal(
		text, "snd\t/dev/snd\t/dev/snd/controlC0\nx+dri\t/dev/x\n\t+/dev/dri\n");
	/* A new one is claimed, too. */
	host_mknod("/dev/snd/pcmC0D0p");
	for (int i = 0; i < 100 && !strstr(text, "pcmC0D0p"); i++) {
		assert_true(sd_event_run(host_event, UINT64_C(100000)) >= 0);
		snapshot = snapshot_unref(snapshot);
		free(text);
		text = NULL;
		snapshot = inventory_snapshot(inventory);
		assert_int_equal(
			hardware_claims_text(declaration_of(config), snapshot, host_root, &text),
			0);
	}
	assert_non_null(strstr(text, "\t/dev/snd/pcmC0D0p"));
	(void)inventory_free(inventory);
}

/* What a container gets with a device in addition, and what may go stale in its variables. */
static void test_P21_marks(void **state)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	_cleanup_config_ struct config *config = NULL;
	_cleanup_free_ char *text = NULL;
	struct inventory *inventory = NULL;

	host_mknod("/dev/x7");
	host_mknod("/dev/of7");
	host_mknod("/dev/all");
	host_symlink("all", "/dev/link");
	config = declare(
		"driver = \"path\"; match = ( { path = \"/dev/x*\"; type = \"device\"; } ); container = "
		"{ nodes = ( \"/dev/of${number}\", \"?/dev/no${number}\", \"/dev/link\" ); env = ( "
		"\"N=${number}\", \"ID=${id}\", \"INFO=${info}\" ); annotations = ( \"a.b/n=${number}\" ); "
		"};");
	assert_int_equal(inventory_new(host_event, declaration_of(config), host_root, NULL, NULL,
				 &inventory),
		0);
	assert_int_equal(inventory_start(inventory, NULL), 0);
	snapshot = inventory_snapshot(inventory);
	assert_int_equal(
		hardware_claims_text(declaration_of(config), snapshot, host_root, &text), 0);
	assert_string_equal(text,
		"x7\t/dev/x7\t+/dev/of7\t$N=7\t%INFO={\"x7\":{\"generic\":"
		"{\"deviceID\":\"x7\"}}}\t$a.b/n=7\n"
		"\t+/dev/no7\t+/dev/all\n");
	(void)inventory_free(inventory);
}

/* What belongs to others is unhealthy here, is not offered, and is forgotten when it goes. */
static void test_owners(void **state)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	_cleanup_config_ struct config *config = NULL;
	struct inventory *inventory = NULL;

	log_setup("test-ownership", LOG_TARGET_TEXT, LOG_CRIT);
	host_mknod("/dev/card0");
	host_mknod("/dev/card1");
	config = declare(
		"driver = \"path\"; match = ( { path = \"/dev/card*\"; type = \"device\"; } );");
	assert_int_equal(inventory_new(host_event, declaration_of(config), host_root, NULL, NULL,
				 &inventory),
		0);
	assert_int_equal(inventory_start(inventory, NULL), 0);
	assert_int_equal(
		inventory_set_owners(inventory, "card1\tv.e/other\nnone\tv.e/x\nodd\n"), 1);
	assert_int_equal(inventory_set_owners(inventory, "card1\tv.e/other\n"), 0);
	snapshot = inventory_snapshot(inventory);
	assert_false(snapshot->units[0].claimed_by_other);
	assert_true(snapshot->units[1].claimed_by_other);
	assert_false(snapshot->units[1].healthy);
	assert_string_equal(snapshot->units[1].reason, "claimed by v.e/other");

	assert_int_equal(inventory_set_owners(inventory, "card1\tv.e/other\ncard0\t!because\n"), 1);
	assert_int_equal(inventory_set_owners(inventory, "card1\tv.e/other\ncard0\t!because\n"), 0);
	snapshot = snapshot_unref(snapshot);
	snapshot = inventory_snapshot(inventory);
	assert_int_equal(snapshot->units[0].cause, CAUSE_STALE);
	assert_string_equal(snapshot->units[0].reason, "because");
	assert_false(snapshot->units[0].claimed_by_other);
	assert_int_equal(inventory_set_owners(inventory, "card1\tv.e/other\n"), 1);
	snapshot = snapshot_unref(snapshot);
	snapshot = inventory_snapshot(inventory);
	assert_true(snapshot->units[0].healthy);

	host_remove("/dev/card1");
	RUN_UNTIL((snapshot = snapshot_unref(snapshot), snapshot = inventory_snapshot(inventory),
		snapshot->n_units == 1));
	host_mknod("/dev/card1");
	RUN_UNTIL((snapshot = snapshot_unref(snapshot), snapshot = inventory_snapshot(inventory),
		snapshot->n_units == 2));
	assert_int_equal(inventory_set_owners(inventory, "card0\tv.e/other\n"), 1);
	assert_int_equal(inventory_set_owners(inventory, ""), 0);
	RUN_UNTIL((snapshot = snapshot_unref(snapshot), snapshot = inventory_snapshot(inventory),
		!snapshot->units[0].claimed_by_other));
	assert_true(snapshot->units[0].healthy);

	/* The other one has seen it go first, and lets it go. */
	assert_int_equal(inventory_set_owners(inventory, "card0\tv.e/other\n"), 1);
	host_remove("/dev/card0");
	assert_int_equal(inventory_set_owners(inventory, ""), 0);
	snapshot = snapshot_unref(snapshot);
	snapshot = inventory_snapshot(inventory);
	assert_int_equal(snapshot->n_units, 2);
	assert_true(snapshot->units[0].claimed_by_other);
	RUN_UNTIL((snapshot = snapshot_unref(snapshot), snapshot = inventory_snapshot(inventory),
		snapshot->n_units == 1));
	assert_string_equal(snapshot->units[0].device->id, "card1");
	(void)inventory_free(inventory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decision),
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_exclusive),
		cmocka_unit_test(test_P17_booked),
		cmocka_unit_test(test_P17_booked_and_shared),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_definition),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test_setup_teardown(test_claims, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(
			test_claims_of_directories, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_P21_marks, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(test_owners, host_setup, host_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
