/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Valid configurations: the result of a good file, and when two texts are the same resource.
 * complaints.md: R24.
 */
#include "config-fixture.h"

#include <syslog.h>

#include "drivers/model/driver.h"

static void test_defaults(void **state)
{
	_cleanup_config_ struct config *config = load("# nothing");
	const struct declaration *declaration;

	assert_string_equal(config->runtime_dir, "/run/devplugd");
	assert_int_equal(config->log_level, LOG_INFO);
	assert_string_equal(config->kubelet.device_plugin_dir, "/var/lib/kubelet/device-plugins");
	assert_int_equal(config->kubelet.registration, REGISTRATION_SOCKET);
	assert_int_equal(config->n_resources, 0);
	config = config_free(config);

	config = load(
		ONE("health = ( { probe = \"exec\"; command = \"/bin/x\"; },\n"
		    "{ probe = \"file\"; path = \"/run/x\"; } );\n"
		    "prestart = { command = \"/bin/y\"; };\n"
		    "container = { nodes = \"/dev/null\"; mounts = ( { host = \"/opt\"; } ); };"));
	assert_int_equal(config->n_resources, 1);
	declaration = &config->resources[0].declaration;
	assert_string_equal(declaration->name, "v.e/x");
	assert_ptr_equal(declaration->driver, driver_find("path"));
	assert_true(declaration->enabled);
	assert_int_equal(declaration->overlap, OVERLAP_NONE);
	assert_true(declaration->topology);
	assert_int_equal(declaration->prefer, PREFER_NONE);
	assert_null(declaration->user);
	assert_int_equal(declaration->match.count, 1);
	assert_int_equal(declaration->share.replicas, 1);
	assert_int_equal(declaration->share.max_per_container, 0);
	assert_string_equal(declaration->origin.file, main_file);
	assert_int_equal(declaration->origin.line, 2);

	const struct declared_probe *exec = groups_get(&declaration->health, 0);
	const struct declared_probe *file = groups_get(&declaration->health, 1);
	const struct declared_node *node = groups_get(&declaration->container.nodes, 0);
	const struct declared_mount *mount = groups_get(&declaration->container.mounts, 0);

	assert_int_equal(exec->kind, PROBE_EXEC);
	assert_int_equal(exec->timeout, 5 * USEC_PER_SEC);
	assert_int_equal(exec->interval, 10 * USEC_PER_SEC);
	assert_int_equal(exec->fail_after, 1);
	assert_int_equal(exec->recover_after, 1);
	assert_int_equal(exec->recover, RECOVER_PROBE);
	assert_int_equal(exec->origin.line, 3);
	assert_int_equal(file->kind, PROBE_FILE);
	assert_int_equal(file->healthy.count, 0);
	assert_int_equal(file->missing, 0);
	assert_int_equal(file->origin.line, 4);
	assert_int_equal(declaration->prestart.timeout, 20 * USEC_PER_SEC);
	assert_int_equal(declaration->prestart.command.count, 1);
	assert_string_equal(node->permissions, "rw");
	assert_null(node->path);
	assert_false(node->optional);
	assert_false(mount->read_only);
}

static void test_kubelet_root(void **state)
{
	static const struct {
		const char *text, *registry, *pods;
	} cases[] = {
		{ "# nothing", "/var/lib/kubelet/plugins_registry",
			"/var/lib/kubelet/pod-resources/kubelet.sock" },
		{ "kubelet = { root_dir = \"/var/lib/k0s/kubelet/\"; };",
			"/var/lib/k0s/kubelet/plugins_registry",
			"/var/lib/k0s/kubelet/pod-resources/kubelet.sock" },
		{ "kubelet = { root_dir = \"/\"; };", "/plugins_registry",
			"/pod-resources/kubelet.sock" },
		{ "kubelet = { root_dir = \"/k\"; plugins_registry_dir = \"/r/\"; "
		  "pod_resources_socket = \"/p\"; };",
			"/r", "/p" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_config_ struct config *config = load(cases[i].text);

		assert_string_equal(config->kubelet.plugins_registry_dir, cases[i].registry);
		assert_string_equal(config->kubelet.pod_resources_socket, cases[i].pods);
		/* A kubelet has it there under any root directory. */
		assert_string_equal(
			config->kubelet.device_plugin_dir, "/var/lib/kubelet/device-plugins");
	}
}

static const char example[] =
	"kubelet = {\n"
	"    device_plugin_dir = \"/var/lib/kubelet/device-plugins//\";\n"
	"    registration = \"socket\";                  # a comment\n"
	"};\n"
	"log_level = \"debug\";\n"
	"runtime_dir = \"/run/elsewhere/\";\n"
	"resources = (\n"
	"    { name = \"vendor.example/kvm\";  driver = \"path\"; match = ( { path = \"/dev/kvm\"; "
	"} ); share = { replicas = 100; }; },\n"
	"    { name = \"vendor.example/off\"; driver = \"path\"; match = \"/dev/off\"; "
	"enabled = false; },\n"
	"    { name = \"vendor.example/token\"; driver = \"static\";\n"
	"      match   = ( { id = \"token-x\"; }, { count = 4; } );   # any of these\n"
	"      exclude = ( { id = \"0000:03:00.0\"; }, \"b*\" );\n"
	"      health  = ( { probe = \"file\"; path = \"/run/x/${id}\"; healthy = \"1\"; "
	"interval = 0.5; fail_after = 2; recover_after = 3; recover = \"reboot\"; missing = "
	"\"healthy\" } );\n"
	"      prefer  = \"numa\";\n"
	"      container = {\n"
	"          nodes  = ( \"/dev/xfpga/${attr:instance}\", \"?/dev/xclmgmt${index}\",\n"
	"                     { host = \"?${node}\"; path = \"/dev/y\"; permissions = \"mrw\"; } );\n"
	"          mounts = ( { host = \"/opt/xilinx\"; path = \"/opt/x\"; read_only = true; } );\n"
	"          env    = ( \"FPGA_DEVICES=${ids:,}\", \"UNIT_${index}=${id}\" );\n"
	"          annotations = ( \"vendor.example/card=${ids:,}\" );\n"
	"          cdi    = ( \"vendor.example/fpga=${id}\" );\n"
	"      };\n"
	"      prestart = { command = [ \"/usr/libexec/vendor/scrub\", \"${id}\" ]; timeout = 25; };\n"
	"    }\n"
	");\n";

static void check_example(const struct config *config)
{
	const struct declaration *declaration;
	const struct declared_node *node;
	const struct declared_probe *probe;

	assert_string_equal(config->kubelet.device_plugin_dir, "/var/lib/kubelet/device-plugins");
	assert_string_equal(config->runtime_dir, "/run/elsewhere");
	assert_int_equal(config->log_level, LOG_DEBUG);
	assert_int_equal(config->n_resources, 2);
	declaration = &config->resources[0].declaration;
	assert_string_equal(declaration->name, "vendor.example/kvm");
	assert_int_equal(declaration->share.replicas, 100);

	declaration = &config->resources[1].declaration;
	assert_string_equal(declaration->name, "vendor.example/token");
	assert_int_equal(declaration->match.count, 2);
	assert_int_equal(declaration->exclude.count, 2);
	assert_string_equal(
		((const struct exclusion *)groups_get(&declaration->exclude, 1))->id, "b*");
	assert_int_equal(declaration->prefer, PREFER_NUMA);
	probe = groups_get(&declaration->health, 0);
	assert_string_equal(probe->path, "/run/x/${id}");
	assert_string_equal(probe->healthy.items[0], "1");
	assert_int_equal(probe->interval, USEC_PER_SEC / 2);
	assert_int_equal(probe->fail_after, 2);
	assert_int_equal(probe->recover_after, 3);
	assert_int_equal(probe->recover, RECOVER_REBOOT);
	assert_int_equal(probe->missing, 1);
	assert_int_equal(declaration->container.nodes.count, 3);
	node = groups_get(&declaration->container.nodes, 0);
	assert_string_equal(node->host, "/dev/xfpga/${attr:instance}");
	assert_false(node->optional);
	node = groups_get(&declaration->container.nodes, 1);
	assert_string_equal(node->host, "/dev/xclmgmt${index}");
	assert_true(node->optional);
	node = groups_get(&declaration->container.nodes, 2);
	assert_string_equal(node->host, "${node}");
	assert_string_equal(node->path, "/dev/y");
	assert_string_equal(node->permissions, "mrw");
	assert_true(node->optional);
	assert_int_equal(declaration->container.mounts.count, 1);
	assert_int_equal(declaration->container.env.count, 2);
	assert_string_equal(
		declaration->container.annotations.items[0], "vendor.example/card=${ids:,}");
	assert_string_equal(declaration->container.cdi.items[0], "vendor.example/fpga=${id}");
	assert_int_equal(declaration->prestart.command.count, 2);
	assert_string_equal(declaration->prestart.command.items[1], "${id}");
	assert_int_equal(declaration->prestart.timeout, 25 * USEC_PER_SEC);
}

static char *dump(const struct config *config)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	assert_non_null(stream);
	assert_int_equal(config_dump(config, stream), 0);
	assert_int_equal(fclose(stream), 0);
	return text;
}

static void test_example(void **state)
{
	_cleanup_config_ struct config *config = load(example), *again = NULL;
	_cleanup_free_ char *first = NULL, *second = NULL;

	check_example(config);
	first = dump(config);
	again = load(first);
	check_example(again);
	second = dump(again);
	assert_string_equal(first, second);
	for (size_t i = 0; i < config->n_resources; i++)
		assert_string_equal(config->resources[i].text, again->resources[i].text);
}

static void test_dump_of_nothing(void **state)
{
	_cleanup_config_ struct config *config = load("# nothing"), *again = NULL;
	_cleanup_free_ char *text = dump(config);

	assert_string_equal(text,
		"runtime_dir = \"/run/devplugd\";\n"
		"log_level = \"info\";\n"
		"host_root = \"/\";\ncdi = false;\n"
		"cdi_dir = \"/var/run/cdi\";\n"
		"device_info_dir = \"/var/run/k8s.cni.cncf.io/devinfo/dp\";\n"
		"features_dir = \"/etc/kubernetes/node-feature-discovery/features.d\";\n"
		"kubelet = {\n"
		"\troot_dir = \"/var/lib/kubelet\";\n"
		"\tdevice_plugin_dir = \"/var/lib/kubelet/device-plugins\";\n"
		"\tregistration = \"socket\";\n"
		"\tplugins_registry_dir = \"/var/lib/kubelet/plugins_registry\";\n"
		"\tpod_resources = true;\n"
		"\tpod_resources_socket = \"/var/lib/kubelet/pod-resources/kubelet.sock\";\n"
		"\tpod_resources_interval = 10;\n"
		"\tpod_logs_dir = \"/var/log/pods\";\n"
		"};\n"
		"metrics = {\n"
		"\tinterval = 15;\n"
		"\tpods = false;\n"
		"};\n"
		"dra = {\n"
		"\tclaim_status = false;\n"
		"\tforget_after = 600;\n"
		"};\n"
		"cluster = {\n"
		"\treport = false;\n"
		"\tlabels = false;\n"
		"};\n"
		"resources = ( );\n");
	again = load(text);
	assert_int_equal(again->n_resources, 0);
}

static void test_canonical_text(void **state)
{
	static const char first[] =
		ONE("share = { replicas = 16; }; container = {\n"
		    "nodes = \"?/dev/y\"; env = \"A=\\\"\\\\\\n\\x07\"; };"
		    "health = ( { probe = \"exec\"; command = [ \"/x\" ]; } );");
	static const struct {
		const char *text;
		bool equal;
	} others[] = {
		{ "# other order, defaults written, other forms of the same\n"
		  "resources=({container:{env=(\"A=\\\"\\\\\\n\\x07\")\n"
		  "nodes=({optional=true,host=\"/dev/y\",permissions=\"rw\"})},"
		  "share={replicas=0x10,max_per_container=0;}prefer=\"none\" enabled=TRUE "
		  "match=({path=\"/dev/x\"}) // here\n"
		  "driver=\"path\",name=\"v.e/\" \"x\" topology=true overlap=false exclude=() "
		  "health=({interval=10.0 command=(\"/x\") timeout=5 probe=\"exec\"})})",
			true },
		{ ONE("share = { replicas = 17; }; container = {\n"
		      "nodes = \"?/dev/y\"; env = \"A=\\\"\\\\\\n\\x07\"; };"
		      "health = ( { probe = \"exec\"; command = [ \"/x\" ]; } );"),
			false },
		{ ONE("share = { replicas = 16; }; container = {\n"
		      "nodes = \"/dev/y\"; env = \"A=\\\"\\\\\\n\\x07\"; };"
		      "health = ( { probe = \"exec\"; command = [ \"/x\" ]; } );"),
			false },
		{ ONE("share = { replicas = 16; }; container = {\n"
		      "nodes = \"?/dev/y\"; env = \"A=\\\"\\\\n\\x07\"; };"
		      "health = ( { probe = \"exec\"; command = [ \"/x\" ]; } );"),
			false },
		{ ONE("share = { replicas = 16; }; container = {\n"
		      "nodes = \"?/dev/y\"; env = \"A=\\\"\\\\\\n\\x07\"; };"
		      "health = ( { probe = \"exec\"; command = [ \"/x\" ]; timeout = 5.000001; } );"),
			false },
	};
	_cleanup_config_ struct config *config = load(first);
	const char *text = config->resources[0].text;

	assert_string_equal(text,
		"name = \"v.e/x\";\n"
		"driver = \"path\";\n"
		"match = ( {\n\tpath = \"/dev/x\";\n} );\n"
		"share = {\n\treplicas = 16;\n};\n"
		"container = {\n"
		"\tnodes = ( {\n\t\thost = \"/dev/y\";\n\t\toptional = true;\n\t} );\n"
		"\tenv = ( \"A=\\\"\\\\\\x0a\\x07\" );\n"
		"};\n"
		"health = ( {\n\tprobe = \"exec\";\n\tcommand = ( \"/x\" );\n} );\n");
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		_cleanup_config_ struct config *other = load(others[i].text);

		if (streq(other->resources[0].text, text) != others[i].equal)
			fail_msg("%s\n%s", others[i].text, other->resources[0].text);
	}
}

static void test_one_resource(void **state)
{
	_cleanup_config_ struct config *config = load(example);

	for (size_t i = 0; i < config->n_resources; i++) {
		_cleanup_config_ struct config *child = NULL;
		_cleanup_report_ struct report report = { 0 };

		assert_int_equal(
			config_load_resource(config->resources[i].text, &report, &child), 0);
		assert_int_equal(child->n_resources, 1);
		assert_string_equal(child->resources[0].text, config->resources[i].text);
		assert_ptr_equal(child->resources[0].declaration.driver,
			config->resources[i].declaration.driver);
	}
}

static void test_overlap(void **state)
{
	_cleanup_config_ struct config *config = load(
		"resources = (\n"
		"{ name = \"v.e/a\"; driver = \"path\"; match = \"/dev/a\"; overlap = true; },\n"
		"{ name = \"v.e/b\"; driver = \"path\"; match = \"/dev/a\"; overlap = true; } );");

	assert_int_equal(config->n_resources, 2);
}

/* A configuration of that many resources. */
static char *many_resources(size_t count)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	assert_non_null(stream);
	(void)fputs("resources = (", stream);
	for (size_t i = 0; i < count; i++)
		(void)fprintf(stream,
			"%s\n{ name = \"v.e/r%zu\"; driver = \"static\"; match = \"d%zu\"; }",
			i > 0 ? "," : "", i, i);
	(void)fputs(" );", stream);
	assert_int_equal(fclose(stream), 0);
	return text;
}

static void test_many_resources(void **state)
{
	static const size_t counts[] = { 50, RESOURCES_MAX };
	_cleanup_free_ char *too_many = many_resources(RESOURCES_MAX + 1), *found = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		_cleanup_free_ char *text = many_resources(counts[i]);
		_cleanup_config_ struct config *config = load(text);
		char name[32];

		assert_int_equal(config->n_resources, counts[i]);
		(void)snprintf(name, sizeof(name), "v.e/r%zu", counts[i] - 1);
		assert_string_equal(config->resources[counts[i] - 1].declaration.name, name);
		assert_ptr_equal(config_find(config, name), &config->resources[counts[i] - 1]);
		assert_null(config_find(config, "v.e/r"));
		assert_null(config_find(NULL, name));
	}
	write_bytes(main_file, too_many, strlen(too_many));
	found = problems(main_file, -EINVAL);
	assert_string_equal(found, "0: resources: 1001 are declared, the maximum is 1000\n");
}

static void test_bounds(void **state)
{
	/* The last values that are accepted. */
	static const char *const texts[] = {
		"kubelet = { device_plugin_dir = \"/1234567891234567891234567891234567891234567891234567891234567\"; };",
		"kubelet = { root_dir = \"/12345678912345678912345678912345678912345678\"; };",
		ONE("share = { replicas = 100000; max_per_container = 100000; };"),
		ONE("prestart = { command = \"/x\"; timeout = 25.0; };"),
		ONE("prestart = { command = \"/x\"; timeout = 0.1; };"),
		ONE("health = ( { probe = \"exec\"; command = \"/x\"; timeout = 300; interval = "
		    "86400; fail_after = 1000; } );"),
		ONE("share = { replicas = 5L; };"),
		ONE("user = \"1000\";"),
		"\xef\xbb\xbf# a byte order mark\nlog_level = \"info\";",
		"# a file from Windows\r\nlog_level = \"info\";\r\nresources = (\r\n);\r\n",
		"/* a comment with \" and ( */ log_level /* here */ = \"info\" // 99999999999\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_null(config_free(load(texts[i])));
}

static void test_shipped_file(void **state)
{
	_cleanup_report_ struct report report = { 0 };
	_cleanup_config_ struct config *config = NULL;
	_cleanup_free_ char *text = NULL;

	assert_int_equal(config_load(SOURCE_DIR "/etc/devplugd.conf", &report, &config), 0);
	assert_int_equal(config->n_resources, 0);
	text = dump(config);
	config = config_free(config);
	config = load("# nothing");
	_cleanup_free_ char *defaults = dump(config);
	assert_string_equal(text, defaults);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_kubelet_root),
		cmocka_unit_test(test_example),
		cmocka_unit_test(test_dump_of_nothing),
		cmocka_unit_test(test_canonical_text),
		cmocka_unit_test(test_one_resource),
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_many_resources),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_shipped_file),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
