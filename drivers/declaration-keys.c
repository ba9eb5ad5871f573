/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of a resource: the one place that says what an administrator may write about it, with
 * defaults, bounds and help. The parser, the writer and the manual all follow these tables.
 */
#include "drivers/declaration-tables.h"
#include "drivers/driver.h"
#include "drivers/form.h"

static const char *const preferences[] = { [PREFER_NONE] = "none",
	[PREFER_PACKED] = "packed",
	[PREFER_SPREAD] = "spread",
	[PREFER_NUMA] = "numa",
	[PREFER_LINKS] = "links",
	NULL };

static int check_driver(const char *value, struct error *error)
{
	const char *names[16];
	const char *suggestion;
	char list[256] = "";
	size_t n = 0;

	if (driver_find(value))
		return 0;
	for (size_t i = 0; drivers[i] && n < ARRAY_SIZE(names); i++) {
		size_t length = strlen(list);

		names[n++] = drivers[i]->name;
		(void)snprintf(list + length, sizeof(list) - length, "%s\"%s\"", i > 0 ? ", " : "",
			drivers[i]->name);
	}
	suggestion = suggest_word(value, names, n);
	if (suggestion)
		return error_set(error, -EINVAL, "unknown driver \"%s\", did you mean \"%s\"?",
			value, suggestion);
	return error_set(error, -EINVAL, "unknown driver \"%s\", the drivers are: %s", value, list);
}

#define REPLICAS_MAX 100000

static const struct option share_rule_options[] = {
	{
		.key = "id",
		.type = OPTION_STRING,
		.offset = offsetof(struct share_rule, id),
		.required = true,
		.maximum = 400,
		.help = "Pattern, as in a shell, of device ids.",
	},
	{
		.key = "replicas",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct share_rule, replicas),
		.minimum = 1,
		.maximum = REPLICAS_MAX,
		.default_integer = 1,
		.unit = "replicas",
		.help = "How often these devices are offered.",
	},
};

static const struct option_table share_rule_table = {
	.name = "device to be shared otherwise",
	.size = sizeof(struct share_rule),
	.options = share_rule_options,
	.count = ARRAY_SIZE(share_rule_options),
};

static const struct option share_options[] = {
	{
		.key = "replicas",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct share, replicas),
		.minimum = 1,
		.maximum = REPLICAS_MAX,
		.default_integer = 1,
		.unit = "replicas",
		.help = "How often each physical device is offered, to be used by as many "
			"containers at a time; 1 does not share.",
	},
	{
		.key = "devices",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct share, devices),
		.table = &share_rule_table,
		.help = "Devices that are offered another number of times; of several entries that match, "
			"the first counts.",
	},
	{
		.key = "max_per_container",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct share, max_per_container),
		.minimum = 0,
		.maximum = REPLICAS_MAX,
		.unit = "devices",
		.help = "How many devices or replicas one container may ask for; 0 sets no limit.",
	},
};
static const struct option_table share_table = {
	.name = "share",
	.size = sizeof(struct share),
	.options = share_options,
	.count = ARRAY_SIZE(share_options),
};

static const struct option prestart_options[] = {
	{
		.key = "command",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct prestart, command),
		.required = true,
		.template = true,
		.help = "Program, by its absolute path, and its arguments; no shell is involved. The "
			"container starts if it exits 0.",
	},
	{
		/* The kubelet waits 30 s for PreStartContainer; ours must be over before. */
		.key = "timeout",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct prestart, timeout),
		.minimum = 100,
		.maximum = 25 * 1000,
		.default_integer = 20 * 1000,
		.unit = "seconds",
		.help = "How long the program may take.",
	},
};
static const struct option_table prestart_table = {
	.name = "prestart",
	.size = sizeof(struct prestart),
	.options = prestart_options,
	.count = ARRAY_SIZE(prestart_options),
};

static const struct option exclusion_options[] = {
	{
		.key = "id",
		.type = OPTION_STRING,
		.offset = offsetof(struct exclusion, id),
		.required = true,
		.maximum = 255,
		.help = "Pattern, as in a shell, of device ids that are left out.",
	},
};
static const struct option_table exclusion_table = {
	.name = "exclusion",
	.shorthand = "id",
	.size = sizeof(struct exclusion),
	.options = exclusion_options,
	.count = ARRAY_SIZE(exclusion_options),
};

static int check_device_pattern(const char *value, struct error *error)
{
	if (strchr(value, '/'))
		return error_set(error, -EINVAL,
			"must be the id of a device of this resource, without \"/\", not \"%s\"",
			value);
	return 0;
}

static const struct option cordon_options[] = {
	{
		.key = "id",
		.type = OPTION_STRING,
		.offset = offsetof(struct cordon, id),
		.required = true,
		.maximum = 255,
		.check = check_device_pattern,
		.help = "Pattern, as in a shell, of device ids.",
	},
	{
		.key = "reason",
		.type = OPTION_STRING,
		.offset = offsetof(struct cordon, reason),
		.maximum = CORDON_REASON_MAX,
		.help = "Why, for people.",
	},
};
static const struct option_table cordon_table = {
	.name = "cordon",
	.shorthand = "id",
	.size = sizeof(struct cordon),
	.options = cordon_options,
	.count = ARRAY_SIZE(cordon_options),
};

static const char *const registrations[] = { [REGISTRATION_SOCKET] = "socket",
	[REGISTRATION_WATCHER] = "watcher",
	[REGISTRATION_DEFAULT] = "default",
	NULL };

static int check_preset(const char *value, struct error *error)
{
	if (value[0] == '.' || strchr(value, '/'))
		return error_set(error, -EINVAL,
			"must be the name of a preset, such as \"kvm\", not \"%s\"", value);
	return 0;
}

static const struct option declaration_options[] = {
	{
		.key = "name",
		.type = OPTION_STRING,
		.offset = offsetof(struct declaration, name),
		.required = true,
		.check = resource_name_check,
		.help = "The resource that pods ask for, such as \"vendor.example/gpu\".",
	},
	{
		.key = "preset",
		.type = OPTION_STRING,
		.offset = offsetof(struct declaration, preset),
		.maximum = 200,
		.check = check_preset,
		.help = "Keys for a kind of device, kept in a file of that name; \"devplugctl "
			"presets\" lists them. A key that the resource has itself wins, within "
			"groups, too; lists are not joined.",
	},
	{
		.key = "driver",
		.type = OPTION_STRING,
		.offset = offsetof(struct declaration, driver_name),
		.required = true,
		.check = check_driver,
		.help = "What finds the devices.",
	},
	{
		.key = "enabled",
		.type = OPTION_BOOL,
		.offset = offsetof(struct declaration, enabled),
		.default_integer = true,
		.help = "Whether the resource is served; if not, it is only checked.",
	},
	{
		.key = "overlap",
		.type = OPTION_BOOL,
		.offset = offsetof(struct declaration, overlap),
		.help = "Whether devices may be offered that another resource with this set "
			"offers too; without it a device belongs to the first resource that finds it.",
	},
	{
		.key = "topology",
		.type = OPTION_BOOL,
		.offset = offsetof(struct declaration, topology),
		.default_integer = true,
		.help = "Whether the kubelet is told the NUMA nodes of the devices.",
	},
	{
		.key = "prefer",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct declaration, prefer),
		.choices = preferences,
		.help = "Which devices a container should rather get: those whose replicas are "
			"most in use (\"packed\"), least in use (\"spread\"), of one NUMA node "
			"(\"numa\"), or closest to each other (\"links\": by the links that the driver "
			"knows, else along the PCI buses); \"none\" leaves it to the kubelet.",
	},
	{
		.key = "registration",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct declaration, registration),
		.default_integer = REGISTRATION_DEFAULT,
		.choices = registrations,
		.help = "How the kubelet learns of the resource: by a call on its \"socket\", by its "
			"plugin \"watcher\", or, by \"default\", as kubelet.registration says.",
	},
	{
		.key = "user",
		.type = OPTION_STRING,
		.offset = offsetof(struct declaration, user),
		.maximum = 255,
		.check = form_user,
		.help = "User that the resource's process runs as.",
	},
	{
		.key = "host_root",
		.type = OPTION_STRING,
		.offset = offsetof(struct declaration, host_root),
		.maximum = 4000,
		.check = form_absolute_path,
		.help = "Directory through which this resource looks at the host; as the file's "
			"host_root says if absent.",
	},
	{
		.key = "match",
		.type = OPTION_DRIVER,
		.offset = offsetof(struct declaration, match),
		.required = true,
		.help = "Which devices belong to the resource: any that one of the entries names.",
	},
	{
		.key = "exclude",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct declaration, exclude),
		.table = &exclusion_table,
		.help = "Devices that are left out though an entry of match names them.",
	},
	{
		.key = "cordon",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct declaration, cordon),
		.table = &cordon_table,
		.help = "Devices that new containers are not given: they are listed as unhealthy, "
			"and containers that have them keep them.",
	},
	{
		.key = "share",
		.type = OPTION_GROUP,
		.offset = offsetof(struct declaration, share),
		.table = &share_table,
		.help = "Offering one device to several containers.",
	},
	{
		.key = "container",
		.type = OPTION_GROUP,
		.offset = offsetof(struct declaration, container),
		.table = &container_table,
		.help = "What a container is given beside the device's own nodes.",
	},
	{
		.key = "cdi_spec",
		.type = OPTION_GROUP,
		.offset = offsetof(struct declaration, cdi_spec),
		.table = &cdi_spec_table,
		.help = "A file in cdi_dir that tells the container runtime what belongs to each device, "
			"so that containers are given names only. Variables of the environment that "
			"several devices share, and what uses ${ids}, ${n} or ${replica}, are still "
			"given directly.",
	},
	{
		.key = "health",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct declaration, health),
		.table = &probe_table,
		.help = "Probes that must all find a device healthy.",
	},
	{
		.key = "prestart",
		.type = OPTION_GROUP,
		.offset = offsetof(struct declaration, prestart),
		.table = &prestart_table,
		.help = "A program that runs before a container with these devices starts.",
	},
};
const struct option_table declaration_table = {
	.name = "resource",
	.size = sizeof(struct declaration),
	.options = declaration_options,
	.count = ARRAY_SIZE(declaration_options),
};
