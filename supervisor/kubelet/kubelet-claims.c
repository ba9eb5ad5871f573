/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the file shows all claims of the kubelet. Claims that are missing here may be
 * ended, so the checksum is compared.
 */
#include "supervisor/kubelet/kubelet-claims.h"

#include "common/crc32.h"
#include "common/json-read.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"
#include "supervisor/kubelet/kubelet-file.h"

#define KIND    "DRACheckpoint"
#define VERSION "checkpoint.dra.kubelet.k8s.io/v1"

/* The document in the file, a new reference; NULL: it is not valid. */
static json_t *open_document(const json_t *file)
{
	const char *text = text_of(file, "Data");
	json_auto_t *data = NULL;

	if (json_integer_value(json_object_get(file, "Checksum")) != crc32_ieee(text, strlen(text)))
		return NULL;
	data = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	if (!streq(text_of(data, "kind"), KIND) || !streq(text_of(data, "apiVersion"), VERSION))
		return NULL;
	return json_incref(data);
}

static json_t *read_uids(const json_t *data)
{
	const json_t *list = json_object_get(data, "ClaimInfoStateList"), *claim;
	json_auto_t *uids = json_object();
	size_t i;

	/* Go writes a list that was never made as null. */
	if (!json_is_array(list) && !json_is_null(list))
		return NULL;
	json_array_foreach(list, i, claim)
	{
		const char *uid = set_text_of(claim, "ClaimUID");

		if (!uid || json_object_set_new(uids, uid, json_true()) < 0)
			return NULL;
	}
	return json_incref(uids);
}

int kubelet_claims_read(const char *root_dir, json_t **ret, struct error *error)
{
	json_auto_t *file = NULL, *data = NULL, *uids = NULL;
	_cleanup_free_ char *path = NULL;
	int r;

	if (format_text(&path, "%s/" KUBELET_CLAIMS_FILE, root_dir) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	r = kubelet_file_load(path, CHECKPOINT_SIZE_MAX, &file, error);
	if (r < 0)
		return r;
	data = open_document(file);
	uids = data ? read_uids(data) : NULL;
	if (!uids)
		return error_set(error, -EBADMSG,
			"%s has a format that this devplugd does not know, or a wrong checksum",
			path);
	*ret = json_incref(uids);
	return 0;
}
