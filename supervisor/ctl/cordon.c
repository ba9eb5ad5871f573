/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cordons are configuration: a drop-in that only this file writes, for as long as the host is up,
 * and a reload. So there is one place that says what is in force, and a daemon that starts anew
 * knows them.
 */
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/utf8.h"
#include "config/config.h"
#include "config/text.h"
#include "ctl/command.h"

#define FILE_NAME      "cordon.conf"
#define TEMPORARY_NAME ".cordon.conf.tmp" /* not a drop-in: it begins with a dot */

struct drop_in {
	char *directory, *path;
	int directory_fd; /* locked */
	struct groups cordons;
};

static void drop_in_done(struct drop_in *drop_in)
{
	free(drop_in->directory);
	free(drop_in->path);
	(void)close_fd(drop_in->directory_fd);
	groups_done(&drop_in->cordons);
}

static int read_cordons(struct drop_in *drop_in, struct error *error)
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_report_ struct report report = { 0 };
	int r;

	if (faccessat(drop_in->directory_fd, FILE_NAME, F_OK, 0) < 0 && errno == ENOENT)
		return 0;
	r = config_load_alone(drop_in->path, &report, &config);
	if (r < 0)
		return error_set(error, r, "%s:%u: %s; correct or remove that file", drop_in->path,
			report.count > 0 ? report.entries[0].origin.line : 0,
			report.count > 0 ? report.entries[0].text : strerror(-r));
	drop_in->cordons = config->cordon;
	config->cordon = (struct groups){ .table = drop_in->cordons.table };
	return 0;
}

static int open_drop_in(const char *config_file, struct drop_in *drop_in, struct error *error)
{
	if (config_runtime_drop_in_dir(config_file, &drop_in->directory) < 0 ||
		asprintf(&drop_in->path, "%s/%s", drop_in->directory, FILE_NAME) < 0) {
		drop_in->path = NULL;
		return error_set(error, -ENOMEM, "out of memory");
	}
	if (mkdir(drop_in->directory, 0755) == 0)
		(void)chmod(drop_in->directory, 0755);
	else if (errno != EEXIST)
		return error_set(
			error, -errno, "cannot create %s: %s", drop_in->directory, strerror(errno));
	drop_in->directory_fd = open(drop_in->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (drop_in->directory_fd < 0 || RETRY_ON_EINTR(flock(drop_in->directory_fd, LOCK_EX)) < 0)
		return error_set(
			error, -errno, "cannot open %s: %s", drop_in->directory, strerror(errno));
	return read_cordons(drop_in, error);
}

static int write_text(int fd, const struct groups *cordons)
{
	const struct option *option = option_table_find(&config_table, "cordon");
	const struct option_table table = { .name = "drop-in", .options = option, .count = 1 };
	const struct config holder = { .cordon = *cordons };
	FILE *stream = fdopen(fd, "w");
	bool failed;

	if (!stream) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	(void)fputs(
		"# Written by \"devplugctl cordon\"; \"devplugctl uncordon\" takes entries out.\n",
		stream);
	text_write(stream, &table, &holder, TEXT_CANONICAL, 0);
	failed = ferror(stream);
	failed = fclose(stream) != 0 || failed;
	return failed ? -EIO : 0;
}

static int write_cordons(const struct drop_in *drop_in, struct error *error)
{
	int directory_fd = drop_in->directory_fd, fd, r;

	if (drop_in->cordons.count == 0) {
		if (unlinkat(directory_fd, FILE_NAME, 0) < 0 && errno != ENOENT)
			return error_set(error, -errno, "cannot remove %s: %s", drop_in->path,
				strerror(errno));
		return 0;
	}
	fd = openat(directory_fd, TEMPORARY_NAME,
		O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return error_set(
			error, -errno, "cannot write %s: %s", drop_in->path, strerror(errno));
	(void)fchmod(fd, 0644);
	r = write_text(fd, &drop_in->cordons);
	if (r >= 0 && renameat(directory_fd, TEMPORARY_NAME, directory_fd, FILE_NAME) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(directory_fd, TEMPORARY_NAME, 0);
		return error_set(error, r, "cannot write %s: %s", drop_in->path, strerror(-r));
	}
	return 0;
}

static int set_cordon(struct drop_in *drop_in, const char *id, const char *reason)
{
	struct cordon *cordon = NULL;
	void *element;

	for (size_t i = 0; i < drop_in->cordons.count && !cordon; i++) {
		struct cordon *there = groups_get(&drop_in->cordons, i);

		if (streq(there->id, id))
			cordon = there;
	}
	if (!cordon) {
		if (groups_add(&drop_in->cordons, &element) < 0)
			return -ENOMEM;
		cordon = element;
		cordon->id = strdup(id);
	}
	free(cordon->reason);
	cordon->reason = reason ? strdup(reason) : NULL;
	return cordon->id && (!reason || cordon->reason) ? 0 : -ENOMEM;
}

static bool has_device(const json_t *resource, const char *pattern)
{
	const json_t *devices = json_object_get(resource, "devices");

	for (size_t i = 0; i < json_array_size(devices); i++)
		if (fnmatch(pattern, snapshot_string(json_array_get(devices, i), "id"), 0) == 0)
			return true;
	return false;
}

/* Cordons a device that was named without its resource, in each resource that has it. */
static int cordon_found(struct drop_in *drop_in, const struct request *request,
	const struct snapshot *snapshot, struct error *error)
{
	const json_t *resources = json_object_get(snapshot->root, "resources");
	unsigned found = 0;

	for (size_t i = 0; i < json_array_size(resources); i++) {
		const json_t *resource = json_array_get(resources, i);
		_cleanup_free_ char *id = NULL;

		if (!has_device(resource, request->subject))
			continue;
		if (asprintf(&id, "%s/%s", snapshot_string(resource, "name"), request->subject) < 0)
			id = NULL;
		if (!id || set_cordon(drop_in, id, request->reason) < 0)
			return error_set(error, -ENOMEM, "out of memory");
		(void)printf("%s is cordoned\n", id);
		found++;
	}
	if (found == 0)
		return error_set(error, -ENOENT,
			"no resource has a device \"%s\"; see \"devplugctl devices\", or name it as "
			"RESOURCE/DEVICE to cordon one that is not there",
			request->subject);
	return 0;
}

static int cordon_named(struct drop_in *drop_in, const struct request *request, struct error *error)
{
	if (set_cordon(drop_in, request->subject, request->reason) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	(void)printf("%s is cordoned\n", request->subject);
	return 0;
}

static int add_cordons(struct drop_in *drop_in, const struct request *request,
	const struct snapshot *snapshot, struct error *error)
{
	const struct option *id = option_table_find(&config_cordon_table, "id");
	const char *reason = request->reason;
	struct error form = { 0 };

	if (id->check(request->subject, &form) < 0 || !utf8_is_valid(request->subject) ||
		strlen(request->subject) > (size_t)id->maximum || *request->subject == '\0')
		return error_set(error, -EINVAL, "a device %s",
			form.code < 0 ? form.message : "must be named by its id");
	if (reason &&
		(*reason == '\0' || !utf8_is_valid(reason) || strlen(reason) > CORDON_REASON_MAX))
		return error_set(error, -EINVAL, "the reason must be UTF-8 of 1 to %d bytes",
			CORDON_REASON_MAX);
	if (strchr(request->subject, '/'))
		return cordon_named(drop_in, request, error);
	return cordon_found(drop_in, request, snapshot, error);
}

/* Says where a cordon stands that is not ours to remove. */
static int explain_missing(const char *config_file, const char *subject, struct error *error)
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_report_ struct report report = { 0 };
	const char *slash = strrchr(subject, '/');
	const char *id = slash ? slash + 1 : subject;

	(void)config_load(config_file, &report, &config);
	for (size_t i = 0; config && i < config->n_resources; i++) {
		const struct declaration *declaration = &config->resources[i].declaration;
		const struct cordon *cordon = declaration_cordon(declaration, id);
		const char *rest = startswith(subject, declaration->name);

		if (cordon && (!slash || (rest && rest == slash)))
			return error_set(error, -ENOENT,
				"%s is under the cordon \"%s\" at %s:%u: take that away", subject,
				cordon->id, cordon->origin.file, cordon->origin.line);
	}
	return error_set(error, -ENOENT, "%s is not cordoned", subject);
}

/* A device without its resource is meant wherever it is. */
static bool is_meant(const char *id, const char *subject)
{
	const char *slash = strrchr(id, '/');

	return streq(id, subject) || (slash && streq(slash + 1, subject));
}

static int remove_cordons(struct drop_in *drop_in, const struct request *request,
	const struct snapshot *snapshot, struct error *error)
{
	size_t removed = 0;

	for (size_t i = 0; i < drop_in->cordons.count; i++) {
		struct cordon *cordon = groups_get(&drop_in->cordons, i);
		struct cordon *place = groups_get(&drop_in->cordons, i - removed);

		if (is_meant(cordon->id, request->subject)) {
			(void)printf("%s is not cordoned any more\n", cordon->id);
			option_table_done(drop_in->cordons.table, cordon);
			removed++;
		} else if (place != cordon) {
			*place = *cordon;
		}
	}
	drop_in->cordons.count -= removed;
	if (removed == 0)
		return explain_missing(
			request_config_file(request, snapshot), request->subject, error);
	return 0;
}

static int change(const struct request *request,
	int (*edit)(struct drop_in *drop_in, const struct request *request,
		const struct snapshot *snapshot, struct error *error),
	struct snapshot *snapshot, struct error *error)
{
	_cleanup_(drop_in_done) struct drop_in drop_in = {
		.directory_fd = -EBADF,
		.cordons.table = &config_cordon_table,
	};
	int r;

	r = snapshot_read(request->config_file, request->runtime_dir, snapshot, error);
	if (r < 0)
		return r;
	r = open_drop_in(request_config_file(request, snapshot), &drop_in, error);
	if (r >= 0)
		r = edit(&drop_in, request, snapshot, error);
	return r < 0 ? r : write_cordons(&drop_in, error);
}

static int run(const struct request *request,
	int (*edit)(struct drop_in *drop_in, const struct request *request,
		const struct snapshot *snapshot, struct error *error))
{
	_cleanup_(snapshot_done) struct snapshot snapshot = { 0 };
	struct error error = { 0 };
	int r;

	r = change(request, edit, &snapshot, &error);
	if (r < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return EXIT_FAILURE;
	}
	(void)fflush(stdout);
	if (!snapshot.running) {
		(void)fputs("devplugctl: devplugd is not running; this takes effect when it "
			    "starts\n",
			stderr);
		return EXIT_SUCCESS;
	}
	r = reload_daemon(request, &snapshot, &error);
	if (r < 0)
		(void)fprintf(stderr, "devplugctl: written down, but not in force yet: %s\n",
			error.message);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int command_cordon(const struct request *request)
{
	return run(request, add_cordons);
}

int command_uncordon(const struct request *request)
{
	return run(request, remove_cordons);
}
