/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which answers of an API server show that it does not have a claim.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dra/claim-lookup.h"

#define CLAIM(name, uid) \
	"{\"kind\":\"ResourceClaim\",\"metadata\":{\"name\":\"" name "\",\"uid\":\"" uid "\"}}"
#define NOT_FOUND(kind, name)                                                        \
	"{\"kind\":\"Status\",\"reason\":\"NotFound\",\"details\":{\"kind\":\"" kind \
	"\",\"name\":\"" name "\"}}"
#define FORBIDDEN(why)                                                                             \
	"{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"resourceclaims \\\"c\\\" is " \
	"forbidden: " why "\"}"

static void test_answers(void **state)
{
	static const struct {
		int code;
		const char *body;
		bool unknown;
	} cases[] = {
		{ 0, NULL, false },
		{ 200, NULL, false },
		{ 200, CLAIM("c", "u-1"), false },
		{ 200, CLAIM("c", "u-2"), true },
		{ 200, CLAIM("c", ""), false },
		{ 200, CLAIM("d", "u-2"), false },
		{ 200, "{\"metadata\":{\"name\":\"c\",\"uid\":\"u-2\"}}", false },
		{ 200, "[]", false },
		{ 404, NULL, false },
		{ 404, NOT_FOUND("resourceclaims", "c"), true },
		{ 404, NOT_FOUND("resourceclaims", "d"), false },
		{ 404, NOT_FOUND("namespaces", "c"), false },
		/* The server does not serve the API. */
		{ 404, "{\"kind\":\"Status\",\"reason\":\"NotFound\",\"details\":{}}", false },
		{ 403, NULL, false },
		{ 403, FORBIDDEN(""), false },
		{ 403, FORBIDDEN("no relationship found between node 'n' and this object"), true },
		{ 403, FORBIDDEN("no relationship found between node \\\"n\\\" and this object"),
			true },
		{ 403, FORBIDDEN("no relationship found between node 'm' and this object"), false },
		{ 403, FORBIDDEN("RBAC: clusterrole not found"), false },
		{ 401, NOT_FOUND("resourceclaims", "c"), false },
		{ 410, NOT_FOUND("resourceclaims", "c"), false },
		{ 429, NULL, false },
		{ 500, NOT_FOUND("resourceclaims", "c"), false },
		{ 503, FORBIDDEN("no relationship found between node 'n' and this object"), false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_auto_t *body = cases[i].body ? json_loads(cases[i].body, 0, NULL) : NULL;
		const struct dra_answer answer = { .code = cases[i].code, .body = body };

		assert_true(!cases[i].body || body);
		if (claim_lookup_is_unknown(&answer, "c", "u-1", "n") != cases[i].unknown)
			fail_msg("%d %s", cases[i].code, cases[i].body ?: "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
