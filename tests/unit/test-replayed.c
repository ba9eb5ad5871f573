/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which answers to Allocate are outdated, and which devices are unhealthy because of them.
 */
#include "host-fixture.h"

#include "common/sealed.h"
#include "supervisor/ownership/ownership.h"
#include "supervisor/ownership/replayed.h"

#define MAX 3

static struct decision decisions[MAX];
static struct hardware_claims *lists[MAX];
static struct bookings *bookings[MAX];
static size_t n_decisions;

static void add(const char *name, int overlap, const char *claims)
{
	size_t i = n_decisions++;
	_cleanup_close_ int fd = sealed_new("claims", claims, strlen(claims));

	assert_true(fd >= 0);
	assert_int_equal(hardware_claims_read(fd, CLAIMS_MAX, CLAIMS_BYTES_MAX, &lists[i]), 0);
	assert_int_equal(bookings_new(&bookings[i]), 0);
	decisions[i] = (struct decision){
		.name = name,
		.overlap = overlap,
		.root = host_root,
		.list = lists[i],
		.booked = bookings[i],
	};
}

static void add_words(struct strings *strings, const char *words)
{
	while (*words) {
		size_t length = strcspn(words, " ");

		assert_int_equal(strings_add(strings, words, length), 0);
		words += length + (words[length] == ' ');
	}
}

static void add_answer(bool follows, const char *ids, const char *nodes, const char *values)
{
	struct booked_answer parts = { .follows = follows };

	add_words(&parts.ids, ids);
	add_words(&parts.nodes, nodes);
	add_words(&parts.values, values);
	assert_int_equal(bookings_add_answer(bookings[n_decisions - 1], &parts.ids, &parts), 0);
	booked_answer_done(&parts);
}

/* Words of ids that are booked for the last resource. */
static void book(const char *ids, unsigned uses)
{
	struct strings list = { 0 };

	add_words(&list, ids);
	for (size_t i = 0; i < list.count; i++)
		assert_int_equal(
			bookings_add(bookings[n_decisions - 1], list.items[i], uses, NULL, 0, 0),
			0);
	assert_int_equal(bookings_sort(bookings[n_decisions - 1]), 0);
	strings_done(&list);
}

/* Words of an answer of the last resource, and of the CDI file of a claim. */
static void answer(const char *ids, const char *nodes, const char *values)
{
	add_answer(false, ids, nodes, values);
}

static void claim_file(const char *ids, const char *nodes)
{
	add_answer(true, ids, nodes, "");
}

static void decide(void)
{
	assert_int_equal(ownership_decide(decisions, n_decisions), 0);
}

/* `owners`: the result. */
static void expect(size_t index, const char *owners, bool replays)
{
	assert_string_equal(decisions[index].owners ?: "", owners);
	assert_int_equal(decisions[index].replays, replays);
}

static void clear(void)
{
	decisions_done(decisions, n_decisions);
	for (size_t i = 0; i < n_decisions; i++) {
		lists[i] = hardware_claims_free(lists[i]);
		bookings[i] = bookings_unref(bookings[i]);
	}
	n_decisions = 0;
}

#define ITS_POD(id, old, new)                                                              \
	id "\t!its pod uses /dev/" old ", but the device is /dev/" new " now: delete the " \
								       "pod\n"
#define A_POD(id, node, held, resource)                                                           \
	id "\t!a pod with device \"" held "\" of " resource " uses /dev/" node ", which is this " \
	   "device now: delete that pod\n"

static void make_nodes(void)
{
	for (char name[] = "/dev/0"; name[5] < '4'; name[5]++)
		host_mknod(name);
}

/* Two devices have changed places; one has; one is another's; one has another place. */
static void test_P21_places(void **state)
{
	make_nodes();
	add("r", false, "a\t/dev/1\nb\t/dev/0\n");
	answer("a", "/dev/0", "");
	answer("b", "/dev/1", "");
	decide();
	expect(0,
		ITS_POD("a", "0", "1") ITS_POD("b", "1", "0") A_POD("a", "1", "b", "r")
			A_POD("b", "0", "a", "r"),
		true);
	clear();

	add("r", false, "a\t/dev/1\nb\t/dev/0\n");
	answer("a", "/dev/0", "");
	decide();
	expect(0, ITS_POD("a", "0", "1") A_POD("b", "0", "a", "r"), true);
	clear();

	/* As USB devices do. */
	add("r", false, "a\t/dev/1\n");
	answer("a", "/dev/absent", "");
	decide();
	expect(0, ITS_POD("a", "absent", "1"), true);
	clear();

	/* Only one of two nodes, which is of no device of a resource now. */
	add("r", false, "a\t/dev/1\t/dev/2\n");
	answer("a", "/dev/0 /dev/2", "");
	decide();
	expect(0, ITS_POD("a", "0", "1"), true);
	clear();
}

/* Right answers: the same node by another path, a node more or less, what all devices have, and all
 * devices in one container. */
static void test_P21_right(void **state)
{
	make_nodes();
	host_mkdir("/dev/by-id");
	host_symlink("../0", "/dev/by-id/a");
	host_symlink("/dev/0", "/dev/by-id/absolute");
	add("r", false,
		"a\t/dev/0\t+/dev/2\nb\t/dev/1\t?/dev/3\tpci:0000:03:00.0\n\t+/dev/all\t+/dev/2\n");
	answer("a", "/dev/by-id/a /dev/2 /dev/all", "");
	answer("a#3", "/dev/0 /dev/2", "");
	answer("a", "/dev/0 /dev/2 /dev/of-a-program", "");
	answer("a", "/dev/0", "");
	answer("b", "/dev/1 /dev/all", "");
	answer("b", "/dev/1 /dev/3", "");
	answer("a b", "/dev/1 /dev/0 /dev/2", "");
	answer("a", "", "A=b");
	/* What cannot be resolved is not compared. */
	answer("b", "/dev/by-id/absolute", "");
	decide();
	expect(0, "", false);
	/* A link that leads elsewhere. */
	answer("b", "/dev/by-id/a", "");
	decisions_done(decisions, n_decisions);
	decide();
	expect(0,
		"b\t!its pod uses /dev/by-id/a, but the device is /dev/1 now: delete the pod\n" A_POD(
			"a", "by-id/a", "b", "r"),
		true);
	clear();
}

/* A device that is not found any more keeps its nodes from others, in any resource. */
static void test_P21_removed(void **state)
{
	make_nodes();
	add("first", false, "x\t/dev/0\ny\t?/dev/0\nz\t+/dev/0\n");
	add("r", false, "a\t/dev/1\n\t+/dev/2\n");
	answer("gone a", "/dev/0 /dev/1 /dev/2", "");
	add("last", false, "x\t/dev/2\nu\t/dev/3\n");
	decide();
	expect(0, A_POD("x", "0", "gone", "r") A_POD("z", "0", "gone", "r"), false);
	expect(1, "", true);
	expect(2, "", false);
	clear();

	/* Both overlap, or one of them. */
	for (unsigned both = 0; both < 2; both++) {
		add("r", true, "a\t/dev/1\n");
		answer("gone", "/dev/0", "");
		add("s", both, "x\t/dev/0\n");
		decide();
		expect(1, both ? "" : A_POD("x", "0", "gone", "r"), false);
		clear();
	}

	/* Before a process has sent its claims, nothing is known. */
	add("r", false, "");
	answer("gone", "/dev/0", "");
	decisions[0].list = NULL;
	add("s", false, "x\t/dev/0\n");
	decide();
	expect(0, "", false);
	expect(1, "", false);
	clear();
}

#define FORMER(id, former) \
	id "\t!a pod holds this device under its former id \"" former "\": delete that pod\n"

/* A configuration of driver "path" was replaced by one that finds the same devices under other ids.
 * The answers to Allocate have only names of CDI devices. */
static void test_P21_former_ids(void **state)
{
	static const unsigned uses[] = { BOOKED_IN_PLUGIN, BOOKED_BY_CLAIM };

	make_nodes();
	host_mkdir("/dev/serial/by-id");
	host_symlink("../../1", "/dev/serial/by-id/usb-A");
	for (size_t i = 0; i < ARRAY_SIZE(uses); i++) {
		add("r", false, "new-0\t/dev/0\nnew-1\t/dev/1\nnew-2\t/dev/2\nnew-3\t?/dev/3\n");
		book("0#17 serial:by-id:usb-A 2+3 new-2#1 absent", uses[i]);
		add("s", false, "x\t/dev/0\n");
		decide();
		expect(0,
			FORMER("new-0", "0#17") FORMER("new-2", "2+3") FORMER("new-3", "2+3")
				FORMER("new-1", "serial:by-id:usb-A"),
			true);
		/* Other resources may have other devices under such ids. */
		expect(1, "x\tr\n", false);
		clear();
	}

	/* The pod has ended, and what is no path of a node. */
	add("r", false, "new-0\t/dev/0\n");
	book("0", BOOKED_BY_PLUGIN);
	book(":: + #1 ..:dev:0 0+", BOOKED_BY_ADMIN);
	decide();
	expect(0, "", false);
	clear();

	/* The device still has the id. */
	add("r", false, "0\t/dev/0\nnew\t/dev/1\n");
	book("0 0#3", BOOKED_IN_PLUGIN);
	decide();
	expect(0, "", false);
	clear();
}

/* The owner of a device counts first; a wrong answer of another resource is found as well. */
static void test_P21_owners(void **state)
{
	make_nodes();
	add("r", false, "a\t/dev/0\n");
	add("s", false, "x\t/dev/1\ny\t/dev/0\n");
	answer("x", "/dev/0", "");
	decide();
	expect(0, A_POD("a", "0", "x", "s"), false);
	expect(1, "y\tr\n" ITS_POD("x", "0", "1") A_POD("y", "0", "x", "s"), true);
	clear();
}

static void test_P21_values(void **state)
{
	static const struct {
		const char *mark, *ids, *values;
		bool outdated;
	} cases[] = {
		{ "$G=7", "a", "G=7", false },
		{ "$G=7", "a", "G=70", true },
		{ "$G=7", "a", "G=17,7", false },
		{ "$G=7", "a", "G=7,17", false },
		{ "$G=7", "a", "G=17,77,71", true },
		{ "$G=7,8", "a", "G=6,7,8", false },
		{ "$G=", "a", "G=1", true },
		{ "$G=", "a", "G=1,", false },
		{ "$G=7", "a", "H=8 GG=8", false },
		{ "$G=7", "a", "G=8 G=7", false },
		{ "%G={7}", "a", "G={7}", false },
		{ "%G={7}", "a", "G={8}", true },
		{ "%G={7}", "a b", "G={7},{8}", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char claims[64];

		(void)snprintf(claims, sizeof(claims), "a\t%s\nb\t/dev/9\n", cases[i].mark);
		add("r", false, claims);
		answer(cases[i].ids, "", cases[i].values);
		decide();
		assert_int_equal(decisions[0].replays, cases[i].outdated);
		if (cases[i].outdated)
			assert_non_null(strstr(decisions[0].owners,
				"a\t!its pod uses another value of G, which is \""));
		else
			assert_null(decisions[0].owners);
		clear();
	}
}

/* The links of udev are relative, and lead to other directories of /dev. */
static void test_P21_links(void **state)
{
	make_nodes();
	host_mkdir("/dev/serial");
	host_mkdir("/dev/other");
	host_symlink(".././other//../next", "/dev/serial/x");
	host_symlink("0", "/dev/next");
	host_symlink("again", "/dev/again");
	add("r", false, "a\t/dev/1\nb\t/dev/0\n");
	answer("a", "/dev/serial/x", "");
	decide();
	expect(0, ITS_POD("a", "serial/x", "1") A_POD("b", "serial/x", "a", "r"), true);
	clear();

	/* A link to itself leads to nothing. */
	add("r", false, "a\t/dev/1\n");
	answer("a", "/dev/again", "");
	decide();
	expect(0, ITS_POD("a", "again", "1"), true);
	clear();
}

/* A file system that an answer leads to cannot block the caller. */
static void test_P21_other_file_system(void **state)
{
	static const char *const paths[] = { "/dev/../etc", "/dev/fs/x", "/dev/root", "/etc/x" };

	make_nodes();
	host_mkdir("/etc");
	host_symlink("..", "/dev/root");
	host_symlink("/proc/self", "/dev/fs");
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		add("r", false, "a\t/dev/1\n");
		answer("a", paths[i], "");
		decide();
		expect(0, "", false);
		clear();
	}
}

/* Neither many nodes nor odd characters harm others. */
static void test_P21_hostile(void **state)
{
	static char text[(REPLAYED_PATHS_MAX + 2) * sizeof("/dev/n0000 ")];
	char *at = text;

	make_nodes();
	for (unsigned i = 0; i <= REPLAYED_PATHS_MAX; i++)
		at += sprintf(at, "/dev/n%u ", i);
	at[-1] = '\0';
	add("r", false, "a\t/dev/1\n");
	answer("a", text, "");
	answer("a", "/dev/0", "");
	add("s", false, "a\t/dev/2\n");
	answer("a", "/dev/3", "");
	decide();
	expect(0, "", false);
	expect(1, ITS_POD("a", "3", "2"), true);
	clear();

	add("r", false, "");
	answer("go\nb\tr", "/dev/1\nb\tr", "");
	add("s", false, "b\t/dev/1?b?r\n");
	decide();
	expect(1, A_POD("b", "1?b?r", "go?b?r", "r"), false);
	clear();
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, host_setup, host_teardown)

/* The CDI file of a claim follows its devices, but only while all of them are there. */
static void test_P21_claims(void **state)
{
	make_nodes();
	add("r", false, "a\t/dev/1\nb\t/dev/0\n");
	claim_file("a", "/dev/0");
	decide();
	expect(0, "", false);
	clear();

	add("r", false, "b\t/dev/0\n");
	claim_file("a", "/dev/0");
	add("s", false, "c\t/dev/1\n");
	decide();
	expect(0, A_POD("b", "0", "a", "r"), false);
	expect(1, "", false);
	clear();

	/* Its other device is another's by now. */
	add("r", false, "b\t/dev/2\nc\t/dev/1\n");
	claim_file("a b", "/dev/0 /dev/1");
	decide();
	expect(0, ITS_POD("b", "0", "2") A_POD("c", "1", "a", "r"), false);
	clear();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_P21_places),
		TEST(test_P21_right),
		TEST(test_P21_removed),
		TEST(test_P21_former_ids),
		TEST(test_P21_owners),
		TEST(test_P21_values),
		TEST(test_P21_links),
		TEST(test_P21_other_file_system),
		TEST(test_P21_claims),
		TEST(test_P21_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
