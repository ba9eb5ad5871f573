/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which sockets are another program's with the name of a DRA driver. Drivers name them
 * DRIVER-reg.sock, or DRIVER-UID-reg.sock with the UID of their pod, as Kubernetes' library for
 * drivers does; devplugd does not. A socket that a dead program has left refuses connections.
 */
#include "configuration/foreign-driver.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/util.h"

#define SUFFIX     "-reg.sock"
#define UID_LENGTH 36

static bool has_name(const char *file, const char *driver)
{
	const char *rest = startswith(file, driver);
	size_t length = rest ? strlen(rest) : 0;

	return rest &&
		(streq(rest, SUFFIX) ||
			(*rest == '-' && length == 1 + UID_LENGTH + strlen(SUFFIX) &&
				streq(rest + 1 + UID_LENGTH, SUFFIX)));
}

/* Also if this user may not connect. */
static bool may_listen(const char *directory, const char *file)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", directory,
		    file) >= sizeof(address.sun_path))
		return true;
	return fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) >= 0 ||
		(errno != ECONNREFUSED && errno != ENOENT);
}

bool foreign_driver_find(const char *directory, const char *driver, char ret[static NAME_MAX + 1])
{
	DIR *stream = opendir(directory);
	const struct dirent *entry;
	bool found = false;

	while (stream && !found && (entry = readdir(stream))) {
		found = has_name(entry->d_name, driver) && may_listen(directory, entry->d_name);
		if (found)
			(void)snprintf(ret, NAME_MAX + 1, "%s", entry->d_name);
	}
	if (stream)
		(void)closedir(stream);
	return found;
}
