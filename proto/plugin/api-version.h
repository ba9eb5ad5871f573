/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The versions of the device plugin API that this program supports, and what a kubelet answers that
 * supports none of them. The kubelet's errors have no code that distinguishes them, only a text.
 */

#include "common/util.h"

#define API_VERSION_TEXT_MAX 320

/* NULL-terminated; the first one is requested. */
extern const char *const api_versions[];

/* Whether a kubelet refused to register because of the version. `ret` is set only then: which
 * versions both sides support, and what to do. Sources of the texts: the kubelet's
 * pkg/kubelet/cm/devicemanager/plugin/v1beta1, server.go and handler.go, 1.32 to 1.36. */
bool api_version_is_refused(const char *refusal, char ret[static API_VERSION_TEXT_MAX]);
