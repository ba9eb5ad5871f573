/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names a device for each file in a directory, and again whenever one of them changes: seats of a
 * licence server that keeps their state there. A file with the text "ok" is a healthy seat, any
 * other text is the reason why it is not. For driver "exec", mode = "watch".
 *
 * Build: cc -O2 -Wall -o seats-watch seats-watch.c
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define STATE_MAX 200

static void print_quoted(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar((unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text);
	}
	putchar('"');
}

/* Reads the first line of a file; an empty one if there is none. */
static void read_state(const char *directory, const char *name, char state[STATE_MAX])
{
	char path[4096];
	FILE *stream;

	state[0] = '\0';
	if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
		return;
	stream = fopen(path, "re");
	if (!stream)
		return;
	if (!fgets(state, STATE_MAX, stream))
		state[0] = '\0';
	state[strcspn(state, "\n")] = '\0';
	fclose(stream);
}

static void print_devices(const char *directory)
{
	const char *separator = "";
	struct dirent *entry;
	DIR *stream = opendir(directory);

	if (!stream) {
		perror(directory);
		exit(EXIT_FAILURE);
	}
	printf("{\"version\": 1, \"devices\": [");
	while ((entry = readdir(stream))) {
		char state[STATE_MAX];

		if (entry->d_name[0] == '.')
			continue;
		read_state(directory, entry->d_name, state);
		printf("%s{\"id\": ", separator);
		print_quoted(entry->d_name);
		printf(", \"properties\": {\"SEAT\": ");
		print_quoted(entry->d_name);
		printf("}");
		if (strcmp(state, "ok") != 0) {
			printf(", \"healthy\": false, \"reason\": ");
			print_quoted(state);
		}
		printf("}");
		separator = ", ";
	}
	closedir(stream);
	/* The newline makes it count, and only what has left the buffer can be read. */
	printf("]}\n");
	fflush(stdout);
}

int main(int argc, char *argv[])
{
	char events[4096];
	int fd;

	if (argc != 2) {
		fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
		return 2;
	}
	fd = inotify_init1(IN_CLOEXEC);
	if (fd < 0) {
		perror("inotify, see fs.inotify.max_user_instances");
		return EXIT_FAILURE;
	}
	if (inotify_add_watch(
		    fd, argv[1], IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE) < 0) {
		perror(argv[1]);
		return EXIT_FAILURE;
	}
	do
		print_devices(argv[1]);
	while (read(fd, events, sizeof(events)) > 0);
	perror("inotify");
	return EXIT_FAILURE;
}
