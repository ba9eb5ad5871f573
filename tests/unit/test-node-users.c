/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which questions about device nodes are asked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/control-node-users.h"
#include "supervisor/books/node-users.h"
#include "supervisor/children/manager.h"

static void unexpected(const char *user, const char *failure, void *userdata)
{
	fail();
}

static int ask(struct node_users *users, size_t n_nodes, const char *other, struct error *error)
{
	_cleanup_strings_ struct strings paths = { 0 };

	assert_int_equal(strings_add(&paths, other, strlen(other)), 0);
	for (size_t i = 0; i < n_nodes; i++)
		assert_int_equal(strings_add(&paths, "/dev/null", 9), 0);
	return node_users_ask(users, "", &paths, unexpected, NULL, error);
}

/* Not all nodes of a device with too many can be examined, so none is. */
static void test_limit(void **state)
{
	struct manager manager = { 0 };
	struct node_users *users;
	struct error error = { 0 };

	assert_int_equal(sd_event_new(&manager.event), 0);
	assert_int_equal(node_users_new(&manager, &users), 0);
	assert_int_equal(ask(users, NODE_USERS_MAX + 1, "/dev/null/missing", &error), -E2BIG);
	assert_non_null(strstr(error.message, "more than 256 device nodes"));
	assert_false(node_users_is_busy(users));
	/* Other paths do not count. */
	assert_int_equal(ask(users, 0, "/dev/null/missing", &error), 0);
	assert_int_equal(ask(users, 0, "/", &error), 0);
	(void)node_users_free(users);
	sd_event_unref(manager.event);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
