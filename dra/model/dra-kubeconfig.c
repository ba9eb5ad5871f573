/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the current context in a kubeconfig file: the address of the API server, and the
 * credentials.
 */
#include "dra/model/dra-kubeconfig.h"

#include "common/base64.h"
#include "common/json-read.h"
#include "common/yaml-read.h"

/* The member `key` of the entry of that name in a list such as "users". */
static const json_t *find_entry(
	const json_t *root, const char *list, const char *name, const char *key)
{
	const json_t *entry;
	size_t i;

	json_array_foreach(json_object_get(root, list), i, entry)
	{
		if (*name && streq(text_of(entry, "name"), name))
			return json_object_get(entry, key);
	}
	return NULL;
}

static int decode(const char *text, struct dra_secret *ret)
{
	uint8_t *bytes;
	int r = base64_decode(text, &bytes, &ret->size);

	if (r >= 0)
		ret->data = (char *)bytes;
	return r;
}

/* `key`-data contains the text, `key` the name of a file. */
static int take_secret(const json_t *object, const char *key, struct dra_secret *ret)
{
	const char *data, *file = set_text_of(object, key);
	char name[64];

	(void)snprintf(name, sizeof(name), "%s-data", key);
	data = set_text_of(object, name);
	if (data)
		return decode(data, ret);
	ret->file = file ? strdup(file) : NULL;
	return file && !ret->file ? -ENOMEM : 0;
}

static int take_user(const json_t *user, struct dra_kubeconfig *config, struct error *error)
{
	const char *token = set_text_of(user, "token"), *file = set_text_of(user, "tokenFile");

	if (take_secret(user, "client-certificate", &config->certificate) < 0 ||
		take_secret(user, "client-key", &config->key) < 0)
		return error_set(error, -EBADMSG, "the client certificate is not valid base64");
	if (file)
		config->token.file = strdup(file);
	else if (token) {
		config->token.data = strdup(token);
		config->token.size = strlen(token);
	}
	if (json_object_get(user, "exec") || json_object_get(user, "auth-provider"))
		return error_set(error, -EBADMSG,
			"the user's credentials come from a program (\"exec\"), which devplugd "
			"does not run: create a ServiceAccount with \"devplugctl dra "
			"credentials\", and set dra.kubeconfig to a file with its token");
	if (!config->token.data && !config->token.file && !config->certificate.data &&
		!config->certificate.file)
		return error_set(
			error, -EBADMSG, "the user has no client certificate, token or tokenFile");
	return 0;
}

static int take(const json_t *root, struct dra_kubeconfig *config, struct error *error)
{
	const json_t *context =
		find_entry(root, "contexts", text_of(root, "current-context"), "context");
	const json_t *cluster =
		find_entry(root, "clusters", text_of(context, "cluster"), "cluster");
	const json_t *user = find_entry(root, "users", text_of(context, "user"), "user");
	const char *server = text_of(cluster, "server");

	if (!context)
		return error_set(
			error, -EBADMSG, "\"current-context\" does not name a context of the file");
	if (!startswith(server, "https://") || strpbrk(server, " \t\r\n"))
		return error_set(error, -EBADMSG,
			"the cluster of the current context has no server that begins with "
			"https://");
	if (json_object_get(cluster, "tls-server-name") || json_object_get(cluster, "proxy-url"))
		return error_set(error, -EBADMSG,
			"the cluster sets tls-server-name or proxy-url, which devplugd does not support: use an address that the server's certificate contains");
	if (!user)
		return error_set(error, -EBADMSG, "the current context names no user");
	config->server = strdup(server);
	config->insecure = streq(text_of(cluster, "insecure-skip-tls-verify"), "true");
	if (!config->server || take_secret(cluster, "certificate-authority", &config->ca) < 0)
		return error_set(error, -EBADMSG, "the certificate authority is not valid base64");
	return take_user(user, config, error);
}

int dra_kubeconfig_read(
	const char *text, size_t size, struct dra_kubeconfig *ret, struct error *error)
{
	struct dra_kubeconfig config = { 0 };
	json_t *root;
	int r;

	r = yaml_read(text, size, &root, error);
	if (r < 0) {
		error_prefix(error, "it cannot be read as YAML");
		return -EBADMSG;
	}
	r = take(root, &config, error);
	json_decref(root);
	if (r < 0)
		dra_kubeconfig_done(&config);
	else
		*ret = config;
	return r;
}

char *dra_kubeconfig_server(const char *text, size_t size)
{
	struct dra_kubeconfig config = { 0 };
	char *server = NULL;
	json_t *root;

	if (yaml_read(text, size, &root, NULL) < 0)
		return NULL;
	(void)take(root, &config, NULL);
	server = TAKE_PTR(config.server);
	dra_kubeconfig_done(&config);
	json_decref(root);
	return server;
}

void dra_secret_done(struct dra_secret *secret)
{
	if (secret->data)
		explicit_bzero(secret->data, secret->size);
	free(secret->data);
	free(secret->file);
	*secret = (struct dra_secret){ 0 };
}

void dra_kubeconfig_done(struct dra_kubeconfig *config)
{
	free(config->server);
	dra_secret_done(&config->ca);
	dra_secret_done(&config->certificate);
	dra_secret_done(&config->key);
	dra_secret_done(&config->token);
	*config = (struct dra_kubeconfig){ 0 };
}
