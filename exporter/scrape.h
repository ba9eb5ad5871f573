/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What one scrape shows: the supervisor's answer (supervisor/helpers/metrics.h) as structures. The
 * supervisor's part of it is trusted. The report of a resource's process is checked, because a
 * faulty process can send anything; an invalid report only affects the metrics of that resource.
 */

#include <jansson.h>

#include "common/map.h"
#include "common/pod-table.h"

struct unit {
	const char *id, *cause, *numa, *pci_address, *serial, *model; /* "" where there is none */
	const json_t *findings; /* of its health probes, not checked */
	bool healthy, claimed;
	uint64_t since; /* seconds of CLOCK_REALTIME, 0: not known */
	uint64_t changes, replicas;
	char numa_text[32];
};

struct resource {
	const json_t *object; /* the supervisor's: its state, and its counters by name */
	const char *name, *driver, *serve;
	bool left_out; /* its devices are not known: its process is away, or they are too many */

	struct unit *units;
	size_t n_units;
	const json_t *expect;       /* by its process, not checked: {"found", "reason"}; NULL: not
				     * known, or the resource expects no number of devices */
	const json_t *measurements; /* by unit and name: a number, or numbers by code */
	struct map by_id;           /* struct unit */
	struct map assigned_ids;    /* offered ids that are assigned to containers; only if pods are
				     * known */
	uint64_t assigned;          /* how many */
};

/* A container's device, from a device plugin or through a claim (DRA). */
struct assignment {
	const struct pod_container *container;
	const struct resource *resource;
	const char *id; /* as it is offered */
};

struct scrape {
	json_t *root; /* the supervisor's: the numbers of the daemon by name */
	struct resource *resources;
	size_t n_resources;
	struct map by_name;     /* struct resource */
	struct pod_table *pods; /* NULL: not known */
	struct assignment *assignments;
	size_t n_assignments;
	json_t *documents; /* private: own the texts */
};

/* Maximum size of the document of a resource's devices, and of all together; others are left out.
 */
#define SCRAPE_DEVICES_MAX     (16U << 20)
#define SCRAPE_ALL_DEVICES_MAX (64U << 20)

/* Reads a resource's document, as its process made it, into those of a scrape. `total`: their
 * size, 0 at first. Returns 0 or negative errno. */
int scrape_take_devices(json_t *documents, size_t *total, const char *resource, int fd);

/* Reads the supervisor's answer; `pods_fd` may be -EBADF. The caller keeps the descriptors. Returns
 * 0 or negative errno. */
int scrape_read(int state_fd, json_t *documents, int pods_fd, struct scrape **ret);

/* A number of the supervisor's, or an element of an array of numbers; 0: there is none. */
uint64_t scrape_number(const json_t *object, const char *key);
uint64_t scrape_element(const json_t *array, size_t index);

/* The unit behind an offered id, which may end in a replica's "#N"; NULL: none. */
const struct unit *scrape_unit(const struct resource *resource, const char *offered_id);

struct scrape *scrape_free(struct scrape *scrape);
DEFINE_CLEANUP(struct scrape *, scrape_free)
