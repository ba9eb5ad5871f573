/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * ${variables} in configured strings. Templates are checked when the configuration is read, so that
 * expansion at Allocate can fail only if the host lacks something. "$$" is a plain "$".
 *
 * Variables of one device: ${id} (physical unit, without the replica), ${index} (position in the
 * resource's list, from 0), ${node} (first node's host path), ${bdf}, ${numa} (first NUMA node, or
 * empty), ${attr:FILE}, ${replica} (0 without sharing), ${position} (among the container's
 * devices), ${capacity:NAME:UNIT}, and the driver's variables. Variables of the allocation:
 * ${ids:SEP} (ids of all units, each once, joined by SEP, "," if absent), ${n} (how many units),
 * ${info} (JSON, see DEVICE_INFO), ${param:NAME} (a parameter of the claim, or its default).
 * Variables of the resource: ${name}, ${env_name}.
 */

#include "common/error.h"

struct device;
struct driver;
struct groups;
struct strings;

/* The sources of the variables in one expansion. Members may be NULL; a variable whose source is
 * missing is an error at expansion. */
struct template_context {
	const char *name; /* the resource's */
	/* one device */
	/* `variable` as written between the braces ("id", "attr:vendor"); NULL: has none */
	const char *(*device_value)(void *userdata, const char *variable);
	/* what a claim sets, see parameter.h */
	const struct groups *parameters;        /* those of the resource */
	const struct strings *parameter_values; /* NULL: the defaults */
	bool in_path; /* the value of a parameter must be one component of a path */
	/* the allocation */
	const struct device *const *devices; /* the units, each once, in the order of their ids */
	size_t n_devices;
	void *userdata;
};

/* A variable of the core as the manual shows it. */
struct template_variable {
	const char *form; /* "${ids:SEPARATOR}" */
	const char *help;
};

/* The variable at that position, from 0; NULL behind the last. */
const struct template_variable *template_variable_get(size_t index);

/* The longest "name:argument" between braces. */
#define TEMPLATE_VARIABLE_MAX 127

/* Checks syntax and that every variable is one of the core or of the driver (NULL: core only).
 * Returns 0, or -EINVAL with the nearest valid variable named in the error. */
int template_check(const char *text, const struct driver *driver, struct error *error);

/* Whether the text uses a variable whose value belongs to one device. */
bool template_is_per_device(const char *text);

/* Whether the text uses a variable that has a value only during an allocation: ${ids}, ${n},
 * ${info}, ${replica}, ${position}, ${capacity}, ${param:NAME}. */
bool template_is_per_allocation(const char *text);

/* Finds the next ${param:NAME} in the text, which is advanced behind it. Returns whether there is
 * one, and the name. */
bool template_next_parameter(const char **text, char ret_name[static TEMPLATE_VARIABLE_MAX + 1]);

/* Whether the text uses a variable whose value the kernel may give to another device some day, such
 * as ${minor}. */
bool template_may_go_stale(const char *text);

/* Finds the next capacity that the text names, and moves on behind it. */
bool template_next_capacity(const char **text, char ret[static TEMPLATE_VARIABLE_MAX + 1]);

/* Finds a variable of the core or of the driver whose value may be another one after a reboot for
 * the same device, such as ${card}. Returns whether the text has one, and its name. */
bool template_find_changing(
	const char *text, const struct driver *driver, char ret[static TEMPLATE_VARIABLE_MAX + 1]);

/* Copies a text with every variable replaced by the letter "x", so that the form of what surrounds
 * them can be checked. Returns 0, -EINVAL if template_check() would refuse the syntax, or -ENOMEM.
 */
int template_blank(const char *text, char **ret);

/* Expands a template of the resource of that name up to the first variable that belongs to a device
 * or an allocation. `ret_rest` is what follows in `text`, "" if there is no such variable. Returns
 * 0, -EINVAL if template_check() would refuse the syntax, or -ENOMEM. */
int template_prefix(const char *text, const char *name, char **ret_prefix, const char **ret_rest);

/* Whether an expansion of the text may contain "/": it has one itself, or a variable is a path. */
bool template_may_have_slash(const char *text);

/* Expands. Returns 0, -ENOENT if a variable has no value here, -ENODATA if that is a parameter that
 * claims must set, -EINVAL if a parameter's value is not valid in a path, or -ENOMEM. */
int template_expand(
	const char *text, const struct template_context *context, char **ret, struct error *error);

/* Expands the words of a command into an array with a NULL at its end. Errors are those of
 * template_expand(). */
int template_expand_words(const struct strings *words, const struct template_context *context,
	char ***ret, struct error *error);

/* Frees such an array. */
void template_words_freep(char ***words);
#define _cleanup_words_ _cleanup_(template_words_freep)
