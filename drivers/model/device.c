/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds and compares devices, and decides which ids are valid. Ids contain only characters that
 * need no quoting in a shell, a journal field, a file name or a pod's annotation. An id that had to
 * be changed for that ends in a hash of the original, so that two hostile names never become one
 * id.
 */
#include "drivers/model/device.h"

#include "common/text.h"

#define HASH_DIGITS 12

static bool id_character_valid(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
		(c != '\0' && strchr("._:@+=-", c));
}

static bool copy_valid(const char *text, char *ret_id, size_t max)
{
	bool same = true;
	size_t i;

	for (i = 0; text[i] && i < max; i++) {
		bool valid = id_character_valid(text[i]);

		ret_id[i] = valid ? text[i] : '-';
		same = same && valid;
	}
	ret_id[i] = '\0';
	return same && !text[i];
}

void device_id_make_hashed(
	const char *text, const char *original, char ret_id[static DEVICE_ID_MAX + 1])
{
	uint64_t hash = hash_string(original);
	size_t length;

	(void)copy_valid(text, ret_id, DEVICE_ID_MAX - HASH_DIGITS - 1);
	length = strlen(ret_id);
	(void)snprintf(ret_id + length, HASH_DIGITS + 2, "-%0*llx", HASH_DIGITS,
		(unsigned long long)((hash ^ hash >> 48) & 0xffffffffffffULL));
}

void device_id_make(const char *text, char ret_id[static DEVICE_ID_MAX + 1])
{
	if (!*text || !copy_valid(text, ret_id, DEVICE_ID_MAX))
		device_id_make_hashed(text, text, ret_id);
}

int device_new(const char *id, struct device **ret)
{
	_cleanup_device_ struct device *device = NULL;

	device = calloc(1, sizeof(*device));
	if (!device)
		return -ENOMEM;
	atomic_init(&device->references, 1);
	device->id = strdup(id);
	if (!device->id)
		return -ENOMEM;
	*ret = TAKE_PTR(device);
	return 0;
}

struct device *device_ref(struct device *device)
{
	atomic_fetch_add_explicit(&device->references, 1, memory_order_relaxed);
	return device;
}

struct device *device_unref(struct device *device)
{
	if (!device || atomic_fetch_sub_explicit(&device->references, 1, memory_order_acq_rel) > 1)
		return NULL;
	for (size_t i = 0; i < device->n_nodes; i++) {
		free(device->nodes[i].host);
		free(device->nodes[i].path);
	}
	for (size_t i = 0; i < device->n_variables; i++) {
		free(device->variables[i].name);
		free(device->variables[i].value);
	}
	for (size_t i = 0; i < device->n_distances; i++)
		free(device->distances[i].id);
	free(device->distances);
	strings_done(&device->env);
	strings_done(&device->annotations);
	strings_done(&device->cdi);
	free(device->nodes);
	free(device->variables);
	free(device->numa);
	strings_done(&device->claims);
	strings_done(&device->attributes);
	free(device->assigned);
	free(device->anchor);
	free(device->whole);
	free(device->finding_reason);
	free(device->problem);
	free(device->absence);
	free(device->info);
	free(device->id);
	free(device);
	return NULL;
}

static int add_node(
	struct device *device, const char *host, const char *path, struct device_node *node)
{
	int r;

	r = array_reserve((void **)&device->nodes, device->n_nodes, sizeof(*device->nodes));
	if (r < 0)
		return r;
	node->host = strdup(host);
	node->path = strdup(path ?: host);
	if (!node->host || !node->path) {
		free(node->host);
		free(node->path);
		return -ENOMEM;
	}
	device->nodes[device->n_nodes++] = *node;
	return 0;
}

int device_add_node(
	struct device *device, const char *host, const char *path, const char *permissions)
{
	struct device_node node = { 0 };

	if (strlen(permissions) >= sizeof(node.permissions))
		return -EINVAL;
	memcpy(node.permissions, permissions, strlen(permissions) + 1);
	return add_node(device, host, path, &node);
}

int device_add_mount(struct device *device, const char *host, const char *path, bool read_only)
{
	struct device_node node = { .mount = true, .read_only = read_only };

	return add_node(device, host, path, &node);
}

bool device_has_node(const struct device *device, const char *host)
{
	for (size_t i = 0; i < device->n_nodes; i++)
		if (streq(device->nodes[i].host, host))
			return true;
	return false;
}

int device_add_numa(struct device *device, int numa)
{
	size_t at = 0;
	int r;

	if (numa < 0)
		return 0;
	while (at < device->n_numa && device->numa[at] < numa)
		at++;
	if (at < device->n_numa && device->numa[at] == numa)
		return 0;
	r = array_reserve((void **)&device->numa, device->n_numa, sizeof(*device->numa));
	if (r < 0)
		return r;
	memmove(device->numa + at + 1, device->numa + at,
		(device->n_numa - at) * sizeof(*device->numa));
	device->numa[at] = numa;
	device->n_numa++;
	return 0;
}

int device_add_variable(struct device *device, const char *name, const char *value)
{
	_cleanup_free_ char *name_copy = NULL, *value_copy = NULL;
	int r;

	r = array_reserve(
		(void **)&device->variables, device->n_variables, sizeof(*device->variables));
	if (r < 0)
		return r;
	name_copy = strdup(name);
	value_copy = strdup(value);
	if (!name_copy || !value_copy)
		return -ENOMEM;
	device->variables[device->n_variables++] = (struct device_variable){
		.name = TAKE_PTR(name_copy),
		.value = TAKE_PTR(value_copy),
	};
	return 0;
}

int device_add_distance(struct device *device, const char *id, unsigned distance)
{
	char *copy;
	int r;

	r = array_reserve(
		(void **)&device->distances, device->n_distances, sizeof(*device->distances));
	if (r < 0)
		return r;
	copy = strdup(id);
	if (!copy)
		return -ENOMEM;
	device->distances[device->n_distances++] = (struct device_distance){
		.id = copy,
		.distance = MIN_OF(MAX_OF(distance, 1U), (unsigned)DISTANCE_MAX),
	};
	return 0;
}

/* Writes a sentence in place of the old one. */
__attribute__((format(printf, 2, 0))) static int write_reason(
	char **reason, const char *format, va_list ap)
{
	char text[DEVICE_PROBLEM_MAX];

	(void)vsnprintf(text, sizeof(text), format, ap);
	text_sanitize_cut(text, sizeof(text));
	free(*reason);
	*reason = strdup(text);
	return *reason ? 0 : -ENOMEM;
}

int device_set_problem(struct device *device, const char *format, ...)
{
	va_list ap;
	int r;

	if (device->problem)
		return 0;
	va_start(ap, format);
	r = write_reason(&device->problem, format, ap);
	va_end(ap);
	return r;
}

int device_set_lack(struct device *device, const char *format, ...)
{
	va_list ap;
	int r;

	device->lacks_node = true;
	if (device->problem)
		return 0;
	va_start(ap, format);
	r = write_reason(&device->problem, format, ap);
	va_end(ap);
	return r;
}

int device_set_absence(struct device *device, const char *format, ...)
{
	va_list ap;
	int r;

	va_start(ap, format);
	r = write_reason(&device->absence, format, ap);
	va_end(ap);
	return r;
}

int device_set_finding(struct device *device, enum device_finding finding, const char *format, ...)
{
	va_list ap;
	int r;

	va_start(ap, format);
	r = write_reason(&device->finding_reason, format, ap);
	va_end(ap);
	device->finding = finding;
	return r;
}

int device_copy(const struct device *from, struct device *device)
{
	int r = 0;

	for (size_t i = 0; i < from->n_nodes && r >= 0; i++) {
		struct device_node node = from->nodes[i];

		r = add_node(device, node.host, node.path, &node);
	}
	for (size_t i = 0; i < from->n_numa && r >= 0; i++)
		r = device_add_numa(device, from->numa[i]);
	for (size_t i = 0; i < from->n_variables && r >= 0; i++)
		r = device_add_variable(device, from->variables[i].name, from->variables[i].value);
	for (size_t i = 0; i < from->n_distances && r >= 0; i++)
		r = device_add_distance(device, from->distances[i].id, from->distances[i].distance);
	if (r >= 0)
		r = strings_add_all(&device->env, &from->env);
	if (r >= 0)
		r = strings_add_all(&device->annotations, &from->annotations);
	if (r >= 0)
		r = strings_add_all(&device->cdi, &from->cdi);
	if (r >= 0)
		r = strings_add_all(&device->claims, &from->claims);
	if (r >= 0)
		r = strings_add_all(&device->attributes, &from->attributes);
	device->part = from->part;
	if (r >= 0 && from->whole)
		r = device_set_whole(device, from->whole);
	device->entry = from->entry;
	device->host_paths = from->host_paths;
	if (r >= 0 && from->problem)
		r = device_set_problem(device, "%s", from->problem);
	device->lacks_node = from->lacks_node;
	if (r >= 0 && from->absence)
		r = device_set_absence(device, "%s", from->absence);
	if (r >= 0 && from->info) {
		device->info = strdup(from->info);
		r = device->info ? 0 : -ENOMEM;
	}
	return r;
}

int device_set_mobile(struct device *device, const char *anchor)
{
	_cleanup_free_ char *copy = anchor ? strdup(anchor) : NULL;

	assert(!device->assigned);
	if (anchor && !copy)
		return -ENOMEM;
	device->assigned = malloc(sizeof(*device->assigned));
	if (!device->assigned)
		return -ENOMEM;
	atomic_init(device->assigned, false);
	device->anchor = TAKE_PTR(copy);
	return 0;
}

void device_note_assigned(const struct device *device)
{
	if (device->assigned)
		atomic_store_explicit(device->assigned, true, memory_order_relaxed);
}

bool device_was_assigned(const struct device *device)
{
	return device->assigned && atomic_load_explicit(device->assigned, memory_order_relaxed);
}

int device_set_whole(struct device *device, const char *name)
{
	free(device->whole);
	device->whole = strdup(name);
	return device->whole ? 0 : -ENOMEM;
}

int device_add_claim(struct device *device, const char *claim)
{
	return strings_add(&device->claims, claim, strlen(claim));
}

int device_add_container(struct device *device, const char *claim)
{
	char *marked;
	int r = format_text(&marked, "%c%s", MARK_CONTAINER, claim);

	if (r < 0)
		return r;
	r = strings_contain(&device->claims, marked) ? 0 : device_add_claim(device, marked);
	free(marked);
	return r;
}

int device_add_pci_claim(struct device *device, const char *address)
{
	_cleanup_free_ char *claim = NULL;
	int r = format_text(&claim, "pci:%s", address);

	return r < 0 ? r : device_add_claim(device, claim);
}

int device_add_pci_container(struct device *device, const char *address)
{
	_cleanup_free_ char *claim = NULL;
	int r = format_text(&claim, "pci:%s", address);

	return r < 0 ? r : device_add_container(device, claim);
}

size_t device_count_claims(const struct device *device)
{
	size_t n = device->claims.count;

	for (size_t i = 0; i < device->n_nodes; i++)
		n += !device->nodes[i].shared;
	return n;
}

void device_share_nodes(struct device *device, size_t first)
{
	for (size_t i = first; i < device->n_nodes; i++)
		device->nodes[i].shared = true;
}

const char *device_variable(const struct device *device, const char *name)
{
	for (size_t i = 0; i < device->n_variables; i++)
		if (streq(device->variables[i].name, name))
			return device->variables[i].value;
	return NULL;
}

static bool node_equal(const struct device_node *a, const struct device_node *b)
{
	return streq(a->host, b->host) && streq(a->path, b->path) &&
		streq(a->permissions, b->permissions) && a->mount == b->mount &&
		a->read_only == b->read_only && a->optional == b->optional &&
		a->shared == b->shared;
}

bool device_equal(const struct device *a, const struct device *b)
{
	if (!streq(a->id, b->id) || a->n_nodes != b->n_nodes || a->n_numa != b->n_numa ||
		a->n_variables != b->n_variables || a->n_distances != b->n_distances ||
		a->entry != b->entry || a->host_paths != b->host_paths ||
		a->lacks_node != b->lacks_node || !streq(a->problem ?: "", b->problem ?: "") ||
		!streq(a->absence ?: "", b->absence ?: "") ||
		!streq(a->whole ?: "", b->whole ?: ""))
		return false;
	if (a->finding != b->finding || a->finding_period != b->finding_period ||
		!streq(a->finding_reason ?: "", b->finding_reason ?: ""))
		return false;
	for (size_t i = 0; i < a->n_nodes; i++)
		if (!node_equal(&a->nodes[i], &b->nodes[i]))
			return false;
	for (size_t i = 0; i < a->n_numa; i++)
		if (a->numa[i] != b->numa[i])
			return false;
	for (size_t i = 0; i < a->n_variables; i++)
		if (!streq(a->variables[i].name, b->variables[i].name) ||
			!streq(a->variables[i].value, b->variables[i].value))
			return false;
	for (size_t i = 0; i < a->n_distances; i++)
		if (!streq(a->distances[i].id, b->distances[i].id) ||
			a->distances[i].distance != b->distances[i].distance)
			return false;
	if (a->info && b->info ? !streq(a->info, b->info) : a->info != b->info)
		return false;
	return strings_equal(&a->env, &b->env) && strings_equal(&a->annotations, &b->annotations) &&
		strings_equal(&a->cdi, &b->cdi) && strings_equal(&a->claims, &b->claims) &&
		strings_equal(&a->attributes, &b->attributes);
}
