/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When devplugd-cluster writes on the Node, evicts, and repeats a request that was refused: with a
 * clock that moves only when a test moves it, and with answers that a test gives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/json-read.h"
#include "common/sealed.h"
#include "dra/evictor.h"
#include "dra/label-writer.h"
#include "dra/node-conditions.h"
#include "dra/node-events.h"

#define NODE  "/api/v1/nodes/n"
#define POD   "/api/v1/namespaces/default/pods/p"
#define START (1000000 * USEC_PER_SEC)
/* How exactly a test measures time. */
#define TICK (100 * USEC_PER_MSEC)
/* As long as a retry may take: a minute and a quarter of it. */
#define RETRY_LIMIT (75 * USEC_PER_SEC + TICK)
/* As long as the API server can delay it, at least; at most a quarter longer. */
#define RETRY_AFTER_MAX (300 * USEC_PER_SEC)

static uint64_t now;
static sd_event *event;

/* Takes the place of libc's, also for libsystemd. */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
	if (clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME)
		return (int)syscall(SYS_clock_gettime, clock, ret);
	*ret = (struct timespec){ .tv_sec = (time_t)(now / USEC_PER_SEC),
		.tv_nsec = (long)(now % USEC_PER_SEC) * 1000 };
	return 0;
}

/* --- the API server --- */

static struct {
	char method[16], path[128];
	json_t *body;
	dra_answer_handler on_answer; /* NULL: there is no request */
	void *userdata;
} request;

int dra_api_request(struct dra_api *api, const char *method, const char *path, const json_t *body,
	dra_answer_handler on_answer, void *userdata)
{
	assert_null(request.on_answer);
	(void)snprintf(request.method, sizeof(request.method), "%s", method);
	(void)snprintf(request.path, sizeof(request.path), "%s", path);
	json_decref(request.body);
	request.body = body ? json_deep_copy(body) : NULL;
	request.on_answer = on_answer;
	request.userdata = userdata;
	return 0;
}

void dra_api_cancel(struct dra_api *api, const void *userdata)
{
	request.on_answer = NULL;
}

static void give(const struct dra_answer *answer)
{
	dra_answer_handler on_answer = TAKE_PTR(request.on_answer);

	assert_non_null(on_answer);
	on_answer(answer, request.userdata);
}

static void succeed(const char *format, ...)
{
	json_auto_t *body = NULL;
	json_error_t error;
	va_list arguments;

	va_start(arguments, format);
	body = json_vpack_ex(&error, 0, format, arguments);
	va_end(arguments);
	assert_non_null(body);
	give(&(const struct dra_answer){ .code = 200, .body = body });
}

static void refuse(int code, uint64_t retry_after)
{
	give(&(const struct dra_answer){
		.code = code, .failure = "refused", .retry_after = retry_after });
}

/* --- time --- */

static void run(void)
{
	while (sd_event_run(event, 0) > 0)
		;
}

/* How long it takes until the next request; USEC_INFINITY: it does not begin within the limit. */
static uint64_t time_to_request(uint64_t limit)
{
	uint64_t begin = now;

	run();
	while (!request.on_answer && now < begin + limit) {
		now += TICK;
		run();
	}
	return request.on_answer ? now - begin : USEC_INFINITY;
}

static void expect_request(uint64_t limit, const char *method, const char *path)
{
	assert_true(time_to_request(limit) <= limit);
	assert_string_equal(request.method, method);
	assert_string_equal(request.path, path);
}

/* The pauses grow to about a minute, and stay there. `again` makes the request of the next attempt
 * out of the first one of it. */
static void expect_retries(void (*again)(void), uint64_t limit)
{
	uint64_t longest = 0;

	for (unsigned i = 0; i < 12; i++) {
		uint64_t pause;

		again();
		refuse(503, 0);
		pause = time_to_request(3600 * USEC_PER_SEC);
		if (i == 0)
			assert_true(pause <= 2 * USEC_PER_SEC);
		longest = MAX_OF(longest, pause);
	}
	assert_true(longest >= 60 * USEC_PER_SEC);
	assert_true(longest <= limit);
}

/* The API server asks for a pause of an hour. */
static void expect_limited_pause(void)
{
	refuse(503, 3600);
	assert_in_range(time_to_request(3600 * USEC_PER_SEC), RETRY_AFTER_MAX,
		RETRY_AFTER_MAX + RETRY_AFTER_MAX / 4 + TICK);
}

static void nothing(void)
{
}

static int setup(void **state)
{
	now = START;
	request.on_answer = NULL;
	return sd_event_new(&event) < 0;
}

static int teardown(void **state)
{
	event = sd_event_unref(event);
	json_decref(request.body);
	request.body = NULL;
	return 0;
}

/* --- conditions --- */

static char condition_failure[64];

static void on_condition_result(const char *failure, void *userdata)
{
	(void)snprintf(condition_failure, sizeof(condition_failure), "%s", failure);
}

static json_t *condition(const char *status)
{
	return json_pack("{s:{s:s, s:s, s:s}}", "DevplugdX", "status", status, "reason", "r",
		"message", "m");
}

static const char *written_status(void)
{
	const json_t *list = json_object_get(json_object_get(request.body, "status"), "conditions");

	assert_int_equal(json_array_size(list), 1);
	assert_true(*text_of(json_array_get(list, 0), "lastHeartbeatTime"));
	return text_of(json_array_get(list, 0), "status");
}

static void store_condition(const char *status)
{
	succeed("{s:{s:[{s:s, s:s, s:s, s:s}]}}", "status", "conditions", "type", "DevplugdX",
		"status", status, "reason", "r", "message", "m");
}

static void test_conditions(void **state)
{
	_cleanup_(node_conditions_freep) struct node_conditions *conditions = NULL;
	uint64_t written;

	assert_int_equal(
		node_conditions_new(event, NULL, "n", on_condition_result, NULL, &conditions), 0);
	node_conditions_set(conditions, condition("False"));
	expect_request(2 * USEC_PER_SEC, "GET", NODE);
	succeed("{}");
	expect_request(0, "PATCH", NODE "/status");
	assert_string_equal(written_status(), "False");
	store_condition("False");
	/* Without a change, every 5 minutes. */
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(time_to_request(3600 * USEC_PER_SEC), 300 * USEC_PER_SEC);
		assert_string_equal(request.method, "PATCH");
		assert_string_equal(written_status(), "False");
		store_condition("False");
	}
	/* A change, within 2 s, also after another write. */
	node_conditions_set(conditions, condition("True"));
	expect_request(2 * USEC_PER_SEC, "PATCH", NODE "/status");
	assert_string_equal(written_status(), "True");
	written = now;
	/* Changes without a pause. */
	store_condition("True");
	for (unsigned i = 0; !request.on_answer && i < 100; i++) {
		node_conditions_set(conditions, condition(i % 2 == 0 ? "Unknown" : "False"));
		(void)time_to_request(200 * USEC_PER_MSEC);
	}
	assert_non_null(request.on_answer);
	assert_in_range(now - written, 0, 3 * USEC_PER_SEC);
	store_condition(written_status());
	node_conditions_set(conditions, condition("True"));
	expect_request(2 * USEC_PER_SEC, "PATCH", NODE "/status");
	expect_retries(nothing, RETRY_LIMIT);
	expect_limited_pause();
	assert_string_equal(condition_failure, "refused");
	assert_string_equal(request.method, "GET");
	succeed("{}");
	assert_string_equal(request.method, "PATCH");
	store_condition("True");
	assert_string_equal(condition_failure, "");
}

/* --- labels --- */

static void want_label(struct label_writer *writer, const char *value)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_LABELS);
	_cleanup_free_ char *text = NULL;

	assert_true(format_text(&text, "{\"v.e/gpu\": {\"v.e/model\": \"%s\"}}", value) >= 0);
	message.fds[0] = sealed_new("labels", text, strlen(text));
	assert_true(message.fds[0] >= 0);
	assert_int_equal(label_writer_take(writer, &message), 0);
}

static const char *written_label(void)
{
	return text_of(
		json_object_get(json_object_get(request.body, "metadata"), "labels"), "v.e/model");
}

static void store_label(const char *value)
{
	succeed("{s:{s:{s:s}, s:{s:s}}}", "metadata", "labels", "v.e/model", value, "annotations",
		LABEL_WRITER_ANNOTATION, "{\"v.e/gpu\":[\"v.e/model\"]}");
}

static void test_labels(void **state)
{
	_cleanup_(label_writer_freep) struct label_writer *writer = NULL;
	uint64_t changed;

	assert_int_equal(label_writer_new(event, NULL, "n", &writer), 0);
	want_label(writer, "x");
	expect_request(2 * USEC_PER_SEC, "GET", NODE);
	succeed("{s:{}}", "metadata");
	expect_request(0, "PATCH", NODE);
	assert_string_equal(written_label(), "x");
	store_label("x");
	/* They are compared every 5 minutes, and restored if another client has changed them. The
	 * first comparison is 2 s after the write, with the answer to it. */
	for (unsigned i = 0; i < 3; i++) {
		uint64_t pause = time_to_request(3600 * USEC_PER_SEC);

		assert_in_range(pause, 300 * USEC_PER_SEC, 302 * USEC_PER_SEC);
		assert_string_equal(request.method, "GET");
		store_label(i == 1 ? "another" : "x");
		if (i != 1)
			continue;
		expect_request(0, "PATCH", NODE);
		assert_string_equal(written_label(), "x");
		store_label("x");
	}
	/* Changes without a pause. */
	changed = now;
	for (unsigned i = 0; !request.on_answer && i < 100; i++) {
		want_label(writer, "y");
		(void)time_to_request(200 * USEC_PER_MSEC);
	}
	assert_non_null(request.on_answer);
	assert_in_range(now - changed, 0, 2 * USEC_PER_SEC);
	/* A change does not shorten the pause for which the server asks. */
	refuse(429, 30);
	for (unsigned i = 0; i < 20; i++) {
		want_label(writer, "y");
		assert_int_equal(time_to_request(USEC_PER_SEC), USEC_INFINITY);
	}
	expect_request(20 * USEC_PER_SEC, "GET", NODE);
	store_label("x");
	expect_request(0, "PATCH", NODE);
	assert_string_equal(written_label(), "y");
	store_label("y");
	assert_int_equal(time_to_request(4 * USEC_PER_SEC), USEC_INFINITY);
	want_label(writer, "z");
	expect_request(USEC_PER_SEC, "GET", NODE);
	expect_retries(nothing, RETRY_LIMIT);
	expect_limited_pause();
	store_label("x");
	expect_request(0, "PATCH", NODE);
	assert_string_equal(written_label(), "z");
}

/* --- evictions --- */

static bool has_published(const char *driver, uint64_t since, void *userdata)
{
	return true;
}

static void on_pod(const struct evictor_pod *pod, void *userdata)
{
	unsigned *n_evicted = userdata;

	*n_evicted += pod->result == EVICTION_RESULT_EVICTED;
}

/* From the request for the Node to that for the eviction. */
static void ask_eviction(void)
{
	assert_string_equal(request.path, NODE);
	succeed("{s:{s:{s:s}}}", "status", "allocatable", "v.e/gpu", "3");
	assert_string_equal(request.path, POD);
	succeed("{s:{s:s, s:[{s:s, s:b}]}, s:{s:s}, s:{s:s}}", "metadata", "uid", "u",
		"ownerReferences", "kind", "ReplicaSet", "controller", 1, "spec", "nodeName", "n",
		"status", "phase", "Running");
	assert_string_equal(request.path, POD "/eviction");
	assert_string_equal(text_of(json_object_get(json_object_get(request.body, "deleteOptions"),
					    "preconditions"),
				    "uid"),
		"u");
}

static void test_evictions(void **state)
{
	json_auto_t *orders =
		json_pack("{s:[{s:s, s:s, s:s, s:b, s:b, s:s, s:s, s:[s], s:i}], s:[], "
			  "s:{}}",
			"pods", "resource", "v.e/gpu", "device", "gpu-0", "reason", "broken",
			"bare", 0, "force", 0, "namespace", "default", "name", "p", "uids", "u",
			"allocatable", 3, "claims", "taints");
	_cleanup_(evictor_freep) struct evictor *evictor = NULL;
	unsigned n_evicted = 0;

	assert_int_equal(evictor_new(&(const struct evictor_options){ .event = event,
					     .node = "n",
					     .has_published = has_published,
					     .on_pod = on_pod,
					     .userdata = &n_evicted },
				 &evictor),
		0);
	assert_non_null(orders);
	assert_int_equal(evictor_take(evictor, orders), 0);
	expect_request(USEC_PER_SEC, "GET", NODE);
	/* Also if the API server asks for a longer pause. */
	expect_retries(ask_eviction, RETRY_LIMIT);
	ask_eviction();
	refuse(429, 3600);
	assert_in_range(time_to_request(3600 * USEC_PER_SEC), 60 * USEC_PER_SEC, RETRY_LIMIT);
	ask_eviction();
	assert_int_equal(n_evicted, 0);
	succeed("{}");
	assert_int_equal(n_evicted, 1);
}

#define CLAIM "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c"

static void give_pod(bool ending)
{
	succeed("{s:{s:s, s:[{s:s, s:b}], s:s*}, s:{s:s}, s:{s:s, s:{s:s}}}", "metadata", "uid",
		"u", "ownerReferences", "kind", "ReplicaSet", "controller", 1, "deletionTimestamp",
		ending ? "2026-01-01T00:00:00Z" : NULL, "spec", "nodeName", "n", "status", "phase",
		"Running", "extendedResourceClaimStatus", "resourceClaimName", "c");
}

static void give_claim(void)
{
	succeed("{s:{s:s}, s:{s:[{s:s, s:s, s:s}]}}", "metadata", "uid", "cu", "status",
		"reservedFor", "resource", "pods", "name", "p", "uid", "u");
}

static void on_claimed_pod(const struct evictor_pod *pod, void *userdata)
{
	enum eviction_result *result = userdata;

	*result = pod->result;
}

/* An evicted pod stays so while its claim cannot be read. */
static void test_claim_that_cannot_be_read(void **state)
{
	json_auto_t *orders = json_pack("{s:[], s:[{s:s, s:s, s:s, s:b, s:b, s:s, s:s, s:s, s:s}], "
					"s:{}}",
		"pods", "claims", "resource", "v.e/gpu", "device", "gpu-0", "reason", "broken",
		"bare", 0, "force", 0, "namespace", "default", "name", "c", "uid", "cu", "driver",
		"d.example", "taints");
	_cleanup_(evictor_freep) struct evictor *evictor = NULL;
	enum eviction_result result = _EVICTION_RESULT_MAX;

	assert_int_equal(evictor_new(&(const struct evictor_options){ .event = event,
					     .node = "n",
					     .has_published = has_published,
					     .on_pod = on_claimed_pod,
					     .userdata = &result },
				 &evictor),
		0);
	assert_non_null(orders);
	assert_int_equal(evictor_take(evictor, orders), 0);
	/* Before the eviction, it is reported, and the pod is tried again. */
	expect_request(USEC_PER_SEC, "GET", CLAIM);
	give_claim();
	expect_request(0, "GET", POD);
	refuse(500, 0);
	assert_int_equal(result, EVICTION_RESULT_REFUSED);
	expect_request(RETRY_LIMIT, "GET", CLAIM);
	refuse(500, 0);
	expect_request(RETRY_LIMIT, "GET", CLAIM);
	refuse(500, 0);
	assert_int_equal(result, EVICTION_RESULT_REFUSED);
	while (result == EVICTION_RESULT_REFUSED) {
		expect_request(RETRY_LIMIT, "GET", CLAIM);
		give_claim();
		if (!request.on_answer)
			continue;
		assert_string_equal(request.path, POD);
		give_pod(false);
		assert_string_equal(request.path, POD "/eviction");
		succeed("{}");
	}
	assert_int_equal(result, EVICTION_RESULT_EVICTED);
	for (unsigned i = 0; i < 5; i++) {
		expect_request(RETRY_LIMIT, "GET", CLAIM);
		refuse(500, 0);
		if (request.on_answer)
			give_pod(true);
		assert_int_equal(result, EVICTION_RESULT_EVICTED);
	}
}

/* --- Events --- */

static void on_event_result(const char *failure, void *userdata)
{
}

static void add_event(struct node_events *events, unsigned device)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "gpu-%u", device);
	node_events_add(events,
		&(const struct node_event){ .reason = "DeviceFailed",
			.warning = true,
			.resource = "v.e/gpu",
			.device = name,
			.text = "it has failed" });
}

/* Writes those that are due within a time. Returns how many. */
static unsigned write_events(uint64_t time)
{
	uint64_t end = now + time;
	unsigned n = 0;

	while (time_to_request(end - now) != USEC_INFINITY) {
		n += !streq(request.method, "GET");
		succeed("{s:{s:s}}", "metadata", "name", "x");
	}
	return n;
}

static void test_events(void **state)
{
	_cleanup_(node_events_freep) struct node_events *events = NULL;
	unsigned n = 0;

	assert_int_equal(node_events_new(event, NULL, "n", on_event_result, NULL, &events), 0);
	/* Each device has 3 writes, and then one a minute. */
	for (unsigned i = 0; i < 60; i++) {
		add_event(events, 0);
		n += write_events(5 * USEC_PER_SEC);
	}
	assert_in_range(n, 3 + 4, 3 + 5);
	/* The Node has 25 writes at once, and then one every 2 s. */
	(void)write_events(300 * USEC_PER_SEC);
	for (unsigned i = 1; i <= 40; i++)
		add_event(events, i);
	assert_in_range(write_events(USEC_PER_SEC), 24, 26);
	assert_in_range(write_events(10 * USEC_PER_SEC), 4, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_conditions, setup, teardown),
		cmocka_unit_test_setup_teardown(test_labels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_evictions, setup, teardown),
		cmocka_unit_test_setup_teardown(test_claim_that_cannot_be_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_events, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
