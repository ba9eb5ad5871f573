/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a configured string (path, variable name, CDI name and others) is valid. The
 * syntax of templates is checked before (template_check()), so here each variable stands for one
 * letter, and only the text around them is checked.
 */
#include <ctype.h>

#include "drivers/model/form.h"
#include "drivers/model/template.h"

bool form_is_pattern(const char *pattern)
{
	return strpbrk(pattern, "*?[\\") != NULL;
}

const char *form_pattern_mistake(const char *pattern)
{
	static const struct {
		const char *text, *directory, *mistake;
	} mistakes[] = {
		/* A name of a device node has no dot. */
		{ ".*", "/dev/", "\"*\" alone stands for any text, so leave out the \".\"" },
		{ "]+", "", "\"+\" stands for itself: write \"*\", or a pattern for each length" },
		{ "\\d", "", "\"\\d\" stands for a \"d\": write \"[0-9]\"" },
		{ ",/", "", "it is one path: write an entry of `match` for each" },
		{ " /", "", "it is one path: write an entry of `match` for each" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(mistakes); i++)
		if (strstr(pattern, mistakes[i].text) && startswith(pattern, mistakes[i].directory))
			return mistakes[i].mistake;
	return NULL;
}

bool form_is_pci_address(const char *text)
{
	size_t domain = strspn(text, "0123456789abcdef");
	static const char form[] = ":xx:xx.o";

	if (domain < 4 || domain > 8 || strlen(text) != domain + sizeof(form) - 1)
		return false;
	for (size_t i = 0; form[i]; i++) {
		char c = text[domain + i];
		bool hex = isdigit((unsigned char)c) || (c >= 'a' && c <= 'f');

		if (form[i] == 'x' ? !hex : form[i] == 'o' ? c < '0' || c > '7' : c != form[i])
			return false;
	}
	return true;
}

static bool is_alphanumeric(char c)
{
	return isascii((unsigned char)c) && isalnum((unsigned char)c);
}

/* Whether all of the first `length` bytes are letters, digits or among `others`. */
static bool consists_of(const char *text, size_t length, const char *others)
{
	for (size_t i = 0; i < length; i++)
		if (!is_alphanumeric(text[i]) && !strchr(others, text[i]))
			return false;
	return true;
}

static bool has_dot_dot(const char *path)
{
	while (path) {
		const char *tail = startswith(path, "..");

		if (tail && (*tail == '/' || *tail == '\0'))
			return true;
		path = strchr(path, '/');
		if (path)
			path++;
	}
	return false;
}

static int check_path(const char *value, bool absolute, struct error *error)
{
	if (!absolute)
		return error_set(error, -EINVAL,
			"must be an absolute path beginning with \"/\", not \"%s\"", value);
	if (has_dot_dot(value))
		return error_set(error, -EINVAL,
			"must not contain \"..\" as \"%s\" does: write the resulting path", value);
	return 0;
}

int form_absolute_path(const char *value, struct error *error)
{
	return check_path(value, value[0] == '/', error);
}

int form_template_path(const char *value, struct error *error)
{
	return check_path(value, value[0] == '/' || startswith(value, "${"), error);
}

int form_device_text(const char *value, struct error *error)
{
	if (template_is_per_allocation(value))
		return error_set(error, -EINVAL,
			"must not use ${ids}, ${n}, ${info}, ${replica}, ${position}, ${capacity} or ${param:NAME} as \"%s\" "
			"does: they have a value only while devices are assigned to a container; "
			"${id} is the device's id",
			value);
	return 0;
}

int form_device_path(const char *value, struct error *error)
{
	int r = form_template_path(value, error);

	return r < 0 ? r : form_device_text(value, error);
}

int form_node_path(const char *value, struct error *error)
{
	return form_template_path(value[0] == '?' ? value + 1 : value, error);
}

#define ENVIRONMENT_OTHERS "_-."
#define ANNOTATION_OTHERS  "_-./"

static bool name_valid(const char *text, size_t length, const char *others)
{
	return length > 0 && !isdigit((unsigned char)text[0]) && consists_of(text, length, others);
}

static int form_name(const char *value, const char *others, struct error *error)
{
	if (!name_valid(value, strlen(value), others))
		return error_set(error, -EINVAL,
			"must be a name of letters, digits and \"%s\", not beginning with a digit, "
			"not \"%s\"",
			others, value);
	return 0;
}

int form_environment_name(const char *value, struct error *error)
{
	return form_name(value, ENVIRONMENT_OTHERS, error);
}

int form_annotation_name(const char *value, struct error *error)
{
	return form_name(value, ANNOTATION_OTHERS, error);
}

/* Checks "name=value" where the name has letters, digits and `others`. */
static int form_assignment(
	const char *value, const char *others, const char *example, struct error *error)
{
	_cleanup_free_ char *blank = NULL;
	size_t length;
	int r;

	r = template_blank(value, &blank);
	if (r < 0)
		return error_set(error, r, "\"%s\" cannot be read", value);
	length = strcspn(blank, "=");
	if (blank[length] != '=')
		return error_set(
			error, -EINVAL, "must have the form \"%s\", not \"%s\"", example, value);
	if (!name_valid(blank, length, others))
		return error_set(error, -EINVAL,
			"must have a name of letters, digits and \"%s\" before the \"=\", not "
			"beginning with a digit, unlike \"%s\"",
			others, value);
	return 0;
}

int form_environment(const char *value, struct error *error)
{
	return form_assignment(value, ENVIRONMENT_OTHERS, "NAME=value", error);
}

int form_annotation(const char *value, struct error *error)
{
	return form_assignment(value, ANNOTATION_OTHERS, "vendor.example/name=value", error);
}

/* A part of a CDI name: bounded by a letter and a letter or digit. */
static bool cdi_part(const char *text, size_t length, const char *others, bool letter_first)
{
	if (length == 0 || !is_alphanumeric(text[0]) || !is_alphanumeric(text[length - 1]))
		return false;
	if (letter_first && isdigit((unsigned char)text[0]))
		return false;
	return consists_of(text, length, others);
}

static bool cdi_name(const char *text)
{
	const char *slash = strchr(text, '/');
	const char *equals = slash ? strchr(slash, '=') : NULL;

	return equals && cdi_part(text, (size_t)(slash - text), "_-.", true) &&
		cdi_part(slash + 1, (size_t)(equals - slash) - 1, "_-.", true) &&
		cdi_part(equals + 1, strlen(equals + 1), "_-.:", false);
}

int form_cdi_name(const char *value, struct error *error)
{
	if (!cdi_name(value))
		return error_set(error, -EINVAL,
			"must be a CDI device name, VENDOR/CLASS=DEVICE, such as "
			"\"vendor.example/gpu=0\", not \"%s\"",
			value);
	return 0;
}

int form_cdi(const char *value, struct error *error)
{
	_cleanup_free_ char *blank = NULL;
	int r;

	r = template_blank(value, &blank);
	if (r < 0)
		return error_set(error, r, "\"%s\" cannot be read", value);
	if (!cdi_name(blank))
		return error_set(error, -EINVAL,
			"must be a CDI device name, VENDOR/CLASS=DEVICE, such as "
			"\"vendor.example/gpu=${id}\", not \"%s\"",
			value);
	return 0;
}

int form_cdi_kind(const char *value, struct error *error)
{
	const char *slash = strchr(value, '/');

	if (!slash || !cdi_part(value, (size_t)(slash - value), "_-.", true) ||
		!cdi_part(slash + 1, strlen(slash + 1), "_-.", true))
		return error_set(error, -EINVAL,
			"must be VENDOR/CLASS of the Container Device Interface, each of letters, digits "
			"and \"_-.\", such as \"vendor.example/gpu\", not \"%s\"",
			value);
	return 0;
}

int form_user(const char *value, struct error *error)
{
	size_t length = strlen(value);

	if (value[0] == '-' || !consists_of(value, length, "_-.@"))
		return error_set(
			error, -EINVAL, "must be the name or number of a user, not \"%s\"", value);
	return 0;
}

int form_pci_address(const char *value, struct error *error)
{
	if (strspn(value, "0123456789abcdef:.*?[]!-") != strlen(value))
		return error_set(error, -EINVAL,
			"must be a PCI address, such as \"0000:03:00.0\", or a pattern of it, in "
			"lower case, not \"%s\"",
			value);
	if (!form_is_pattern(value) && !form_is_pci_address(value))
		return error_set(error, -EINVAL,
			"must be a whole PCI address with its domain, such as \"0000:03:00.0\", not "
			"\"%s\"",
			value);
	return 0;
}

int form_pci_address_or_name(const char *value, struct error *error)
{
	return strchr(value, ':') ? form_pci_address(value, error) : 0;
}

static bool is_dns_name(const char *name)
{
	for (const char *label = name;; label++) {
		size_t length = strspn(label, "abcdefghijklmnopqrstuvwxyz0123456789-");

		if (length == 0 || label[0] == '-' || label[length - 1] == '-')
			return false;
		label += length;
		if (*label != '.')
			return *label == '\0';
	}
}

int form_dns_name(const char *value, struct error *error)
{
	if (is_dns_name(value))
		return 0;
	return error_set(error, -EINVAL,
		"must be a DNS name in lower case, such as \"devices.vendor.example\", not \"%s\"",
		value);
}
