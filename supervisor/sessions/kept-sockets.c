/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which sockets systemd keeps, and which ones of a killed devplugd are used again: a pair
 * of listening sockets that are still at their paths. The name of each in the store identifies the
 * driver and the file, because the kernel reports only the path at which a socket was bound.
 * Everything else is closed, and removed from the store.
 */
#include "supervisor/sessions/kept-sockets.h"

#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include "common/log.h"

#define STORED_PREFIX "dra-"
/* sd_notify(3): a name has at most 255 characters, and no ":". */
#define STORED_NAME_MAX 255

struct passed {
	char *name; /* NULL: it was taken or closed */
	int fd;
};

struct kept_sockets {
	struct passed *items;
	size_t n_items;
};

/* --- the store of systemd --- */

static void format_name(char ret[static STORED_NAME_MAX + 1], const char *kind, const char *driver,
	const struct session_socket *bound)
{
	(void)snprintf(ret, STORED_NAME_MAX + 1, STORED_PREFIX "%s/%s/%llu/%llu", kind, driver,
		(unsigned long long)bound->device, (unsigned long long)bound->inode);
}

static void store_one(
	const char *kind, const char *driver, const struct session_socket *bound, int fd)
{
	char name[STORED_NAME_MAX + 1], text[sizeof(name) + 32];

	format_name(name, kind, driver, bound);
	(void)snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s", name);
	(void)sd_pid_notify_with_fds(0, false, text, &fd, 1);
}

static void drop_name(const char *name)
{
	(void)sd_notifyf(false, "FDSTOREREMOVE=1\nFDNAME=%s", name);
}

void kept_sockets_store(const char *driver, const struct session *session, int visible_fd)
{
	store_one("socket", driver, &session->socket, session->socket.fd);
	store_one("visible", driver, &session->visible, visible_fd);
}

void kept_sockets_drop(const char *driver, const struct session *session)
{
	char name[STORED_NAME_MAX + 1];

	format_name(name, "visible", driver, &session->visible);
	drop_name(name);
	format_name(name, "socket", driver, &session->socket);
	drop_name(name);
}

/* --- what was passed --- */

int kept_sockets_take(struct kept_sockets *kept, const char *name)
{
	for (size_t i = 0; i < kept->n_items; i++) {
		struct passed *passed = &kept->items[i];

		if (!passed->name || !streq(passed->name, name))
			continue;
		free(TAKE_PTR(passed->name));
		return TAKE_FD(passed->fd);
	}
	return -EBADF;
}

/* Whether it is such a socket of the driver; then fills what identifies its file. */
static bool read_name(
	const char *name, const char *kind, const char *driver, struct session_socket *bound)
{
	unsigned long long device, inode;
	char expected[STORED_NAME_MAX + 1], end;
	const char *rest;

	(void)snprintf(expected, sizeof(expected), STORED_PREFIX "%s/%s/", kind, driver);
	rest = startswith(name, expected);
	if (!rest || sscanf(rest, "%llu/%llu%c", &device, &inode, &end) != 2)
		return false;
	bound->device = (dev_t)device;
	bound->inode = (ino_t)inode;
	return true;
}

static bool take_socket(struct kept_sockets *kept, const char *kind, const char *driver,
	struct session_socket *bound)
{
	for (size_t i = 0; i < kept->n_items; i++) {
		struct passed *passed = &kept->items[i];

		if (!passed->name || !read_name(passed->name, kind, driver, bound))
			continue;
		free(TAKE_PTR(passed->name));
		bound->fd = TAKE_FD(passed->fd);
		return true;
	}
	return false;
}

int kept_sockets_take_session(
	struct kept_sockets *kept, const char *driver, const char *directory, struct session *ret)
{
	_cleanup_(session_done) struct session session = SESSION_INIT;
	bool socket = take_socket(kept, "socket", driver, &session.socket);
	bool visible = take_socket(kept, "visible", driver, &session.visible);
	int r;

	if (!socket && !visible)
		return -ENOENT;
	r = session_adopt(directory, &session);
	if (r < 0) {
		log_notice("the sockets of the DRA driver %s that systemd kept are not used: %s",
			driver, strerror(-r));
		kept_sockets_drop(driver, &session);
		return r;
	}
	*ret = session;
	session = SESSION_INIT;
	return 0;
}

void kept_sockets_close(struct kept_sockets *kept)
{
	for (size_t i = 0; i < kept->n_items; i++) {
		struct passed *passed = &kept->items[i];

		if (!passed->name)
			continue;
		/* Its path is free at once, although systemd may close its descriptor later. Others
		 * are those of socket units. */
		if (startswith(passed->name, STORED_PREFIX))
			(void)shutdown(passed->fd, SHUT_RDWR);
		drop_name(passed->name);
		free(TAKE_PTR(passed->name));
		passed->fd = close_fd(passed->fd);
	}
}

int kept_sockets_new(struct kept_sockets **ret)
{
	_cleanup_(kept_sockets_freep) struct kept_sockets *kept = calloc(1, sizeof(*kept));
	char **names = NULL;
	int n;

	if (!kept)
		return -ENOMEM;
	n = sd_listen_fds_with_names(true, &names);
	if (n > 0)
		kept->items = calloc((size_t)n, sizeof(*kept->items));
	for (int i = 0; i < n; i++) {
		if (kept->items)
			kept->items[kept->n_items++] =
				(struct passed){ .name = names[i], .fd = SD_LISTEN_FDS_START + i };
		else
			free(names[i]);
	}
	free(names);
	if (n < 0 || (n > 0 && !kept->items))
		return n < 0 ? n : -ENOMEM;
	*ret = TAKE_PTR(kept);
	return 0;
}

struct kept_sockets *kept_sockets_free(struct kept_sockets *kept)
{
	if (!kept)
		return NULL;
	kept_sockets_close(kept);
	free(kept->items);
	free(kept);
	return NULL;
}
