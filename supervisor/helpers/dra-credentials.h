/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files that devplugd-cluster may read although its user may not: the kubeconfig file of an
 * identity, and the files that it names. devplugd-cluster, which reads YAML, decides which of its
 * words are files; here the only condition is that the kubeconfig file contains the word.
 */

#include "common/error.h"
#include "supervisor/helpers/dra-identity.h"

/* Opens the kubeconfig file of a chosen identity (`word` empty), or a file named by a word in it,
 * relative to its directory, and copies it into a sealed memfd. Returns the descriptor, or negative
 * errno with the error filled, which contains the path: -EPERM: the file does not contain the
 * word. */
int dra_credentials_open(
	const struct dra_identity *identity, const char *word, struct error *error);
