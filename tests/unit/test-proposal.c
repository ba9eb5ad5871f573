/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proposals of files: what status shows of them, however much was logged before.
 */
#include "host-fixture.h"

#include "common/log.h"
#include "common/sealed.h"
#include "supervisor/children/proposal.h"
#include "supervisor/children/resource.h"
#include "supervisor/files/published-files.h"

#define NAME "vendor.example/card"

static struct config *config;
static struct published *published;
static sd_event *event;
static struct resource resource;
static struct proposal *proposal;

static int answer(uint64_t number, const char *why, void *userdata)
{
	return 0;
}

static int setup(void **state)
{
	_cleanup_report_ struct report report = { 0 };
	const struct declaration *declaration;
	struct published_judges judges = {
		.declarations = &declaration, .count = 1, .complete = true
	};
	char path[512], text[1024];

	log_setup("test-proposal", LOG_TARGET_TEXT, LOG_CRIT);
	if (host_setup(state) < 0)
		return -1;
	(void)snprintf(text, sizeof(text),
		"cdi_dir = \"%s/cdi\"; device_info_dir = \"%s/info\"; resources = ( { name = \"" NAME
		"\"; driver = \"static\"; match = ( { count = 1; } ); } );",
		host_root, host_root);
	host_write("/devplugd.conf", text);
	host_path(path, "/devplugd.conf");
	if (config_load(path, &report, &config) < 0)
		return -1;
	declaration = &config->resources[0].declaration;
	resource.name = declaration->name;
	resource.wanted = &config->resources[0];
	host_path(path, "/run");
	if (published_new(path, &published) < 0 || sd_event_new(&event) < 0 ||
		proposal_new(event, published, &resource, answer, NULL, &proposal) < 0)
		return -1;
	published_configure(published, config, &judges);
	return 0;
}

static int teardown(void **state)
{
	proposal = proposal_free(proposal);
	event = sd_event_unref(event);
	published = published_free(published);
	config = config_free(config);
	return host_teardown(state);
}

/* At once, without the pause between two. */
static void propose(const char *text)
{
	static uint64_t number;
	int fd = sealed_new("test", text, strlen(text));

	assert_true(fd >= 0);
	proposal_submit(proposal, fd, ++number);
	proposal_publish_again(proposal);
}

static void test_failure_is_the_newest(void **state)
{
	char name[16], text[64];

	/* Names that occur twice. */
	for (unsigned i = 0; i <= LOG_BUDGET_BURST; i++) {
		(void)snprintf(name, sizeof(name), "\"x%u\"", i);
		(void)snprintf(text, sizeof(text), "{%s:1,%s:1}", name, name);
		propose(text);
		assert_non_null(strstr(proposal_failure(proposal), name));
	}
	propose("{}");
	assert_null(proposal_failure(proposal));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_failure_is_the_newest, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
