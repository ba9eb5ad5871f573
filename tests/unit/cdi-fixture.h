/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Texts of CDI files: the shortest that container runtimes load, and their parts.
 */

#define CDI_JSON(kind, devices) \
	"{\"cdiVersion\": \"0.5.0\", \"kind\": \"" kind "\", \"devices\": [" devices "]}"
#define CDI_JSON_DEVICE(name, edits) "{\"name\": \"" name "\", \"containerEdits\": {" edits "}}"
/* A device that needs nothing of the host. */
#define CDI_JSON_PLAIN(name) CDI_JSON_DEVICE(name, "\"env\": [\"A=b\"]")

#define CDI_YAML(kind, devices)      "cdiVersion: 0.5.0\nkind: " kind "\ndevices:\n" devices
#define CDI_YAML_DEVICE(name, edits) "- name: \"" name "\"\n  containerEdits:\n" edits
#define CDI_YAML_PLAIN(name)         CDI_YAML_DEVICE(name, "    env: [A=b]\n")
