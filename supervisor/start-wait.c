/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the kubelet may start. It polls for a few seconds once in a boot, because what it
 * waits for has no event in common.
 */
#include "supervisor/start-wait.h"

#include <systemd/sd-daemon.h>

#include "common/log.h"
#include "configuration/last-accepted.h"
#include "supervisor/books/booked.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"

#define WAIT_MAX      (20 * USEC_PER_SEC)
#define POLL_INTERVAL (100 * USEC_PER_MSEC)
/* Exists while udev has events to process (systemd, src/udev/udev-manager.c). */
#define UDEV_QUEUE "/run/udev/queue"

struct start_wait {
	struct manager *manager;
	sd_event_source *timer;
	bool first; /* the first start since the boot, and udev was busy */
	bool logged;
	uint64_t begun;
};

static bool is_first_start(const char *runtime_dir)
{
	_cleanup_config_ struct config *config = NULL;
	struct error error;
	int r = last_accepted_load(runtime_dir, &config, &error);

	return r == -ENOENT || r == -ESTALE;
}

static bool udev_is_busy(const struct manager *manager)
{
	_cleanup_free_ char *path = NULL;

	if (format_text(&path, "%s" UDEV_QUEUE, manager->config->host_root) < 0)
		return false;
	return access(path, F_OK) >= 0;
}

/* A killed kubelet leaves its socket, even over a reboot, so only a connection proves that one
 * runs. */
static bool kubelet_runs(const struct manager *manager)
{
	_cleanup_close_ int fd = -EBADF;
	int r = session_connect(
		manager->config->kubelet.device_plugin_dir, KUBELET_SOCKET_NAME, &fd);

	return r >= 0 || r == -EAGAIN;
}

/* Whether a scan has found all devices that the resource lists. Without a list, that is not
 * known. */
static bool has_found_all(const struct child *child)
{
	enum resource_state state = child->resource->state;

	return state == RESOURCE_FAILED ||
		(state >= RESOURCE_WAITING && state <= RESOURCE_ENDING && child->gone == 0);
}

/* The first resource with devices of pods that are not found yet, or NULL. */
static const char *find_missing(const struct manager *manager)
{
	uint64_t written_at;
	const struct kubelet_checkpoint *checkpoint =
		booked_checkpoint(manager->booked, &written_at);

	for (size_t i = 0; checkpoint && i < manager->n_children; i++) {
		const char *name = manager->children[i]->resource->name;

		if (has_found_all(manager->children[i]))
			continue;
		for (size_t k = 0; k < checkpoint->count; k++)
			if (streq(checkpoint->rows[k].resource, name))
				return name;
	}
	return NULL;
}

/* Why the kubelet may start now; NULL: it should not. */
static const char *find_reason(const struct start_wait *wait, const char **ret_missing)
{
	*ret_missing = NULL;
	if (!wait->first || !udev_is_busy(wait->manager))
		return "udev has processed all events";
	if (kubelet_runs(wait->manager))
		return "a kubelet is running already";
	*ret_missing = find_missing(wait->manager);
	if (!*ret_missing)
		return "the devices of all pods are found";
	return now_usec(CLOCK_MONOTONIC) - wait->begun >= WAIT_MAX ? "20 s have passed" : NULL;
}

static void check(struct start_wait *wait)
{
	const char *missing, *reason = find_reason(wait, &missing);

	if (reason) {
		if (wait->logged)
			log_notice("the kubelet may start: %s", reason);
		(void)sd_notify(false, "READY=1");
		return;
	}
	if (!wait->logged)
		log_notice(
			"the start of the kubelet waits for up to 20 s: pods hold devices of %s that are not found yet, and udev is still processing events",
			missing);
	wait->logged = true;
	(void)sd_event_source_set_time(wait->timer, now_usec(CLOCK_MONOTONIC) + POLL_INTERVAL);
	(void)sd_event_source_set_enabled(wait->timer, SD_EVENT_ONESHOT);
}

static int on_poll(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct start_wait *wait = userdata;

	if (!wait->manager->stopping)
		check(wait);
	return 0;
}

void start_wait_begin(struct start_wait *wait)
{
	wait->begun = now_usec(CLOCK_MONOTONIC);
	check(wait);
}

int start_wait_new(struct manager *manager, struct start_wait **ret)
{
	_cleanup_(start_wait_freep) struct start_wait *wait = calloc(1, sizeof(*wait));
	int r;

	if (!wait)
		return -ENOMEM;
	wait->manager = manager;
	wait->first = udev_is_busy(manager) && is_first_start(manager->config->runtime_dir);
	r = sd_event_add_time(
		manager->event, &wait->timer, CLOCK_MONOTONIC, 0, USEC_PER_MSEC, on_poll, wait);
	if (r >= 0)
		r = sd_event_source_set_enabled(wait->timer, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(wait);
	return 0;
}

struct start_wait *start_wait_free(struct start_wait *wait)
{
	if (!wait)
		return NULL;
	sd_event_source_disable_unref(wait->timer);
	free(wait);
	return NULL;
}
