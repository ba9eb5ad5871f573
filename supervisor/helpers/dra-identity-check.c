/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the credentials for the API server can be used, as far as files show it. The
 * running daemon leaves YAML to devplugd-cluster, which has no privilege; this runs in a process
 * that an administrator starts for a check.
 */
#include "supervisor/helpers/dra-identity-check.h"

#include "common/sealed.h"
#include "configuration/config.h"
#include "dra/model/dra-kubeconfig.h"
#include "dra/model/dra-rights.h"
#include "supervisor/helpers/dra-credentials.h"

static int check_secret(
	const struct dra_identity *identity, const struct dra_secret *secret, struct error *error)
{
	int fd;

	if (!secret->file)
		return 0;
	fd = dra_credentials_open(identity, secret->file, error);
	if (fd < 0)
		return fd;
	(void)close_fd(fd);
	return 0;
}

static int check_user(
	const struct dra_identity *identity, const char *text, size_t size, struct error *error)
{
	struct dra_kubeconfig kubeconfig;
	int r;

	r = dra_kubeconfig_read(text, size, &kubeconfig, error);
	if (r < 0) {
		error_prefix(error, "%s", identity->path);
		return r;
	}
	r = check_secret(identity, &kubeconfig.ca, error);
	if (r >= 0)
		r = check_secret(identity, &kubeconfig.certificate, error);
	if (r >= 0)
		r = check_secret(identity, &kubeconfig.key, error);
	if (r >= 0)
		r = check_secret(identity, &kubeconfig.token, error);
	dra_kubeconfig_done(&kubeconfig);
	return r;
}

static int check_identity(
	struct dra_identity *identity, const struct config *config, struct error *error)
{
	_cleanup_close_ int fd = -EBADF;
	char *text;
	size_t size;
	int r;

	if (dra_identity_configure(identity, config) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	r = dra_identity_choose(identity, error);
	if (r < 0)
		return r;
	fd = dra_credentials_open(identity, "", error);
	if (fd < 0)
		return fd;
	r = sealed_read(fd, DRA_CREDENTIALS_MAX, &text, &size);
	if (r < 0)
		return error_set(error, r, "cannot copy %s: %s", identity->path, strerror(-r));
	r = check_user(identity, text, size, error);
	explicit_bzero(text, size);
	free(text);
	return r;
}

void dra_identity_check_files(const struct config *config, FILE *stream)
{
	struct dra_identity identity = { 0 };
	struct error error = { 0 };
	int r;

	if (dra_rights_features(config) == 0)
		return;
	r = check_identity(&identity, config, &error);
	if (r < 0 && (r != -EACCES || geteuid() == 0))
		(void)fprintf(stream,
			"%s: warning: no credentials for the API server, so nothing is "
			"published in the cluster: %s\n",
			program_invocation_short_name, error.message);
	dra_identity_done(&identity);
}
