/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which rights in the cluster devplugd needs. Each verb of the table is one that a request
 * of devplugd-cluster has, and no request needs another (tests/promises/test_dra_rights.py).
 */
#include "dra/model/dra-rights.h"

#include "configuration/config.h"

#define RBAC "rbac.authorization.k8s.io"

/* A right for the names of drivers. */
#define DRIVER "resourceclaims/driver"

static const struct {
	unsigned features; /* those that need it */
	const char *group, *resource;
	const char *verbs[6]; /* up to the first NULL */
} rights[] = {
	{ DRA_FEATURE_SERVE | DRA_FEATURE_REPORT | DRA_FEATURE_EVICT | DRA_FEATURE_LABELS, "",
		"nodes", { "get" } },
	{ DRA_FEATURE_LABELS, "", "nodes", { "patch" } },
	{ DRA_FEATURE_SERVE, "resource.k8s.io", "resourceclaims", { "get" } },
	{ DRA_FEATURE_SERVE, "resource.k8s.io", "resourceslices",
		{ "list", "watch", "create", "update", "delete" } },
	{ DRA_FEATURE_CLAIM_STATUS, "resource.k8s.io", "resourceclaims/status", { "patch" } },
	/* Kubernetes 1.36 and later. The token of the Secret belongs to no node. */
	{ DRA_FEATURE_CLAIM_STATUS, "resource.k8s.io", DRIVER, { "arbitrary-node:patch" } },
	{ DRA_FEATURE_REPORT, "", "nodes/status", { "patch" } },
	{ DRA_FEATURE_EVICT | DRA_FEATURE_REPORT, "", "pods", { "get" } },
	{ DRA_FEATURE_EVICT, "", "pods/eviction", { "create" } },
	{ DRA_FEATURE_DELETE, "", "pods", { "delete" } },
	{ DRA_FEATURE_REPORT, "", "events", { "create", "patch" } },
};

unsigned dra_rights_features(const struct config *config)
{
	unsigned features = (config->cluster.report ? DRA_FEATURE_REPORT : 0) |
		(config->cluster.labels && config_has_labels(config) ? DRA_FEATURE_LABELS : 0);

	for (size_t i = 0; i < config->n_resources; i++) {
		const struct resource_config *resource = &config->resources[i];

		if (resource->registration == REGISTRATION_DRA)
			features |= DRA_FEATURE_SERVE |
				(config->dra.claim_status ? DRA_FEATURE_CLAIM_STATUS : 0);
		if (!declaration_evicts(&resource->declaration))
			continue;
		features |= DRA_FEATURE_EVICT;
		if (resource->declaration.force_after > 0)
			features |= DRA_FEATURE_DELETE;
	}
	return features;
}

json_t *dra_rights_rules(unsigned features, json_t *drivers)
{
	json_t *rules = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(rights); i++) {
		json_t *verbs;

		if (!(features & rights[i].features))
			continue;
		verbs = json_array();
		for (size_t k = 0; k < ARRAY_SIZE(rights[i].verbs) && rights[i].verbs[k]; k++)
			(void)json_array_append_new(verbs, json_string(rights[i].verbs[k]));
		if (json_array_append_new(rules,
			    json_pack("{s:[s], s:[s], s:o, s:O*}", "apiGroups", rights[i].group,
				    "resources", rights[i].resource, "verbs", verbs,
				    "resourceNames",
				    streq(rights[i].resource, DRIVER) ? drivers : NULL)) < 0) {
			json_decref(rules);
			return NULL;
		}
	}
	return rules;
}

json_t *dra_rights_objects(unsigned features, json_t *drivers)
{
	if (features == 0)
		return json_array();
	return json_pack("[{s:s, s:s, s:{s:s, s:s}}, {s:s, s:s, s:{s:s}, s:o},"
			 " {s:s, s:s, s:{s:s}, s:{s:s, s:s, s:s}, s:[{s:s, s:s, s:s}]},"
			 " {s:s, s:s, s:{s:s, s:s, s:{s:s}}, s:s}]",
		"apiVersion", "v1", "kind", "ServiceAccount", "metadata", "name", DRA_ACCOUNT_NAME,
		"namespace", DRA_ACCOUNT_NAMESPACE,

		"apiVersion", RBAC "/v1", "kind", "ClusterRole", "metadata", "name",
		DRA_ACCOUNT_NAME, "rules", dra_rights_rules(features, drivers),

		"apiVersion", RBAC "/v1", "kind", "ClusterRoleBinding", "metadata", "name",
		DRA_ACCOUNT_NAME, "roleRef", "apiGroup", RBAC, "kind", "ClusterRole", "name",
		DRA_ACCOUNT_NAME, "subjects", "kind", "ServiceAccount", "name", DRA_ACCOUNT_NAME,
		"namespace", DRA_ACCOUNT_NAMESPACE,

		"apiVersion", "v1", "kind", "Secret", "metadata", "name", DRA_ACCOUNT_NAME,
		"namespace", DRA_ACCOUNT_NAMESPACE, "annotations",
		"kubernetes.io/service-account.name", DRA_ACCOUNT_NAME, "type",
		"kubernetes.io/service-account-token");
}
