/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the drop-in that lets the service write to directories that its unit does not name
 * ("devplugctl allow"). The service sees the host read-only except for the paths in its unit, so a
 * kubelet with another root directory needs one; messages can name this one command. systemd must
 * read it ("daemon-reload"), which takes nodes that systemd does not know from running containers
 * with some releases of runc (opencontainers/runc#3671): then that is left to the user.
 */
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "common/replace-file.h"
#include "supervisor/ctl/verb.h"

#define DROP_IN_DIR "/etc/systemd/system/devplugd.service.d"
#define DROP_IN     DROP_IN_DIR "/60-allow.conf"
#define HEAD        "# Written by \"devplugctl allow\".\n[Service]\n"
#define LINE        "ReadWritePaths=-%s\n"

/* Whether systemd's unit files accept the text without quoting: no blanks, quotes, "%" or "\". */
#define SAFE "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@,=~"

static int check_directory(const char *directory, struct error *error)
{
	const char *dots = strstr(directory, "/..");

	if (*directory != '/' || directory[strspn(directory, "/")] == '\0' ||
		(dots && (dots[3] == '/' || dots[3] == '\0')))
		return error_set(error, -EINVAL,
			"the directory must be an absolute path without \"..\" and other than \"/\", not \"%s\"",
			directory);
	if (strlen(directory) >= PATH_MAX || directory[strspn(directory, SAFE)] != '\0')
		return error_set(error, -EINVAL,
			"the path \"%s\" contains characters that need quoting in a unit; write the drop-in with "
			"\"systemctl edit devplugd\"",
			directory);
	return 0;
}

static int make_directories(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		int r;

		*slash = '\0';
		r = mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
		*slash = '/';
		if (r < 0)
			return r;
	}
	return 0;
}

/* The text of the existing drop-in, or of a new one (malloc'ed). */
static int read_drop_in(const char *path, char **ret)
{
	_cleanup_fclose_ FILE *stream = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;

	if (!stream && errno != ENOENT)
		return -errno;
	if (stream && getdelim(&text, &size, '\0', stream) < 0) {
		free(text);
		return -EIO;
	}
	if (!text)
		text = strdup(HEAD);
	*ret = text;
	return text ? 0 : -ENOMEM;
}

/* Replaces the file as a whole. */
static int write_drop_in(const char *path, const char *text, const char *directory)
{
	_cleanup_free_ char *all = NULL;

	/* A command with "+" may write anywhere, but gets the same mounts: "-" lets it start. */
	if (format_text(&all, "%sExecStartPre=+/usr/bin/mkdir -p %s\n" LINE, text, directory,
		    directory) < 0)
		return -ENOMEM;
	return replace_file(AT_FDCWD, path, 0644, all, strlen(all));
}

/* Returns 1 if the directory was allowed before. */
static int add(const char *root, const char *directory, struct error *error)
{
	_cleanup_free_ char *path = NULL, *text = NULL, *line = NULL;
	int r;

	(void)format_text(&path, "%s" DROP_IN, root);
	if (!path || format_text(&line, "\n" LINE, directory) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	r = make_directories(path);
	if (r >= 0)
		r = read_drop_in(path, &text);
	if (r >= 0 && strstr(text, line))
		return 1;
	if (r >= 0)
		r = write_drop_in(path, text, directory);
	if (r < 0)
		return error_set(error, r, "cannot write %s: %s", path, strerror(-r));
	(void)printf("%s allows %s\n", path, directory);
	return 0;
}

/* Finds a node of NVIDIA's driver for which there is no link in /dev/char, by which systemd would
 * know it. Returns it (malloc'ed), or NULL. */
static char *find_unlinked_node(const char *root)
{
	_cleanup_free_ char *nodes_pattern = NULL, *caps_pattern = NULL;
	char *found = NULL;
	glob_t nodes = { 0 };

	if (format_text(&nodes_pattern, "%s/dev/nvidia*", root) < 0 ||
		format_text(&caps_pattern, "%s/dev/nvidia-caps/*", root) < 0)
		return NULL;
	(void)glob(nodes_pattern, 0, NULL, &nodes);
	(void)glob(caps_pattern, GLOB_APPEND, NULL, &nodes);
	for (size_t i = 0; i < nodes.gl_pathc && !found; i++) {
		_cleanup_free_ char *link = NULL;
		struct stat st;

		if (stat(nodes.gl_pathv[i], &st) < 0 || !S_ISCHR(st.st_mode))
			continue;
		(void)format_text(
			&link, "%s/dev/char/%u:%u", root, major(st.st_rdev), minor(st.st_rdev));
		if (link && access(link, F_OK) < 0)
			found = strdup(nodes.gl_pathv[i]);
	}
	globfree(&nodes);
	return found;
}

static int run_systemctl(struct error *error)
{
	char program[] = "systemctl", verb[] = "daemon-reload";
	char *const words[] = { program, verb, NULL };
	int status = 0, r;
	pid_t pid;

	r = posix_spawnp(&pid, program, NULL, NULL, words, environ);
	if (r == 0 && RETRY_ON_EINTR(waitpid(pid, &status, 0)) < 0)
		r = errno;
	if (r != 0 || status != 0)
		return error_set(error, -EIO,
			"the file is written, but \"systemctl daemon-reload\" failed: run it");
	return 0;
}

int command_allow(const struct command_line *line)
{
	_cleanup_free_ char *directory = strdup(line->subject), *unlinked = NULL;
	struct error error = { 0 };
	int r = 0;

	for (size_t n = directory ? strlen(directory) : 0; n > 1 && directory[n - 1] == '/';)
		directory[--n] = '\0';
	r = directory ? check_directory(directory, &error)
		      : error_set(&error, -ENOMEM, "out of memory");
	if (r >= 0)
		r = add(line->root ?: "", directory, &error);
	if (r > 0)
		(void)printf("%s is allowed already\n", directory);
	if (r >= 0)
		unlinked = find_unlinked_node(line->root ?: "");
	if (unlinked)
		(void)fprintf(stderr,
			"devplugctl: %s has no link in /dev/char, so containers that use the GPU may lose it "
			"when systemd reads its units again. Run \"nvidia-ctk system create-dev-char-symlinks "
			"--create-all\", then \"systemctl daemon-reload\" and \"systemctl restart devplugd\".\n",
			unlinked);
	if (r >= 0 && !line->root && unlinked)
		return EXIT_FAILURE;
	if (r >= 0 && !line->root)
		r = run_systemctl(&error);
	if (r < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return EXIT_FAILURE;
	}
	if (!line->root)
		(void)puts("This takes effect after \"systemctl restart devplugd\".");
	return fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
