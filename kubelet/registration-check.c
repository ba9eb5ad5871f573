/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names are checked as the kubelet does: as the quota resource "requests.<name>", which must be a
 * qualified name. Hence the odd limit of 244 bytes for the part before the slash.
 */
#include "kubelet/registration-check.h"

#include "kubelet/plugin-text.h"
#include "proto/methods.h"

#define QUOTA_PREFIX  "requests."
#define SUBDOMAIN_MAX 253
#define NAME_MAX_SIZE 63

static bool is_lower_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_alnum(char c)
{
	return is_lower_alnum(c) || (c >= 'A' && c <= 'Z');
}

/* Labels of lower case letters, digits and inner dashes, joined by dots. */
static bool is_subdomain(const char *text, size_t size)
{
	if (size == 0)
		return false;
	for (size_t i = 0; i < size; i++) {
		bool first = i == 0 || text[i - 1] == '.';
		bool last = i + 1 == size || text[i + 1] == '.';

		if (is_lower_alnum(text[i]))
			continue;
		if (text[i] != '-' && text[i] != '.')
			return false;
		if (first || last)
			return false;
	}
	return true;
}

static bool is_name(const char *text, size_t size)
{
	if (size == 0 || size > NAME_MAX_SIZE || !is_alnum(text[0]) || !is_alnum(text[size - 1]))
		return false;
	for (size_t i = 0; i < size; i++)
		if (!is_alnum(text[i]) && text[i] != '-' && text[i] != '_' && text[i] != '.')
			return false;
	return true;
}

bool resource_name_is_valid(const char *name)
{
	const char *slash = strchr(name, '/');
	size_t prefix;

	if (!slash || strstr(name, "kubernetes.io/") || startswith(name, QUOTA_PREFIX))
		return false;
	prefix = (size_t)(slash - name);
	return prefix + strlen(QUOTA_PREFIX) <= SUBDOMAIN_MAX && is_subdomain(name, prefix) &&
		is_name(slash + 1, strlen(slash + 1));
}

bool driver_name_is_valid(const char *name)
{
	size_t length = strlen(name);

	return length <= NAME_MAX_SIZE && is_subdomain(name, length);
}

int registration_check(const char *version, const char *resource, struct error *error)
{
	char quoted[360];

	if (!streq(version, DEVICE_PLUGIN_VERSION))
		return error_set(error, -EPROTONOSUPPORT,
			"requested API version %s is not supported by kubelet. Supported version is [\"%s\"]",
			text_quote(quoted, sizeof(quoted), version), DEVICE_PLUGIN_VERSION);
	if (!resource_name_is_valid(resource))
		return error_set(error, -EINVAL, "the ResourceName %s is invalid",
			text_quote(quoted, sizeof(quoted), resource));
	return 0;
}

int registration_check_info(
	const char *name, char *const *versions, size_t n_versions, struct error *error)
{
	char quoted[360], list[200] = "";
	size_t used = 0;

	for (size_t i = 0; i < n_versions; i++)
		if (streq(versions[i], DEVICE_PLUGIN_VERSION)) {
			if (resource_name_is_valid(name))
				return 0;
			return error_set(error, -EINVAL,
				"invalid name of device plugin socket: the ResourceName %s is invalid",
				text_quote(quoted, sizeof(quoted), name));
		}
	for (size_t i = 0; i < n_versions && used < sizeof(list) - 1; i++) {
		int n = snprintf(
			list + used, sizeof(list) - used, "%s%s", i > 0 ? " " : "", versions[i]);

		used += n > 0 ? (size_t)n : 0;
	}
	return error_set(error, -EPROTONOSUPPORT,
		"manager version, %s, is not among plugin supported versions [%s]",
		DEVICE_PLUGIN_VERSION, list);
}

char *endpoint_path(const char *plugin_dir, const char *endpoint)
{
	size_t size = strlen(plugin_dir) + strlen(endpoint) + 2;
	_cleanup_free_ char *joined = malloc(size);
	char *path = malloc(size);
	char *end = path, *save = NULL;

	if (!joined || !path) {
		free(path);
		return NULL;
	}
	(void)snprintf(joined, size, "%s/%s", plugin_dir, endpoint);
	for (char *part = strtok_r(joined, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
		if (streq(part, "."))
			continue;
		if (!streq(part, "..")) {
			*end++ = '/';
			end = stpcpy(end, part);
			continue;
		}
		while (end > path && *--end != '/')
			;
	}
	if (end == path)
		*end++ = '/';
	*end = '\0';
	return path;
}
