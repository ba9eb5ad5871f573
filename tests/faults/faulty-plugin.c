/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the place of devplugd-plugin, and becomes the real one in an environment that devplugd
 * would not pass on. The file "environment" beside it: the path of the real program, then
 * NAME=VALUE, one a line. It is not a template: every child starts its own misbehaviour. With a
 * file "late" beside it, it is a template that makes a child and answers too late, and writes the
 * number of the child to that file.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/control-child.h"

#define LINE_LENGTH 4096

/* The child ends when this process does. */
static void make_child(FILE *late)
{
	int gate[2];
	char none;
	pid_t between, child;

	if (pipe(gate) < 0)
		exit(EXIT_FAILURE);
	between = fork();
	if (between == 0) {
		child = fork();
		if (child == 0) {
			(void)close(gate[1]);
			_exit(read(gate[0], &none, 1) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
		}
		(void)fprintf(late, "%d\n", (int)child);
		(void)fflush(late);
		_exit(EXIT_SUCCESS);
	}
	(void)waitpid(between, NULL, 0);
}

static int be_template(const char *late_path)
{
	struct pollfd pollfd = { .fd = CONTROL_FD, .events = POLLIN };
	FILE *late = fopen(late_path, "r+e");

	if (!late || poll(&pollfd, 1, -1) < 0 || !(pollfd.revents & POLLIN))
		return EXIT_FAILURE;
	make_child(late);
	for (;;)
		(void)pause();
}

int main(int argc, char *argv[])
{
	static char line[LINE_LENGTH], program[LINE_LENGTH], path[LINE_LENGTH];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);
	char *slash;
	FILE *file;

	if (n < 0)
		return EXIT_FAILURE;
	slash = strrchr(path, '/');
	if (argc > 1 && strcmp(argv[1], "--template") == 0) {
		(void)strcpy(slash, "/late");
		return be_template(path);
	}
	(void)strcpy(slash, "/environment");
	file = fopen(path, "re");
	if (!file || !fgets(program, sizeof(program), file)) {
		(void)fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return EXIT_FAILURE;
	}
	program[strcspn(program, "\n")] = '\0';
	while (fgets(line, sizeof(line), file)) {
		char *equals = strchr(line, '=');

		line[strcspn(line, "\n")] = '\0';
		if (!equals)
			continue;
		*equals = '\0';
		if (setenv(line, equals + 1, 1) < 0)
			return EXIT_FAILURE;
	}
	(void)fclose(file);
	(void)execv(program, argv);
	(void)fprintf(stderr, "%s: %s\n", program, strerror(errno));
	return EXIT_FAILURE;
}
