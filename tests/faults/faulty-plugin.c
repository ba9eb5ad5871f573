/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands where devplugd looks for devplugd-plugin, and becomes the real one in an environment that
 * devplugd would not pass on. The file "environment" beside it: the path of the real program, then
 * NAME=VALUE, one a line. It is no template: every child is to begin its own mischief.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_LENGTH 4096

int main(int argc, char *argv[])
{
	static char line[LINE_LENGTH], program[LINE_LENGTH], path[LINE_LENGTH];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);
	char *slash;
	FILE *file;

	if (n < 0 || (argc > 1 && strcmp(argv[1], "--template") == 0))
		return EXIT_FAILURE;
	slash = strrchr(path, '/');
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
