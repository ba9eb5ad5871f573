/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the last events, which the daemon keeps in memory. The journal has older ones, and those
 * of earlier daemons: its own tool shows them.
 */
#include "common/message-id.h"
#include "supervisor/control/ask.h"
#include "supervisor/ctl/verb.h"

/* The daemon answers within 30 s when it is asked for new events. */
#define FOLLOW_TIMEOUT 40

#define JOURNAL_COMMAND "journalctl -u devplugd"

/* The meaning of the identities in common/message-id.h; docs/metrics.md contains the same
 * table. */
static const struct {
	const char *message_id, *kind;
} event_kinds[] = {
	{ MESSAGE_ID_DEVICE_CHANGED, "device" },
	{ MESSAGE_ID_EVICTION, "eviction" },
	{ MESSAGE_ID_CALL_FAILED, "refusal" },
	{ MESSAGE_ID_SERVING, "session" },
	{ MESSAGE_ID_SESSION_ENDED, "session" },
	{ MESSAGE_ID_KUBELET_APPEARED, "kubelet" },
	{ MESSAGE_ID_KUBELET_GONE, "kubelet" },
	{ MESSAGE_ID_CHILD_STARTED, "process" },
	{ MESSAGE_ID_CHILD_DIED, "process" },
	{ MESSAGE_ID_CHILD_HUNG, "process" },
	{ MESSAGE_ID_CONFIG_ACCEPTED, "configuration" },
	{ MESSAGE_ID_CONFIG_REJECTED, "configuration" },
	{ MESSAGE_ID_CONFIG_PLAN, "configuration" },
	{ MESSAGE_ID_CONFIG_LAST_ACCEPTED, "configuration" },
	{ MESSAGE_ID_RESOURCE_REFUSED, "configuration" },
};

static const char *kind_of(const char *message_id)
{
	for (size_t i = 0; i < ARRAY_SIZE(event_kinds); i++)
		if (streq(event_kinds[i].message_id, message_id))
			return event_kinds[i].kind;
	return "other";
}

/* The members that are documented, each with its type. */
static json_t *clean_event(const json_t *event)
{
	static const char *const texts[] = { "time", "level", "resource", "device", "message_id",
		"text", NULL };
	json_t *clean = json_pack("{s:I, s:s}", "number", integer_of(event, "number"), "kind",
		kind_of(text_of(event, "message_id")));

	return add_clean_texts(clean, event, texts);
}

static void print_event(const json_t *event)
{
	const char *resource = text_of(event, "resource");
	const char *text = text_of(event, "text");

	/* A line of a plan names its resource. */
	if (streq(text_of(event, "message_id"), MESSAGE_ID_CONFIG_PLAN))
		resource = "";
	(void)printf("%s  %-13s  %s%s%s\n", text_of(event, "time"), text_of(event, "kind"),
		resource, *resource ? ": " : "", text);
}

/* Followed events are printed one per line, so that a program can read them at once; all others are
 * added to `array`. */
static void print_one(const struct command_line *line, const json_t *event, json_t *array)
{
	json_t *one = clean_event(event);

	if (!line->json)
		print_event(one);
	else if (line->follow)
		(void)(json_dumpf(one, stdout, JSON_COMPACT) >= 0 && puts(""));
	if (line->json && !line->follow)
		(void)json_array_append(array, one);
	json_decref(one);
}

static void print_array(const struct command_line *line, json_t *array)
{
	json_auto_t *root = json_pack("{s:i, s:O}", "version", DOCUMENT_VERSION, "events", array);

	if (line->json && !line->follow)
		(void)(json_dumpf(root, stdout, JSON_INDENT(2)) >= 0 && puts(""));
	(void)fflush(stdout);
}

static int ask(const struct command_line *line, const char *runtime_dir, json_int_t after,
	bool follow, json_t **ret, struct error *error)
{
	json_t *arguments = json_pack("{s:I, s:b}", "after", after, "follow", (int)follow);

	if (arguments && line->subject)
		(void)json_object_set_new(arguments, "resource", json_string(line->subject));
	return ask_daemon(runtime_dir, "events", arguments, follow ? FOLLOW_TIMEOUT : ASK_TIMEOUT,
		ret, error);
}

static json_int_t print_answer(const struct command_line *line, const json_t *answer)
{
	json_auto_t *array = json_array();
	json_t *event;
	size_t i;

	json_array_foreach(json_object_get(answer, "events"), i, event)
	{
		print_one(line, event, array);
	}
	print_array(line, array);
	return integer_of(answer, "last");
}

/* Without an event, the resource must exist at least. */
static int check_resource(const struct command_line *line, struct error *error)
{
	_cleanup_(daemon_state_done) struct daemon_state daemon = { 0 };
	int r;

	r = daemon_state_read(line->config_file, line->runtime_dir, &daemon, error);
	return r < 0 ? r : daemon_state_select(&daemon, line->subject, error);
}

/* Returns negative errno with the error filled, or 0 when stdout is closed or, without --follow,
 * when everything was printed. */
static int show_daemon(const struct command_line *line, const char *runtime_dir, json_t *answer,
	struct error *error)
{
	json_auto_t *next = json_incref(answer);
	json_int_t last;
	int r;

	if (line->subject && json_array_size(json_object_get(answer, "events")) == 0) {
		r = check_resource(line, error);
		if (r < 0)
			return r;
	}
	for (;;) {
		last = print_answer(line, next);
		if (!line->follow || ferror(stdout))
			return 0;
		json_decref(next);
		next = NULL;
		r = ask(line, runtime_dir, last, true, &next, error);
		if (r < 0)
			return r;
	}
}

int command_events(const struct command_line *line)
{
	_cleanup_free_ char *runtime_dir = NULL;
	json_auto_t *answer = NULL;
	struct error error = { 0 };
	bool stopped;
	int r;

	r = command_line_runtime_dir(line, &runtime_dir, &error);
	if (r >= 0)
		r = ask(line, runtime_dir, 0, false, &answer, &error);
	stopped = r == -ESRCH;
	if (r >= 0)
		r = show_daemon(line, runtime_dir, answer, &error);
	if (r < 0)
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
	if (stopped || (r >= 0 && !line->json && json_is_true(json_object_get(answer, "journal"))))
		(void)fprintf(stderr, "Older events: %s\n", JOURNAL_COMMAND);
	if (r < 0)
		return r == -ESRCH ? EXIT_NOT_RUNNING : EXIT_FAILURE;
	return ferror(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
