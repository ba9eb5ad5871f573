/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose devices are, asked by several resources whose claims come, grow and go while a decision is
 * being made: the answers are those of the last claims, and large claims do not hold up the loop.
 */
#include "host-fixture.h"

#include <sys/resource.h>

#include "common/log.h"
#include "common/sealed.h"
#include "drivers/model/bookings.h"
#include "supervisor/arbiter.h"

#define CLAIMANTS 10
#define MANY      150000

static sd_event *event;
static struct arbiter *arbiter;
static unsigned turns;

static struct seat {
	struct claimant *claimant;
	char *owners; /* of the last answer */
	uint64_t number;
	unsigned malformed;
	bool starting;
} seats[CLAIMANTS];

static int answer(uint64_t number, int fd, void *userdata)
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
	return 0;
}

static bool is_starting(void *userdata)
{
	return ((struct seat *)userdata)->starting;
}

static void on_malformed(void *userdata, const char *why)
{
	((struct seat *)userdata)->malformed++;
}

static void on_note(void *userdata)
{
}

static const struct claimant_operations operations = {
	.answer = answer,
	.is_starting = is_starting,
	.on_malformed = on_malformed,
	.on_note = on_note,
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
		seats[i] = (struct seat){ 0 };
		assert_int_equal(
			arbiter_add(arbiter, names[i], &operations, &seats[i], &seats[i].claimant),
			0);
		claimant_set_rank(seats[i].claimant, i);
	}
	turns = 0;
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
static void submit_many(size_t i, uint64_t number, const char *prefix)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	for (unsigned n = 0; n < MANY; n++)
		(void)fprintf(stream, "%s-%u\t%u\n", prefix, n, n);
	(void)fclose(stream);
	submit(i, number, text);
	free(text);
}

static void turn(void)
{
	assert_true(sd_event_run(event, USEC_PER_SEC) >= 0);
	turns++;
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

static void test_P18_slices(void **state)
{
	submit_many(0, 1, "a");
	submit(1, 1, "y\t7\n");
	await(1, 1);
	assert_string_equal(seats[1].owners, "y\tv.example/a\n");
	/* Others had their turn meanwhile. */
	assert_true(turns > 5);
}

/* Each is allowed, all together are not: the largest is ended, and only that. */
static void test_P18_no_room(void **state)
{
	size_t size = 15 << 20;
	_cleanup_free_ char *text = malloc(size + 1024 + 1);

	assert_non_null(text);
	memset(text, 'c', size + 1024);
	memcpy(text, "id\t", strlen("id\t"));
	submit(0, 1, "x\t1\n");
	for (size_t i = 1; i < CLAIMANTS; i++) {
		size_t end = size + (i == 4 ? 1024 : i);

		text[end - 1] = '\n';
		text[end] = '\0';
		submit(i, 1, text);
		text[end - 1] = text[end] = 'c';
	}
	for (size_t i = 0; i < CLAIMANTS; i++)
		if (i != 4)
			await(i, 1);
	for (size_t i = 0; i < CLAIMANTS; i++)
		assert_int_equal(seats[i].malformed, i == 4);
}

/* devplugd has no memory for them: the child keeps running, and they are read later. */
static void test_claims_without_memory(void **state)
{
#ifdef __SANITIZE_ADDRESS__
	skip();
#endif
	size_t size = 15 << 20;
	_cleanup_free_ char *text = malloc(size + 1);
	struct rlimit limit, none;

	assert_non_null(text);
	memset(text, 'c', size);
	memcpy(text, "id\t", strlen("id\t"));
	text[size - 1] = '\n';
	text[size] = '\0';
	submit(0, 1, text);
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

static void test_changes_meanwhile(void **state)
{
	submit_many(0, 1, "a");
	submit(1, 1, "y\t7\n");
	for (unsigned i = 0; i < 4; i++)
		turn();
	/* The pass is under way: these wait for the next one, and are not answered by this one. */
	submit(0, 2, "x\t1\n");
	await(0, 2);
	assert_string_equal(seats[0].owners, "");
	while (strcmp(seats[1].owners ?: "-", "") != 0)
		turn();

	submit_many(0, 3, "a");
	for (unsigned i = 0; i < 4; i++)
		turn();
	seats[0].claimant = claimant_free(seats[0].claimant);
	submit(1, 2, "y\t7\n");
	await(1, 2);
	assert_string_equal(seats[1].owners, "");

	submit_many(1, 3, "b");
	submit(2, 1, "z\t7\n");
	for (unsigned i = 0; i < 4; i++)
		turn();
	claimant_drop_claims(seats[1].claimant);
	claimant_end_process(seats[1].claimant);
	await(2, 1);
	while (strcmp(seats[2].owners, "") != 0)
		turn();
}

static void book(size_t i, const char *id)
{
	_cleanup_bookings_ struct bookings *bookings = NULL;

	assert_int_equal(bookings_new(&bookings), 0);
	if (*id)
		assert_int_equal(bookings_add(bookings, id, NULL, 0, 0), 0);
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
	/* While a decision is made. */
	submit_many(2, 1, "c");
	for (unsigned i = 0; i < 4; i++)
		turn();
	book(1, "");
	while (strcmp(seats[0].owners, "") != 0)
		turn();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_slices, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P18_no_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_claims_without_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changes_meanwhile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P17_booked, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
