/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides from which reports of a resource's process failures are taken, when decisions are made
 * again, and how they survive a restart. Only failures for which the configuration evicts count, so
 * that a process that is compromised cannot evict pods of a resource that evicts none.
 */
#include "supervisor/eviction/eviction.h"

#include "common/boot-id.h"
#include "common/control-child.h"
#include "common/finding.h"
#include "common/json-read.h"
#include "common/map.h"
#include "common/message-id.h"
#include "common/offered-id.h"
#include "common/pod-table.h"
#include "common/sealed.h"
#include "common/text.h"
#include "configuration/libconfig-text.h"
#include "drivers/model/driver.h"
#include "supervisor/books/pod-resources.h"
#include "supervisor/eviction/eviction-list.h"
#include "supervisor/eviction/eviction-orders.h"
#include "supervisor/files/runtime-files.h"

#define EVICTIONS_FILE "evictions.json"
/* How often the pods of devices are read again while pods are evicted. */
#define LOOK_INTERVAL (10 * USEC_PER_SEC)

/* --- across restarts --- */

static json_t *save_all(const struct evictions *evictions)
{
	json_auto_t *plans = json_object();
	const char *boot = boot_id();

	for (size_t i = 0; i < evictions->n_items; i++)
		if (json_object_set_new(plans, evictions->items[i]->resource,
			    eviction_plan_save(&evictions->items[i]->plan)) < 0)
			return NULL;
	return boot ? json_pack("{s:s, s:O}", "boot", boot, "resources", plans) : NULL;
}

/* Writes the file if that would change it. */
static void save(struct evictions *evictions)
{
	json_auto_t *saved = save_all(evictions);
	_cleanup_free_ char *text = saved ? json_dumps(saved, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	int r;

	if (text && evictions->saved && streq(text, evictions->saved))
		return;
	r = text
		? runtime_files_write(evictions->manager->files, EVICTIONS_FILE, text, strlen(text))
		: -ENOMEM;
	free(TAKE_PTR(evictions->saved));
	if (r >= 0)
		evictions->saved = TAKE_PTR(text);
	if (r < 0 && !evictions->unsaved)
		log_warning("cannot save which evictions are held: %s; it will be lost when "
			    "devplugd restarts",
			strerror(-r));
	evictions->unsaved = r < 0;
}

void evictions_write_again(struct evictions *evictions)
{
	free(TAKE_PTR(evictions->saved));
	save(evictions);
}

bool evictions_write_left(struct evictions *evictions)
{
	if (evictions->unsaved)
		save(evictions);
	return !evictions->unsaved;
}

static json_t *read_saved(struct manager *manager)
{
	_cleanup_fclose_ FILE *stream = NULL;
	json_auto_t *saved = NULL;
	int fd;

	fd = runtime_files_open_file(runtime_files_directory(manager->files), EVICTIONS_FILE);
	if (fd < 0)
		return NULL;
	stream = fdopen(fd, "re");
	if (!stream) {
		(void)close_fd(fd);
		return NULL;
	}
	saved = json_loadf(stream, 0, NULL);
	return streq(text_of(saved, "boot"), boot_id() ?: "-")
		? json_incref(json_object_get(saved, "resources"))
		: NULL;
}

/* A plan that cannot be read begins as after a change of the configuration. */
static int load(struct evictions *evictions)
{
	json_auto_t *saved = read_saved(evictions->manager);
	uint64_t now = now_usec(CLOCK_BOOTTIME);
	const char *resource;
	json_t *plan;

	json_object_foreach(saved, resource, plan)
	{
		struct evicting *evicting;
		int r = eviction_list_add(evictions, resource, &evicting);

		if (r >= 0)
			r = eviction_plan_load(plan, now, &evicting->plan);
		if (r == -ENOMEM)
			return r;
	}
	return 0;
}

/* --- decisions --- */

static void on_change(const struct eviction_failure *failure, void *userdata)
{
	const struct evicting *evicting = userdata;
	const struct log_fields fields = {
		.resource = evicting->resource,
		.device = failure->device,
		.message_id = MESSAGE_ID_EVICTION,
	};

	char text[2 * CONTROL_TEXT_MAX];

	eviction_plan_text(failure, evicting->resource, text, sizeof(text));
	log_full(LOG_WARNING, &fields, "%s", text);
}

void evictions_decide(struct evictions *evictions)
{
	uint64_t now = now_usec(CLOCK_BOOTTIME), next = USEC_INFINITY;
	bool active = false;

	for (size_t i = 0; i < evictions->n_items; i++) {
		struct evicting *evicting = evictions->items[i];
		uint64_t due;

		if (!evicting->reported)
			continue;
		due = eviction_plan_run(&evicting->plan, now, on_change, evicting);
		next = MIN_OF(next, due);
		active |= eviction_plan_count(&evicting->plan, EVICTION_ACTIVE) > 0;
	}
	save(evictions);
	if (active || evictions->active)
		eviction_orders_begin(evictions);
	if (active)
		next = MIN_OF(next, now + LOOK_INTERVAL);
	evictions->active = active;
	(void)sd_event_source_set_time(evictions->timer, next);
	(void)sd_event_source_set_enabled(
		evictions->timer, next == USEC_INFINITY ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
	manager_changed(evictions->manager);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct evictions *evictions = userdata;

	if (!evictions->manager->stopping)
		evictions_decide(evictions);
	return 0;
}

/* --- the configuration --- */

/* The keys that decide whether a device has failed, and when its pods are evicted. Cordons, which
 * administrators change during a repair, do not count. 0: no memory. */
static uint64_t hash_configuration(const struct declaration *declaration)
{
	_cleanup_free_ char *text = NULL;
	struct declaration judged = *declaration;
	uint64_t hash;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return 0;
	judged.cordon.count = 0;
	text_write(stream, &declaration_table, &judged, TEXT_CANONICAL, 0);
	if (fclose(stream) != 0)
		return 0;
	hash = hash_string(text);
	return hash == 0 ? 1 : hash;
}

void evictions_configure(struct evictions *evictions, const struct child *child)
{
	const struct declaration *declaration = child_declaration(child);
	struct evicting *evicting = eviction_list_find(evictions, child->resource->name);
	uint64_t hash;

	if (!declaration || !declaration_evicts(declaration)) {
		if (evicting) {
			eviction_list_drop(evictions, evicting);
			evictions_decide(evictions);
		}
		return;
	}
	hash = hash_configuration(declaration);
	if (hash == 0 ||
		(!evicting && eviction_list_add(evictions, child->resource->name, &evicting) < 0)) {
		log_error("eviction cannot be configured for %s: out of memory",
			child->resource->name);
		return;
	}
	if (eviction_plan_configure(&evicting->plan, hash, now_usec(CLOCK_BOOTTIME)))
		evictions_decide(evictions);
}

void evictions_child_gone(struct evictions *evictions, const struct child *child)
{
	struct evicting *evicting = eviction_list_find(evictions, child->resource->name);

	if (!evicting || !evicting->reported)
		return;
	evicting->reported = false;
	if (!evictions->manager->stopping)
		evictions_decide(evictions);
}

void evictions_drop_removed(struct evictions *evictions)
{
	size_t before = evictions->n_items;

	for (size_t i = before; i > 0; i--) {
		const struct evicting *evicting = evictions->items[i - 1];

		if (!manager_find_child(evictions->manager, evicting->resource))
			eviction_list_drop(evictions, evicting);
	}
	if (evictions->n_items != before)
		evictions_decide(evictions);
}

/* --- what is reported --- */

/* Returns 1 with the time after which the failure evicts, 0 if it does not, or -EBADMSG. */
static int find_time(
	const struct declaration *declaration, const json_t *failure, uint64_t *ret_after)
{
	const json_t *position = json_object_get(failure, "probe");
	json_int_t at = json_integer_value(position);
	const struct declared_probe *probe;

	if (!position) {
		*ret_after = declaration->missing.evict_after;
		return declaration->missing.severity == SEVERITY_EVICT ||
			declaration->missing.on_return == ON_RETURN_EVICT;
	}
	if (!json_is_integer(position) || at < 0)
		return -EBADMSG;
	/* The process may have sent it before it took another configuration. */
	if ((uint64_t)at >= declaration->health.count)
		return 0;
	probe = groups_get(&declaration->health, (size_t)at);
	*ret_after = probe->evict_after;
	return probe->severity == SEVERITY_EVICT;
}

/* The failures of one device become one: the first that proves something. */
static void merge(struct eviction_report *reports, size_t *n, const struct eviction_report *report)
{
	for (size_t i = 0; i < *n; i++) {
		if (!streq(reports[i].device, report->device))
			continue;
		if (reports[i].could_not_run && !report->could_not_run)
			reports[i] = *report;
		return;
	}
	reports[(*n)++] = *report;
}

/* The process is not trusted. Returns 0, -EBADMSG, or -ENOMEM. */
static int clean(json_t *failure)
{
	_cleanup_free_ char *text = strndup(text_of(failure, "text"), CONTROL_TEXT_MAX);

	if (!pod_field_is_plain(text_of(failure, "id")) || !*text_of(failure, "id") ||
		strlen(text_of(failure, "id")) > DEVICE_ID_MAX)
		return -EBADMSG;
	if (!text)
		return -ENOMEM;
	text_sanitize(text);
	return json_object_set_new(failure, "text", json_string(text)) < 0 ? -ENOMEM : 0;
}

static int read_reports(const struct declaration *declaration, json_t *failures,
	struct eviction_report *reports, size_t *ret_n)
{
	json_t *failure;
	size_t i, n = 0;

	json_array_foreach(failures, i, failure)
	{
		struct eviction_report report;
		int r = clean(failure);

		report = (struct eviction_report){
			.device = text_of(failure, "id"),
			.text = text_of(failure, "text"),
			.could_not_run = json_is_true(json_object_get(failure, "could_not_run")),
		};
		if (r >= 0)
			r = find_time(declaration, failure, &report.evict_after);
		if (r < 0)
			return r;
		if (r > 0)
			merge(reports, &n, &report);
	}
	*ret_n = n;
	return 0;
}

static int take_document(
	struct evicting *evicting, const struct declaration *declaration, json_t *document)
{
	json_t *failures = json_object_get(document, "failures");
	const json_t *devices = json_object_get(document, "devices");
	const json_t *failing = json_object_get(document, "failing");
	_cleanup_free_ struct eviction_report *reports = NULL;
	size_t n;
	int r;

	if (!json_is_array(failures) || json_array_size(failures) > FAILURES_MAX ||
		!json_is_integer(devices) || json_integer_value(devices) < 0 ||
		!json_is_integer(failing) || json_integer_value(failing) < 0)
		return -EBADMSG;
	reports = calloc(json_array_size(failures) + 1, sizeof(*reports));
	if (!reports)
		return -ENOMEM;
	r = read_reports(declaration, failures, reports, &n);
	if (r < 0)
		return r;
	return eviction_plan_take(&evicting->plan, reports, n,
		(uint64_t)json_integer_value(devices), (uint64_t)json_integer_value(failing),
		now_usec(CLOCK_BOOTTIME));
}

int evictions_take(struct evictions *evictions, const struct child *child, int fd)
{
	const struct declaration *declaration = child_declaration(child);
	struct evicting *evicting;
	_cleanup_free_ char *text = NULL;
	json_auto_t *document = NULL;
	size_t size;
	int r;

	if (!declaration || !declaration_evicts(declaration))
		return 0;
	r = sealed_read(fd, FAILURES_BYTES_MAX, &text, &size);
	if (r < 0)
		return r == -ENOMEM ? 0 : -EBADMSG;
	document = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	evictions_configure(evictions, child);
	evicting = eviction_list_find(evictions, child->resource->name);
	if (!evicting)
		return 0;
	r = take_document(evicting, declaration, document);
	if (r == -EBADMSG)
		return r;
	evicting->reported = true;
	evictions_decide(evictions);
	return 0;
}

/* --- --- */

void evictions_set_process(struct evictions *evictions, struct auxiliary *process)
{
	evictions->process = process;
}

int evictions_new(struct manager *manager, struct evictions **ret)
{
	_cleanup_(evictions_freep) struct evictions *evictions = calloc(1, sizeof(*evictions));
	int r;

	if (!evictions)
		return -ENOMEM;
	evictions->manager = manager;
	r = sd_event_add_time(manager->event, &evictions->timer, CLOCK_BOOTTIME, 0,
		100 * USEC_PER_MSEC, on_timer, evictions);
	if (r >= 0)
		r = sd_event_source_set_enabled(evictions->timer, SD_EVENT_OFF);
	if (r >= 0)
		r = load(evictions);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(evictions);
	return 0;
}

void evictions_send(struct evictions *evictions)
{
	eviction_orders_send(evictions);
}

bool evictions_take_results(struct evictions *evictions, struct control_message *message)
{
	return eviction_orders_take_results(evictions, message);
}

struct evictions *evictions_free(struct evictions *evictions)
{
	if (!evictions)
		return NULL;
	if (evictions->asking)
		pod_resources_cancel(evictions->manager->pods, evictions);
	eviction_list_done(evictions);
	free(evictions->sent);
	free(evictions->saved);
	sd_event_source_disable_unref(evictions->timer);
	free(evictions);
	return NULL;
}
