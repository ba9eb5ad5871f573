/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parameters that a ResourceClaim may set for the devices of a resource (opaque parameters of
 * k8s.io/api/resource/v1), and the values that templates use as ${param:NAME}. The values come from
 * the author of a pod: only what the resource declares is accepted, and each value is checked
 * wherever it arrives. Templates know values as texts, "8" or "true".
 */

#include <jansson.h>

#include "drivers/model/option.h"

struct declaration;

enum parameter_type { PARAMETER_STRING, PARAMETER_INT, PARAMETER_BOOL };
/* Their names, NULL at the end. */
extern const char *const parameter_types[];

struct declared_parameter {
	struct origin origin;
	char *name;
	int type;              /* enum parameter_type */
	struct strings values; /* string: those that are permitted; none: see `pattern` */
	char *pattern; /* string: shell pattern; NULL: letters, digits and some signs, which are
			  harmless in a path and as the word of a program */
	int64_t max_length; /* string: in bytes */
	int64_t min, max;   /* int */
	char *default_text; /* NULL: each claim must set it */
};

/* Parameters of a resource and in a claim, the length of a name and of a value, and the size of all
 * parameters of a device as JSON: as claims set them, and with the defaults. */
#define PARAMETERS_MAX          16
#define PARAMETER_NAME_MAX      32
#define PARAMETER_VALUE_MAX     256
#define PARAMETERS_SENT_MAX     1024
#define PARAMETERS_RESOLVED_MAX 16384
#define PARAMETER_DESCRIBED_MAX 512

/* "mode": letters, digits, "_" and "-", beginning with a letter. */
bool parameter_name_is_valid(const char *name);

/* Which values are permitted: "\"a\" or \"b\"", "a whole number from 1 to 8". */
void parameter_describe(
	const struct declared_parameter *parameter, char ret[static PARAMETER_DESCRIBED_MAX]);

/* For people and programs: an array of { "name", "type", "permitted", "default" or absent }, a new
 * reference; NULL: no memory. */
json_t *parameters_shown(const struct groups *declared);

/* Whether the text is a permitted value. */
bool parameter_permits(const struct declared_parameter *parameter, const char *text);

/* Whether a value is one component of a path, and stays below the directory that comes before it.
 */
bool parameter_is_component(const char *text);

/* Checks, without a declaration, that these can be parameters of a claim: an object with valid
 * names and with strings, whole numbers and booleans, within the limits above, and of `size` bytes
 * as JSON. Returns 0, or -EINVAL with the error filled. */
int parameters_check_form(const json_t *parameters, size_t size, struct error *error);

/* Makes the texts of all declared parameters, by name, from those that a claim sets (NULL: none)
 * and the defaults. `resource` is for messages, which begin with the name of the parameter. Returns
 * 0, -EINVAL if one is not declared, not permitted or missing, or -ENOMEM. */
int parameters_resolve(const struct groups *declared, const char *resource, const json_t *sent,
	json_t **ret, struct error *error);

/* Reads what parameters_resolve() made, perhaps by an earlier configuration, into a list of
 * "NAME=value". One that is not declared any more is left out. Returns 0, -EINVAL if one is not
 * permitted, or -ENOMEM. */
int parameters_read(const struct groups *declared, const json_t *resolved, struct strings *ret,
	struct error *error);

/* The value in such a list (NULL: empty), or else the default; NULL: neither. */
const char *parameter_value(
	const struct groups *declared, const struct strings *values, const char *name);

/* Checks the declared parameters of a resource, and that its templates use only those, where they
 * may. Adds to the report. */
void parameters_check(const struct declaration *declaration, struct report *report);
