/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates: what is accepted, the errors about the rest, and the results.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "drivers/model/driver.h"
#include "drivers/model/template.h"

static const struct driver_variable extra[] = { { .name = "serial", .help = "A." },
	{ .name = "port", .help = "B." }, { .name = "property:NAME", .help = "C." }, { 0 } };
static const struct driver driver = { .name = "test", .variables = extra };

static const char long_variable[] =
	"${attr:0123456789012345678901234567890123456789012345678901234"
	"567890123456789012345678901234567890123456789012345678901234567"
	"89012345678901234567890}";

static void test_check(void **state)
{
	static const struct {
		const char *text;
		const struct driver *driver;
		const char *error; /* NULL: accepted */
	} cases[] = {
		{ "", NULL, NULL },
		{ "plain", NULL, NULL },
		{ "$$", NULL, NULL },
		{ "a$$b${id}c${index}${node}${bdf}${numa}${replica}${position}${n}${name}${info}${env_name}",
			NULL, NULL },
		{ "${ids}${ids:,}${ids:}${ids: and }", NULL, NULL },
		{ "${attr:serial}${attr:device/numa_node}${attr:a..b}", NULL, NULL },
		{ "${param:mode}", NULL, NULL },
		{ "${param}", NULL,
			"has \"${param}\", which must name one of `parameters`: \"${param:NAME}\"" },
		{ "${param:}", NULL,
			"has \"${param:}\", which must name one of `parameters`: \"${param:NAME}\"" },
		{ "${serial}/${port}", &driver, NULL },
		{ "${serial}", NULL,
			"unknown variable \"${serial}\"; \"${id}\" is the device's id, the manual "
			"lists the others" },
		{ "${seral}", &driver,
			"unknown variable \"${seral}\", did you mean \"${serial}\"?" },
		{ "${idx}", NULL, "unknown variable \"${idx}\", did you mean \"${id}\"?" },
		{ "${Index}", NULL, "unknown variable \"${Index}\", did you mean \"${index}\"?" },
		{ "a $HOME", NULL,
			"has a lone \"$\" in \"$HOME\": write \"${variable}\", or \"$$\" for a "
			"dollar sign" },
		{ "a$", NULL,
			"has a lone \"$\" in \"$\": write \"${variable}\", or \"$$\" for a dollar "
			"sign" },
		{ "a${id", NULL, "has \"${\" without \"}\" in \"${id\"" },
		{ "a${}", NULL,
			"has \"${}\" without a variable's name: \"${id}\" is the device's id" },
		{ "${id:x}", NULL,
			"has \"${id:x}\", but \"${id}\" takes no argument after a \":\"" },
		{ "${port:1}", &driver,
			"has \"${port:1}\", but \"${port}\" takes no argument after a \":\"" },
		{ "${property:A}${property:a b:c}", &driver, NULL },
		{ "${property}", &driver,
			"has \"${property}\", which needs an argument: \"${property:NAME}\"" },
		{ "${property:}", &driver,
			"has \"${property:}\", which needs an argument: \"${property:NAME}\"" },
		{ "${property:A}", NULL,
			"unknown variable \"${property}\"; \"${id}\" is the device's id, the manual "
			"lists the others" },
		{ "${attr}", NULL,
			"has \"${attr}\", which must name a file in the device's directory, such "
			"as \"${attr:serial}\"" },
		{ "${attr:}", NULL,
			"has \"${attr:}\", which must name a file in the device's directory, such "
			"as \"${attr:serial}\"" },
		{ "${attr:/etc/shadow}", NULL,
			"has \"${attr:/etc/shadow}\", which must name a file in the device's "
			"directory, such as \"${attr:serial}\"" },
		{ "${attr:a/../../b}", NULL,
			"has \"${attr:a/../../b}\", which must name a file in the device's "
			"directory, such as \"${attr:serial}\"" },
		{ "${attr:..}", NULL,
			"has \"${attr:..}\", which must name a file in the device's directory, "
			"such as \"${attr:serial}\"" },
		{ long_variable, NULL,
			"has a variable of 146 bytes between \"${\" and \"}\", the maximum is 127" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error error = { 0 };
		int r = template_check(cases[i].text, cases[i].driver, &error);

		assert_string_equal(error.message, cases[i].error ? cases[i].error : "");
		assert_int_equal(r, cases[i].error ? -EINVAL : 0);
	}
}

static void test_classes(void **state)
{
	static const struct {
		const char *text;
		bool per_device, per_allocation;
	} cases[] = {
		{ "plain $$", false, false },
		{ "${name}", false, false },
		{ "${id}", true, false },
		{ "x${attr:a}", true, false },
		{ "${serial}", true, false },
		{ "${ids}", false, true },
		{ "${n}", false, true },
		{ "${info}", false, true },
		{ "${env_name}", false, false },
		{ "${replica}", true, true },
		{ "${name}${n}${id}", true, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(template_is_per_device(cases[i].text), cases[i].per_device);
		assert_int_equal(
			template_is_per_allocation(cases[i].text), cases[i].per_allocation);
	}
}

static void test_blank(void **state)
{
	_cleanup_free_ char *blank = NULL;

	assert_int_equal(template_blank("/dev/${ids:=}$", &blank), -EINVAL);
	assert_int_equal(template_blank("/dev/$$${ids:=}$${n}${n}b", &blank), 0);
	assert_string_equal(blank, "/dev/$x${n}xb");
}

static const char *value_of(void *userdata, const char *variable)
{
	assert_ptr_equal(userdata, &driver);
	if (streq(variable, "id"))
		return "card${n}";
	if (streq(variable, "attr:device/serial"))
		return "S1";
	if (streq(variable, "numa"))
		return "";
	return NULL;
}

static void test_expand(void **state)
{
	static char info[] = "{\"uio\":{}}", info_name[] = DEVICE_INFO;
	static char id_a[] = "a", id_b[] = "b", id_c[] = "c";
	static struct device_variable variable = { info_name, info };
	static struct device a = { .id = id_a }, c = { .id = id_c },
			     b = { .id = id_b, .variables = &variable, .n_variables = 1 };
	static const struct device *const devices[] = { &a, &b, &c };
	struct template_context context = {
		.name = "vendor.example/gpu",
		.device_value = value_of,
		.devices = devices,
		.n_devices = ARRAY_SIZE(devices),
		.userdata = (void *)&driver,
	};
	static const struct {
		const char *text, *expanded;
	} cases[] = {
		{ "", "" },
		{ "a$$b$$", "a$b$" },
		/* What comes out of a variable is not a template. */
		{ "<${id}>", "<card${n}>" },
		{ "${attr:device/serial}/${numa}/", "S1//" },
		{ "${ids} ${ids::} ${ids:} ${ids: and }", "a,b,c a:b:c abc a and b and c" },
		{ "${n}${name}", "3vendor.example/gpu" },
		{ "P_${env_name}=1", "P_VENDOR_EXAMPLE_GPU=1" },
		{ "${info}",
			"{\"a\":{\"generic\":{\"deviceID\":\"a\"}},\"b\":{\"uio\":{}},"
			"\"c\":{\"generic\":{\"deviceID\":\"c\"}}}" },
	};
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *expanded = NULL;

		assert_int_equal(template_expand(cases[i].text, &context, &expanded, NULL), 0);
		assert_string_equal(expanded, cases[i].expanded);
	}
	assert_int_equal(template_expand("x${bdf}", &context, &text, &error), -ENOENT);
	assert_string_equal(error.message, "\"${bdf}\" has no value here");
	context.device_value = NULL;
	assert_int_equal(template_expand("x${id}", &context, &text, NULL), -ENOENT);
	context.devices = NULL;
	assert_int_equal(template_expand("x${n}", &context, &text, &error), -ENOENT);
	assert_string_equal(error.message,
		"\"${n}\" has a value only while devices are assigned to a "
		"container");
	assert_int_equal(template_expand("${info}", &context, &text, NULL), -ENOENT);
	context.name = "a.b/C-d_1";
	assert_int_equal(template_expand("${env_name}", &context, &text, NULL), 0);
	assert_string_equal(text, "A_B_C-D_1");
	free(TAKE_PTR(text));
	context.name = NULL;
	assert_int_equal(template_expand("${name}", &context, &text, NULL), -ENOENT);
	assert_int_equal(template_expand("${id", &context, &text, NULL), -EINVAL);
	assert_null(text);
}

/* Whether the text and the form "${NAME}" or "${NAME:ARGUMENT}" begin with the same name. */
static bool has_name(const char *text, const char *form)
{
	size_t length = strcspn(text, ":");

	return strcspn(form + 2, ":}") == length && strncmp(form + 2, text, length) == 0;
}

/* A driver's variable of the name of one of the core's would never be read. */
static void test_names_of_drivers(void **state)
{
	const struct template_variable *core;

	for (const struct driver *const *p = drivers; *p; p++)
		for (const struct driver_variable *variable = (*p)->variables;
			variable && variable->name; variable++)
			for (size_t i = 0; (core = template_variable_get(i)); i++)
				if (has_name(variable->name, core->form))
					fail_msg("%s: %s is a variable of the core", (*p)->name,
						variable->name);
}

/* Numbers of the kernel, and names made of them, are not the same after a reboot. */
static void test_permanent_variables(void **state)
{
	static const char *const changing[] = { "block", "bus", "card", "devnum", "devpath",
		"hidraw", "input", "interface", "iommu_group", "kernel_name", "major", "minor",
		"pf_interface", "rdma", "render", "sysfs", "tty", "uio", "usb_address", "video" };
	const struct driver_variable *variable, *other;
	size_t found = 0;

	for (const struct driver *const *p = drivers; *p; p++)
		for (variable = (*p)->variables; variable && variable->name; variable++) {
			const char *name = driver_variable_attribute(variable);

			for (size_t i = 0; i < ARRAY_SIZE(changing); i++)
				if (streq(variable->name, changing[i])) {
					found++;
					assert_null(name);
				}
			if (!name)
				continue;
			assert_true(attribute_name_is_valid(name) && !attribute_is_built_in(name));
			for (other = (*p)->variables; other != variable; other++)
				assert_string_not_equal(
					driver_variable_attribute(other) ?: "", name);
		}
	assert_true(found > ARRAY_SIZE(changing));
}

static void test_changing(void **state)
{
	static const struct {
		const char *driver, *text, *variable; /* NULL: none */
	} cases[] = { { "drm", "${id} ${bdf} ${numa} ${vendor}", NULL },
		{ "drm", "${id} ${card} ${render}", "card" }, { "drm", "$$${index}", "index" },
		{ "drm", "${node}", "node" }, { "drm", "${number}", "number" },
		{ "drm", "${attr:revision}", NULL }, { "drm", "card", NULL },
		{ "exec", "${property:SEAT}", NULL }, { "usb", "${serial} ${tty}", "tty" },
		{ "net", "${pf} ${pf_interface}", "pf_interface" } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char variable[TEMPLATE_VARIABLE_MAX + 1] = "";

		assert_int_equal(template_find_changing(
					 cases[i].text, driver_find(cases[i].driver), variable),
			cases[i].variable != NULL);
		assert_string_equal(variable, cases[i].variable ?: "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_blank),
		cmocka_unit_test(test_expand),
		cmocka_unit_test(test_names_of_drivers),
		cmocka_unit_test(test_permanent_variables),
		cmocka_unit_test(test_changing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
