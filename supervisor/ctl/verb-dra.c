/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the objects of DRA as JSON for kubectl: the classes and the identity that an administrator
 * creates once for a cluster, made from the file, and the slices of this node, made from the
 * daemon's devices; and a kubeconfig file for that identity.
 */
#include "common/sealed.h"
#include "configuration/config.h"
#include "dra/model/dra-kubeconfig.h"
#include "dra/model/dra-names.h"
#include "dra/model/dra-rights.h"
#include "dra/model/dra-slices.h"
#include "dra/model/slice-lacks.h"
#include "supervisor/ctl/verb.h"
#include "supervisor/helpers/dra-credentials.h"

#define UNKNOWN_SERVER "https://API-SERVER:6443"

/* Takes the items. Returns the exit status. */
static int print_list(json_t *items)
{
	json_t *list =
		json_pack("{s:s, s:s, s:o}", "apiVersion", "v1", "kind", "List", "items", items);
	bool failed = !list || json_dumpf(list, stdout, JSON_INDENT(2)) < 0 || puts("") < 0 ||
		fflush(stdout) != 0;

	json_decref(list);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The classes of the resources that DRA serves. */
static json_t *make_classes(const struct config *config)
{
	json_t *items = json_array();

	for (size_t i = 0; i < config->n_resources; i++)
		if (config->resources[i].registration == REGISTRATION_DRA)
			(void)json_array_append_new(items,
				dra_class_object(resource_config_driver(&config->resources[i]),
					config->resources[i].declaration.name));
	return items;
}

static bool has_text(const json_t *list, const char *text)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (streq(json_string_value(json_array_get(list, i)), text))
			return true;
	return false;
}

/* An identity with the rights that the features in use need. */
static json_t *make_credentials(const struct config *config)
{
	json_auto_t *drivers = json_array();

	for (size_t i = 0; i < config->n_resources; i++) {
		const char *driver = resource_config_driver(&config->resources[i]);

		if (driver && !has_text(drivers, driver))
			(void)json_array_append_new(drivers, json_string(driver));
	}
	return dra_rights_objects(dra_rights_features(config), drivers);
}

/* Prints objects that are made from the file. `without`: what the file lacks if there are none. */
static int print_objects(const struct command_line *line,
	json_t *(*make)(const struct config *config), const char *without)
{
	const char *file = line->config_file ?: DEFAULT_CONFIG_FILE;
	_cleanup_config_ struct config *config = NULL;
	_cleanup_report_ struct report report = { 0 };
	json_t *items;

	if (config_load(file, &report, &config) < 0) {
		print_report(&report, file);
		return EXIT_CONFIG;
	}
	items = make(config);
	if (items && json_array_size(items) == 0)
		(void)fprintf(stderr, "devplugctl: %s: %s\n", file, without);
	return print_list(items);
}

/* The address of the API server that the kubelet of this host uses (malloc'ed), or NULL. */
static char *find_server(const struct config *config)
{
	struct dra_identity identity = { 0 };
	_cleanup_close_ int fd = -EBADF;
	char *server = NULL, *text;
	struct error error = { 0 };
	size_t size;

	if (dra_identity_configure(&identity, config) >= 0 &&
		dra_identity_choose_kubelet(&identity, &error) >= 0)
		fd = dra_credentials_open(&identity, "", &error);
	if (fd >= 0 && sealed_read(fd, DRA_CREDENTIALS_MAX, &text, &size) >= 0) {
		server = dra_kubeconfig_server(text, size);
		explicit_bzero(text, size);
		free(text);
	}
	dra_identity_done(&identity);
	return server;
}

static int print_kubeconfig(const struct command_line *line)
{
	const char *file = line->config_file ?: DEFAULT_CONFIG_FILE;
	_cleanup_config_ struct config *config = NULL;
	_cleanup_report_ struct report report = { 0 };
	_cleanup_free_ char *server = NULL;

	if (config_load(file, &report, &config) < 0) {
		print_report(&report, file);
		return EXIT_CONFIG;
	}
	server = find_server(config);
	if (!server)
		(void)fputs("devplugctl: replace " UNKNOWN_SERVER
			    " by the address of the API server\n",
			stderr);
	(void)printf("apiVersion: v1\n"
		     "kind: Config\n"
		     "current-context: " DRA_ACCOUNT_NAME "\n"
		     "contexts: [ { name: " DRA_ACCOUNT_NAME
		     ", context: { cluster: cluster, user: " DRA_ACCOUNT_NAME " } } ]\n"
		     "clusters: [ { name: cluster, cluster: { server: \"%s\","
		     " certificate-authority: ca.crt } } ]\n"
		     "users: [ { name: " DRA_ACCOUNT_NAME ", user: { tokenFile: token } } ]\n",
		server ?: UNKNOWN_SERVER);
	return fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The daemon's resources that the driver serves. */
static json_t *find_resources(const struct daemon_state *daemon, const char *driver)
{
	json_t *found = json_array(), *resource;
	size_t i;

	json_array_foreach(json_object_get(daemon->root, "resources"), i, resource)
	{
		if (streq(text_of(resource, "dra_driver"), driver))
			(void)json_array_append(found, resource);
	}
	return found;
}

static void add_held(json_t *held, const json_t *resource, const json_t *claim)
{
	const char *name = text_of(claim, "device"), *key;
	json_t *amounts = json_object_get(claim, "amounts"), *sums, *amount;

	sums = json_object_get(json_object_get(held, name), "amounts");
	if (!sums) {
		sums = amounts ? json_object() : NULL;
		(void)json_object_set_new(held, name,
			json_pack("{s:O, s:O, s:O, s:o*, s:o*}", "driver",
				json_object_get(claim, "driver"), "resource",
				json_object_get(resource, "name"), "id",
				json_object_get(claim, "id"), "amounts", sums, "share",
				*text_of(claim, "share") ? json_true() : NULL));
	}
	json_object_foreach(amounts, key, amount)(void) json_object_set_new(
		sums, key, json_integer(integer_of(sums, key) + json_integer_value(amount)));
}

/* The devices that claims hold, for struct dra_inventory_options. */
static json_t *find_held(const json_t *resources)
{
	json_t *held = json_object(), *resource, *device, *claim;
	size_t i, k, n;

	json_array_foreach(resources, i, resource)
	{
		json_array_foreach(json_object_get(resource, "devices"), k, device)
		{
			json_array_foreach(json_object_get(device, "claims"), n, claim)
			{
				if (!json_is_true(json_object_get(claim, "admin")))
					add_held(held, resource, claim);
			}
		}
	}
	return held;
}

/* The bits of what the API server lacks. */
static unsigned find_lacks(const json_t *driver)
{
	const json_t *texts = json_object_get(driver, "lacks"), *text;
	unsigned lacks = 0;
	size_t i;

	json_array_foreach(texts, i, text)
	{
		for (unsigned lack = 0; lack < _LACK_MAX; lack++)
			if (streq(json_string_value(text), slice_lack_text(lack)))
				lacks |= 1U << lack;
	}
	return lacks;
}

static int add_slices(
	json_t *items, const struct daemon_state *daemon, const json_t *driver, const char *node)
{
	const struct dra_pool pool = {
		.driver = text_of(driver, "driver"),
		.node = node,
		.generation = MAX_OF(integer_of(driver, "generation"), (json_int_t)1),
	};
	json_auto_t *resources = find_resources(daemon, pool.driver);
	json_auto_t *held = find_held(json_object_get(daemon->root, "resources"));
	const struct dra_inventory_options options = {
		.driver = pool.driver,
		.lacks = find_lacks(driver),
		.held = held,
	};
	struct dra_inventory inventory;
	int r;

	r = dra_inventory_build(resources, &options, &inventory);
	if (r < 0)
		return r;
	for (size_t i = 0; i < json_array_size(inventory.slices); i++)
		(void)json_array_append_new(items, dra_slice_object(&pool, &inventory, i));
	dra_inventory_done(&inventory);
	return 0;
}

static json_t *make_slices(const struct daemon_state *daemon, const json_t *dra)
{
	json_auto_t *items = json_array();
	const json_t *driver;
	int r = 0;
	size_t i;

	json_array_foreach(json_object_get(dra, "drivers"), i, driver)
	{
		if (r >= 0)
			r = add_slices(items, daemon, driver, text_of(dra, "node"));
	}
	return r < 0 ? NULL : json_incref(items);
}

static int print_slices(const struct command_line *line)
{
	_cleanup_(daemon_state_done) struct daemon_state daemon = { 0 };
	struct error error = { 0 };
	const json_t *dra;
	json_t *items;
	int status;

	if (daemon_state_read(line->config_file, line->runtime_dir, &daemon, &error) < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return EXIT_FAILURE;
	}
	status = print_unanswered(&daemon);
	if (status != EXIT_SUCCESS)
		return status;
	dra = json_object_get(daemon.root, "dra");
	if (!dra) {
		(void)fputs("devplugctl: no resource of the daemon has serve = \"dra\"\n", stderr);
		return EXIT_FAILURE;
	}
	items = make_slices(&daemon, dra);
	return items ? print_list(items) : EXIT_FAILURE;
}

int command_dra(const struct command_line *line)
{
	if (streq(line->subject, "classes"))
		return print_objects(line, make_classes, "no resource has serve = \"dra\"");
	if (streq(line->subject, "credentials"))
		return print_objects(line, make_credentials,
			"no right is needed, because no resource has serve = \"dra\" or severity = "
			"\"evict\", and neither cluster.report nor cluster.labels is in use");
	if (streq(line->subject, "kubeconfig"))
		return print_kubeconfig(line);
	if (streq(line->subject, "slices"))
		return print_slices(line);
	(void)fprintf(stderr,
		"devplugctl: \"dra\" needs classes, credentials, kubeconfig or slices, not \"%s\"\n",
		line->subject);
	return EXIT_USAGE;
}
