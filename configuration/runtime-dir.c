/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds `runtime_dir` in a text that need not be valid: the directory contains the last good
 * configuration, which is needed exactly when the file is broken. Only the statement with the value
 * itself must be valid.
 */
#include <ctype.h>
#include <fcntl.h>

#include "configuration/config.h"
#include "configuration/source.h"

static const char *skip_comment(const char *p)
{
	const char *end;

	if (!startswith(p, "/*"))
		return p + strcspn(p, "\n");
	end = strstr(p + 2, "*/");
	return end ? end + 2 : p + strlen(p);
}

static const char *skip_blank(const char *p)
{
	for (;;) {
		p += strspn(p, " \t\r\n\f");
		if (*p != '#' && !startswith(p, "//") && !startswith(p, "/*"))
			return p;
		p = skip_comment(p);
	}
}

static const char *skip_string(const char *p)
{
	for (p++; *p && *p != '"'; p++)
		if (*p == '\\' && p[1])
			p++;
	return *p ? p + 1 : p;
}

static const char *skip_word(const char *p)
{
	while (isalnum((unsigned char)*p) || *p == '_' || *p == '-' || *p == '*')
		p++;
	return p;
}

/* The string behind the key's name: "= "/run/x"". */
static int take_value(const char *p, char **value)
{
	size_t length;
	char *copy;

	p = skip_blank(p);
	if (*p != '=' && *p != ':')
		return 0;
	p = skip_blank(p + 1);
	if (*p != '"' || p[1] != '/')
		return 0;
	length = strcspn(p + 1, "\"\\\n");
	if (p[1 + length] != '"')
		return 0;
	copy = strndup(p + 1, length);
	if (!copy)
		return -ENOMEM;
	while (length > 1 && copy[length - 1] == '/')
		copy[--length] = '\0';
	free(*value);
	*value = copy;
	return 0;
}

static int scan(const char *p, char **value)
{
	static const char key[] = "runtime_dir";
	unsigned depth = 0;
	int r = 0;

	while (r >= 0 && *(p = skip_blank(p))) {
		const char *word = p;

		if (*p == '"') {
			p = skip_string(p);
		} else if (skip_word(p) > p) {
			p = skip_word(p);
			if (depth == 0 && (size_t)(p - word) == strlen(key) &&
				startswith(word, key))
				r = take_value(p, value);
		} else {
			if (strchr("({[", *p))
				depth++;
			else if (strchr(")}]", *p) && depth > 0)
				depth--;
			p++;
		}
	}
	return r;
}

static int scan_file(const char *path, char **value)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	_cleanup_free_ char *text = malloc(CONFIG_FILE_MAX + 1);
	size_t size = 0;
	ssize_t n = 1;

	if (!text)
		return -ENOMEM;
	while (fd >= 0 && n > 0 && size < CONFIG_FILE_MAX) {
		n = RETRY_ON_EINTR(read(fd, text + size, CONFIG_FILE_MAX - size));
		if (n > 0)
			size += (size_t)n;
	}
	text[size] = '\0';
	return scan(text, value);
}

static int scan_all(const char *path, char **value)
{
	_cleanup_strings_ struct strings drop_ins = { 0 };
	_cleanup_report_ struct report report = { 0 };
	int r;

	r = scan_file(path, value);
	/* Drop-ins that cannot be listed cannot override it. */
	if (r < 0 || config_list_drop_ins(path, &report, &drop_ins) == -ENOMEM)
		return -ENOMEM;
	for (size_t i = 0; i < drop_ins.count && r >= 0; i++)
		r = scan_file(drop_ins.items[i], value);
	return r;
}

int config_find_runtime_dir(const char *path, char **ret)
{
	_cleanup_config_ struct config *config = NULL;
	_cleanup_report_ struct report report = { 0 };
	_cleanup_free_ char *found = NULL;
	const char *given = getenv("RUNTIME_DIRECTORY");

	/* A valid file may set it in a form that only the parser understands. */
	if (config_load(path, &report, &config) >= 0)
		found = strdup(config->runtime_dir);
	else if (scan_all(path, &found) < 0)
		return -ENOMEM;
	else if (!found && given && given[0] == '/')
		/* The variable may contain several directories, separated by colons. */
		found = strndup(given, strcspn(given, ":"));
	else if (!found)
		found = strdup(DEFAULT_RUNTIME_DIR);
	if (!found)
		return -ENOMEM;
	*ret = TAKE_PTR(found);
	return 0;
}
