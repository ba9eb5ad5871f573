/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The configuration: reading files, checking all of it, and holding the result. Nothing takes
 * effect from here; a configuration object is either complete and valid or was never made. The
 * parser is driven by the option tables (drivers/option.h) and is the only code that knows
 * libconfig.
 */

#include "common/error.h"
#include "drivers/declaration.h"

/* Where the kubelet looks for plugins: constants of pkg/kubelet/apis/deviceplugin/v1beta1. */
#define DEFAULT_CONFIG_FILE "/etc/devplugd.conf"
#define DEFAULT_RUNTIME_DIR "/run/devplugd"
#define DEFAULT_PLUGIN_DIR  "/var/lib/kubelet/device-plugins"
/* And where its plugin watcher does (pkg/kubelet/config/defaults.go). */
#define DEFAULT_REGISTRY_DIR "/var/lib/kubelet/plugins_registry"
/* Where container runtimes look for CDI files that come and go (CDI's SPEC.md, pkg/cdi/doc.go). */
#define DEFAULT_CDI_DIR "/var/run/cdi"
/* Section 4.1 of the Device Information Specification of the Network Plumbing Working Group. */
#define DEFAULT_DEVICE_INFO_DIR "/var/run/k8s.cni.cncf.io/devinfo/dp"
/* Where the kubelet tells which container has which device (pkg/kubelet/apis/podresources). */
#define DEFAULT_POD_RESOURCES_SOCKET "/var/lib/kubelet/pod-resources/kubelet.sock"
#define RUNTIME_DROP_IN_DIR          "/run/devplugd.conf.d"

/* struct sockaddr_un has room for 107 bytes and a NUL. */
#define SOCKET_PATH_MAX 107
/* The part of it that names of our sockets need, see session.h. */
#define SOCKET_NAME_MAX 60

#define RESOURCES_MAX 1000

/* Of one file. */
#define CONFIG_FILE_MAX (4U << 20)

struct kubelet_config {
	struct origin origin;
	char *device_plugin_dir;
	char *plugins_registry_dir;
	int registration; /* enum registration_way: SOCKET or WATCHER */
	bool pod_resources;
	char *pod_resources_socket;
	uint64_t pod_resources_interval; /* microseconds */
};

struct resource_config {
	struct declaration declaration;
	enum registration_way registration; /* the declaration's, or else the kubelet's */
	char *text; /* canonical libconfig text of the declaration: what the child gets, and what
		     * two generations are compared by. Equal declarations have equal texts: only
		     * what differs from the defaults is there, in the tables' order. Of
		     * registration, which is no matter of the child, it says nothing */
};

struct config {
	struct origin origin;
	char *runtime_dir;
	int log_level;   /* syslog level */
	char *host_root; /* resources have it, unless they have their own */
	char *cdi_dir, *device_info_dir;
	struct kubelet_config kubelet;
	struct groups cordon; /* struct cordon, ids as written; resources have their part of it */
	struct resource_config *resources; /* enabled ones only, in file order, names unique */
	size_t n_resources;
	/* private */
	struct groups declared; /* struct declaration: while loading, those not in `resources` after
				 * that */
	struct source *sources; /* names of the files that were read: origins point to them */
};

/* The keys of a configuration file, for the manual. */
extern const struct option_table config_table;
extern const struct option_table config_cordon_table;

/* Reads `path` and its drop-ins, each directory in lexical order: `path`.d/ *.conf, then
 * RUNTIME_DROP_IN_DIR/ *.conf if `path` is DEFAULT_CONFIG_FILE. A drop-in's resources are appended,
 * its other keys override. Checks everything, disabled resources too. Problems are added to the
 * report, as many as can be found. Returns 0, -EINVAL if there were any, -ENOMEM, or another
 * negative errno with a report entry that says why the file could not be read. */
int config_load(const char *path, struct report *report, struct config **ret);

/* As config_load(), but no drop-ins. */
int config_load_alone(const char *path, struct report *report, struct config **ret);

/* Reads the text of one resource as config_load() wrote it to resource_config.text. Used by the
 * child. */
int config_load_resource(const char *text, struct report *report, struct config **ret);

struct config *config_free(struct config *config);
DEFINE_CLEANUP(struct config *, config_free)
#define _cleanup_config_ _cleanup_(config_freep)

/* Writes the configuration in force as text: defaults filled in, drop-ins merged. */
int config_dump(const struct config *config, FILE *stream);

/* The runtime_dir for a file of which not all may be valid, or that may be missing: what it says as
 * far as that can be told, else $RUNTIME_DIRECTORY (systemd's), else the default. `ret` is
 * malloc'ed. Returns 0 or -ENOMEM. */
int config_find_runtime_dir(const char *path, char **ret);

/* Adds the paths of the drop-ins of `path`, in the order in which they are read. Returns 0, or
 * negative errno with a report entry. */
int config_list_drop_ins(const char *path, struct report *report, struct strings *paths);

/* The directory for drop-ins of `path` that are made at run time (malloc'ed). Returns 0 or -ENOMEM.
 */
int config_runtime_drop_in_dir(const char *path, char **ret);
