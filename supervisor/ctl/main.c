/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devplugctl: lists its commands in a table, and reads the daemon's state for the commands that
 * print it.
 */
#include <locale.h>

#include "supervisor/control/ask.h"
#include "supervisor/ctl/command-line.h"
#include "supervisor/ctl/show.h"

const struct command commands[] = {
	{ "status", "[RESOURCE]", "Show the resources and their problems",
		"OFFERED is the number of devices in the kubelet's list, with replicas; HEALTHY,\n"
		"the number that it can allocate; IN USE, the number assigned to containers; FREE,\n"
		"the number of healthy devices that are not assigned.",
		show_status, NULL, ARGUMENT_JSON, 0, 1, NULL },
	{ "devices", "[RESOURCE]", "Show each device, its health, and its containers", NULL,
		show_devices, NULL, ARGUMENT_JSON | ARGUMENT_POD, 0, 1, NULL },
	{ "pod", "NAMESPACE/NAME", "Show what the containers of a pod got, and where",
		"All that the kubelet has assigned to them: exclusive CPUs, memory, and devices of any\n"
		"plugin or DRA driver, with their NUMA nodes, and whether these agree. NUMA is \"-\"\n"
		"where it is not known. An init container may have passed its device on to another\n"
		"one; a sidecar is listed as the other containers are.",
		NULL, command_pod, ARGUMENT_JSON, 1, 1, "a pod, NAMESPACE/NAME" },
	{ "top", "[RESOURCE]", "Show resources, devices and pods, live",
		"Keys: up and down select a row, enter opens or closes the devices of a resource, s\n"
		"sorts by the next column, r reverses the order, q quits.",
		NULL, command_top, 0, 0, 1, NULL },
	{ "explain", "RESOURCE", "Explain the state of a resource, and what to do", NULL,
		show_explanation, NULL, ARGUMENT_JSON, 1, 1, "a resource" },
	{ "events", "[RESOURCE]", "Show events: health, sessions, restarts, refusals", NULL, NULL,
		command_events, ARGUMENT_JSON | ARGUMENT_FOLLOW, 0, 1, NULL },
	{ "wait", "RESOURCE", "Wait until a resource is served, or has devices",
		"Exits with status 1 on a timeout.", NULL, command_wait,
		ARGUMENT_FOR | ARGUMENT_TIMEOUT, 1, 1, "a resource" },
	{ "check", "[RESOURCE]", "Print one line for monitoring: problem or not",
		"For node-problem-detector. A cordoned device is not a problem, nor is a kubelet\n"
		"that does not run. Exits with status 0 (no problem), 1 (a problem) or 2 (not\n"
		"known). With --containers, prints each device that a running container has lost:\n"
		"the kubelet has assigned it, and the container cannot open it. That needs root.",
		NULL, command_check, ARGUMENT_JSON | ARGUMENT_CONTAINERS, 0, 1, NULL },
	{ "presets", "[PRESET]", "List the presets, or print one", NULL, NULL, command_presets,
		ARGUMENT_JSON, 0, 1, NULL },
	{ "discover", "[PRESET]", "Scan this host with the presets, print a configuration",
		"With --dump-tree, the files that the scan reads, without serial numbers. With\n"
		"--resources, only resources for the devices that no resource of the file has.",
		NULL, command_discover,
		ARGUMENT_JSON | ARGUMENT_ROOT | ARGUMENT_DUMP_TREE | ARGUMENT_RESOURCES, 0, 1,
		NULL },
	{ "preview", "RESOURCE [IDS]", "Show what a resource of the file finds and passes", NULL,
		NULL, command_preview, ARGUMENT_JSON | ARGUMENT_ROOT | ARGUMENT_ALLOCATE, 1, 2,
		"a resource" },
	{ "reload", "", "Check the configuration and apply it",
		"Prints the changes, and returns when each changed resource has applied them. Needs\n"
		"root.",
		NULL, command_reload, 0, 0, 0, NULL },
	{ "rescan", "[RESOURCE]", "Scan for devices and probe their health now",
		"Returns when the scan is done. Needs root.", NULL, command_rescan, 0, 0, 1, NULL },
	{ "cordon", "DEVICE [REASON]", "Exclude a device from new allocations",
		"Returns when the cordon is applied. Containers that use the device keep it.\n"
		"Needs root.",
		NULL, command_cordon, ARGUMENT_LIST | ARGUMENT_FORCE | ARGUMENT_JSON, 1, 2,
		"a device, DEVICE or RESOURCE/DEVICE" },
	{ "release", "RESOURCE", "Close devices, to unload or reset their driver",
		"The resource is still served, and its devices keep their health.\n"
		"Ends with \"resume\", or when the driver is loaded again. Needs root.",
		NULL, command_release, 0, 1, 1, "a resource" },
	{ "resume", "RESOURCE [DEVICE]", "End a release, or test a device again",
		"A DEVICE has been reset: its faults that last until then are over. If it needs an\n"
		"administrator after a failure (on_recovery), it is tested again, or, with --force,\n"
		"offered without a test. If it could not be cleaned after a pod (release), it is\n"
		"cleaned again, or, with --force, counts as clean. Needs root.",
		NULL, command_resume, ARGUMENT_FORCE, 1, 2, "a resource" },
	{ "uncordon", "DEVICE", "Offer a device again", "Needs root.", NULL, command_uncordon, 0, 1,
		1, "a device, DEVICE or RESOURCE/DEVICE" },
	{ "dra", "OBJECTS", "Print classes, credentials, kubeconfig or slices",
		"Prints objects of DRA, as JSON for kubectl. \"classes\" are the DeviceClasses of the\n"
		"resources in the file with serve = \"dra\": create them once for a cluster, and again\n"
		"when a resource is added. \"credentials\" are a ServiceAccount with the rights that\n"
		"devplugd needs, and a token; \"kubeconfig\" is the file for it on a node, in YAML,\n"
		"beside the files token and ca.crt. \"slices\" are the ResourceSlices of this node.",
		NULL, command_dra, 0, 1, 1, "classes, credentials, kubeconfig or slices" },
	{ "forget", "RESOURCE/DEVICE", "Forget a device that only the kubelet still lists",
		"The device counts as not assigned to a pod until the kubelet's data about it\nchange, and other claims (DRA) may get it. A claim ends with its last device. If\nthe pod exists, the kubelet may panic or fail it when it starts again. Needs root.",
		NULL, command_forget, 0, 1, 1, "a device, RESOURCE/DEVICE" },
	{ "evict", "RESOURCE", "Evict pods whose eviction is held",
		"Confirms that the devices whose eviction is held are broken, so that their pods are\n"
		"evicted. Later failures can be held again. Needs root.",
		NULL, command_evict, 0, 1, 1, "a resource" },
	{ "allow", "DIRECTORY", "Let the service write to a directory",
		"Writes a drop-in for devplugd.service that creates the directory and makes it\n"
		"writable for devplugd, and reloads systemd. It takes effect after \"systemctl\n"
		"restart devplugd\". With --root, only writes the file below DIR. Needs root.",
		NULL, command_allow, ARGUMENT_ROOT, 1, 1, "a directory" },
};
const size_t n_commands = ARRAY_SIZE(commands);

static int show(const struct command *command, const struct command_line *line,
	const struct daemon_state *daemon)
{
	int r = 0;

	if (line->json)
		r = json_dumpf(daemon->root, stdout, JSON_INDENT(2)) < 0 || puts("") < 0 ? -EIO : 0;
	else if (daemon->unanswered.code == 0)
		r = command->show(daemon, line);
	return r < 0 || fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run_show(const struct command *command, const struct command_line *line)
{
	/* It is never freed, because that would take a quarter of the time for 10,000 devices. */
	static struct daemon_state daemon;
	struct error error = { 0 };
	int r, status;

	r = daemon_state_read(line->config_file, line->runtime_dir, &daemon, &error);
	if (r >= 0 && line->subject && daemon.unanswered.code == 0)
		r = daemon_state_select(&daemon, line->subject, &error);
	if (r >= 0 && line->pod)
		r = daemon_state_select_pod(&daemon, line->pod, &error);
	if (r < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return EXIT_FAILURE;
	}
	status = print_unanswered(&daemon);
	r = show(command, line, &daemon);
	return r == EXIT_SUCCESS ? status : r;
}

/* A file that was named must exist; without a name, the default applies if it is missing. */
static bool check_file(const struct command_line *line)
{
	if (!line->config_file || access(line->config_file, R_OK) == 0)
		return true;
	(void)fprintf(
		stderr, "devplugctl: cannot read %s: %s\n", line->config_file, strerror(errno));
	return false;
}

int main(int argc, char *argv[])
{
	struct command_line line = { 0 };
	const struct command *command;
	int r;

	/* Only the width of characters depends on the locale. */
	(void)setlocale(LC_CTYPE, "");
	r = arguments_parse(argc, argv, &line, &command);
	if (r <= 0)
		return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
	if (!check_file(&line))
		return EXIT_FAILURE;
	return command->run ? command->run(&line) : run_show(command, &line);
}
