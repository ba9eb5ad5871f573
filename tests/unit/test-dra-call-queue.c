/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims of the kubelet's calls: about which ones devplugd is asked without the API server, and
 * which refusals are reported. A test takes the place of devplugd, the kubelet and the API server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control-fixture.h"

#include "common/log.h"
#include "dra/dra-call.h"
#include "dra/dra-node.h"

#define UID  "c1"
#define RPC  ((struct rpc_call *)(void *)&call)
#define TIME (40 * USEC_PER_SEC)

static struct dra_node_options options;
static struct dra_calls *calls;
static uint64_t last_question;
static int supervisor; /* its end of the socket */
static unsigned n_reads, n_answers;

static Dra__Claim claim = DRA__CLAIM__INIT;
static Dra__Claim *claims[] = { &claim };
static struct dra_outcome outcome;
static struct dra_call call;

int dra_api_request(struct dra_api *api, const char *method, const char *path, const json_t *body,
	dra_answer_handler on_answer, void *userdata)
{
	n_reads++;
	return 0;
}

void dra_api_cancel(struct dra_api *api, const void *userdata)
{
}

void dra_call_answer(struct dra_call *answered)
{
	n_answers++;
	free(TAKE_PTR(outcome.failure));
}

void dra_call_fail(struct dra_call *answered, enum rpc_status status, const char *text)
{
	n_answers++;
}

/* As in the process itself, the object is never freed. */
static int setup_all(void **state)
{
	log_setup("test-dra-call-queue", LOG_TARGET_TEXT, LOG_CRIT);
	supervisor = control_begin();
	claim.namespace_ = (char *)(uintptr_t) "default";
	claim.name = (char *)(uintptr_t) "c";
	claim.uid = (char *)(uintptr_t)UID;
	options = (struct dra_node_options){
		.number = 1, .last_question = &last_question, .claims = json_object()
	};
	assert_true(sd_event_new(&options.event) >= 0);
	assert_int_equal(dra_calls_new(&options, &calls), 0);
	return 0;
}

static void begin_call_of(bool prepare)
{
	outcome = (struct dra_outcome){ 0 };
	call = (struct dra_call){
		.call = RPC,
		.prepare = prepare,
		.until = now_usec(CLOCK_MONOTONIC) + TIME,
		.claims = claims,
		.n_claims = 1,
		.outcomes = &outcome,
	};
	dra_calls_add(calls, &call);
}

static void begin_call(void)
{
	begin_call_of(true);
}

/* How many messages of the type devplugd has received. */
static unsigned receive(uint32_t type)
{
	unsigned n = 0;

	for (;;) {
		_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(0);
		int r = control_receive_from_child(supervisor, &control_cluster, &message);

		if (r == -EAGAIN)
			return n;
		assert_int_equal(r, 0);
		n += message.type == type;
	}
}

static void answer(enum cluster_again again, const char *text)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_PREPARED);

	message.number = last_question;
	message.again = again;
	(void)snprintf(message.text, sizeof(message.text), "%s", text);
	dra_calls_take_prepared(calls, &message);
}

static int teardown(void **state)
{
	dra_calls_stop(calls);
	(void)json_object_clear(options.claims);
	(void)receive(0);
	n_reads = n_answers = 0;
	return 0;
}

static bool is_known(void)
{
	return json_object_get(options.claims, UID);
}

/* devplugd is asked about the claim, which it has had. */
static void begin_known(void)
{
	(void)json_object_set_new(options.claims, UID, json_true());
	begin_call();
	assert_int_equal(receive(CLUSTER_PREPARE), 1);
	assert_int_equal(n_reads, 0);
}

/* devplugd has sent its list before it was asked about the claim. */
static void test_list_of_before(void **state)
{
	begin_known();
	(void)json_object_clear(options.claims);
	dra_calls_held_changed(calls);
	assert_true(is_known());
	answer(CLUSTER_NEVER, "");
	assert_int_equal(n_reads, 1);
	/* The claim is being read: devplugd does not prepare it. */
	dra_calls_held_changed(calls);
	assert_false(is_known());
}

static void test_failed_preparation(void **state)
{
	begin_known();
	answer(CLUSTER_NEVER, "it does not exist");
	assert_int_equal(n_answers, 1);
	assert_false(is_known());
	assert_int_equal(receive(CLUSTER_REFUSED), 1);
}

static void test_preparation_that_goes_on(void **state)
{
	begin_known();
	answer(CLUSTER_GOES_ON, "a program runs");
	assert_int_equal(n_answers, 1);
	assert_true(is_known());
	begin_call();
	assert_int_equal(n_reads, 0);
}

static void test_claim_that_waits(void **state)
{
	begin_known();
	answer(CLUSTER_WHEN_FREE, "another claim has the device");
	assert_int_equal(n_answers, 0);
	assert_int_equal(receive(CLUSTER_REFUSED), 0);
	dra_calls_cancel(calls, RPC);
	assert_int_equal(n_answers, 1);
	assert_int_equal(receive(CLUSTER_REFUSED), 0);
}

static void test_counts_of_a_cancelled_call(void **state)
{
	begin_known();
	dra_calls_cancel(calls, RPC);
	assert_int_equal(n_answers, 1);
	assert_int_equal(receive(CLUSTER_HAPPENED), 0);
}

/* It goes on, and its kubelet calls again. */
static void test_counts_of_a_cancelled_unprepare(void **state)
{
	static const uint32_t types[] = { CLUSTER_REFUSED, CLUSTER_HAPPENED };

	for (size_t i = 0; i < 2 * ARRAY_SIZE(types); i++) {
		bool cancelled = i % 2;

		begin_call_of(false);
		assert_int_equal(receive(CLUSTER_UNPREPARE), 1);
		if (cancelled)
			dra_calls_cancel(calls, RPC);
		assert_int_equal(n_answers, i);
		answer(CLUSTER_NEVER, "the device is not clean");
		assert_int_equal(n_answers, i + 1);
		assert_int_equal(receive(types[i / 2]), !cancelled);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_list_of_before, teardown),
		cmocka_unit_test_teardown(test_failed_preparation, teardown),
		cmocka_unit_test_teardown(test_preparation_that_goes_on, teardown),
		cmocka_unit_test_teardown(test_claim_that_waits, teardown),
		cmocka_unit_test_teardown(test_counts_of_a_cancelled_call, teardown),
		cmocka_unit_test_teardown(test_counts_of_a_cancelled_unprepare, teardown),
	};

	return cmocka_run_group_tests(tests, setup_all, NULL);
}
