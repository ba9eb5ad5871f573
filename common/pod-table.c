/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and checks the text in which one process sends another the devices of containers: a single
 * malformed line makes the whole table invalid. The lines are counted first, so that the rows never
 * move and can point to each other.
 */
#include "common/pod-table.h"

#include "common/sealed.h"
#include "common/text.h"

#define FIELDS_MAX 5

enum word {
	WORD_CONTAINER,
	WORD_DEVICE,
	WORD_ID,
	WORD_MEMORY,
	WORD_CLAIM,
	_WORD_MAX,
};

/* While it is read. */
struct parser {
	struct pod_table *table;
	struct pod_container *container; /* NULL before the first */
	const char *resource, *nodes;    /* NULL before the container's first */
};

static bool is_number_list(const char *text)
{
	return text[strspn(text, "0123456789,-")] == '\0';
}

static int take_container(struct parser *parser, const char *const fields[])
{
	struct pod_table *table = parser->table;

	if (!is_number_list(fields[3]))
		return -EBADMSG;
	parser->container = &table->containers[table->n_containers++];
	*parser->container = (struct pod_container){
		.namespace = fields[0],
		.pod = fields[1],
		.name = fields[2],
		.cpus = fields[3],
	};
	parser->resource = NULL;
	return 0;
}

static int take_device(struct parser *parser, const char *const fields[])
{
	if (!is_number_list(fields[1]))
		return -EBADMSG;
	parser->resource = fields[0];
	parser->nodes = fields[1];
	return 0;
}

static int take_id(struct parser *parser, const char *const fields[])
{
	struct pod_table *table = parser->table;

	if (!parser->resource)
		return -EBADMSG;
	table->devices[table->n_devices++] = (struct pod_device){
		.container = parser->container,
		.resource = parser->resource,
		.id = fields[0],
		.nodes = parser->nodes,
	};
	return 0;
}

static int take_memory(struct parser *parser, const char *const fields[])
{
	struct pod_table *table = parser->table;
	char *end;
	uint64_t bytes;

	errno = 0;
	bytes = strtoull(fields[1], &end, 10);
	if (fields[1][0] < '0' || fields[1][0] > '9' || *end || errno || !is_number_list(fields[2]))
		return -EBADMSG;
	table->memory[table->n_memory++] = (struct pod_memory){
		.container = parser->container,
		.type = fields[0],
		.bytes = bytes,
		.nodes = fields[2],
	};
	return 0;
}

static int take_claim(struct parser *parser, const char *const fields[])
{
	struct pod_table *table = parser->table;

	table->claims[table->n_claims++] = (struct pod_claim){
		.container = parser->container,
		.namespace = fields[0],
		.name = fields[1],
		.driver = fields[2],
		.pool = fields[3],
		.device = fields[4],
	};
	return 0;
}

static const struct {
	const char *text;
	size_t n_fields;
	int (*take)(struct parser *parser, const char *const fields[]);
} words[_WORD_MAX] = {
	[WORD_CONTAINER] = { "container\t", 4, take_container },
	[WORD_DEVICE] = { "device\t", 2, take_device },
	[WORD_ID] = { "id\t", 1, take_id },
	[WORD_MEMORY] = { "memory\t", 3, take_memory },
	[WORD_CLAIM] = { "claim\t", 5, take_claim },
};

static int find_word(const char *line)
{
	for (int word = 0; word < _WORD_MAX; word++)
		if (startswith(line, words[word].text))
			return word;
	return -EBADMSG;
}

static int count_lines(const char *text, size_t counts[static _WORD_MAX])
{
	size_t rows = 0;

	for (const char *line = text, *end; *line; line = end + 1) {
		int word = find_word(line);

		end = strchr(line, '\n');
		if (word < 0 || !end)
			return -EBADMSG;
		counts[word]++;
		if (++rows > POD_TABLE_ROWS_MAX)
			return -EFBIG;
	}
	return 0;
}

bool pod_field_is_plain(const char *text)
{
	return strlen(text) <= POD_TABLE_WORD_MAX && text_is_plain(text);
}

static int take_line(struct parser *parser, char *line)
{
	int word = find_word(line);
	char *rest = line + strlen(words[word].text);
	const char *fields[FIELDS_MAX];
	size_t count = words[word].n_fields;

	for (size_t i = 0; i < count; i++) {
		bool is_list = word == WORD_CONTAINER && i == 3;

		fields[i] = strsep(&rest, "\t");
		/* A list may be long; its elements are checked where they are used. */
		if (!fields[i] || (!is_list && !pod_field_is_plain(fields[i])))
			return -EBADMSG;
	}
	if (rest || (!parser->container && word != WORD_CONTAINER))
		return -EBADMSG;
	return words[word].take(parser, fields);
}

static int parse(struct pod_table *table)
{
	struct parser parser = { .table = table };
	size_t counts[_WORD_MAX] = { 0 };
	char *rest = table->text;
	int r;

	r = count_lines(table->text, counts);
	if (r < 0)
		return r;
	table->containers = calloc(counts[WORD_CONTAINER] + 1, sizeof(*table->containers));
	table->devices = calloc(counts[WORD_ID] + 1, sizeof(*table->devices));
	table->memory = calloc(counts[WORD_MEMORY] + 1, sizeof(*table->memory));
	table->claims = calloc(counts[WORD_CLAIM] + 1, sizeof(*table->claims));
	if (!table->containers || !table->devices || !table->memory || !table->claims)
		return -ENOMEM;
	while (r >= 0 && *rest)
		r = take_line(&parser, strsep(&rest, "\n"));
	return r;
}

char *pod_claim_key(const struct pod_claim *claim)
{
	char *key;

	return format_text(&key, "%s\t%s\t%s\t%s", claim->driver, claim->namespace, claim->name,
		       claim->device) < 0
		? NULL
		: key;
}

int pod_table_read(int fd, struct pod_table **ret)
{
	_cleanup_(pod_table_freep) struct pod_table *table = calloc(1, sizeof(*table));
	size_t size;
	int r;

	if (!table)
		return -ENOMEM;
	r = sealed_read(fd, POD_TABLE_TEXT_MAX, &table->text, &size);
	if (r < 0)
		return r;
	if (strlen(table->text) != size)
		return -EBADMSG;
	r = parse(table);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(table);
	return 0;
}

struct pod_table *pod_table_free(struct pod_table *table)
{
	if (!table)
		return NULL;
	free(table->containers);
	free(table->devices);
	free(table->memory);
	free(table->claims);
	free(table->text);
	free(table);
	return NULL;
}
