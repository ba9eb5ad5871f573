/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that a plugin registers and stays registered. The first cases begin without a plugin and
 * show which step fails: a message that the kubelet cannot read ends the stream before there is a
 * list. The other cases need a plugin that serves.
 */
#include "kubelet/conformance/conformance.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "kubelet/conformance/call.h"
#include "kubelet/connection.h"
#include "kubelet/plugin-dir.h"
#include "proto/methods.h"

#define QUIET (1 * USEC_PER_SEC)

static bool begin(struct trial *trial)
{
	trial->faults = (struct kubelet_faults){};
	if (!trial_start_kubelet(trial))
		return false;
	return !trial_owns_plugin(trial) || plugin_process_is_running(&trial->plugin) ||
		trial_start_plugin(trial);
}

static unsigned long long register_seconds(const struct trial *trial)
{
	return trial->options->register_timeout / USEC_PER_SEC;
}

static bool has_registers(struct trial *trial, const void *data)
{
	return trial->counts.registers >= *(const unsigned *)data;
}

static bool has_registered(struct trial *trial, const void *data)
{
	return trial->counts.registered >= *(const unsigned *)data;
}

static bool has_list_or_end(struct trial *trial, const void *data)
{
	return trial->counts.lists > 0 || trial->counts.ended > 0;
}

static enum outcome registers(struct trial *trial, const struct conformance_case *self)
{
	const unsigned one = 1;

	if (!begin(trial))
		return OUTCOME_NOT_OK;
	if (!trial_await_register(trial, has_registers, &one))
		return trial_fail(trial,
			"no Register call came to %s/" KUBELET_SOCKET_NAME " within %llu s",
			trial->options->plugin_dir, register_seconds(trial));
	if (!streq(trial->version, DEVICE_PLUGIN_VERSION))
		return trial_fail(trial, "Register named the version \"%s\"", trial->version);
	if (trial->counts.refused > 0)
		return trial_fail(trial, "Register was refused: %s", trial->refused_by);
	if (trial->endpoint[0] == '\0' || (!trial->watched && strchr(trial->endpoint, '/')))
		return trial_fail(trial,
			"the endpoint \"%s\" is not the name of a socket in the directory",
			trial->endpoint);
	return OUTCOME_OK;
}

static enum outcome serves_during_register(struct trial *trial, const struct conformance_case *self)
{
	const unsigned one = 1;

	if (!begin(trial))
		return OUTCOME_NOT_OK;
	if (!trial_await_register(trial, has_registered, &one))
		return trial_fail(trial,
			"GetDevicePluginOptions was not answered while Register waited: %u Register calls, %u refused (%s)",
			trial->counts.registers, trial->counts.refused, trial->refused_by);
	if (!trial_await(trial, has_list_or_end, NULL))
		return trial_fail(trial, "ListAndWatch sent no list");
	return OUTCOME_OK;
}

/* The stream must not have ended with one of these errors. */
static enum outcome is_readable(struct trial *trial, const struct conformance_case *self)
{
	if (!trial_await(trial, has_list_or_end, NULL))
		return trial_skip(trial, "no list came");
	if (strstr(trial->ended_by, self->data))
		return trial_fail(trial, "%s", trial->ended_by);
	if (trial->counts.lists == 0)
		return trial_skip(trial, "the stream sent no list: %s", trial->ended_by);
	return OUTCOME_OK;
}

static enum outcome is_utf8(struct trial *trial, const struct conformance_case *self)
{
	if (!trial->options->version->needs_utf8)
		return trial_skip(trial, "kubelets before 1.34 do not check it");
	return is_readable(trial, self);
}

static enum outcome list_before_reply(struct trial *trial, const struct conformance_case *self)
{
	enum outcome outcome = OUTCOME_OK;

	trial_kill_kubelet(trial);
	trial->faults.early_stream = true;
	if (!trial_start_kubelet(trial) || !trial_await_serving(trial))
		outcome = OUTCOME_NOT_OK;
	trial->faults.early_stream = false;
	return outcome;
}

static enum outcome kubelet_comes_later(struct trial *trial, const struct conformance_case *self)
{
	char path[PATH_MAX];

	trial_kill_kubelet(trial);
	(void)snprintf(path, sizeof(path), "%s/" KUBELET_SOCKET_NAME, trial->options->plugin_dir);
	(void)unlink(path);
	if (trial_owns_plugin(trial)) {
		trial_end_plugin(trial);
		if (!trial_start_plugin(trial))
			return OUTCOME_NOT_OK;
	}
	trial_pass(trial, QUIET / 2);
	if (!trial_start_kubelet(trial) || !trial_await_serving(trial))
		return OUTCOME_NOT_OK;
	return OUTCOME_OK;
}

/* Whether the plugin uses much of the available processor time. On a busy machine, a plugin that
 * spins mostly waits for a processor, so it is watched for longer. */
static bool spins(struct trial *trial, uint64_t *ret_used)
{
	struct process_usage before = {}, after = {};
	uint64_t available = 0, used = 0;

	while (available < QUIET) {
		bool measured = plugin_process_usage(&trial->plugin, &before) >= 0;

		trial_pass(trial, QUIET);
		if (!measured || plugin_process_usage(&trial->plugin, &after) < 0)
			return false;
		used += after.cpu - MIN_OF(before.cpu, after.cpu);
		available += QUIET -
			MIN_OF(after.waited - MIN_OF(before.waited, after.waited), QUIET * 15 / 16);
	}
	*ret_used = used;
	return used > available / 8;
}

/* The kubelet is dead and its socket refuses connections; the plugin must neither end nor spin. */
static enum outcome socket_refuses(struct trial *trial, const struct conformance_case *self)
{
	uint64_t used;

	trial_kill_kubelet(trial);
	trial_pass(trial, QUIET / 4);
	if (spins(trial, &used))
		return trial_fail(trial,
			"the plugin used %llu ms of processor time while kubelet.sock refused",
			(unsigned long long)(used / USEC_PER_MSEC));
	if (!trial_start_kubelet(trial) || !trial_await_serving(trial))
		return OUTCOME_NOT_OK;
	return OUTCOME_OK;
}

/* Two Register calls fail, the next is served. */
static enum outcome register_fails(struct trial *trial, const struct conformance_case *self)
{
	unsigned before, wanted;
	bool came = true;

	trial_kill_kubelet(trial);
	trial->faults.on_register = *(const enum register_fault *)self->data;
	before = trial->counts.registers;
	if (!trial_start_kubelet(trial))
		return OUTCOME_NOT_OK;
	for (wanted = before + 1; wanted <= before + 2 && came; wanted++)
		came = trial_await_register(trial, has_registers, &wanted);
	trial->faults.on_register = REGISTER_SERVED;
	if (!came)
		return trial_fail(trial,
			"%u of 2 Register calls came, and no other one within %llu s",
			trial->counts.registers - before, register_seconds(trial));
	return trial_await_serving(trial) ? OUTCOME_OK : OUTCOME_NOT_OK;
}

static enum outcome register_hangs(struct trial *trial, const struct conformance_case *self)
{
	unsigned before, wanted;
	bool came;

	trial_kill_kubelet(trial);
	trial->faults.on_register = REGISTER_HELD;
	before = trial->counts.registers;
	wanted = before + 1;
	if (!trial_start_kubelet(trial))
		return OUTCOME_NOT_OK;
	came = trial_await_register(trial, has_registers, &wanted);
	trial_pass(trial, QUIET);
	trial->faults.on_register = REGISTER_SERVED;
	if (!came)
		return trial_fail(
			trial, "no Register call came within %llu s", register_seconds(trial));
	if (trial->counts.registers > wanted)
		return trial_fail(trial,
			"%u Register calls within a second while the first was not answered",
			trial->counts.registers - before);
	trial_kill_kubelet(trial);
	if (!trial_start_kubelet(trial) || !trial_await_serving(trial))
		return OUTCOME_NOT_OK;
	return OUTCOME_OK;
}

static void touch(const char *dir, const char *name)
{
	char path[PATH_MAX];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close_fd(fd);
}

static void flood(const char *dir)
{
	char path[PATH_MAX], moved[PATH_MAX], socket_path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/.conformance-flood", dir);
	(void)snprintf(moved, sizeof(moved), "%s/conformance-flood", dir);
	(void)snprintf(socket_path, sizeof(socket_path), "%s/" KUBELET_SOCKET_NAME, dir);
	for (unsigned i = 0; i < 300; i++) {
		touch(dir, ".conformance-flood");
		(void)rename(path, moved);
		(void)utimensat(AT_FDCWD, socket_path, NULL, 0);
		(void)unlink(moved);
	}
}

static enum outcome stays_registered(struct trial *trial, const struct conformance_case *self)
{
	struct trial_counts before = trial->counts;

	flood(trial->options->plugin_dir);
	trial_pass(trial, QUIET);
	if (trial->counts.registers != before.registers)
		return trial_fail(trial, "%u needless Register calls",
			trial->counts.registers - before.registers);
	if (trial->counts.ended != before.ended)
		return trial_fail(trial, "the stream ended: %s", trial->ended_by);
	return trial_check_alive(trial, "a flood of files in the directory");
}

static enum outcome stops(struct trial *trial, const struct conformance_case *self)
{
	return trial_stop_plugin(trial) ? OUTCOME_OK : OUTCOME_NOT_OK;
}

static const enum register_fault refused = REGISTER_REFUSED, unavailable = REGISTER_UNAVAILABLE,
				 reset = REGISTER_RESET;

static const struct conformance_case cases[] = {
	{ 1, "registers", "calls Register with v1beta1, a valid name and an endpoint",
		"the scheduler does not know a resource that is not registered", 116125, 0,
		registers, NULL },
	{ 2, "serves-during-register", "serves its socket while Register waits for its answer",
		"the kubelet connects and requests the options before it answers Register; a plugin that serves only afterwards waits for itself",
		0, 0, serves_during_register, NULL },
	{ 3, "list-is-utf8", "sends ids that are UTF-8",
		"kubelets from 1.34 on drop the whole message, and then the stream", 0, 0, is_utf8,
		"UTF-8" },
	{ 4, "list-is-small", "sends lists of at most 4 MiB",
		"the kubelet treats a larger message as the end of the stream", 109304, 0,
		is_readable, "larger than max" },
	{ 5, "list-before-reply", "serves ListAndWatch before Register is answered",
		"the kubelet opens the stream in the background, before or after its reply", 0,
		NEEDS_SERVING | NEEDS_REGISTER, list_before_reply, NULL },
	{ 6, "kubelet-comes-later", "waits for a kubelet.sock that does not exist yet",
		"after a reboot, plugins start before the kubelet; pods that find no device then fail permanently",
		125579, NEEDS_SERVING, kubelet_comes_later, NULL },
	{ 7, "socket-refuses", "uses little processor time while kubelet.sock refuses connections",
		"the socket of a killed kubelet remains", 125506, NEEDS_SERVING, socket_refuses,
		NULL },
	{ 8, "register-refused", "tries again after Register failed with UNKNOWN",
		"the kubelet answers every failure with UNKNOWN, also temporary ones", 0,
		NEEDS_SERVING | NEEDS_REGISTER, register_fails, &refused },
	{ 9, "register-unavailable", "tries again after Register failed with UNAVAILABLE",
		"a kubelet that stops answers in this way", 0, NEEDS_SERVING | NEEDS_REGISTER,
		register_fails, &unavailable },
	{ 10, "register-reset", "tries again after the connection broke during Register",
		"a kubelet may be killed at any time", 0, NEEDS_SERVING | NEEDS_REGISTER,
		register_fails, &reset },
	{ 11, "register-hangs",
		"makes one Register call at a time, and recovers from one that hangs",
		"a second Register for the resource replaces the first, and the failure of one hides the end of the other",
		121994, NEEDS_SERVING | NEEDS_REGISTER, register_hangs, NULL },
	{ 12, "stays-registered", "does not register again while its stream is open",
		"the end of the older stream disconnects the newer registration, so file events are not a reason to register",
		121994, NEEDS_SERVING, stays_registered, NULL },
	{ 13, "stops", "ends on SIGTERM", "a plugin that must be killed delays every update", 0,
		NEEDS_SERVING | NEEDS_COMMAND, stops, NULL },
};

const struct case_table registration_cases = { cases, ARRAY_SIZE(cases) };
