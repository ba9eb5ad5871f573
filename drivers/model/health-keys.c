/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the keys of a health probe, with their bounds and defaults, for each kind of probe.
 */
#include "common/finding.h"
#include "drivers/model/declaration-tables.h"
#include "drivers/model/form.h"

#define DAY_MSEC (24LL * 60 * 60 * 1000)

const char *const probe_kinds[] = {
	[PROBE_FILE] = "file",
	[PROBE_EXEC] = "exec",
	[PROBE_EXISTS] = "exists",
	[PROBE_SYSFS] = "sysfs",
	[PROBE_PCI] = "pci",
	[PROBE_NVML] = "nvml",
	NULL,
};
static const char *const recoveries[] = {
	[RECOVER_PROBE] = "probe", [RECOVER_NEVER] = "never", [RECOVER_REBOOT] = "reboot", NULL
};
static const char *const remappings[] = {
	[REMAPPING_FAILURE] = "failure",
	[REMAPPING_PENDING] = "pending",
	[REMAPPING_IGNORE] = "ignore",
	NULL,
};
static const char *const results[] = { "unhealthy", "healthy", NULL };

static const struct option probe_options[] = {
	{
		.key = "probe",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct declared_probe, kind),
		.required = true,
		.choices = probe_kinds,
		.help = "\"file\" watches a file's content, \"exec\" runs a program that exits 0 "
			"for a healthy device, \"exists\" checks whether a file exists, \"sysfs\" "
			"reads a file in the device's directory in /sys, and \"pci\" reads the device's "
			"header on the PCI bus, which fails for a device that fell off the bus. A "
			"suspended PCI device is not woken and counts as healthy. If a driver makes the "
			"reader wait, \"sysfs\" and \"pci\" keep their last result. \"nvml\" is for the "
			"driver \"nvidia\": a separate process queries NVIDIA's library.",
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
		.help = "File whose content, or existence, is the health of the device.",
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
			"\"physfn/enable\". With a pattern, as in \"hwmon/hwmon*/temp1_input\", all "
			"files that match it are read, and each must mean healthy.",
	},
	{
		.key = "healthy",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct declared_probe, healthy),
		.variant = "file sysfs",
		.maximum = 1024,
		.help = "Content, without white space around it, that means healthy; several are "
			"alternatives. The default is \"ok\". With \"sysfs\", a shell pattern; several "
			"lines are read as one with spaces between them.",
	},
	{
		.key = "unhealthy",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_probe, unhealthy),
		.variant = "sysfs",
		.maximum = 1024,
		.help = "Shell pattern of content that means unhealthy. With it, any other content means healthy, "
			"regardless of `healthy`.",
	},
	{
		.key = "maximum",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct declared_probe, maximum),
		.variant = "sysfs",
		.maximum = INT32_MAX,
		.default_integer = -1,
		.help = "Largest number that means healthy, such as a temperature. With it, the file "
			"must contain a number, and `healthy` and `unhealthy` have no effect.",
	},
	{
		.key = "changes_within",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct declared_probe, changes_within),
		.variant = "sysfs",
		.maximum = DAY_MSEC,
		.unit = "seconds",
		.help = "Time within which the content of a healthy device changes, such as that of a "
			"counter that the firmware increments. With it, `healthy`, `unhealthy` and "
			"`maximum` have no effect. With a pattern in `file`, a change of one file is "
			"enough.",
	},
	{
		.key = "missing",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct declared_probe, missing),
		.variant = "file sysfs",
		.choices = results,
		.help = "Result if the file does not exist.",
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
		.maximum = 3600 * 1000,
		.default_integer = 5 * 1000,
		.unit = "seconds",
		.help = "Time limit of the program; a program that takes longer has failed.",
	},
	{
		.key = "once",
		.type = OPTION_BOOL,
		.offset = offsetof(struct declared_probe, once),
		.variant = "exec",
		.help = "Whether the program initialises the device: the device is unhealthy "
			"until it exits 0, and then the program does not run again, unless "
			"the device was removed, the host was rebooted, or the command "
			"changed. The program must not change a device that is already "
			"initialised.",
	},
	{
		.key = "on_recovery",
		.type = OPTION_BOOL,
		.offset = offsetof(struct declared_probe, on_recovery),
		.variant = "exec",
		.help = "Whether the program tests devices that have failed: after a device was "
			"unhealthy because of another probe, because of itself or because it was missing, it "
			"stays unhealthy until the program exits 0. The program runs for nothing else, and "
			"not while a pod or a claim has the device, or while it is cordoned. With `once`, "
			"new devices are tested, too, also after each reboot.",
	},
	{
		.key = "attempts",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct declared_probe, attempts),
		.variant = "exec",
		.minimum = 1,
		.maximum = 1000,
		.default_integer = 3,
		.unit = "runs",
		.help = "With `on_recovery`, the runs of the program after a failure, `interval` apart. If "
			"the last one fails, the device needs an administrator.",
	},
	{
		.key = "returns",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct declared_probe, returns),
		.variant = "exec",
		.minimum = 1,
		.maximum = 1000,
		.default_integer = 3,
		.unit = "returns",
		.help = "With `on_recovery`, how often a device may return from a failure within "
			"`returns_within`. One that returns more often needs an administrator.",
	},
	{
		.key = "returns_within",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct declared_probe, returns_within),
		.variant = "exec",
		.minimum = 1000,
		.maximum = 30 * DAY_MSEC,
		.default_integer = 60 * 60 * 1000,
		.unit = "seconds",
		.help = "Time in which `returns` are counted, from the first of them.",
	},
	{
		.key = "ignore_xids",
		.type = OPTION_INTEGERS,
		.offset = offsetof(struct declared_probe, ignore_xids),
		.variant = "nvml",
		.maximum = 9999,
		.help = "Errors of NVIDIA's driver (Xids) that never make a GPU unhealthy, in addition to those that applications cause.",
	},
	{
		.key = "fatal_xids",
		.type = OPTION_INTEGERS,
		.offset = offsetof(struct declared_probe, fatal_xids),
		.variant = "nvml",
		.maximum = 9999,
		.help = "Xids that make a GPU unhealthy until it is reset, even if the driver recommends "
			"otherwise.",
	},
	{
		.key = "row_remapping",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct declared_probe, row_remapping),
		.variant = "nvml",
		.choices = remappings,
		.help = "Row remapping that makes a GPU unhealthy: only a failed one "
			"(\"failure\"), also one that waits for a reset (\"pending\"), or "
			"none (\"ignore\").",
	},
	{
		.key = "fabric",
		.type = OPTION_BOOL,
		.offset = offsetof(struct declared_probe, fabric),
		.variant = "nvml",
		.default_integer = true,
		.help = "Whether a GPU with NVSwitch is unhealthy while it has not joined the fabric.",
	},
	{
		.key = "hang_after",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct declared_probe, hang_after),
		.variant = "nvml",
		.minimum = 100,
		.maximum = 600 * 1000,
		.default_integer = 60 * 1000,
		.unit = "seconds",
		.help = "Time limit for an answer of the library, after which its process is "
			"replaced. Devices keep their health meanwhile.",
	},
	{
		.key = "interval",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct declared_probe, interval),
		.minimum = 100,
		.maximum = DAY_MSEC,
		.default_integer = 10 * 1000,
		.unit = "seconds",
		.help = "Interval between probes. Files are watched, so that a change takes effect at once; a file whose changes are always seen is read at most once a minute.",
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
		.help = "Condition for an unhealthy device to become healthy again: good results (\"probe\"), none (\"never\"), or a reboot of the host and good results (\"reboot\").",
	},
	{
		.key = "reason",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_probe, reason),
		.maximum = FINDING_REASON_MAX,
		.check = finding_check_reason,
		.help = "A word for what the probe finds, such as \"temperature\". It is shown with the "
			"device and in metrics, and with DRA the key of the device's taint is `DRIVER/REASON` "
			"instead of `DRIVER/unhealthy`.",
	},
	{
		.key = "severity",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct declared_probe, severity),
		.choices = probe_severities,
		.help = "Effect of bad results: the device is unhealthy, so that new pods do not get it "
			"(\"no-new-pods\"), its pods are evicted as well (\"evict\"), or it stays "
			"healthy, and the result is shown and counted (\"notice\").",
	},
	{
		.key = "evict_after",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct declared_probe, evict_after),
		.maximum = EVICT_AFTER_MAX,
		.default_integer = EVICT_AFTER_DEFAULT,
		.unit = "seconds",
		.help = "With severity = \"evict\", the time from the failure to the eviction of the pods "
			"that use the device. A device that recovers earlier keeps its pods.",
	},
};
const struct option_table probe_table = {
	.name = "health probe",
	.selector = "probe",
	.size = sizeof(struct declared_probe),
	.options = probe_options,
	.count = ARRAY_SIZE(probe_options),
};
