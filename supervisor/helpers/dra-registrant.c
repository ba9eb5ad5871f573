/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a driver's session is opened: as soon as devplugd-cluster knows the driver, and
 * again after each failure, because up to 1.35 the plugin watcher never retries a socket that
 * failed. A session that is registered outlives the process: its socket stays here, so that calls
 * of the kubelet wait in the backlog for the next process instead of being refused. It also
 * outlives a devplugd that is killed, where systemd keeps the sockets (kept-sockets.h).
 */
#include "supervisor/helpers/dra-registrant.h"

#include "common/control-cluster.h"
#include "common/control-kubelet-client.h"
#include "common/log.h"
#include "supervisor/children/auxiliary.h"
#include "supervisor/children/manager.h"
#include "supervisor/children/registrations.h"
#include "supervisor/children/resource.h"
#include "supervisor/process/retry-delay.h"
#include "supervisor/sessions/kept-sockets.h"
#include "supervisor/sessions/plugin-directory.h"

/* How long calls may wait for the next process. */
#define PROCESS_TIMEOUT (30 * USEC_PER_SEC)

static void set_registered(struct dra_registrant *driver, bool registered, const char *why)
{
	bool before = driver->registered;

	driver->registered = registered;
	(void)snprintf(driver->failure, sizeof(driver->failure), "%s", why);
	if (registered && !before)
		log_notice("the kubelet has registered the DRA driver %s", driver->name);
	driver->on_change(driver, before, driver->userdata);
}

static void plan_session(struct dra_registrant *driver, uint64_t delay)
{
	(void)sd_event_source_set_time(driver->timer, now_usec(CLOCK_MONOTONIC) + delay);
	(void)sd_event_source_set_enabled(driver->timer, SD_EVENT_ONESHOT);
}

static void drop_session(struct dra_registrant *driver)
{
	if (driver->stored)
		kept_sockets_drop(driver->name, &driver->session);
	driver->stored = false;
	driver->registration = registration_free(driver->registration);
	session_done(&driver->session);
}

void dra_registrant_close(struct dra_registrant *driver, const char *why)
{
	drop_session(driver);
	driver->begun = driver->passed = false;
	(void)sd_event_source_set_enabled(driver->timer, SD_EVENT_OFF);
	set_registered(driver, false, why);
}

static void retry_session(struct dra_registrant *driver)
{
	driver->begun = true;
	plan_session(driver,
		retry_delay_next(&driver->delay, RESOURCE_SESSION_DELAY_MIN,
			RESOURCE_SESSION_DELAY_MAX, UINT32_MAX / 2));
}

void dra_registrant_fail(struct dra_registrant *driver, const char *why)
{
	log_warning("the kubelet has not registered the DRA driver %s: %s", driver->name, why);
	dra_registrant_close(driver, why);
	retry_session(driver);
}

static void send_registered(const struct dra_registrant *driver)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_REGISTERED);

	message.driver = driver->number;
	(void)auxiliary_send(driver->process, &message);
}

static void on_registration_result(const char *why, void *userdata)
{
	struct dra_registrant *driver = userdata;

	if (why) {
		dra_registrant_fail(driver, why);
		return;
	}
	driver->delay = 0;
	if (!driver->stored)
		kept_sockets_store(
			driver->name, &driver->session, registration_fd(driver->registration));
	driver->stored = true;
	send_registered(driver);
	set_registered(driver, true, "");
}

static int send_session(struct dra_registrant *driver)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_SESSION);
	int r;

	message.driver = driver->number;
	message.session = driver->session.number;
	message.fds[0] = driver->session.socket.fd;
	r = auxiliary_send(driver->process, &message);
	driver->passed = r >= 0;
	return r;
}

static int begin_session(struct dra_registrant *driver)
{
	const struct registration_options options = {
		.type = CLIENT_DRA_PLUGIN,
		.name = driver->name,
		.on_result = on_registration_result,
		.userdata = driver,
	};
	int r = send_session(driver);

	return r < 0 ? r
		     : registration_begin(driver->manager->kubelet_client, &driver->session,
			       &options, &driver->registration);
}

static void open_session(struct dra_registrant *driver)
{
	struct error error = { 0 };
	bool resumed;
	int r;

	drop_session(driver);
	driver->begun = true;
	resumed = plugin_directory_resume_session(
			  driver->manager, driver->name, &driver->session) >= 0;
	driver->stored = resumed;
	r = resumed ? 0
		    : plugin_directory_open_session(driver->manager, REGISTRATION_WATCHER,
			      driver->name, &driver->session, &error);
	if (r < 0) {
		set_registered(driver, false, error.message);
		retry_session(driver);
		return;
	}
	r = begin_session(driver);
	if (r < 0)
		retry_session(driver);
	else if (resumed) {
		log_notice("the sockets of the DRA driver %s, which systemd kept, are used again",
			driver->name);
		on_registration_result(NULL, driver);
	} else
		plan_session(driver, RESOURCE_REGISTER_TIMEOUT);
}

/* The next process takes the session over. */
static void resume_session(struct dra_registrant *driver)
{
	if (send_session(driver) < 0)
		return;
	(void)sd_event_source_set_enabled(driver->timer, SD_EVENT_OFF);
	send_registered(driver);
	driver->on_change(driver, true, driver->userdata);
}

void dra_registrant_open(struct dra_registrant *driver)
{
	if (!driver->begun)
		open_session(driver);
	else if (driver->registered && !driver->passed)
		resume_session(driver);
}

void dra_registrant_suspend(struct dra_registrant *driver, const char *why)
{
	if (!driver->registered) {
		dra_registrant_close(driver, why);
		return;
	}
	driver->passed = false;
	plan_session(driver, PROCESS_TIMEOUT);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct dra_registrant *driver = userdata;

	if (driver->registered && !driver->passed)
		dra_registrant_close(driver, "devplugd-cluster does not run");
	if (auxiliary_is_running(driver->process) && !driver->registered)
		open_session(driver);
	return 0;
}

void dra_registrant_check(struct dra_registrant *driver)
{
	if (!auxiliary_is_running(driver->process) || driver->session.number == 0 ||
		session_is_in_place(&driver->session))
		return;
	dra_registrant_close(driver, "the socket of the DRA driver was removed");
	retry_session(driver);
}

int dra_registrant_new(struct manager *manager, struct auxiliary *process, uint64_t number,
	const char *name, dra_registrant_handler on_change, void *userdata,
	struct dra_registrant **ret)
{
	_cleanup_(dra_registrant_freep) struct dra_registrant *driver = calloc(1, sizeof(*driver));
	int r;

	if (!driver)
		return -ENOMEM;
	driver->manager = manager;
	driver->process = process;
	driver->number = number;
	driver->on_change = on_change;
	driver->userdata = userdata;
	driver->session = SESSION_INIT;
	driver->name = strdup(name);
	r = driver->name ? sd_event_add_time(manager->event, &driver->timer, CLOCK_MONOTONIC,
				   USEC_INFINITY, 100 * USEC_PER_MSEC, on_timer, driver)
			 : -ENOMEM;
	if (r < 0)
		return r;
	*ret = TAKE_PTR(driver);
	return 0;
}

struct dra_registrant *dra_registrant_free(struct dra_registrant *driver)
{
	if (!driver)
		return NULL;
	drop_session(driver);
	sd_event_source_disable_unref(driver->timer);
	json_decref(driver->resources);
	free(driver->name);
	free(driver);
	return NULL;
}
