/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owners of devices while claims of several resources appear, grow and disappear during a
 * decision: the answers match the last claims, and too many claims are refused.
 */
#include "host-fixture.h"

#include <sys/resource.h>

#include "common/log.h"
#include "common/sealed.h"
#include "drivers/model/bookings.h"
#include "drivers/model/device.h"
#include "supervisor/ownership/arbiter.h"
#include "supervisor/ownership/taken.h"

#define CLAIMANTS 10
#define MANY      20000

static sd_event *event;
static struct arbiter *arbiter;

static struct seat {
	struct claimant *claimant;
	char *owners; /* of the last answer */
	uint64_t number;
	unsigned malformed, answers, scans;
	uint64_t scan; /* the number of the last one that it was asked for */
	bool refused, starting, scans_at_once, cannot_scan;
} seats[CLAIMANTS];

static int answer(uint64_t number, int fd, const char *refusal, void *userdata)
{
	struct seat *seat = userdata;
	size_t size;

	free(seat->owners);
	seat->owners = NULL;
	if (fd >= 0)
		assert_int_equal(sealed_read(fd, 64 << 20, &seat->owners, &size), 0);
	else
		seat->owners = strdup("");
	seat->number = number;
	seat->refused = *refusal;
	seat->answers++;
	return 0;
}

static int scan(uint64_t number, void *userdata)
{
	struct seat *seat = userdata;

	seat->scan = number;
	seat->scans++;
	if (seat->scans_at_once)
		claimant_scanned(seat->claimant, number);
	return seat->cannot_scan ? -EOPNOTSUPP : 0;
}

static bool is_starting(void *userdata)
{
	return ((struct seat *)userdata)->starting;
}

static void on_malformed(void *userdata)
{
	((struct seat *)userdata)->malformed++;
}

static const char *root(void *userdata)
{
	return "";
}

static void on_change(void *userdata)
{
}

static const struct claimant_operations operations = {
	.answer = answer,
	.scan = scan,
	.is_starting = is_starting,
	.on_malformed = on_malformed,
	.root = root,
	.on_note = on_change,
	.on_replays = on_change,
};

static int setup(void **state)
{
	static const char *const names[CLAIMANTS] = { "v.example/a", "v.example/b", "v.example/c",
		"v.example/d", "v.example/e", "v.example/f", "v.example/g", "v.example/h",
		"v.example/i", "v.example/j" };

	log_setup("test-arbiter", LOG_TARGET_TEXT, LOG_CRIT);
	assert_int_equal(sd_event_new(&event), 0);
	assert_int_equal(arbiter_new(event, &arbiter), 0);
	for (size_t i = 0; i < CLAIMANTS; i++) {
		seats[i] = (struct seat){ .scans_at_once = true };
		assert_int_equal(
			arbiter_add(arbiter, names[i], &operations, &seats[i], &seats[i].claimant),
			0);
		claimant_set_rank(seats[i].claimant, i);
	}
	return 0;
}

static int teardown(void **state)
{
	for (size_t i = 0; i < CLAIMANTS; i++) {
		seats[i].claimant = claimant_free(seats[i].claimant);
		free(seats[i].owners);
	}
	arbiter = arbiter_free(arbiter);
	event = sd_event_unref(event);
	return 0;
}

static void submit(size_t i, uint64_t number, const char *text)
{
	int fd = sealed_new("claims", text, strlen(text));

	assert_true(fd >= 0);
	claimant_submit(seats[i].claimant, fd, number);
}

/* Devices "PREFIX-0", ..., each with the claim of its number. */
static void submit_some(size_t i, uint64_t number, const char *prefix, unsigned count)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	for (unsigned n = 0; n < count; n++)
		(void)fprintf(stream, "%s-%u\t%u\n", prefix, n, n);
	(void)fclose(stream);
	submit(i, number, text);
	free(text);
}

static void submit_many(size_t i, uint64_t number, const char *prefix)
{
	submit_some(i, number, prefix, MANY);
}

static void turn(void)
{
	assert_true(sd_event_run(event, USEC_PER_SEC) >= 0);
}

static void await(size_t i, uint64_t number)
{
	while (seats[i].number != number)
		turn();
}

static void test_answers(void **state)
{
	submit(0, 1, "x\t1\n");
	submit(1, 1, "y\t1\nz\t2\n");
	submit(2, 1, "p\t2\n");
	await(2, 1);
	assert_string_equal(seats[0].owners, "");
	assert_string_equal(seats[1].owners, "y\tv.example/a\n");
	assert_string_equal(seats[2].owners, "p\tv.example/b\n");
	submit(0, 2, "x\t2\n");
	await(0, 2);
	while (strcmp(seats[1].owners, "z\tv.example/a\n") != 0)
		turn();
	submit(2, 2, "\t\n");
	while (seats[2].malformed == 0)
		turn();
}

/* Each is allowed, all together are not: what comes last is refused, and nothing else. */
static void test_P18_no_room(void **state)
{
	submit_many(0, 1, "a");
	submit_many(1, 1, "b");
	submit(2, 1, "z\t7\n");
	for (size_t i = 0; i < 3; i++) {
		await(i, 1);
		assert_false(seats[i].refused);
	}
	submit_many(2, 2, "c");
	await(2, 2);
	assert_true(seats[2].refused);
	assert_non_null(claimant_note(seats[2].claimant));
	/* Its earlier claims are still known. */
	assert_string_equal(seats[2].owners, "z\tv.example/a\n");
	submit(0, 2, "x\t1\n");
	await(0, 2);
	while (strcmp(seats[2].owners, "z\tv.example/b\n") != 0)
		turn();
	assert_true(seats[2].refused);
	submit_many(2, 3, "c");
	await(2, 3);
	assert_false(seats[2].refused);
	assert_null(claimant_note(seats[2].claimant));
	for (size_t i = 0; i < CLAIMANTS; i++)
		assert_int_equal(seats[i].malformed, 0);
}

/* Others claim all that is allowed: an equal share is accepted all the same. */
static void test_P18_share(void **state)
{
	submit_some(0, 1, "a", CLAIMS_MAX);
	await(0, 1);
	assert_false(seats[0].refused);
	submit_some(1, 1, "b", CLAIMS_MAX / CLAIMANTS);
	await(1, 1);
	assert_false(seats[1].refused);
	submit_some(1, 2, "b", CLAIMS_MAX / CLAIMANTS + 1);
	await(1, 2);
	assert_true(seats[1].refused);
}

static void submit_long(size_t i, uint64_t number, size_t size)
{
	_cleanup_free_ char *text = malloc(size + 1);

	assert_non_null(text);
	memset(text, 'c', size);
	memcpy(text, "id\t", strlen("id\t"));
	text[size - 1] = '\n';
	text[size] = '\0';
	submit(i, number, text);
}

/* Few claims of many bytes. */
static void test_P18_long_claims(void **state)
{
	for (size_t i = 0; i < 3; i++) {
		submit_long(i, 1, 3 << 20);
		await(i, 1);
		assert_int_equal(seats[i].refused, i == 2);
	}
	for (size_t i = 0; i < CLAIMANTS; i++)
		assert_int_equal(seats[i].malformed, 0);
}

/* devplugd has no memory for them: the child keeps running, and they are read later. */
static void test_claims_without_memory(void **state)
{
#ifdef __SANITIZE_ADDRESS__
	skip();
#endif
	struct rlimit limit, none;

	submit_long(0, 1, 7 << 20);
	assert_int_equal(getrlimit(RLIMIT_DATA, &limit), 0);
	none = limit;
	none.rlim_cur = 1;
	assert_int_equal(setrlimit(RLIMIT_DATA, &none), 0);
	for (unsigned i = 0; i < 5; i++)
		turn();
	assert_int_equal(seats[0].malformed, 0);
	assert_null(seats[0].owners);
	assert_int_equal(setrlimit(RLIMIT_DATA, &limit), 0);
	await(0, 1);
	assert_int_equal(seats[0].malformed, 0);
}

static void test_changes(void **state)
{
	submit_many(0, 1, "a");
	submit(1, 1, "y\t7\n");
	submit(0, 2, "x\t1\n");
	await(0, 2);
	assert_string_equal(seats[0].owners, "");
	while (strcmp(seats[1].owners ?: "-", "") != 0)
		turn();

	submit_many(0, 3, "a");
	seats[0].claimant = claimant_free(seats[0].claimant);
	submit(1, 2, "y\t7\n");
	await(1, 2);
	assert_string_equal(seats[1].owners, "");

	submit_many(1, 3, "b");
	submit(2, 1, "z\t7\n");
	await(2, 1);
	assert_string_equal(seats[2].owners, "z\tv.example/b\n");
	claimant_drop_claims(seats[1].claimant);
	claimant_end_process(seats[1].claimant);
	while (strcmp(seats[2].owners, "") != 0)
		turn();
}

static void book(size_t i, const char *id)
{
	_cleanup_bookings_ struct bookings *bookings = NULL;

	assert_int_equal(bookings_new(&bookings), 0);
	if (*id)
		assert_int_equal(bookings_add(bookings, id, BOOKED_IN_PLUGIN, NULL, 0, 0), 0);
	claimant_set_booked(seats[i].claimant, bookings);
}

/* A pod has a device that becomes another resource's. */
static void test_P17_booked(void **state)
{
	const char *kept = "x\tv.example/b, where a pod still uses it\n";

	/* The owner has to wait for the one that might have it. */
	seats[1].starting = true;
	book(1, "y");
	submit(0, 1, "x\t1\n");
	for (unsigned i = 0; i < 4; i++)
		turn();
	assert_int_equal(seats[0].number, 0);
	submit(1, 1, "y\t1\n");
	await(0, 1);
	assert_string_equal(seats[0].owners, kept);
	await(1, 1);
	assert_string_equal(seats[1].owners, "y\tv.example/a\n");
	/* The pod ends; another one begins. */
	book(1, "z");
	while (strcmp(seats[0].owners, "") != 0)
		turn();
	book(1, "y");
	while (strcmp(seats[0].owners, kept) != 0)
		turn();
	submit_many(2, 1, "c");
	book(1, "");
	while (strcmp(seats[0].owners, "") != 0)
		turn();
}

/* Something is plugged in. The first in the file scans later than the others. */
static void test_hot_plug(void **state)
{
	for (size_t i = 0; i < 4; i++) {
		seats[i].scans_at_once = false;
		submit(i, 1, i == 1 ? "b\t2\n" : "");
	}
	seats[0].cannot_scan = true;
	for (size_t i = 0; i < 4; i++)
		await(i, 1);
	assert_int_equal(seats[1].scans, 0);

	submit(2, 2, "c\t7\n");
	while (seats[1].scans == 0)
		turn();
	for (unsigned i = 0; i < 4; i++)
		turn();
	assert_int_equal(seats[2].number, 1);
	/* Those after it are not asked, and what another one loses does not wait. */
	assert_int_equal(seats[2].scans, 0);
	assert_int_equal(seats[3].scans, 0);
	submit(3, 2, "");
	await(3, 2);
	assert_int_equal(seats[2].number, 1);
	/* A number that it was not asked for. */
	claimant_scanned(seats[1].claimant, seats[1].scan + 1);
	for (unsigned i = 0; i < 4; i++)
		turn();
	assert_int_equal(seats[2].number, 1);
	submit(1, 2, "b\t2\nbb\t7\n");
	claimant_scanned(seats[1].claimant, seats[1].scan);
	await(2, 2);
	assert_string_equal(seats[2].owners, "c\tv.example/b\n");
	await(1, 2);
	assert_string_equal(seats[1].owners, "");
	/* The one that waited was answered once. */
	assert_int_equal(seats[2].answers, 2);
}

/* A process that answers an earlier one of several requests scans in time. */
static void test_answer_to_an_earlier_scan(void **state)
{
	uint64_t first;

	for (size_t i = 0; i < 4; i++)
		submit(i, 1, "");
	for (size_t i = 0; i < 4; i++)
		await(i, 1);
	seats[0].cannot_scan = true;
	seats[1].scans_at_once = false;
	submit(2, 2, "c\t7\n");
	while (seats[1].scans == 0)
		turn();
	first = seats[1].scan;
	submit(3, 2, "d\t8\n");
	while (seats[1].scan == first)
		turn();
	claimant_scanned(seats[1].claimant, first);
	await(2, 2);
	assert_int_equal(seats[3].number, 1);
	claimant_scanned(seats[1].claimant, seats[1].scan);
	await(3, 2);
}

/* Nothing else is plugged in: a device changes its claims while another scan runs. */
static void test_hot_plug_in_steps(void **state)
{
	submit(0, 1, "");
	submit(1, 1, "");
	await(1, 1);
	seats[0].scans_at_once = false;
	submit(1, 2, "b\t1\n");
	while (seats[0].scans < 1)
		turn();
	submit(1, 3, "b\t1\t2\n");
	while (seats[0].scans < 2)
		turn();
	/* The process ends, and its claims stay. */
	claimant_end_process(seats[0].claimant);
	await(1, 3);
	assert_string_equal(seats[1].owners, "");
	submit(1, 4, "b\t1\n");
	await(1, 4);
	submit(1, 5, "b\t1\t3\n");
	await(1, 5);
	assert_int_equal(seats[0].scans, 2);
}

/* A resource that does not answer delays others once, and for a limited time. */
static void test_P18_no_scan(void **state)
{
	uint64_t begun, delay;

	submit(0, 1, "");
	submit(1, 1, "");
	await(1, 1);
	seats[0].scans_at_once = false;
	begun = now_usec(CLOCK_MONOTONIC);
	submit(1, 2, "b\t1\n");
	await(1, 2);
	delay = now_usec(CLOCK_MONOTONIC) - begun;
	assert_true(delay >= ARBITER_TIMEOUT);
	begun = now_usec(CLOCK_MONOTONIC);
	submit(1, 3, "b\t2\n");
	await(1, 3);
	assert_int_equal(seats[0].scans, 2);
	assert_true(now_usec(CLOCK_MONOTONIC) - begun < delay);
}

/* A compromised process cannot keep others busy. */
static void test_P18_scans(void **state)
{
	char text[32];

	submit(0, 1, "");
	submit(1, 1, "");
	await(1, 1);
	for (unsigned i = 2; i < ARBITER_SCANS_MAX + 4; i++) {
		(void)snprintf(text, sizeof(text), "b\t%u\n", i);
		submit(1, i, text);
		await(1, i);
		assert_int_equal(seats[0].scans, MIN_OF(i - 1, (unsigned)ARBITER_SCANS_MAX));
	}
}

/* The kubelet's data can be read later than the devices: a pod has one under its former id. */
static void test_P21_booked_later(void **state)
{
	submit(0, 1, "x\t/dev/null\n");
	await(0, 1);
	assert_string_equal(seats[0].owners, "");
	book(0, "null");
	while (strcmp(seats[0].owners,
		       "x\t!a pod holds this device under its former id \"null\": delete that "
		       "pod\n") != 0)
		turn();
	assert_true(claimant_replays(seats[0].claimant));
	book(0, "");
	while (strcmp(seats[0].owners, "") != 0)
		turn();
	assert_false(claimant_replays(seats[0].claimant));
}

static uint64_t cpu_time(void)
{
	return now_usec(CLOCK_PROCESS_CPUTIME_ID);
}

/* One message does not cost more because it names more devices, and devices that are not offered
 * do not count. */
static void test_P18_many_taken(void **state)
{
	static char names[1024][16];
	const char *ids[ARRAY_SIZE(names)], *unknown = "c-0";
	struct error error = { 0 };
	uint64_t once, all;

	claimant_set_overlap(seats[0].claimant, OVERLAP_EXCLUSIVE);
	claimant_set_overlap(seats[1].claimant, OVERLAP_EXCLUSIVE);
	submit_many(0, 1, "a");
	submit_some(1, 1, "b", 2);
	await(0, 1);
	await(1, 1);
	once = cpu_time();
	assert_int_equal(claimant_take(seats[0].claimant, &unknown, 1, &error), 0);
	once = cpu_time() - once;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		(void)snprintf(names[i], sizeof(names[i]), "a-%zu", i + 1);
		ids[i] = names[i];
	}
	all = cpu_time();
	assert_int_equal(claimant_take(seats[0].claimant, ids, ARRAY_SIZE(names), &error), 0);
	all = cpu_time() - all;
	if (all > 100 * MAX_OF(once, USEC_PER_MSEC))
		fail_msg("%zu devices took %llu us, one took %llu us", ARRAY_SIZE(names),
			(unsigned long long)all, (unsigned long long)once);
	while (!streq(seats[1].owners, "b-1\t&in use as v.example/a by a pod\n"))
		turn();
	submit_some(0, 2, "c", 1);
	await(0, 2);
	submit_some(1, 2, "b", 3);
	await(1, 2);
	while (!streq(seats[1].owners, ""))
		turn();
}

/* Two devices of one message exclude each other, too. */
static void test_taken_together(void **state)
{
	static const char *const ids[] = { "card", "half-0", "half-1" };
	struct error error = { 0 };

	claimant_set_overlap(seats[0].claimant, OVERLAP_EXCLUSIVE);
	submit(0, 1, "card\tpci:0\nhalf-0\tpci:0.1\t<pci:0\nhalf-1\tpci:0.2\t<pci:0\n");
	await(0, 1);
	assert_int_equal(claimant_take(seats[0].claimant, ids, 2, &error), -EBUSY);
	assert_int_equal(claimant_take(seats[0].claimant, ids + 1, 2, &error), 0);
	assert_int_equal(claimant_take(seats[0].claimant, ids, 1, &error), -EBUSY);
	assert_int_equal(claimant_take(seats[0].claimant, ids + 2, 1, &error), 0);
}

static void expect_taken(
	struct taken_devices *taken, struct bookings *booked, uint64_t now, const char *expected)
{
	uint64_t due = taken_drop(taken, booked, now);
	char text[16] = "";

	for (char id[] = "a"; *id <= 'c'; ++*id)
		if (map_get(&taken->by_id, id))
			(void)strcat(text, id);
	assert_string_equal(text, expected);
	assert_int_equal(due > 0, *expected != '\0');
}

/* A device that is never booked stays for its time, also while others are allocated. */
static void test_taken_time(void **state)
{
	_cleanup_bookings_ struct bookings *booked = NULL;
	struct taken_devices taken = { 0 };

	assert_int_equal(bookings_new(&booked), 0);
	assert_int_equal(bookings_add(booked, "c", BOOKED_IN_PLUGIN, NULL, 0, 0), 0);
	assert_int_equal(taken_add(&taken, "a", false, 1), 0);
	assert_int_equal(taken_add(&taken, "b", false, ARBITER_TAKEN_TIME), 0);
	assert_int_equal(taken_add(&taken, "c", true, ARBITER_TAKEN_TIME), 0);
	expect_taken(&taken, booked, ARBITER_TAKEN_TIME, "abc");
	expect_taken(&taken, booked, ARBITER_TAKEN_TIME + 1, "bc");
	/* The former pod has ended, and then the next one is booked. */
	expect_taken(&taken, NULL, ARBITER_TAKEN_TIME + 1, "bc");
	expect_taken(&taken, booked, ARBITER_TAKEN_TIME + 1, "b");
	expect_taken(&taken, booked, 2 * ARBITER_TAKEN_TIME, "");
	assert_int_equal(taken_add(&taken, "a", false, 1), 0);
	taken_done(&taken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_share, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_long_claims, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_no_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_claims_without_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P17_booked, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P21_booked_later, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hot_plug, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answer_to_an_earlier_scan, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hot_plug_in_steps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_many_taken, setup, teardown),
		cmocka_unit_test_setup_teardown(test_taken_together, setup, teardown),
		cmocka_unit_test(test_taken_time),
		cmocka_unit_test_setup_teardown(test_P18_no_scan, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_scans, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
