/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets of any bytes from a client of the control socket, each after the other (0xff separates
 * them): every answer is a JSON object with a version, and a client that was disconnected sent too
 * much.
 */
#include <sys/socket.h>

#include "common/request-message.h"
#include "supervisor/children/manager.h"
#include "supervisor/control/events.h"
#include "supervisor/control/request-server.h"
#include "supervisor/control/request.h"
#include "supervisor/files/runtime-files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct config config;
static struct manager manager = {
	.config = &config,
	.config_file = "/etc/devplugd.conf",
	.stopping = true, /* verbs that change something have nothing to work on */
};

/* Takes the place of libsystemd's: a fuzzer would wait most of its time. */
int sd_event_source_set_ratelimit(sd_event_source *source, uint64_t interval, unsigned burst)
{
	return 0;
}

static void set_up(void)
{
	static char directory[] = "/tmp/fuzz-request-XXXXXX";

	config.runtime_dir = mkdtemp(directory);
	if (!config.runtime_dir || sd_event_new(&manager.event) < 0 ||
		runtime_files_open(directory, &manager.files, NULL) < 0 ||
		events_new(&manager, &manager.events) < 0 ||
		request_server_new(&manager, &manager.requests, NULL) < 0)
		abort();
}

static void turn(void)
{
	while (sd_event_run(manager.event, 0) > 0)
		;
}

static void check_answer(int fd, bool too_much)
{
	_cleanup_free_ char *text = NULL;
	json_t *document;
	size_t size;

	if (request_receive_answer(fd, &text, &size) < 0) {
		if (!too_much)
			abort();
		return;
	}
	document = json_loadb(text, size, 0, NULL);
	if (json_integer_value(json_object_get(document, "version")) != REQUEST_VERSION)
		abort();
	json_decref(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = data + size;
	int fd;

	if (!manager.event)
		set_up();
	fd = request_connect(runtime_files_directory(manager.files), REQUEST_SOCKET, 10, 10);
	if (fd < 0)
		abort();
	turn();
	while (data < end) {
		const uint8_t *separator = memchr(data, 0xff, (size_t)(end - data));
		size_t length = (size_t)((separator ?: end) - data);

		/* An empty packet ends a connection. */
		if (length == 0 || send(fd, data, length, MSG_NOSIGNAL) < 0)
			break;
		turn();
		check_answer(fd, length > REQUEST_MAX);
		data += length + 1;
	}
	(void)close_fd(fd);
	turn();
	return 0;
}
