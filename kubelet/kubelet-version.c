/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the properties of each release in one row. Sources: pkg/kubelet of 1.32.10 and 1.36.2;
 * 1.31.14, 1.33.13, 1.34.9, 1.35.6 and 1.36.2 as they ran; for PodResources the stages of KEP-3695.
 * For 1.37, only the choice of the health service was read (pickHealthService in
 * pkg/kubelet/cm/dra/plugin).
 */
#include "kubelet/kubelet-version.h"

/* Properties of all releases before 1.34. */
#define BEFORE_1_34                                                                              \
	.removes_all_files = true, .hints_for_all_nodes = true, .static_pods_need_health = true, \
	.pod_resources_of_failed = true

/* Properties of 1.34 and all later releases. */
#define SINCE_1_34                                                                    \
	.missing_device_panics = true, .needs_utf8 = true, .pod_resources_get = true, \
	.pod_resources_claims = true, .dra = true

/* Properties of 1.36 and all later releases. */
#define SINCE_1_36                                                                 \
	SINCE_1_34, .register_follows_caller = true, .repeats_registration = true, \
		    .resource_health = true

const struct kubelet_version kubelet_versions[] = {
	{ .name = "1.31", BEFORE_1_34 },
	{ .name = "1.32", BEFORE_1_34 },
	{ .name = "1.33", BEFORE_1_34 },
	{ .name = "1.34", SINCE_1_34, .removes_all_files = true, .hints_for_all_nodes = true },
	{ .name = "1.35", SINCE_1_34, .removes_all_files = true, .hints_for_all_nodes = true },
	{ .name = "1.36", SINCE_1_36 },
	{ .name = "1.37", SINCE_1_36, .resource_health_v1 = true },
	{},
};

const struct kubelet_version *kubelet_version_find(const char *name)
{
	for (size_t i = 0; kubelet_versions[i].name; i++)
		if (streq(kubelet_versions[i].name, name))
			return &kubelet_versions[i];
	return NULL;
}

const struct kubelet_version *kubelet_version_default(void)
{
	return kubelet_version_find("1.36");
}
