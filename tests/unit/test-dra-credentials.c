/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials whose files are being rewritten, or cannot be read to their end: those that are in
 * use stay.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/sealed.h"
#include "dra/dra-credentials-store.h"
#include "supervisor/helpers/dra-credentials.h"

#define KUBECONFIG(server, user)                                                   \
	"current-context: c\n"                                                     \
	"contexts:\n- name: c\n  context: {cluster: k, user: u}\n"                 \
	"clusters:\n- name: k\n  cluster:\n    certificate-authority-data: Y2E=\n" \
	"    server: https://" server "\nusers:\n- name: u\n  user:\n    " user "\n"

static struct dra_credentials credentials;

static int setup(void **state)
{
	int pair[2];

	log_setup("test-dra-credentials", LOG_TARGET_TEXT, LOG_CRIT);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	/* No process reads what is asked for. */
	assert_int_equal(dup2(pair[0], CONTROL_FD), CONTROL_FD);
	credentials = DRA_CREDENTIALS_INIT;
	return 0;
}

static int teardown(void **state)
{
	dra_credentials_done(&credentials);
	return 0;
}

/* The file that is waited for. NULL: it cannot be read. */
static bool answer(const char *text)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_FILE);

	message.number = credentials.request;
	(void)snprintf(message.text, sizeof(message.text), "%s",
		text ? "/etc/kubeconfig" : "cannot read /etc/token: too secret");
	if (text) {
		message.fds[0] = sealed_new("file", text, strlen(text));
		assert_true(message.fds[0] >= 0);
	}
	return dra_credentials_take(&credentials, &message);
}

static void assert_in_use(const char *server, const char *token)
{
	char path[32];

	assert_true(credentials.loaded_at > 0);
	assert_string_equal(credentials.config.server, server);
	assert_string_equal(credentials.texts[DRA_FILE_TOKEN], token);
	assert_non_null(dra_credentials_path(&credentials, DRA_FILE_CA, path));
	assert_int_equal(access(path, R_OK), 0);
}

static void load_first(void)
{
	dra_credentials_load(&credentials);
	assert_false(answer(KUBECONFIG("old", "tokenFile: file")));
	assert_true(answer("old-token\n"));
	assert_in_use("https://old", "old-token");
	assert_string_equal(credentials.failure, "");
}

static void test_rewritten_kubeconfig(void **state)
{
	static const char text[] = KUBECONFIG("new", "tokenFile: file");
	_cleanup_free_ char *part = strdup(text);

	load_first();
	assert_non_null(part);
	/* As much of the new file as is there. */
	for (size_t length = 0; length < strlen(text); length++) {
		memcpy(part, text, length);
		part[length] = '\0';
		dra_credentials_load(&credentials);
		/* The name of the other file may not be complete. */
		if (!answer(part))
			assert_true(answer(NULL));
		assert_in_use("https://old", "old-token");
		assert_true(credentials.failure[0] != '\0');
		assert_false(credentials.loading);
	}
	dra_credentials_load(&credentials);
	assert_false(answer(text));
	assert_in_use("https://old", "old-token");
	assert_true(answer("new-token"));
	assert_in_use("https://new", "new-token");
	assert_string_equal(credentials.failure, "");
}

/* A kubeconfig file and a token that do not belong together are never in use. */
static void test_file_that_cannot_be_read(void **state)
{
	load_first();
	dra_credentials_load(&credentials);
	assert_false(answer(KUBECONFIG("new", "tokenFile: file")));
	assert_true(answer(NULL));
	assert_in_use("https://old", "old-token");
	assert_non_null(strstr(credentials.failure, "cannot read /etc/token: too secret"));
	dra_credentials_load(&credentials);
	assert_true(answer(NULL));
	assert_in_use("https://old", "old-token");
}

static void test_nothing_in_use(void **state)
{
	dra_credentials_load(&credentials);
	assert_true(answer("a: ["));
	assert_int_equal(credentials.loaded_at, 0);
	assert_non_null(strstr(credentials.failure, "/etc/kubeconfig: it cannot be read as YAML"));
}

/* An answer that came too late, for another file than the one that is waited for. */
static void test_late_answer(void **state)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_FILE);

	load_first();
	dra_credentials_load(&credentials);
	message.number = credentials.request - 1;
	assert_false(dra_credentials_take(&credentials, &message));
	assert_true(credentials.loading);
	assert_false(answer(KUBECONFIG("new", "tokenFile: file")));
	assert_true(answer("new-token"));
	assert_in_use("https://new", "new-token");
}

/* Files of /sys are shorter than they claim to be, and some cannot be read although they can be
 * opened. */
/* As in a kubelet's file, which may be replaced between two reads. */
static void test_certificate_and_key_of_one_file(void **state)
{
	dra_credentials_load(&credentials);
	assert_false(answer(
		KUBECONFIG("one", "client-certificate: both.pem\n    client-key: both.pem")));
	assert_true(answer("certificate and key"));
	for (enum dra_file file = DRA_FILE_CERTIFICATE; file <= DRA_FILE_KEY; file++)
		assert_string_equal(credentials.texts[file], "certificate and key");
}

static void read_pair(const char *certificate, const char *key)
{
	dra_credentials_load(&credentials);
	assert_false(answer(KUBECONFIG("one", "client-certificate: a.crt\n    client-key: a.key")));
	assert_false(answer(certificate));
	assert_true(answer(key));
	assert_false(credentials.loading);
}

static void assert_pair(const char *certificate, const char *key)
{
	assert_string_equal(credentials.texts[DRA_FILE_CERTIFICATE], certificate);
	assert_string_equal(credentials.texts[DRA_FILE_KEY], key);
}

/* Two files are replaced one after the other, in either order, and read in between. */
static void test_certificate_and_key_of_two_files(void **state)
{
	read_pair("c1", "k1");
	assert_pair("c1", "k1");
	read_pair("c2", "k1");
	assert_pair("c1", "k1");
	assert_true(credentials.stale_at <= now_usec(CLOCK_MONOTONIC) + DRA_CREDENTIALS_SETTLE);
	read_pair("c2", "k2");
	assert_pair("c1", "k1");
	read_pair("c2", "k2");
	assert_pair("c2", "k2");
	assert_true(credentials.stale_at > now_usec(CLOCK_MONOTONIC) + DRA_CREDENTIALS_SETTLE);
	read_pair("c2", "k3");
	assert_pair("c2", "k2");
	/* The server refuses the current ones. */
	credentials.loaded_at = 0;
	read_pair("c3", "k3");
	assert_pair("c3", "k3");
}

static void test_half_a_file(void **state)
{
	static const char *const paths[] = { "/sys/class/net/lo/mtu", "/sys/class/net/lo/speed" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct dra_identity identity = { .kind = DRA_IDENTITY_KUBECONFIG,
			.path = (char *)(uintptr_t)paths[i],
			.root = "" };
		struct error error = { 0 };

		if (access(paths[i], R_OK) < 0)
			skip();
		assert_true(dra_credentials_open(&identity, "", &error) < 0);
		assert_non_null(strstr(error.message, paths[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_rewritten_kubeconfig, setup, teardown),
		cmocka_unit_test_setup_teardown(test_file_that_cannot_be_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing_in_use, setup, teardown),
		cmocka_unit_test_setup_teardown(test_late_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_certificate_and_key_of_one_file, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_certificate_and_key_of_two_files, setup, teardown),
		cmocka_unit_test(test_half_a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
