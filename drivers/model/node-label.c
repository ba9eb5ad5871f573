/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which labels a resource may have: the form of Kubernetes, and the domains that both
 * node-feature-discovery and a kubelet may use.
 */
#include "drivers/model/node-label.h"

#include <ctype.h>

#include "drivers/model/declaration.h"
#include "drivers/model/template.h"

#define DOMAIN_MAX 253

/* Labels of other domains below these are refused. */
static const char *const reserved_domains[] = { "kubernetes.io", "k8s.io" };
static const char *const kubernetes_domains[] = { NODE_LABEL_DOMAIN, "profile.node.kubernetes.io" };

static bool ends_with(const char *text, size_t length, const char *end)
{
	size_t n = strlen(end);

	return length >= n && strncmp(text + length - n, end, n) == 0;
}

/* Whether it is the domain, or one below it. */
static bool is_below(const char *text, size_t length, const char *domain)
{
	size_t n = strlen(domain);

	return ends_with(text, length, domain) && (length == n || text[length - n - 1] == '.');
}

static bool is_domain(const char *text, size_t length)
{
	bool begins = true;

	if (length == 0 || length > DOMAIN_MAX || !isalnum((unsigned char)text[length - 1]))
		return false;
	for (size_t i = 0; i < length; i++) {
		bool letter =
			(text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9');

		if (begins ? !letter : !letter && text[i] != '-' && text[i] != '.')
			return false;
		if (text[i] == '.' && text[i - 1] == '-')
			return false;
		begins = text[i] == '.';
	}
	return true;
}

static bool is_allowed_domain(const char *text, size_t length)
{
	if (!is_domain(text, length))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(kubernetes_domains); i++)
		if (is_below(text, length, kubernetes_domains[i]))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(reserved_domains); i++)
		if (is_below(text, length, reserved_domains[i]))
			return false;
	return true;
}

static bool is_label_character(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.';
}

/* A label's value, or its name without the domain. */
static bool has_form(const char *text)
{
	size_t length = strlen(text);

	for (size_t i = 0; i < length; i++)
		if (!is_label_character(text[i]))
			return false;
	return length > 0 && length <= NODE_LABEL_MAX && isalnum((unsigned char)text[0]) &&
		isalnum((unsigned char)text[length - 1]);
}

static bool is_name(const char *text)
{
	const char *slash = strchr(text, '/');

	return slash ? is_allowed_domain(text, (size_t)(slash - text)) && has_form(slash + 1)
		     : has_form(text);
}

/* --- the configuration --- */

/* Variables that have a value only while devices are assigned to a container; ${n} has one here. */
static bool has_container_variable(const char *label)
{
	static const char *const names[] = { "${ids", "${info}", "${replica}", "${position}",
		"${capacity:", "${param:" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strstr(label, names[i]))
			return true;
	return false;
}

/* Where the domain of a template's name ends: at a "/" outside of variables. 0: it has none. The
 * name of `label` without variables is copied to `ret_blank`. Returns 0 or negative errno. */
static int find_domain(const char *label, char **ret_blank, size_t *ret_domain)
{
	_cleanup_free_ char *name = strndup(label, declaration_assigned_name(label));
	char *slash;
	int r;

	if (!name)
		return -ENOMEM;
	r = template_blank(name, ret_blank);
	if (r < 0)
		return r;
	slash = strchr(*ret_blank, '/');
	*ret_domain = slash ? (size_t)(slash - *ret_blank) : 0;
	return 0;
}

bool node_label_has_domain(const char *label)
{
	_cleanup_free_ char *blank = NULL;
	size_t domain;

	return find_domain(label, &blank, &domain) >= 0 && domain > 0;
}

int node_label_check(const char *label, struct error *error)
{
	_cleanup_free_ char *all = NULL, *blank = NULL;
	const char *count = strstr(label, "${n}");
	size_t length = 0, domain;

	/* A "=" of a variable is none. */
	if (template_blank(label, &all) >= 0 && strchr(all, '='))
		length = declaration_assigned_name(label);
	if (length == 0)
		return error_set(error, -EINVAL,
			"must be \"NAME=VALUE\", such as \"gpu.model=${model}\", not \"%s\"",
			label);
	if (find_domain(label, &blank, &domain) < 0)
		return error_set(
			error, -EINVAL, "has the invalid name \"%.*s\"", (int)length, label);
	if (has_container_variable(label))
		return error_set(error, -EINVAL,
			"has a variable that has a value only while devices are assigned to a "
			"container; ${n} is the number of devices with the label");
	if (count && (size_t)(count - label) < length)
		return error_set(error, -EINVAL, "has ${n} in its name; use it in the value");
	if (strncmp(label, blank, domain) != 0)
		return error_set(error, -EINVAL,
			"has a variable in its domain; use variables after the \"/\" only");
	if (domain > 0 && is_domain(blank, domain) && !is_allowed_domain(blank, domain))
		return error_set(error, -EINVAL,
			"has the domain \"%.*s\", which is reserved for Kubernetes: use a domain of your own, or none",
			(int)domain, blank);
	if (!is_name(blank))
		return error_set(error, -EINVAL,
			"has the name \"%.*s\": a name has letters, digits, \"-\", \"_\" and \".\", and "
			"up to %d of them after \"DOMAIN/\"",
			(int)length, label, NODE_LABEL_MAX);
	return 0;
}

/* --- names and values --- */

void node_label_make(const char *text, bool domain, char ret[static NODE_LABEL_NAME_MAX + 1])
{
	const char *slash = domain ? strchr(text, '/') : NULL;
	size_t begin = slash ? MIN_OF((size_t)(slash + 1 - text), DOMAIN_MAX + 1U) : 0;
	size_t length = begin;

	memcpy(ret, text, begin);
	for (const char *p = text + begin; *p && length < begin + NODE_LABEL_MAX; p++) {
		char c = is_label_character(*p) ? *p : '-';

		if (length == begin && !isalnum((unsigned char)c))
			continue;
		if (c == '-' && *p != '-' && length > begin && ret[length - 1] == '-')
			continue;
		ret[length++] = c;
	}
	while (length > begin && !isalnum((unsigned char)ret[length - 1]))
		length--;
	ret[length] = '\0';
}

/* Whether the name can be an expansion of the template's. */
static bool can_be(const char *template, const char *resource, const char *name)
{
	_cleanup_free_ char *pattern = strndup(template, declaration_assigned_name(template));
	_cleanup_free_ char *prefix = NULL;
	const char *rest, *more;

	if (!pattern || template_prefix(pattern, resource, &prefix, &rest) < 0)
		return false;
	more = startswith(name, prefix);
	return more && (*rest || !*more) && node_label_has_domain(template) == !!strchr(name, '/');
}

bool node_label_is_declared(const char *name, const struct strings *templates, const char *resource)
{
	for (size_t i = 0; i < templates->count; i++)
		if (is_name(name) && can_be(templates->items[i], resource, name))
			return true;
	return false;
}

static bool is_line(char *line, const struct strings *templates, const char *resource)
{
	char *equals = strchr(line, '=');

	if (!equals)
		return false;
	*equals = '\0';
	return node_label_is_declared(line, templates, resource) &&
		(equals[1] == '\0' || has_form(equals + 1));
}

int node_labels_check(const char *text, const struct strings *templates, const char *resource)
{
	_cleanup_free_ char *copy = strdup(text);
	char *line = copy;

	if (!copy || strlen(text) > NODE_LABELS_SIZE_MAX)
		return copy ? -EBADMSG : -ENOMEM;
	while (*line) {
		char *end = strchr(line, '\n');

		if (!end)
			return -EBADMSG;
		*end = '\0';
		if (!is_line(line, templates, resource))
			return -EBADMSG;
		line = end + 1;
	}
	return 0;
}
