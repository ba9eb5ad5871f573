/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devplugctl, the person's tool. To show something it reads state files and nothing else, so that
 * works for everybody who may read them, also while the daemon is down.
 */
#include <getopt.h>

#include "ctl/command.h"
#include "ctl/show.h"

/* Either shows a snapshot or runs. */
struct command {
	const char *name;
	int (*show)(const struct snapshot *snapshot);
	int (*run)(const struct request *request);
	bool json;           /* one that runs has a form for programs, as all that show have */
	int least, most;     /* words behind the name */
	const char *missing; /* what the first of them is */
};

static const struct command commands[] = {
	{ "status", show_status, NULL, false, 0, 1, NULL },
	{ "devices", show_devices, NULL, false, 0, 1, NULL },
	{ "explain", show_explanation, NULL, false, 1, 1, "a resource" },
	{ "presets", NULL, command_presets, false, 0, 1, NULL },
	{ "discover", NULL, command_discover, false, 0, 1, NULL },
	{ "preview", NULL, command_preview, true, 1, 2, "a resource" },
	{ "reload", NULL, command_reload, false, 0, 0, NULL },
	{ "cordon", NULL, command_cordon, false, 1, 2, "a device, DEVICE or RESOURCE/DEVICE" },
	{ "uncordon", NULL, command_uncordon, false, 1, 1, "a device, DEVICE or RESOURCE/DEVICE" },
};

static struct request arg_request = { .root = "" };
static const struct command *arg_command;

static void print_help(void)
{
	(void)puts(
		"devplugctl [-c FILE | --runtime-dir=DIR] COMMAND\n"
		"\n"
		"Shows what devplugd does, and has it do something.\n"
		"\n"
		"  status [RESOURCE]         Resources, and what is wrong with them\n"
		"  devices [RESOURCE]        Each device and its health\n"
		"  explain RESOURCE          Why a resource is as it is, and what to do\n"
		"  presets [PRESET]          The presets there are, or what is in one\n"
		"  discover [PRESET]         What presets find on this host, as a configuration\n"
		"  preview RESOURCE [IDS]    What a resource of the file would find and give\n"
		"  reload                    Check the configuration and take it into force\n"
		"  cordon DEVICE [REASON]    Give a device to no new container\n"
		"  uncordon DEVICE           Offer it again\n"
		"\n"
		"DEVICE is the id of a device, or RESOURCE/ID; * ? [] match as in a shell. A cordon\n"
		"holds until it is lifted or the host restarts; containers keep what they have.\n"
		"\n"
		"  -c, --config=FILE      The configuration file of the daemon\n"
		"      --runtime-dir=DIR  Where the daemon keeps its state\n"
		"      --json             Print JSON, for programs (status, devices, explain,\n"
		"                         preview)\n"
		"      --root=DIR         Where the files of the host are (discover, preview)\n"
		"      --allocate         Run the programs that are asked when a container is given\n"
		"                         devices (preview)\n"
		"      --version          Print the version and exit\n"
		"  -h, --help             Print this text and exit\n"
		"\n"
		"Exit status: 0 done, 1 failure, 2 usage, 3 devplugd is not running, 78 the\n"
		"configuration is not valid.\n"
		"\n"
		"See devplugctl(1).");
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (streq(commands[i].name, name))
			return &commands[i];
	return NULL;
}

/* "status, devices or explain" */
static void print_names(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		(void)fprintf(stderr, "%s%s",
			i == 0                                 ? ""
				: i + 1 < ARRAY_SIZE(commands) ? ", "
							       : " or ",
			commands[i].name);
	(void)fputc('\n', stderr);
}

static int parse_words(int count, char *words[])
{
	if (count == 0) {
		(void)fputs("devplugctl: say what to do: ", stderr);
		print_names();
		return -EINVAL;
	}
	arg_command = find_command(words[0]);
	if (!arg_command) {
		(void)fprintf(stderr, "devplugctl: unknown command \"%s\"; say ", words[0]);
		print_names();
		return -EINVAL;
	}
	if (count - 1 < arg_command->least) {
		(void)fprintf(
			stderr, "devplugctl: \"%s\" needs %s\n", words[0], arg_command->missing);
		return -EINVAL;
	}
	if (count - 1 > arg_command->most) {
		(void)fprintf(stderr, "devplugctl: unexpected argument \"%s\"\n",
			words[1 + arg_command->most]);
		return -EINVAL;
	}
	if (arg_request.json && !arg_command->show && !arg_command->json) {
		(void)fprintf(stderr, "devplugctl: \"%s\" has no --json\n", words[0]);
		return -EINVAL;
	}
	arg_request.subject = count > 1 ? words[1] : NULL;
	arg_request.reason = count > 2 ? words[2] : NULL;
	return 1;
}

/* Returns 1 to go on, 0 when all is done, -EINVAL for a wrong command line. */
static int parse_argv(int argc, char *argv[])
{
	enum {
		OPTION_RUNTIME_DIR = 0x100,
		OPTION_JSON,
		OPTION_ROOT,
		OPTION_ALLOCATE,
		OPTION_VERSION
	};
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "runtime-dir", required_argument, NULL, OPTION_RUNTIME_DIR },
		{ "json", no_argument, NULL, OPTION_JSON },
		{ "root", required_argument, NULL, OPTION_ROOT },
		{ "allocate", no_argument, NULL, OPTION_ALLOCATE },
		{ "version", no_argument, NULL, OPTION_VERSION },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "c:h", options, NULL)) >= 0)
		switch (c) {
		case 'c':
			arg_request.config_file = optarg;
			break;
		case OPTION_RUNTIME_DIR:
			arg_request.runtime_dir = optarg;
			break;
		case OPTION_JSON:
			arg_request.json = true;
			break;
		case OPTION_ROOT:
			arg_request.root = optarg;
			break;
		case OPTION_ALLOCATE:
			arg_request.allocate = true;
			break;
		case OPTION_VERSION:
			(void)puts("devplugctl " DEVPLUGD_VERSION);
			return 0;
		case 'h':
			print_help();
			return 0;
		default:
			return -EINVAL;
		}
	if (arg_request.config_file && arg_request.runtime_dir) {
		(void)fputs("devplugctl: use either --config or --runtime-dir\n", stderr);
		return -EINVAL;
	}
	return parse_words(argc - optind, argv + optind);
}

static int print_json(const struct snapshot *snapshot)
{
	if (json_dumpf(snapshot->root, stdout, JSON_INDENT(2)) < 0)
		return -EIO;
	(void)putchar('\n');
	return 0;
}

static int show(const struct snapshot *snapshot)
{
	int r;

	if (arg_request.json)
		r = print_json(snapshot);
	else if (snapshot->known)
		r = arg_command->show(snapshot);
	else
		r = 0;
	return r < 0 || fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run_show(void)
{
	_cleanup_(snapshot_done) struct snapshot snapshot = { 0 };
	struct error error = { 0 };
	int r;

	r = snapshot_read(arg_request.config_file, arg_request.runtime_dir, &snapshot, &error);
	if (r >= 0 && arg_request.subject && snapshot.known)
		r = snapshot_select(&snapshot, arg_request.subject, &error);
	if (r < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return EXIT_FAILURE;
	}
	if (!snapshot.running)
		(void)fprintf(stderr, "devplugctl: devplugd is not running%s\n",
			snapshot.known ? "; this is the last state it wrote" : "");
	else if (!snapshot.known)
		(void)fputs("devplugctl: devplugd is starting\n", stderr);
	r = show(&snapshot);
	return r == EXIT_SUCCESS && !snapshot.running ? EXIT_NOT_RUNNING : r;
}

int main(int argc, char *argv[])
{
	int r;

	r = parse_argv(argc, argv);
	if (r <= 0)
		return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
	return arg_command->run ? arg_command->run(&arg_request) : run_show();
}
