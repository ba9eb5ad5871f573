/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether running containers still have the devices that the kubelet has assigned to them
 * (devplugctl check --containers). A reload of systemd can take them away: it writes the rules of
 * cgroups again, without those that a runtime, or NVIDIA's legacy hook, has added itself. What is
 * compared: the answers to Allocate in the kubelet's checkpoint, of any device plugin, and the CDI
 * files of devplugd's claims, with what the kernel lets a process of the container open. Only
 * devplugd and the kubelet know which container uses which device of a claim, so devplugd is asked.
 */
#include "supervisor/ctl/check-containers.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/json-read.h"
#include "common/text.h"
#include "configuration/cdi-spec.h"
#include "configuration/config.h"
#include "drivers/host/cdi-lookup.h"
#include "drivers/host/sysroot.h"
#include "supervisor/control/ask.h"
#include "supervisor/ctl/container-access.h"
#include "supervisor/ctl/container-list.h"
#include "supervisor/ctl/members.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"
#include "supervisor/kubelet/pod-logs.h"
#include "supervisor/kubelet/stored-answer.h"

/* Denied nodes of one container that are reported, in case it makes more itself. */
#define DENIED_MAX 16

struct container_check {
	const char *root;     /* of the host's files, "" for / */
	const char *resource; /* the only one that is checked; NULL: all */
	struct cdi_files cdi;
	json_t *pods;            /* by UID, see pod_logs_read(); may be NULL */
	json_t *answers;         /* by UID of a pod: the containers of devplugd's answer about it */
	const char *runtime_dir; /* of the daemon; NULL: the configuration has no claims, or the
				    daemon could not answer */
	json_t *problems;
	struct error unknown; /* of the first container that cannot be checked */
	size_t n_containers;
};

/* The nodes that one container should have; `resources` and `nodes` have the same order. */
struct expected {
	struct container_check *check;
	const struct running_container *container;
	struct container_node *nodes;
	struct strings paths, resources;
	struct strings denied;  /* other nodes in the container */
	struct error undefined; /* the first CDI device whose nodes are not known */
	size_t n_nodes;
};

static void expected_done(struct expected *expected)
{
	free(expected->nodes);
	strings_done(&expected->paths);
	strings_done(&expected->resources);
	strings_done(&expected->denied);
}

/* --- what a container should have --- */

static int expect_node(struct expected *expected, const char *resource, const char *host,
	const char *path, const char *permissions)
{
	struct container_node node = {
		.read = strchr(permissions, 'r'),
		.write = strchr(permissions, 'w'),
	};
	struct stat st;
	int r;

	if (strings_contain(&expected->paths, path) || expected->n_nodes == CONTAINER_NODES_MAX)
		return 0;
	if (sysroot_stat(expected->check->root, host, &st) >= 0 &&
		(S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))) {
		node.rdev = st.st_rdev;
		node.block = S_ISBLK(st.st_mode);
	}
	r = strings_add(&expected->paths, path, strlen(path));
	if (r >= 0)
		r = strings_add(&expected->resources, resource, strlen(resource));
	if (r >= 0)
		r = array_reserve((void **)&expected->nodes, expected->n_nodes, sizeof(node));
	if (r < 0)
		return r;
	expected->nodes[expected->n_nodes++] = node;
	return 0;
}

/* The nodes of an object of a CDI file: a device, or the whole document. */
static int expect_edits(struct expected *expected, const char *resource, const json_t *object)
{
	const json_t *nodes =
		json_object_get(json_object_get(object, "containerEdits"), "deviceNodes");
	const json_t *node;
	size_t i;
	int r = 0;

	json_array_foreach(nodes, i, node)
	{
		const char *path = text_of(node, "path"), *host = text_of(node, "hostPath");
		const char *permissions = text_of(node, "permissions");

		if (*path == '/' && r >= 0)
			r = expect_node(expected, resource, *host ? host : path, path,
				*permissions ? permissions : "rwm");
	}
	return r;
}

static void note_undefined(
	struct expected *expected, const char *full_name, const struct cdi_definition *definition)
{
	const struct running_container *container = expected->container;
	const json_t *pod = json_object_get(expected->check->pods, container->pod_uid);

	if (expected->undefined.code != 0)
		return;
	(void)error_set(&expected->undefined, -ENOENT,
		"%s of container %s of %s/%s is not defined in a CDI file%s%s", full_name,
		container->name, text_of(pod, "namespace"), text_of(pod, "pod"),
		definition->file ? ": see " : "", definition->file ? definition->file->path : "");
}

static int expect_cdi(struct expected *expected, const char *resource, const char *full_name)
{
	const char *equals = strchrnul(full_name, '=');
	_cleanup_free_ char *kind = strndup(full_name, (size_t)(equals - full_name));
	struct cdi_definition definition;
	int r;

	if (!*equals)
		return 0;
	if (!kind)
		return -ENOMEM;
	cdi_files_find(&expected->check->cdi, kind, equals + 1, &definition);
	if (definition.status != CDI_DEFINED) {
		note_undefined(expected, full_name, &definition);
		return 0;
	}
	r = expect_edits(expected, resource, definition.device);
	return r < 0 ? r : expect_edits(expected, resource, definition.file->document);
}

/* Adds what an entry of the checkpoint gives the container. */
static int expect_entry(struct expected *expected, const json_t *entry)
{
	_cleanup_strings_ struct strings kinds = { 0 }, names = { 0 }, targets = { 0 };
	struct booked_answer parts = { 0 };
	const struct stored_answer answer = {
		.kinds = &kinds,
		.parts = &parts,
		.names = &names,
		.targets = &targets,
	};
	const char *resource = text_of(entry, "ResourceName");
	int r = stored_answer_read(text_of(entry, "AllocResp"), &answer);

	for (size_t i = 0; i < parts.nodes.count && r >= 0; i++) {
		char *permissions = targets.items[i], *path = strchr(permissions, ' ');

		*path++ = '\0';
		r = expect_node(expected, resource, parts.nodes.items[i], path, permissions);
	}
	for (size_t i = 0; i < names.count && r >= 0; i++)
		r = expect_cdi(expected, resource, names.items[i]);
	booked_answer_done(&parts);
	return r;
}

/* --- devices of claims --- */

static void note_unknown(struct container_check *check, const struct error *error)
{
	if (check->unknown.code == 0)
		check->unknown = *error;
}

/* The containers of the pod with their claims, as the kubelet reports them to devplugd, or NULL. */
static const json_t *containers_of(struct container_check *check, const char *pod_uid)
{
	const json_t *pod = json_object_get(check->pods, pod_uid), *known;
	json_auto_t *answer = NULL;
	struct error error = { 0 };
	int r;

	known = json_object_get(check->answers, pod_uid);
	if (known || !pod || !check->runtime_dir)
		return known;
	r = ask_pod(check->runtime_dir, text_of(pod, "namespace"), text_of(pod, "pod"), &answer,
		NULL, &error);
	/* It may just have ended. Otherwise, each further question could take as long. */
	if (r < 0 && r != -ENOENT) {
		note_unknown(check, &error);
		check->runtime_dir = NULL;
	}
	known = json_object_get(answer, "containers");
	(void)json_object_set_new(
		check->answers, pod_uid, known ? json_deep_copy(known) : json_array());
	return json_object_get(check->answers, pod_uid);
}

/* Adds what the claims give the container. Returns how many devices it has by them, or -ENOMEM. */
static int expect_claims(struct expected *expected)
{
	struct container_check *check = expected->check;
	const json_t *containers = containers_of(check, expected->container->pod_uid);
	const json_t *container, *claim, *name;
	size_t i, k, m;
	int r = 0, n = 0;

	json_array_foreach(containers, i, container)
	{
		if (!streq(text_of(container, "name"), expected->container->name))
			continue;
		json_array_foreach(json_object_get(container, "claims"), k, claim)
		{
			const char *resource = text_of(claim, "resource");

			if (!*resource || (check->resource && !streq(resource, check->resource)))
				continue;
			n++;
			json_array_foreach(json_object_get(claim, "cdi"), m, name)
			{
				if (r >= 0)
					r = expect_cdi(
						expected, resource, json_string_value(name) ?: "");
			}
		}
	}
	return r < 0 ? r : n;
}

/* --- what it has --- */

static void add_problem(
	struct expected *expected, const char *resource, const char *path, const char *problem)
{
	const char *uid = expected->container->pod_uid;
	const json_t *pod = json_object_get(expected->check->pods, uid);

	(void)json_array_append_new(expected->check->problems,
		json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:s}", "namespace",
			text_of(pod, "namespace"), "pod", text_of(pod, "pod"), "pod_uid",
			clean_text(uid), "container", clean_text(expected->container->name),
			"resource", clean_text(resource), "path", clean_text(path), "problem",
			problem));
}

static void on_denied(const char *path, void *userdata)
{
	struct expected *expected = userdata;

	if (!strings_contain(&expected->paths, path) && expected->denied.count < DENIED_MAX)
		(void)strings_add(&expected->denied, path, strlen(path));
}

#define DENIED "the container's cgroup does not allow it"

static const char *describe(int result)
{
	switch (result) {
	case -ENOENT:
		return "it is missing in the container";
	case -EPERM:
		return DENIED;
	case -ENXIO:
		return "it is not the host's device of that name";
	default:
		return strerror(-result);
	}
}

static void add_problems(struct expected *expected)
{
	for (size_t i = 0; i < expected->n_nodes; i++)
		if (expected->nodes[i].result < 0)
			add_problem(expected, expected->resources.items[i],
				expected->paths.items[i], describe(expected->nodes[i].result));
	for (size_t i = 0; i < expected->denied.count; i++)
		add_problem(expected, "", expected->denied.items[i], DENIED);
}

/* A container that cannot be checked does not keep others from that. */
static void check_nodes(struct expected *expected)
{
	struct container_check *check = expected->check;
	struct error error = { 0 };
	int r;

	for (size_t i = 0; i < expected->n_nodes; i++)
		expected->nodes[i].path = expected->paths.items[i];
	r = container_access(expected->container->pid, expected->nodes, expected->n_nodes,
		on_denied, expected, &error);
	if (r == -ESRCH)
		return;
	check->n_containers++;
	if (expected->undefined.code != 0)
		note_unknown(check, &expected->undefined);
	if (r >= 0)
		add_problems(expected);
	else
		note_unknown(check, &error);
}

/* Returns 0 or -ENOMEM. */
static int check_container(struct container_check *check, const struct running_container *container,
	const json_t *entries)
{
	_cleanup_(expected_done) struct expected expected = { .check = check,
		.container = container };
	const json_t *entry;
	bool has_devices = false;
	size_t i;
	int r = 0;

	json_array_foreach(entries, i, entry)
	{
		if (!streq(text_of(entry, "PodUID"), container->pod_uid) ||
			!streq(text_of(entry, "ContainerName"), container->name) ||
			(check->resource &&
				!streq(text_of(entry, "ResourceName"), check->resource)))
			continue;
		has_devices = true;
		r = expect_entry(&expected, entry);
		if (r < 0)
			return r;
	}
	r = expect_claims(&expected);
	if (r > 0 || (r == 0 && has_devices))
		check_nodes(&expected);
	return MIN_OF(r, 0);
}

/* --- all of them --- */

static int check_all(
	struct container_check *check, const struct config *config, struct error *error)
{
	struct container_list containers = { 0 };
	json_auto_t *entries = NULL;
	int r;

	r = kubelet_checkpoint_read_entries(config->kubelet.device_plugin_dir, &entries, error);
	/* A kubelet without device plugins need not have written one. */
	if (r == -ENOENT && check->runtime_dir)
		r = (entries = json_array()) ? 0 : -ENOMEM;
	if (r < 0)
		return r;
	r = container_list_read("/proc", &containers);
	if (r < 0)
		return error_set(error, r, "cannot read /proc: %s", strerror(-r));
	/* The files of these containers are there by now. */
	r = cdi_spec_read_files(config, &check->cdi);
	for (size_t i = 0; i < containers.count && r >= 0; i++)
		r = check_container(check, &containers.items[i], entries);
	container_list_done(&containers);
	return r < 0 ? error_set(error, r, "out of memory") : 0;
}

static bool has_claims(const struct config *config)
{
	for (size_t i = 0; i < config->n_resources; i++)
		if (config->resources[i].registration == REGISTRATION_DRA)
			return true;
	return false;
}

int check_containers(
	const struct config *config, const char *resource, json_t **ret, struct error *error)
{
	struct container_check check = {
		.root = streq(config->host_root, "/") ? "" : config->host_root,
		.resource = resource,
		.runtime_dir = has_claims(config) ? config->runtime_dir : NULL,
	};
	int r;

	if (geteuid() != 0)
		return error_set(error, -EPERM, "\"check --containers\" needs root");
	check.pods = pod_logs_read(config->kubelet.pod_logs_dir);
	check.problems = json_array();
	check.answers = json_object();
	r = check.problems && check.answers ? check_all(&check, config, error)
					    : error_set(error, -ENOMEM, "out of memory");
	if (r >= 0) {
		*ret = json_pack("{s:s, s:I, s:O}", "unknown", check.unknown.message, "containers",
			(json_int_t)check.n_containers, "problems", check.problems);
		r = *ret ? 0 : error_set(error, -ENOMEM, "out of memory");
	}
	json_decref(check.pods);
	json_decref(check.problems);
	json_decref(check.answers);
	cdi_files_done(&check.cdi);
	return r;
}
