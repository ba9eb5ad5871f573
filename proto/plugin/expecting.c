/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the devices are compared with the key `expect`, and which list is the last complete
 * one: one with the expected number of devices, selected by the same keys. The supervisor saves it,
 * because this process can write no file.
 */
#include "proto/plugin/expecting.h"

#include <sys/stat.h>

#include "common/log.h"
#include "common/message-id.h"
#include "common/sealed.h"
#include "proto/plugin/plugin-send.h"

static int read_list(int fd, struct complete_list *ret)
{
	_cleanup_free_ char *text = NULL;
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size > (off_t)COMPLETE_LIST_SIZE_MAX)
		return -EFBIG;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	n = pread(fd, text, (size_t)st.st_size, 0);
	return n < 0 ? -errno : complete_list_read(text, (size_t)n, ret);
}

void expecting_take(struct expecting *expecting, int fd)
{
	struct complete_list list;
	int r;

	/* It was ours. */
	if (expecting->last.ids.count > 0)
		return;
	r = read_list(fd, &list);
	if (r < 0) {
		log_warning(
			"cannot read the last complete list of devices: %s; missing devices are not named until all devices were present again",
			strerror(-r));
		return;
	}
	complete_list_done(&expecting->last);
	expecting->last = list;
}

static int send_list(sd_event *event, const struct complete_list *list)
{
	_cleanup_control_ struct control_message message = CHILD_MESSAGE_INIT(CHILD_COMPLETE);
	int r;

	message.fds[0] = sealed_begin("complete");
	if (message.fds[0] < 0)
		return message.fds[0];
	r = complete_list_write(list, message.fds[0]);
	if (r >= 0)
		r = sealed_end(message.fds[0]);
	if (r >= 0)
		plugin_send(event, &message);
	return r;
}

/* Takes the ids. */
static void keep_list(
	struct expecting *expecting, sd_event *event, struct strings *ids, uint64_t match)
{
	struct complete_list list = { .match = match, .ids = *ids };
	int r = 0;

	*ids = (struct strings){ 0 };
	if (!complete_list_equal(&list, &expecting->last))
		r = send_list(event, &list);
	if (r < 0)
		log_warning(
			"cannot send the complete list of devices to the supervisor: %s; devices that are missing after a restart are not named",
			strerror(-r));
	complete_list_done(&expecting->last);
	expecting->last = list;
}

static void log_change(struct expecting *expecting)
{
	const struct log_fields fields = { .message_id = MESSAGE_ID_DEVICE_CHANGED };
	const char *reason = expecting->now.reason;

	/* Without memory, the next comparison logs it. */
	if (replace_text(&expecting->logged, reason) <= 0)
		return;
	if (reason)
		log_full(LOG_WARNING, &fields, "%s", reason);
	else
		log_full(LOG_NOTICE, &fields, "all %llu devices are present",
			(unsigned long long)expecting->now.count);
}

static void forget(struct expecting *expecting)
{
	expectation_done(&expecting->now);
	expecting->now = (struct expectation){ 0 };
}

void expecting_update(struct expecting *expecting, sd_event *event,
	const struct declaration *declaration, uint64_t match, const struct snapshot *snapshot)
{
	const uint64_t count = (uint64_t)declaration->expect;
	_cleanup_strings_ struct strings found = { 0 };
	static const struct complete_list none;
	bool same_match = match != 0 && match == expecting->last.match;
	struct expectation now;

	if (count == 0) {
		forget(expecting);
		(void)replace_text(&expecting->logged, NULL);
		return;
	}
	/* Without memory, the next report compares. */
	if (expectation_found(snapshot, &found) < 0 ||
		expectation_new(count, &found, same_match ? &expecting->last : &none, &now) < 0)
		return;
	forget(expecting);
	expecting->now = now;
	if (now.found == count)
		keep_list(expecting, event, &found, match);
	log_change(expecting);
}

static void write_ids(struct json_writer *writer, const struct strings *ids)
{
	for (size_t i = 0; i < ids->count; i++) {
		json_write_text(writer, i > 0 ? "," : "");
		json_write_string(writer, ids->items[i]);
	}
}

/* With their replicas, because DRA publishes the devices. */
static void write_missing(const struct strings *ids, struct json_writer *writer,
	const struct declaration *declaration)
{
	bool shared = declaration_is_shared(declaration);

	for (size_t i = 0; i < ids->count; i++) {
		json_write_text(writer, i > 0 ? ",{\"id\":" : "{\"id\":");
		json_write_string(writer, ids->items[i]);
		json_write_text(writer, ",\"replicas\":");
		json_write_number(writer, declaration_replicas(declaration, ids->items[i]));
		json_write_text(writer, shared ? ",\"shared\":true}" : ",\"shared\":false}");
	}
}

void expecting_write(const struct expecting *expecting, struct json_writer *writer,
	const struct declaration *declaration)
{
	const struct expectation *now = &expecting->now;

	if (now->count == 0 || now->count != (uint64_t)declaration->expect)
		return;
	json_write_text(writer, ",\"expect\":{\"count\":");
	json_write_number(writer, now->count);
	json_write_text(writer, ",\"found\":");
	json_write_number(writer, now->found);
	json_write_text(writer, ",\"missing\":[");
	write_missing(&now->missing, writer, declaration);
	json_write_text(writer, "],\"extra\":[");
	write_ids(writer, &now->extra);
	json_write_text(writer, "],\"reason\":");
	json_write_string(writer, now->reason ?: "");
	json_write_text(writer, "}");
}

void expecting_done(struct expecting *expecting)
{
	complete_list_done(&expecting->last);
	forget(expecting);
	free(expecting->logged);
}
