/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Full paths of the methods between kubelet and plugins, as in k8s.io/kubelet/pkg/apis. The .proto
 * files hold messages only: protoc-c would name a function after the method Register, a keyword of
 * C.
 */

#define DEVICE_PLUGIN_VERSION "v1beta1"
#define DEVICE_HEALTHY        "Healthy"
#define DEVICE_UNHEALTHY      "Unhealthy"

#define METHOD_REGISTER             "/v1beta1.Registration/Register"
#define METHOD_OPTIONS              "/v1beta1.DevicePlugin/GetDevicePluginOptions"
#define METHOD_LIST_AND_WATCH       "/v1beta1.DevicePlugin/ListAndWatch"
#define METHOD_PREFERRED_ALLOCATION "/v1beta1.DevicePlugin/GetPreferredAllocation"
#define METHOD_ALLOCATE             "/v1beta1.DevicePlugin/Allocate"
#define METHOD_PRE_START_CONTAINER  "/v1beta1.DevicePlugin/PreStartContainer"

#define METHOD_GET_INFO "/pluginregistration.Registration/GetInfo"
#define METHOD_NOTIFY_REGISTRATION_STATUS \
	"/pluginregistration.Registration/NotifyRegistrationStatus"

#define METHOD_POD_RESOURCES_LIST            "/v1.PodResourcesLister/List"
#define METHOD_POD_RESOURCES_V1ALPHA1_LIST   "/v1alpha1.PodResourcesLister/List"
#define METHOD_POD_RESOURCES_GET_ALLOCATABLE "/v1.PodResourcesLister/GetAllocatableResources"
#define METHOD_POD_RESOURCES_GET             "/v1.PodResourcesLister/Get"

/* The package of the node service has the path of its directory in it. */
#define METHOD_DRA(version, name) "/k8s.io.kubelet.pkg.apis.dra." version ".DRAPlugin/" name
#define DRA_PREPARE               "NodePrepareResources"
#define DRA_UNPREPARE             "NodeUnprepareResources"

#define METHOD_DRA_HEALTH(version) "/" version ".DRAResourceHealth/NodeWatchResources"
