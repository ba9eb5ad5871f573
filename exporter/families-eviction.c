/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which metrics show evictions: how many devices are in each state, so that an alert can
 * name what is held, and how many pods were evicted or deleted.
 */
#include "exporter/families-eviction.h"

static void write_family(const struct scrape *scrape, const char *label, const char *const *members,
	struct exposition *out)
{
	for (size_t i = 0; i < scrape->n_resources; i++) {
		const struct resource *resource = &scrape->resources[i];
		const json_t *numbers = json_object_get(resource->object, "eviction");

		for (size_t k = 0; numbers && members[k]; k++) {
			const struct label labels[] = {
				{ "resource", resource->name },
				{ label, members[k] },
			};

			exposition_add(out, "", labels, ARRAY_SIZE(labels),
				scrape_number(numbers, members[k]));
		}
	}
}

static bool any_evicts(const struct scrape *scrape)
{
	for (size_t i = 0; i < scrape->n_resources; i++)
		if (json_object_get(scrape->resources[i].object, "eviction"))
			return true;
	return false;
}

void families_eviction_write(const struct scrape *scrape, struct exposition *out)
{
	static const char *const states[] = { "waiting", "held", "evicting", NULL };
	static const char *const ways[] = { "evicted", "deleted", NULL };

	if (!any_evicts(scrape))
		return;
	exposition_begin(out, "devplugd_evictions", "gauge",
		"Failed devices with the severity evict: waiting for evict_after, held until an "
		"administrator runs devplugctl evict, or evicting their pods.");
	write_family(scrape, "state", states, out);
	exposition_begin(out, "devplugd_evicted_pods_total", "counter",
		"Pods that were evicted, or deleted because of force_after.");
	write_family(scrape, "way", ways, out);
}
