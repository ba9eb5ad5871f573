/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verdicts and the reading of health files. A health file is input from a stranger: it may be
 * huge, a FIFO, or terminal art, and it is often seen in the middle of being written.
 */
#include "drivers/probe.h"

#include "common/text.h"
#include "drivers/sysroot.h"
#include "drivers/values.h"

#define CONTENT_MAX 4096
/* An empty file this young is taken for one whose writer has not come to the point yet. */
#define SETTLE_TIME (50 * USEC_PER_MSEC)

static int set_reason(struct verdict *verdict, const char *reason)
{
	char *copy = NULL;

	if (verdict->reason && reason && streq(verdict->reason, reason))
		return 0;
	if (!verdict->reason && !reason)
		return 0;
	if (reason) {
		copy = strdup(reason);
		if (!copy)
			return -ENOMEM;
	}
	free(verdict->reason);
	verdict->reason = copy;
	return 1;
}

int verdict_feed(struct verdict *verdict, const struct declared_probe *probe, bool healthy,
	const char *reason)
{
	int64_t needed = healthy ? probe->recover_after : probe->fail_after;
	int r;

	if (verdict->known && verdict->healthy == healthy) {
		verdict->streak = 0;
		return healthy ? 0 : set_reason(verdict, reason);
	}
	if (verdict->known && healthy && probe->recover != RECOVER_PROBE)
		return 0;
	if (verdict->known && ++verdict->streak < needed)
		return 0;
	r = set_reason(verdict, healthy ? NULL : reason);
	if (r < 0)
		return r;
	verdict->known = true;
	verdict->healthy = healthy;
	verdict->streak = 0;
	return 1;
}

void verdict_done(struct verdict *verdict)
{
	free(verdict->reason);
	*verdict = (struct verdict){ 0 };
}

void reason_copy(const char *text, char ret_reason[static REASON_MAX])
{
	size_t length = strlen(text);

	if (length >= REASON_MAX) {
		length = REASON_MAX - 1;
		while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
			length--;
	}
	memcpy(ret_reason, text, length);
	ret_reason[length] = '\0';
	text_sanitize(ret_reason);
}

static bool is_young(const char *root, const char *path)
{
	uint64_t now = now_usec(CLOCK_REALTIME), changed;
	struct stat st;

	if (sysroot_stat(root, path, &st) < 0)
		return false;
	changed = (uint64_t)st.st_mtim.tv_sec * USEC_PER_SEC + (uint64_t)st.st_mtim.tv_nsec / 1000;
	return changed <= now && now - changed < SETTLE_TIME;
}

int probe_file(const struct declared_probe *probe, const char *root, const char *path,
	char ret_reason[static REASON_MAX])
{
	char content[CONTENT_MAX + 1];
	const char *text;
	ssize_t r;

	r = sysroot_read(root, path, content, sizeof(content));
	if (r < 0 && sysroot_is_absent((int)r)) {
		(void)snprintf(ret_reason, REASON_MAX, "%s is missing", path);
		return probe->missing;
	}
	if (r < 0) {
		(void)snprintf(ret_reason, REASON_MAX, "%s cannot be read: %s", path,
			r == -EINVAL ? "it is not a regular file" : strerror((int)-r));
		return 0;
	}
	for (ssize_t i = 0; i < r; i++)
		if (content[i] == '\0')
			content[i] = ' ';
	text = trim(content);
	if (streq(text, probe->healthy))
		return 1;
	if (!*text && is_young(root, path))
		return -EAGAIN;
	if (*text)
		reason_copy(text, ret_reason);
	else
		(void)snprintf(ret_reason, REASON_MAX, "%s is empty", path);
	return 0;
}
