/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides the source of events about devices: udev if it runs, otherwise the kernel. udev's monitor
 * filters in the kernel, so that a resource wakes only for its own subsystems. The kernel's own
 * events cannot be filtered there; only a host without udev pays for that. The source changes at
 * most once, when udev starts after us.
 */
#include "drivers/host/uevent.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <systemd/sd-device.h>

#include "drivers/model/option.h"

/* The kernel's messages (kobject_uevent(), group 1 of NETLINK_KOBJECT_UEVENT). */
#define KERNEL_GROUP 1
/* UEVENT_BUFFER_SIZE of the kernel, and the head of the message. */
#define MESSAGE_MAX    (2048 + 1024)
#define RECEIVE_BUFFER (1024 * 1024)

struct uevents {
	sd_event *event;
	uevent_handler handler;
	void *userdata;
	struct strings subsystems;
	bool all;                   /* of any subsystem */
	sd_device_monitor *monitor; /* of udev */
	int fd;                     /* of the kernel, if there is no udev */
	sd_event_source *source;
	int network_fd;
	sd_event_source *network_source;
};

int uevents_new(sd_event *event, uevent_handler handler, void *userdata, struct uevents **ret)
{
	struct uevents *uevents = calloc(1, sizeof(*uevents));

	if (!uevents)
		return -ENOMEM;
	uevents->event = sd_event_ref(event);
	uevents->handler = handler;
	uevents->userdata = userdata;
	uevents->fd = -EBADF;
	uevents->network_fd = -EBADF;
	*ret = uevents;
	return 0;
}

bool uevents_wanted(const struct uevents *uevents)
{
	return uevents->all || uevents->subsystems.count > 0;
}

static int on_udev_event(sd_device_monitor *monitor, sd_device *device, void *userdata)
{
	struct uevents *uevents = userdata;

	uevents->handler(uevents->userdata);
	return 0;
}

/* "add@/devices/...", NUL, "ACTION=add", NUL, ..., "SUBSYSTEM=net", NUL, ... */
static const char *message_subsystem(const char *message, size_t length)
{
	const char *end = message + length, *field = message;

	while (field < end) {
		const char *value = startswith(field, "SUBSYSTEM=");

		if (value)
			return value;
		field += strlen(field) + 1;
	}
	return NULL;
}

static bool is_from_kernel(const struct msghdr *header)
{
	const struct sockaddr_nl *sender = header->msg_name;

	return header->msg_namelen == sizeof(*sender) && sender->nl_pid == 0 &&
		sender->nl_groups == KERNEL_GROUP;
}

static int on_kernel_event(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct uevents *uevents = userdata;
	char message[MESSAGE_MAX + 1];
	struct sockaddr_nl sender = { 0 };
	struct iovec part = { .iov_base = message, .iov_len = MESSAGE_MAX };
	struct msghdr header = {
		.msg_name = &sender,
		.msg_namelen = sizeof(sender),
		.msg_iov = &part,
		.msg_iovlen = 1,
	};
	const char *subsystem;
	ssize_t length;

	length = RETRY_ON_EINTR(recvmsg(fd, &header, MSG_DONTWAIT));
	if (length < 0) {
		/* Some events were lost, and may have concerned our devices. */
		if (errno == ENOBUFS)
			uevents->handler(uevents->userdata);
		return 0;
	}
	if (!is_from_kernel(&header))
		return 0;
	message[length] = '\0';
	subsystem = message_subsystem(message, (size_t)length);
	if (subsystem && (uevents->all || strings_contain(&uevents->subsystems, subsystem)))
		uevents->handler(uevents->userdata);
	return 0;
}

/* Opens a socket for messages of the kernel to the groups. */
static int open_netlink(struct uevents *uevents, int protocol, uint32_t groups,
	sd_event_io_handler_t handler, sd_event_source **ret_source, int *ret_fd)
{
	const struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = groups };
	const int size = RECEIVE_BUFFER;
	_cleanup_close_ int fd = -EBADF;
	int r;

	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	r = sd_event_add_io(uevents->event, ret_source, fd, EPOLLIN, handler, uevents);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int open_kernel(struct uevents *uevents)
{
	return uevents->fd >= 0 ? 0
				: open_netlink(uevents, NETLINK_KOBJECT_UEVENT, KERNEL_GROUP,
					  on_kernel_event, &uevents->source, &uevents->fd);
}

static void close_kernel(struct uevents *uevents)
{
	uevents->source = sd_event_source_disable_unref(uevents->source);
	uevents->fd = close_fd(uevents->fd);
}

static int open_udev(struct uevents *uevents)
{
	sd_device_monitor *monitor;
	int r;

	r = sd_device_monitor_new(&monitor);
	if (r < 0)
		return r;
	r = sd_device_monitor_attach_event(monitor, uevents->event);
	for (size_t i = 0; r >= 0 && !uevents->all && i < uevents->subsystems.count; i++)
		r = sd_device_monitor_filter_add_match_subsystem_devtype(
			monitor, uevents->subsystems.items[i], NULL);
	if (r >= 0)
		r = sd_device_monitor_start(monitor, on_udev_event, uevents);
	if (r < 0) {
		(void)sd_device_monitor_unref(monitor);
		return r;
	}
	uevents->monitor = monitor;
	return 0;
}

int uevents_want(struct uevents *uevents, const char *subsystem)
{
	bool known =
		uevents->all || (subsystem && strings_contain(&uevents->subsystems, subsystem));
	bool udev = access(UDEV_CONTROL, F_OK) == 0;
	int r;

	if (!subsystem)
		uevents->all = true;
	else if (!known) {
		r = strings_add(&uevents->subsystems, subsystem, strlen(subsystem));
		if (r < 0)
			return r;
	}
	if (!udev && !uevents->monitor)
		return open_kernel(uevents);
	close_kernel(uevents);
	if (!uevents->monitor)
		return open_udev(uevents);
	if (known)
		return 0;
	if (uevents->all)
		return sd_device_monitor_filter_remove(uevents->monitor);
	r = sd_device_monitor_filter_add_match_subsystem_devtype(uevents->monitor, subsystem, NULL);
	return r < 0 ? r : sd_device_monitor_filter_update(uevents->monitor);
}

/* The kernel removes routes without a message when an interface goes down (fib_disable_ip()), or
 * loses its last IPv4 address. A port that leaves its bridge or bond is a change of the link. */
static bool is_about_network(const struct nlmsghdr *header, const struct rtmsg *route)
{
	switch (header->nlmsg_type) {
	case RTM_NEWROUTE:
	case RTM_DELROUTE:
		return header->nlmsg_len >= NLMSG_LENGTH(sizeof(*route)) && route->rtm_dst_len == 0;
	case RTM_NEWLINK:
	case RTM_DELLINK:
	case RTM_DELADDR:
		return true;
	default:
		return false;
	}
}

/* Whether one of the messages is about a default route, or may be. */
static bool are_about_network(const char *messages, size_t size)
{
	struct nlmsghdr header;
	struct rtmsg route;

	/* The head of other messages is not shorter: struct ifaddrmsg, struct ifinfomsg. */
	while (size >= NLMSG_LENGTH(sizeof(struct ifaddrmsg))) {
		size_t step;

		memcpy(&header, messages, sizeof(header));
		memset(&route, 0, sizeof(route));
		memcpy(&route, messages + NLMSG_HDRLEN, MIN_OF(sizeof(route), size - NLMSG_HDRLEN));
		if (header.nlmsg_len < sizeof(header))
			return false;
		if (is_about_network(&header, &route))
			return true;
		step = MIN_OF((size_t)NLMSG_ALIGN(header.nlmsg_len), size);
		messages += step;
		size -= step;
	}
	return false;
}

static int on_network_event(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct uevents *uevents = userdata;
	char buffer[8192];
	ssize_t n = RETRY_ON_EINTR(read(fd, buffer, sizeof(buffer)));

	if (n < 0 ? errno == ENOBUFS : are_about_network(buffer, (size_t)n))
		uevents->handler(uevents->userdata);
	return 0;
}

int uevents_want_network(struct uevents *uevents)
{
	return uevents->network_fd >= 0
		? 0
		: open_netlink(uevents, NETLINK_ROUTE,
			  RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE,
			  on_network_event, &uevents->network_source, &uevents->network_fd);
}

struct uevents *uevents_free(struct uevents *uevents)
{
	if (!uevents)
		return NULL;
	(void)sd_event_source_disable_unref(uevents->network_source);
	(void)close_fd(uevents->network_fd);
	close_kernel(uevents);
	(void)sd_device_monitor_unref(uevents->monitor);
	strings_done(&uevents->subsystems);
	sd_event_unref(uevents->event);
	free(uevents);
	return NULL;
}
