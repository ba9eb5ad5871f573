/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the exporter runs, and answers its requests; metrics-state.c and
 * exporter/families.c define the metrics. A scrape waits at most PODS_TIMEOUT for the kubelet's
 * answer about its pods, and the next answer is delayed by the cost of the last one, so that a
 * faulty exporter cannot keep the loop busy.
 */
#include "supervisor/helpers/metrics.h"

#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>

#include "common/control-exporter.h"
#include "common/log.h"
#include "common/pace.h"
#include "common/replace-file.h"
#include "common/sealed.h"
#include "supervisor/books/pod-resources.h"
#include "supervisor/children/auxiliary.h"
#include "supervisor/children/manager.h"
#include "supervisor/helpers/metrics-socket.h"
#include "supervisor/helpers/metrics-state.h"
#include "supervisor/sessions/kept-sockets.h"

#define EXPORTER_NAME    "devplugd-exporter"
#define SOCKET_NAME      "metrics" /* FileDescriptorName= of devplugd-metrics.socket */
#define PODS_TIMEOUT     (2 * USEC_PER_SEC)
#define STATE_SPACING    (10 * USEC_PER_MSEC)
#define READ_PAUSE       (1 * USEC_PER_MSEC) /* for an exporter that has to read first */
#define TEXTFILE_MAX     (64U << 20)
#define TEXTFILE_SPACING (500 * USEC_PER_MSEC)
#define TEXTFILE_MODE    0644
#define TEXTFILE_MISSED  3 /* writes, after which the file is removed */
#define TEXTFILE_LATE    (5 * USEC_PER_SEC)
#define LISTEN_INTERVAL  USEC_PER_SEC

struct metrics {
	struct manager *manager;
	struct auxiliary *exporter;
	int activated_fd;               /* systemd's, or -EBADF */
	struct metrics_socket listener; /* our own */
	sd_event_source *listen_again;  /* as long as it cannot be opened */
	char *listen_failure;           /* why; logged */
	char *textfile;                 /* of the applied configuration */
	char *settings;                 /* the settings that the exporter was sent */

	bool scraping; /* the exporter waits for the state */
	size_t next;   /* the child whose devices it gets next */
	bool asking;   /* waits for the kubelet's answer about pods */
	int pods_fd;   /* the answer, or -EBADF */
	uint64_t pod_errors;
	struct pace pace;
	uint64_t textfile_not_before;
	sd_event_source *timer, *textfile_stale;
	struct log_once textfile_logged; /* failures to write it */
	char *textfile_failure;          /* NULL: the last write succeeded */
};

/* --- a scrape --- */

static void forget_scrape(struct metrics *metrics)
{
	pod_resources_cancel(metrics->manager->pods, metrics);
	metrics->scraping = metrics->asking = false;
	metrics->pods_fd = close_fd(metrics->pods_fd);
	(void)sd_event_source_set_enabled(metrics->timer, SD_EVENT_OFF);
}

/* -EAGAIN: the exporter has to read first. */
static int send_state(struct metrics *metrics, const struct metrics_facts *facts)
{
	const struct manager *manager = metrics->manager;
	_cleanup_control_ struct control_message pods = EXPORTER_MESSAGE_INIT(EXPORTER_PODS);
	_cleanup_control_ struct control_message state = EXPORTER_MESSAGE_INIT(EXPORTER_STATE);
	int r;

	for (; metrics->next < manager->n_children; metrics->next++) {
		r = auxiliary_send_devices(metrics->exporter, manager->children[metrics->next]);
		if (r < 0)
			return r;
	}
	r = metrics_state(manager, facts, &state.fds[0]);
	if (r < 0)
		return r;
	if (metrics->pods_fd >= 0) {
		pods.fds[0] = TAKE_FD(metrics->pods_fd);
		r = auxiliary_send(metrics->exporter, &pods);
	}
	return r < 0 ? r : auxiliary_send(metrics->exporter, &state);
}

static void finish_later(struct metrics *metrics, uint64_t when)
{
	(void)sd_event_source_set_time(metrics->timer, when);
	(void)sd_event_source_set_enabled(metrics->timer, SD_EVENT_ONESHOT);
}

static void finish_scrape(struct metrics *metrics)
{
	const struct control_message none = EXPORTER_MESSAGE_INIT(EXPORTER_STATE);
	const struct metrics_facts facts = {
		.pods_wanted = metrics->manager->config->kubelet.pod_resources,
		.pods_known = metrics->pods_fd >= 0,
		.pod_errors = metrics->pod_errors,
	};
	int r;

	if (metrics->next == 0)
		pace_begin(&metrics->pace);
	r = send_state(metrics, &facts);
	if (r == -EAGAIN) {
		finish_later(metrics, now_usec(CLOCK_MONOTONIC) + READ_PAUSE);
		return;
	}
	(void)pace_end(&metrics->pace, STATE_SPACING);
	if (r < 0) {
		log_warning("metrics are not available now: %s", strerror(-r));
		(void)auxiliary_send(metrics->exporter, &none);
	}
	forget_scrape(metrics);
}

static void finish_when_allowed(struct metrics *metrics)
{
	if (metrics->pace.not_before <= now_usec(CLOCK_MONOTONIC))
		finish_scrape(metrics);
	else
		finish_later(metrics, metrics->pace.not_before);
}

static void on_pods(const struct pod_answer *answer, void *userdata)
{
	struct metrics *metrics = userdata;

	metrics->asking = false;
	if (answer->table)
		metrics->pods_fd = fcntl(answer->table_fd, F_DUPFD_CLOEXEC, 3);
	else
		metrics->pod_errors++;
	finish_when_allowed(metrics);
}

/* Called when the kubelet took too long, or the next answer may be sent. */
static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct metrics *metrics = userdata;

	if (metrics->asking) {
		metrics->asking = false;
		metrics->pod_errors++;
		pod_resources_cancel(metrics->manager->pods, metrics);
	}
	finish_when_allowed(metrics);
	return 0;
}

static bool begin_scrape(struct metrics *metrics)
{
	const struct manager *manager = metrics->manager;

	/* The exporter does not wait forever; the answer to its first request also answers the
	 * second. */
	if (metrics->scraping)
		return true;
	metrics->scraping = true;
	metrics->next = 0;
	metrics->asking = manager->config->kubelet.pod_resources &&
		pod_resources_ask(
			manager->pods, POD_QUESTION_LIST, POD_ANSWER_AGE, on_pods, metrics) >= 0;
	if (!metrics->asking) {
		finish_when_allowed(metrics);
		return true;
	}
	(void)sd_event_source_set_time(metrics->timer, now_usec(CLOCK_MONOTONIC) + PODS_TIMEOUT);
	(void)sd_event_source_set_enabled(metrics->timer, SD_EVENT_ONESHOT);
	return true;
}

/* --- the text file --- */

/* Otherwise node_exporter would report the last metrics forever. */
static void remove_textfile(struct metrics *metrics)
{
	(void)sd_event_source_set_enabled(metrics->textfile_stale, SD_EVENT_OFF);
	if (metrics->textfile)
		(void)unlink(metrics->textfile);
}

static int on_textfile_stale(sd_event_source *source, uint64_t usec, void *userdata)
{
	remove_textfile(userdata);
	return 0;
}

static void keep_textfile(struct metrics *metrics)
{
	uint64_t interval = (uint64_t)metrics->manager->config->metrics.interval;

	(void)sd_event_source_set_time(metrics->textfile_stale,
		now_usec(CLOCK_MONOTONIC) + TEXTFILE_LATE + TEXTFILE_MISSED * interval);
	(void)sd_event_source_set_enabled(metrics->textfile_stale, SD_EVENT_ONESHOT);
}

static void note_textfile(struct metrics *metrics, int r)
{
	_cleanup_free_ char *failure = NULL;

	if (r < 0)
		(void)format_text(&failure,
			"cannot write the metrics to %s: %s; the directory must exist and be "
			"among the ReadWritePaths= of the service",
			metrics->textfile, strerror(-r));
	if (log_once_admits(&metrics->textfile_logged, failure))
		log_warning("%s", failure ?: "");
	if (failure || metrics->textfile_failure)
		manager_changed(metrics->manager);
	free(metrics->textfile_failure);
	metrics->textfile_failure = TAKE_PTR(failure);
}

/* The file of an earlier process, which was killed, is as old. */
static void take_textfile_path(struct metrics *metrics, const char *path)
{
	if (!path) {
		free(metrics->textfile_failure);
		metrics->textfile_failure = NULL;
	}
	if (streq(path ?: "", metrics->textfile ?: ""))
		return;
	remove_textfile(metrics);
	free(metrics->textfile);
	metrics->textfile = path ? strdup(path) : NULL;
	remove_textfile(metrics);
}

static void take_textfile(struct metrics *metrics, const struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	size_t size;
	int r;

	/* Its path may have been removed from the configuration in the meantime. */
	if (!metrics->textfile || now < metrics->textfile_not_before)
		return;
	r = sealed_read(message->fds[0], TEXTFILE_MAX, &text, &size);
	if (r >= 0)
		r = replace_file(AT_FDCWD, metrics->textfile, TEXTFILE_MODE, text, size);
	if (r >= 0)
		keep_textfile(metrics);
	note_textfile(metrics, r);
	metrics->textfile_not_before = now_usec(CLOCK_MONOTONIC) + TEXTFILE_SPACING;
}

/* --- the exporter --- */

static bool on_message(struct control_message *message, void *userdata)
{
	struct metrics *metrics = userdata;

	if (message->type == EXPORTER_SCRAPE)
		return begin_scrape(metrics);
	if (message->type != EXPORTER_TEXTFILE)
		return false;
	take_textfile(metrics, message);
	return true;
}

static void on_ended(void *userdata)
{
	forget_scrape(userdata);
}

static int make_settings(const struct metrics *metrics, char **ret)
{
	const struct metrics_config *config = &metrics->manager->config->metrics;
	json_t *json = json_pack("{s:s, s:b, s:I, s:b}", "listen",
		metrics->activated_fd >= 0 ? "systemd" : metrics->listener.address ?: "",
		"textfile", metrics->textfile != NULL, "interval_usec", (json_int_t)config->interval, "pods",
		(int)config->pods);

	*ret = json ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
	return *ret ? 0 : -ENOMEM;
}

static int send_settings(struct metrics *metrics)
{
	_cleanup_close_ int fd =
		sealed_new("settings", metrics->settings, strlen(metrics->settings));
	struct control_message message = EXPORTER_MESSAGE_INIT(EXPORTER_CONFIGURE);

	if (fd < 0)
		return fd;
	message.fds[0] = fd;
	message.fds[1] = metrics->activated_fd >= 0 ? metrics->activated_fd : metrics->listener.fd;
	return auxiliary_send(metrics->exporter, &message);
}

static int on_started(struct auxiliary *exporter, void *userdata)
{
	return send_settings(userdata);
}

/* --- the configuration --- */

static void note_listen_failure(struct metrics *metrics, const char *failure)
{
	if (failure && (!metrics->listen_failure || !streq(failure, metrics->listen_failure)))
		log_error("no metrics: %s; devplugd tries again every second", failure);
	if (!failure && metrics->listen_failure)
		log_notice("the exporter listens on %s", metrics->listener.address);
	if (failure || metrics->listen_failure)
		manager_changed(metrics->manager);
	free(metrics->listen_failure);
	metrics->listen_failure = failure ? strdup(failure) : NULL;
	(void)sd_event_source_set_time(
		metrics->listen_again, now_usec(CLOCK_MONOTONIC) + LISTEN_INTERVAL);
	(void)sd_event_source_set_enabled(
		metrics->listen_again, failure ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

/* Returns whether it opened one. */
static bool open_socket(struct metrics *metrics, const char *address)
{
	struct error error = { 0 };

	if (address && metrics->activated_fd >= 0) {
		log_notice("metrics.listen is not used: systemd passed a socket");
		address = NULL;
	}
	if (address && metrics->listener.address && streq(address, metrics->listener.address) &&
		metrics_socket_is_there(&metrics->listener))
		return false;
	metrics_socket_done(&metrics->listener);
	if (address)
		(void)metrics_socket_open(address, &metrics->listener, &error);
	/* Without an address, nothing has failed. */
	if (!address) {
		free(metrics->listen_failure);
		metrics->listen_failure = NULL;
	}
	note_listen_failure(metrics, error.code < 0 ? error.message : NULL);
	return metrics->listener.fd >= 0;
}

void metrics_configure(struct metrics *metrics)
{
	const struct metrics_config *config = &metrics->manager->config->metrics;
	_cleanup_free_ char *before = TAKE_PTR(metrics->settings);
	bool opened, wanted;

	opened = open_socket(metrics, config->listen);
	take_textfile_path(metrics, config->textfile);
	wanted = metrics->activated_fd >= 0 || metrics->listener.fd >= 0 || metrics->textfile;
	if (make_settings(metrics, &metrics->settings) < 0)
		wanted = false;
	if (wanted && auxiliary_is_running(metrics->exporter) &&
		(opened || !before || !streq(before, metrics->settings)))
		(void)send_settings(metrics);
	auxiliary_set_wanted(metrics->exporter, wanted);
}

void metrics_restore(struct metrics *metrics)
{
	if (metrics->listener.fd < 0 || metrics_socket_is_there(&metrics->listener))
		return;
	log_warning("another process removed %s", metrics->listener.address);
	metrics_configure(metrics);
	if (metrics->listener.fd >= 0)
		log_notice("restored %s", metrics->listener.address);
}

static int on_listen_again(sd_event_source *source, uint64_t usec, void *userdata)
{
	metrics_configure(userdata);
	return 0;
}

const char *metrics_failure(const struct metrics *metrics)
{
	return metrics ? metrics->listen_failure ?: metrics->textfile_failure : NULL;
}

/* --- --- */

static int take_activated(struct kept_sockets *kept)
{
	int fd = kept_sockets_take(kept, SOCKET_NAME);

	if (fd >= 0)
		(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

int metrics_new(struct manager *manager, struct metrics **ret)
{
	_cleanup_(metrics_freep) struct metrics *metrics = calloc(1, sizeof(*metrics));
	const struct auxiliary_options options = {
		.protocol = &control_exporter,
		.program = EXPORTER_NAME,
		.on_started = on_started,
		.on_message = on_message,
		.on_ended = on_ended,
		.userdata = metrics,
	};
	int r;

	if (!metrics)
		return -ENOMEM;
	metrics->manager = manager;
	metrics->pods_fd = -EBADF;
	metrics->listener = METRICS_SOCKET_INIT;
	metrics->activated_fd = take_activated(manager->kept_sockets);
	r = sd_event_add_time(manager->event, &metrics->timer, CLOCK_MONOTONIC, USEC_INFINITY,
		USEC_PER_MSEC, on_timer, metrics);
	if (r >= 0)
		r = sd_event_add_time(manager->event, &metrics->listen_again, CLOCK_MONOTONIC,
			USEC_INFINITY, 100 * USEC_PER_MSEC, on_listen_again, metrics);
	if (r >= 0)
		r = sd_event_add_time(manager->event, &metrics->textfile_stale, CLOCK_MONOTONIC,
			USEC_INFINITY, 100 * USEC_PER_MSEC, on_textfile_stale, metrics);
	if (r >= 0)
		r = auxiliary_new(manager, &options, &metrics->exporter);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(metrics);
	return 0;
}

struct metrics *metrics_free(struct metrics *metrics)
{
	if (!metrics)
		return NULL;
	if (metrics->timer)
		forget_scrape(metrics);
	sd_event_source_disable_unref(metrics->timer);
	sd_event_source_disable_unref(metrics->listen_again);
	(void)auxiliary_free(metrics->exporter);
	metrics_socket_done(&metrics->listener);
	(void)close_fd(metrics->activated_fd);
	remove_textfile(metrics);
	sd_event_source_disable_unref(metrics->textfile_stale);
	free(metrics->textfile);
	free(metrics->textfile_failure);
	free(metrics->listen_failure);
	free(metrics->settings);
	free(metrics);
	return NULL;
}
