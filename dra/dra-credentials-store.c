/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps files in memfds, which libcurl opens by their number. libcurl compares connections by path,
 * so a new text gets a different number.
 */
#include "dra/dra-credentials-store.h"

#include <fcntl.h>

#include "common/log.h"
#include "common/sealed.h"
#include "common/siphash.h"

#define FIRST_NUMBER 64
#define NUMBERS      64

static void forget_next(struct dra_credentials *credentials)
{
	dra_kubeconfig_done(&credentials->next);
	free(TAKE_PTR(credentials->next_path));
	for (enum dra_file file = 0; file < _DRA_FILE_MAX; file++) {
		if (credentials->next_texts[file])
			explicit_bzero(
				credentials->next_texts[file], credentials->next_sizes[file]);
		free(credentials->next_texts[file]);
		credentials->next_texts[file] = NULL;
		credentials->next_sizes[file] = 0;
	}
}

void dra_credentials_fail(struct dra_credentials *credentials, const char *reason)
{
	if (credentials->loaded_at > 0 && !streq(reason, credentials->failure))
		log_warning("the credentials for the API server stay as they were: %s", reason);
	(void)snprintf(credentials->failure, sizeof(credentials->failure), "%s", reason);
	credentials->loading = false;
	forget_next(credentials);
}

static struct dra_secret *secret_of(struct dra_credentials *credentials, enum dra_file file)
{
	struct dra_secret *const secrets[_DRA_FILE_MAX] = {
		[DRA_FILE_CA] = &credentials->next.ca,
		[DRA_FILE_CERTIFICATE] = &credentials->next.certificate,
		[DRA_FILE_KEY] = &credentials->next.key,
		[DRA_FILE_TOKEN] = &credentials->next.token,
	};

	return secrets[file];
}

static void want(struct dra_credentials *credentials, const char *word)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_FILE_WANTED);

	message.number = ++credentials->request;
	(void)snprintf(message.text, sizeof(message.text), "%s", word);
	(void)control_send(CONTROL_FD, &message);
}

void dra_credentials_load(struct dra_credentials *credentials)
{
	if (credentials->loading)
		return;
	credentials->loading = true;
	credentials->at = _DRA_FILE_MAX;
	want(credentials, "");
}

static void forget_text(struct dra_credentials *credentials, enum dra_file file)
{
	if (credentials->texts[file])
		explicit_bzero(credentials->texts[file], credentials->sizes[file]);
	free(credentials->texts[file]);
	credentials->texts[file] = NULL;
	credentials->sizes[file] = 0;
	credentials->fds[file] = close_fd(credentials->fds[file]);
}

static int make_file(struct dra_credentials *credentials, enum dra_file file)
{
	_cleanup_close_ int fd = -EBADF;
	int minimum = FIRST_NUMBER + (int)(credentials->generation % NUMBERS) * _DRA_FILE_MAX;

	if (file == DRA_FILE_TOKEN)
		return 0;
	fd = sealed_new("credentials", credentials->texts[file], credentials->sizes[file]);
	if (fd < 0)
		return fd;
	credentials->fds[file] = fcntl(fd, F_DUPFD_CLOEXEC, minimum);
	return credentials->fds[file] < 0 ? -errno : 0;
}

/* Takes the text, which is malloc'ed; NULL: there is no such file. */
static int put(struct dra_credentials *credentials, enum dra_file file, char *text, size_t size)
{
	const char *old = credentials->texts[file];

	if (text && old && credentials->sizes[file] == size && memcmp(old, text, size) == 0) {
		explicit_bzero(text, size);
		free(text);
		return 0;
	}
	if (text || old)
		credentials->generation++;
	forget_text(credentials, file);
	credentials->texts[file] = text;
	credentials->sizes[file] = size;
	return text ? make_file(credentials, file) : 0;
}

/* Loads the credentials in the kubeconfig file itself. */
static int take_inline(struct dra_credentials *credentials, enum dra_file file)
{
	const struct dra_secret *secret = secret_of(credentials, file);
	char *copy;

	if (!secret->data)
		return 0;
	copy = malloc(secret->size + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, secret->data, secret->size);
	copy[secret->size] = '\0';
	credentials->next_texts[file] = copy;
	credentials->next_sizes[file] = secret->size;
	return 0;
}

static void find_node(struct dra_credentials *credentials)
{
	const char *certificate = credentials->texts[DRA_FILE_CERTIFICATE];

	/* A user with a token has none, and the server judges one that is not valid. */
	if (!certificate ||
		dra_certificate_node(certificate, credentials->sizes[DRA_FILE_CERTIFICATE],
			credentials->node) < 0)
		credentials->node[0] = '\0';
}

/* Uses what was loaded. */
static int commit(struct dra_credentials *credentials)
{
	for (enum dra_file file = 0; file < _DRA_FILE_MAX; file++) {
		int r = put(credentials, file, TAKE_PTR(credentials->next_texts[file]),
			credentials->next_sizes[file]);

		if (r < 0)
			return r;
	}
	dra_kubeconfig_done(&credentials->config);
	credentials->config = credentials->next;
	credentials->next = (struct dra_kubeconfig){ 0 };
	free(credentials->path);
	credentials->path = TAKE_PTR(credentials->next_path);
	find_node(credentials);
	credentials->loading = credentials->outdated = false;
	credentials->failure[0] = '\0';
	return 0;
}

/* A kubelet's file has both, and may be replaced between two reads. */
static bool is_in_certificate(const struct dra_credentials *credentials)
{
	const char *certificate = credentials->next.certificate.file;
	const char *key = credentials->next.key.file;

	return certificate && key && streq(certificate, key);
}

static int copy_certificate(struct dra_credentials *credentials)
{
	size_t size = credentials->next_sizes[DRA_FILE_CERTIFICATE];
	char *copy = malloc(size + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, credentials->next_texts[DRA_FILE_CERTIFICATE], size);
	copy[size] = '\0';
	credentials->next_texts[DRA_FILE_KEY] = copy;
	credentials->next_sizes[DRA_FILE_KEY] = size;
	return 0;
}

static bool is_same(const struct dra_credentials *credentials, enum dra_file file)
{
	return streq(credentials->texts[file] ?: "", credentials->next_texts[file] ?: "");
}

/* Whether the certificate and the key that were read belong together, as far as that is known. */
static bool is_pair(struct dra_credentials *credentials)
{
	const struct dra_kubeconfig *next = &credentials->next;
	uint64_t pair = hash_foreign(credentials->next_texts[DRA_FILE_CERTIFICATE] ?: "") * 31 +
		hash_foreign(credentials->next_texts[DRA_FILE_KEY] ?: "");
	uint64_t before = credentials->seen_pair;

	credentials->seen_pair = pair;
	return credentials->loaded_at == 0 || credentials->outdated || pair == before ||
		!next->certificate.file || !next->key.file || is_in_certificate(credentials) ||
		(is_same(credentials, DRA_FILE_CERTIFICATE) && is_same(credentials, DRA_FILE_KEY));
}

/* Everything was read. */
static void finish(struct dra_credentials *credentials)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (!is_pair(credentials)) {
		credentials->loading = false;
		credentials->stale_at = now + DRA_CREDENTIALS_SETTLE;
		forget_next(credentials);
	} else if (commit(credentials) < 0) {
		/* Some files are old and some are new. */
		credentials->loaded_at = 0;
		dra_credentials_fail(credentials, "out of memory");
	} else {
		credentials->loaded_at = now;
		credentials->stale_at = now + DRA_CREDENTIALS_AGE;
	}
}

/* Continues with `at`. Returns whether everything is loaded. */
static bool advance(struct dra_credentials *credentials)
{
	for (; credentials->at < _DRA_FILE_MAX; credentials->at++) {
		const struct dra_secret *secret = secret_of(credentials, credentials->at);

		if (credentials->at == DRA_FILE_KEY && is_in_certificate(credentials)) {
			if (copy_certificate(credentials) < 0) {
				dra_credentials_fail(credentials, "out of memory");
				return true;
			}
			continue;
		}
		if (secret->file) {
			want(credentials, secret->file);
			return false;
		}
		if (take_inline(credentials, credentials->at) < 0) {
			dra_credentials_fail(credentials, "out of memory");
			return true;
		}
	}
	finish(credentials);
	return true;
}

static bool take_kubeconfig(
	struct dra_credentials *credentials, const char *path, const char *text, size_t size)
{
	struct error error = { 0 };

	forget_next(credentials);
	credentials->next_path = strdup(path);
	if (dra_kubeconfig_read(text, size, &credentials->next, &error) < 0) {
		error_prefix(&error, "%s", path);
		dra_credentials_fail(credentials, error.message);
		return true;
	}
	credentials->at = 0;
	return advance(credentials);
}

static void strip_end(char *text, size_t *size)
{
	while (*size > 0 && strchr(" \t\r\n", text[*size - 1]))
		text[--*size] = '\0';
}

bool dra_credentials_take(struct dra_credentials *credentials, struct control_message *message)
{
	bool kubeconfig = credentials->at == _DRA_FILE_MAX, done;
	const char *why = message->text;
	size_t size;
	char *text;

	if (!credentials->loading || message->number != credentials->request)
		return false;
	if (message->fds[0] >= 0 &&
		sealed_read(message->fds[0], DRA_CREDENTIALS_MAX, &text, &size) < 0) {
		why = "out of memory";
		message->fds[0] = close_fd(message->fds[0]);
	}
	if (message->fds[0] < 0) {
		dra_credentials_fail(credentials, why);
		return true;
	}
	if (kubeconfig) {
		done = take_kubeconfig(credentials, message->text, text, size);
		explicit_bzero(text, size);
		free(text);
		return done;
	}
	if (credentials->at == DRA_FILE_TOKEN)
		strip_end(text, &size);
	credentials->next_texts[credentials->at] = text;
	credentials->next_sizes[credentials->at] = size;
	credentials->at++;
	return advance(credentials);
}

const char *dra_credentials_path(
	const struct dra_credentials *credentials, enum dra_file file, char buffer[static 32])
{
	if (credentials->fds[file] < 0)
		return NULL;
	(void)snprintf(buffer, 32, "/proc/self/fd/%d", credentials->fds[file]);
	return buffer;
}

void dra_credentials_done(struct dra_credentials *credentials)
{
	for (enum dra_file file = 0; file < _DRA_FILE_MAX; file++)
		forget_text(credentials, file);
	dra_kubeconfig_done(&credentials->config);
	free(credentials->path);
	forget_next(credentials);
}
