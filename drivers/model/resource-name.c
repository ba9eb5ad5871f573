/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a resource name is valid: the rule for names of extended resources, as the
 * kubelet applies it to a registration, so that a name that passes here is never refused there. The
 * prefix is bounded because "requests." + prefix must be a DNS subdomain of at most 253 bytes.
 */
#include "common/error.h"
#include "drivers/model/declaration.h"

#define PREFIX_MAX 244
#define TYPE_MAX   63

static bool is_lower_alphanumeric(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_alphanumeric(char c)
{
	return is_lower_alphanumeric(c) || (c >= 'A' && c <= 'Z');
}

/* The domain before the slash: labels of [a-z0-9-] that neither begin nor end with '-'. */
static int prefix_check(const char *name, size_t length, struct error *error)
{
	char previous = '.';

	if (length == 0)
		return error_set(error, -EINVAL,
			"\"%s\" has nothing before the \"/\": add a domain that you own, such as \"vendor.example%s\"",
			name, name);
	if (length > PREFIX_MAX)
		return error_set(error, -EINVAL,
			"the part before the \"/\" is %zu bytes long, the maximum is %d", length,
			PREFIX_MAX);
	for (size_t i = 0; i <= length; i++) {
		char c = i < length ? name[i] : '.';

		if (c >= 'A' && c <= 'Z')
			return error_set(error, -EINVAL,
				"\"%s\" has an upper-case letter before the \"/\": write the domain in lower case",
				name);
		if (!is_lower_alphanumeric(c) && c != '-' && c != '.')
			return error_set(error, -EINVAL,
				"\"%s\" must have only lower-case letters, digits, \"-\" and \".\" "
				"before the \"/\"",
				name);
		if (!is_lower_alphanumeric(previous) && !is_lower_alphanumeric(c) &&
			(c == '.' || previous == '.'))
			return error_set(error, -EINVAL,
				"\"%s\" must have a letter or digit at the beginning and end of "
				"each part of the domain before the \"/\"",
				name);
		previous = c;
	}
	return 0;
}

static int type_check(const char *name, const char *type, struct error *error)
{
	size_t length = strlen(type);

	if (length == 0)
		return error_set(error, -EINVAL,
			"\"%s\" has nothing after the \"/\": add the type of device, such as \"gpu\"",
			name);
	if (length > TYPE_MAX)
		return error_set(error, -EINVAL,
			"the part after the \"/\" is %zu bytes long, the maximum is %d", length,
			TYPE_MAX);
	for (const char *p = type; *p; p++)
		if (!is_alphanumeric(*p) && !strchr("-_.", *p))
			return error_set(error, -EINVAL,
				"\"%s\" must have only letters, digits, \"-\", \"_\" and \".\" "
				"after the \"/\"",
				name);
	if (!is_alphanumeric(type[0]) || !is_alphanumeric(type[length - 1]))
		return error_set(error, -EINVAL,
			"\"%s\" must have a letter or digit first and last after the \"/\"", name);
	return 0;
}

int resource_name_check(const char *name, struct error *error)
{
	const char *slash = strchr(name, '/');
	int r;

	if (!slash)
		return error_set(error, -EINVAL,
			"\"%s\" has no \"/\": write DOMAIN/TYPE with a domain that you own, such as \"vendor.example/%s\"",
			name, name);
	if (strstr(name, "kubernetes.io/"))
		return error_set(error, -EINVAL,
			"\"%s\" is under kubernetes.io, which belongs to Kubernetes: use a domain that you own, such as \"vendor.example\"",
			name);
	if (strchr(slash + 1, '/'))
		return error_set(error, -EINVAL,
			"\"%s\" has more than one \"/\": write DOMAIN/TYPE, such as "
			"\"vendor.example/gpu\"",
			name);
	if (startswith(name, "requests."))
		return error_set(error, -EINVAL,
			"\"%s\" begins with \"requests.\", which quotas of Kubernetes use: choose "
			"another domain",
			name);
	r = prefix_check(name, (size_t)(slash - name), error);
	return r < 0 ? r : type_check(name, slash + 1, error);
}
