/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the files of a configuration, checks them, and holds the result. Loading has no side
 * effects, and its result is a complete and valid configuration or an error. The parser is driven
 * by the option tables (drivers/model/option.h) and is the only code that knows libconfig.
 */

#include "common/error.h"
#include "drivers/model/declaration.h"

/* Where the kubelet expects plugins: constants of pkg/kubelet/apis/deviceplugin/v1beta1. */
#define DEFAULT_CONFIG_FILE "/etc/devplugd.conf"
#define DEFAULT_RUNTIME_DIR "/run/devplugd"
#define DEFAULT_PLUGIN_DIR  "/var/lib/kubelet/device-plugins"
/* The kubelet's --root-dir, and two paths below it: the directory of its plugin watcher, and the
 * socket that reports the devices of containers (pkg/kubelet/config/defaults.go). */
#define DEFAULT_KUBELET_ROOT  "/var/lib/kubelet"
#define KUBELET_REGISTRY      "/plugins_registry"
#define KUBELET_POD_RESOURCES "/pod-resources/kubelet.sock"
/* Where container runtimes read CDI files that are made at run time (CDI's SPEC.md,
 * pkg/cdi/doc.go). */
#define DEFAULT_CDI_DIR "/var/run/cdi"
/* Section 4.1 of the Device Information Specification of the Network Plumbing Working Group. */
#define DEFAULT_DEVICE_INFO_DIR "/var/run/k8s.cni.cncf.io/devinfo/dp"
#define DEFAULT_FEATURES_DIR    "/etc/kubernetes/node-feature-discovery/features.d"
#define RUNTIME_DROP_IN_DIR     "/run/devplugd.conf.d"
/* What "devplugctl cordon" writes there. */
#define CORDON_FILE "cordon.conf"

/* struct sockaddr_un has room for 107 bytes and a NUL. */
#define SOCKET_PATH_MAX 107
/* How many of these bytes the names of our sockets need; see session.h. */
#define SOCKET_NAME_MAX 44

#define RESOURCES_MAX 1000

struct kubelet_config {
	struct origin origin;
	char *root_dir;
	char *device_plugin_dir;
	char *plugins_registry_dir; /* default: below root_dir */
	int registration;           /* enum registration_way: SOCKET or WATCHER */
	bool pod_resources;
	char *pod_resources_socket;      /* as plugins_registry_dir */
	uint64_t pod_resources_interval; /* microseconds */
	char *pod_logs_dir;
};

struct metrics_config {
	struct origin origin;
	char *listen, *textfile; /* NULL: not wanted */
	uint64_t interval;       /* microseconds */
	bool pods;
};

struct dra_config {
	struct origin origin;
	char *driver;            /* NULL: no resource may be served by DRA */
	char *kubeconfig, *node; /* NULL: devplugd finds them (supervisor/helpers/dra-identity.c) */
	uint64_t forget_after;   /* microseconds */
	bool claim_status;
};

struct cluster_config {
	struct origin origin;
	bool report, labels;
};

struct resource_config {
	struct declaration declaration;
	enum registration_way registration; /* DRA, the declaration's, or else the kubelet's */
	char *text; /* canonical libconfig text of the declaration: it is sent to the child and used
		     * to compare configurations. Equal declarations have equal texts: it contains
		     * only values that differ from the defaults, in the tables' order. It omits
		     * registration, which does not concern the child */
	struct config *config; /* that it is part of */
};

struct config {
	struct origin origin;
	char *runtime_dir;
	int log_level;   /* syslog level */
	char *host_root; /* applies to resources that set none */
	bool cdi;        /* see cdi-spec.h */
	char *cdi_dir, *device_info_dir, *features_dir;
	struct kubelet_config kubelet;
	struct metrics_config metrics;
	struct dra_config dra;
	struct cluster_config cluster;
	struct groups cordon; /* struct cordon, ids as written; each resource has a copy of its
				 part */
	struct resource_config *resources; /* enabled ones only, in file order, names unique */
	size_t n_resources;
	/* private */
	unsigned references;
	struct groups declared; /* struct declaration: while loading, those not in `resources` after
				   that */
	struct source *sources; /* names of the files that were read: origins point to them */
};

/* Whether any resource has labels of the node. */
bool config_has_labels(const struct config *config);

/* The keys of a configuration file, for the manual. */
extern const struct option_table config_table;
extern const struct option_table config_cordon_table;
extern const struct option_table config_metrics_table;
extern const struct option_table config_dra_table;
extern const struct option_table config_cluster_table;

/* Reads `path` and its drop-ins, each directory in lexical order: `path`.d/ *.conf, then
 * RUNTIME_DROP_IN_DIR/ *.conf if `path` is DEFAULT_CONFIG_FILE. A drop-in's resources are appended,
 * its other keys override. Checks everything, disabled resources too. Problems are added to the
 * report, as many as can be found. Returns 0, -EINVAL if there were any, -ENOMEM, or another
 * negative errno with a report entry about why the file could not be read. */
int config_load(const char *path, struct report *report, struct config **ret);

/* As config_load(), but no drop-ins. */
int config_load_alone(const char *path, struct report *report, struct config **ret);

/* Copies `config`, but with the cordons that CORDON_FILE contains now. No other file is read, so
 * that an error in another file cannot keep a cordon from taking effect. `path` and the result are
 * as in config_load(). */
int config_load_cordons(
	const struct config *config, const char *path, struct report *report, struct config **ret);

/* As config_load(), but from a NUL-terminated text that includes nothing, as config_dump() writes
 * it; `name` is what problems are reported for. */
int config_load_text(const char *name, const char *text, size_t size, struct report *report,
	struct config **ret);

/* Reads the text of one resource as config_load() wrote it to resource_config.text. Used by the
 * child. */
int config_load_resource(const char *text, struct report *report, struct config **ret);

/* Drops a reference, which is the only one unless resource_config_ref() made others. */
struct config *config_free(struct config *config);
DEFINE_CLEANUP(struct config *, config_free)
#define _cleanup_config_ _cleanup_(config_freep)

/* The enabled resource of that name, or NULL. `config` may be NULL. */
/* The DRA driver of a resource with these settings: its own, or else the default; NULL: none has a
 * name. And that of a resource that is served by DRA; NULL: it is not. */
const char *config_driver(const struct config *config, const struct declaration *declaration);
const char *resource_config_driver(const struct resource_config *resource);

const struct resource_config *config_find(const struct config *config, const char *name);

/* A resource that is not enabled, or NULL if there are not so many: `index` counts from 0. */
const struct declaration *config_disabled(const struct config *config, size_t index);

/* Keep a resource's configuration, and the configuration that contains it, while it is still
 * applied. The second returns NULL; both take NULL. Not for several threads. */
const struct resource_config *resource_config_ref(const struct resource_config *resource);
const struct resource_config *resource_config_unref(const struct resource_config *resource);
DEFINE_CLEANUP(const struct resource_config *, resource_config_unref)
#define _cleanup_resource_config_ _cleanup_(resource_config_unrefp)

/* Writes the applied configuration as text: defaults filled in, drop-ins merged. The cordons that
 * are set by command are a separate list; all others are written with their resources. */
int config_dump(const struct config *config, FILE *stream);

/* The runtime_dir of a file that may be partly invalid or missing: the value in the file if it can
 * be read, else $RUNTIME_DIRECTORY (systemd's), else the default. `ret` is malloc'ed. Returns 0 or
 * -ENOMEM. */
int config_find_runtime_dir(const char *path, char **ret);

/* Adds the paths of the drop-ins of `path`, in the order in which they are read. Returns 0, or
 * negative errno with a report entry. */
int config_list_drop_ins(const char *path, struct report *report, struct strings *paths);

/* The directory for drop-ins of `path` that are made at run time (malloc'ed). Returns 0 or -ENOMEM.
 */
int config_runtime_drop_in_dir(const char *path, char **ret);

/* The path of CORDON_FILE there, in the same way. */
int config_cordon_file(const char *path, char **ret);
