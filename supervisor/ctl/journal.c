/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the events of devplugd from the journal. The fields are those that common/log.c writes.
 */
#include "supervisor/ctl/journal.h"

#include <pwd.h>
#include <sys/stat.h>
#include <systemd/sd-journal.h>

#include "common/log.h"
#include "common/text.h"
#include "supervisor/ctl/event-kind.h"

#define DAEMON_USER "devplugd"

struct journal {
	sd_journal *handle;
	json_int_t number;
	bool at_first; /* the current record was not read yet */
};

/* The value of a field (malloc'ed), "" if the record does not have it, or NULL. */
static char *get_field(sd_journal *handle, const char *name)
{
	const void *data;
	const char *value;
	size_t size, head = strlen(name) + 1;

	if (sd_journal_get_data(handle, name, &data, &size) < 0 || size < head)
		return strdup("");
	value = (const char *)data + head;
	return strndup(value, size - head);
}

/* Texts begin with the name of the resource, which has a member of its own. */
static const char *without_resource(const char *text, const char *resource)
{
	const char *rest = *resource ? startswith(text, resource) : NULL;

	return rest && startswith(rest, ": ") ? rest + 2 : text;
}

static json_t *describe(struct journal *journal)
{
	static const char *const names[] = { "MESSAGE", "PRIORITY", "MESSAGE_ID",
		"DEVPLUGD_RESOURCE", "DEVPLUGD_DEVICE" };
	char *fields[ARRAY_SIZE(names)], time[TEXT_TIME_MAX];
	json_t *event = NULL;
	uint64_t usec = 0;
	bool complete = true;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		fields[i] = get_field(journal->handle, names[i]);
		complete = complete && fields[i];
		if (fields[i])
			text_sanitize(fields[i]);
	}
	(void)sd_journal_get_realtime_usec(journal->handle, &usec);
	text_time(usec, time);
	if (complete)
		event = json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:s}", "number",
			++journal->number, "time", time, "level",
			log_level_name((int)strtol(fields[1], NULL, 10)), "resource", fields[3],
			"device", fields[4], "message_id", fields[2], "text",
			without_resource(fields[0], fields[3]));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		free(fields[i]);
	return event;
}

static int add_match(sd_journal *handle, const char *name, const char *value)
{
	_cleanup_free_ char *match = NULL;

	if (asprintf(&match, "%s=%s", name, value) < 0) {
		match = NULL;
		return -ENOMEM;
	}
	return sd_journal_add_match(handle, match, 0);
}

static int add_user(sd_journal *handle, uid_t uid)
{
	char number[32];

	(void)snprintf(number, sizeof(number), "%u", uid);
	return add_match(handle, "_UID", number);
}

/* Restricts the journal to the processes of devplugd. */
static int add_users(sd_journal *handle, const char *runtime_dir)
{
	const struct passwd *user = getpwnam(DAEMON_USER);
	struct stat st;
	int r;

	r = add_user(handle, 0);
	if (r >= 0 && user)
		r = add_user(handle, user->pw_uid);
	if (r >= 0 && stat(runtime_dir, &st) == 0)
		r = add_user(handle, st.st_uid);
	return r;
}

static int prepare(sd_journal *handle, const char *resource, unsigned most)
{
	int r;

	r = add_match(handle, "SYSLOG_IDENTIFIER", "devplugd");
	for (size_t i = 0; i < n_event_kinds && r >= 0; i++)
		r = add_match(handle, "MESSAGE_ID", event_kinds[i].message_id);
	if (r >= 0 && resource)
		r = add_match(handle, "DEVPLUGD_RESOURCE", resource);
	if (r >= 0)
		r = sd_journal_seek_tail(handle);
	return r < 0 ? r : sd_journal_previous_skip(handle, most);
}

int journal_open(const char *directory, const char *runtime_dir, const char *resource,
	unsigned most, struct journal **ret, struct error *error)
{
	_cleanup_(journal_freep) struct journal *journal = calloc(1, sizeof(*journal));
	int r;

	if (!journal)
		return error_set(error, -ENOMEM, "out of memory");
	if (directory)
		r = sd_journal_open_directory(&journal->handle, directory, 0);
	else
		r = sd_journal_open(&journal->handle, SD_JOURNAL_LOCAL_ONLY);
	if (r >= 0 && !directory)
		r = add_users(journal->handle, runtime_dir);
	if (r >= 0)
		r = prepare(journal->handle, resource, most);
	if (r < 0)
		return error_set(error, r, "cannot read the journal%s%s: %s",
			directory ? " in " : "", directory ?: "", strerror(-r));
	journal->at_first = r > 0;
	*ret = TAKE_PTR(journal);
	return 0;
}

int journal_next(struct journal *journal, json_t **ret)
{
	int r = 1;

	if (!journal->at_first)
		r = sd_journal_next(journal->handle);
	journal->at_first = false;
	if (r <= 0)
		return r;
	*ret = describe(journal);
	return *ret ? 1 : -ENOMEM;
}

int journal_wait(struct journal *journal)
{
	int r = sd_journal_wait(journal->handle, UINT64_MAX);

	return r < 0 ? r : 0;
}

struct journal *journal_free(struct journal *journal)
{
	if (!journal)
		return NULL;
	sd_journal_close(journal->handle);
	free(journal);
	return NULL;
}
