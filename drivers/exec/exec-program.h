/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of driver "exec": what all its programs have in common, those that run at Allocate
 * included.
 */

#include "drivers/host/command.h"
#include "drivers/model/option.h"

/* What a program has written so far. */
struct exec_text {
	char *data;
	size_t size;
	size_t room;
};

/* Returns false without memory. */
bool exec_text_add(struct exec_text *text, const char *data, size_t size);
void exec_text_done(struct exec_text *text);

/* The arguments for command_start_reading(), with the program below `program_root`, see
 * declaration_program_root(). One block for free(), whose other words are those of the list; NULL
 * without memory. */
char **exec_program_words(const struct strings *words, const char *program_root);
