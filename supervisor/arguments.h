/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command line of devplugd. Separate from main.c because <getopt.h> and drivers/model/option.h
 * both have a `struct option`.
 */

#include <stdbool.h>

enum action { ACTION_RUN, ACTION_CHECK, ACTION_DIFF, ACTION_DUMP };

struct arguments {
	const char *config_file; /* the default, until an option changes it */
	enum action action;
	bool watch;   /* reload automatically when the files change */
	bool standby; /* start only when no other devplugd uses runtime_dir */
};

/* Returns 1 to continue, 0 if the option is complete in itself (help, version), -EINVAL for a wrong
 * command line, after printing why. */
int arguments_parse(int argc, char *argv[], struct arguments *arguments);
