/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which identity is chosen on a host of each distribution, and which name of the node.
 */
#include "tests/unit/host-fixture.h"

#include <ctype.h>

#include "supervisor/helpers/dra-credentials.h"

/* Where each distribution of docs/compatibility.md has the kubelet's kubeconfig. */
static const char *const files[] = {
	"/etc/kubernetes/kubelet.conf",
	"/var/lib/kubelet/kubeconfig",
	"/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
	"/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
	"/var/lib/k0s/kubelet.conf",
	"/var/snap/microk8s/current/credentials/kubelet.config",
	"/var/lib/microshift/resources/kubelet/kubeconfig",
	"/etc/kubernetes/kubeconfig-kubelet",
	"/etc/kubernetes/kubelet/kubeconfig",
};

static struct dra_identity identity;

static int setup(void **state)
{
	(void)unsetenv("KUBERNETES_SERVICE_HOST");
	(void)unsetenv("KUBERNETES_SERVICE_PORT");
	(void)unsetenv("NODE_NAME");
	return host_setup(state);
}

static int teardown(void **state)
{
	dra_identity_done(&identity);
	return host_teardown(state);
}

static int configure(const char *dra)
{
	_cleanup_report_ struct report report = { 0 };
	_cleanup_config_ struct config *config = NULL;
	_cleanup_free_ char *text = NULL;

	assert_true(asprintf(&text, "host_root = \"%s\"; dra = { driver = \"d.example\"; %s };",
			    host_root, dra) > 0);
	if (config_load_text("test", text, strlen(text), &report, &config) < 0)
		fail_msg("%s", report.entries[0].text);
	return dra_identity_configure(&identity, config);
}

static void plant(const char *path, const char *text)
{
	_cleanup_free_ char *directory = strndup(path, (size_t)(strrchr(path, '/') - path));

	host_mkdir(directory);
	host_write(path, text);
}

static void assert_chosen(const char *word, const char *path)
{
	struct error error = { 0 };

	if (dra_identity_choose(&identity, &error) < 0)
		fail_msg("%s", error.message);
	assert_string_equal(dra_identity_word(&identity), word);
	assert_string_equal(identity.path, path);
}

static void test_each_distribution(void **state)
{
	struct error error = { 0 };

	(void)configure("");
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		assert_int_equal(dra_identity_choose(&identity, &error), -ENOENT);
		assert_string_equal(dra_identity_word(&identity), "");
		assert_non_null(strstr(error.message, made("%s%s", host_root, files[0])));
		assert_non_null(strstr(error.message, "set dra.kubeconfig"));
		plant(files[i], "kind: Config\n");
		assert_chosen("kubelet", made("%s%s", host_root, files[i]));
		host_remove(files[i]);
	}
}

/* The file of kubeadm's name is the kubelet's configuration on OpenShift. */
static void test_openshift(void **state)
{
	(void)configure("");
	plant(files[0], "kind: KubeletConfiguration\n");
	plant(files[1], "kind: Config\n");
	assert_chosen("kubelet", made("%s%s", host_root, files[1]));
}

/* A file that exists and cannot be read is not skipped, so that its path is reported. */
static void test_unreadable(void **state)
{
	struct error error = { 0 };

	(void)configure("");
	host_mkdir(files[0]);
	plant(files[1], "kind: Config\n");
	assert_chosen("kubelet", made("%s%s", host_root, files[0]));
	assert_true(dra_credentials_open(&identity, "", &error) < 0);
	assert_non_null(strstr(error.message, made("cannot read %s%s", host_root, files[0])));
}

static void test_configured_file_is_first(void **state)
{
	assert_int_equal(configure(""), 1);
	plant(files[0], "kind: Config\n");
	assert_chosen("kubelet", made("%s%s", host_root, files[0]));
	assert_int_equal(configure("kubeconfig = \"/own\";"), 1);
	assert_int_equal(configure("kubeconfig = \"/own\";"), 0);
	assert_string_equal(dra_identity_word(&identity), "");
	assert_chosen("dra.kubeconfig", "/own");
	assert_int_equal(configure(""), 1);
	assert_chosen("kubelet", made("%s%s", host_root, files[0]));
}

/* Files that the kubeconfig file names are those of the host, too, also behind links. */
static void test_named_files_below_the_root(void **state)
{
	static const char text[] = "client-certificate: /pki/current.pem\ntokenFile: token\n";
	static const char *const named[] = { "/pki/current.pem", "token" };
	struct error error = { 0 };

	(void)configure("");
	plant(files[0], text);
	plant("/pki/first.pem", "certificate");
	host_symlink("/pki/first.pem", "/pki/current.pem");
	plant("/etc/kubernetes/token", "token");
	assert_chosen("kubelet", made("%s%s", host_root, files[0]));
	for (size_t i = 0; i < ARRAY_SIZE(named); i++) {
		int fd = dra_credentials_open(&identity, named[i], &error);

		if (fd < 0)
			fail_msg("%s", error.message);
		(void)close_fd(fd);
	}
	assert_int_equal(dra_credentials_open(&identity, "/pki/first.pem", &error), -EPERM);
	host_remove("/pki/first.pem");
	assert_true(dra_credentials_open(&identity, named[0], &error) < 0);
	assert_non_null(strstr(error.message, made("cannot read %s/pki/current.pem", host_root)));
}

static void assert_node(const char *node, const char *source)
{
	assert_string_equal(identity.node, node);
	assert_string_equal(dra_identity_node_source(&identity), source);
}

static void test_node(void **state)
{
	char host[256];

	assert_int_equal(gethostname(host, sizeof(host)), 0);
	for (char *p = host; *p; p++)
		*p = (char)tolower(*p);
	assert_int_equal(configure(""), 1);
	assert_node(host, "host");
	assert_true(dra_identity_wants_certificate(&identity));
	assert_true(dra_identity_set_certificate(&identity, "node-7"));
	assert_false(dra_identity_set_certificate(&identity, "node-7"));
	assert_node("node-7", "certificate");
	assert_int_equal(configure(""), 0);
	assert_int_equal(setenv("NODE_NAME", "node-8", 1), 0);
	assert_int_equal(configure(""), 1);
	assert_node("node-8", "NODE_NAME");
	assert_false(dra_identity_set_certificate(&identity, "node-7"));
	assert_int_equal(configure("node = \"node-9\";"), 1);
	assert_node("node-9", "dra.node");
	/* What is not a name does not count. */
	assert_int_equal(setenv("NODE_NAME", "../node", 1), 0);
	assert_int_equal(configure(""), 1);
	assert_node("node-7", "certificate");
	assert_true(dra_identity_set_certificate(&identity, "a/b"));
	assert_node(host, "host");
}

/* Another file may be of another node. */
static void test_certificate_of_another_file(void **state)
{
	(void)configure("");
	(void)dra_identity_set_certificate(&identity, "node-7");
	assert_int_equal(configure("kubeconfig = \"/own\";"), 1);
	assert_string_equal(dra_identity_node_source(&identity), "host");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_distribution, setup, teardown),
		cmocka_unit_test_setup_teardown(test_openshift, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unreadable, setup, teardown),
		cmocka_unit_test_setup_teardown(test_configured_file_is_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_named_files_below_the_root, setup, teardown),
		cmocka_unit_test_setup_teardown(test_node, setup, teardown),
		cmocka_unit_test_setup_teardown(test_certificate_of_another_file, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
