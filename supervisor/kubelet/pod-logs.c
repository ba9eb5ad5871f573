/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which pods exist from the names of directories, which are not trusted: only the
 * characters that Kubernetes permits are accepted. Nothing below them is opened.
 */
#include "supervisor/kubelet/pod-logs.h"

#include <dirent.h>
#include <sys/stat.h>

/* Kubernetes' limits for names. */
#define NAMESPACE_MAX 63
#define POD_NAME_MAX  253
#define UID_MAX       64

#define LABEL_CHARS "abcdefghijklmnopqrstuvwxyz0123456789-"

static bool is_of(const char *text, size_t length, size_t maximum, const char *characters)
{
	return length > 0 && length <= maximum && strspn(text, characters) >= length;
}

static int add(json_t *pods, const char *name)
{
	const char *pod = strchr(name, '_'), *uid = strrchr(name, '_');
	size_t namespace_length, pod_length;

	if (!pod || uid == pod)
		return 0;
	namespace_length = (size_t)(pod++ - name);
	pod_length = (size_t)(uid++ - pod);
	if (!is_of(name, namespace_length, NAMESPACE_MAX, LABEL_CHARS) ||
		!is_of(pod, pod_length, POD_NAME_MAX, LABEL_CHARS ".") ||
		!is_of(uid, strlen(uid), UID_MAX, LABEL_CHARS))
		return 0;
	return json_object_set_new(pods, uid,
		json_pack("{s:s%, s:s%}", "namespace", name, namespace_length, "pod", pod,
			pod_length));
}

/* A directory that was removed on the host and made again is still mounted, and empty. */
static bool is_removed(DIR *stream)
{
	struct stat st;

	return fstat(dirfd(stream), &st) < 0 || st.st_nlink == 0;
}

json_t *pod_logs_read(const char *directory)
{
	json_auto_t *pods = json_object();
	const struct dirent *entry;
	DIR *stream = opendir(directory);
	int r = 0;

	if (!stream)
		return NULL;
	for (size_t i = 0; i < POD_LOGS_MAX && r >= 0; i++) {
		errno = 0;
		entry = readdir(stream);
		if (!entry) {
			r = -errno;
			break;
		}
		if (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN)
			r = add(pods, entry->d_name);
	}
	if (r >= 0 && is_removed(stream))
		r = -ENOENT;
	(void)closedir(stream);
	return r < 0 ? NULL : json_incref(pods);
}
