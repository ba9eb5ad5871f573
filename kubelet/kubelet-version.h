/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The differences between kubelet releases that a device plugin can notice. Code asks for a
 * property, never for a release. Where the release that made a change is unknown, it is assumed to
 * be the first one that was read or tried with the new behaviour.
 */

#include "common/util.h"

struct kubelet_version {
	const char *name; /* "1.36" */
	/* The kubelet keeps devices by pointer, so that a booked device that is not listed makes it
	 * panic. Earlier releases treat it as a device without topology. */
	bool missing_device_panics;
	bool needs_utf8;              /* other text ends a stream, a call or a registration */
	bool register_follows_caller; /* a Register whose caller hangs up is cancelled */
	bool removes_all_files;       /* from the plugin directory at its start, not sockets only */
	bool hints_for_all_nodes;     /* of the machine, not only for those that have devices */
	bool repeats_registration;    /* of a watched socket whose plugin could not be connected */
	bool static_pods_need_health; /* a static pod's devices are checked again at a restart */
	bool pod_resources_get;       /* PodResources answers Get */
	bool pod_resources_claims;    /* PodResources names dynamic resources */
	bool pod_resources_of_failed; /* PodResources lists pods that have failed */
	bool dra;                     /* drivers of Dynamic Resource Allocation are registered */
	bool resource_health;         /* their devices' health is followed */
	bool resource_health_v1;      /* as v1 where that is announced; v1alpha1 must be, too */
};

/* NULL if the release is not known. */
const struct kubelet_version *kubelet_version_find(const char *name);

/* The newest release that was seen running. */
const struct kubelet_version *kubelet_version_default(void);

/* All releases, the oldest first; the last entry has no name. */
extern const struct kubelet_version kubelet_versions[];
