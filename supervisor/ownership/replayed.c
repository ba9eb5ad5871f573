/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the answers that the kubelet stores with the claims and marks of devices. First, each
 * resource's answers with its own devices; a node of an outdated answer is noted. Then, all devices
 * with the noted nodes. An answer with a node that cannot be resolved is not compared, so that what
 * devplugd may not read makes no device unhealthy. Plugins write answers, so the time is linear in
 * their size, and the number of paths that are resolved is limited.
 */
#include "supervisor/ownership/replayed.h"

#include "common/map.h"
#include "common/text.h"
#include "drivers/host/sysroot.h"

/* A path of an answer. */
struct path {
	struct path *next;
	char *key;      /* the root, a tab, and the path */
	char *resolved; /* in the form of a claim; the path if there is nothing; NULL: unknown */
};

/* A node of an outdated answer that is none of its devices'. */
struct leftover {
	struct leftover *next, *next_same; /* of all; with the same path */
	const struct decision *decision;
	const struct booked_answer *answer;
	const char *node, *path; /* as in the answer, and without symbolic links */
};

struct replay {
	struct path *paths;
	struct map by_key;
	struct leftover *leftovers;
	struct map by_path;

	/* The resource in hand. */
	struct decision *decision;
	struct map by_id;    /* its devices */
	struct map by_claim; /* the same, while there are bookings of other ids */
	struct map given;    /* nodes that any of its containers gets */
	unsigned resolved;   /* paths that were resolved for it */
};

/* The answer in hand. */
struct subject {
	struct replay *replay;
	const struct booked_answer *answer;
	const struct hardware_device **devices; /* that it is for and that were found */
	size_t n_devices, n_found;              /* without and with repetitions */
	struct map own;                         /* their nodes */
	const char **resolved;                  /* its nodes */
	struct map has;                         /* the same */
	const char *foreign; /* the first node that is none of its devices'; NULL: none */
	bool outdated;
};

static void replay_done(struct replay *replay)
{
	for (struct path *path = replay->paths, *next; path; path = next) {
		next = path->next;
		free(path->key);
		free(path->resolved);
		free(path);
	}
	for (struct leftover *leftover = replay->leftovers, *next; leftover; leftover = next) {
		next = leftover->next;
		free(leftover);
	}
	map_done(&replay->by_key);
	map_done(&replay->by_path);
	map_done(&replay->by_id);
	map_done(&replay->by_claim);
	map_done(&replay->given);
}

static int put(struct map *map, const char *key, const void *value)
{
	int r = map_put(map, key, (void *)(uintptr_t)value);

	return r == -EEXIST ? 0 : r;
}

static int put_nodes(struct map *map, const char *const *marks)
{
	int r = 0;

	for (; marks && *marks && r >= 0; marks++)
		if (**marks == MARK_NODE)
			r = put(map, *marks + 1, *marks);
	return r;
}

/* --- paths --- */

static int resolve(const char *root, const char *node, struct path *path)
{
	int r = sysroot_resolve_node(root, node, &path->resolved);

	if (sysroot_is_absent(r))
		path->resolved = strdup(node);
	if (r == -ENOMEM || (sysroot_is_absent(r) && !path->resolved))
		return -ENOMEM;
	if (path->resolved)
		text_sanitize(path->resolved);
	return 0;
}

static int find_path(struct replay *replay, const char *root, const char *node, const char **ret)
{
	_cleanup_free_ char *key = NULL;
	struct path *path;
	int r;

	r = format_text(&key, "%s\t%s", root, node);
	if (r < 0)
		return r;
	path = map_get(&replay->by_key, key);
	if (!path && replay->resolved++ >= REPLAYED_PATHS_MAX) {
		*ret = NULL;
		return 0;
	}
	if (!path) {
		path = calloc(1, sizeof(*path));
		if (!path)
			return -ENOMEM;
		path->key = TAKE_PTR(key);
		path->next = replay->paths;
		replay->paths = path;
		r = resolve(root, node, path);
		if (r >= 0)
			r = map_put(&replay->by_key, path->key, path);
		if (r < 0)
			return r;
	}
	*ret = path->resolved;
	return 0;
}

/* --- one answer --- */

/* Whether its devices have the node, or any container of the resource gets it. */
static bool is_explained(const struct subject *subject, const char *path)
{
	return map_get(&subject->own, path) || map_get(&subject->replay->given, path);
}

static bool is_lacking(const struct subject *subject, const char *path)
{
	return startswith(path, "/dev/") && !map_get(&subject->has, path);
}

/* The first node that a container gets with the device, and that is not in the answer. */
static const char *find_lacking(const struct subject *subject, const struct hardware_device *device)
{
	for (const char *const *claim = device->claims; *claim; claim++)
		if (is_lacking(subject, *claim) && !claim_is_optional(*claim))
			return *claim;
	for (const char *const *mark = device->marks; *mark; mark++)
		if (**mark == MARK_NODE && is_lacking(subject, *mark + 1))
			return *mark + 1;
	return NULL;
}

/* Whether the text, parts joined by commas, has this part, which may contain commas itself. */
static bool has_part(const char *text, const char *part)
{
	size_t length = strlen(part);

	for (const char *at = text; (at = strstr(at, part)); at++) {
		if ((at == text || at[-1] == ',') && (at[length] == ',' || !at[length]))
			return true;
		if (!*at)
			break;
	}
	return false;
}

/* Whether the answer has another value than the mark "NAME=value"; one of another name does not
 * count. */
static bool differs(const struct booked_answer *answer, const char *mark)
{
	size_t length = strcspn(mark + 1, "=") + 1;
	bool found = false;

	if (*mark == MARK_WHOLE && answer->ids.count > 1)
		return false;
	for (size_t i = 0; i < answer->values.count; i++) {
		const char *value = answer->values.items[i];

		if (strncmp(value, mark + 1, length) != 0)
			continue;
		found = true;
		if (*mark == MARK_WHOLE ? streq(value, mark + 1)
					: has_part(value + length, mark + 1 + length))
			return false;
	}
	return found;
}

static int judge_device(struct subject *subject, const struct hardware_device *device)
{
	const char *lacking = subject->foreign ? find_lacking(subject, device) : NULL;

	if (lacking) {
		subject->outdated = true;
		return decision_write(subject->replay->decision, device->id,
			"%cits pod uses %.200s, but the device is %.200s now: delete the pod",
			OWNERS_STALE, subject->foreign, lacking);
	}
	for (const char *const *mark = device->marks; *mark; mark++) {
		if ((**mark != MARK_VALUE && **mark != MARK_WHOLE) ||
			!differs(subject->answer, *mark))
			continue;
		subject->replay->decision->replays = true;
		return decision_write(subject->replay->decision, device->id,
			"%cits pod uses another value of %.*s, which is \"%.80s\" now: delete "
			"the pod",
			OWNERS_STALE, (int)strcspn(*mark + 1, "="), *mark + 1,
			*mark + 2 + strcspn(*mark + 1, "="));
	}
	return 0;
}

static int keep_leftovers(struct subject *subject)
{
	struct replay *replay = subject->replay;
	int r;

	for (size_t i = 0; i < subject->answer->nodes.count; i++) {
		const char *path = subject->resolved[i];
		struct leftover *leftover, *same = map_get(&replay->by_path, path);

		if (is_explained(subject, path))
			continue;
		leftover = malloc(sizeof(*leftover));
		if (!leftover)
			return -ENOMEM;
		*leftover = (struct leftover){
			.next = replay->leftovers,
			.decision = replay->decision,
			.answer = subject->answer,
			.node = subject->answer->nodes.items[i],
			.path = path,
		};
		replay->leftovers = leftover;
		if (same) {
			leftover->next_same = same->next_same;
			same->next_same = leftover;
			continue;
		}
		r = map_put(&replay->by_path, path, leftover);
		if (r < 0)
			return r;
	}
	replay->decision->replays = replay->decision->replays || !subject->answer->follows;
	return 0;
}

/* Resolves the nodes. Returns 1, 0 if one is not known, or -ENOMEM. */
static int resolve_nodes(struct subject *subject)
{
	const struct strings *nodes = &subject->answer->nodes;
	const char *root = subject->replay->decision->root ?: "";
	bool known = true;
	int r = 0;

	for (size_t i = 0; i < nodes->count && r >= 0; i++) {
		r = find_path(subject->replay, root, nodes->items[i], &subject->resolved[i]);
		if (r >= 0 && subject->resolved[i])
			r = put(&subject->has, subject->resolved[i], subject);
		known = known && r >= 0 && subject->resolved[i];
	}
	return r < 0 ? r : known;
}

static int judge(struct subject *subject)
{
	const struct booked_answer *answer = subject->answer;
	int known = resolve_nodes(subject), r = MIN_OF(known, 0);

	for (size_t i = 0; i < answer->nodes.count && known > 0 && !subject->foreign; i++)
		if (!is_explained(subject, subject->resolved[i]))
			subject->foreign = answer->nodes.items[i];
	for (size_t i = 0; i < subject->n_devices && r >= 0; i++)
		r = judge_device(subject, subject->devices[i]);
	if (r < 0 || !subject->foreign)
		return r;
	return subject->outdated || subject->n_found < answer->ids.count ? keep_leftovers(subject)
									 : 0;
}

/* --- one resource --- */

/* The device that the id is offered for, perhaps as a replica; NULL: it is not found. */
static const struct hardware_device *find_device(const struct map *by_id, const char *id)
{
	const struct hardware_device *device = map_get(by_id, id);
	char unit_id[DEVICE_ID_MAX + 1];
	size_t length = strlen(id);
	unsigned replica;

	if (device || !offered_id_split(id, &length, &replica) || length > DEVICE_ID_MAX)
		return device;
	memcpy(unit_id, id, length);
	unit_id[length] = '\0';
	return map_get(by_id, unit_id);
}

static int find_devices(struct subject *subject)
{
	const struct strings *ids = &subject->answer->ids;
	int r = 0;

	for (size_t i = 0; i < ids->count && r >= 0; i++) {
		const struct hardware_device *device =
			find_device(&subject->replay->by_id, ids->items[i]);

		if (!device)
			continue;
		subject->n_found++;
		if (subject->n_devices > 0 && subject->devices[subject->n_devices - 1] == device)
			continue;
		subject->devices[subject->n_devices++] = device;
		for (const char *const *claim = device->claims; *claim && r >= 0; claim++)
			r = put(&subject->own, *claim, device);
		if (r >= 0)
			r = put_nodes(&subject->own, device->marks);
	}
	return r;
}

static int judge_answer(struct replay *replay, const struct booked_answer *answer)
{
	struct subject subject = {
		.replay = replay,
		.answer = answer,
		.devices = calloc(answer->ids.count + 1, sizeof(*subject.devices)),
		.resolved = calloc(answer->nodes.count + 1, sizeof(*subject.resolved)),
	};
	int r = subject.devices && subject.resolved ? find_devices(&subject) : -ENOMEM;

	if (r >= 0 && !(answer->follows && subject.n_found == answer->ids.count))
		r = judge(&subject);
	free(subject.devices);
	free(subject.resolved);
	map_done(&subject.own);
	map_done(&subject.has);
	return r;
}

/* --- former ids --- */

static int find_claims(struct replay *replay)
{
	const struct hardware_claims *list = replay->decision->list;
	int r = 0;

	if (replay->by_claim.count > 0)
		return 0;
	for (size_t i = 0; i < list->n_devices && r >= 0; i++)
		for (const char *const *claim = list->devices[i].claims; *claim && r >= 0; claim++)
			r = put(&replay->by_claim, *claim, &list->devices[i]);
	return r;
}

/* Driver "path" makes the part of an id "serial:by-id:usb-A9" from "/dev/serial/by-id/usb-A9". */
static int judge_part(
	struct replay *replay, const struct booking *booking, const char *part, size_t length)
{
	const char *root = replay->decision->root ?: "", *path;
	const struct hardware_device *device;
	char node[sizeof("/dev/") + DEVICE_ID_MAX];
	int r;

	if (length == 0 || length > DEVICE_ID_MAX)
		return 0;
	(void)snprintf(node, sizeof(node), "/dev/%.*s", (int)length, part);
	for (char *p = node; *p; p++)
		if (*p == ':')
			*p = '/';
	r = find_path(replay, root, node, &path);
	device = r >= 0 && path ? map_get(&replay->by_claim, path) : NULL;
	if (!device)
		return MIN_OF(r, 0);
	replay->decision->replays = true;
	return decision_write(replay->decision, device->id,
		"%ca pod holds this device under its former id \"%.64s\": delete that pod",
		OWNERS_STALE, booking->id);
}

/* If no device has the id because the configuration was changed, an id of driver "path" shows which
 * device the pod has, also without a node in an answer: with CDI names and claims. */
static int judge_booking(struct replay *replay, const struct booking *booking)
{
	const char *part = booking->id;
	size_t length = strlen(part), n;
	unsigned replica;
	int r;

	if (!(booking->uses & BOOKED_ALONE) || find_device(&replay->by_id, booking->id))
		return 0;
	(void)offered_id_split(booking->id, &length, &replica);
	r = find_claims(replay);
	for (const char *end = part + length; part < end && r >= 0; part += n + 1) {
		const char *plus = memchr(part, '+', (size_t)(end - part));

		n = (size_t)((plus ?: end) - part);
		r = judge_part(replay, booking, part, n);
	}
	return r;
}

static int judge_resource(struct replay *replay, struct decision *decision)
{
	int r = 0;

	decision->replays = false;
	/* Nothing is known about its nodes before its process has sent its claims. */
	if (!decision->list || !decision->booked)
		return 0;
	replay->decision = decision;
	replay->resolved = 0;
	map_done(&replay->by_id);
	map_done(&replay->by_claim);
	map_done(&replay->given);
	for (size_t i = 0; i < decision->list->n_devices && r >= 0; i++)
		r = put(&replay->by_id, decision->list->devices[i].id, &decision->list->devices[i]);
	if (r >= 0)
		r = put_nodes(&replay->given, decision->list->given);
	for (size_t i = 0; i < decision->booked->n_answers && r >= 0; i++)
		r = judge_answer(replay, &decision->booked->answers[i]);
	for (size_t i = 0; i < decision->booked->count && decision->list->n_devices > 0 && r >= 0;
		i++)
		r = judge_booking(replay, &decision->booked->items[i]);
	return r;
}

/* --- devices with a node of an outdated answer --- */

static bool is_for(const struct booked_answer *answer, const char *id)
{
	for (size_t i = 0; i < answer->ids.count; i++)
		if (offered_id_is_of(answer->ids.items[i], id))
			return true;
	return false;
}

static bool concerns(const struct leftover *leftover, const struct decision *decision,
	const struct hardware_device *device)
{
	if (leftover->decision == decision)
		return !is_for(leftover->answer, device->id);
	return !decision_shares(leftover->decision, decision);
}

static int judge_path(const struct replay *replay, struct decision *decision,
	const struct hardware_device *device, const char *path)
{
	const struct leftover *leftover = map_get(&replay->by_path, path);

	while (leftover && !concerns(leftover, decision, device))
		leftover = leftover->next_same;
	if (!leftover)
		return 0;
	if (decision_write(decision, device->id,
		    "%ca pod with device \"%.64s\" of %s uses %.200s, which is this device now: "
		    "delete that pod",
		    OWNERS_STALE, leftover->answer->ids.items[0], leftover->decision->name,
		    leftover->node) < 0)
		return -ENOMEM;
	return 1;
}

static int judge_other(const struct replay *replay, struct decision *decision,
	const struct hardware_device *device)
{
	int r = 0;

	for (const char *const *claim = device->claims; *claim && r == 0; claim++)
		if (!claim_is_optional(*claim))
			r = judge_path(replay, decision, device, *claim);
	for (const char *const *mark = device->marks; *mark && r == 0; mark++)
		if (**mark == MARK_NODE)
			r = judge_path(replay, decision, device, *mark + 1);
	return r;
}

int replayed_decide(struct decision *decisions, size_t n)
{
	struct replay replay = { 0 };
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++)
		r = judge_resource(&replay, &decisions[i]);
	for (size_t i = 0; i < n && r >= 0 && replay.leftovers; i++)
		for (size_t k = 0; decisions[i].list && k < decisions[i].list->n_devices && r >= 0;
			k++)
			r = judge_other(&replay, &decisions[i], &decisions[i].list->devices[k]);
	replay_done(&replay);
	return MIN_OF(r, 0);
}
