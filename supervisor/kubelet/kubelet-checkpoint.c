/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the kubelet's bookings from its checkpoint, and decides whether the file has a known form.
 * Parts of it that are not needed (the registered devices, and the encoded answers of Allocate) are
 * freed before the rows are made. The checksum is not compared: it covers how Go prints its
 * structures.
 */
#include "supervisor/kubelet/kubelet-checkpoint.h"

#include "supervisor/kubelet/kubelet-file.h"
#include "supervisor/kubelet/stored-answer.h"

static int load(const char *directory, json_t **ret, struct error *error)
{
	_cleanup_free_ char *path = NULL;

	if (format_text(&path, "%s/" CHECKPOINT_FILE, directory) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	return kubelet_file_load(path, CHECKPOINT_SIZE_MAX, ret, error);
}

/* --- the document --- */

/* "-1" or the number of a NUMA node. */
static bool read_node(const char *text, int *ret)
{
	char *end;
	long number = strtol(text, &end, 10);

	if (!*text || *end || number < -1 || number > BOOKING_NUMA_MAX ||
		!strchr("-0123456789", *text))
		return false;
	*ret = (int)number;
	return true;
}

/* Go writes a list without elements as null. */
static bool is_list(const json_t *value)
{
	return json_is_array(value) || json_is_null(value);
}

/* How many rows an entry makes; -EBADMSG: it is not a valid entry. */
static ssize_t count_rows(json_t *entry)
{
	json_t *devices = json_object_get(entry, "DeviceIDs"), *ids, *id;
	ssize_t n = 0;
	const char *key;
	size_t i;
	int node;

	if (!json_is_string(json_object_get(entry, "PodUID")) ||
		!json_is_string(json_object_get(entry, "ContainerName")) ||
		!json_is_string(json_object_get(entry, "ResourceName")) || !json_is_object(devices))
		return -EBADMSG;
	json_object_foreach(devices, key, ids)
	{
		if (!read_node(key, &node) || !is_list(ids))
			return -EBADMSG;
		json_array_foreach(ids, i, id)
		{
			if (!json_is_string(id))
				return -EBADMSG;
			n++;
		}
	}
	return n;
}

static void add_rows(
	struct kubelet_checkpoint *checkpoint, json_t *entry, const struct booked_answer *answer)
{
	struct kubelet_checkpoint_row row = {
		.answer = answer,
		.pod_uid = json_string_value(json_object_get(entry, "PodUID")),
		.container = json_string_value(json_object_get(entry, "ContainerName")),
		.resource = json_string_value(json_object_get(entry, "ResourceName")),
	};
	json_t *ids, *id;
	const char *key;
	size_t i;

	json_object_foreach(json_object_get(entry, "DeviceIDs"), key, ids)
	{
		(void)read_node(key, &row.node);
		json_array_foreach(ids, i, id)
		{
			row.id = json_string_value(id);
			checkpoint->rows[checkpoint->count++] = row;
		}
	}
}

/* Replaces an encoded answer by the parts of it that are needed. */
static int take_answer(
	struct kubelet_checkpoint *checkpoint, json_t *entry, struct booked_answer *parts)
{
	const struct stored_answer target = { .kinds = &checkpoint->cdi_kinds, .parts = parts };
	const char *answer = json_string_value(json_object_get(entry, "AllocResp"));
	int r = answer ? stored_answer_read(answer, &target) : 0;

	(void)json_object_del(entry, "AllocResp");
	return r;
}

static int refuse(const char *directory, struct error *error)
{
	return error_set(error, -EBADMSG,
		"%s/" CHECKPOINT_FILE " has a format that this devplugd does not know", directory);
}

static int make_rows(
	struct kubelet_checkpoint *checkpoint, const char *directory, struct error *error)
{
	size_t total = 0, i;
	json_t *entry;

	checkpoint->n_answers = json_array_size(checkpoint->entries);
	checkpoint->answers = calloc(checkpoint->n_answers + 1, sizeof(checkpoint->answers[0]));
	if (!checkpoint->answers)
		return error_set(error, -ENOMEM, "out of memory");
	json_array_foreach(checkpoint->entries, i, entry)
	{
		ssize_t n = count_rows(entry);

		if (n < 0)
			return refuse(directory, error);
		total += (size_t)n;
		if (take_answer(checkpoint, entry, &checkpoint->answers[i]) < 0)
			return error_set(error, -ENOMEM, "out of memory");
	}
	if (total > CHECKPOINT_ROWS_MAX)
		return error_set(error, -EFBIG,
			"%s/" CHECKPOINT_FILE " assigns %zu devices, the maximum is %u", directory,
			total, CHECKPOINT_ROWS_MAX);
	checkpoint->rows = calloc(total + 1, sizeof(checkpoint->rows[0]));
	if (!checkpoint->rows)
		return error_set(error, -ENOMEM, "out of memory");
	json_array_foreach(checkpoint->entries, i, entry)
		add_rows(checkpoint, entry, &checkpoint->answers[i]);
	return 0;
}

int kubelet_checkpoint_read_entries(const char *directory, json_t **ret, struct error *error)
{
	json_auto_t *document = NULL;
	json_t *data, *entries;
	int r;

	r = load(directory, &document, error);
	if (r < 0)
		return r;
	data = json_object_get(document, "Data");
	entries = json_object_get(data, "PodDeviceEntries");
	if (!json_is_integer(json_object_get(document, "Checksum")) || !is_list(entries) ||
		(!json_is_object(json_object_get(data, "RegisteredDevices")) &&
			!json_is_null(json_object_get(data, "RegisteredDevices"))))
		return refuse(directory, error);
	*ret = json_incref(entries);
	return 0;
}

int kubelet_checkpoint_read(
	const char *directory, struct kubelet_checkpoint **ret, struct error *error)
{
	_cleanup_kubelet_checkpoint_ struct kubelet_checkpoint *checkpoint =
		calloc(1, sizeof(*checkpoint));
	int r;

	if (!checkpoint)
		return error_set(error, -ENOMEM, "out of memory");
	r = kubelet_checkpoint_read_entries(directory, &checkpoint->entries, error);
	if (r >= 0)
		r = make_rows(checkpoint, directory, error);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(checkpoint);
	return 0;
}

struct kubelet_checkpoint *kubelet_checkpoint_free(struct kubelet_checkpoint *checkpoint)
{
	if (!checkpoint)
		return NULL;
	json_decref(checkpoint->entries);
	strings_done(&checkpoint->cdi_kinds);
	for (size_t i = 0; i < checkpoint->n_answers; i++)
		booked_answer_done(&checkpoint->answers[i]);
	free(checkpoint->answers);
	free(checkpoint->rows);
	free(checkpoint);
	return NULL;
}
