/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits until a condition holds. Reads the state twice a second: pods come and go without the
 * daemon's knowledge, and the daemon itself may be started meanwhile. With DRA, no pod can get a
 * device before the API server has stored the ResourceSlices, so each condition includes that.
 */
#include "supervisor/ctl/verb.h"

#define TIMEOUT_DEFAULT 300U
#define TIMEOUT_MAX     86400UL
#define RETRY_INTERVAL  (500 * USEC_PER_MSEC)

struct condition {
	const char *member; /* NULL: state "serving" */
	json_int_t least;
};

/* "serving", "healthy=N" or "free=N" */
static int parse_condition(const char *text, struct condition *ret, struct error *error)
{
	static const char *const members[] = { "healthy", "free" };

	*ret = (struct condition){ 0 };
	if (!text || streq(text, "serving"))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		const char *rest = startswith(text, members[i]);
		char *end;

		if (!rest || *rest != '=' || rest[1] < '0' || rest[1] > '9')
			continue;
		errno = 0;
		*ret = (struct condition){ members[i], strtoll(rest + 1, &end, 10) };
		if (*end == '\0' && errno == 0)
			return 0;
	}
	return error_set(
		error, -EINVAL, "unknown condition \"%s\"; use serving, healthy=N or free=N", text);
}

static int parse_timeout(const char *text, uint64_t *ret, struct error *error)
{
	unsigned long seconds = TIMEOUT_DEFAULT;
	char *end = NULL;

	if (text) {
		errno = 0;
		seconds = strtoul(text, &end, 10);
		if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 ||
			seconds > TIMEOUT_MAX)
			return error_set(error, -EINVAL,
				"--timeout must be a number of seconds, at most %lu", TIMEOUT_MAX);
	}
	*ret = seconds * USEC_PER_SEC;
	return 0;
}

static bool is_met(const struct condition *condition, const json_t *resource)
{
	if (json_is_false(json_object_get(resource, "published")))
		return false;
	if (!condition->member)
		return streq(text_of(resource, "state"), "serving");
	return json_is_integer(json_object_get(resource, condition->member)) &&
		integer_of(resource, condition->member) >= condition->least;
}

/* The current number or state instead. `api`: what fails at the API server, or "". */
static void describe(const struct condition *condition, const json_t *resource, const char *api,
	char *ret, size_t size)
{
	const json_t *number = json_object_get(resource, condition->member ?: "");
	const char *reason = text_of(resource, "reason");
	const char *state = text_of(resource, "state");

	if (streq(state, "serving") && json_is_false(json_object_get(resource, "published")))
		(void)snprintf(ret, size, "its devices are not published in ResourceSlices%s%s",
			*api ? ": " : "", api);
	else if (!condition->member)
		(void)snprintf(ret, size, "it is %s%s%s", state, *reason ? ": " : "", reason);
	else if (json_is_integer(number))
		(void)snprintf(ret, size, "%lld %s %s, at least %lld wanted",
			(long long)json_integer_value(number),
			json_integer_value(number) == 1 ? "is" : "are", condition->member,
			(long long)condition->least);
	else
		(void)snprintf(ret, size, "the kubelet does not report which are in use");
}

/* Returns 1 if the condition is met, 0 with the current state if not, or negative errno. */
static int look(const struct command_line *line, const struct condition *condition,
	char *ret_instead, size_t size, struct error *error)
{
	_cleanup_(daemon_state_done) struct daemon_state daemon = { 0 };
	const json_t *resource;
	int r;

	r = daemon_state_read(line->config_file, line->runtime_dir, &daemon, error);
	if (r < 0)
		return r;
	if (daemon.unanswered.code == -EACCES)
		return error_set(error, -EACCES, "%s", daemon.unanswered.message);
	if (daemon.unanswered.code < 0) {
		(void)snprintf(ret_instead, size, "%s", daemon.unanswered.message);
		return 0;
	}
	/* A daemon that answers knows its resources from its start on. */
	r = daemon_state_select(&daemon, line->subject, error);
	if (r < 0)
		return r;
	resource = json_array_get(json_object_get(daemon.root, "resources"), 0);
	if (is_met(condition, resource))
		return 1;
	describe(condition, resource,
		text_of(daemon_state_driver(&daemon, resource), "api_failure"), ret_instead, size);
	return 0;
}

int command_wait(const struct command_line *line)
{
	const struct timespec pause = { .tv_nsec = RETRY_INTERVAL * 1000 };
	struct condition condition;
	struct error error = { 0 };
	uint64_t timeout = 0, end;
	char instead[1280] = "";
	int r;

	if (parse_condition(line->condition, &condition, &error) < 0 ||
		parse_timeout(line->timeout, &timeout, &error) < 0) {
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
		return EXIT_USAGE;
	}
	end = now_usec(CLOCK_MONOTONIC) + timeout;
	for (;;) {
		r = look(line, &condition, instead, sizeof(instead), &error);
		if (r != 0)
			break;
		if (now_usec(CLOCK_MONOTONIC) >= end) {
			(void)fprintf(stderr, "devplugctl: %s: waited %llu s; %s\n", line->subject,
				(unsigned long long)(timeout / USEC_PER_SEC), instead);
			return EXIT_FAILURE;
		}
		(void)nanosleep(&pause, NULL);
	}
	if (r < 0)
		(void)fprintf(stderr, "devplugctl: %s\n", error.message);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
