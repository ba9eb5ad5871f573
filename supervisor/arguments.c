/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the options of devplugd. An error names the option and does not print the whole help.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>

#include "supervisor/arguments.h"

static void print_help(const char *config_file)
{
	(void)printf(
		"devplugd [-c FILE] [[--watch] [--standby] | --check | --diff | --dump]\n"
		"\n"
		"Offers the hardware of this host to its kubelet as extended resources.\n"
		"\n"
		"  -c, --config=FILE  Read FILE instead of %s\n"
		"      --watch        Reload the configuration whenever its files change\n"
		"      --standby      Start only when no other devplugd uses the same runtime_dir\n"
		"      --check        Check the configuration and exit\n"
		"      --diff         Print what a reload would change and exit\n"
		"      --dump         Print the configuration with all defaults and exit\n"
		"      --version      Print the version and exit\n"
		"  -h, --help         Print this help and exit\n"
		"\n"
		"SIGHUP reloads the configuration, SIGTERM stops the daemon. Exit status: 0 done\nor stopped, 1 failure, 2 usage, 78 the configuration is not valid.\n"
		"\n"
		"See devplugd(8) and devplugd.conf(5).\n",
		config_file);
}

int arguments_parse(int argc, char *argv[], struct arguments *arguments)
{
	enum {
		OPTION_WATCH = 0x100,
		OPTION_STANDBY,
		OPTION_CHECK,
		OPTION_DIFF,
		OPTION_DUMP,
		OPTION_VERSION
	};
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "watch", no_argument, NULL, OPTION_WATCH },
		{ "standby", no_argument, NULL, OPTION_STANDBY },
		{ "check", no_argument, NULL, OPTION_CHECK },
		{ "diff", no_argument, NULL, OPTION_DIFF },
		{ "dump", no_argument, NULL, OPTION_DUMP },
		{ "version", no_argument, NULL, OPTION_VERSION },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *default_file = arguments->config_file;
	int c;

	while ((c = getopt_long(argc, argv, "c:h", options, NULL)) >= 0)
		switch (c) {
		case 'c':
			arguments->config_file = optarg;
			break;
		case OPTION_WATCH:
			arguments->watch = true;
			break;
		case OPTION_STANDBY:
			arguments->standby = true;
			break;
		case OPTION_CHECK:
			arguments->action = ACTION_CHECK;
			break;
		case OPTION_DIFF:
			arguments->action = ACTION_DIFF;
			break;
		case OPTION_DUMP:
			arguments->action = ACTION_DUMP;
			break;
		case OPTION_VERSION:
			(void)puts("devplugd " DEVPLUGD_VERSION);
			return 0;
		case 'h':
			print_help(default_file);
			return 0;
		default:
			return -EINVAL;
		}
	if (optind < argc) {
		(void)fprintf(stderr, "devplugd: unexpected argument \"%s\"\n", argv[optind]);
		return -EINVAL;
	}
	return 1;
}
