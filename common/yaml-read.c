/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts the events of libyaml to a tree of jansson's. Aliases of anchors are refused, so that a
 * small file stays a small tree. An error names the line, and no content, which may be secret.
 */
#include "common/yaml-read.h"

#include <yaml.h>

#define DEPTH_MAX 32

struct reader {
	yaml_parser_t parser;
	const char *text;
	size_t size;
	struct error *error;
};

static int read_value(
	struct reader *reader, const yaml_event_t *event, unsigned depth, json_t **ret);

/* The number of a line of the text. libyaml's end of a text is on a line of its own. */
static size_t line_at(const struct reader *reader, const yaml_mark_t *mark)
{
	size_t line = 1;

	for (const char *p = reader->text, *end = p + reader->size; line <= mark->line; line++) {
		p = memchr(p, '\n', (size_t)(end - p));
		if (!p || ++p == end)
			break;
	}
	return line;
}

static int next_event(struct reader *reader, yaml_event_t *event)
{
	const yaml_parser_t *parser = &reader->parser;

	if (yaml_parser_parse(&reader->parser, event))
		return 0;
	if (parser->error == YAML_MEMORY_ERROR)
		return error_set(reader->error, -ENOMEM, "out of memory");
	return error_set(reader->error, -EBADMSG, "line %zu: %s",
		line_at(reader, &parser->problem_mark), parser->problem ?: "not valid YAML");
}

static int refuse(struct reader *reader, const yaml_event_t *event, int code, const char *reason)
{
	return error_set(
		reader->error, code, "line %zu: %s", line_at(reader, &event->start_mark), reason);
}

/* Reads the next value, or sets `ret` to NULL at an event of the type `end`. */
static int read_next(struct reader *reader, yaml_event_type_t end, unsigned depth, json_t **ret)
{
	yaml_event_t event;
	int r;

	r = next_event(reader, &event);
	if (r < 0)
		return r;
	*ret = NULL;
	if (event.type != end)
		r = read_value(reader, &event, depth, ret);
	yaml_event_delete(&event);
	return r;
}

static int read_sequence(struct reader *reader, unsigned depth, json_t *array)
{
	for (;;) {
		json_t *value;
		int r = read_next(reader, YAML_SEQUENCE_END_EVENT, depth, &value);

		if (r < 0 || !value)
			return r;
		if (json_array_append_new(array, value) < 0)
			return -ENOMEM;
	}
}

/* Reads the value of a key into the object. */
static int read_member(
	struct reader *reader, const yaml_event_t *key, unsigned depth, json_t *object)
{
	const char *name = (const char *)key->data.scalar.value;
	json_t *value;
	int r;

	if (key->type != YAML_SCALAR_EVENT)
		return refuse(reader, key, -EBADMSG, "a key is not a scalar");
	if (json_object_get(object, name))
		return refuse(reader, key, -EBADMSG, "a key occurs twice");
	r = read_next(reader, YAML_NO_EVENT, depth, &value);
	if (r < 0)
		return r;
	return json_object_set_new(object, name, value) < 0 ? -ENOMEM : 0;
}

static int read_mapping(struct reader *reader, unsigned depth, json_t *object)
{
	for (;;) {
		yaml_event_t key;
		bool ended;
		int r = next_event(reader, &key);

		if (r < 0)
			return r;
		ended = key.type == YAML_MAPPING_END_EVENT;
		if (!ended)
			r = read_member(reader, &key, depth, object);
		yaml_event_delete(&key);
		if (r < 0 || ended)
			return r;
	}
}

static int read_scalar(const yaml_event_t *event, json_t **ret)
{
	*ret = json_stringn((const char *)event->data.scalar.value, event->data.scalar.length);
	return *ret ? 0 : -ENOMEM;
}

static int read_value(
	struct reader *reader, const yaml_event_t *event, unsigned depth, json_t **ret)
{
	bool is_mapping = event->type == YAML_MAPPING_START_EVENT;
	json_t *value;
	int r;

	if (event->type == YAML_SCALAR_EVENT)
		return read_scalar(event, ret);
	if (!is_mapping && event->type != YAML_SEQUENCE_START_EVENT)
		return refuse(reader, event, -EOPNOTSUPP, "aliases of anchors are not supported");
	if (depth >= DEPTH_MAX)
		return refuse(reader, event, -EOPNOTSUPP, "it is nested too deeply");
	value = is_mapping ? json_object() : json_array();
	if (!value)
		return -ENOMEM;
	r = is_mapping ? read_mapping(reader, depth + 1, value)
		       : read_sequence(reader, depth + 1, value);
	if (r < 0)
		json_decref(value);
	else
		*ret = value;
	return r;
}

/* Skips the beginnings of the stream and of the document. */
static int read_document(struct reader *reader, json_t **ret)
{
	bool began = false;

	while (!began) {
		yaml_event_t event;
		int r = next_event(reader, &event);

		if (r < 0)
			return r;
		began = event.type == YAML_DOCUMENT_START_EVENT;
		if (event.type == YAML_STREAM_END_EVENT)
			r = refuse(reader, &event, -EBADMSG, "it is empty");
		yaml_event_delete(&event);
		if (r < 0)
			return r;
	}
	return read_next(reader, YAML_NO_EVENT, 0, ret);
}

int yaml_read(const char *text, size_t size, json_t **ret, struct error *error)
{
	struct reader reader = { .text = text, .size = size, .error = error };
	int r;

	if (!yaml_parser_initialize(&reader.parser))
		return error_set(error, -ENOMEM, "out of memory");
	yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, size);
	r = read_document(&reader, ret);
	yaml_parser_delete(&reader.parser);
	return r == -ENOMEM ? error_set(error, r, "out of memory") : r;
}
