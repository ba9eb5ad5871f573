/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which rights in the cluster devplugd needs, by the feature that needs them: one table, from which
 * "devplugctl dra credentials" makes objects, and packaging/make-rights the rules of the manifests
 * and the table in docs/dra-reference.md. A feature that is not in use needs no right.
 */

#include <jansson.h>

/* The ServiceAccount of devplugd on hosts, and the name of the objects that belong to it. */
#define DRA_ACCOUNT_NAME      "devplugd"
#define DRA_ACCOUNT_NAMESPACE "kube-system"

/* Bits. */
enum dra_feature {
	DRA_FEATURE_SERVE = 1 << 0,  /* a resource has serve = "dra" */
	DRA_FEATURE_REPORT = 1 << 1, /* cluster.report */
	DRA_FEATURE_CLAIM_STATUS = 1
		<< 2,                /* a resource has serve = "dra", and dra.claim_status is set */
	DRA_FEATURE_EVICT = 1 << 3,  /* a failure of a device has the severity "evict" */
	DRA_FEATURE_DELETE = 1 << 4, /* and the resource has force_after */
	DRA_FEATURE_LABELS = 1 << 5, /* cluster.labels, and a resource has labels */
};

struct config;

/* The features that the configuration uses. devplugd-cluster runs if there is any. */
unsigned dra_rights_features(const struct config *config);

/* The rules of a ClusterRole for these features, in the order of the table. `drivers`: the names of
 * the drivers. NULL without memory. */
json_t *dra_rights_rules(unsigned features, json_t *drivers);

/* The objects that give devplugd an identity with these rights: ServiceAccount, ClusterRole,
 * ClusterRoleBinding, and a Secret that Kubernetes fills with a token; none without a feature. NULL
 * without memory. */
json_t *dra_rights_objects(unsigned features, json_t *drivers);
