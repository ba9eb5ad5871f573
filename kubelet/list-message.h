/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Converts a message of ListAndWatch into the device manager's table.
 */

#include "deviceplugin.pb-c.h"
#include "kubelet/device-table.h"

/* 0 or -ENOMEM. */
int device_table_from_message(const V1beta1__ListAndWatchResponse *list, struct device_table **ret);
