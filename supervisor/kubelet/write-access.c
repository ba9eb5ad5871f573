/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether devplugd can write to the configured directories. Modes and owners are not
 * checked: root owns the kubelet's directories, and devplugd has CAP_DAC_OVERRIDE. What a service
 * or container cannot bypass is a read-only mount.
 */
#include "supervisor/kubelet/write-access.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "common/log.h"
#include "common/request-message.h"
#include "supervisor/kubelet/kubelet-file.h"

#define ROOT_MAX 64

enum view { VIEW_MISSING, VIEW_WRITABLE, VIEW_READ_ONLY, VIEW_REMOVED };

static enum view look_at(const char *path)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct statvfs mount;
	bool is_old = false;

	if (fd < 0 || fstatvfs(fd, &mount) < 0)
		return VIEW_MISSING;
	if (kubelet_file_is_removed(fd, &is_old) != 0)
		return is_old ? VIEW_REMOVED : VIEW_MISSING;
	return mount.f_flag & ST_RDONLY ? VIEW_READ_ONLY : VIEW_WRITABLE;
}

/* Another process makes a directory that does not exist yet, below its existing parent. */
static bool is_read_only(const char *root, const char *directory)
{
	_cleanup_free_ char *path = NULL;
	size_t least = strlen(root);

	if (format_text(&path, "%s%s", root, directory) < 0)
		return false;
	for (;;) {
		enum view view = look_at(path);
		char *slash = strrchr(path + least, '/');

		if (view != VIEW_MISSING)
			return view == VIEW_READ_ONLY;
		if (!slash || slash == path + least)
			return false;
		*slash = '\0';
	}
}

static bool is_missing(const char *root, const char *directory)
{
	_cleanup_free_ char *path = NULL;
	struct stat st;

	if (format_text(&path, "%s%s", root, directory) < 0)
		return false;
	return stat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

static bool any_registers(const struct config *config, enum registration_way way)
{
	for (size_t i = 0; i < config->n_resources; i++)
		if (config->resources[i].registration == way)
			return true;
	return false;
}

/* Containers with claims get their devices through CDI files. */
static bool any_publishes(const struct config *config)
{
	for (size_t i = 0; i < config->n_resources; i++)
		if (config->resources[i].declaration.cdi_spec.kind)
			return true;
	return any_registers(config, REGISTRATION_DRA);
}

/* Files for CNI plugins describe the devices of this driver. */
static bool any_describes(const struct config *config)
{
	for (size_t i = 0; i < config->n_resources; i++)
		if (streq(config->resources[i].declaration.driver_name, "net"))
			return true;
	return false;
}

void write_access_check(const struct config *config, const char *root,
	write_access_handler on_refused, void *userdata)
{
	const struct kubelet_config *kubelet = &config->kubelet;
	_cleanup_free_ char *textfile =
		config->metrics.textfile ? strdup(config->metrics.textfile) : NULL;
	char *slash = textfile ? strrchr(textfile, '/') : NULL;
	const struct {
		bool wanted;
		const char *directory, *purpose;
		bool must_exist; /* devplugd does not make it */
	} places[] = {
		{ true, config->runtime_dir, "start of devplugd (runtime_dir)", false },
		{ any_registers(config, REGISTRATION_SOCKET), kubelet->device_plugin_dir,
			"sockets for the kubelet (kubelet.device_plugin_dir)", false },
		{ any_registers(config, REGISTRATION_WATCHER) ||
				any_registers(config, REGISTRATION_DRA),
			kubelet->plugins_registry_dir,
			"sockets for the kubelet's plugin watcher (kubelet.plugins_registry_dir)",
			false },
		{ any_publishes(config), config->cdi_dir, "CDI files (cdi_dir)", false },
		{ any_describes(config), config->device_info_dir,
			"information about network devices for CNI plugins (device_info_dir)",
			false },
		{ config_has_labels(config) && !config->cluster.labels, config->features_dir,
			"labels for node-feature-discovery (features_dir)", true },
		{ slash && slash > textfile, textfile, "metrics (metrics.textfile)", true },
	};

	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		bool missing = places[i].must_exist && is_missing(root, places[i].directory);

		if (places[i].wanted && (missing || is_read_only(root, places[i].directory)))
			on_refused(places[i].directory, places[i].purpose, missing, userdata);
	}
}

/* The process that listens on the control socket of the runtime directory; 0: not known. */
static pid_t find_daemon(const char *runtime_dir)
{
	_cleanup_close_ int directory = open(runtime_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd = -EBADF;
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (directory < 0)
		return 0;
	fd = request_connect(directory, REQUEST_SOCKET, 1, 1);
	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return 0;
	return peer.pid;
}

static void print_refused(const char *directory, const char *purpose, bool missing, void *userdata)
{
	if (missing)
		(void)fprintf(userdata, "%s: warning: " WRITE_ACCESS_MISSING "\n",
			program_invocation_short_name, directory, purpose);
	else
		(void)fprintf(userdata,
			"%s: warning: %s is read-only for devplugd, so there will be no %s: " WRITE_ACCESS_REMEDY
			"\n",
			program_invocation_short_name, directory, purpose, directory, directory);
}

void write_access_warn(const struct config *config, const char *runtime_dir, FILE *stream)
{
	char root[ROOT_MAX] = "";
	pid_t daemon = find_daemon(runtime_dir);

	if (daemon > 0) {
		(void)snprintf(root, sizeof(root), "/proc/%d/root", (int)daemon);
		if (look_at(root) == VIEW_MISSING)
			*root = '\0';
	}
	write_access_check(config, root, print_refused, stream);
}

static void log_refused(const char *directory, const char *purpose, bool missing, void *userdata)
{
	if (missing)
		log_warning(WRITE_ACCESS_MISSING, directory, purpose);
	else
		log_warning(
			"%s is read-only for devplugd, so there will be no %s: " WRITE_ACCESS_REMEDY,
			directory, purpose, directory, directory);
}

void write_access_log(const struct config *config)
{
	write_access_check(config, "", log_refused, NULL);
}

const char *write_access_lost(struct write_access *access, const struct kubelet_config *kubelet)
{
	const char *const directories[] = { kubelet->device_plugin_dir,
		kubelet->plugins_registry_dir };

	static_assert(ARRAY_SIZE(directories) == ARRAY_SIZE(access->writable), "one for each");
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
		enum view view = look_at(directories[i]);

		if (view == VIEW_WRITABLE)
			access->writable[i] = true;
		else if (view != VIEW_MISSING && access->writable[i])
			return directories[i];
	}
	return NULL;
}
