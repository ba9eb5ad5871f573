/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of driver "exec": what all its programs have in common, whenever they are run.
 */

#include "drivers/command.h"
#include "drivers/option.h"

/* What a program has written so far. */
struct exec_text {
	char *data;
	size_t size;
	size_t room;
};

/* Returns false without memory. */
bool exec_text_add(struct exec_text *text, const char *data, size_t size);
void exec_text_done(struct exec_text *text);

/* What is to be run on a host whose "/" is `root`, for command_start_reading(): one block for
 * free(), whose words are those of the list; NULL without memory. */
char **exec_program_words(const struct strings *words, const char *root);
