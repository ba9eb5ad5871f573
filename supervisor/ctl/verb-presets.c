/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the presets, and prints one.
 */
#include <jansson.h>

#include "configuration/preset.h"
#include "supervisor/ctl/members.h"
#include "supervisor/ctl/table.h"
#include "supervisor/ctl/verb.h"

/* This result is not an error: the problems are already reported, and do not affect other
 * presets. */
#define UNUSABLE_PRESETS 1

/* The contents of a file (malloc'ed). */
static int read_file(const char *path, char **ret, struct error *error)
{
	_cleanup_fclose_ FILE *stream = fopen(path, "re");
	/* getdelim() writes nothing for an empty file. */
	_cleanup_free_ char *text = strdup("");
	size_t size = 1;

	if (!stream)
		return error_set(error, -errno, "cannot read %s: %s", path, strerror(errno));
	if (!text)
		return error_set(error, -ENOMEM, "out of memory");
	if (getdelim(&text, &size, '\0', stream) < 0 && ferror(stream))
		return error_set(error, -EIO, "cannot read %s: %s", path, strerror(errno));
	*ret = TAKE_PTR(text);
	return 0;
}

/* {"version", "presets": []} with the array. */
static json_t *document(json_t *presets)
{
	return json_pack("{s:i, s:O}", "version", DOCUMENT_VERSION, "presets", presets);
}

static int print_table(const json_t *presets, struct error *error)
{
	_cleanup_(table_freep) struct table *table = NULL;
	json_t *preset;
	size_t i;
	int r;

	r = table_new(2, &table);
	if (r < 0)
		return error_set(error, r, "out of memory");
	table_add(table, COLOUR_NONE, "PRESET");
	table_add(table, COLOUR_NONE, "FOR");
	json_array_foreach(presets, i, preset)
	{
		table_add(table, COLOUR_NONE, "%s", text_of(preset, "name"));
		table_add(table, COLOUR_NONE, "%s", text_of(preset, "summary"));
	}
	r = table_print(table);
	return r < 0 ? error_set(error, r, "out of memory") : 0;
}

static void print_error(const struct error *error)
{
	(void)fprintf(stderr, "devplugctl: %s\n", error->message);
}

static int show_presets(bool json, struct error *error)
{
	_cleanup_strings_ struct strings names = { 0 };
	json_auto_t *presets = json_array(), *root = document(presets);
	int r, failed = 0;

	r = preset_list(&names, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = NULL, *summary = NULL;
		struct error one = { 0 };

		r = preset_describe(names.items[i], &path, &summary, &one);
		if (r < 0) {
			print_error(&one);
			failed = UNUSABLE_PRESETS;
			continue;
		}
		(void)json_array_append_new(presets,
			json_pack("{s:s, s:s}", "name", names.items[i], "summary", summary));
	}
	r = json ? print_document(root, error) : print_table(presets, error);
	return r < 0 ? r : failed;
}

static int show_preset(const char *name, bool json, struct error *error)
{
	_cleanup_free_ char *path = NULL, *summary = NULL, *text = NULL;
	json_auto_t *presets = json_array(), *root = document(presets);
	int r;

	r = preset_describe(name, &path, &summary, error);
	if (r >= 0)
		r = read_file(path, &text, error);
	if (r < 0)
		return r;
	if (!json)
		return fputs(text, stdout) < 0 ? -EIO : 0;
	(void)json_array_append_new(presets,
		json_pack("{s:s, s:s, s:s}", "name", name, "summary", summary, "text", text));
	return print_document(root, error);
}

int finish_command(int r, const struct error *error)
{
	if (r < 0)
		print_error(error);
	return r != 0 || fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int command_presets(const struct command_line *line)
{
	struct error error = { 0 };
	int r = line->subject ? show_preset(line->subject, line->json, &error)
			      : show_presets(line->json, &error);

	return finish_command(r, &error);
}
