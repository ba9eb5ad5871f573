/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether an open session still works or must be renewed. A check that finds nothing costs
 * one lstat() for each session. Only when a session is stale, a connection to the kubelet is tried,
 * with the same growing delays as when a resource connects.
 */
#include "supervisor/sessions/session-check.h"

#include "common/log.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/kubelet/kubelet-watch.h"
#include "supervisor/process/retry-delay.h"
#include "supervisor/sessions/offer-check.h"

struct session_check {
	struct manager *manager;
	sd_event_source *timer;
	uint64_t delay; /* the last one, 0: none yet */
	struct kubelet_watch *registry;
	char *registry_directory;
	void (*on_check)(void *userdata); /* or NULL */
	void *userdata;
};

static bool is_open(const struct child *child)
{
	return child->session.number != 0 &&
		(child->resource->state == RESOURCE_REGISTERING ||
			child->resource->state == RESOURCE_SERVING);
}

/* With the kubelet's plugin watcher there is no connection of ours. */
static bool is_watched(const struct child *child)
{
	return child->session.kubelet == 0;
}

/* Returns the event that a stale session means, or _RESOURCE_EVENT_MAX. */
static enum resource_event judge(const struct child *child, uint64_t kubelet)
{
	if (!is_open(child) || session_has_no_socket(&child->session))
		return _RESOURCE_EVENT_MAX;
	if (!is_watched(child) && child->session.kubelet != kubelet)
		return RESOURCE_KUBELET_REPLACED;
	if (!session_is_in_place(&child->session))
		return RESOURCE_SOCKET_LOST;
	return _RESOURCE_EVENT_MAX;
}

/* Whether a kubelet would take the next session. */
static bool kubelet_accepts(const struct manager *manager)
{
	_cleanup_close_ int fd = -EBADF;

	return session_connect(
		       manager->config->kubelet.device_plugin_dir, KUBELET_SOCKET_NAME, &fd) >= 0;
}

static void try_again(struct session_check *check)
{
	uint64_t wait = retry_delay_next(&check->delay, RESOURCE_CONNECT_DELAY_MIN,
		RESOURCE_CONNECT_DELAY_MAX, UINT32_MAX / 2);

	(void)sd_event_source_set_time(check->timer, now_usec(CLOCK_MONOTONIC) + wait);
	(void)sd_event_source_set_enabled(check->timer, SD_EVENT_ONESHOT);
}

void session_check_run(struct session_check *check)
{
	struct manager *manager = check->manager;
	uint64_t kubelet = kubelet_watch_number(manager->watch);
	bool stale = false, tried = false, accepts = false;

	if (check->on_check)
		check->on_check(check->userdata);
	for (size_t i = 0; i < manager->n_children; i++) {
		struct child *child = manager->children[i];
		enum resource_event event = judge(child, kubelet);

		if (event == _RESOURCE_EVENT_MAX)
			continue;
		if (!tried && !is_watched(child)) {
			accepts = kubelet_accepts(manager);
			tried = true;
		}
		if (is_watched(child) ? access(child->session.directory, F_OK) == 0 : accepts)
			resource_handle(child->resource, event, NULL);
		else
			stale = true;
	}
	if (stale)
		try_again(check);
	else
		check->delay = 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	session_check_run(userdata);
	return 0;
}

void session_check_others(
	struct session_check *check, void (*on_check)(void *userdata), void *userdata)
{
	check->on_check = on_check;
	check->userdata = userdata;
}

int session_check_new(struct manager *manager, struct session_check **ret)
{
	_cleanup_(session_check_freep) struct session_check *check = calloc(1, sizeof(*check));
	int r;

	if (!check)
		return -ENOMEM;
	check->manager = manager;
	r = sd_event_add_time(
		manager->event, &check->timer, CLOCK_MONOTONIC, 0, USEC_PER_MSEC, on_timer, check);
	if (r < 0)
		return r;
	(void)sd_event_source_set_enabled(check->timer, SD_EVENT_OFF);
	*ret = TAKE_PTR(check);
	return 0;
}

static void on_registry(bool present, void *userdata)
{
}

static void on_registry_changed(void *userdata)
{
	struct session_check *check = userdata;

	manager_check_view(check->manager);
	session_check_run(check);
	offer_check_soon(check->manager->offer_check);
}

void session_check_watch_registry(struct session_check *check, const char *directory)
{
	_cleanup_free_ char *copy = NULL;
	struct kubelet_watch *watch;
	int r;

	if (check->registry && streq(check->registry_directory, directory))
		return;
	copy = strdup(directory);
	r = copy ? kubelet_watch_new(check->manager->event, directory, on_registry,
			   on_registry_changed, check, &watch)
		 : -ENOMEM;
	if (r < 0) {
		log_error("cannot watch %s: %s", directory, strerror(-r));
		return;
	}
	(void)kubelet_watch_free(check->registry);
	check->registry = watch;
	free(check->registry_directory);
	check->registry_directory = TAKE_PTR(copy);
}

void session_check_stop(struct session_check *check)
{
	if (check->registry)
		kubelet_watch_stop(check->registry);
	(void)sd_event_source_set_enabled(check->timer, SD_EVENT_OFF);
}

struct session_check *session_check_free(struct session_check *check)
{
	if (!check)
		return NULL;
	(void)kubelet_watch_free(check->registry);
	free(check->registry_directory);
	sd_event_source_disable_unref(check->timer);
	free(check);
	return NULL;
}
