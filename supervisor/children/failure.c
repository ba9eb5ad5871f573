/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the last failure of each kind of call, so that devplugctl can show it after the process has
 * ended. A failure that finds no memory is counted without its text.
 */
#include "supervisor/children/failure.h"
#include "common/counters.h"
#include "common/message-id.h"
#include "common/text.h"

static const struct {
	const char *name, *what;
} kinds[FAILURE_KINDS] = {
	[FAILURE_REGISTRATION] = { "registration", NULL },
	[CHILD_CALL_ALLOCATE] = { "allocation", "allocation refused" },
	[CHILD_CALL_PREFER] = { "preferred_allocation", "preferred allocation failed" },
	[CHILD_CALL_PRESTART] = { "prestart", "prestart failed" },
};

static void note(struct failure *failure, uint64_t count, char *devices, const char *text)
{
	failure->count = MIN_OF(failure->count + count, COUNT_MAX);
	failure->last = now_usec(CLOCK_REALTIME);
	free(failure->devices);
	failure->devices = devices;
	free(failure->text);
	failure->text = strdup(text);
	if (failure->text)
		text_sanitize(failure->text);
}

bool failure_take(struct failure failures[static FAILURE_KINDS], const char *resource,
	const struct control_message *message, struct log_budget *budget)
{
	const struct log_fields fields = {
		.resource = resource,
		.message_id = MESSAGE_ID_CALL_FAILED,
	};
	const char *space = strchr(message->text, ' ');

	if (message->call >= FAILURE_KINDS || !space)
		return false;
	note(&failures[message->call], message->count,
		strndup(message->text, (size_t)(space - message->text)), space + 1);
	if (log_budget_admits(budget, &fields))
		log_full(LOG_WARNING, &fields, "%s: %s", kinds[message->call].what, space + 1);
	return true;
}

void failure_note_registration(struct failure failures[static FAILURE_KINDS], const char *text)
{
	note(&failures[FAILURE_REGISTRATION], 1, NULL, text);
}

static json_t *split(const char *devices)
{
	json_t *array = json_array();

	for (const char *id = devices, *end; id && *id; id = *end ? end + 1 : end) {
		end = strchrnul(id, ',');
		(void)json_array_append_new(array, json_stringn(id, (size_t)(end - id)));
	}
	return array;
}

json_t *failure_describe(const struct failure failures[static FAILURE_KINDS])
{
	json_t *array = json_array();

	for (size_t i = 0; i < FAILURE_KINDS; i++) {
		char last[TEXT_TIME_MAX];

		if (failures[i].count == 0)
			continue;
		text_time(failures[i].last, last);
		(void)json_array_append_new(array,
			json_pack("{s:s, s:I, s:s, s:o, s:s}", "call", kinds[i].name, "count",
				(json_int_t)failures[i].count, "last", last, "devices",
				split(failures[i].devices), "text", failures[i].text ?: ""));
	}
	return array;
}

void failure_done(struct failure failures[static FAILURE_KINDS])
{
	for (size_t i = 0; i < FAILURE_KINDS; i++) {
		free(failures[i].devices);
		free(failures[i].text);
	}
}
