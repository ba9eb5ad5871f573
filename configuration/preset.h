/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Presets: files of resource keys that come with the program, one for each common kind of device.
 * They are in share/devplugd/presets beside the program's directory, so that a build tree uses its
 * own, or else where they were installed.
 */

#include "common/error.h"
#include "drivers/model/option.h"

/* Adds the names of all presets, sorted. Returns 0, or negative errno with the error filled. */
int preset_list(struct strings *names, struct error *error);

/* The path of the preset's file (malloc'ed). Returns 0, -ENOENT with the nearest name in the error,
 * or another negative errno with the error filled. */
int preset_find(const char *name, char **ret_path, struct error *error);

/* The purpose of the preset: the first comment of its file (malloc'ed), empty if there is none.
 * Returns 0, or negative errno with the error filled. */
int preset_summary(const char *path, char **ret, struct error *error);

/* The name of the resource that pods of the replaced plugin request: a comment "Resource name:
 * NAME" at the beginning of the file (malloc'ed), empty if there is none. Returns as
 * preset_summary(). */
int preset_resource_name(const char *path, char **ret, struct error *error);

/* Both of these, of the preset with that name. */
int preset_describe(const char *name, char **ret_path, char **ret_summary, struct error *error);
