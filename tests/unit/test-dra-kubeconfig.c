/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kubeconfig files as kubeadm, k3s and people write them, and what is wrong with others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dra/model/dra-kubeconfig.h"

#define CLUSTER "clusters:\n- name: k\n  cluster:\n    server: https://10.0.0.1:6443\n"
#define CONTEXT                                                                                 \
	"current-context: c\ncontexts:\n- name: other\n  context: {cluster: k, user: nobody}\n" \
	"- context:\n    cluster: k\n    user: u\n  name: c\n"
#define USER(text) "users:\n- name: u\n  user:\n" text

static void read_file(const char *text, struct dra_kubeconfig *ret)
{
	struct error error = { 0 };

	if (dra_kubeconfig_read(text, strlen(text), ret, &error) < 0)
		fail_msg("%s", error.message);
}

static void test_kubeadm(void **state)
{
	struct dra_kubeconfig config;

	read_file("apiVersion: v1\nkind: Config\n" CLUSTER
		  "    certificate-authority-data: aGVs\n      bG8=\n" CONTEXT USER(
			  "    client-certificate: "
			  "/var/lib/kubelet/pki/kubelet-client-current.pem\n"
			  "    client-key: \"/var/lib/kubelet/pki/kubelet-client-current.pem\"\n"),
		&config);
	assert_string_equal(config.server, "https://10.0.0.1:6443");
	assert_int_equal(config.ca.size, 5);
	assert_memory_equal(config.ca.data, "hello", 5);
	assert_null(config.ca.file);
	assert_string_equal(
		config.certificate.file, "/var/lib/kubelet/pki/kubelet-client-current.pem");
	assert_string_equal(config.key.file, config.certificate.file);
	assert_false(config.insecure);
	dra_kubeconfig_done(&config);
}

static void test_json_and_token(void **state)
{
	struct dra_kubeconfig config;

	read_file("{\"current-context\": \"c\", \"contexts\": [{\"name\": \"c\", \"context\": "
		  "{\"cluster\": \"k\", \"user\": \"u\"}}], \"clusters\": [{\"name\": \"k\", "
		  "\"cluster\": {\"server\": \"https://api\", "
		  "\"certificate-authority\": \"ca.crt\"}}], \"users\": [{\"name\": \"u\", "
		  "\"user\": {\"token\": \"abc\"}}]}",
		&config);
	assert_string_equal(config.token.data, "abc");
	assert_string_equal(config.ca.file, "ca.crt");
	dra_kubeconfig_done(&config);
}

static void check_refused(const char *text, const char *why)
{
	struct dra_kubeconfig config;
	struct error error = { 0 };

	assert_int_equal(dra_kubeconfig_read(text, strlen(text), &config, &error), -EBADMSG);
	if (!strstr(error.message, why))
		fail_msg("\"%s\" lacks \"%s\"", error.message, why);
	assert_null(strstr(error.message, "secret"));
}

static void test_refused(void **state)
{
	char deep[400];

	check_refused("", "YAML");
	check_refused("a: [", "YAML");
	check_refused("a: &x secret\nb: *x\n", "anchors");
	check_refused("a: b\n", "current-context");
	check_refused(CONTEXT, "https://");
	check_refused(CONTEXT "clusters:\n- name: k\n  cluster: {server: http://x}\n", "https://");
	check_refused(CLUSTER "    tls-server-name: x\n" CONTEXT USER("    token: x\n"),
		"tls-server-name");
	check_refused(CLUSTER CONTEXT, "user");
	check_refused(CLUSTER CONTEXT USER("    exec: {command: secret}\n"), "exec");
	check_refused(CLUSTER CONTEXT USER("    username: secret\n"), "no client certificate");
	/* Not the file that has no name, which is the kubeconfig file itself. */
	check_refused(CLUSTER CONTEXT USER("    tokenFile:\n"), "no client certificate");
	check_refused(CLUSTER CONTEXT USER("    token: \"\"\n"), "no client certificate");
	check_refused(
		CLUSTER CONTEXT USER("    client-certificate: \"\"\n"), "no client certificate");
	check_refused(CLUSTER CONTEXT USER("    client-certificate-data: \"\"\n"),
		"no client certificate");
	check_refused(CLUSTER CONTEXT USER("    client-certificate-data: \"sec:ret\"\n"), "base64");
	memset(deep, '[', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	memcpy(deep, "a: ", 3);
	check_refused(deep, "YAML");
}

/* The server is found although the user cannot be used. */
static void test_server(void **state)
{
	static const char *const users[] = { "    token: x\n", "    exec: {command: aws}\n" };
	static const char *const without[] = { "", "a: [", CONTEXT };

	for (size_t i = 0; i < ARRAY_SIZE(users); i++) {
		_cleanup_free_ char *text = NULL, *server = NULL;

		assert_true(asprintf(&text, CLUSTER CONTEXT USER("%s"), users[i]) > 0);
		server = dra_kubeconfig_server(text, strlen(text));
		assert_non_null(server);
		assert_string_equal(server, "https://10.0.0.1:6443");
	}
	for (size_t i = 0; i < ARRAY_SIZE(without); i++)
		assert_null(dra_kubeconfig_server(without[i], strlen(without[i])));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kubeadm),
		cmocka_unit_test(test_json_and_token),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
