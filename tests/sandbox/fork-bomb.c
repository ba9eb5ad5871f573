/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork-bomb FILE: makes processes in sessions of their own until the kernel refuses, appends their
 * number to the file, and stays.
 */
#include <stdio.h>
#include <unistd.h>

/* More than any limit that could be meant. */
#define PROCESSES_MAX 20000

int main(int argc, char *argv[])
{
	FILE *file = argc > 1 ? fopen(argv[1], "ae") : NULL;
	unsigned count = 0;
	pid_t pid = 1;

	if (!file)
		return 2;
	while (count < PROCESSES_MAX && (pid = fork()) > 0)
		count++;
	if (pid == 0) {
		(void)setsid();
		(void)pause();
		return 0;
	}
	(void)fprintf(file, "%u\n", count);
	(void)fclose(file);
	(void)pause();
	return 0;
}
