/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the containers of pods by the mounts of processes. Processes of one mount namespace belong
 * to one container, so only the first of them is read. A process may end at any time; then it
 * is left out.
 */
#include "supervisor/ctl/container-list.h"

#include <ctype.h>
#include <dirent.h>
#include <sys/stat.h>

/* "/var/lib/kubelet/pods/UID/containers/NAME/ID", or without the part that is a mount itself. */
#define BEFORE_UID  "/pods/"
#define BEFORE_NAME "/containers/"

int container_of_mount(const char *line, char **ret_pod_uid, char **ret_name)
{
	_cleanup_free_ char *uid = NULL, *name = NULL;
	char root[4096];
	const char *start, *middle, *end;

	if (sscanf(line, "%*d %*d %*s %4095s", root) != 1)
		return 0;
	start = strstr(root, BEFORE_UID);
	middle = start ? strstr(start, BEFORE_NAME) : NULL;
	if (!middle)
		return 0;
	start += strlen(BEFORE_UID);
	end = strchr(middle + strlen(BEFORE_NAME), '/');
	if (middle <= start || memchr(start, '/', (size_t)(middle - start)) || !end)
		return 0;
	uid = strndup(start, (size_t)(middle - start));
	middle += strlen(BEFORE_NAME);
	name = strndup(middle, (size_t)(end - middle));
	if (!uid || !name)
		return -ENOMEM;
	*ret_pod_uid = TAKE_PTR(uid);
	*ret_name = TAKE_PTR(name);
	return 1;
}

/* Adds the container of a process, if it is in one. */
static int add_process(struct container_list *list, const char *directory, pid_t pid)
{
	_cleanup_free_ char *path = NULL, *line = NULL;
	_cleanup_fclose_ FILE *stream = NULL;
	struct running_container found = { .pid = pid };
	size_t size = 0;
	int r = 0;

	if (format_text(&path, "%s/mountinfo", directory) < 0)
		return -ENOMEM;
	stream = fopen(path, "re");
	while (stream && r == 0 && getline(&line, &size, stream) >= 0)
		r = container_of_mount(line, &found.pod_uid, &found.name);
	if (r <= 0)
		return r;
	r = array_reserve((void **)&list->items, list->count, sizeof(found));
	if (r < 0) {
		free(found.pod_uid);
		free(found.name);
		return r;
	}
	list->items[list->count++] = found;
	return 0;
}

struct namespaces {
	ino_t *items;
	size_t count;
};

/* Whether another process of the mount namespace was seen, and if not, notes it. */
static int is_seen(struct namespaces *seen, const char *directory)
{
	_cleanup_free_ char *path = NULL;
	struct stat st;
	int r;

	if (format_text(&path, "%s/ns/mnt", directory) < 0)
		return -ENOMEM;
	if (stat(path, &st) < 0)
		return 1;
	for (size_t i = 0; i < seen->count; i++)
		if (seen->items[i] == st.st_ino)
			return 1;
	r = array_reserve((void **)&seen->items, seen->count, sizeof(seen->items[0]));
	if (r < 0)
		return r;
	seen->items[seen->count++] = st.st_ino;
	return 0;
}

static int read_process(
	struct container_list *list, struct namespaces *seen, const char *proc, const char *name)
{
	_cleanup_free_ char *directory = NULL;
	int r;

	if (!isdigit((unsigned char)*name))
		return 0;
	if (format_text(&directory, "%s/%s", proc, name) < 0)
		return -ENOMEM;
	r = is_seen(seen, directory);
	return r == 0 ? add_process(list, directory, (pid_t)atoi(name)) : MIN_OF(r, 0);
}

int container_list_read(const char *proc, struct container_list *ret)
{
	struct container_list list = { 0 };
	struct namespaces seen = { 0 };
	const struct dirent *entry;
	DIR *stream = opendir(proc);
	int r = 0;

	if (!stream)
		return -errno;
	while (r >= 0 && (entry = readdir(stream)))
		r = read_process(&list, &seen, proc, entry->d_name);
	(void)closedir(stream);
	free(seen.items);
	if (r < 0) {
		container_list_done(&list);
		return r;
	}
	*ret = list;
	return 0;
}

const struct running_container *container_list_find(
	const struct container_list *list, const char *pod_uid, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
		if (streq(list->items[i].pod_uid, pod_uid) && streq(list->items[i].name, name))
			return &list->items[i];
	return NULL;
}

void container_list_done(struct container_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->items[i].pod_uid);
		free(list->items[i].name);
	}
	free(list->items);
	*list = (struct container_list){ 0 };
}
