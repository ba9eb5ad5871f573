/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process: one socket in the registry, which is the endpoint too. USR1 fails device d0, USR2
 * heals it.
 */
#include "small-driver.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

static int on_health(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct driver *driver = userdata;

	driver->failed = info->ssi_signo == SIGUSR1;
	driver->ever_failed = true;
	driver_publish(driver);
	return 0;
}

/* Lists, and does not watch: the simplest way to notice the writes of others. */
#define LIST_USEC (50 * USEC_PER_MSEC)

static int on_list(sd_event_source *source, uint64_t usec, void *userdata)
{
	driver_publish_slices(userdata);
	return sd_event_source_set_time_relative(source, LIST_USEC);
}

static int add_timer(struct driver *driver)
{
	sd_event_source *source;
	int r;

	r = sd_event_add_time(driver->event, &source, CLOCK_MONOTONIC, 0, 1, on_list, driver);
	if (r >= 0)
		r = sd_event_source_set_enabled(source, SD_EVENT_ON);
	return r >= 0 ? sd_event_source_set_floating(source, true) : r;
}

static int on_stop(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct driver *driver = userdata;

	return driver->fault == DRIVER_FAULT_IGNORES_SIGTERM ? 0 : sd_event_exit(driver->event, 0);
}

static int add_signals(struct driver *driver)
{
	static const int numbers[] = { SIGUSR1, SIGUSR2, SIGTERM };
	sigset_t all;
	int r = 0;

	(void)sigemptyset(&all);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		(void)sigaddset(&all, numbers[i]);
	if (sigprocmask(SIG_BLOCK, &all, NULL) < 0)
		return -errno;
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(numbers); i++)
		r = sd_event_add_signal(driver->event, NULL, numbers[i],
			numbers[i] == SIGTERM ? on_stop : on_health, driver);
	return r;
}

static int on_accept(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct driver *driver = userdata;
	int connected = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (connected >= 0)
		(void)rpc_server_add(driver->server, connected, 1);
	return 0;
}

static int listen_in_registry(struct driver *driver)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int n;

	n = snprintf(driver->socket, sizeof(driver->socket), "%s/registry/" DRIVER_NAME "-reg.sock",
		driver->dir);
	if (n < 0 || (size_t)n >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	(void)stpcpy(address.sun_path, driver->socket);
	if (driver->fault != DRIVER_FAULT_STALE_SOCKET)
		(void)unlink(driver->socket);
	driver->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (driver->listen_fd < 0 ||
		bind(driver->listen_fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(driver->listen_fd, SOMAXCONN) < 0)
		return -errno;
	return sd_event_add_io(driver->event, NULL, driver->listen_fd, EPOLLIN, on_accept, driver);
}

int driver_run(enum driver_fault fault, const char *dir, struct error *error)
{
	struct driver driver = { .fault = fault, .dir = dir, .listen_fd = -EBADF };
	int r;

	(void)signal(SIGPIPE, SIG_IGN);
	driver_load(&driver);
	if (fault == DRIVER_FAULT_CLEANS_AT_START)
		driver_clean(&driver);
	r = sd_event_default(&driver.event);
	if (r >= 0)
		r = add_signals(&driver);
	if (r >= 0)
		r = rpc_start();
	if (r >= 0)
		r = rpc_server_new(driver.event, driver_methods, driver_count_methods(fault),
			&driver, &driver.server);
	if (r >= 0) {
		driver_publish(&driver);
		r = add_timer(&driver);
	}
	if (r >= 0) {
		r = listen_in_registry(&driver);
	}
	if (r < 0)
		return error_set(error, r, "cannot start: %s", strerror(-r));
	r = sd_event_loop(driver.event);
	(void)unlink(driver.socket);
	if (fault == DRIVER_FAULT_CLEANS_AT_STOP)
		driver_clean(&driver);
	return r;
}
