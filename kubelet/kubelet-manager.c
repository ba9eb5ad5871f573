/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts, updates and stops the parts in the kubelet's order. The checkpoint is read before the
 * directory is cleaned and the socket appears last, so that everything is ready when it appears.
 */
#include "kubelet/kubelet-manager.h"

#include <malloc.h>
#include <signal.h>

#include "common/log.h"
#include "kubelet/admission.h"
#include "kubelet/checkpoint.h"
#include "kubelet/claim-table.h"
#include "kubelet/connection.h"
#include "kubelet/control-socket.h"
#include "kubelet/dra-driver.h"
#include "kubelet/dra-operation.h"
#include "kubelet/file.h"
#include "kubelet/output.h"
#include "kubelet/plugin-dir.h"
#include "kubelet/plugin-text.h"
#include "kubelet/plugin-watcher.h"
#include "kubelet/pod-file.h"
#include "kubelet/pod-resources-service.h"
#include "kubelet/registrar.h"
#include "proto/rpc.h"

#define STATUS_TICK      (10 * USEC_PER_SEC)
#define CHECKPOINT_DELAY (100 * USEC_PER_MSEC)
#define KEEP_MAX         (256U << 20)

uint64_t manager_now(void)
{
	return now_usec(CLOCK_MONOTONIC);
}

void manager_emit(struct manager *manager, json_t *event)
{
	_cleanup_json_ json_t *owned = event;

	if (!owned || json_object_set_new(owned, "time", json_integer((json_int_t)manager_now())))
		return;
	if (manager->options->on_event)
		manager->options->on_event(owned, manager->options->userdata);
	else
		output_event(manager->output, owned);
}

void manager_panic(struct manager *manager, const char *why)
{
	log_error("%s", why);
	manager_emit(manager, json_pack("{s:s, s:o}", "event", "panic", "error", text_json(why)));
	(void)sd_event_exit(manager->event, MANAGER_PANICKED);
}

void manager_changed(struct manager *manager)
{
	if (manager->control)
		control_changed(manager->control);
	output_changed(manager->output);
}

int manager_save(struct manager *manager, struct error *error)
{
	sd_event_source_disable_unref(TAKE_PTR(manager->checkpoint_source));
	manager->checkpoint_written = manager_now();
	return checkpoint_write(manager->model, manager->options->plugin_dir, error);
}

static int on_checkpoint(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct manager *manager = userdata;
	struct error error = {};

	if (manager_save(manager, &error) < 0)
		log_error("%s", error.message);
	return 0;
}

void manager_save_soon(struct manager *manager)
{
	if (manager->checkpoint_source)
		return;
	/* After a quiet time, the checkpoint is written at once. */
	if (sd_event_add_time(manager->event, &manager->checkpoint_source, CLOCK_MONOTONIC,
		    manager->checkpoint_written + CHECKPOINT_DELAY, 1, on_checkpoint, manager) < 0)
		log_error("cannot arm the timer of the checkpoint");
}

static void on_forgotten(const char *resource, void *userdata)
{
	manager_emit(userdata, json_pack("{s:s, s:s}", "event", "forgotten", "resource", resource));
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct manager *manager = userdata;
	int r;

	if (model_expire(manager->model, manager_now(), on_forgotten, manager) > 0) {
		manager_save_soon(manager);
		manager_changed(manager);
	}
	/* Frees gRPC's memory for the connections; otherwise it would stay, and free memory would
	 * become more and more fragmented. */
	if (manager->connections_ended) {
		manager->connections_ended = false;
		(void)malloc_trim(0);
	}
	r = sd_event_source_set_time_relative(source, STATUS_TICK / manager->options->time_scale);
	return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static int make_model(struct manager *manager)
{
	const struct manager_options *options = manager->options;

	int r;

	manager->model = model_free(manager->model);
	r = model_new(options->version, options->stale_stream_race,
		KUBELET_GRACE / options->time_scale, options->seed, &manager->model);
	if (r >= 0)
		manager->model->topology = options->topology;
	if (r >= 0)
		manager->model->others = json_incref(options->others);
	return r;
}

/* Before it is overwritten. */
static int keep_checkpoint(const struct manager *manager, struct error *error)
{
	_cleanup_free_ char *data = NULL, *path = NULL;
	size_t size;
	int r;

	if (asprintf(&path, "%s/%s", manager->options->plugin_dir, CHECKPOINT_NAME) < 0) {
		path = NULL;
		return error_set(error, -ENOMEM, "out of memory");
	}
	r = file_read(path, KEEP_MAX, &data, &size);
	if (r >= 0)
		r = file_replace(manager->options->state_dir, CHECKPOINT_NAME ".kept", data, size,
			0600, false);
	if (r < 0)
		return error_set(error, r, "cannot keep a copy of %s in %s: %s", path,
			manager->options->state_dir, strerror(-r));
	return 0;
}

static int read_state(struct manager *manager, struct error *error)
{
	const struct manager_options *options = manager->options;
	struct model *model;
	int r;

	r = make_model(manager);
	if (r < 0)
		return error_set(error, r, "out of memory");
	r = checkpoint_read(manager->model, options->plugin_dir, error);
	if (r > 0) {
		log_warning(
			"a real kubelet wrote %s/%s; its pods are unknown here, so their devices are free; a copy is kept in %s",
			options->plugin_dir, CHECKPOINT_NAME, options->state_dir);
		r = keep_checkpoint(manager, error);
	} else if (r == -EBADMSG) {
		log_warning("%s; a copy is kept in %s", error->message, options->state_dir);
		r = keep_checkpoint(manager, error);
		if (r < 0)
			return r;
		r = make_model(manager);
		if (r < 0)
			return error_set(error, r, "out of memory");
	}
	if (r < 0)
		return r;
	model = manager->model;
	/* The grace period of resources without a plugin begins now. */
	for (size_t i = 0; i < model->n_resources; i++)
		model->resources[i]->endpoint.stop_time = manager_now();
	r = claim_table_read(options->state_dir, &manager->claims, error);
	return r < 0 ? r : pod_file_read(model, options->state_dir, error);
}

static void on_removed(const char *name, void *userdata)
{
	(void)json_array_append_new(userdata, text_json(name));
}

static int open_directory(struct manager *manager, struct error *error)
{
	const struct manager_options *options = manager->options;
	_cleanup_json_ json_t *removed = json_array();
	int fd, r;

	r = plugin_dir_prepare(options->plugin_dir, options->version, on_removed, removed, error);
	if (r >= 0)
		r = plugin_dir_listen(options->plugin_dir, &fd, error);
	if (r < 0)
		return r;
	r = registrar_new(manager, fd, &manager->registrar);
	if (r < 0)
		return error_set(error, r, "cannot serve kubelet.sock: %s", strerror(-r));
	manager_emit(manager,
		json_pack("{s:s, s:s, s:o, s:s, s:O, s:I}", "event", "listening", "version",
			options->version->name, "plugin_dir", text_json(options->plugin_dir),
			"socket", KUBELET_SOCKET_NAME, "removed", removed, "resources",
			(json_int_t)manager->model->n_resources));
	return 0;
}

static int make_loop(struct manager *manager)
{
	sigset_t stop;
	int r;

	(void)sigemptyset(&stop);
	(void)sigaddset(&stop, SIGTERM);
	(void)sigaddset(&stop, SIGINT);
	if (sigprocmask(SIG_BLOCK, &stop, NULL) < 0)
		return -errno;
	r = sd_event_default(&manager->event);
	if (r >= 0)
		r = sd_event_add_signal(
			manager->event, &manager->sigterm_source, SIGTERM, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_signal(
			manager->event, &manager->sigint_source, SIGINT, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_time_relative(manager->event, &manager->tick_source,
			CLOCK_MONOTONIC, STATUS_TICK / manager->options->time_scale, 0, on_tick,
			manager);
	if (r >= 0)
		r = mailbox_new(manager->event, manager, &manager->mailbox);
	if (r >= 0)
		r = output_new(manager, manager->options->force_json, &manager->output);
	return r;
}

int manager_new(const struct manager_options *options, struct manager **ret, struct error *error)
{
	_cleanup_(manager_freep) struct manager *manager = calloc(1, sizeof(*manager));
	int r;

	if (!manager)
		return error_set(error, -ENOMEM, "out of memory");
	manager->options = options;
	r = options->replace ? 0 : plugin_dir_check_unused(options->plugin_dir, error);
	if (r < 0)
		return r;
	r = make_loop(manager);
	if (r < 0)
		return error_set(error, r, "cannot make the event loop: %s", strerror(-r));
	r = control_new(manager, &manager->control, error);
	if (r < 0)
		return r;
	r = read_state(manager, error);
	if (r < 0)
		return r;
	r = rpc_start();
	if (r < 0)
		return error_set(error, r, "cannot start gRPC: %s", strerror(-r));
	r = open_directory(manager, error);
	if (r >= 0)
		r = pod_resources_new(manager, &manager->pod_resources, error);
	if (r >= 0 && options->plugins_registry)
		r = plugin_watcher_new(
			manager, options->plugins_registry, &manager->plugin_watcher, error);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(manager);
	return 0;
}

int manager_run(struct manager *manager)
{
	struct error error = {};
	int r;

	r = sd_event_loop(manager->event);
	if (manager->checkpoint_source && manager_save(manager, &error) < 0)
		log_error("%s", error.message);
	return r;
}

struct manager *manager_free(struct manager *manager)
{
	if (!manager)
		return NULL;
	/* Order matters: stop accepting calls, deliver the pending ones, then free the manager. */
	plugin_watcher_stop(manager->plugin_watcher);
	connection_close_all(manager);
	manager->registrar = registrar_free(manager->registrar);
	manager->pod_resources = pod_resources_free(manager->pod_resources);
	rpc_stop();
	manager->mailbox = mailbox_free(manager->mailbox);
	dra_operation_free_all(manager);
	dra_driver_free_all(manager);
	admission_free_all(manager);
	connection_free_all(manager);
	manager->plugin_watcher = plugin_watcher_free(manager->plugin_watcher);
	manager->control = control_free(manager->control);
	manager->model = model_free(manager->model);
	json_decref(manager->claims);
	sd_event_source_disable_unref(manager->checkpoint_source);
	sd_event_source_disable_unref(manager->tick_source);
	sd_event_source_disable_unref(manager->sigterm_source);
	sd_event_source_disable_unref(manager->sigint_source);
	manager->output = output_free(manager->output);
	sd_event_unref(manager->event);
	free(manager);
	return NULL;
}
