/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a required resource is ready: it is served, all of its devices are present and no
 * others, and at least one of them is healthy. The health of the others does not count, because
 * pods can run on the rest of the node.
 */
#include "exporter/readiness.h"

#include "common/json-read.h"
#include "common/text.h"

bool readiness_is_required(const struct resource *resource)
{
	return scrape_number(resource->object, "expect") > 0;
}

static bool any_healthy(const struct resource *resource)
{
	for (size_t i = 0; i < resource->n_units; i++)
		if (resource->units[i].healthy)
			return true;
	return false;
}

const char *readiness_reason(const struct resource *resource)
{
	const char *reason = text_of(resource->expect, "reason");

	if (!streq(text_of(resource->object, "state"), "serving"))
		return "it is not served; see devplugctl explain";
	if (scrape_number(resource->object, "published") == 0)
		return "its devices are not published in ResourceSlices; see devplugctl explain";
	/* Its process may report another number than the supervisor while its configuration
	 * changes. */
	if (scrape_number(resource->expect, "count") != scrape_number(resource->object, "expect"))
		return "its devices are not known yet";
	if (*reason)
		return reason;
	return any_healthy(resource) ? NULL : "none of its devices is healthy";
}

bool readiness_write(const struct scrape *scrape, char **ret)
{
	FILE *stream = open_memstream(ret, &(size_t){ 0 });
	size_t required = 0, lacking = 0;

	if (!stream)
		return false;
	for (size_t i = 0; i < scrape->n_resources; i++) {
		const struct resource *resource = &scrape->resources[i];
		_cleanup_free_ char *reason = NULL;

		if (!readiness_is_required(resource))
			continue;
		required++;
		if (!readiness_reason(resource))
			continue;
		lacking++;
		/* A process may report any text. */
		reason = strdup(readiness_reason(resource));
		if (reason)
			text_sanitize(reason);
		(void)fprintf(stream, "%s: %s\n", resource->name, reason ?: "it is not ready");
	}
	if (lacking == 0)
		(void)fprintf(stream, "ready (%zu of %zu resources required)\n", required,
			scrape->n_resources);
	if (fclose(stream) == 0)
		return lacking == 0;
	free(*ret);
	*ret = NULL;
	return false;
}
