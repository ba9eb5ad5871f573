/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of a health probe. Which of them it has depends on its kind.
 */
#include "drivers/declaration-tables.h"
#include "drivers/form.h"

#define DAY_MSEC (24LL * 60 * 60 * 1000)

static const char *const probe_kinds[] = {
	[PROBE_FILE] = "file",
	[PROBE_EXEC] = "exec",
	[PROBE_EXISTS] = "exists",
	[PROBE_SYSFS] = "sysfs",
	[PROBE_PCI] = "pci",
	NULL,
};
static const char *const recoveries[] = {
	[RECOVER_PROBE] = "probe", [RECOVER_NEVER] = "never", [RECOVER_REBOOT] = "reboot", NULL
};
static const char *const verdicts[] = { "unhealthy", "healthy", NULL };

static const struct option probe_options[] = {
	{
		.key = "probe",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct declared_probe, kind),
		.required = true,
		.choices = probe_kinds,
		.help = "\"file\" watches a file's content, \"exec\" runs a program that exits 0 "
			"for a healthy device, \"exists\" looks whether a file is there, \"sysfs\" "
			"reads a file in the device's directory in /sys, and \"pci\" asks the device "
			"for its number on the PCI bus, which one that fell off the bus cannot tell. "
			"A PCI device that is suspended is left asleep, and taken for healthy.",
	},
	{
		.key = "path",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_probe, path),
		.required = true,
		.template = true,
		.variant = "file exists",
		.maximum = PATH_LENGTH_MAX,
		.check = form_device_path,
		.help = "The file that tells the health of the device, or whose existence does.",
	},
	{
		.key = "file",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_probe, attribute),
		.required = true,
		.template = true,
		.variant = "sysfs",
		.maximum = PATH_LENGTH_MAX,
		.check = form_device_text,
		.help = "The file, relative to the device's directory in /sys; it may lead out of it, as in "
			"\"physfn/enable\".",
	},
	{
		.key = "healthy",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_probe, healthy),
		.variant = "file sysfs",
		.maximum = 1024,
		.default_string = "ok",
		.help = "Content, without white space around it, that means healthy.",
	},
	{
		.key = "unhealthy",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_probe, unhealthy),
		.variant = "sysfs",
		.maximum = 1024,
		.help = "Content that means unhealthy. With it, any other means healthy, whatever `healthy` "
			"says.",
	},
	{
		.key = "missing",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct declared_probe, missing),
		.variant = "file sysfs",
		.choices = verdicts,
		.help = "What it means if the file does not exist.",
	},
	{
		.key = "command",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct declared_probe, command),
		.required = true,
		.template = true,
		.variant = "exec",
		.check = form_device_text,
		.help = "Program, by its absolute path, and its arguments; no shell is involved.",
	},
	{
		.key = "timeout",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct declared_probe, timeout),
		.variant = "exec",
		.minimum = 100,
		.maximum = 300 * 1000,
		.default_integer = 5 * 1000,
		.unit = "seconds",
		.help = "How long the program may take; one that takes longer has failed.",
	},
	{
		.key = "interval",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct declared_probe, interval),
		.minimum = 100,
		.maximum = DAY_MSEC,
		.default_integer = 10 * 1000,
		.unit = "seconds",
		.help = "Time from one probe to the next. A file is watched: a change is seen at once, "
			"and one that cannot change unseen is read once a minute at most.",
	},
	{
		.key = "fail_after",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct declared_probe, fail_after),
		.minimum = 1,
		.maximum = 1000,
		.default_integer = 1,
		.unit = "results",
		.help = "Consecutive bad results that make a healthy device unhealthy.",
	},
	{
		.key = "recover_after",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct declared_probe, recover_after),
		.minimum = 1,
		.maximum = 1000,
		.default_integer = 1,
		.unit = "results",
		.help = "Consecutive good results that make an unhealthy device healthy.",
	},
	{
		.key = "recover",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct declared_probe, recover),
		.choices = recoveries,
		.help = "What makes an unhealthy device healthy again: good results (\"probe\"), "
			"nothing (\"never\"), or a reboot of the host and good results (\"reboot\").",
	},
};
const struct option_table probe_table = {
	.name = "health probe",
	.selector = "probe",
	.size = sizeof(struct declared_probe),
	.options = probe_options,
	.count = ARRAY_SIZE(probe_options),
};
