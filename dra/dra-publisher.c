/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when ResourceSlices are read and written. A round reads the slices and the node's uid if
 * they are not known, compares them, and writes one object after the other. The server's answer to
 * a write is kept, so the next change needs no reading. A failed write, an unexpected event of the
 * watch, or the end of the watch makes the next round read both again. A watch that fails or ends
 * soon is retried with a delay of its own; until then, changes are published as usual. What the
 * server lacks is tested again each time that the slices are read. All slices
 * of a pool have one generation: it stays if only one slice changes, and grows if several slices or
 * their number change.
 */
#include "dra/dra-publisher.h"

#include <malloc.h>

#include "common/json-read.h"
#include "common/log.h"
#include "dra/model/dra-names.h"
#include "dra/model/dra-slices.h"
#include "dra/model/slice-lacks.h"
#include "dra/model/stored-slice.h"
#include "dra/timing.h"

#define SLICES_PATH "/apis/" DRA_API_VERSION "/resourceslices"

#define COALESCE_TIME (500 * USEC_PER_MSEC)
/* The events of our own writes have arrived by then. */
#define SUSPICION_TIME (1 * USEC_PER_SEC)
/* After this, a request that is not answered is reported; it ends after DRA_API_TIMEOUT. */
#define SLOW_TIME     (5 * USEC_PER_SEC)
#define WATCH_SECONDS 300
#define WATCH_PROVEN  (5 * USEC_PER_SEC) /* a watch that lasts this long works */
#define SLICES_MAX    4096               /* maximum number of our slices that are read */
#define PAGE_SIZE     500
#define PAGES_MAX     64 /* a page may have fewer than it could */
/* No pool reaches this generation by changes. A slice with a higher one is deleted and does not
 * count. */
#define GENERATION_MAX (INT64_MAX / 2)
/* What devplugd may not use of a server, also if no slice would. */
#define BY_RELEASE (1U << LACK_COUNTERS | 1U << LACK_SHARED_COUNTERS | 1U << LACK_MANY_TAINTS)

enum step { STEP_IDLE, STEP_NODE, STEP_RELEASE, STEP_LIST, STEP_WRITE };

/* A pending write. */
struct write {
	const char *method;
	char *name;    /* NULL: POST */
	size_t number; /* of the slice, except for DELETE */
	unsigned uses; /* see slice_lacks_used() */
};

struct dra_publisher {
	sd_event *event;
	struct dra_api *api;
	const char *driver, *node;
	dra_pool_handler on_change;
	void *userdata;

	struct dra_inventory inventory;
	json_t *resources; /* its input; NULL: not known yet */
	json_t *held;      /* see struct dra_inventory_options */
	unsigned lacks;    /* bits of enum slice_lack; LACK_OTHER is only reported */
	unsigned tried;    /* those that the server has, or that a dry run cannot find */
	bool blind;        /* the server refuses dry runs */
	unsigned noted;    /* those that have been logged */
	char *release;     /* the server's when `lacks` was found; NULL: not known */
	json_t *settled;   /* see stored_slice_settle() */
	json_t *times;     /* of taints */

	enum step step;
	bool again;                      /* something has changed during a round */
	bool reread;                     /* and it needs the list */
	bool published;                  /* the server stores all devices as they are now */
	uint64_t written_at, writing_at; /* CLOCK_MONOTONIC: when the slices that the server stores
					  * were made, 0: not known; and those of this round */
	char *node_uid;
	json_t *stored;  /* by name, as the server stores them; NULL: not known */
	json_t *pending; /* of a list under construction */
	size_t n_pages;
	char *version; /* resourceVersion of the list */
	json_int_t generation, highest;
	json_int_t writing; /* the generation of the writes */
	json_t *slices;     /* from which their objects are made, see struct dra_inventory */
	json_t *object;     /* of the write that is sent; NULL: DELETE */
	struct write *writes;
	size_t n_writes, at;

	bool watching;
	json_t *seen;                 /* by name: the last resourceVersion of the watch, or null */
	char *watch_failure;          /* failure that is reported until a watch works; NULL: none */
	uint64_t watch_delay;         /* before the next watch, 0: the last one worked */
	uint64_t delay;               /* before the next round, 0: none failed */
	sd_event_source *watch_timer; /* when this watch works, or the next one may begin */
	sd_event_source *round_timer, *suspicion_timer, *slow_timer;
};

static const char *name_of(const json_t *object)
{
	return text_of(json_object_get(object, "metadata"), "name");
}

/* A name becomes a part of a path of the API. */
static bool has_valid_name(const json_t *object)
{
	return dra_name_is_valid(name_of(object), DRA_OBJECT_NAME_MAX);
}

static json_int_t generation_of(const json_t *slice)
{
	const json_t *pool = json_object_get(json_object_get(slice, "spec"), "pool");

	return json_integer_value(json_object_get(pool, "generation"));
}

static const char *version_of(const json_t *object)
{
	return text_of(json_object_get(object, "metadata"), "resourceVersion");
}

static void plan(sd_event_source *timer, uint64_t delay)
{
	timing_plan(timer, now_usec(CLOCK_MONOTONIC) + delay);
}

static void plan_within(sd_event_source *timer, uint64_t delay)
{
	timing_plan_by(timer, now_usec(CLOCK_MONOTONIC) + delay);
}

static void forget_writes(struct dra_publisher *publisher)
{
	for (size_t i = 0; i < publisher->n_writes; i++)
		free(publisher->writes[i].name);
	free(publisher->writes);
	json_decref(publisher->slices);
	json_decref(publisher->object);
	publisher->slices = publisher->object = NULL;
	publisher->writes = NULL;
	publisher->n_writes = publisher->at = 0;
}

static void forget_stored(struct dra_publisher *publisher)
{
	json_decref(publisher->stored);
	publisher->stored = NULL;
	(void)json_object_clear(publisher->seen);
}

/* A node that was deleted and created again has a new uid. */
static void forget_node(struct dra_publisher *publisher)
{
	free(publisher->node_uid);
	publisher->node_uid = NULL;
}

/* Only those with an effect, as far as the release shows them. */
static unsigned reported_lacks(const struct dra_publisher *publisher)
{
	return (publisher->lacks & ~BY_RELEASE) | publisher->inventory.missed;
}

static void report(struct dra_publisher *publisher, const char *failure)
{
	bool known = publisher->stored && json_object_size(publisher->stored) > 0;

	const struct dra_pool_state state = {
		.generation = known ? (uint64_t)publisher->generation : 0,
		.slices = json_object_size(publisher->stored),
		.lacks = reported_lacks(publisher),
		.failure = failure,
	};

	publisher->on_change(&state, publisher->userdata);
}

/* --- the end of a round --- */

static void start_watch(struct dra_publisher *publisher);
static void save_memory(struct dra_publisher *publisher);

static void end_round(struct dra_publisher *publisher)
{
	publisher->step = STEP_IDLE;
	publisher->delay = 0;
	publisher->noted &= publisher->lacks;
	publisher->published = !publisher->again;
	publisher->written_at = publisher->reread ? 0 : publisher->writing_at;
	if (publisher->n_writes > 0)
		save_memory(publisher);
	forget_writes(publisher);
	(void)sd_event_source_set_enabled(publisher->slow_timer, SD_EVENT_OFF);
	report(publisher, publisher->watch_failure ?: "");
	if (publisher->again)
		plan(publisher->round_timer, COALESCE_TIME);
	publisher->again = false;
	if (!publisher->watching && !timing_is_planned(publisher->watch_timer))
		start_watch(publisher);
}

/* The objects on the server are unknown now. */
static void fail_round(struct dra_publisher *publisher, const struct dra_answer *answer)
{
	publisher->step = STEP_IDLE;
	publisher->again = publisher->published = false;
	publisher->written_at = 0;
	forget_writes(publisher);
	forget_node(publisher);
	(void)sd_event_source_set_enabled(publisher->slow_timer, SD_EVENT_OFF);
	report(publisher, answer->failure);
	forget_stored(publisher);
	plan(publisher->round_timer, dra_api_retry_delay(&publisher->delay, answer));
}

static void fail_round_text(struct dra_publisher *publisher, const char *failure)
{
	const struct dra_answer answer = { .failure = failure };

	fail_round(publisher, &answer);
}

/* --- requests --- */

static int on_slow(sd_event_source *source, uint64_t usec, void *userdata)
{
	report(userdata, "the API server has not answered for 5 s");
	return 0;
}

static void ask(struct dra_publisher *publisher, const char *method, const char *path,
	const json_t *body, dra_answer_handler on_answer)
{
	if (dra_api_request(publisher->api, method, path, body, on_answer, publisher) < 0)
		fail_round_text(publisher, "out of memory");
	else
		plan(publisher->slow_timer, SLOW_TIME);
}

/* --- writes --- */

static void next_write(struct dra_publisher *publisher);

static void replace_json(json_t **slot, json_t *value)
{
	(void)json_incref(value);
	json_decref(*slot);
	*slot = value;
}

/* Publishes these resources from now on, as far as the server can store them. Returns 0, or -ENOMEM
 * without a change. */
static int rebuild(struct dra_publisher *publisher, json_t *resources, json_t *held, unsigned lacks)
{
	const struct dra_inventory_options options = {
		.driver = publisher->driver,
		.lacks = lacks,
		.held = held,
	};
	struct dra_inventory inventory;
	int r;

	r = dra_inventory_build(resources, &options, &inventory);
	if (r < 0)
		return r;
	dra_inventory_done(&publisher->inventory);
	publisher->inventory = inventory;
	replace_json(&publisher->resources, resources);
	replace_json(&publisher->held, held);
	publisher->lacks = lacks;
	taint_times_forget(publisher->times, inventory.names);
	return 0;
}

/* The server lacks more than was known: the slices are made again at once, because devices that
 * lost a taint can be allocated. */
static bool learn_lacks(struct dra_publisher *publisher, unsigned found, const char *other)
{
	unsigned before = publisher->lacks;

	found &= ~before;
	if (found == 0 ||
		rebuild(publisher, publisher->resources, publisher->held, before | found) < 0)
		return false;
	for (size_t i = 0; i < _LACK_MAX; i++)
		if (found & ~publisher->noted & 1U << i)
			log_notice("the API server does not support %s%s%s", slice_lack_text(i),
				i == LACK_OTHER ? ": " : "", i == LACK_OTHER ? other : "");
	publisher->noted |= found;
	return true;
}

/* Begins the round again, with other slices. */
static void restart_round(struct dra_publisher *publisher)
{
	publisher->step = STEP_IDLE;
	publisher->again = false;
	forget_writes(publisher);
	(void)sd_event_source_set_enabled(publisher->slow_timer, SD_EVENT_OFF);
	plan(publisher->round_timer, 0);
}

/* The wanted slice of a write. NULL: no memory. */
static json_t *make_wanted(const struct dra_publisher *publisher, const struct write *write)
{
	const struct dra_inventory inventory = { .slices = publisher->slices };
	const struct dra_pool pool = {
		.driver = publisher->driver,
		.node = publisher->node,
		.node_uid = publisher->node_uid,
		.generation = publisher->writing,
	};

	return dra_slice_object(&pool, &inventory, write->number);
}

/* Makes the object when it is sent, because those of all writes would take as much memory as the
 * devices. Returns 0 or -ENOMEM. */
static int make_object(struct dra_publisher *publisher, const struct write *write)
{
	json_auto_t *wanted = NULL;

	json_decref(publisher->object);
	publisher->object = NULL;
	if (streq(write->method, "DELETE"))
		return 0;
	wanted = make_wanted(publisher, write);
	if (!wanted)
		return -ENOMEM;
	publisher->object = write->name
		? stored_slice_update(json_object_get(publisher->stored, write->name), wanted)
		: json_deep_copy(wanted);
	if (!publisher->object)
		return -ENOMEM;
	taint_times_set(publisher->times, publisher->object);
	return 0;
}

/* Keeps the server's answer to a write. */
static int take_written(struct dra_publisher *publisher, json_t *stored)
{
	int r = json_object_set(publisher->stored, name_of(stored), stored);

	if (r >= 0)
		r = stored_slice_settle(publisher->settled, publisher->object, stored);
	if (r >= 0)
		r = taint_times_take(publisher->times, stored);
	return r < 0 ? -ENOMEM : 0;
}

/* Without it, the answers to all writes would take as much memory as the devices. */
static void share_devices(
	const struct dra_publisher *publisher, const struct write *write, json_t *stored)
{
	json_auto_t *wanted = make_wanted(publisher, write);

	if (wanted && stored_slice_is(stored, wanted))
		stored_slice_share(stored, wanted);
}

/* The first write with a field of which it is not known whether the server drops it, or NULL. */
static const struct write *find_untried(const struct dra_publisher *publisher)
{
	for (size_t i = publisher->at; i < publisher->n_writes; i++)
		if (publisher->writes[i].uses & ~publisher->tried)
			return &publisher->writes[i];
	return NULL;
}

/* A server that drops taints must not store that bad devices are good, not even for a moment: a
 * waiting pod could get one. So a field that may be dropped is first sent in a dry run, before
 * anything is written. */
static void on_tried(const struct dra_answer *answer, void *userdata)
{
	struct dra_publisher *publisher = userdata;
	const struct write *write = find_untried(publisher);
	char other[SLICE_FIELD_MAX] = "";
	unsigned lacks = 0;

	if (answer->code == 422)
		lacks = slice_lacks_refused(publisher->object, answer->body);
	else if (!answer->failure)
		lacks = slice_lacks_dropped(publisher->object, answer->body, other);
	if (learn_lacks(publisher, lacks, other)) {
		restart_round(publisher);
		return;
	}
	if (answer->failure && answer->code != 400) {
		fail_round(publisher, answer);
		return;
	}
	/* A cluster may refuse dry runs: then the answer to the write shows it. */
	publisher->blind |= answer->failure != NULL;
	publisher->tried |= write->uses;
	next_write(publisher);
}

static void on_written(const struct dra_answer *answer, void *userdata)
{
	struct dra_publisher *publisher = userdata;
	const struct write *write = &publisher->writes[publisher->at];
	char other[SLICE_FIELD_MAX] = "";
	unsigned lacks = 0;

	/* The object of a deletion does not exist, as wanted. */
	if (answer->failure && (publisher->object || answer->code != 404)) {
		if (answer->code == 422 &&
			learn_lacks(publisher, slice_lacks_refused(publisher->object, answer->body),
				other))
			restart_round(publisher);
		else
			fail_round(publisher, answer);
		return;
	}
	if (!publisher->object)
		(void)json_object_del(publisher->stored, write->name);
	else if (!has_valid_name(answer->body)) {
		fail_round_text(
			publisher, "the API server stored a ResourceSlice without a valid name");
		return;
	} else if (take_written(publisher, answer->body) < 0) {
		fail_round_text(publisher, "out of memory");
		return;
	} else {
		lacks = slice_lacks_dropped(publisher->object, answer->body, other);
		share_devices(publisher, write, answer->body);
	}
	if (learn_lacks(publisher, lacks, other)) {
		restart_round(publisher);
		return;
	}
	publisher->at++;
	next_write(publisher);
}

static void next_write(struct dra_publisher *publisher)
{
	const struct write *write = find_untried(publisher);
	bool dry = write;
	char path[400];

	if (publisher->at == publisher->n_writes) {
		end_round(publisher);
		return;
	}
	if (!dry) {
		write = &publisher->writes[publisher->at];
		publisher->generation = publisher->writing;
		publisher->highest = MAX_OF(publisher->highest, publisher->writing);
	}
	if (make_object(publisher, write) < 0) {
		fail_round_text(publisher, "out of memory");
		return;
	}
	(void)snprintf(path, sizeof(path), SLICES_PATH "%s%s%s", write->name ? "/" : "",
		write->name ?: "", dry ? "?dryRun=All" : "");
	ask(publisher, write->method, path, publisher->object, dry ? on_tried : on_written);
}

static int add_write(struct dra_publisher *publisher, const char *method, const char *name,
	size_t number, unsigned uses)
{
	struct write write = { .method = method, .number = number, .uses = uses };

	write.name = name ? strdup(name) : NULL;
	if ((name && !write.name) ||
		array_reserve((void **)&publisher->writes, publisher->n_writes, sizeof(write)) <
			0) {
		free(write.name);
		return -ENOMEM;
	}
	publisher->writes[publisher->n_writes++] = write;
	return 0;
}

/* --- comparison --- */

static const char *pool_of(const json_t *slice)
{
	return text_of(json_object_get(json_object_get(slice, "spec"), "pool"), "name");
}

/* The stored slice of the wanted one's pool whose name begins with that number, or NULL: the API
 * server lets no slice change its pool. `taken` contains the names that have been found. */
static json_t *find_stored(const struct dra_publisher *publisher, size_t number,
	const json_t *wanted, const json_t *taken)
{
	json_t *object;
	const char *name;
	char prefix[24];

	(void)snprintf(prefix, sizeof(prefix), "%05zx-", number);
	json_object_foreach(publisher->stored, name, object)
	{
		if (startswith(name, prefix) && !json_object_get(taken, name) &&
			streq(pool_of(object), pool_of(wanted)) &&
			generation_of(object) <= GENERATION_MAX)
			return object;
	}
	return NULL;
}

struct comparison {
	json_t *taken; /* names of stored slices that stay */
	size_t different, missing;
};

/* Adds the write that corrects one slice, if it differs; with `count`, only counts it. */
static int compare_slice(struct dra_publisher *publisher, const struct dra_pool *pool,
	size_t number, struct comparison *comparison, bool count)
{
	json_auto_t *wanted = dra_slice_object(pool, &publisher->inventory, number);
	json_t *stored = find_stored(publisher, number, wanted, comparison->taken);

	if (!wanted)
		return -ENOMEM;
	if (stored && json_object_set_new(comparison->taken, name_of(stored), json_true()) < 0)
		return -ENOMEM;
	if (stored && stored_slice_is(stored, wanted)) {
		stored_slice_share(stored, wanted);
		return 0;
	}
	if (stored && stored_slice_is_settled(publisher->settled, stored, wanted))
		return 0;
	comparison->different += stored != NULL;
	comparison->missing += stored == NULL;
	if (count)
		return 0;
	return add_write(publisher, stored ? "PUT" : "POST", stored ? name_of(stored) : NULL,
		number, slice_lacks_used(wanted));
}

/* Stored slices that are no longer part of the pool are deleted first. */
static int delete_others(struct dra_publisher *publisher, const json_t *taken)
{
	const char *name;
	json_t *object;
	int r = 0;

	json_object_foreach(publisher->stored, name, object) if (r >= 0 &&
		!json_object_get(taken, name)) r = add_write(publisher, "DELETE", name, 0, 0);
	return r;
}

static int compare_all(struct dra_publisher *publisher, const struct dra_pool *pool, bool count,
	struct comparison *ret)
{
	struct comparison comparison = { .taken = json_object() };
	size_t n = json_array_size(publisher->inventory.slices);
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++)
		r = compare_slice(publisher, pool, i, &comparison, true);
	/* The order ensures that a pool is never complete with an obsolete slice. */
	if (r >= 0 && !count) {
		r = delete_others(publisher, comparison.taken);
		(void)json_object_clear(comparison.taken);
		for (size_t i = 0; i < n && r >= 0; i++)
			r = compare_slice(publisher, pool, i, &comparison, false);
	}
	*ret = comparison;
	return r;
}

/* The answers of the server have all devices a second time, and took a multiple of what stays. */
static void save_memory(struct dra_publisher *publisher)
{
	const struct dra_pool pool = {
		.driver = publisher->driver,
		.node = publisher->node,
		.generation = publisher->generation,
	};
	bool many = publisher->n_writes > 1;
	struct comparison comparison;

	forget_writes(publisher);
	(void)compare_all(publisher, &pool, true, &comparison);
	json_decref(comparison.taken);
	if (many)
		(void)malloc_trim(0);
}

static int make_writes(struct dra_publisher *publisher)
{
	struct dra_pool pool = {
		.driver = publisher->driver,
		.node = publisher->node,
		.node_uid = publisher->node_uid,
		.generation = MAX_OF(publisher->generation, (json_int_t)1),
	};
	struct comparison comparison;
	size_t kept;
	int r;

	r = compare_all(publisher, &pool, true, &comparison);
	kept = json_object_size(comparison.taken);
	json_decref(comparison.taken);
	if (r < 0)
		return r;
	if (comparison.missing > 0 || comparison.different > 1 ||
		kept < json_object_size(publisher->stored))
		pool.generation = publisher->highest + 1;
	publisher->writing = pool.generation;
	publisher->slices = json_incref(publisher->inventory.slices);
	r = compare_all(publisher, &pool, false, &comparison);
	json_decref(comparison.taken);
	return r;
}

static void write_changes(struct dra_publisher *publisher)
{
	publisher->step = STEP_WRITE;
	publisher->writing_at = now_usec(CLOCK_MONOTONIC);
	if (make_writes(publisher) < 0)
		fail_round_text(publisher, "out of memory");
	else
		next_write(publisher);
}

/* --- reading --- */

static int take_slice(struct dra_publisher *publisher, json_t *slice)
{
	const json_t *spec = json_object_get(slice, "spec");

	/* The request selects only these slices. */
	if (!has_valid_name(slice) || !streq(text_of(spec, "driver"), publisher->driver) ||
		!streq(text_of(spec, "nodeName"), publisher->node) ||
		json_object_size(publisher->pending) >= SLICES_MAX)
		return 0;
	if (generation_of(slice) <= GENERATION_MAX)
		publisher->highest = MAX_OF(publisher->highest, generation_of(slice));
	if (taint_times_take(publisher->times, slice) < 0)
		return -ENOMEM;
	return json_object_set(publisher->pending, name_of(slice), slice);
}

static void read_list(struct dra_publisher *publisher, const char *continuation);

/* It becomes part of a path. NULL: a watch begins with the current state. */
static char *read_version(const json_t *metadata)
{
	const char *version = text_of(metadata, "resourceVersion");
	size_t length = strspn(version, "0123456789");

	return length > 0 && length <= 20 && version[length] == '\0' ? strdup(version) : NULL;
}

static bool is_token(const char *text)
{
	return strlen(text) <= 1024 &&
		text[strspn(text,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
			"+/=_-")] == '\0';
}

static void on_list(const struct dra_answer *answer, void *userdata)
{
	struct dra_publisher *publisher = userdata;
	const json_t *metadata = json_object_get(answer->body, "metadata");
	const char *more = text_of(metadata, "continue");
	json_t *slice;
	size_t i;

	if (answer->failure) {
		fail_round(publisher, answer);
		return;
	}
	json_array_foreach(json_object_get(answer->body, "items"), i, slice)(void)
		take_slice(publisher, slice);
	if (*more) {
		read_list(publisher, more);
		return;
	}
	free(publisher->version);
	publisher->version = read_version(metadata);
	forget_stored(publisher);
	publisher->stored = TAKE_PTR(publisher->pending);
	publisher->generation = publisher->highest;
	write_changes(publisher);
}

static void read_list(struct dra_publisher *publisher, const char *continuation)
{
	char path[2048];

	publisher->step = STEP_LIST;
	if (!*continuation) {
		json_decref(publisher->pending);
		publisher->pending = json_object();
		publisher->highest = 0;
		publisher->n_pages = 0;
	}
	/* A token is base64; any other form is refused. */
	if (!is_token(continuation) || ++publisher->n_pages > PAGES_MAX) {
		fail_round_text(publisher,
			"the API server's list of ResourceSlices is too long, or is continued with an invalid token");
		return;
	}
	(void)snprintf(path, sizeof(path),
		SLICES_PATH "?fieldSelector=spec.driver%%3D%s,spec.nodeName%%3D%s&limit=%d%s%s",
		publisher->driver, publisher->node, PAGE_SIZE, *continuation ? "&continue=" : "",
		continuation);
	ask(publisher, "GET", path, NULL, on_list);
}

/* What a server of the release lacks although it stores the fields. A release that is not known
 * lacks all of it. */
static unsigned lacks_of_release(const char *release)
{
	static const struct {
		enum slice_lack lack;
		unsigned since; /* 1.N */
	} rows[] = { { LACK_COUNTERS, 35 }, { LACK_MANY_TAINTS, 35 },
		{ LACK_SHARED_COUNTERS, 37 } };
	unsigned major = 0, minor = 0, lacks = 0;

	(void)sscanf(release, "v%u.%u", &major, &minor);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (major < 1 || (major == 1 && minor < rows[i].since))
			lacks |= 1U << rows[i].lack;
	return lacks;
}

/* Another release may have what the former one lacked, and a feature may have been switched on or
 * off. Without dry runs, finding out would store bad devices as good ones. */
static void on_release(const struct dra_answer *answer, void *userdata)
{
	struct dra_publisher *publisher = userdata;
	const char *release = text_of(answer->body, "gitVersion");
	_cleanup_free_ char *before = NULL;
	unsigned lacks = publisher->lacks;

	/* While the server restarts with another release, the one before stays known. */
	if (answer->failure && (answer->code == 0 || answer->code >= 500)) {
		fail_round(publisher, answer);
		return;
	}
	before = TAKE_PTR(publisher->release);
	publisher->release = strdup(release);
	if (before && !streq(before, release)) {
		publisher->blind = false;
		lacks = 0;
	} else if (!publisher->blind) {
		lacks &= 1U << LACK_OTHER;
	}
	publisher->tried = 0;
	lacks |= lacks_of_release(release);
	if (lacks != publisher->lacks &&
		rebuild(publisher, publisher->resources, publisher->held, lacks) < 0)
		fail_round_text(publisher, "out of memory");
	else
		read_list(publisher, "");
}

static void read_release(struct dra_publisher *publisher)
{
	publisher->step = STEP_RELEASE;
	ask(publisher, "GET", "/version", NULL, on_release);
}

static void on_node(const struct dra_answer *answer, void *userdata)
{
	struct dra_publisher *publisher = userdata;
	const char *uid = text_of(json_object_get(answer->body, "metadata"), "uid");

	if (answer->failure) {
		fail_round(publisher, answer);
		return;
	}
	free(publisher->node_uid);
	publisher->node_uid = strdup(uid);
	read_release(publisher);
}

static void read_node(struct dra_publisher *publisher)
{
	char path[320];

	publisher->step = STEP_NODE;
	(void)snprintf(path, sizeof(path), "/api/v1/nodes/%s", publisher->node);
	ask(publisher, "GET", path, NULL, on_node);
}

static int on_round(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct dra_publisher *publisher = userdata;

	if (publisher->step != STEP_IDLE) {
		publisher->again = true;
		return 0;
	}
	if (publisher->reread) {
		forget_stored(publisher);
		forget_node(publisher);
	}
	publisher->reread = false;
	if (!publisher->resources)
		return 0;
	if (!publisher->node_uid)
		read_node(publisher);
	else if (!publisher->stored)
		read_release(publisher);
	else
		write_changes(publisher);
	return 0;
}

/* Has the next round read everything again. */
static void check(struct dra_publisher *publisher)
{
	publisher->reread = true;
	publisher->published = false;
	publisher->written_at = 0;
	if (publisher->step != STEP_IDLE)
		publisher->again = true;
	else if (publisher->delay == 0)
		plan_within(publisher->round_timer, COALESCE_TIME);
}

/* --- the watch --- */

/* Whether another client has changed or deleted an object. */
static bool is_suspicious(const struct dra_publisher *publisher)
{
	json_t *version;
	const char *name;

	json_object_foreach(publisher->seen, name, version)
	{
		const json_t *stored = json_object_get(publisher->stored, name);

		if (json_is_string(version)
				? !stored || !streq(version_of(stored), json_string_value(version))
				: stored != NULL)
			return true;
	}
	return false;
}

static int on_suspicion(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct dra_publisher *publisher = userdata;

	if (publisher->step != STEP_IDLE || !publisher->stored) {
		plan(publisher->suspicion_timer, SUSPICION_TIME);
		return 0;
	}
	if (is_suspicious(publisher))
		check(publisher);
	(void)json_object_clear(publisher->seen);
	return 0;
}

static void on_event(const json_t *event, void *userdata)
{
	struct dra_publisher *publisher = userdata;
	const json_t *object = json_object_get(event, "object");
	const char *type = text_of(event, "type"), *name = name_of(object);

	if (streq(type, "BOOKMARK") || streq(type, "ERROR") || !*name ||
		json_object_size(publisher->seen) >= SLICES_MAX)
		return;
	(void)json_object_set_new(publisher->seen, name,
		streq(type, "DELETED") ? json_null() : json_string(version_of(object)));
	plan_within(publisher->suspicion_timer, SUSPICION_TIME);
}

static void set_watch_failure(struct dra_publisher *publisher, const char *failure)
{
	free(publisher->watch_failure);
	publisher->watch_failure = failure ? strdup(failure) : NULL;
	/* Otherwise the end of the round reports it. */
	if (publisher->step == STEP_IDLE && publisher->stored)
		report(publisher, publisher->watch_failure ?: "");
}

static int on_watch_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct dra_publisher *publisher = userdata;

	if (!publisher->watching) {
		check(publisher);
		return 0;
	}
	publisher->watch_delay = 0;
	if (publisher->watch_failure)
		set_watch_failure(publisher, NULL);
	return 0;
}

/* Between two watches anything may have happened. */
static void on_watch_end(const struct dra_answer *answer, void *userdata)
{
	struct dra_publisher *publisher = userdata;
	bool worked = !timing_is_planned(publisher->watch_timer);

	publisher->watching = false;
	if (worked && !answer->failure) {
		check(publisher);
		return;
	}
	/* If the server is not reachable, the next round fails and reports it. */
	if (!worked && answer->failure)
		set_watch_failure(publisher, answer->failure);
	plan(publisher->watch_timer, dra_api_retry_delay(&publisher->watch_delay, answer));
}

static void start_watch(struct dra_publisher *publisher)
{
	char path[1024];

	(void)snprintf(path, sizeof(path),
		SLICES_PATH "?fieldSelector=spec.driver%%3D%s,spec.nodeName%%3D%s&watch=1"
			    "&allowWatchBookmarks=true&resourceVersion=%s&timeoutSeconds=%d",
		publisher->driver, publisher->node, publisher->version ?: "", WATCH_SECONDS);
	publisher->watching =
		dra_api_watch(publisher->api, path, on_event, on_watch_end, publisher) >= 0;
	if (publisher->watching)
		plan(publisher->watch_timer, WATCH_PROVEN);
}

/* --- --- */

bool dra_publisher_keep_held(struct dra_publisher *publisher, json_t *held)
{
	if (!publisher->resources ||
		dra_inventory_follows_held(
			&publisher->inventory, publisher->driver, publisher->held, held))
		return false;
	replace_json(&publisher->held, held);
	return true;
}

int dra_publisher_set(struct dra_publisher *publisher, json_t *resources, json_t *held)
{
	int r;

	if (publisher->resources && json_equal(publisher->resources, resources) &&
		json_equal(publisher->held, held))
		return 0;
	r = rebuild(publisher, resources, held, publisher->lacks);
	if (r < 0)
		return r;
	publisher->published = false;
	if (publisher->step != STEP_IDLE)
		publisher->again = true;
	else if (publisher->delay == 0)
		plan_within(publisher->round_timer, COALESCE_TIME);
	return 0;
}

void dra_publisher_registered(struct dra_publisher *publisher)
{
	publisher->delay = 0;
	check(publisher);
}

const json_t *dra_publisher_published(const struct dra_publisher *publisher)
{
	return publisher->published ? publisher->resources : NULL;
}

bool dra_publisher_has_published(const struct dra_publisher *publisher, uint64_t since)
{
	return publisher->published || publisher->written_at > since;
}

json_t *dra_publisher_names(const struct dra_publisher *publisher)
{
	return publisher->inventory.names;
}

int dra_publisher_new(sd_event *event, struct dra_api *api, const char *driver, const char *node,
	dra_pool_handler on_change, void *userdata, struct dra_publisher **ret)
{
	_cleanup_(dra_publisher_freep) struct dra_publisher *publisher =
		calloc(1, sizeof(*publisher));
	int r;

	if (!publisher)
		return -ENOMEM;
	publisher->event = event;
	publisher->api = api;
	publisher->driver = driver;
	publisher->node = node;
	publisher->on_change = on_change;
	publisher->userdata = userdata;
	publisher->seen = json_object();
	publisher->settled = json_object();
	publisher->times = json_object();
	r = sd_event_add_time(event, &publisher->round_timer, CLOCK_MONOTONIC, USEC_INFINITY,
		USEC_PER_MSEC, on_round, publisher);
	if (r >= 0)
		r = sd_event_source_set_enabled(publisher->round_timer, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_add_time(event, &publisher->suspicion_timer, CLOCK_MONOTONIC,
			USEC_INFINITY, 100 * USEC_PER_MSEC, on_suspicion, publisher);
	if (r >= 0)
		r = sd_event_source_set_enabled(publisher->suspicion_timer, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_add_time(event, &publisher->watch_timer, CLOCK_MONOTONIC,
			USEC_INFINITY, USEC_PER_MSEC, on_watch_timer, publisher);
	if (r >= 0)
		r = sd_event_source_set_enabled(publisher->watch_timer, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_add_time(event, &publisher->slow_timer, CLOCK_MONOTONIC, USEC_INFINITY,
			100 * USEC_PER_MSEC, on_slow, publisher);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(publisher);
	return 0;
}

struct dra_publisher *dra_publisher_free(struct dra_publisher *publisher)
{
	if (!publisher)
		return NULL;
	dra_api_cancel(publisher->api, publisher);
	forget_writes(publisher);
	dra_inventory_done(&publisher->inventory);
	sd_event_source_disable_unref(publisher->round_timer);
	sd_event_source_disable_unref(publisher->suspicion_timer);
	sd_event_source_disable_unref(publisher->watch_timer);
	sd_event_source_disable_unref(publisher->slow_timer);
	json_decref(publisher->resources);
	json_decref(publisher->held);
	json_decref(publisher->settled);
	json_decref(publisher->times);
	json_decref(publisher->stored);
	json_decref(publisher->pending);
	json_decref(publisher->seen);
	free(publisher->node_uid);
	free(publisher->release);
	free(publisher->version);
	free(publisher->watch_failure);
	free(publisher);
	return NULL;
}
