/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the node has a problem that node-problem-detector should report: one line and an
 * exit status for its custom plugins, 0 no problem, 1 a problem, 2 not known. Its default limit for
 * the line is 80 characters, so the worst comes first.
 */
#include "common/finding.h"
#include "configuration/config.h"
#include "supervisor/ctl/check-containers.h"
#include "supervisor/ctl/verb.h"

#define EXIT_PROBLEM 1
#define EXIT_UNKNOWN 2
/* The time limit for the kubelet's answer, in seconds. */
#define KUBELET_TIMEOUT 5

struct findings {
	size_t resources, failed, degraded, incomplete, undiscovered, unanswered, devices,
		unhealthy;
	char first[512]; /* problem */
};

static void note(struct findings *findings, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void note(struct findings *findings, const char *format, ...)
{
	va_list ap;

	if (*findings->first)
		return;
	va_start(ap, format);
	(void)vsnprintf(findings->first, sizeof(findings->first), format, ap);
	va_end(ap);
}

/* A cordon is an administrator's decision; the others pass when a pod or a program ends. */
static bool needs_no_repair(const char *reason)
{
	return startswith(reason, WHY_CORDONED) || startswith(reason, WHY_IN_USE) ||
		streq(reason, WHY_CLEANING);
}

static void check_devices(struct findings *findings, const json_t *resource)
{
	json_t *device;
	size_t i;

	json_array_foreach(json_object_get(resource, "devices"), i, device)
	{
		const char *health = text_of(device, "health");
		const char *reason = text_of(device, "reason");

		findings->devices += !streq(health, "Claimed");
		if (!streq(health, "Unhealthy") || needs_no_repair(reason))
			continue;
		findings->unhealthy++;
		note(findings, "%s/%s: %s", text_of(resource, "name"), text_of(device, "id"),
			*reason ? reason : "unhealthy");
	}
}

/* Whether a note concerns a key that applies to no device: one file may be for many hosts. */
static bool concerns_key(const char *text)
{
	static const char *const keys[] = { "where:", "exclude[", "cordon[", "share.devices[" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (startswith(text, keys[i]))
			return true;
	return false;
}

/* All notes of the driver exec count. Notes of others also concern ids, and devices that are left
 * out on purpose; a directory that is not mounted counts always. */
static void check_discovery(struct findings *findings, const json_t *resource)
{
	const json_t *notes = json_object_get(resource, "scan_notes"), *text;
	size_t i;
	bool all = streq(text_of(resource, "driver"), "exec");

	json_array_foreach(notes, i, text)
	{
		const char *note_text = json_string_value(text);

		if (!strstr(note_text, REMEDY_MOUNT) && (!all || concerns_key(note_text)))
			continue;
		findings->undiscovered++;
		note(findings, "%s: %s", text_of(resource, "name"), note_text);
		return;
	}
}

/* The resource does not have as many devices as it should have. */
static void check_expected(struct findings *findings, const json_t *resource)
{
	const char *reason = text_of(json_object_get(resource, "expect"), "reason");

	if (!*reason)
		return;
	findings->incomplete++;
	note(findings, "%s: %s", text_of(resource, "name"), reason);
}

static size_t count_problems(const struct findings *findings)
{
	return findings->failed + findings->degraded + findings->incomplete +
		findings->undiscovered + findings->unanswered + findings->unhealthy;
}

/* What is wrong with a resource although it serves. */
static void check_serving(struct findings *findings, const json_t *resource)
{
	const char *name = text_of(resource, "name"), *reason = text_of(resource, "reason");
	const char *labels = text_of(resource, "labels_failure");
	bool impaired = streq(text_of(resource, "state"), "serving") && *reason;

	findings->degraded += impaired || *labels;
	if (impaired)
		note(findings, "%s: %s", name, reason);
	else if (*labels)
		note(findings, "%s: the labels of the node cannot be written: %s", name, labels);
}

/* A resource that waits for the kubelet, or is about to register, is not a separate problem. */
static void check_resource(struct findings *findings, const json_t *resource)
{
	const char *state = text_of(resource, "state");

	findings->resources++;
	if (streq(state, "failed") || streq(state, "backoff")) {
		findings->failed++;
		note(findings, "%s is %s: %s", text_of(resource, "name"), state,
			text_of(resource, "reason"));
	}
	check_serving(findings, resource);
	check_expected(findings, resource);
	check_discovery(findings, resource);
	check_devices(findings, resource);
}

/* Reads the state. Waits for a kubelet that has not answered yet. */
static int read_state(
	const struct command_line *line, struct daemon_state *ret_daemon, struct error *error)
{
	json_int_t waited;
	int r;

	do {
		daemon_state_done(ret_daemon);
		*ret_daemon = (struct daemon_state){ 0 };
		r = daemon_state_read(line->config_file, line->runtime_dir, ret_daemon, error);
		if (r >= 0 && ret_daemon->unanswered.code < 0)
			r = error_set(error, ret_daemon->unanswered.code, "%s",
				ret_daemon->unanswered.message);
		waited = r < 0 ? 0 : integer_of(ret_daemon->root, "pods_waited");
	} while (waited > 0 && waited < KUBELET_TIMEOUT);
	return r;
}

static bool any_uses_api(const json_t *resources)
{
	const json_t *resource;
	size_t i;

	json_array_foreach(resources, i, resource)
	{
		if (streq(text_of(resource, "registration"), "dra"))
			return true;
	}
	return false;
}

static void check_servers(struct findings *findings, const struct daemon_state *daemon)
{
	const json_t *dra = json_object_get(daemon->root, "dra");
	const char *failure = text_of(dra, "api_failure");
	const char *unreported =
		text_of(json_object_get(daemon->root, "cluster"), "report_failure");
	json_int_t waited = integer_of(daemon->root, "pods_waited");

	if (waited >= KUBELET_TIMEOUT) {
		findings->unanswered++;
		note(findings, "the kubelet has not answered for %lld s", (long long)waited);
	}
	if (*failure && any_uses_api(json_object_get(daemon->root, "resources"))) {
		findings->unanswered++;
		note(findings, "API server: %s", failure);
	}
	if (*unreported) {
		findings->unanswered++;
		note(findings, "API server, for reports: %s", unreported);
	}
}

static void check_configuration(struct findings *findings, const json_t *root)
{
	const char *file = text_of(root, "config_file");

	if (json_is_true(json_object_get(root, "on_last_accepted"))) {
		findings->degraded++;
		note(findings, "%s is not valid; the last accepted configuration is applied", file);
	} else if (json_is_true(json_object_get(root, "reload_failed"))) {
		findings->degraded++;
		note(findings, "%s is not applied, because the last reload failed", file);
	}
}

static int report(const struct findings *findings)
{
	size_t problems = count_problems(findings);

	if (problems == 0)
		(void)printf("%zu resource%s, %zu device%s: no problem\n", findings->resources,
			findings->resources == 1 ? "" : "s", findings->devices,
			findings->devices == 1 ? "" : "s");
	else if (problems == 1)
		(void)printf("%s\n", findings->first);
	else
		(void)printf("%zu problems: %s\n", problems, findings->first);
	return problems == 0 ? EXIT_SUCCESS : EXIT_PROBLEM;
}

static int report_json(const struct findings *findings, int status)
{
	json_auto_t *root = json_pack("{s:i, s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
		"version", DOCUMENT_VERSION, "status", status, "problem", findings->first,
		"resources", (json_int_t)findings->resources, "failed",
		(json_int_t)findings->failed, "degraded", (json_int_t)findings->degraded,
		"incomplete", (json_int_t)findings->incomplete, "undiscovered",
		(json_int_t)findings->undiscovered, "unanswered", (json_int_t)findings->unanswered,
		"devices", (json_int_t)findings->devices, "unhealthy",
		(json_int_t)findings->unhealthy);

	if (!root || json_dumpf(root, stdout, JSON_INDENT(2)) < 0)
		return EXIT_UNKNOWN;
	(void)puts("");
	return status;
}

static int check_state(const struct command_line *line)
{
	_cleanup_(daemon_state_done) struct daemon_state daemon = { 0 };
	struct findings findings = { 0 };
	struct error error = { 0 };
	json_t *resource;
	size_t i;
	int r;

	r = read_state(line, &daemon, &error);
	if (r >= 0 && line->subject)
		r = daemon_state_select(&daemon, line->subject, &error);
	if (r < 0 && line->json) {
		note(&findings, "%s", error.message);
		return report_json(&findings, EXIT_UNKNOWN);
	}
	if (r < 0) {
		(void)printf("%s\n", error.message);
		return EXIT_UNKNOWN;
	}
	check_servers(&findings, &daemon);
	json_array_foreach(json_object_get(daemon.root, "resources"), i, resource)
		check_resource(&findings, resource);
	check_configuration(&findings, daemon.root);
	if (line->json)
		return report_json(
			&findings, count_problems(&findings) > 0 ? EXIT_PROBLEM : EXIT_SUCCESS);
	return report(&findings);
}

/* --- of containers --- */

static int load(const struct command_line *line, struct config **ret, struct error *error)
{
	_cleanup_(daemon_state_done) struct daemon_state daemon = { 0 };
	_cleanup_report_ struct report report = { 0 };
	const char *file;
	int r;

	r = daemon_state_read(line->config_file, line->runtime_dir, &daemon, error);
	if (r < 0)
		return r;
	file = command_line_config_file(line, &daemon);
	r = config_load(file, &report, ret);
	if (r >= 0)
		return 0;
	return error_set(
		error, r, "%s: %s", file, report.count > 0 ? report.entries[0].text : strerror(-r));
}

static void print_problem(const json_t *problem)
{
	const char *resource = text_of(problem, "resource");

	if (*text_of(problem, "pod"))
		(void)printf("%s/%s", text_of(problem, "namespace"), text_of(problem, "pod"));
	else
		(void)printf("pod %s", text_of(problem, "pod_uid"));
	(void)printf(", container %s: %s%s%s: %s\n", text_of(problem, "container"),
		text_of(problem, "path"), *resource ? " of " : "", resource,
		text_of(problem, "problem"));
}

static void print_containers(const json_t *found)
{
	json_int_t n_containers = integer_of(found, "containers");
	const char *unknown = text_of(found, "unknown");
	const json_t *problems = json_object_get(found, "problems"), *problem;
	size_t i;

	json_array_foreach(problems, i, problem) print_problem(problem);
	if (*unknown)
		(void)puts(unknown);
	else if (json_array_size(problems) == 0)
		(void)printf("%lld container%s with devices: no problem\n", (long long)n_containers,
			n_containers == 1 ? "" : "s");
}

static int check_all_containers(const struct command_line *line)
{
	_cleanup_config_ struct config *config = NULL;
	json_auto_t *found = NULL;
	struct error error = { 0 };
	int r, status;

	r = load(line, &config, &error);
	if (r >= 0)
		r = check_containers(config, line->subject, &found, &error);
	if (r < 0)
		found = json_pack(
			"{s:s, s:i, s:[]}", "unknown", error.message, "containers", 0, "problems");
	status = json_array_size(json_object_get(found, "problems")) > 0 ? EXIT_PROBLEM
		: *text_of(found, "unknown")                             ? EXIT_UNKNOWN
									 : EXIT_SUCCESS;
	if (!line->json) {
		print_containers(found);
		return status;
	}
	(void)json_object_set_new(found, "version", json_integer(DOCUMENT_VERSION));
	(void)json_object_set_new(found, "status", json_integer(status));
	if (json_dumpf(found, stdout, JSON_INDENT(2)) < 0)
		return EXIT_UNKNOWN;
	(void)puts("");
	return status;
}

int command_check(const struct command_line *line)
{
	if (line->containers)
		return check_all_containers(line);
	return check_state(line);
}
