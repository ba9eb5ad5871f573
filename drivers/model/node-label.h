/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Labels of the node, "NAME=VALUE", both templates, which node-feature-discovery reads from a file.
 * A name without a domain belongs to feature.node.kubernetes.io.
 */

#include "common/error.h"
#include "drivers/model/option.h"

/* Kubernetes: qualifiedNameMaxLength and LabelValueMaxLength. */
#define NODE_LABEL_MAX      63
#define NODE_LABEL_NAME_MAX (253 + 1 + NODE_LABEL_MAX)

/* The domain of a name that has none. */
#define NODE_LABEL_DOMAIN "feature.node.kubernetes.io"

/* Maximum size of a file; node-feature-discovery ignores larger ones (MaxFeatureFileSize). */
#define NODE_LABELS_SIZE_MAX 65536

/* Checks a configured label whose templates are valid. Returns 0, or -EINVAL with the error. */
int node_label_check(const char *label, struct error *error);

/* Whether the name of a configured label has a domain, which has no variables. */
bool node_label_has_domain(const char *label);

/* Writes a name or value for the text: characters that a label cannot have become "-", and the
 * beginning and end are letters or digits. `domain`: the text begins with a domain and "/", which
 * stay. */
void node_label_make(const char *text, bool domain, char ret[static NODE_LABEL_NAME_MAX + 1]);

/* Checks the lines "NAME=VALUE" of a file, which a process has made for a resource of that name:
 * each has the form of a label, and a name that one of the templates can have. Returns 0 or
 * -EBADMSG. */
int node_labels_check(const char *text, const struct strings *templates, const char *resource);

/* Whether a template can have the name. */
bool node_label_is_declared(
	const char *name, const struct strings *templates, const char *resource);
