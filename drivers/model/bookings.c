/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds a set of booked ids with their NUMA nodes, and converts it to the text that processes
 * exchange. NUL ends an entry of the text, because it is the only byte that no id contains.
 */
#include "drivers/model/bookings.h"

#include "drivers/model/device.h"

int bookings_new(struct bookings **ret)
{
	struct bookings *bookings = calloc(1, sizeof(*bookings));

	if (!bookings)
		return -ENOMEM;
	atomic_init(&bookings->references, 1);
	*ret = bookings;
	return 0;
}

struct bookings *bookings_ref(struct bookings *bookings)
{
	if (bookings)
		atomic_fetch_add_explicit(&bookings->references, 1, memory_order_relaxed);
	return bookings;
}

static void booking_done(struct booking *booking)
{
	free(booking->id);
	free(booking->numa);
}

void booked_answer_done(struct booked_answer *answer)
{
	strings_done(&answer->ids);
	strings_done(&answer->nodes);
	strings_done(&answer->values);
	free(answer->metadata);
	answer->metadata = NULL;
}

struct bookings *bookings_unref(struct bookings *bookings)
{
	if (!bookings ||
		atomic_fetch_sub_explicit(&bookings->references, 1, memory_order_acq_rel) > 1)
		return NULL;
	for (size_t i = 0; i < bookings->count; i++)
		booking_done(&bookings->items[i]);
	for (size_t i = 0; i < bookings->n_answers; i++)
		booked_answer_done(&bookings->answers[i]);
	free(bookings->answers);
	free(bookings->items);
	free(bookings);
	return NULL;
}

/* Keeps the nodes in ascending order, each once. */
static int add_node(struct booking *booking, int node)
{
	size_t at = 0;

	if (node < 0 || node > BOOKING_NUMA_MAX)
		return 0;
	while (at < booking->n_numa && booking->numa[at] < node)
		at++;
	if (at < booking->n_numa && booking->numa[at] == node)
		return 0;
	if (array_reserve((void **)&booking->numa, booking->n_numa, sizeof(int)) < 0)
		return -ENOMEM;
	memmove(&booking->numa[at + 1], &booking->numa[at], (booking->n_numa - at) * sizeof(int));
	booking->numa[at] = node;
	booking->n_numa++;
	return 0;
}

int booking_add_numa(struct booking *booking, const int *numa, size_t n_numa)
{
	int r = 0;

	for (size_t i = 0; i < n_numa && r >= 0; i++)
		r = add_node(booking, numa[i]);
	return r;
}

int bookings_add(struct bookings *bookings, const char *id, unsigned uses, const int *numa,
	size_t n_numa, uint64_t allocated_at)
{
	struct booking booking = { .id = strdup(id), .uses = uses, .allocated_at = allocated_at };

	if (!booking.id || booking_add_numa(&booking, numa, n_numa) < 0 ||
		array_reserve((void **)&bookings->items, bookings->count, sizeof(booking)) < 0) {
		booking_done(&booking);
		return -ENOMEM;
	}
	bookings->items[bookings->count++] = booking;
	return 0;
}

int bookings_add_answer(
	struct bookings *bookings, struct strings *ids, const struct booked_answer *parts)
{
	struct booked_answer answer = { .ids = *ids, .follows = parts && parts->follows };
	int r = 0;

	*ids = (struct strings){ 0 };
	if (parts && answer.ids.count > 0 && parts->nodes.count + parts->values.count > 0) {
		r = strings_add_all(&answer.nodes, &parts->nodes);
		if (r >= 0)
			r = strings_add_all(&answer.values, &parts->values);
		if (r >= 0)
			r = array_reserve(
				(void **)&bookings->answers, bookings->n_answers, sizeof(answer));
		if (r >= 0) {
			bookings->answers[bookings->n_answers++] = answer;
			return 0;
		}
	}
	booked_answer_done(&answer);
	return r;
}

static int compare_bookings(const void *a, const void *b)
{
	return strcmp(((const struct booking *)a)->id, ((const struct booking *)b)->id);
}

int bookings_sort(struct bookings *bookings)
{
	size_t kept = 0;
	int r = 0;

	if (bookings->count == 0)
		return 0;
	qsort(bookings->items, bookings->count, sizeof(struct booking), compare_bookings);
	for (size_t i = 0; i < bookings->count; i++) {
		struct booking *item = &bookings->items[i];
		struct booking *last = kept > 0 ? &bookings->items[kept - 1] : NULL;

		if (!last || !streq(last->id, item->id)) {
			bookings->items[kept++] = *item;
			continue;
		}
		if (booking_add_numa(last, item->numa, item->n_numa) < 0)
			r = -ENOMEM;
		last->uses |= item->uses;
		last->allocated_at = MAX_OF(last->allocated_at, item->allocated_at);
		booking_done(item);
	}
	bookings->count = kept;
	return r;
}

int bookings_merge(const struct bookings *a, const struct bookings *b, struct bookings **ret)
{
	const struct bookings *const lists[] = { a, b };
	_cleanup_bookings_ struct bookings *merged = NULL;
	int r;

	r = bookings_new(&merged);
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		for (size_t k = 0; lists[i] && k < lists[i]->count && r >= 0; k++) {
			const struct booking *item = &lists[i]->items[k];

			r = bookings_add(merged, item->id, item->uses, item->numa, item->n_numa,
				item->allocated_at);
		}
	if (r >= 0)
		r = bookings_sort(merged);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(merged);
	return 0;
}

int bookings_select(
	const struct bookings *bookings, unsigned uses, unsigned but_for, struct bookings **ret)
{
	_cleanup_bookings_ struct bookings *selected = NULL;
	int r;

	r = bookings_new(&selected);
	for (size_t i = 0; bookings && i < bookings->count && r >= 0; i++) {
		const struct booking *item = &bookings->items[i];

		if ((item->uses & uses) && !(item->uses & but_for))
			r = bookings_add(selected, item->id, item->uses, item->numa, item->n_numa,
				item->allocated_at);
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(selected);
	return 0;
}

bool bookings_have_use(const struct bookings *bookings, unsigned uses)
{
	for (size_t i = 0; bookings && i < bookings->count; i++)
		if (bookings->items[i].uses & uses)
			return true;
	return false;
}

const struct booking *bookings_find(const struct bookings *bookings, const char *id)
{
	const struct booking key = { .id = (char *)(uintptr_t)id };

	return bookings && bookings->count > 0
		? bsearch(&key, bookings->items, bookings->count, sizeof(key), compare_bookings)
		: NULL;
}

/* The first one whose id is not less than the unit's with a "#". */
static size_t first_replica(const struct bookings *bookings, const char *id, size_t length)
{
	size_t low = 0, high = bookings->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const char *other = bookings->items[middle].id;
		int order = strncmp(other, id, length);

		if (order < 0 || (order == 0 && other[length] < REPLICA_SEPARATOR))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool bookings_have_unit(const struct bookings *bookings, const char *id, unsigned uses)
{
	size_t length = strlen(id);
	const struct booking *exact;

	if (!bookings || bookings->count == 0)
		return false;
	exact = bookings_find(bookings, id);
	if (exact && (exact->uses & uses))
		return true;
	for (size_t i = first_replica(bookings, id, length); i < bookings->count; i++) {
		const char *other = bookings->items[i].id;

		if (strncmp(other, id, length) != 0 || other[length] != REPLICA_SEPARATOR)
			return false;
		if (offered_id_is_of(other, id) && (bookings->items[i].uses & uses))
			return true;
	}
	return false;
}

bool booking_has_numa(const struct booking *booking, const int *numa, size_t n_numa)
{
	return booking->n_numa == n_numa &&
		(n_numa == 0 || memcmp(booking->numa, numa, n_numa * sizeof(int)) == 0);
}

/* --- as text --- */

/* The supervisor does this for all resources whenever a pod changes. A memory stream, which takes 8
 * KiB and shrinks, would leave holes in its heap. */
int bookings_write(const struct bookings *bookings, char **ret_text, size_t *ret_size)
{
	enum { NUMA_CHARS = sizeof("-2147483648,") - 1 };
	size_t size = 1;
	char *text, *at;

	for (size_t i = 0; i < bookings->count; i++)
		size += bookings->items[i].n_numa * NUMA_CHARS + strlen(bookings->items[i].id) +
			sizeof("f \t");
	text = at = malloc(size);
	if (!text)
		return -ENOMEM;
	for (size_t i = 0; i < bookings->count; i++) {
		const struct booking *item = &bookings->items[i];

		at += sprintf(at, "%x ", item->uses);
		for (size_t k = 0; k < item->n_numa; k++)
			at += sprintf(at, "%s%d", k > 0 ? "," : "", item->numa[k]);
		at += sprintf(at, "\t%s", item->id) + 1;
	}
	*ret_text = text;
	*ret_size = (size_t)(at - text);
	return 0;
}

static uint64_t hash_bytes(uint64_t hash, const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)data[i]) * 0x100000001b3ULL + 1;
	return hash;
}

static uint64_t hash_strings(uint64_t hash, const struct strings *strings)
{
	for (size_t i = 0; i < strings->count; i++)
		hash = hash_bytes(hash, strings->items[i], strlen(strings->items[i]) + 1);
	return hash;
}

uint64_t bookings_hash(const struct bookings *bookings, const char *text, size_t size)
{
	uint64_t hash = hash_bytes(1, text, size);

	for (size_t i = 0; i < bookings->n_answers; i++) {
		hash = hash_strings(hash, &bookings->answers[i].ids);
		hash = hash_strings(hash, &bookings->answers[i].nodes);
		hash = hash_strings(hash, &bookings->answers[i].values);
		hash = hash * 31 + bookings->answers[i].follows;
	}
	return hash ?: 1;
}

/* One entry; the id begins behind the numbers. */
static int read_entry(const char *entry, struct bookings *bookings)
{
	static const char digits[] = "0123456789abcdef";
	const char *digit = strchr(digits, *entry);
	struct booking nodes = { 0 };
	unsigned uses;
	int r = 0;

	if (!digit || digit == digits || entry[1] != ' ')
		return -EBADMSG;
	uses = (unsigned)(digit - digits);
	entry += 2;
	while (*entry != '\t' && r >= 0) {
		char *end;
		unsigned long node = strtoul(entry, &end, 10);

		if (*entry < '0' || *entry > '9' || node > BOOKING_NUMA_MAX ||
			(*end != ',' && *end != '\t'))
			r = -EBADMSG;
		else
			r = add_node(&nodes, (int)node);
		entry = *end == ',' ? end + 1 : end;
	}
	if (r >= 0)
		r = bookings_add(bookings, entry + 1, uses, nodes.numa, nodes.n_numa, 0);
	booking_done(&nodes);
	return r;
}

int bookings_read(const char *text, size_t size, struct bookings **ret)
{
	_cleanup_bookings_ struct bookings *bookings = NULL;
	const char *end = text + size;
	int r;

	if (size > 0 && end[-1] != '\0')
		return -EBADMSG;
	r = bookings_new(&bookings);
	for (; text < end && r >= 0; text += strlen(text) + 1)
		r = strchr(text, '\t') ? read_entry(text, bookings) : -EBADMSG;
	if (r >= 0)
		r = bookings_sort(bookings);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(bookings);
	return 0;
}
