/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel for its IPv4 routes, and takes the interfaces of default routes that have several
 * next hops. The kernel answers at once, in datagrams of which each holds whole messages; a route
 * that does not fit one is cut by the kernel, not here.
 */
#include "drivers/host/net-next-hops.h"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

/* The largest part of an answer that the kernel sends at once (netlink_dump()). */
#define DATAGRAM_SIZE 32768
/* Some 100,000 routes, in an order in which default routes are the first of their table. */
#define DATAGRAMS_MAX 1000

/* A part of a message: attributes, or next hops. */
struct part {
	const char *data;
	size_t size;
};

/* Takes the next element with a header of that size off the part. Returns it, or NULL at the end.
 */
static const char *take(struct part *part, size_t header, size_t length, size_t alignment)
{
	const char *data = part->data;
	size_t step;

	if (length < header || length > part->size)
		return NULL;
	step = MIN_OF((length + alignment - 1) & ~(alignment - 1), part->size);
	part->data += step;
	part->size -= step;
	return data;
}

static int add_next_hops(struct part hops, struct strings *names)
{
	struct rtnexthop hop;
	int r = 0;

	while (hops.size >= sizeof(hop) && r >= 0) {
		char name[IF_NAMESIZE];

		memcpy(&hop, hops.data, sizeof(hop));
		if (!take(&hops, sizeof(hop), hop.rtnh_len, RTNH_ALIGNTO))
			break;
		if (if_indextoname((unsigned)hop.rtnh_ifindex, name))
			r = strings_add(names, name, strlen(name));
	}
	return r;
}

static int add_route(struct part message, struct strings *names)
{
	struct rtmsg route;
	struct rtattr attribute;
	int r = 0;

	if (message.size < sizeof(route))
		return 0;
	memcpy(&route, message.data, sizeof(route));
	if (route.rtm_dst_len != 0 || route.rtm_table != RT_TABLE_MAIN ||
		route.rtm_type != RTN_UNICAST)
		return 0;
	(void)take(&message, sizeof(route), sizeof(route), RTA_ALIGNTO);
	while (message.size >= sizeof(attribute) && r >= 0) {
		const char *data;

		memcpy(&attribute, message.data, sizeof(attribute));
		data = take(&message, sizeof(attribute), attribute.rta_len, RTA_ALIGNTO);
		if (!data)
			break;
		if (attribute.rta_type == RTA_MULTIPATH)
			r = add_next_hops((struct part){ .data = data + RTA_LENGTH(0),
						  .size = attribute.rta_len - RTA_LENGTH(0) },
				names);
	}
	return r;
}

/* Returns 1 if there are more, 0 after the last, or negative errno. */
static int add_routes(struct part datagram, struct strings *names)
{
	struct nlmsghdr header;
	int r = 0;

	while (datagram.size >= sizeof(header) && r >= 0) {
		const char *data;

		memcpy(&header, datagram.data, sizeof(header));
		data = take(&datagram, sizeof(header), header.nlmsg_len, NLMSG_ALIGNTO);
		if (!data)
			return -EBADMSG;
		if (header.nlmsg_type == NLMSG_DONE)
			return 0;
		if (header.nlmsg_type == NLMSG_ERROR)
			return -EIO;
		if (header.nlmsg_type == RTM_NEWROUTE)
			r = add_route((struct part){ .data = data + NLMSG_HDRLEN,
					      .size = header.nlmsg_len - NLMSG_HDRLEN },
				names);
	}
	return r < 0 ? r : 1;
}

static int send_request(int fd)
{
	const struct {
		struct nlmsghdr header;
		struct rtmsg route;
	} request = {
		.header = {
			.nlmsg_len = sizeof(request),
			.nlmsg_type = RTM_GETROUTE,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		},
		.route.rtm_family = AF_INET,
	};

	return send(fd, &request, sizeof(request), 0) < 0 ? -errno : 0;
}

int net_next_hops_read(struct strings *names)
{
	_cleanup_free_ char *buffer = malloc(DATAGRAM_SIZE);
	_cleanup_close_ int fd = -EBADF;
	int r;

	if (!buffer)
		return -ENOMEM;
	/* The kernel answers a request before send() returns, and a part with each read. */
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (fd < 0)
		return -errno;
	r = send_request(fd);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < DATAGRAMS_MAX; i++) {
		ssize_t n = RETRY_ON_EINTR(recv(fd, buffer, DATAGRAM_SIZE, 0));

		if (n < 0)
			return -errno;
		r = add_routes((struct part){ .data = buffer, .size = (size_t)n }, names);
		if (r <= 0)
			return r;
	}
	return 0;
}
