/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides as whom devplugd asks the API server, and as which node. The identity is chosen each time
 * the credentials are read: at the first boot of a node, its kubelet has none before it has joined
 * the cluster.
 */
#include "supervisor/helpers/dra-identity.h"

#include <fcntl.h>

#include "configuration/config.h"
#include "dra/model/dra-names.h"
#include "drivers/host/sysroot.h"

#define NODE_NAME_MAX 253
/* OpenShift has the kubelet's configuration, of this kind, where kubeadm has its kubeconfig. */
#define OTHER_KIND "KubeletConfiguration"

/* Where distributions have the kubelet's kubeconfig: docs/compatibility.md has a row for each. */
static const char *const kubelet_files[] = {
	"/etc/kubernetes/kubelet.conf",                          /* kubeadm */
	"/var/lib/kubelet/kubeconfig",                           /* OpenShift, EKS, GKE, AKS */
	"/var/lib/rancher/k3s/agent/kubelet.kubeconfig",         /* k3s */
	"/var/lib/rancher/rke2/agent/kubelet.kubeconfig",        /* RKE2 */
	"/var/lib/k0s/kubelet.conf",                             /* k0s */
	"/var/snap/microk8s/current/credentials/kubelet.config", /* MicroK8s */
	"/var/lib/microshift/resources/kubelet/kubeconfig",      /* MicroShift */
	"/etc/kubernetes/kubeconfig-kubelet",                    /* Talos */
	"/etc/kubernetes/kubelet/kubeconfig",                    /* Bottlerocket */
};

static const char *const words[_DRA_IDENTITY_MAX] = {
	[DRA_IDENTITY_NONE] = "",
	[DRA_IDENTITY_KUBECONFIG] = "dra.kubeconfig",
	[DRA_IDENTITY_ACCOUNT] = "ServiceAccount",
	[DRA_IDENTITY_KUBELET] = "kubelet",
};

static const char *const node_sources[_DRA_NODE_SOURCE_MAX] = {
	[DRA_NODE_CONFIGURED] = "dra.node",
	[DRA_NODE_ENVIRONMENT] = "NODE_NAME",
	[DRA_NODE_CERTIFICATE] = "certificate",
	[DRA_NODE_HOST] = "host",
};

/* --- the identity --- */

static const char *service_host(void)
{
	return getenv("KUBERNETES_SERVICE_HOST") ?: "";
}

static const char *service_port(void)
{
	return getenv("KUBERNETES_SERVICE_PORT") ?: "";
}

/* A pod with automountServiceAccountToken: false has the address and no token. */
static bool has_account(void)
{
	return *service_host() && *service_port() &&
		access(DRA_ACCOUNT_DIRECTORY "/token", F_OK) == 0;
}

char *dra_identity_account_text(void)
{
	_cleanup_free_ char *server = NULL;
	bool brackets = strchr(service_host(), ':');
	json_auto_t *config = NULL;

	if (format_text(&server, "https://%s%s%s:%s", brackets ? "[" : "", service_host(),
		    brackets ? "]" : "", service_port()) < 0)
		return NULL;
	config = json_pack("{s:s, s:[{s:s, s:{s:s, s:s}}], s:[{s:s, s:{s:s, s:s}}],"
			   " s:[{s:s, s:{s:s}}]}",
		"current-context", "pod", "contexts", "name", "pod", "context", "cluster", "pod",
		"user", "pod", "clusters", "name", "pod", "cluster", "server", server,
		"certificate-authority", DRA_ACCOUNT_DIRECTORY "/ca.crt", "users", "name", "pod",
		"user", "tokenFile", DRA_ACCOUNT_DIRECTORY "/token");
	return config ? json_dumps(config, 0) : NULL;
}

static bool is_kubeconfig(const char *root, const char *path)
{
	char text[16384] = "";
	ssize_t n = sysroot_read(root, path, text, sizeof(text));
	bool other = strstr(text, OTHER_KIND);

	explicit_bzero(text, sizeof(text));
	/* One that cannot be read is an error to report. */
	return n < 0 ? !sysroot_is_absent((int)n) : !other;
}

static int choose(struct dra_identity *identity, enum dra_identity_kind kind, const char *root,
	const char *path)
{
	char *copy;

	if (format_text(&copy, "%s%s", root, path) < 0)
		return -ENOMEM;
	free(identity->path);
	identity->path = copy;
	identity->kind = kind;
	identity->root = root;
	return 0;
}

int dra_identity_choose_kubelet(struct dra_identity *identity, struct error *error)
{
	const char *root = streq(identity->host_root, "/") ? "" : identity->host_root;

	for (size_t i = 0; i < ARRAY_SIZE(kubelet_files); i++)
		if (is_kubeconfig(root, kubelet_files[i]))
			return choose(identity, DRA_IDENTITY_KUBELET, root, kubelet_files[i]);
	return error_set(error, -ENOENT,
		"devplugd has no ServiceAccount, and no kubeconfig file of a kubelet is in a place "
		"that it knows, such as %s%s or %s%s: set dra.kubeconfig",
		root, kubelet_files[0], root, kubelet_files[1]);
}

int dra_identity_choose(struct dra_identity *identity, struct error *error)
{
	int r;

	if (identity->kubeconfig)
		r = choose(identity, DRA_IDENTITY_KUBECONFIG, "", identity->kubeconfig);
	else if (has_account())
		r = choose(identity, DRA_IDENTITY_ACCOUNT, "", DRA_ACCOUNT_DIRECTORY);
	else
		r = dra_identity_choose_kubelet(identity, error);
	if (r >= 0)
		return r;
	identity->kind = DRA_IDENTITY_NONE;
	return r == -ENOMEM ? error_set(error, r, "out of memory") : r;
}

const char *dra_identity_word(const struct dra_identity *identity)
{
	return words[identity->kind];
}

/* --- the node --- */

static void host_name(char *ret, size_t size)
{
	if (gethostname(ret, size) < 0)
		ret[0] = '\0';
	ret[size - 1] = '\0';
	/* As the kubelet does without --hostname-override. */
	for (char *p = ret; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
}

/* Returns whether the name is another one. */
static bool find_node(struct dra_identity *identity)
{
	const char *environment = getenv("NODE_NAME") ?: "";
	char host[sizeof(identity->node)], before[sizeof(identity->node)];
	const char *names[_DRA_NODE_SOURCE_MAX] = {
		[DRA_NODE_CONFIGURED] = identity->configured_node ?: "",
		[DRA_NODE_ENVIRONMENT] =
			dra_name_is_valid(environment, NODE_NAME_MAX) ? environment : "",
		[DRA_NODE_CERTIFICATE] = identity->certificate_node,
		[DRA_NODE_HOST] = host,
	};
	enum dra_node_source source = DRA_NODE_CONFIGURED;

	host_name(host, sizeof(host));
	while (source < DRA_NODE_HOST && !*names[source])
		source++;
	memcpy(before, identity->node, sizeof(before));
	(void)snprintf(identity->node, sizeof(identity->node), "%s", names[source]);
	identity->node_source = source;
	return !streq(before, identity->node);
}

bool dra_identity_wants_certificate(const struct dra_identity *identity)
{
	return identity->node_source >= DRA_NODE_CERTIFICATE;
}

bool dra_identity_set_certificate(struct dra_identity *identity, const char *node)
{
	bool valid = dra_name_is_valid(node, NODE_NAME_MAX);

	(void)snprintf(identity->certificate_node, sizeof(identity->certificate_node), "%s",
		valid ? node : "");
	return find_node(identity);
}

const char *dra_identity_node_source(const struct dra_identity *identity)
{
	return node_sources[identity->node_source];
}

/* --- the configuration --- */

int dra_identity_configure(struct dra_identity *identity, const struct config *config)
{
	int file = replace_text(&identity->kubeconfig, config->dra.kubeconfig);
	int root = replace_text(&identity->host_root, config->host_root);
	int node = replace_text(&identity->configured_node, config->dra.node);

	if (file > 0 || root > 0) {
		/* It was chosen by the former values, and its root is one of them. */
		identity->kind = DRA_IDENTITY_NONE;
		identity->root = "";
		identity->certificate_node[0] = '\0';
	}
	if (file < 0 || root < 0 || node < 0)
		return -ENOMEM;
	return find_node(identity) || file > 0 || root > 0;
}

void dra_identity_done(struct dra_identity *identity)
{
	free(identity->path);
	free(identity->kubeconfig);
	free(identity->host_root);
	free(identity->configured_node);
	*identity = (struct dra_identity){ 0 };
}
