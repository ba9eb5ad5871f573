/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes only files with the names that a kubelet uses, because all other files in the plugin
 * directory belong to plugins.
 */
#include "kubelet/conformance/trial-directories.h"

#include <limits.h>

#include "common/util.h"
#include "kubelet/checkpoint.h"
#include "kubelet/claim-checkpoint.h"
#include "kubelet/plugin-dir.h"

#define POD_RESOURCES_SOCKET "pod-resources/" KUBELET_SOCKET_NAME

static int check_directory(const char *plugin_dir, struct error *error)
{
	char path[PATH_MAX];
	int r = snprintf(path, sizeof(path), "%s/%s", plugin_dir, CHECKPOINT_NAME);

	if (r < 0 || (size_t)r >= sizeof(path))
		return error_set(error, -ENAMETOOLONG, "%s: the path is too long", plugin_dir);
	if (access(path, F_OK) >= 0)
		return error_set(error, -EEXIST,
			"%s exists: a kubelet uses this directory; name another --plugin-dir, or remove the file if no kubelet does",
			path);
	return 0;
}

int trial_directories_take(const char *plugin_dir, char **ret_state_dir, struct error *error)
{
	_cleanup_free_ char *state_dir = NULL;
	int r = check_directory(plugin_dir, error);

	if (r < 0)
		return r;
	state_dir = strdup("/tmp/devplug-kubelet.XXXXXX");
	if (!state_dir)
		return error_set(error, -ENOMEM, "out of memory");
	if (!mkdtemp(state_dir))
		return error_set(
			error, -errno, "cannot make a directory in /tmp: %s", strerror(errno));
	*ret_state_dir = TAKE_PTR(state_dir);
	return 0;
}

static void remove_in(const char *dir, const char *name)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path))
		(void)unlink(path);
}

static void remove_directory(const char *state_dir)
{
	static const char *const directories[] = { "/pod-resources", "/pod-logs", "" };
	char path[PATH_MAX];

	for (size_t i = 0; state_dir && i < ARRAY_SIZE(directories); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", state_dir, directories[i]);
		(void)rmdir(path);
	}
}

void trial_directories_clean(const char *plugin_dir, const char *state_dir)
{
	static const char *const state_files[] = {
		"control",
		"pods.json",
		POD_RESOURCES_SOCKET,
		CLAIM_CHECKPOINT_NAME,
	};
	static const char *const plugin_files[] = { KUBELET_SOCKET_NAME, CHECKPOINT_NAME };

	for (size_t i = 0; state_dir && i < ARRAY_SIZE(state_files); i++)
		remove_in(state_dir, state_files[i]);
	for (size_t i = 0; plugin_dir && i < ARRAY_SIZE(plugin_files); i++)
		remove_in(plugin_dir, plugin_files[i]);
	remove_directory(state_dir);
}
