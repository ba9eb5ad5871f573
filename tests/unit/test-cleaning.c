/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a device that could not be cleaned is tried again, and in which order devices are examined
 * for processes that have them open.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "common/control-child.h"
#include "common/sealed.h"
#include "supervisor/books/cleaning-starts.h"
#include "supervisor/children/child.h"
#include "supervisor/ownership/arbiter.h"

static struct cleaning cleaning;

/* The question that has no answer yet, in place of the process that answers it. */
static struct {
	node_users_handler handler;
	char path[32];
	int result;
} question;

int node_users_new(struct manager *manager, struct node_users **ret)
{
	return 0;
}

struct node_users *node_users_free(struct node_users *users)
{
	return NULL;
}

bool node_users_is_busy(const struct node_users *users)
{
	return question.handler;
}

int node_users_ask(struct node_users *users, const char *root, const struct strings *paths,
	node_users_handler handler, void *userdata, struct error *error)
{
	assert_null(question.handler);
	assert_int_equal(paths->count, 1);
	(void)snprintf(question.path, sizeof(question.path), "%s", paths->items[0]);
	if (question.result > 0)
		question.handler = handler;
	return question.result < 0 ? error_set(error, question.result, "broken") : question.result;
}

static void answer(const char *user)
{
	node_users_handler handler = TAKE_PTR(question.handler);

	handler(user, "", &cleaning);
}

static struct resource resource = { .name = (char *)"v.e/gpu" },
		       other = { .name = (char *)"v.e/other" };
static struct child child = { .resource = &resource }, other_child = { .resource = &other };

static int teardown(void **state)
{
	dirty_devices_done(&cleaning.devices);
	return 0;
}

static struct dirty *add(const char *id)
{
	struct dirty *dirty;

	assert_int_equal(dirty_devices_add(&cleaning.devices, resource.name, id, &dirty), 0);
	dirty->clean = false;
	return dirty;
}

/* In how many seconds a device is tried again after that answer. */
static uint64_t pause_after(struct dirty *dirty, enum child_cleaned how)
{
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_CLEANED);
	uint64_t before = now_usec(CLOCK_MONOTONIC);

	message.phase = how;
	message.number = dirty->number = ++cleaning.number;
	assert_true(cleaning_take(&cleaning, &child, &message));
	assert_int_equal(dirty->number, 0);
	assert_true(dirty->again >= before);
	return (dirty->again - before) / USEC_PER_SEC;
}

/* The pause grows only for a device that is not there, until its process reports its devices. */
static void test_pauses(void **state)
{
	static const uint64_t pauses[] = { 2, 4, 8, 16, 32, 60, 60 };
	struct dirty *absent = add("gpu-0"), *late = add("gpu-1");

	for (size_t round = 0; round < 2; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(pauses); i++) {
			assert_int_equal(pause_after(absent, CHILD_CLEANED_ABSENT), pauses[i]);
			assert_int_equal(pause_after(late, CHILD_CLEANED_LATER), 1);
		}
		cleaning_changed(&cleaning, &other_child);
		assert_true(absent->again > now_usec(CLOCK_MONOTONIC));
		cleaning_changed(&cleaning, &child);
		assert_int_equal(absent->again, 0);
	}
	assert_true(late->again > now_usec(CLOCK_MONOTONIC));
}

/* Returns whether a message with these ids is accepted. */
static bool take_ids(const char *ids)
{
	_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(CHILD_USE);

	message.phase = CHILD_USE_STARTED;
	message.fds[0] = sealed_new("use", ids, strlen(ids));
	assert_true(message.fds[0] >= 0);
	return cleaning_take(&cleaning, &child, &message);
}

static void test_ids(void **state)
{
	static const char x16[] = "xxxxxxxxxxxxxxxx";
	char ids[128];

	assert_true(take_ids("gpu-0\n\ngpu-1\n"));
	assert_int_equal(cleaning.starts->ids.count, 2);
	assert_false(take_ids("gpu-0\n\xff\n"));
	(void)snprintf(ids, sizeof(ids), "%s%s%s%s%.10s", x16, x16, x16, x16, x16);
	assert_int_equal(strlen(ids), OFFERED_ID_MAX);
	assert_true(take_ids(ids));
	(void)snprintf(ids, sizeof(ids), "%s%s%s%s%.11s", x16, x16, x16, x16, x16);
	assert_false(take_ids(ids));
	while (cleaning.starts)
		(void)cleaning_starts_free(&cleaning, cleaning.starts);
}

/* --- the order --- */

static int ignore_answer(uint64_t number, int fd, const char *refusal, void *userdata)
{
	return 0;
}

static void ignore_note(void *userdata)
{
}

static const char *root(void *userdata)
{
	return "";
}

static const struct claimant_operations operations = {
	.answer = ignore_answer,
	.root = root,
	.on_note = ignore_note,
	.on_replays = ignore_note,
};

static struct strings command;
static struct resource_config config;
static struct manager manager;
static struct child *children[] = { &child, &other_child };
static struct arbiter *arbiter;
static sd_event *event;
static int process = -EBADF;

/* Four devices, each of which has a node, wait to be cleaned. */
static int setup_devices(void **state)
{
	static const char claims[] = "gpu-0\t/dev/0\ngpu-1\t/dev/1\ngpu-2\t/dev/2\ngpu-3\t/dev/3\n";
	_cleanup_strings_ struct strings paths = { 0 };
	int pair[2];

	log_setup("test-cleaning", LOG_TARGET_TEXT, LOG_CRIT);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	child.process.control_fd = pair[0];
	process = pair[1];
	assert_int_equal(strings_add(&command, "/bin/true", 9), 0);
	config.declaration.release.command = command;
	resource.accepted = other.accepted = &config;
	manager.children = children;
	manager.n_children = ARRAY_SIZE(children);
	cleaning.manager = &manager;
	question.result = 1;
	assert_int_equal(sd_event_new(&event), 0);
	assert_int_equal(arbiter_new(event, &arbiter), 0);
	assert_int_equal(
		arbiter_add(arbiter, resource.name, &operations, NULL, &child.claimant), 0);
	claimant_submit(child.claimant, sealed_new("claims", claims, sizeof(claims) - 1), 1);
	while (claimant_nodes(child.claimant, "gpu-0", &paths) == -EAGAIN)
		assert_true(sd_event_run(event, USEC_PER_SEC) >= 0);
	for (size_t i = 0; i < 4; i++) {
		char id[] = { 'g', 'p', 'u', '-', (char)('0' + i), '\0' };

		(void)add(id);
	}
	return 0;
}

static int teardown_devices(void **state)
{
	child.claimant = claimant_free(child.claimant);
	arbiter = arbiter_free(arbiter);
	event = sd_event_unref(event);
	strings_done(&command);
	(void)close(child.process.control_fd);
	(void)close(process);
	free(cleaning.asked_resource);
	free(cleaning.asked_id);
	cleaning.asked_resource = cleaning.asked_id = NULL;
	return teardown(state);
}

/* All are decided again, as in each turn of the event loop after a change. */
static void look(bool after_pause)
{
	for (size_t i = cleaning.devices.count; i > 0; i--) {
		struct dirty *dirty = cleaning.devices.items[i - 1];

		dirty->examine = false;
		if (after_pause)
			dirty->again = 0;
		if (dirty->number == 0)
			cleaning_run_begin(&cleaning, dirty);
	}
	cleaning_run_examine(&cleaning);
}

/* The device that its process is to clean, or "". */
static const char *cleaned(void)
{
	static struct control_message message;

	if (control_receive(process, &control_child, &message) < 0)
		return "";
	assert_int_equal(message.type, CHILD_CLEAN);
	return message.text;
}

/* Devices that are held open are examined in turn, however long each answer takes. */
static void test_order(void **state)
{
	for (size_t i = 0; i < 12; i++) {
		char path[] = { '/', 'd', 'e', 'v', '/', (char)('0' + i % 4), '\0' };
		const struct dirty *dirty;
		uint64_t before;

		look(true);
		assert_string_equal(question.path, path);
		/* One at a time. */
		look(true);
		assert_string_equal(question.path, path);
		before = now_usec(CLOCK_MONOTONIC);
		answer("process 1 has it open");
		dirty = dirty_devices_find(&cleaning.devices, resource.name, cleaning.asked_id);
		assert_string_equal(dirty->open, "process 1 has it open");
		assert_true(dirty->again >= before + (USEC_PER_SEC << (i / 4)));
	}
	assert_string_equal(cleaned(), "");
	look(true);
	answer("");
	look(false);
	assert_string_equal(cleaned(), "gpu-0");
	assert_string_equal(cleaned(), "");
	assert_null(cleaning.devices.items[0]->open);
	assert_string_equal(question.path, "/dev/1");
	answer("");
}

/* The seconds until the first device is examined again, if a process has it open now. */
static uint64_t pause_while(const char *user)
{
	struct dirty *dirty = cleaning.devices.items[0];
	uint64_t before = now_usec(CLOCK_MONOTONIC);

	dirty->again = 0;
	cleaning_run_begin(&cleaning, dirty);
	cleaning_run_examine(&cleaning);
	answer(user);
	return (dirty->again - before) / USEC_PER_SEC;
}

/* Reading all processes again and again would keep a processor busy, so the pause grows while one
 * process has a device open, unless a pod waits for it. */
static void test_pauses_while_it_is_open(void **state)
{
	static const uint64_t pauses[] = { 1, 2, 4, 8, 16, 32, 60, 60 };
	struct dirty *dirty = cleaning.devices.items[0];
	const struct usage usage = { 0 };
	struct error error = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(pauses); i++)
		assert_int_equal(pause_while("process 1 has it open"), pauses[i]);
	assert_int_equal(pause_while("process 2 has it open"), 1);
	assert_int_equal(pause_while("process 2 has it open"), 2);
	assert_int_equal(pause_while("process 2 has it open"), 4);
	assert_int_equal(strings_add(&dirty->users, "former", 6), 0);
	for (size_t i = 0; i < 4; i++) {
		uint64_t now = now_usec(CLOCK_MONOTONIC);

		assert_int_equal(
			cleaning_starts_admit(&cleaning, dirty, "next", &usage, &error), 0);
		assert_true(dirty->again <= now + 2 * USEC_PER_SEC);
		assert_int_equal(pause_while("process 2 has it open"), 2);
	}
}

/* One that cannot be examined does not keep the others from that. */
static void test_failures(void **state)
{
	question.result = -ENOENT;
	look(false);
	for (size_t i = 0; i < cleaning.devices.count; i++) {
		assert_string_equal(cleaning.devices.items[i]->open, "broken");
		assert_true(cleaning.devices.items[i]->again > now_usec(CLOCK_MONOTONIC));
	}
	/* If none of its nodes is left, there is nothing to examine. */
	question.result = 0;
	look(true);
	for (size_t i = 0; i < cleaning.devices.count; i++) {
		assert_string_equal(cleaned(), cleaning.devices.items[i]->id);
		assert_null(cleaning.devices.items[i]->open);
	}
}

/* Whether a pod of the other resource gets a device that is dirty as one of the first, uncleaned,
 * with that overlap. */
static bool gets_uncleaned(enum overlap first, enum overlap second)
{
	struct resource_config second_config = { .declaration.overlap = second };
	const struct usage usage = { 0 };
	struct error error = { 0 };
	struct dirty *dirty;

	config.declaration.overlap = first;
	other.accepted = &second_config;
	assert_int_equal(cleaning_run_add(&cleaning, &other_child, "gpu-0", &dirty), 0);
	if (!dirty->clean)
		assert_int_equal(strings_add_once(&dirty->users, "unknown"), 0);
	other.accepted = &config;
	config.declaration.overlap = OVERLAP_NONE;
	if (cleaning_starts_admit(&cleaning, dirty, "pod", &usage, &error) > 0) {
		dirty_devices_remove(&cleaning.devices, dirty);
		return true;
	}
	dirty_devices_remove(&cleaning.devices, dirty);
	return false;
}

/* A device that has moved to another resource is as dirty as it was; one that both share is not,
 * because pods may use it at the same time. */
static void test_device_of_two_resources(void **state)
{
	struct dirty *dirty;

	assert_false(gets_uncleaned(OVERLAP_NONE, OVERLAP_NONE));
	assert_false(gets_uncleaned(OVERLAP_EXCLUSIVE, OVERLAP_EXCLUSIVE));
	assert_false(gets_uncleaned(OVERLAP_NONE, OVERLAP_SHARED));
	assert_true(gets_uncleaned(OVERLAP_SHARED, OVERLAP_SHARED));
	assert_int_equal(cleaning_run_add(&cleaning, &other_child, "gpu-9", &dirty), 0);
	assert_true(dirty->clean);
}

/* Two resources offer the device, one cleans it, and the other has to wait with its own program
 * and its pods. */
static void test_cleaned_elsewhere(void **state)
{
	struct dirty *dirty = cleaning.devices.items[0], *elsewhere;
	struct control_message message = CHILD_MESSAGE_INIT(CHILD_CLEANED);
	const struct usage usage = { 0 };
	struct error error = { 0 };

	assert_int_equal(cleaning_run_add(&cleaning, &other_child, "gpu-0", &elsewhere), 0);
	elsewhere->number = ++cleaning.number;
	dirty->unused_at = now_usec(CLOCK_MONOTONIC);
	cleaning_run_begin(&cleaning, dirty);
	assert_int_equal(dirty->number, 0);
	assert_string_equal(cleaned(), "");
	assert_int_equal(strings_add_once(&dirty->users, "pod"), 0);
	assert_int_equal(cleaning_starts_admit(&cleaning, dirty, "pod", &usage, &error), 0);
	/* Its program runs on. */
	dirty_devices_remove_elsewhere(&cleaning.devices, dirty);
	assert_ptr_equal(dirty_devices_find(&cleaning.devices, other.name, "gpu-0"), elsewhere);
	message.phase = CHILD_CLEANED_LATER;
	message.number = elsewhere->number;
	assert_true(cleaning_take(&cleaning, &other_child, &message));
	assert_int_equal(cleaning_starts_admit(&cleaning, dirty, "pod", &usage, &error), 1);
	cleaning_run_begin(&cleaning, dirty);
	assert_string_equal(cleaned(), "gpu-0");
}

/* Where two resources share a device, the end of a pod of one does not clean it under the pod of
 * the other. */
static void test_shared_device_in_use(void **state)
{
	struct dirty *dirty = cleaning.devices.items[0], *elsewhere;

	config.declaration.overlap = OVERLAP_SHARED;
	assert_int_equal(cleaning_run_add(&cleaning, &other_child, "gpu-0", &elsewhere), 0);
	elsewhere->clean = false;
	dirty->unused_at = now_usec(CLOCK_MONOTONIC);
	cleaning_run_begin(&cleaning, dirty);
	assert_string_equal(cleaned(), "");
	elsewhere->due_at = dirty->unused_at;
	cleaning_run_begin(&cleaning, dirty);
	assert_string_equal(cleaned(), "gpu-0");
	config.declaration.overlap = OVERLAP_NONE;
}

/* The reason why a device waits ends with the wait, and so do the pauses that have grown. */
static void test_reasons(void **state)
{
	struct dirty *dirty = add("gpu-0");
	struct error error = { 0 };

	cleaning_run_set_open(dirty, "process 1 has it open");
	dirty->held = 6;
	dirty->again = USEC_INFINITY;
	assert_int_equal(cleaning_starts_give(&cleaning, dirty, "pod", &error), 0);
	assert_null(dirty->open);
	assert_int_equal(dirty->held, 0);
	assert_int_equal(dirty->again, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_pauses, teardown),
		cmocka_unit_test_teardown(test_ids, teardown),
		cmocka_unit_test_setup_teardown(test_order, setup_devices, teardown_devices),
		cmocka_unit_test_setup_teardown(
			test_pauses_while_it_is_open, setup_devices, teardown_devices),
		cmocka_unit_test_setup_teardown(test_failures, setup_devices, teardown_devices),
		cmocka_unit_test_setup_teardown(
			test_device_of_two_resources, setup_devices, teardown_devices),
		cmocka_unit_test_setup_teardown(
			test_cleaned_elsewhere, setup_devices, teardown_devices),
		cmocka_unit_test_setup_teardown(
			test_shared_device_in_use, setup_devices, teardown_devices),
		cmocka_unit_test_teardown(test_reasons, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
