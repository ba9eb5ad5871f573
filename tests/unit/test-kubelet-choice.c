/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in for the kubelet chooses devices as a kubelet does, asks the plugin when a kubelet
 * asks, and refuses in its words.
 */
#include "kubelet-fixture.h"
#include "kubelet/choice.h"

static int begin(struct model *model, size_t n, struct choice *choice, struct error *error)
{
	return choice_begin(model, "uid", POD_CONTAINER, GPU, n, NULL, NULL, choice, error);
}

static void assert_refused(struct model *model, size_t n, const char *text)
{
	struct choice choice = {};
	struct error error = {};

	assert_true(begin(model, n, &choice, &error) < 0);
	assert_string_equal(error.message, text);
}

static void test_choice_refuses(void **state)
{
	_cleanup_(model_freep) struct model *model = make_model();
	struct choice choice = {};
	struct error error = {};

	/* A resource of no plugin does not concern the device manager. */
	assert_int_equal(begin(model, 1, &choice, &error), CHOICE_NOTHING);

	serve(model, 3, false);
	assert_refused(model, 4,
		"requested number of devices unavailable for " GPU ". Requested: 4, Available: 3");
	assert_int_equal(begin(model, 0, &choice, &error), CHOICE_NOTHING);

	list_devices(model, GPU, 3, "d0");
	assert_refused(model, 3,
		"requested number of devices unavailable for " GPU ". Requested: 3, Available: 2");
	list_devices(model, GPU, 1, "d0");
	assert_refused(
		model, 1, "no healthy devices present; cannot allocate unhealthy devices " GPU);
	assert_refused(
		model, 0, "no healthy devices present; cannot allocate unhealthy devices " GPU);
}

static void test_choice_of_recorded(void **state)
{
	_cleanup_(model_freep) struct model *model = make_model();
	char *ids[] = { (char[]){ "d1" } };
	struct choice choice = {};
	struct error error = {};

	serve(model, 3, false);
	assert_int_equal(model_record_allocation(
				 model, "uid", POD_CONTAINER, GPU, ids, 1, (const uint8_t *)"", 0),
		0);
	assert_int_equal(begin(model, 1, &choice, &error), CHOICE_NOTHING);
	assert_refused(model, 2,
		"pod \"uid\" container \"main\" changed request for resource \"" GPU
		"\" from 1 to 2");
	list_devices(model, GPU, 3, "d1");
	assert_refused(model, 1,
		"previously allocated devices are no longer healthy; cannot allocate unhealthy devices " GPU);

	/* Dropped by the kubelet, kept by the allocation. */
	assert_int_equal(model_recount_allocated(model), 0);
	model_find_resource(model, GPU)->known = false;
	assert_refused(model, 1, "cannot allocate unregistered device " GPU);
}

static void test_choice_without_preference(void **state)
{
	_cleanup_(model_freep) struct model *model = make_model();
	struct choice first = {}, second = {}, third = {};
	struct error error = {};

	serve(model, 3, false);
	assert_int_equal(begin(model, 2, &first, &error), CHOICE_ALLOCATE);
	assert_int_equal(first.n_taken, 2);
	assert_string_not_equal(first.taken[0], first.taken[1]);
	assert_int_equal(begin(model, 1, &second, &error), CHOICE_ALLOCATE);
	assert_string_not_equal(second.taken[0], first.taken[0]);
	assert_string_not_equal(second.taken[0], first.taken[1]);
	assert_true(begin(model, 1, &third, &error) < 0);

	/* Nothing was recorded: a recount finds them all free. */
	assert_int_equal(model_recount_allocated(model), 0);
	assert_int_equal(begin(model, 3, &third, &error), CHOICE_ALLOCATE);
	choice_done(&first);
	choice_done(&second);
	choice_done(&third);
}

static bool has_taken(const struct choice *choice, const char *id)
{
	for (size_t i = 0; i < choice->n_taken; i++)
		if (streq(choice->taken[i], id))
			return true;
	return false;
}

static void prefer(struct model *model, size_t n, char *const *preferred, size_t n_preferred,
	struct choice *ret)
{
	struct error error = {};

	assert_int_equal(begin(model, n, ret, &error), CHOICE_PREFER);
	assert_int_equal(choice_finish(model, GPU, ret, preferred, n_preferred, &error), 0);
	assert_int_equal(ret->n_taken, n);
}

static void test_choice_with_preference(void **state)
{
	_cleanup_(model_freep) struct model *model = make_model();
	char d0[] = "d0", d3[] = "d3", d5[] = "d5", alien[] = "alien";
	char *exact[] = { d3, d5 }, *few[] = { alien, d0, d0, d3 }, *many[] = { d0, d3, d5 };
	struct choice choice;

	/* Any order of the candidates must do. */
	for (uint64_t seed = 0; seed < 20; seed++) {
		model->random = seed;
		assert_int_equal(model_recount_allocated(model), 0);
		serve(model, 8, true);
		prefer(model, 2, exact, 2, &choice);
		assert_int_equal(choice.n_available, 8);
		assert_true(has_taken(&choice, "d3") && has_taken(&choice, "d5"));
		choice_done(&choice);

		/* d3 is in use by now, "alien" never existed: both are ignored. */
		prefer(model, 2, few, ARRAY_SIZE(few), &choice);
		assert_int_equal(choice.n_available, 6);
		assert_true(has_taken(&choice, "d0"));
		assert_false(has_taken(&choice, "d3") || has_taken(&choice, "alien"));
		choice_done(&choice);

		/* Nothing preferred: any will do. */
		prefer(model, 1, NULL, 0, &choice);
		choice_done(&choice);

		assert_int_equal(model_recount_allocated(model), 0);
		prefer(model, 2, many, ARRAY_SIZE(many), &choice);
		assert_int_equal(has_taken(&choice, "d0") + has_taken(&choice, "d3") +
				has_taken(&choice, "d5"),
			2);
		choice_done(&choice);
	}
}

static void test_dead_pods_are_collected(void **state)
{
	_cleanup_(model_freep) struct model *model = make_model();
	struct choice choice = {}, leaked = {};
	struct error error = {};
	struct pod *pod;

	serve(model, 3, false);
	assert_int_equal(model_add_pod(model, "uid", "default", "a", &pod), 0);
	assert_int_equal(begin(model, 1, &choice, &error), CHOICE_ALLOCATE);
	assert_int_equal(model_record_allocation(model, "uid", POD_CONTAINER, GPU, choice.taken, 1,
				 (const uint8_t *)"", 0),
		0);
	/* Taken and never recorded, as after an empty answer to Allocate: lost for now. */
	assert_int_equal(
		choice_begin(model, "other", POD_CONTAINER, GPU, 1, NULL, NULL, &leaked, &error),
		CHOICE_ALLOCATE);
	assert_int_equal(model_collect_allocations(model), 0);
	assert_int_equal(model_find_resource(model, GPU)->allocated.count, 2);

	/* The end of any other pod brings it back. */
	assert_int_equal(pod_set_status(pod, POD_FAILED, "reason", "message"), 0);
	assert_int_equal(model_collect_allocations(model), 0);
	assert_int_equal(model_find_resource(model, GPU)->allocated.count, 0);
	assert_null(model_find_allocation(model, "uid", POD_CONTAINER, GPU));
	choice_done(&choice);
	choice_done(&leaked);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choice_refuses),
		cmocka_unit_test(test_choice_of_recorded),
		cmocka_unit_test(test_choice_without_preference),
		cmocka_unit_test(test_choice_with_preference),
		cmocka_unit_test(test_dead_pods_are_collected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
