/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command line of every verb.
 */

#include "kubelet/conformance/conformance.h"
#include "kubelet/kubelet-manager.h"

#define EXIT_FAILED 1
#define EXIT_USAGE  2

extern struct manager_options arg_run;
extern struct conformance_options arg_conformance;
extern bool arg_list_cases;
extern bool arg_json;
extern bool arg_help;
extern bool arg_version;
extern const char *arg_limits;

/* A container of the pod ("NAME:RESOURCE=N,...") or its other resources ("NAME:JSON"). */
struct container_argument {
	const char *kind;
	const char *text;
};
extern struct container_argument *arg_containers, *arg_others;
extern size_t arg_n_containers, arg_n_others;

extern json_t *arg_claims; /* ResourceClaims */

extern bool arg_static;
extern const char *arg_namespace;
extern double arg_timeout, arg_register_timeout; /* seconds */

extern const char arguments_help[];

/* Parses the options; the verb and its arguments begin at getopt's `optind`. Returns 0 or
 * EXIT_USAGE after printing why. */
int arguments_parse(int argc, char **argv);

/* Prints a usage error. Returns EXIT_USAGE. */
int arguments_refuse(const char *text);
