/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows which containers use a device: puts the assignments in the daemon's answer into its
 * devices, and counts the ids in use and free ones. A kubelet knows offered ids; a shared device
 * has several: "ID#0", "ID#1", and so on.
 */
#include "supervisor/ctl/show-usage.h"

#include "drivers/model/device.h"
#include "drivers/model/quantity.h"
#include "supervisor/ctl/members.h"

#define HOLDERS_SHOWN 3

static bool is_health(const json_t *device, const char *health)
{
	return streq(text_of(device, "health"), health);
}

/* The device with that offered id, or NULL. `places`: devices by their ids. */
static json_t *find_device(const json_t *places, const char *offered)
{
	json_t *device = json_object_get(places, offered);
	_cleanup_free_ char *id = NULL;
	unsigned replica;
	size_t length;

	if (device || !offered_id_split(offered, &length, &replica))
		return device;
	id = strndup(offered, length);
	return id ? json_object_get(places, id) : NULL;
}

/* The kinds of holders of a device: the key of the list in `found` and of the list in each device,
 * the members of its entries, and whether they may be for admin access. */
static const struct relation {
	const char *list, *key, *members[8];
	bool admin;
} relations[] = {
	{ "assigned", "pods", { "id", "namespace", "pod", "container" }, true },
	{ "booked", "booked", { "id", "pod_uid", "container" }, false },
	{ "claims", "claims", { "id", "namespace", "name", "uid", "driver", "device", "share" },
		true },
};

/* A claim with admin access takes no device from others. */
static bool is_admin(const json_t *holder)
{
	return json_is_true(json_object_get(holder, "admin"));
}

/* {NAME: number}. */
static json_t *clean_amounts(json_t *amounts)
{
	json_t *clean = json_object(), *amount;
	const char *name;

	json_object_foreach(amounts, name, amount)
	{
		if (json_is_integer(amount))
			(void)json_object_set(clean, name, amount);
	}
	return clean;
}

static json_t *copy_holder(const json_t *entry, const struct relation *relation)
{
	json_t *copy = add_clean_texts(json_object(), entry, relation->members);
	json_t *amounts = json_object_get(entry, "amounts");

	if (amounts)
		(void)json_object_set_new(copy, "amounts", clean_amounts(amounts));

	if (relation->admin)
		(void)json_object_set_new(copy, "admin", json_boolean(is_admin(entry)));
	return copy;
}

/* Puts each entry of a list with its device. */
static void place(json_t *places, const json_t *found, const struct relation *relation)
{
	json_t *device, *entry;
	const char *id;
	size_t i;

	json_object_foreach(places, id, device)(void)
		json_object_set_new(device, relation->key, json_array());
	json_array_foreach(json_object_get(found, relation->list), i, entry)
	{
		device = find_device(places, text_of(entry, "id"));
		if (device)
			(void)json_array_append_new(json_object_get(device, relation->key),
				copy_holder(entry, relation));
	}
}

/* Counts different ids that are in use, because containers of one pod may share one. */
static json_int_t count_ids(const json_t *holders)
{
	json_auto_t *ids = NULL;
	json_t *holder;
	size_t i;

	if (json_array_size(holders) == 0)
		return 0;
	ids = json_object();
	json_array_foreach(holders, i, holder)
	{
		if (!is_admin(holder))
			(void)json_object_set_new(ids, text_of(holder, "id"), json_true());
	}
	return (json_int_t)json_object_size(ids);
}

void usage_join(json_t *resource, const json_t *found, bool known)
{
	bool has_claims = json_object_get(found, "claims");
	json_int_t in_use = count_ids(json_object_get(found, "assigned"));
	json_int_t offered = 0, healthy = 0, free_ones = 0;
	json_auto_t *places = json_object();
	json_t *devices = json_object_get(resource, "devices"), *device;
	size_t i;

	json_array_foreach(devices, i, device)(void)
		json_object_set(places, text_of(device, "id"), device);
	for (size_t k = 0; k < ARRAY_SIZE(relations); k++)
		if (has_claims || !streq(relations[k].list, "claims"))
			place(places, found, &relations[k]);
	json_array_foreach(devices, i, device)
	{
		json_int_t replicas = integer_of(device, "replicas");

		if (is_health(device, "Claimed"))
			continue;
		offered += replicas;
		if (!is_health(device, "Healthy"))
			continue;
		healthy += replicas;
		free_ones += MAX_OF(replicas - count_ids(json_object_get(device, "pods")), 0);
	}
	(void)json_object_set_new(resource, "offered", json_integer(offered));
	(void)json_object_set_new(resource, "healthy", json_integer(healthy));
	(void)json_object_set_new(resource, "in_use", known ? json_integer(in_use) : json_null());
	(void)json_object_set_new(resource, "free", known ? json_integer(free_ones) : json_null());
}

static bool has_pod(const json_t *device, const char *pod)
{
	json_t *holder;
	size_t i;

	json_array_foreach(json_object_get(device, "pods"), i, holder)
	{
		const char *namespace = text_of(holder, "namespace");
		const char *rest = startswith(pod, namespace);

		if (rest && *rest == '/' && streq(rest + 1, text_of(holder, "pod")))
			return true;
	}
	return false;
}

size_t usage_select_pod(json_t *resource, const char *pod)
{
	json_t *devices = json_object_get(resource, "devices");
	size_t i = 0;

	while (i < json_array_size(devices)) {
		if (has_pod(json_array_get(devices, i), pod))
			i++;
		else
			(void)json_array_remove(devices, i);
	}
	return i;
}

/* Containers, in the order of the holders, each with its number of the device's ids. */
static json_t *count_containers(const json_t *holders)
{
	json_t *counts = json_object(), *holder;
	size_t i;

	json_array_foreach(holders, i, holder)
	{
		_cleanup_free_ char *name = NULL;

		(void)format_text(&name, "%s/%s/%s", text_of(holder, "namespace"),
			text_of(holder, "pod"), text_of(holder, "container"));
		if (name)
			(void)json_object_set_new(
				counts, name, json_integer(integer_of(counts, name) + 1));
	}
	return counts;
}

static void write_containers(FILE *stream, const json_t *holders)
{
	json_auto_t *counts = count_containers(holders);
	size_t n = json_object_size(counts), shown = 0;
	const char *name;
	json_t *count;

	json_object_foreach(counts, name, count)
	{
		if (shown == HOLDERS_SHOWN)
			break;
		(void)fprintf(stream, "%s%s", shown > 0 ? ", " : "", name);
		if (json_integer_value(count) > 1)
			(void)fprintf(stream, " (%lld)", (long long)json_integer_value(count));
		shown++;
	}
	if (n > shown)
		(void)fprintf(stream, " and %zu more", n - shown);
}

/* " with 10Gi of memory, 2 of seats" of the sums of a claim; nothing without amounts. */
static void write_amounts(FILE *stream, json_t *sums)
{
	char text[QUANTITY_MAX + 1];
	const char *name, *before = " with ";
	json_t *sum;

	json_object_foreach(sums, name, sum)
	{
		quantity_write(MAX_OF(json_integer_value(sum), (json_int_t)0), text);
		(void)fprintf(stream, "%s%s of %s", before, text, name);
		before = ", ";
	}
}

/* "claim default/a" with the sums of its amounts, for each claim once, in the order of the claims.
 */
static json_t *name_claims(const json_t *claims)
{
	json_t *names = json_object(), *claim, *amount;
	const char *key;
	size_t i;

	json_array_foreach(claims, i, claim)
	{
		_cleanup_free_ char *name = NULL;
		json_t *sums;

		(void)format_text(&name, "claim %s/%s%s", text_of(claim, "namespace"),
			text_of(claim, "name"), is_admin(claim) ? " with admin access" : "");
		if (name && !json_object_get(names, name))
			(void)json_object_set_new(names, name, json_object());
		sums = name ? json_object_get(names, name) : NULL;
		json_object_foreach(json_object_get(claim, "amounts"), key, amount)
		{
			json_int_t sum = integer_of(sums, key);

			if (!__builtin_add_overflow(sum, json_integer_value(amount), &sum))
				(void)json_object_set_new(sums, key, json_integer(sum));
		}
	}
	return names;
}

/* "BEFOREclaim default/a, claim default/bAFTER"; nothing if there are no claims. */
static void write_claims(FILE *stream, const json_t *claims, const char *before, const char *after)
{
	json_auto_t *names = name_claims(claims);
	size_t n = json_object_size(names), shown = 0;
	const char *name;
	json_t *value;

	json_object_foreach(names, name, value)
	{
		if (shown == HOLDERS_SHOWN)
			break;
		(void)fprintf(stream, "%s%s", shown++ > 0 ? ", " : before, name);
		write_amounts(stream, value);
	}
	if (n > shown)
		(void)fprintf(stream, " and %zu more", n - shown);
	if (n > 0)
		(void)fputs(after, stream);
}

bool usage_is_taken(const json_t *device)
{
	const char *const lists[] = { "pods", "claims" };
	json_t *holder;
	size_t i;

	for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
		json_array_foreach(json_object_get(device, lists[k]), i, holder)
		{
			if (!is_admin(holder))
				return true;
		}
	return false;
}

char *usage_name_holders(const json_t *device)
{
	const json_t *holders = json_object_get(device, "pods");
	size_t n = json_array_size(holders), size;
	char *text = NULL;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return NULL;
	write_containers(stream, holders);
	write_claims(
		stream, json_object_get(device, "claims"), n > 0 ? " (" : "", n > 0 ? ")" : "");
	(void)fclose(stream);
	return text;
}

char *usage_describe(const json_t *resource, const json_t *device)
{
	bool known = !json_is_null(json_object_get(resource, "in_use"));
	_cleanup_free_ char *holders = usage_name_holders(device);
	char *text;

	if (!holders)
		return NULL;
	if (!*holders && json_array_size(json_object_get(device, "booked")) > 0)
		return strdup("booked, pod gone");
	if (!*holders)
		return strdup(known ? "free" : "-");
	if (!known || usage_is_taken(device))
		return TAKE_PTR(holders);
	return format_text(&text, "free, %s", holders) < 0 ? NULL : text;
}

static bool conflict(const json_t *a, const json_t *b)
{
	return !is_admin(a) && !is_admin(b) && streq(text_of(a, "id"), text_of(b, "id")) &&
		!(streq(text_of(a, "pod"), text_of(b, "pod")) &&
			streq(text_of(a, "namespace"), text_of(b, "namespace")));
}

/* Pods with claims for amounts share the device. */
static bool is_by_amount(const json_t *device)
{
	const json_t *claims = json_object_get(device, "claims"), *claim;
	size_t i;

	json_array_foreach(claims, i, claim)
	{
		if (json_object_get(claim, "amounts"))
			return true;
	}
	return false;
}

char *usage_find_conflict(const json_t *device)
{
	const json_t *holders = json_object_get(device, "pods");
	size_t n = is_by_amount(device) ? 0 : json_array_size(holders);
	char *text;

	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1; k < n; k++) {
			const json_t *a = json_array_get(holders, i);
			const json_t *b = json_array_get(holders, k);

			if (!conflict(a, b))
				continue;
			if (format_text(&text, "%s/%s and %s/%s", text_of(a, "namespace"),
				    text_of(a, "pod"), text_of(b, "namespace"),
				    text_of(b, "pod")) < 0)
				return NULL;
			return text;
		}
	return NULL;
}
