/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the command line of devplugctl by the table of commands and makes the help from it. An
 * option that a command does not use is an error rather than ignored.
 */
#include <getopt.h>

#include "drivers/model/suggest.h"
#include "supervisor/ctl/command-line.h"

#define SUMMARY_COLUMN 28
#define COMMANDS_MAX   32

enum { OPTION_VERSION = 0x200 };

struct argument {
	const char *name, *value; /* of the value, NULL: a flag */
	char letter;              /* 0: none */
	unsigned bit;             /* 0: every command has it */
	size_t offset;            /* in struct command_line: bool or const char * */
	const char *help;
};

#define MEMBER(member) offsetof(struct command_line, member)

static const struct argument arguments[] = {
	{ "config", "FILE", 'c', 0, MEMBER(config_file), "The configuration file of the daemon" },
	{ "runtime-dir", "DIR", 0, 0, MEMBER(runtime_dir), "The directory of the daemon's state" },
	{ "json", NULL, 0, ARGUMENT_JSON, MEMBER(json), "Print JSON" },
	{ "root", "DIR", 0, ARGUMENT_ROOT, MEMBER(root),
		"The root directory of the host's files, instead of host_root" },
	{ "allocate", NULL, 0, ARGUMENT_ALLOCATE, MEMBER(allocate), "Run the allocate programs" },
	{ "follow", NULL, 'f', ARGUMENT_FOLLOW, MEMBER(follow), "Keep printing new events" },
	{ "pod", "NAMESPACE/NAME", 0, ARGUMENT_POD, MEMBER(pod), "Only the devices of this pod" },
	{ "for", "CONDITION", 0, ARGUMENT_FOR, MEMBER(condition),
		"serving (default), healthy=N or free=N" },
	{ "timeout", "SECONDS", 0, ARGUMENT_TIMEOUT, MEMBER(timeout),
		"The time limit, 300 by default" },
	{ "resources", NULL, 0, ARGUMENT_RESOURCES, MEMBER(resources),
		"Print only the resources that the configuration lacks" },
	{ "list", NULL, 0, ARGUMENT_LIST, MEMBER(list), "List the cordons" },
	{ "containers", NULL, 0, ARGUMENT_CONTAINERS, MEMBER(containers),
		"Check what running containers can open" },
	{ "force", NULL, 0, ARGUMENT_FORCE, MEMBER(force),
		"Cordon a device that does not exist, resume one without a test" },
	{ "dump-tree", NULL, 0, ARGUMENT_DUMP_TREE, MEMBER(dump_tree),
		"Print the files that the presets read, for a report" },
};

static void print_option(const struct argument *argument)
{
	char text[64], letter[8] = "    ";

	if (argument->letter)
		(void)snprintf(letter, sizeof(letter), "-%c, ", argument->letter);
	(void)snprintf(text, sizeof(text), "%s--%s%s%s", letter, argument->name,
		argument->value ? "=" : "", argument->value ?: "");
	(void)printf("  %-*s%s\n", SUMMARY_COLUMN, text, argument->help);
}

static void print_summary(const struct command *command)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "%s%s%s", command->name, *command->words ? " " : "",
		command->words);
	(void)printf("  %-*s%s\n", SUMMARY_COLUMN, text, command->summary);
}

static void print_help(void)
{
	(void)puts("devplugctl [-c FILE | --runtime-dir=DIR] COMMAND\n"
		   "\n"
		   "Inspect and control devplugd.\n");
	for (size_t i = 0; i < n_commands; i++)
		print_summary(&commands[i]);
	(void)puts(
		"\n"
		"DEVICE is the id of a device, or RESOURCE/ID; * ? [] match as in a shell. A cordon\nholds until you lift it or the host reboots; containers keep their devices.\n");
	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++)
		print_option(&arguments[i]);
	(void)printf("  %-*s%s\n", SUMMARY_COLUMN, "    --version", "Print the version and exit");
	(void)printf("  %-*s%s\n", SUMMARY_COLUMN, "-h, --help", "Print this help and exit");
	(void)puts("\n"
		   "\"devplugctl help COMMAND\" explains a command and lists its options.\n"
		   "\n"
		   "Exit status: 0 done, 1 failure, 2 usage, 3 devplugd is not running, 78 the\n"
		   "configuration is not valid.\n"
		   "\n"
		   "See devplugctl(1).");
}

static void print_command_help(const struct command *command)
{
	(void)printf("devplugctl %s%s%s\n\n%s.\n", command->name, *command->words ? " " : "",
		command->words, command->summary);
	if (command->help)
		(void)printf("%s\n", command->help);
	(void)putchar('\n');
	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++)
		if (arguments[i].bit == 0 || arguments[i].bit & command->options)
			print_option(&arguments[i]);
}

static const struct command *find_command(const char *name)
{
	const char *names[COMMANDS_MAX];
	const char *suggestion;

	assert(n_commands <= COMMANDS_MAX);
	for (size_t i = 0; i < n_commands; i++) {
		if (streq(commands[i].name, name))
			return &commands[i];
		names[i] = commands[i].name;
	}
	suggestion = suggest_word(name, names, n_commands);
	if (suggestion)
		(void)fprintf(stderr, "devplugctl: unknown command \"%s\", did you mean \"%s\"?\n",
			name, suggestion);
	else
		(void)fprintf(stderr,
			"devplugctl: unknown command \"%s\"; see \"devplugctl --help\"\n", name);
	return NULL;
}

/* Returns 0 when the help was printed, or -EINVAL. */
static int help(int count, char *words[])
{
	const struct command *command;

	if (count == 0) {
		print_help();
		return 0;
	}
	command = find_command(words[0]);
	if (!command)
		return -EINVAL;
	print_command_help(command);
	return 0;
}

/* `given`: the bits of the options that were there. */
static int check_options(const struct command *command, unsigned given)
{
	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++)
		if (arguments[i].bit & given & ~command->options) {
			(void)fprintf(stderr, "devplugctl: \"%s\" has no --%s\n", command->name,
				arguments[i].name);
			return -EINVAL;
		}
	return 0;
}

static int parse_words(int count, char *words[], unsigned given, struct command_line *line,
	const struct command **ret_command)
{
	const struct command *command;

	if (count == 0) {
		(void)fputs(
			"devplugctl: a command is missing; see \"devplugctl --help\"\n", stderr);
		return -EINVAL;
	}
	if (streq(words[0], "help"))
		return help(count - 1, words + 1);
	command = find_command(words[0]);
	if (!command)
		return -EINVAL;
	if (count - 1 < command->least && !line->list) {
		(void)fprintf(stderr, "devplugctl: \"%s\" needs %s\n", words[0], command->missing);
		return -EINVAL;
	}
	if (count - 1 > command->most) {
		(void)fprintf(stderr, "devplugctl: unexpected argument \"%s\"%s\n",
			words[1 + command->most],
			command->most > 1 ? "; put an argument of several words in quotes" : "");
		return -EINVAL;
	}
	if (check_options(command, given) < 0)
		return -EINVAL;
	line->verb = words[0];
	line->subject = count > 1 ? words[1] : NULL;
	line->reason = count > 2 ? words[2] : NULL;
	*ret_command = command;
	return 1;
}

/* The tables of getopt. The value of an option is 0x100 and its place in the table. */
static void make_options(struct option *options, char *letters)
{
	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++) {
		options[i] = (struct option){
			.name = arguments[i].name,
			.has_arg = arguments[i].value ? required_argument : no_argument,
			.val = 0x100 + (int)i,
		};
		if (arguments[i].letter) {
			*letters++ = arguments[i].letter;
			if (arguments[i].value)
				*letters++ = ':';
		}
	}
	*letters++ = 'h';
	*letters = '\0';
}

static const struct argument *find_argument(int c)
{
	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++)
		if (c == 0x100 + (int)i || (c != 0 && c == arguments[i].letter))
			return &arguments[i];
	return NULL;
}

static void take_option(const struct argument *argument, struct command_line *line, unsigned *given)
{
	char *member = (char *)line + argument->offset;

	if (argument->value)
		*(const char **)(void *)member = optarg;
	else
		*(bool *)(void *)member = true;
	*given |= argument->bit;
}

int arguments_parse(
	int argc, char *argv[], struct command_line *ret_line, const struct command **ret_command)
{
	struct option options[ARRAY_SIZE(arguments) + 3] = {
		[ARRAY_SIZE(arguments)] = { .name = "version", .val = OPTION_VERSION },
		[ARRAY_SIZE(arguments) + 1] = { .name = "help", .val = 'h' },
	};
	char letters[2 * ARRAY_SIZE(arguments) + 2];
	unsigned given = 0;
	int c;

	make_options(options, letters);
	while ((c = getopt_long(argc, argv, letters, options, NULL)) >= 0) {
		const struct argument *argument = find_argument(c);

		if (c == OPTION_VERSION) {
			(void)puts("devplugctl " DEVPLUGD_VERSION);
			return 0;
		}
		if (c == 'h') {
			print_help();
			return 0;
		}
		if (!argument)
			return -EINVAL;
		take_option(argument, ret_line, &given);
	}
	if (ret_line->config_file && ret_line->runtime_dir) {
		(void)fputs("devplugctl: use either --config or --runtime-dir\n", stderr);
		return -EINVAL;
	}
	return parse_words(argc - optind, argv + optind, given, ret_line, ret_command);
}
