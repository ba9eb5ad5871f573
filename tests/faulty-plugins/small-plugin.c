/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices change on signals: USR1 fails device 1, USR2 heals it, HUP unplugs device 2, WINCH plugs
 * it in again. Changes are sent at once after a quiet time, otherwise within 100 ms.
 */
#include "small-plugin-run.h"

#include <signal.h>

#include "small-plugin.h"

#define COALESCE (120 * USEC_PER_MSEC)
/* The fault that sends too many lists: how many for each change, and the time between them. */
#define FLOOD_LISTS 1000
#define FLOOD_PAUSE (1 * USEC_PER_MSEC)

static int on_publish(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct plugin *plugin = userdata;

	plugin->publish_source = sd_event_source_disable_unref(plugin->publish_source);
	service_publish(plugin);
	return 0;
}

/* By time and not by changes, which come slowly on a busy machine. */
static int on_flood(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct plugin *plugin = userdata;

	service_publish(plugin);
	if (--plugin->flood == 0)
		return 0;
	if (sd_event_source_set_time_relative(source, FLOOD_PAUSE) < 0 ||
		sd_event_source_set_enabled(source, SD_EVENT_ONESHOT) < 0)
		abort();
	return 0;
}

static void start_flood(struct plugin *plugin)
{
	bool runs = plugin->flood > 0;

	plugin->flood = FLOOD_LISTS;
	if (runs)
		return;
	plugin->publish_source = sd_event_source_disable_unref(plugin->publish_source);
	if (sd_event_add_time_relative(plugin->event, &plugin->publish_source, CLOCK_MONOTONIC, 0,
		    1, on_flood, plugin) < 0)
		abort();
}

static void changed(struct plugin *plugin)
{
	if (plugin->fault == FAULT_ENDS_STREAM)
		rpc_server_end_session(plugin->server, plugin->session);
	if (plugin->fault == FAULT_FLOODS_LISTS) {
		start_flood(plugin);
		return;
	}
	if (plugin->publish_source)
		return;
	if (sd_event_add_time(plugin->event, &plugin->publish_source, CLOCK_MONOTONIC,
		    plugin->published + COALESCE, 1, on_publish, plugin) < 0)
		abort();
}

static int on_fail(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct plugin *plugin = userdata;

	plugin->failed = plugin->ever_failed = true;
	changed(plugin);
	return 0;
}

static int on_heal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct plugin *plugin = userdata;

	plugin->failed = false;
	changed(plugin);
	return 0;
}

static int on_unplug(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct plugin *plugin = userdata;

	plugin->unplugged = true;
	changed(plugin);
	return 0;
}

static int on_plug(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct plugin *plugin = userdata;

	plugin->unplugged = false;
	changed(plugin);
	return 0;
}

static int on_stop(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct plugin *plugin = userdata;

	return plugin->fault == FAULT_IGNORES_SIGTERM ? 0 : sd_event_exit(plugin->event, 0);
}

static int add_signals(struct plugin *plugin)
{
	static const struct {
		int number;
		sd_event_signal_handler_t handler;
	} signals[] = {
		{ SIGUSR1, on_fail },
		{ SIGUSR2, on_heal },
		{ SIGHUP, on_unplug },
		{ SIGWINCH, on_plug },
		{ SIGTERM, on_stop },
	};
	sigset_t all;
	int r = 0;

	(void)sigemptyset(&all);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		(void)sigaddset(&all, signals[i].number);
	if (sigprocmask(SIG_BLOCK, &all, NULL) < 0)
		return -errno;
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(signals); i++)
		r = sd_event_add_signal(
			plugin->event, NULL, signals[i].number, signals[i].handler, plugin);
	return r;
}

int plugin_run(enum fault fault, const char *dir, const char *resource, uint64_t delay,
	struct error *error)
{
	struct plugin plugin = {
		.fault = fault,
		.dir = dir,
		.resource = resource,
		.delay = delay,
		.listen_fd = -EBADF,
	};
	int r;

	(void)signal(SIGPIPE, SIG_IGN);
	r = sd_event_default(&plugin.event);
	if (r >= 0)
		r = add_signals(&plugin);
	if (r >= 0)
		r = mailbox_new(plugin.event, &plugin, &plugin.mailbox);
	if (r >= 0)
		r = rpc_start();
	if (r >= 0)
		r = rpc_server_new(
			plugin.event, service_methods, service_n_methods, &plugin, &plugin.server);
	if (r < 0)
		return error_set(error, r, "cannot start: %s", strerror(-r));
	service_publish(&plugin);
	r = registration_start(&plugin, error);
	if (r >= 0)
		r = sd_event_loop(plugin.event);
	registration_stop(&plugin);
	/* Calls that wait for a timer are not answered any more; the process ends with them. */
	return r;
}
