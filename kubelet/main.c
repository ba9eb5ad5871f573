/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out the verbs of the command line. "run" starts the kubelet; every other verb sends a
 * request to a running one. Exit codes: 0 done, 1 failed or refused, 2 wrong usage, 3 a kubelet
 * would have panicked.
 */
#include <getopt.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "common/log.h"
#include "kubelet/control-client.h"
#include "kubelet/kubelet-arguments.h"
#include "kubelet/kubelet-manager.h"
#include "kubelet/plugin-text.h"
#include "kubelet/print.h"

#define WAIT_RETRY (20 * USEC_PER_MSEC)

static int fail(const struct error *error)
{
	(void)fprintf(stderr, "devplug-kubelet: %s\n", error->message);
	return EXIT_FAILED;
}

static int finish_output(int code)
{
	if (fflush(stdout) == 0)
		return code;
	(void)fprintf(stderr, "devplug-kubelet: cannot write the output: %s\n", strerror(errno));
	return EXIT_FAILED;
}

/* "RESOURCE=N,..." as an object; NULL if the text has another form. */
static json_t *parse_counts(const char *counts)
{
	_cleanup_free_ char *copy = strdup(counts);
	_cleanup_json_ json_t *object = json_object();
	char *save = NULL;

	if (!copy)
		return NULL;
	for (char *item = strtok_r(copy, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
		char *equals = strchr(item, '='), *end;
		unsigned long count;

		if (!equals || equals[1] < '0' || equals[1] > '9')
			return NULL;
		*equals = '\0';
		errno = 0;
		count = strtoul(equals + 1, &end, 10);
		if (errno != 0 || *end != '\0' || count > INT32_MAX)
			return NULL;
		if (json_object_get(object, item) ||
			json_object_set_new(object, item, json_integer((json_int_t)count)) < 0)
			return NULL;
	}
	return json_incref(object);
}

static int call(json_t *request, json_t **ret_reply, struct error *error)
{
	_cleanup_json_ json_t *owned = request;

	if (!owned)
		return error_set(error, -EINVAL, "an argument is not UTF-8");
	return client_call(arg_run.state_dir, owned, ret_reply, error);
}

static void show(const json_t *reply, void (*print)(const json_t *reply))
{
	if (!arg_json) {
		print(reply);
		return;
	}
	(void)json_dumpf(reply, stdout, JSON_INDENT(2));
	(void)putchar('\n');
}

/* Returns 0 or EXIT_USAGE. */
static int make_plugin_dir_absolute(void)
{
	static char path[PATH_MAX];
	char here[PATH_MAX];
	int n;

	if (arg_run.plugin_dir[0] == '/')
		return 0;
	n = getcwd(here, sizeof(here))
		? snprintf(path, sizeof(path), "%s/%s", here, arg_run.plugin_dir)
		: -1;
	if (n < 0 || (size_t)n >= sizeof(path))
		return arguments_refuse("--plugin-dir cannot be made absolute");
	arg_run.plugin_dir = path;
	return 0;
}

static void choose_seed(void)
{
	if (arg_run.seed == 0 && getrandom(&arg_run.seed, sizeof(arg_run.seed), 0) < 0)
		arg_run.seed = now_usec(CLOCK_REALTIME);
}

static int verb_run(char **arguments, int n)
{
	_cleanup_(manager_freep) struct manager *manager = NULL;
	struct rlimit files;
	struct error error = {};
	int r;

	arg_run.force_json = arg_json;
	r = make_plugin_dir_absolute();
	if (r != 0)
		return r;
	choose_seed();
	(void)signal(SIGPIPE, SIG_IGN);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	r = manager_new(&arg_run, &manager, &error);
	if (r < 0)
		return fail(&error);
	r = manager_run(manager);
	if (r < 0) {
		(void)error_set(&error, r, "the event loop failed: %s", strerror(-r));
		return fail(&error);
	}
	return r;
}

static int verb_status(char **arguments, int n)
{
	_cleanup_json_ json_t *reply = NULL;
	struct error error = {};

	if (call(json_pack("{s:s}", "command", "status"), &reply, &error) < 0)
		return fail(&error);
	show(reply, print_status);
	return finish_output(0);
}

static int verb_pods(char **arguments, int n)
{
	_cleanup_json_ json_t *reply = NULL;
	struct error error = {};

	if (call(json_pack("{s:s}", "command", "pods"), &reply, &error) < 0)
		return fail(&error);
	show(reply, print_pods);
	return finish_output(0);
}

/* Sends a command whose reply is a pod, and prints the pod. */
static int show_pod(json_t *request)
{
	_cleanup_json_ json_t *reply = NULL;
	struct error error = {};

	if (call(request, &reply, &error) < 0)
		return fail(&error);
	show(reply, print_pod);
	return finish_output(json_object_get(reply, "reason") ? EXIT_FAILED : 0);
}

static int remove_pod(const char *name)
{
	_cleanup_json_ json_t *reply = NULL;
	struct error error = {};

	if (call(json_pack("{s:s, s:s, s:s}", "command", "pod-rm", "name", name, "namespace",
			 arg_namespace),
		    &reply, &error) < 0)
		return fail(&error);
	return 0;
}

/* NULL if the container has no other resources; -EINVAL if the text is not JSON. */
static int find_others(const char *name, json_t **ret)
{
	size_t size = strlen(name);

	for (size_t i = 0; i < arg_n_others; i++) {
		const char *text = arg_others[i].text;

		if (strncmp(text, name, size) != 0 || text[size] != ':')
			continue;
		*ret = json_loads(text + size + 1, JSON_REJECT_DUPLICATES, NULL);
		return *ret ? 0 : -EINVAL;
	}
	return 0;
}

static int add_container(json_t *containers, const char *kind, const char *name, const char *counts)
{
	_cleanup_json_ json_t *limits = parse_counts(counts), *others = NULL;

	if (!limits || find_others(name, &others) < 0)
		return -EINVAL;
	return json_array_append_new(containers,
		json_pack("{s:s, s:s, s:O, s:O*}", "name", name, "kind", kind, "limits", limits,
			"others", others));
}

/* Lists the containers in the order of admission, and within a kind in the order of the arguments;
 * adds "main" if there is no main container. NULL if an argument is invalid. */
static json_t *make_containers(void)
{
	_cleanup_json_ json_t *containers = json_array();
	size_t n_main = 0;
	int r = 0;

	for (unsigned late = 0; late < 2; late++)
		for (size_t i = 0; i < arg_n_containers && r >= 0; i++) {
			const struct container_argument *argument = &arg_containers[i];
			_cleanup_free_ char *name = strdup(argument->text);
			char *colon = name ? strchr(name, ':') : NULL;

			if (streq(argument->kind, "main") != (late == 1))
				continue;
			n_main += late;
			if (colon)
				*colon = '\0';
			r = name ? add_container(
					   containers, argument->kind, name, colon ? colon + 1 : "")
				 : -ENOMEM;
		}
	if (r >= 0 && (n_main == 0 || arg_limits[0]))
		r = add_container(containers, "main", "main", arg_limits);
	return r >= 0 ? json_incref(containers) : NULL;
}

/* Without this check, its name would be accepted as the pod's. */
static bool is_manifest(const char *name)
{
	static const char *const endings[] = { ".yaml", ".yml", ".json" };
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; dot && i < ARRAY_SIZE(endings); i++)
		if (strcasecmp(dot, endings[i]) == 0)
			return true;
	return false;
}

static int verb_pod(char **arguments, int n)
{
	json_t *containers;

	if (n == 2 && streq(arguments[0], "rm"))
		return remove_pod(arguments[1]);
	if (n == 2 && streq(arguments[0], "restart"))
		return show_pod(json_pack("{s:s, s:s, s:s}", "command", "pod-restart", "name",
			arguments[1], "namespace", arg_namespace));
	if (n != 1 || streq(arguments[0], "rm") || streq(arguments[0], "restart"))
		return arguments_refuse("\"pod\" needs NAME, rm NAME or restart NAME");
	if (is_manifest(arguments[0]))
		return arguments_refuse(
			"devplug-kubelet reads no manifests: give the pod's NAME and --limits RESOURCE=N,...");
	containers = make_containers();
	free(arg_containers);
	free(arg_others);
	if (!containers)
		return arguments_refuse(
			"--limits needs RESOURCE=N,..., a container NAME:RESOURCE=N,..., and --other NAME:JSON");
	return show_pod(json_pack("{s:s, s:s, s:s, s:b, s:o, s:o*}", "command", "pod", "name",
		arguments[0], "namespace", arg_namespace, "static", arg_static, "containers",
		containers, "claims", arg_claims));
}

/* Also waits for a kubelet that is starting or restarting. */
static int wait_for(json_t *wanted, json_t **ret_reply, struct error *error)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC) + (uint64_t)(arg_timeout * USEC_PER_SEC);

	for (;;) {
		uint64_t now = now_usec(CLOCK_MONOTONIC);
		double left = now < end ? (double)(end - now) / (double)USEC_PER_SEC : 0;
		int r = call(json_pack("{s:s, s:O, s:f}", "command", "wait", "resources", wanted,
				     "timeout", left),
			ret_reply, error);

		if ((r != -ENOENT && r != -ECONNREFUSED && r != -ECONNRESET) || now >= end)
			return r;
		(void)usleep(WAIT_RETRY);
	}
}

static int verb_wait(char **arguments, int n)
{
	_cleanup_json_ json_t *wanted = parse_counts(arguments[0]), *reply = NULL;
	struct error error = {};
	bool reached;

	if (!wanted || json_object_size(wanted) == 0)
		return arguments_refuse("\"wait\" needs RESOURCE=N,...");
	if (wait_for(wanted, &reply, &error) < 0)
		return fail(&error);
	reached = json_is_true(json_object_get(reply, "reached"));
	if (arg_json) {
		(void)json_dumpf(reply, stdout, JSON_INDENT(2));
		(void)putchar('\n');
	} else if (!reached) {
		(void)fprintf(stderr, "devplug-kubelet: timed out; allocatable: ");
		print_allocatable(json_object_get(reply, "resources"), stderr);
	}
	return finish_output(reached ? 0 : EXIT_FAILED);
}

static int verb_reboot(char **arguments, int n)
{
	_cleanup_json_ json_t *reply = NULL;
	struct error error = {};

	return call(json_pack("{s:s}", "command", "reboot"), &reply, &error) < 0 ? fail(&error) : 0;
}

static int verb_fault(char **arguments, int n)
{
	_cleanup_json_ json_t *reply = NULL;
	struct error error = {};

	if (call(json_pack("{s:s, s:s, s:s}", "command", "fault", "resource", arguments[0], "fault",
			 arguments[1]),
		    &reply, &error) < 0)
		return fail(&error);
	return 0;
}

static int verb_conformance(char **arguments, int n)
{
	struct error error = {};
	int r;

	if (arg_list_cases) {
		conformance_list();
		return finish_output(0);
	}
	r = make_plugin_dir_absolute();
	if (r != 0)
		return r;
	if (arg_conformance.dra && !arg_run.plugins_registry)
		return arguments_refuse("conformance --dra needs --plugins-registry");
	choose_seed();
	arg_conformance.claims = arg_claims;
	arg_conformance.plugin_dir = arg_run.plugin_dir;
	arg_conformance.plugins_registry = arg_run.plugins_registry;
	arg_conformance.version = arg_run.version;
	arg_conformance.seed = arg_run.seed;
	arg_conformance.timeout = (uint64_t)(arg_timeout * USEC_PER_SEC);
	arg_conformance.register_timeout = (uint64_t)(arg_register_timeout * USEC_PER_SEC);
	r = conformance_run(&arg_conformance, &error);
	free(arg_conformance.resources);
	free(arg_conformance.cdi_dirs);
	json_decref(arg_claims);
	return r < 0 ? fail(&error) : r > 0 ? EXIT_FAILED : 0;
}

static const struct {
	const char *name;
	int min_arguments, max_arguments;
	int (*run)(char **arguments, int n);
} verbs[] = {
	{ "run", 0, 0, verb_run },
	{ "status", 0, 0, verb_status },
	{ "pods", 0, 0, verb_pods },
	{ "pod", 1, 2, verb_pod },
	{ "wait", 1, 1, verb_wait },
	{ "reboot", 0, 0, verb_reboot },
	{ "fault", 2, 2, verb_fault },
	{ "conformance", 0, 0, verb_conformance },
};

int main(int argc, char **argv)
{
	int r = arguments_parse(argc, argv);

	if (r != 0)
		return r;
	if (arg_help) {
		(void)fputs(arguments_help, stdout);
		return finish_output(0);
	}
	if (arg_version) {
		(void)puts("devplug-kubelet " DEVPLUGD_VERSION);
		return finish_output(0);
	}
	log_setup("devplug-kubelet", LOG_TARGET_TEXT, LOG_INFO);
	/* Otherwise each of gRPC's threads would use an arena of its own, each of which keeps its
	 * free memory, so that the process would grow for hours. */
	(void)mallopt(M_ARENA_MAX, 1);
	argc -= optind + 1;
	argv += optind;
	if (argc < 0)
		return arguments_refuse("a command is missing");
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (!streq(verbs[i].name, argv[0]))
			continue;
		if (argc < verbs[i].min_arguments || argc > verbs[i].max_arguments)
			return arguments_refuse("wrong number of arguments");
		return verbs[i].run(argv + 1, argc);
	}
	return arguments_refuse("unknown command");
}
