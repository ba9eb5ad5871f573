/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a lease for each seat of a container: a file with a token in a directory of the licence
 * server, which is mounted into the container as /run/seats/ID. The earlier lease of the seat is no
 * longer valid then, because no event reports the end of a container. For driver "exec", allocate.
 *
 * Build: cc -O2 -Wall -o seats-lease seats-lease.c
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define IDS "\"offered_ids\": ["

/* All of standard input, with a NUL behind it. */
static char *read_request(void)
{
	char *text = NULL;
	size_t size = 0;

	for (;;) {
		ssize_t n;

		text = realloc(text, size + 4097);
		n = text ? read(STDIN_FILENO, text + size, 4096) : -1;
		if (n < 0) {
			perror("standard input");
			exit(EXIT_FAILURE);
		}
		size += (size_t)n;
		text[size] = '\0';
		if (n == 0)
			return text;
	}
}

static void write_lease(const char *path)
{
	unsigned char token[16];
	char beside[4096];
	FILE *stream;

	/* In one step, so that no reader sees half of it. */
	if (snprintf(beside, sizeof(beside), "%s.new", path) >= (int)sizeof(beside) ||
		getrandom(token, sizeof(token), 0) != sizeof(token) ||
		!(stream = fopen(beside, "we"))) {
		/* The last line is what the pod shows. */
		fprintf(stderr, "no lease %s: %s\n", path, strerror(errno));
		exit(EXIT_FAILURE);
	}
	for (size_t i = 0; i < sizeof(token); i++)
		fprintf(stream, "%02x", token[i]);
	fputc('\n', stream);
	if (fclose(stream) != 0 || rename(beside, path) < 0) {
		fprintf(stderr, "no lease %s: %s\n", path, strerror(errno));
		exit(EXIT_FAILURE);
	}
}

/* The next id of a list; NULL at its end. A string has no " in it, it would be written \u0022. */
static char *next_id(char **list)
{
	char *id = *list + strspn(*list, ", "), *end;

	if (*id != '"')
		return NULL;
	end = strchr(++id, '"');
	if (!end)
		return NULL;
	*end = '\0';
	*list = end + 1;
	return id;
}

int main(int argc, char *argv[])
{
	const char *separator = "";
	char *request, *list, *id;

	if (argc != 2) {
		fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
		return 2;
	}
	request = read_request();
	printf("{\"version\": 1, \"mounts\": [");
	for (list = request; (list = strstr(list, IDS));) {
		list += strlen(IDS);
		while ((id = next_id(&list))) {
			char path[4096];

			(void)snprintf(path, sizeof(path), "%s/%s", argv[1], id);
			write_lease(path);
			/* Ids are made of what needs no escapes: letters, digits and ._:@+=-# */
			printf("%s{\"host\": \"%s\", \"path\": \"/run/seats/%s\", \"read_only\": true}",
				separator, path, id);
			separator = ", ";
		}
	}
	printf("]}\n");
	free(request);
	return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
