/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a resource has as many devices as it should have (`expect`), and which are
 * missing or in excess. Later lists are compared with the last one that has the expected number of
 * devices. It may have other devices than the one before, because a card may have been replaced.
 */
#include "drivers/inventory/complete-list.h"

#include <inttypes.h>
#include <jansson.h>

#include "common/json-write.h"

/* How many devices a sentence names. */
#define NAMED_MAX 8

/* --- the document --- */

static bool is_id(const char *text)
{
	char made[DEVICE_ID_MAX + 1];

	if (!text || !*text)
		return false;
	device_id_make(text, made);
	return streq(text, made);
}

static int read_ids(const json_t *devices, struct strings *ids)
{
	const json_t *device;
	size_t i;

	if (!json_is_array(devices) || json_array_size(devices) > EXPECT_MAX)
		return -EBADMSG;
	json_array_foreach(devices, i, device)
	{
		const char *id = json_string_value(device);
		int r;

		/* Sorted, so each once. */
		if (!is_id(id) || (i > 0 && strcmp(ids->items[i - 1], id) >= 0))
			return -EBADMSG;
		r = strings_add(ids, id, strlen(id));
		if (r < 0)
			return r;
	}
	return 0;
}

int complete_list_read(const char *text, size_t size, struct complete_list *ret)
{
	_cleanup_complete_list_ struct complete_list list = { 0 };
	json_auto_t *root = json_loadb(text, size, 0, NULL);
	const char *match = json_string_value(json_object_get(root, "match"));
	int r;

	if (json_object_size(root) != 2 || !match || strlen(match) != 16 ||
		match[strspn(match, "0123456789abcdef")] ||
		sscanf(match, "%" SCNx64, &list.match) != 1)
		return -EBADMSG;
	r = read_ids(json_object_get(root, "devices"), &list.ids);
	if (r < 0)
		return r;
	*ret = list;
	list = (struct complete_list){ 0 };
	return 0;
}

int complete_list_write(const struct complete_list *list, int fd)
{
	struct json_writer writer;

	json_writer_init(&writer, fd);
	json_write_text(&writer, "{\"match\":");
	json_write_hex(&writer, list->match);
	json_write_text(&writer, ",\"devices\":[");
	for (size_t i = 0; i < list->ids.count; i++) {
		json_write_text(&writer, i > 0 ? "," : "");
		json_write_string(&writer, list->ids.items[i]);
	}
	json_write_text(&writer, "]}\n");
	return json_writer_finish(&writer);
}

bool complete_list_equal(const struct complete_list *a, const struct complete_list *b)
{
	return a->match == b->match && strings_equal(&a->ids, &b->ids);
}

void complete_list_done(struct complete_list *list)
{
	strings_done(&list->ids);
}

/* --- comparing --- */

int expectation_found(const struct snapshot *snapshot, struct strings *ret)
{
	_cleanup_strings_ struct strings ids = { 0 };

	for (size_t i = 0; i < snapshot->n_units - snapshot->n_placeholders; i++) {
		const struct snapshot_unit *unit = &snapshot->units[i];

		if (unit->present && !unit->of_other_resource &&
			strings_add(&ids, unit->device->id, strlen(unit->device->id)) < 0)
			return -ENOMEM;
	}
	*ret = ids;
	ids = (struct strings){ 0 };
	return 0;
}

/* Adds the strings of `a` that `b` does not have; both are sorted. */
static int subtract(const struct strings *a, const struct strings *b, struct strings *ret)
{
	size_t k = 0;

	for (size_t i = 0; i < a->count; i++) {
		while (k < b->count && strcmp(b->items[k], a->items[i]) < 0)
			k++;
		if ((k == b->count || !streq(b->items[k], a->items[i])) &&
			strings_add(ret, a->items[i], strlen(a->items[i])) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void write_names(FILE *stream, const char *what, const struct strings *ids)
{
	if (ids->count == 0)
		return;
	(void)fprintf(stream, "; %s: ", what);
	for (size_t i = 0; i < ids->count && i < NAMED_MAX; i++)
		(void)fprintf(stream, "%s%s", i > 0 ? ", " : "", ids->items[i]);
	if (ids->count > NAMED_MAX)
		(void)fprintf(stream, " and %zu more", ids->count - NAMED_MAX);
}

/* "7 of 8 devices are present; missing: 0000:3b:00.0" */
static int make_reason(struct expectation *expectation)
{
	uint64_t count = expectation->count, found = expectation->found;
	FILE *stream;

	if (found == count)
		return 0;
	stream = open_memstream(&expectation->reason, &(size_t){ 0 });
	if (!stream)
		return -ENOMEM;
	if (found < count)
		(void)fprintf(stream, "%" PRIu64 " of %" PRIu64 " devices %s present", found, count,
			found == 1 ? "is" : "are");
	else
		(void)fprintf(stream, "%" PRIu64 " devices are present instead of %" PRIu64, found,
			count);
	write_names(stream, "missing", &expectation->missing);
	write_names(stream, "not in the last complete list", &expectation->extra);
	if (!expectation->compared)
		(void)fputs("; no complete list was ever seen, so none can be named", stream);
	return fclose(stream) != 0 ? -ENOMEM : 0;
}

int expectation_new(uint64_t count, const struct strings *found, const struct complete_list *last,
	struct expectation *ret)
{
	_cleanup_expectation_ struct expectation expectation = { .count = count,
		.found = found->count };
	int r = 0;

	expectation.compared = found->count == count || (count > 0 && last->ids.count == count);
	if (expectation.compared && found->count != count) {
		r = subtract(&last->ids, found, &expectation.missing);
		if (r >= 0)
			r = subtract(found, &last->ids, &expectation.extra);
	}
	if (r >= 0)
		r = make_reason(&expectation);
	if (r < 0)
		return r;
	*ret = expectation;
	expectation = (struct expectation){ 0 };
	return 0;
}

void expectation_done(struct expectation *expectation)
{
	strings_done(&expectation->missing);
	strings_done(&expectation->extra);
	free(expectation->reason);
}
