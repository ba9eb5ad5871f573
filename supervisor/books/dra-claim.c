/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what a claim may have: as devplugd-cluster sends it, as a resource's process completes
 * it, and as it was saved. Nothing else is ever kept of it.
 */
#include "supervisor/books/dra-claim.h"

#include "common/json-read.h"
#include "configuration/config.h"
#include "drivers/inventory/inventory.h"
#include "drivers/model/capacity.h"
#include "drivers/model/dra-attribute.h"
#include "drivers/model/form.h"
#include "drivers/model/parameter.h"
#include "supervisor/books/dra-metadata-form.h"
#include "supervisor/files/publication-allowed.h"
#include "supervisor/files/publication-form.h"

#define RESOURCE_LENGTH 317 /* a DNS subdomain, "/", and a label */
#define HASH_LENGTH     16
/* CDI names in an answer to CHILD_EDIT. A group may also have the name of its own edits. */
#define NAMES_MAX 64

/* --- members --- */

static bool is_word(const json_t *object, const char *key, size_t maximum)
{
	return dra_name_is_valid(text_of(object, key), maximum);
}

bool dra_claim_hash_is_valid(const char *hash)
{
	return strlen(hash) <= HASH_LENGTH && !hash[strspn(hash, "0123456789abcdef")];
}

static bool is_device(const json_t *device)
{
	const char *id = text_of(device, "id"), *resource = text_of(device, "resource");

	return is_word(device, "request", DRA_REQUEST_NAME_MAX) &&
		is_word(device, "name", DRA_DEVICE_NAME_MAX) && *text_of(device, "pool") &&
		strlen(text_of(device, "pool")) <= DRA_OBJECT_NAME_MAX && *resource &&
		strlen(resource) <= RESOURCE_LENGTH && *id && strlen(id) <= OFFERED_ID_MAX &&
		!strpbrk(id, "\n\r") && dra_claim_hash_is_valid(text_of(device, "edits"));
}

static int check_names(const json_t *names, size_t maximum, struct error *error)
{
	if (!json_is_array(names))
		return error_set(error, -EBADMSG, "\"cdi\" is missing");
	if (json_array_size(names) > maximum)
		return error_set(error, -EBADMSG, "\"cdi\" names too many devices");
	for (size_t i = 0; i < json_array_size(names); i++) {
		const char *name = json_string_value(json_array_get(names, i));

		if (!name || form_cdi_name(name, error) < 0)
			return error_set(
				error, -EBADMSG, "\"cdi\" contains a name that is not valid");
	}
	return 0;
}

int dra_claim_check_names(const json_t *names, struct error *error)
{
	return check_names(names, NAMES_MAX, error);
}

static bool are_amounts(json_t *amounts, json_int_t minimum)
{
	const char *name;
	json_t *amount;

	json_object_foreach(amounts, name, amount)
	{
		if (!attribute_name_is_valid(name) || !json_is_integer(amount) ||
			json_integer_value(amount) < minimum)
			return false;
	}
	return json_object_size(amounts) > 0 && json_object_size(amounts) <= CAPACITIES_MAX;
}

/* Whether a device has amounts of what it has at all. */
static bool has_amounts(json_t *amounts, json_t *of)
{
	const char *name;
	json_t *total;

	json_object_foreach(of, name, total)
	{
		if (!json_object_get(amounts, name))
			return false;
	}
	return are_amounts(amounts, 0) && are_amounts(of, 1) &&
		json_object_size(amounts) == json_object_size(of);
}

static bool is_share(const char *share)
{
	return dra_name_is_valid(share, DRA_SHARE_ID_MAX) && !strchr(share, '.');
}

/* With "!" at the end of the format, a member that the format does not name is an error. */
#define DEVICE_FORMAT "s:s, s:s, s:s, s:s, s:s, s:b, s?s, s?o, s?o, s?o"
#define CLAIM_FORMAT  "s:s, s:s, s:s, s?o, s?o"

/* A new reference, or NULL if the device is malformed. Members that the format does not name are
 * left out of a saved device, and refused in a received one. */
static json_t *read_device(json_t *device, bool saved)
{
	const char *request, *pool, *name, *resource, *id, *share = NULL, *hash = NULL;
	json_t *names = NULL, *amounts = NULL, *of = NULL, *parameters = NULL, *made;
	int admin, forgotten = 0;

	if (json_unpack(device,
		    saved ? "{" DEVICE_FORMAT ", s?o, s?s, s?b}" : "{" DEVICE_FORMAT "!}",
		    "request", &request, "pool", &pool, "name", &name, "resource", &resource, "id",
		    &id, "admin", &admin, "share", &share, "amounts", &amounts, "of", &of,
		    "parameters", &parameters, "cdi", &names, "edits", &hash, "forgotten",
		    &forgotten) < 0 ||
		!is_device(device) || (share && (!amounts || !is_share(share))) ||
		((amounts || of) && (admin || !has_amounts(amounts, of))) ||
		(parameters &&
			parameters_check_form(parameters,
				saved ? PARAMETERS_RESOLVED_MAX : PARAMETERS_SENT_MAX, NULL) < 0) ||
		(names && check_names(names, NAMES_MAX + 1, NULL) < 0))
		return NULL;
	made = json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:s*, s:O*, s:O*, s:s*}", "request",
		request, "pool", pool, "name", name, "resource", resource, "id", id, "admin", admin,
		"share", share, "amounts", amounts, "of", of, "edits", hash);
	if (made && parameters)
		(void)json_object_set_new(made, "parameters", json_deep_copy(parameters));
	if (made && names)
		(void)json_object_set(made, "cdi", names);
	if (made && forgotten)
		(void)json_object_set_new(made, "forgotten", json_true());
	return made;
}

static json_t *read_claim(json_t *claim, bool saved)
{
	const char *uid, *namespace, *name;
	json_t *devices = NULL, *metadata = NULL, *device;
	json_auto_t *made = NULL, *list = json_array();
	size_t i;

	if (json_unpack(claim, saved ? "{" CLAIM_FORMAT "}" : "{" CLAIM_FORMAT "!}", "uid", &uid,
		    "namespace", &namespace, "name", &name, "devices", &devices, "metadata",
		    &metadata) < 0 ||
		!is_word(claim, "uid", DRA_CLAIM_ID_MAX) || strchr(uid, '.') ||
		!is_word(claim, "namespace", DRA_OBJECT_NAME_MAX) ||
		!is_word(claim, "name", DRA_OBJECT_NAME_MAX) ||
		(devices && !json_is_array(devices)) || json_array_size(devices) > DRA_DEVICES_MAX)
		return NULL;
	json_array_foreach(devices, i, device)
	{
		if (json_array_append_new(list, read_device(device, saved)) < 0)
			return NULL;
	}
	made = json_pack("{s:s, s:s, s:s}", "uid", uid, "namespace", namespace, "name", name);
	if (made && devices)
		(void)json_object_set(made, "devices", list);
	return metadata && dra_metadata_form_read(made, metadata, saved) < 0 ? NULL
									     : json_incref(made);
}

static json_t *set_driver(json_t *claim, const char *driver)
{
	return json_object_set_new(claim, "driver", json_string(driver)) < 0 ? NULL
									     : json_incref(claim);
}

json_t *dra_claim_read(json_t *sent, const char *driver)
{
	json_auto_t *claim = read_claim(sent, false);

	return claim ? set_driver(claim, driver) : NULL;
}

json_t *dra_claim_read_saved(json_t *saved)
{
	json_auto_t *claim = read_claim(saved, true);

	if (!json_object_get(claim, "devices"))
		return NULL;
	if (!json_object_get(saved, "driver"))
		return json_incref(claim);
	return is_word(saved, "driver", DRA_DRIVER_NAME_MAX)
		? set_driver(claim, text_of(saved, "driver"))
		: NULL;
}

bool dra_claim_is(const json_t *claim, const char *driver, const char *uid)
{
	return streq(text_of(claim, "uid"), uid) && streq(text_of(claim, "driver"), driver);
}

/* --- devices and groups --- */

size_t dra_claim_count(const json_t *claim)
{
	return json_array_size(json_object_get(claim, "devices"));
}

json_t *dra_claim_device(const json_t *claim, size_t at)
{
	return json_array_get(json_object_get(claim, "devices"), at);
}

bool dra_claim_is_admin(const json_t *device)
{
	return json_is_true(json_object_get(device, "admin"));
}

bool dra_claim_is_group(const json_t *device, const json_t *other)
{
	return streq(text_of(device, "request"), text_of(other, "request")) &&
		streq(text_of(device, "resource"), text_of(other, "resource"));
}

bool dra_claim_begins_group(const json_t *claim, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (dra_claim_is_group(dra_claim_device(claim, i), dra_claim_device(claim, at)))
			return false;
	return true;
}

bool dra_claim_group_is_admin(const json_t *claim, size_t at)
{
	for (size_t i = at; i < dra_claim_count(claim); i++)
		if (dra_claim_is_group(dra_claim_device(claim, i), dra_claim_device(claim, at)) &&
			!dra_claim_is_admin(dra_claim_device(claim, i)))
			return false;
	return true;
}

/* The own name of a group that has names, without the kind; NULL: it has none. It follows those
 * that the resource's process gives. */
static const char *kept_name(const json_t *claim, const json_t *device)
{
	const json_t *names = json_object_get(device, "cdi");
	const char *last = json_string_value(json_array_get(names, json_array_size(names) - 1));
	const char *name = startswith(last ?: "", DRA_CDI_KIND "=");
	const char *rest = name ? startswith(name, text_of(claim, "uid")) : NULL;

	return rest && *rest == '-' && strlen(name) <= CDI_DEVICE_NAME_MAX ? name : NULL;
}

void dra_claim_edits_name(const json_t *claim, size_t at, char ret[static CDI_DEVICE_NAME_MAX + 1])
{
	const json_t *device = dra_claim_device(claim, at);
	const char *name = text_of(device, "name"), *share = text_of(device, "share");
	const char *kept = kept_name(claim, device);
	char suffix[12] = "";
	unsigned number = 0;

	if (kept) {
		(void)snprintf(ret, CDI_DEVICE_NAME_MAX + 1, "%s", kept);
		return;
	}
	for (size_t i = 0; i < at; i++) {
		if (!dra_claim_begins_group(claim, i))
			continue;
		number++;
		if (streq(text_of(dra_claim_device(claim, i), "name"), name) &&
			streq(text_of(dra_claim_device(claim, i), "share"), share))
			suffix[0] = '-';
	}
	if (*suffix)
		(void)snprintf(suffix, sizeof(suffix), "-%u", number);
	(void)snprintf(ret, CDI_DEVICE_NAME_MAX + 1, "%.*s-%.*s%s%.*s%s", DRA_CLAIM_ID_MAX,
		text_of(claim, "uid"), DRA_DEVICE_NAME_MAX, name, *share ? "-" : "",
		DRA_SHARE_ID_MAX, share, suffix);
}

void dra_claim_copy_names(json_t *claim, const json_t *from)
{
	if (!dra_claim_has_same_devices(claim, from))
		return;
	for (size_t i = 0; i < dra_claim_count(claim); i++) {
		json_t *names = json_object_get(dra_claim_device(from, i), "cdi");

		if (names)
			(void)json_object_set(dra_claim_device(claim, i), "cdi", names);
	}
}

void dra_claim_copy_parameters(json_t *claim, const json_t *from)
{
	for (size_t i = 0; i < dra_claim_count(claim); i++) {
		json_t *device = dra_claim_device(claim, i);
		json_t *parameters = json_object_get(dra_claim_device(from, i), "parameters");

		if (parameters)
			(void)json_object_set(device, "parameters", parameters);
		else
			(void)json_object_del(device, "parameters");
	}
}

json_t *dra_claim_full_name(const char *name)
{
	return json_sprintf(DRA_CDI_KIND "=%s", name);
}

static bool have_same(const json_t *a, const json_t *b, const char *const *keys)
{
	bool same = dra_claim_count(a) == dra_claim_count(b);

	for (size_t i = 0; same && i < dra_claim_count(a); i++)
		for (const char *const *key = keys; *key; key++)
			same = same &&
				streq(text_of(dra_claim_device(a, i), *key),
					text_of(dra_claim_device(b, i), *key));
	return same;
}

bool dra_claim_has_same_devices(const json_t *claim, const json_t *other)
{
	return have_same(claim, other,
		(const char *const[]){
			"request", "pool", "name", "resource", "id", "share", NULL });
}

/* A device without names, which an earlier version may have saved, differs from no other. */
bool dra_claim_has_same_names(const json_t *claim, const json_t *other)
{
	for (size_t i = 0; i < dra_claim_count(claim); i++) {
		const json_t *a = json_object_get(dra_claim_device(claim, i), "cdi");
		const json_t *b = json_object_get(dra_claim_device(other, i), "cdi");

		if (a && b && !json_equal(a, b))
			return false;
	}
	return true;
}

bool dra_claim_is_forgotten(const json_t *device)
{
	return json_is_true(json_object_get(device, "forgotten"));
}

bool dra_claim_is_same_hardware(const json_t *device, const json_t *other)
{
	const char *a = text_of(device, "id"), *b = text_of(other, "id");

	return streq(text_of(device, "resource"), text_of(other, "resource")) &&
		(offered_id_is_of(a, b) || offered_id_is_of(b, a));
}

static bool holds(const json_t *claim, const json_t *wanted)
{
	bool by_amount = json_object_get(wanted, "amounts");

	for (size_t i = 0; i < dra_claim_count(claim); i++) {
		const json_t *device = dra_claim_device(claim, i);

		if (!dra_claim_is_admin(device) && !dra_claim_is_forgotten(device) &&
			!(by_amount && json_object_get(device, "amounts")) &&
			dra_claim_is_same_hardware(device, wanted))
			return true;
	}
	return false;
}

int dra_claim_add_amounts(const json_t *device, json_t *sums)
{
	json_t *amount;
	const char *name;

	json_object_foreach(json_object_get(device, "amounts"), name, amount)
	{
		json_int_t sum = json_integer_value(json_object_get(sums, name));

		if (__builtin_add_overflow(sum, json_integer_value(amount), &sum))
			sum = INT64_MAX;
		if (json_object_set_new(sums, name, json_integer(sum)) < 0)
			return -ENOMEM;
	}
	return 0;
}

const json_t *dra_claim_shared_device(const json_t *claim, const json_t *other)
{
	for (size_t i = 0; i < dra_claim_count(claim); i++) {
		const json_t *device = dra_claim_device(claim, i);

		if (!dra_claim_is_admin(device) && holds(other, device))
			return device;
	}
	return NULL;
}

/* --- edits --- */

json_t *dra_claim_make_spec(json_t *devices)
{
	json_t *spec = json_pack(
		"{s:s, s:s, s:O}", "cdiVersion", "0.3.0", "kind", DRA_CDI_KIND, "devices", devices);

	if (spec)
		(void)json_object_set_new(spec, "cdiVersion", json_string(cdi_version(spec)));
	return spec;
}

int dra_claim_check_edits(
	const struct declaration *declaration, const char *name, json_t *edits, struct error *error)
{
	json_auto_t *devices = json_pack("[{s:s, s:O}]", "name", name, "containerEdits", edits);
	json_auto_t *spec = devices ? dra_claim_make_spec(devices) : NULL;
	int r;

	if (!spec)
		return error_set(error, -ENOMEM, "out of memory");
	r = publication_check_cdi(spec, DRA_CDI_KIND, error);
	return r < 0 ? r : publication_check_allowed_claim(declaration, spec, error);
}

/* The first device of the group whose edits have the name, or NULL. */
static const json_t *find_group(const json_t *claim, const char *name)
{
	char own[CDI_DEVICE_NAME_MAX + 1];

	for (size_t i = 0; i < dra_claim_count(claim); i++) {
		if (!dra_claim_begins_group(claim, i))
			continue;
		dra_claim_edits_name(claim, i, own);
		if (streq(own, name))
			return dra_claim_device(claim, i);
	}
	return NULL;
}

static int check_saved_edits(
	const struct config *config, const json_t *claim, const json_t *device, struct error *error)
{
	const json_t *first = find_group(claim, text_of(device, "name"));
	const struct resource_config *found;

	if (!first)
		return error_set(error, -EBADMSG, "they belong to no device of the claim");
	/* Also if the resource has moved to the device plugin: the containers still run. */
	found = config_find(config, text_of(first, "resource"));
	if (!found)
		return error_set(error, -ENOENT, "%s is not configured on this node",
			text_of(first, "resource"));
	return dra_claim_check_edits(&found->declaration, text_of(device, "name"),
		json_object_get(device, "containerEdits"), error);
}

int dra_claim_read_spec(const json_t *claim, json_t *saved_spec, const struct config *config,
	json_t **ret_spec, struct error *error)
{
	json_t *devices = json_object_get(saved_spec, "devices"), *device;
	size_t i;
	int r;

	*ret_spec = NULL;
	if (!saved_spec)
		return 0;
	/* Only known members pass. */
	r = publication_check_cdi(saved_spec, DRA_CDI_KIND, error);
	json_array_foreach(devices, i, device)
	{
		if (r >= 0)
			r = check_saved_edits(config, claim, device, error);
	}
	if (r < 0)
		return r;
	*ret_spec = dra_claim_make_spec(devices);
	return *ret_spec ? 0 : error_set(error, -ENOMEM, "out of memory");
}

/* --- what the edits lead to --- */

static json_t *nodes_of(const json_t *edits)
{
	json_t *paths = json_array(), *node;
	size_t i;

	json_array_foreach(json_object_get(edits, "deviceNodes"), i, node)
	{
		json_t *path = json_object_get(node, "hostPath") ?: json_object_get(node, "path");

		if (startswith(json_string_value(path) ?: "", "/dev/") &&
			json_array_append(paths, path) < 0) {
			json_decref(paths);
			return NULL;
		}
	}
	return paths;
}

json_t *dra_claim_nodes(const json_t *devices)
{
	json_auto_t *nodes = json_object();
	const json_t *device;
	size_t i;

	json_array_foreach(devices, i, device)
	{
		if (json_object_set_new(nodes, text_of(device, "name"),
			    nodes_of(json_object_get(device, "containerEdits"))) < 0)
			return NULL;
	}
	return json_incref(nodes);
}

/* The ids of the group that begins at that position; none if a device of it was forgotten. */
static int collect_ids(const json_t *claim, size_t at, struct strings *ids)
{
	const json_t *first = dra_claim_device(claim, at);
	int r = 0;

	for (size_t i = at; i < dra_claim_count(claim) && r >= 0; i++) {
		const json_t *device = dra_claim_device(claim, i);
		const char *id = text_of(device, "id");

		if (!dra_claim_is_group(device, first))
			continue;
		if (dra_claim_is_forgotten(device)) {
			strings_done(ids);
			return 0;
		}
		if (!strings_contain(ids, id))
			r = strings_add(ids, id, strlen(id));
	}
	return r;
}

static int add_answer(const json_t *claim, size_t at, const json_t *nodes, bool follows,
	struct bookings *bookings)
{
	struct booked_answer parts = { .follows = follows };
	char name[CDI_DEVICE_NAME_MAX + 1];
	struct strings ids = { 0 };
	const json_t *path;
	size_t i;
	int r;

	dra_claim_edits_name(claim, at, name);
	r = collect_ids(claim, at, &ids);
	json_array_foreach(json_object_get(nodes, name), i, path)
	{
		if (r >= 0)
			r = strings_add(
				&parts.nodes, json_string_value(path), json_string_length(path));
	}
	if (r >= 0)
		r = bookings_add_answer(bookings, &ids, &parts);
	strings_done(&ids);
	booked_answer_done(&parts);
	return r;
}

int dra_claim_add_answers(const json_t *claim, const json_t *nodes, const char *resource,
	bool follows, struct bookings *bookings)
{
	int r = 0;

	for (size_t i = 0; i < dra_claim_count(claim) && r >= 0; i++) {
		const json_t *device = dra_claim_device(claim, i);

		if (!dra_claim_is_admin(device) && streq(text_of(device, "resource"), resource) &&
			dra_claim_begins_group(claim, i))
			r = add_answer(claim, i, nodes, follows, bookings);
	}
	return r;
}
