/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which files devplugd-cluster receives: the kubeconfig file, and only files that it names.
 * All are read each time, so no secret is kept in this process, and rotated credentials are used at
 * once.
 */
#include "supervisor/helpers/dra-credentials.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "common/sealed.h"
#include "dra/model/dra-kubeconfig.h"
#include "drivers/host/sysroot.h"

static void forget(char *text, size_t size)
{
	if (text)
		explicit_bzero(text, size);
	free(text);
}

/* A part of a token cannot be distinguished from a token. */
static int read_whole(int fd, char *text, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = RETRY_ON_EINTR(read(fd, text + done, size - done));

		if (n <= 0)
			return n < 0 ? -errno : -EAGAIN;
		done += (size_t)n;
	}
	text[size] = '\0';
	return 0;
}

static const char *describe(int error)
{
	return error == -EBADF     ? "not a regular file, or larger than 1 MiB"
		: error == -EAGAIN ? "the file was truncated while it was read"
				   : strerror(-error);
}

/* The file's bytes (malloc'ed), with a NUL behind them. The path is one below the root, which
 * symbolic links do not leave. */
static int read_file(const char *root, const char *path, char **ret, size_t *ret_size)
{
	_cleanup_close_ int fd = sysroot_open(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	char *text;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > (off_t)DRA_CREDENTIALS_MAX)
		return -EBADF;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	r = read_whole(fd, text, (size_t)st.st_size);
	if (r < 0) {
		forget(text, (size_t)st.st_size);
		return r;
	}
	*ret = text;
	*ret_size = (size_t)st.st_size;
	return 0;
}

static bool ends_word(char c)
{
	return strchr(" \t\r\n\"',{}[]", c) != NULL;
}

/* Whether the word stands alone in the text. The end of the text is a '\0', which strchr() finds.
 */
static bool has_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *found = strstr(text, word); found; found = strstr(found + 1, word))
		if ((found == text || ends_word(found[-1])) && ends_word(found[length]))
			return true;
	return false;
}

/* The path of a file that is named in the kubeconfig file, below the identity's root. */
static char *path_of(const struct dra_identity *identity, const char *word)
{
	const char *kubeconfig = identity->path + strlen(identity->root);
	char *path;

	if (word[0] == '/')
		return strdup(word);
	return format_text(&path, "%.*s%s", (int)(strrchr(kubeconfig, '/') + 1 - kubeconfig),
		       kubeconfig, word) < 0
		? NULL
		: path;
}

static int read_kubeconfig(
	const struct dra_identity *identity, char **ret, size_t *ret_size, struct error *error)
{
	const char *root = identity->root;
	int r;

	if (identity->kind == DRA_IDENTITY_ACCOUNT) {
		*ret = dra_identity_account_text();
		if (!*ret)
			return error_set(error, -ENOMEM, "out of memory");
		*ret_size = strlen(*ret);
		return 0;
	}
	r = read_file(root, identity->path + strlen(root), ret, ret_size);
	return r < 0 ? error_set(error, r, "cannot read %s: %s", identity->path, describe(r)) : 0;
}

static int open_named(const struct dra_identity *identity, const char *word, char **text,
	size_t *size, struct error *error)
{
	_cleanup_free_ char *path = path_of(identity, word), *named = *text;
	const char *root = identity->root;
	bool found = has_word(named, word);
	int r;

	explicit_bzero(named, *size);
	*text = NULL;
	if (!path)
		return error_set(error, -ENOMEM, "out of memory");
	if (!found)
		return error_set(error, -EPERM, "%s does not name %s", identity->path, path);
	r = read_file(root, path, text, size);
	return r < 0 ? error_set(error, r, "cannot read %s%s: %s", root, path, describe(r)) : 0;
}

int dra_credentials_open(const struct dra_identity *identity, const char *word, struct error *error)
{
	char *text = NULL;
	size_t size = 0;
	int r;

	if (identity->kind == DRA_IDENTITY_NONE)
		return error_set(error, -ENOENT, "no identity is chosen");
	r = read_kubeconfig(identity, &text, &size, error);
	if (r < 0)
		return r;
	if (*word)
		r = open_named(identity, word, &text, &size, error);
	if (r >= 0) {
		r = sealed_new("credentials", text, size);
		if (r < 0)
			(void)error_set(error, r, "cannot copy credentials: %s", strerror(-r));
	}
	forget(text, size);
	return r;
}
