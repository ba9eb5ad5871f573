/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Forms of configured strings, for the `check` member of option tables. Each returns 0, or -EINVAL
 * with a sentence that follows the option's key and describes the valid form.
 */

#include "common/error.h"

/* Whether a shell pattern can match anything but itself. */
bool form_is_pattern(const char *pattern);

/* What is wrong with a pattern of paths that was probably written as another kind of expression,
 * and what to write instead; NULL: nothing that can be seen. */
const char *form_pattern_mistake(const char *pattern);

/* "0000:03:00.0" (and "10000:03:00.0" behind a VMD), lower case, ended by a NUL. */
#define PCI_ADDRESS_SIZE 17
bool form_is_pci_address(const char *text);

/* "/dev/kvm": absolute, without "..". */
int form_absolute_path(const char *value, struct error *error);

/* A template of an absolute path; it may begin with a variable: "${node}". */
int form_template_path(const char *value, struct error *error);

/* As form_template_path(), but without variables that only exist during an allocation, for paths
 * that are read outside of one. */
int form_device_path(const char *value, struct error *error);

/* A template without variables that only exist during an allocation. */
int form_device_text(const char *value, struct error *error);

/* As form_template_path(), and may begin with "?", which marks it optional. */
int form_node_path(const char *value, struct error *error);

/* "0000:03:00.0", or a shell pattern of such an address. */
int form_pci_address(const char *value, struct error *error);

/* As form_pci_address() if the text contains a colon. Any other text is a name, and valid: no name
 * of an interface or device contains a colon. */
int form_pci_address_or_name(const char *value, struct error *error);

/* The name of an environment variable or of an annotation. */
int form_environment_name(const char *value, struct error *error);
int form_annotation_name(const char *value, struct error *error);

/* "vendor.example/class=device" without variables. */
int form_cdi_name(const char *value, struct error *error);

/* Template of "NAME=value" of the environment. */
int form_environment(const char *value, struct error *error);

/* Template of "name=value" of an annotation. */
int form_annotation(const char *value, struct error *error);

/* Template of "vendor.example/class=device", a qualified name of the Container Device Interface. */
int form_cdi(const char *value, struct error *error);

/* "vendor.example/class", the beginning of all names in a CDI file. */
int form_cdi_kind(const char *value, struct error *error);

/* "devices.vendor.example": a DNS name in lower case, of any length. */
int form_dns_name(const char *value, struct error *error);

/* Name or number of a user. */
int form_user(const char *value, struct error *error);
