/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * As whom devplugd asks the API server, and as which node. The identity is the first that exists
 * of: the file of dra.kubeconfig, the ServiceAccount of the pod that devplugd runs in, the kubelet
 * of this host. The node's name is the first of: dra.node, NODE_NAME of the environment, the name
 * in the kubelet's client certificate, the host's name.
 */

#include <jansson.h>

#include "common/error.h"

struct config;

enum dra_identity_kind {
	DRA_IDENTITY_NONE, /* none is chosen yet, or none exists */
	DRA_IDENTITY_KUBECONFIG,
	DRA_IDENTITY_ACCOUNT,
	DRA_IDENTITY_KUBELET,
	_DRA_IDENTITY_MAX,
};

enum dra_node_source {
	DRA_NODE_CONFIGURED,
	DRA_NODE_ENVIRONMENT,
	DRA_NODE_CERTIFICATE,
	DRA_NODE_HOST,
	_DRA_NODE_SOURCE_MAX,
};

/* "%s" is a directory of projected files, which Kubernetes mounts into each container that has a
 * ServiceAccount (k8s.io/client-go/rest, InClusterConfig). */
#define DRA_ACCOUNT_DIRECTORY "/var/run/secrets/kubernetes.io/serviceaccount"

/* Zero-initialised. */
struct dra_identity {
	/* what is chosen */
	enum dra_identity_kind kind;
	char *path;       /* the kubeconfig file, or the directory of the ServiceAccount */
	const char *root; /* "", or what precedes the paths in that file */
	char node[254];
	enum dra_node_source node_source;
	/* private */
	char *kubeconfig; /* dra.kubeconfig, or NULL */
	char *host_root;
	char *configured_node;
	char certificate_node[254]; /* "": not known, or there is none */
};

/* Takes what the configuration has about both, and chooses the node's name. Returns 1 if something
 * has changed, 0, or -ENOMEM. */
int dra_identity_configure(struct dra_identity *identity, const struct config *config);

/* Chooses the identity. Returns 0; or negative errno, with the error filled: -ENOENT: there is
 * none. Logs nothing. */
int dra_identity_choose(struct dra_identity *identity, struct error *error);

/* Chooses the kubelet of this host, although another identity may be first. Errors as above. */
int dra_identity_choose_kubelet(struct dra_identity *identity, struct error *error);

/* Takes the name in the client certificate, "" if there is none. It is not trusted. Returns whether
 * the node has another name now. */
bool dra_identity_set_certificate(struct dra_identity *identity, const char *node);

/* Whether the name in a client certificate would be the node's. */
bool dra_identity_wants_certificate(const struct dra_identity *identity);

/* For display: the kind as a word, "" for none; the source of the node's name. */
const char *dra_identity_word(const struct dra_identity *identity);
const char *dra_identity_node_source(const struct dra_identity *identity);

/* The kubeconfig text of a ServiceAccount, which refers to its files (malloc'ed), or NULL without
 * memory. */
char *dra_identity_account_text(void);

void dra_identity_done(struct dra_identity *identity);
