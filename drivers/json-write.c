/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream is on a duplicate, so that closing it leaves the caller's descriptor open.
 */
#include <fcntl.h>

#include "common/util.h"
#include "drivers/json-write.h"

int json_write(int fd, const json_t *json)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	FILE *stream = copy >= 0 ? fdopen(copy, "w") : NULL;
	int r;

	if (!stream) {
		r = -errno;
		(void)close_fd(copy);
		return r;
	}
	r = json_dumpf(json, stream, JSON_COMPACT) < 0 ? -EIO : 0;
	if (fclose(stream) != 0)
		r = -errno;
	return r;
}
