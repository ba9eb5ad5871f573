/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether two entries of a resource use the same path in a container: the nodes of its
 * match entries, as far as the driver knows them without a scan, and `container.nodes` and
 * `container.mounts`. The variables ${name} and ${env_name} are replaced, and ${node} is a device's
 * first path; other variables are compared as text.
 */
#include "configuration/same-path.h"

#include <fnmatch.h>

#include "drivers/model/driver.h"
#include "drivers/model/form.h"
#include "drivers/model/template.h"

#define KEY_MAX 64

struct place {
	char key[KEY_MAX];
	const struct origin *origin;
	char *host, *path;
	bool mount;
	size_t entry; /* of `match`, from 1; host and path may be shell patterns. 0: of `container`
		       */
	bool first;   /* the entry's ${node} */
};

struct places {
	const struct declaration *declaration;
	struct place *items;
	size_t count;
};

static void places_done(struct places *places)
{
	for (size_t i = 0; i < places->count; i++) {
		free(places->items[i].host);
		free(places->items[i].path);
	}
	free(places->items);
}

/* "//dev/x/" becomes "/dev/x". */
static void squeeze(char *path)
{
	char *end = path;

	for (const char *p = path; *p; p++)
		if (*p != '/' || end == path || end[-1] != '/')
			*end++ = *p;
	if (end > path + 1 && end[-1] == '/')
		end--;
	*end = '\0';
}

/* The text is kept as it is if it has a variable of a device. */
static char *expand(const struct places *places, const char *text)
{
	const struct template_context context = { .name = places->declaration->name };
	struct error error = { 0 };
	char *expanded = NULL;
	int r = template_expand(text, &context, &expanded, &error);

	if (r == -ENOENT)
		expanded = strdup(text);
	if (expanded)
		squeeze(expanded);
	return expanded;
}

static struct place *add_place(struct places *places, const struct origin *origin, char *host,
	char *path, const char *list, size_t index)
{
	struct place *place = NULL;

	if (host && path &&
		array_reserve((void **)&places->items, places->count, sizeof(*place)) >= 0) {
		place = &places->items[places->count++];
		*place = (struct place){ .origin = origin, .host = host, .path = path };
		(void)snprintf(place->key, sizeof(place->key), "%s[%zu]", list, index);
		return place;
	}
	free(host);
	free(path);
	return NULL;
}

static int add_match_entry(struct places *places, size_t entry)
{
	const struct declaration *declaration = places->declaration;
	_cleanup_strings_ struct strings hosts = { 0 }, paths = { 0 };
	int r = declaration->driver->paths(declaration, entry, &hosts, &paths);

	for (size_t i = 0; i < hosts.count && r >= 0; i++) {
		struct place *place = add_place(places, groups_get(&declaration->match, entry),
			strdup(hosts.items[i]), strdup(paths.items[i]), "match", entry);

		if (!place)
			return -ENOMEM;
		squeeze(place->host);
		squeeze(place->path);
		place->mount = !startswith(place->host, "/dev/");
		place->entry = entry + 1;
		place->first = i == 0;
	}
	return r;
}

static int collect(struct places *places)
{
	const struct declaration *declaration = places->declaration;
	const struct container *container = &declaration->container;

	for (size_t i = 0; declaration->driver->paths && i < declaration->match.count; i++)
		if (add_match_entry(places, i) < 0)
			return -ENOMEM;
	for (size_t i = 0; i < container->nodes.count; i++) {
		const struct declared_node *node = groups_get(&container->nodes, i);

		if (!add_place(places, &node->origin, expand(places, node->host),
			    expand(places, node->path ?: node->host), "container.nodes", i))
			return -ENOMEM;
	}
	for (size_t i = 0; i < container->mounts.count; i++) {
		const struct declared_mount *mount = groups_get(&container->mounts, i);
		struct place *place = add_place(places, &mount->origin, expand(places, mount->host),
			expand(places, mount->path ?: mount->host), "container.mounts", i);

		if (!place)
			return -ENOMEM;
		place->mount = true;
	}
	return 0;
}

/* Whether the text matches the path of the place, which is a pattern if it is from a match
 * entry. */
static bool stands_for(const struct place *place, const char *pattern, const char *text)
{
	if (streq(pattern, text))
		return true;
	if (!place->entry)
		return false;
	if (place->first && streq(text, "${node}"))
		return streq(pattern, place->host);
	return fnmatch(pattern, text, FNM_PATHNAME | FNM_PERIOD) == 0;
}

/* Different entries of `match` are different devices. A repeated node or mount at one path is no
 * conflict. */
static bool conflict(const struct place *a, const struct place *b)
{
	if (a->entry && b->entry)
		return a->entry == b->entry && streq(a->path, b->path) && !streq(a->host, b->host);
	return stands_for(a, a->path, b->path) &&
		(a->mount != b->mount || !stands_for(a, a->host, b->host));
}

int same_path_warnings(const struct declaration *declaration, struct report *report)
{
	_cleanup_(places_done) struct places places = { .declaration = declaration };

	if (collect(&places) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < places.count; i++) {
		const struct place *place = &places.items[i];
		size_t other = 0;

		while (other < i && !conflict(&places.items[other], place))
			other++;
		if (other < i)
			(void)report_add(report, place->origin, place->key,
				"uses the container path \"%s\", which %s also uses: a container cannot get both, so set a different path",
				place->path, places.items[other].key);
	}
	return 0;
}

/* Whether the path is a name, of a match entry or of a template. */
static bool is_literal(const struct place *place, const char *path)
{
	return !strstr(path, "${") && !(place->entry && form_is_pattern(path));
}

int same_path_visit(
	const struct declaration *declaration, same_path_visitor visitor, void *userdata)
{
	_cleanup_(places_done) struct places places = { .declaration = declaration };
	int r = collect(&places);

	for (size_t i = 0; i < places.count && r >= 0; i++) {
		const struct place *place = &places.items[i];

		if (is_literal(place, place->path))
			r = visitor(place->key, place->origin,
				is_literal(place, place->host) ? place->host : NULL, place->path,
				userdata);
	}
	return r;
}
