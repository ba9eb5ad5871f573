/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A DRA driver in its simplest form: every call is handled on gRPC's thread, one after the other,
 * and reads or writes files. Only the health belongs to the main thread.
 */

#include <jansson.h>
#include <systemd/sd-event.h>

#include "common/error.h"
#include "driver-faults.h"
#include "proto/rpc.h"

#define DRIVER_NAME    "test.vendor.example"
#define DRIVER_POOL    "node-a"
#define DRIVER_DEVICES 4 /* "d0" to "d3" */

#define DRIVER_ALL_CLAIMS "/apis/resource.k8s.io/v1/resourceclaims"

struct driver {
	enum driver_fault fault;
	const char *dir;
	char socket[128];
	sd_event *event;
	struct rpc_server *server;
	int listen_fd;
	bool failed, ever_failed; /* device d0 */

	bool published, gave_up; /* ResourceSlices */
	bool is_restarted;       /* an earlier process used the directory */
	json_t *sent, *answered; /* the devices of the last write, and those of its answer */

	/* Only gRPC's thread uses these. */
	json_t *prepared; /* by uid: [{"request", "pool", "device", "cdi"}, ...] */
	json_t *late;     /* files that are written at the next call: uid: devices */
	json_t *calls;    /* by uid: how often it was prepared */
	unsigned infos, ids;
};

/* Serves until SIGTERM. Returns 0 or negative errno with the error filled. */
int driver_run(enum driver_fault fault, const char *dir, struct error *error);

/* The methods that the server offers. */
extern const struct rpc_method driver_methods[];
size_t driver_count_methods(enum driver_fault fault);

/* A request to the devplug-apiserver of the driver, as the kubelet of DRIVER_POOL. Takes `body`,
 * which may be NULL. Returns the status code, or negative errno; -ENOENT: there is none, and claims
 * are files. */
int driver_ask(const struct driver *driver, const char *method, const char *path, json_t *body,
	json_t **ret);

/* Makes the slices in the API server equal to the devices, if there is one. */
void driver_publish_slices(struct driver *driver);

/* Encodes the health of all devices and has it sent. */
void driver_publish(struct driver *driver);

/* Reads what an earlier process has prepared. */
void driver_load(struct driver *driver);

/* Removes all CDI files. */
void driver_clean(const struct driver *driver);

/* The devices of the claim, which stay the driver's; NULL with an error. */
const json_t *driver_prepare(struct driver *driver, const char *namespace, const char *name,
	const char *uid, struct error *error);

/* Returns 0 or negative errno with the error filled. */
int driver_unprepare(struct driver *driver, const char *uid, struct error *error);
