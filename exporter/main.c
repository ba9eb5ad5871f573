/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devplugd-exporter: serves metrics to Prometheus. devplugd starts it with the control socket as
 * descriptor 3. It needs no privilege and opens neither a socket nor a file of the host. Each
 * scrape asks the supervisor for its state; simultaneous scrapes share one. Nothing is kept between
 * scrapes, so the process can be ended at any time.
 */
#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "common/child-sandbox.h"
#include "common/control-exporter.h"
#include "common/log.h"
#include "common/sealed.h"
#include "exporter/families.h"
#include "exporter/http-server.h"
#include "exporter/readiness.h"

#define SETTINGS_MAX 4096
/* The time limit for the supervisor's answer. The supervisor waits at most 2 s for the kubelet. */
#define ANSWER_TIMEOUT (4 * USEC_PER_SEC)
/* The state of 1000 resources with 10,000 devices needs a quarter of this. */
#define MEMORY_MAX (512UL << 20)

struct exporter {
	sd_event *event;
	struct http_server *server; /* NULL: no listener */
	sd_event_source *alive, *textfile_due, *deadline;
	bool textfile, pods;
	uint64_t interval;        /* of the text file, microseconds */
	bool text_wanted, served; /* the requested scrape is for the file; for clients */
	int pods_fd;              /* of it, or -EBADF */
	json_t *documents;        /* of it: the devices by resource */
	size_t documents_size;
};

static void send_simple(struct exporter *exporter, uint32_t type)
{
	const struct control_message message = EXPORTER_MESSAGE_INIT(type);

	if (control_send(CONTROL_FD, &message) < 0)
		(void)sd_event_exit(exporter->event, -EPIPE);
}

/* --- a scrape --- */

static void want_scrape(struct exporter *exporter, bool *whom)
{
	bool waiting = exporter->text_wanted || exporter->served;

	*whom = true;
	if (waiting)
		return;
	send_simple(exporter, EXPORTER_SCRAPE);
	(void)sd_event_source_set_time_relative(exporter->deadline, ANSWER_TIMEOUT);
	(void)sd_event_source_set_enabled(exporter->deadline, SD_EVENT_ONESHOT);
}

static void send_textfile(struct exporter *exporter, const char *text, size_t size)
{
	_cleanup_close_ int fd = sealed_new("metrics", text, size);
	struct control_message message = EXPORTER_MESSAGE_INIT(EXPORTER_TEXTFILE);

	if (fd < 0)
		return;
	message.fds[0] = fd;
	if (control_send(CONTROL_FD, &message) < 0)
		(void)sd_event_exit(exporter->event, -EPIPE);
}

static int make_text(struct exporter *exporter, const struct scrape *scrape, bool process,
	struct exposition *ret)
{
	const struct families_options options = { .assigned = exporter->pods, .process = process };
	struct exposition text = { 0 };
	int r;

	r = families_write(scrape, &options, &text);
	if (r < 0)
		exposition_done(&text);
	else
		*ret = text;
	return r;
}

static void answer_clients(struct exporter *exporter, const struct scrape *scrape)
{
	struct http_answer answer = { 0 };
	struct exposition text = { 0 };

	if (scrape && make_text(exporter, scrape, true, &text) >= 0) {
		answer.metrics = text.text;
		answer.size = text.size;
	}
	if (scrape)
		answer.ready = readiness_write(scrape, &answer.readiness);
	http_server_answer(exporter->server, &answer);
}

/* `scrape` NULL: not available. Clients that connect while others are answered wait for the next
 * one. */
static void use_scrape(struct exporter *exporter, const struct scrape *scrape)
{
	bool for_file = exporter->text_wanted && exporter->textfile;
	bool for_clients = exporter->served && exporter->server;
	struct exposition text = { 0 };

	exporter->text_wanted = exporter->served = false;
	(void)sd_event_source_set_enabled(exporter->deadline, SD_EVENT_OFF);
	if (scrape && for_file && make_text(exporter, scrape, false, &text) >= 0) {
		send_textfile(exporter, text.text, text.size);
		exposition_done(&text);
	}
	if (for_clients)
		answer_clients(exporter, scrape);
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	log_warning(
		"devplugd did not answer a scrape within %llu s", ANSWER_TIMEOUT / USEC_PER_SEC);
	use_scrape(userdata, NULL);
	return 0;
}

static void on_wanted(void *userdata)
{
	struct exporter *exporter = userdata;

	want_scrape(exporter, &exporter->served);
}

static int on_textfile_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct exporter *exporter = userdata;

	want_scrape(exporter, &exporter->text_wanted);
	(void)sd_event_source_set_time_relative(source, exporter->interval);
	return 0;
}

/* --- messages --- */

static void forget_parts(struct exporter *exporter)
{
	exporter->pods_fd = close_fd(exporter->pods_fd);
	(void)json_object_clear(exporter->documents);
	exporter->documents_size = 0;
}

static int handle_inventory(struct exporter *exporter, struct control_message *message)
{
	return scrape_take_devices(
		exporter->documents, &exporter->documents_size, message->text, message->fds[0]);
}

static int handle_state(struct exporter *exporter, struct control_message *message)
{
	_cleanup_(scrape_freep) struct scrape *scrape = NULL;
	int r;

	/* The answer may arrive too late, with its parts. */
	if (exporter->text_wanted || exporter->served) {
		r = message->fds[0] < 0 ? 0
					: scrape_read(message->fds[0], exporter->documents,
						  exporter->pods_fd, &scrape);
		if (r < 0)
			log_warning("cannot read the answer of devplugd: %s", strerror(-r));
		use_scrape(exporter, scrape);
	}
	scrape = scrape_free(scrape);
	forget_parts(exporter);
	(void)malloc_trim(0);
	return 0;
}

static int handle_pods(struct exporter *exporter, struct control_message *message)
{
	exporter->pods_fd = close_fd(exporter->pods_fd);
	exporter->pods_fd = TAKE_FD(message->fds[0]);
	return 0;
}

static int plan_textfile(struct exporter *exporter)
{
	int r = sd_event_source_set_time_relative(exporter->textfile_due, 0);

	return r < 0 ? r
		     : sd_event_source_set_enabled(exporter->textfile_due,
			       exporter->textfile ? SD_EVENT_ON : SD_EVENT_OFF);
}

static int handle_configure(struct exporter *exporter, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	json_t *settings;
	json_int_t interval;
	int textfile, pods, r;
	size_t size;

	r = sealed_read(message->fds[0], SETTINGS_MAX, &text, &size);
	if (r < 0)
		return r;
	settings = json_loadb(text, size, 0, NULL);
	r = json_unpack(settings, "{s:b, s:I, s:b}", "textfile", &textfile, "interval_usec",
		&interval, "pods", &pods);
	json_decref(settings);
	if (r < 0 || interval <= 0)
		return -EBADMSG;
	exporter->textfile = textfile;
	exporter->interval = (uint64_t)interval;
	exporter->pods = pods;
	exporter->server = http_server_free(exporter->server);
	exporter->served = false;
	if (message->fds[1] >= 0)
		r = http_server_new(exporter->event, TAKE_FD(message->fds[1]), on_wanted, exporter,
			&exporter->server);
	return r < 0 ? r : plan_textfile(exporter);
}

static int handle_stop(struct exporter *exporter, struct control_message *message)
{
	return sd_event_exit(exporter->event, 0);
}

static int on_control(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	static int (*const handlers[])(struct exporter *, struct control_message *) = {
		[EXPORTER_CONFIGURE] = handle_configure,
		[CONTROL_INVENTORY] = handle_inventory,
		[EXPORTER_STATE] = handle_state,
		[EXPORTER_PODS] = handle_pods,
		[CONTROL_STOP] = handle_stop,
	};
	_cleanup_control_ struct control_message message = EXPORTER_MESSAGE_INIT(0);
	struct exporter *exporter = userdata;
	int r;

	r = control_receive(fd, &control_exporter, &message);
	if (r == -EAGAIN)
		return 0;
	if (r == -ECONNRESET)
		return sd_event_exit(exporter->event, 0);
	if (r >= 0 && ((size_t)message.type >= ARRAY_SIZE(handlers) || !handlers[message.type]))
		r = -EBADMSG;
	if (r >= 0)
		r = handlers[message.type](exporter, &message);
	if (r < 0) {
		log_error("cannot continue: %s", strerror(-r));
		return sd_event_exit(exporter->event, r);
	}
	return 0;
}

static int on_alive(sd_event_source *source, uint64_t usec, void *userdata)
{
	send_simple(userdata, CONTROL_ALIVE);
	return sd_event_source_set_time_relative(source, CONTROL_ALIVE_INTERVAL);
}

/* --- --- */

static int add_timer(struct exporter *exporter, sd_event_source **ret,
	sd_event_time_handler_t handler, int enabled)
{
	int r = sd_event_add_time(
		exporter->event, ret, CLOCK_MONOTONIC, 0, 100 * USEC_PER_MSEC, handler, exporter);

	return r < 0 ? r : sd_event_source_set_enabled(*ret, enabled);
}

static int run(struct exporter *exporter)
{
	int r;

	r = sandbox_give_up_programs(false);
	if (r < 0) {
		log_error("cannot set up the sandbox: %s", strerror(-r));
		return r;
	}
	r = sd_event_default(&exporter->event);
	if (r >= 0)
		r = sd_event_add_io(
			exporter->event, NULL, CONTROL_FD, EPOLLIN, on_control, exporter);
	if (r >= 0)
		r = add_timer(exporter, &exporter->alive, on_alive, SD_EVENT_ON);
	if (r >= 0)
		r = add_timer(exporter, &exporter->textfile_due, on_textfile_due, SD_EVENT_OFF);
	if (r >= 0)
		r = add_timer(exporter, &exporter->deadline, on_deadline, SD_EVENT_OFF);
	if (r < 0) {
		log_error("cannot set up the event loop: %s", strerror(-r));
		return r;
	}
	return sd_event_loop(exporter->event);
}

int main(int argc, char *argv[])
{
	struct exporter exporter = { .documents = json_object(), .pods_fd = -EBADF };
	int r;

	log_setup("devplugd-exporter", LOG_TARGET_PARENT, LOG_INFO);
	if (argc != 1 || fcntl(CONTROL_FD, F_GETFD) < 0) {
		log_error("devplugd starts this program if the configuration has metrics");
		return 2;
	}
#ifndef __SANITIZE_ADDRESS__
	(void)setrlimit(RLIMIT_DATA, &(const struct rlimit){ MEMORY_MAX, MEMORY_MAX });
#endif
	(void)signal(SIGPIPE, SIG_IGN);
	r = run(&exporter);
	(void)http_server_free(exporter.server);
	(void)close_fd(exporter.pods_fd);
	json_decref(exporter.documents);
	sd_event_source_disable_unref(exporter.alive);
	sd_event_source_disable_unref(exporter.textfile_due);
	sd_event_source_disable_unref(exporter.deadline);
	sd_event_unref(exporter.event);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
