/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A resource as the administrator declared it: the result of reading one entry of `resources`, with
 * every default filled in. Drivers and the core read it; only the parser writes it. It does not
 * know libconfig.
 */

#include "drivers/model/capacity.h"
#include "drivers/model/option.h"

struct device;
struct driver;

enum preference {
	PREFER_NONE,
	PREFER_PACKED,
	PREFER_SPREAD,
	PREFER_DISTINCT,
	PREFER_NUMA,
	PREFER_LINKS
};
/* Their names, NULL at the end. */
extern const char *const preferences[];

struct share_rule {
	struct origin origin;
	char *id; /* shell pattern over device ids */
	int64_t replicas;
};

struct share {
	struct origin origin;
	int64_t replicas;          /* how often each physical unit is offered; 1: not shared */
	struct groups devices;     /* struct share_rule: units with another number */
	int64_t max_per_container; /* 0: no limit */
};

/* Entries of `container`: strings are templates, expanded at Allocate. */
struct declared_node {
	struct origin origin;
	char *host; /* a leading '?' marks a node that may be missing; the parser turns it into
		       `optional` */
	char *path; /* in the container; NULL: as on the host */
	char *permissions; /* of "rwm" */
	bool optional;
};

struct declared_mount {
	struct origin origin;
	char *host;
	char *path; /* NULL: as on the host */
	bool read_only;
	bool optional;
};

struct container {
	struct origin origin;
	struct groups nodes;        /* struct declared_node */
	struct groups mounts;       /* struct declared_mount */
	struct strings env;         /* "NAME=value" */
	struct strings annotations; /* "name=value" */
	struct strings cdi;         /* "vendor.example/class=device" */
	struct strings cdi_dirs;    /* where files define these; none: the usual ones */
};

/* A file in which container runtimes find the devices by name, see cdi.h. */
struct cdi_spec {
	struct origin origin;
	bool off;         /* cdi_spec = false: no file, also with the key `cdi` of the whole file */
	char *kind;       /* "vendor.example/class"; NULL: no file */
	bool annotations; /* names also go into the annotations that runtimes use before Kubernetes
			     1.28 */
	int64_t uid, gid; /* of the nodes in a container; CDI_UNSET: as on the host */
	char *mode;       /* octal; NULL: as on the host */
};
#define CDI_UNSET    (-1)
#define CDI_KIND_MAX 200

enum probe_kind { PROBE_FILE, PROBE_EXEC, PROBE_EXISTS, PROBE_SYSFS, PROBE_PCI, PROBE_NVML };
enum row_remapping { REMAPPING_FAILURE, REMAPPING_PENDING, REMAPPING_IGNORE };
/* The names of the kinds, NULL at the end. */
extern const char *const probe_kinds[];
enum probe_recovery { RECOVER_PROBE, RECOVER_NEVER, RECOVER_REBOOT };

struct declared_probe {
	struct origin origin;
	int kind;                /* enum probe_kind */
	char *path;              /* file, exists: template */
	char *attribute;         /* sysfs: file in the device's directory */
	struct strings healthy;  /* file, sysfs: trimmed contents that mean healthy; none: "ok" */
	char *unhealthy;         /* sysfs: content that means unhealthy; any other content means
				    healthy; or NULL */
	int64_t maximum;         /* sysfs: largest healthy number, instead of these; or below 0 */
	uint64_t changes_within; /* sysfs: microseconds in which the content of a healthy device
				    changes, instead of these; or 0 */
	int missing;            /* file, sysfs: what a missing file means, 0 unhealthy, 1 healthy */
	struct strings command; /* exec: templates */
	uint64_t timeout;       /* exec: microseconds */
	bool once;              /* exec: not again after it succeeded */
	bool on_recovery; /* exec: tests devices that have failed, and runs for nothing else */
	int64_t attempts; /* on_recovery: runs for one failure */
	int64_t returns;  /* on_recovery: failures that it may end in `returns_within` */
	uint64_t returns_within;                 /* microseconds */
	struct integers ignore_xids, fatal_xids; /* nvml */
	int row_remapping;                       /* nvml: enum row_remapping */
	bool fabric;                             /* nvml */
	uint64_t hang_after;                     /* nvml: microseconds */
	uint64_t interval;                       /* microseconds */
	int64_t fail_after, recover_after;       /* consecutive results */
	int recover;                             /* enum probe_recovery */
	char *reason;                            /* of its findings; NULL: none */
	int severity;                            /* enum probe_severity */
	uint64_t evict_after;                    /* microseconds */
};

/* A program that runs at Allocate and adds to a container with devices of the resource, or of an
 * entry of `match` with a program of its own. */
struct allocate_program {
	struct origin origin;   /* of the resource's */
	struct strings command; /* absolute path first; empty: none is asked */
	uint64_t timeout;       /* microseconds */
};

struct prestart {
	struct origin origin;
	struct strings command; /* templates; empty: no PreStartContainer */
	uint64_t timeout;       /* microseconds */
};

/* A program that cleans a device after a pod. */
struct release {
	struct origin origin;
	struct strings command; /* templates; empty: nothing is cleaned */
	uint64_t timeout;       /* microseconds */
};

/* A device with a longer time limit is unhealthy while it is cleaned: the kubelet would not wait
 * for it (30 s for PreStartContainer). */
#define RELEASE_SHORT (25 * USEC_PER_SEC)

/* What follows when a device is missing, and when it returns to its pod. */
enum on_return {
	ON_RETURN_KEEP,
	ON_RETURN_EVICT,
};
struct declared_missing {
	struct origin origin;
	int severity;         /* enum probe_severity: NO_NEW_PODS or EVICT */
	int on_return;        /* enum on_return */
	uint64_t evict_after; /* microseconds */
};

/* How a resource is announced to the kubelet. DEFAULT: as configured in the section `kubelet`. DRA:
 * together with all other resources of SERVE_DRA, as those of one driver. */
enum registration_way {
	REGISTRATION_SOCKET,
	REGISTRATION_WATCHER,
	REGISTRATION_DEFAULT,
	REGISTRATION_DRA,
	_REGISTRATION_MAX,
};

/* Which of the kubelet's interfaces a resource is served through. */
enum serving { SERVE_PLUGIN, SERVE_DRA };

/* An attribute of the devices in ResourceSlices, see dra-attribute.h. */
struct declared_attribute {
	struct origin origin;
	char *name;
	int type;    /* enum attribute_type */
	char *value; /* template */
};

/* How Dynamic Resource Allocation presents the resource; without effect if it is served otherwise.
 */
struct declared_dra {
	struct origin origin;
	char *driver;             /* NULL: the one at the top of the file */
	struct groups attributes; /* struct declared_attribute */
	bool numa_list;           /* the NUMA node is published as a list of near nodes */
};

/* Whether a resource offers hardware that another one with the same value offers, too: at the same
 * time, or so that one of the two is in use at a time. */
enum overlap { OVERLAP_NONE, OVERLAP_SHARED, OVERLAP_EXCLUSIVE };

struct declaration {
	struct origin origin;
	char *name;   /* "vendor.example/gpu" */
	char *preset; /* while it is being read: the preset file, which supplies the keys that the
			 block lacks */
	char *driver_name;
	bool enabled;
	int overlap;           /* enum overlap */
	bool topology;         /* report NUMA nodes */
	int prefer;            /* enum preference */
	int registration;      /* enum registration_way */
	int serve;             /* enum serving */
	char *user;            /* the user that the child runs as; NULL: the daemon's choice */
	char *host_root;       /* see declaration_root() */
	struct groups match;   /* entries of the driver's match table, any of which may match */
	struct strings where;  /* "variable=pattern", all of which a device must match */
	struct groups exclude; /* struct exclusion: devices left out */
	struct groups cordon;  /* struct cordon: devices that are listed as unhealthy */
	int64_t expect;        /* the number of devices; 0: any */
	struct strings labels; /* of the node, see node-label.h */
	bool metadata;         /* containers get a file about their devices */
	struct share share;
	struct container container;
	struct cdi_spec cdi_spec;
	struct groups health; /* struct declared_probe */
	struct declared_missing missing;
	bool evict_bare;      /* evict pods without a controller, too */
	uint64_t force_after; /* microseconds; 0: never delete a pod that cannot be evicted */
	struct allocate_program allocate;
	struct prestart prestart;
	struct release release;
	struct groups parameters; /* struct declared_parameter, see parameter.h */
	struct declared_dra dra;
	struct groups capacity; /* struct declared_capacity */

	const struct driver *driver; /* found by driver_name; NULL while the declaration
					has problems */
	size_t position;             /* in the list it was declared in, for messages */
};

struct exclusion {
	struct origin origin;
	char *id;             /* shell pattern over device ids; NULL: any */
	struct strings where; /* "variable=pattern", all of which must match */
	struct groups match;  /* entries of the driver's match table; a device must match any of
				 them */
};

#define CORDON_REASON_MAX 200
#define EXPECT_MAX        100000

struct cordon {
	struct origin origin;
	char *id;            /* shell pattern over device ids */
	char *reason;        /* NULL: none given */
	bool set_by_command; /* "devplugctl cordon" wrote it, and may lift it */
};

/* Whether the entry leaves the device out. Entries with `match` are left to scan_excludes(). */
bool exclusion_holds(const struct exclusion *exclusion, const struct device *device);

/* Whether `exclude` leaves the device out; its variables may be missing. */
bool declaration_excludes(const struct declaration *declaration, const struct device *device);

/* Whether the condition "variable=pattern" holds: the device has the variable, and its value
 * matches. */
bool declaration_condition_holds(const char *condition, const struct device *device);

/* Whether `exclude` or `where` leaves out the device, which has all its variables. */
bool declaration_leaves_out(const struct declaration *declaration, const struct device *device);

/* The cordon that applies to the id, or NULL. */
const struct cordon *declaration_cordon(const struct declaration *declaration, const char *id);

/* The attribute that the declaration gives this name, or NULL. */
const struct declared_attribute *declaration_attribute(
	const struct declaration *declaration, const char *name);

/* Whether failed devices are tested (on_recovery), and whether pods of devices can be evicted. */
bool declaration_tests(const struct declaration *declaration);
bool declaration_evicts(const struct declaration *declaration);

/* The capacity that the declaration gives this name, or NULL. */
const struct declared_capacity *declaration_capacity(
	const struct declaration *declaration, const char *name);

/* How often the device is offered: the first rule whose pattern matches its id decides, else the
 * resource. */
unsigned declaration_replicas(const struct declaration *declaration, const char *id);

/* Whether offered ids are "<id>#<n>": some device may be offered more than once. */
bool declaration_is_shared(const struct declaration *declaration);

/* Who uses a device of the resource in the other way, as text: the device plugin if DRA serves it,
 * and DRA if not. */
const char *declaration_other_way(const struct declaration *declaration);

extern const struct option_table declaration_table;

/* The program that runs for devices of that entry of `match`, or NULL. State saved by an earlier
 * configuration may name an entry that no longer exists. */
const struct allocate_program *declaration_allocate(
	const struct declaration *declaration, size_t entry);

/* The directory that stands for the host's "/" (sysroot.h): "" for the process's own. */
const char *declaration_root(const struct declaration *declaration);

/* The directory below which the programs of `match` are searched while the host is read through
 * `root`: "" for the process's own, because programs that devplugd runs are the container's. If a
 * root other than the declared one stands for the host (devplugctl preview --root), they are
 * searched there. */
const char *declaration_program_root(const struct declaration *declaration, const char *root);

/* The part of a resource's name after the slash ("gpu"), which ids and socket names are made from.
 */
const char *declaration_type(const struct declaration *declaration);

/* The length of the part before '=', outside of variables, in the template of an assignment
 * (container.env, container.annotations). */
size_t declaration_assigned_name(const char *assignment);

/* Checks the resource-name rule of the kubelet (IsExtendedResourceName in
 * k8s.io/component-helpers). Returns 0, or -EINVAL with the fault and a valid form. */
int resource_name_check(const char *name, struct error *error);

/* The checks that concern more than one option and so cannot be in the option tables, and the
 * driver's. The declaration must have been read without a problem. Adds to the report. Returns 0 or
 * -EINVAL. */
int declaration_check(const struct declaration *declaration, struct report *report);

/* Checks a command that a key declares: its program must be an absolute path. */
void declared_program_check(const struct strings *command, const struct origin *origin,
	const char *key, struct report *report);

/* Whether the supervisor decides about each allocation before Allocate is answered. */
static inline bool declaration_asks_use(const struct declaration *declaration)
{
	return declaration->release.command.count > 0 ||
		declaration->overlap == OVERLAP_EXCLUSIVE || declaration->metadata;
}

/* Whether devices are cleaned after pods, and whether the kubelet has to ask before a container
 * starts: for that, or because of prestart. */
static inline bool declaration_cleans(const struct declaration *declaration)
{
	return declaration->release.command.count > 0;
}
static inline bool declaration_pre_starts(const struct declaration *declaration)
{
	return declaration_cleans(declaration) || declaration->prestart.command.count > 0;
}

/* Whether the resource's process executes programs: for its driver, a probe, or a container. */
bool declaration_runs_programs(const struct declaration *declaration);

/* Frees the members of the declaration, not the declaration itself. */
void declaration_done(struct declaration *declaration);
