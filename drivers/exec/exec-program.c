/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets the options of a program (arguments, environment, time limit) and starts it, in the same way
 * for programs that list devices and programs that run at Allocate.
 */
#include "drivers/exec/exec-program.h"

bool exec_text_add(struct exec_text *text, const char *data, size_t size)
{
	if (size > text->room - text->size) {
		size_t room = MAX_OF(2 * text->room, text->size + size);
		char *grown = realloc(text->data, room);

		if (!grown)
			return false;
		text->data = grown;
		text->room = room;
	}
	if (size > 0)
		memcpy(text->data + text->size, data, size);
	text->size += size;
	return true;
}

void exec_text_done(struct exec_text *text)
{
	free(text->data);
	*text = (struct exec_text){ 0 };
}

char **exec_program_words(const struct strings *words, const char *program_root)
{
	size_t array_size = (words->count + 1) * sizeof(char *);
	char **argv = malloc(array_size + strlen(program_root) + strlen(words->items[0]) + 1);

	if (!argv)
		return NULL;
	for (size_t i = 0; i < words->count; i++)
		argv[i] = words->items[i];
	argv[words->count] = NULL;
	argv[0] = (char *)argv + array_size;
	(void)stpcpy(stpcpy(argv[0], program_root), words->items[0]);
	return argv;
}
