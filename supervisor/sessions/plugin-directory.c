/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the kubelet's directories, opens sessions there, and decides which old sockets are
 * removed. Sockets that a dead daemon left are removed twice, because its children may outlive it
 * for a moment.
 */
#include "supervisor/sessions/plugin-directory.h"

#include "common/log.h"
#include "common/message-id.h"
#include "supervisor/books/booked.h"
#include "supervisor/books/pod-assignments.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/kubelet/kubelet-watch.h"
#include "supervisor/sessions/kept-sockets.h"
#include "supervisor/sessions/offer-check.h"
#include "supervisor/sessions/session-check.h"

/* After this time, the kernel has ended the children of a daemon that was killed just before our
 * start. */
#define SWEEP_AGAIN (10 * USEC_PER_SEC)

static void on_kubelet(bool present, void *userdata)
{
	struct manager *manager = userdata;
	const struct log_fields fields = {
		.message_id = present ? MESSAGE_ID_KUBELET_APPEARED : MESSAGE_ID_KUBELET_GONE,
	};

	log_full(LOG_INFO, &fields, "%s/%s %s", manager->config->kubelet.device_plugin_dir,
		KUBELET_SOCKET_NAME, present ? "appeared" : "was removed");
	if (present)
		booked_kubelet_appeared(manager->booked);
	for (size_t i = 0; i < manager->n_children && present; i++)
		resource_handle(manager->children[i]->resource, RESOURCE_KUBELET, NULL);
}

static void on_sockets_changed(void *userdata)
{
	struct manager *manager = userdata;

	if (manager->stopping)
		return;
	manager_check_view(manager);
	session_check_run(manager->session_check);
	offer_check_soon(manager->offer_check);
}

static void sweep(const struct manager *manager)
{
	const char *directories[] = {
		manager->config->kubelet.device_plugin_dir,
		manager->config->kubelet.plugins_registry_dir,
	};

	/* This includes directories in which no resource is registered now, because one may have
	 * been earlier. */
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
		unsigned removed = session_sweep(directories[i], manager->instance);

		if (removed > 0)
			log_notice("removed %u socket%s from %s that a killed devplugd left",
				removed, removed == 1 ? "" : "s", directories[i]);
	}
}

static int on_sweep(sd_event_source *source, uint64_t usec, void *userdata)
{
	const struct manager *manager = userdata;

	/* By now, each driver has taken its sockets. */
	kept_sockets_close(manager->kept_sockets);
	sweep(manager);
	return 0;
}

static void on_checkpoint(void *userdata)
{
	struct manager *manager = userdata;

	booked_checkpoint_changed(manager->booked);
	assignments_outdated(manager->assignments);
}

int plugin_directory_watch(struct manager *manager)
{
	const char *directory = manager->config->kubelet.device_plugin_dir;
	int r;

	/* A new watch would not know which kubelet the open sessions are for. */
	if (!manager->watch || !streq(kubelet_watch_directory(manager->watch), directory)) {
		struct kubelet_watch *watch;

		r = kubelet_watch_new(
			manager->event, directory, on_kubelet, on_sockets_changed, manager, &watch);
		if (r < 0) {
			log_error("cannot watch %s: %s", directory, strerror(-r));
			return r;
		}
		(void)kubelet_watch_free(manager->watch);
		manager->watch = watch;
		kubelet_watch_checkpoint(watch, on_checkpoint, manager);
	}
	sweep(manager);
	(void)sd_event_source_set_time(manager->sweep, now_usec(CLOCK_MONOTONIC) + SWEEP_AGAIN);
	(void)sd_event_source_set_enabled(manager->sweep, SD_EVENT_ONESHOT);
	return 0;
}

int plugin_directory_init(struct manager *manager)
{
	return sd_event_add_time(manager->event, &manager->sweep, CLOCK_MONOTONIC, USEC_INFINITY,
		USEC_PER_SEC, on_sweep, manager);
}

int plugin_directory_open_session(struct manager *manager, enum registration_way way,
	const char *resource, struct session *ret, struct error *error)
{
	const struct kubelet_config *kubelet = &manager->config->kubelet;
	uint64_t kubelet_number, number = manager->last_session + 1;
	int r;

	if (way == REGISTRATION_WATCHER) {
		session_check_watch_registry(manager->session_check, kubelet->plugins_registry_dir);
		r = session_open_watched(kubelet->plugins_registry_dir, resource, manager->instance,
			number, ret, error);
	} else {
		kubelet_number = kubelet_watch_number(manager->watch);
		r = session_open(kubelet->device_plugin_dir, resource, manager->instance, number,
			ret, error);
		if (r >= 0)
			ret->kubelet = kubelet_number;
	}
	if (r >= 0)
		manager->last_session = number;
	return r;
}

int plugin_directory_resume_session(
	struct manager *manager, const char *driver, struct session *ret)
{
	const char *directory = manager->config->kubelet.plugins_registry_dir;
	int r = kept_sockets_take_session(manager->kept_sockets, driver, directory, ret);

	if (r < 0)
		return r;
	session_check_watch_registry(manager->session_check, directory);
	ret->number = ++manager->last_session;
	return 0;
}
