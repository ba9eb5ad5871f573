/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of driver "exec": the common parts of all its programs, including programs that run at
 * Allocate.
 */

#include "drivers/host/command.h"
#include "drivers/model/option.h"

/* The output of a program so far. */
struct exec_text {
	char *data;
	size_t size;
	size_t room;
};

/* Returns false without memory. */
bool exec_text_add(struct exec_text *text, const char *data, size_t size);
void exec_text_done(struct exec_text *text);

/* The arguments for command_start_reading(), with the program below `program_root`, see
 * declaration_program_root(). The result is one block for free() and uses the list's strings; NULL:
 * no memory. */
char **exec_program_words(const struct strings *words, const char *program_root);
