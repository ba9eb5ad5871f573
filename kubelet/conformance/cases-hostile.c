/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests peers that are broken, slow or malicious, each on a connection of its own. Only that
 * connection may fail: the kubelet's connection must continue with bounded memory, and the peer's
 * memory must be freed when it closes.
 */
#include "kubelet/conformance/conformance.h"

#include <grp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "deviceplugin.pb-c.h"
#include "kubelet/conformance/attacks.h"
#include "kubelet/conformance/call.h"
#include "kubelet/plugin-dir.h"
#include "proto/methods.h"

#define FILES_SLACK   4
#define SEND_LIMIT    (3 * USEC_PER_SEC)
#define RECEIVE_LIMIT (500 * USEC_PER_MSEC)
#define IDLE_PEERS    300
#define NOBODY        65534

static int connect_to_plugin(struct trial *trial)
{
	const char *path = trial_socket(trial);
	int fd;

	return path && socket_connect(path, &fd) >= 0 ? fd : -EBADF;
}

struct usage_bound {
	size_t descriptors;
};

static bool has_given_back(struct trial *trial, const void *data)
{
	const struct usage_bound *bound = data;
	struct process_usage usage;

	return plugin_process_usage(&trial->plugin, &usage) < 0 ||
		usage.descriptors <= bound->descriptors;
}

/* Checks the kubelet's own stream and calls, and the plugin's memory and descriptors. */
static enum outcome check_unharmed(struct trial *trial, const struct trial_counts *counts,
	const struct process_usage *before, const char *what)
{
	struct process_usage now;
	enum outcome outcome = trial_check_alive(trial, what);

	if (outcome != OUTCOME_OK)
		return outcome;
	if (trial->counts.ended != counts->ended)
		return trial_fail(
			trial, "after %s the kubelet's stream ended: %s", what, trial->ended_by);
	if (plugin_process_usage(&trial->plugin, &now) >= 0 &&
		now.memory > before->memory + trial->options->memory)
		return trial_fail(trial, "after %s the plugin uses %zu MiB more memory", what,
			(now.memory - before->memory) >> 20);
	return OUTCOME_OK;
}

static enum outcome check_given_back(
	struct trial *trial, const struct process_usage *before, const char *what)
{
	const struct usage_bound bound = { before->descriptors + FILES_SLACK };

	if (trial_await(trial, has_given_back, &bound))
		return OUTCOME_OK;
	return trial_fail(trial, "after the end of %s, the plugin keeps descriptors open", what);
}

struct attack {
	const char *what;
	void (*fill)(struct bytes *bytes);
};

static enum outcome withstands(struct trial *trial, const struct conformance_case *self)
{
	const struct attack *attack = self->data;
	struct trial_counts counts = trial->counts;
	struct process_usage before = {};
	_cleanup_bytes_ struct bytes bytes = {};
	int fd = connect_to_plugin(trial);
	enum outcome outcome;

	if (fd < 0)
		return trial_fail(trial, "the plugin's socket refuses a connection");
	(void)plugin_process_usage(&trial->plugin, &before);
	attack->fill(&bytes);
	(void)raw_send(fd, &bytes, SEND_LIMIT);
	outcome = check_unharmed(trial, &counts, &before, attack->what);
	fd = close_fd(fd);
	if (outcome == OUTCOME_OK)
		outcome = check_given_back(trial, &before, attack->what);
	return outcome;
}

static enum outcome refuses_compression(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_bytes_ struct bytes bytes = {}, received = {};
	int fd = connect_to_plugin(trial);

	if (fd < 0)
		return trial_fail(trial, "the plugin's socket refuses a connection");
	bytes_add_preface(&bytes, ATTACK_WINDOW);
	bytes_add_call(&bytes, 1, METHOD_OPTIONS, "gzip");
	bytes_add_message(&bytes, 1, 1, 4, "abcd", 4);
	(void)raw_send(fd, &bytes, SEND_LIMIT);
	raw_receive(fd, &received, RECEIVE_LIMIT);
	fd = close_fd(fd);
	if (raw_has_frame(&received, FRAME_DATA, 1, 5))
		return trial_fail(trial,
			"a message that is marked as compressed was accepted without decompression");
	return trial_check_alive(trial, "a compressed message");
}

static enum outcome knows_its_methods(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_reply_ struct reply reply = {};

	call_bytes(trial, "/v1beta1.DevicePlugin/Deallocate", NULL, 0, trial->options->timeout,
		&reply);
	if (reply.status != RPC_UNIMPLEMENTED)
		return trial_fail(trial,
			"a method that does not exist was answered with code %d: %s", reply.status,
			reply.text);
	return trial_check_alive(trial, "an unknown method");
}

static enum outcome ignores_unknown_fields(struct trial *trial, const struct conformance_case *self)
{
	static const uint8_t fields[] = { 0xf8, 0x07, 1, 0x82, 0x08, 2, 'h', 'i' };
	_cleanup_reply_ struct reply reply = {};

	call_bytes(trial, METHOD_OPTIONS, fields, sizeof(fields), trial->options->timeout, &reply);
	if (reply.status != RPC_OK)
		return trial_fail(trial, "fields of a later version were refused: %s", reply.text);
	return OUTCOME_OK;
}

static enum outcome refuses_malformed(struct trial *trial, const struct conformance_case *self)
{
	static const struct {
		const char *what;
		uint8_t bytes[16];
		size_t size;
	} messages[] = {
		{ "a truncated field", { 0x0a, 0x20, 'a' }, 3 },
		{ "a length beyond the end", { 0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f }, 6 },
		{ "a number that never ends",
			{ 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff },
			12 },
		{ "a group that is not closed", { 0x0b }, 1 },
		{ "an inner message cut short", { 0x0a, 0x02, 0x0a, 0x7f }, 4 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
		_cleanup_reply_ struct reply reply = {};

		call_bytes(trial, METHOD_ALLOCATE, messages[i].bytes, messages[i].size,
			trial->options->timeout, &reply);
		if (reply.status == RPC_OK)
			return trial_fail(trial, "Allocate with %s was accepted", messages[i].what);
		if (reply.status < 0)
			return trial_fail(
				trial, "Allocate with %s: %s", messages[i].what, reply.text);
	}
	return trial_check_alive(trial, "malformed messages");
}

static enum outcome bears_idle_peers(struct trial *trial, const struct conformance_case *self)
{
	struct trial_counts counts = trial->counts;
	struct process_usage before = {};
	int fds[IDLE_PEERS];
	enum outcome outcome;
	size_t n;

	(void)plugin_process_usage(&trial->plugin, &before);
	for (n = 0; n < IDLE_PEERS; n++) {
		fds[n] = connect_to_plugin(trial);
		if (fds[n] < 0)
			break;
		/* Gives the plugin time to accept, because the backlog is short. */
		if (n % 16 == 15)
			trial_pass(trial, USEC_PER_MSEC);
	}
	outcome = check_unharmed(trial, &counts, &before, "300 idle connections");
	while (n > 0)
		(void)close_fd(fds[--n]);
	if (outcome == OUTCOME_OK)
		outcome = check_given_back(trial, &before, "a crowd of idle peers");
	return outcome;
}

/* In a child without privilege: 0 if a call was served, 1 if not. */
static int call_as_nobody(const char *path)
{
	_cleanup_bytes_ struct bytes bytes = {}, received = {};
	int fd;

	if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
		setresuid(NOBODY, NOBODY, NOBODY) < 0)
		return 2;
	if (socket_connect(path, &fd) < 0)
		return 1;
	bytes_add_preface(&bytes, ATTACK_WINDOW);
	bytes_add_call(&bytes, 1, METHOD_OPTIONS, NULL);
	bytes_add_message(&bytes, 1, 0, 0, "", 0);
	(void)raw_send(fd, &bytes, SEND_LIMIT);
	raw_receive(fd, &received, RECEIVE_LIMIT);
	return raw_has_frame(&received, FRAME_DATA, 1, 5) ? 0 : 1;
}

static enum outcome refuses_others(struct trial *trial, const struct conformance_case *self)
{
	const char *path = trial_socket(trial);
	int status;
	pid_t pid;

	pid = fork();
	if (pid == 0)
		_exit(call_as_nobody(path));
	if (pid < 0 || RETRY_ON_EINTR(waitpid(pid, &status, 0)) < 0 || !WIFEXITED(status) ||
		WEXITSTATUS(status) > 1)
		return trial_skip(trial, "cannot become another user");
	if (WEXITSTATUS(status) == 0)
		return trial_fail(trial, "a process of user %d was served", NOBODY);
	return trial_check_alive(trial, "a call of another user");
}

#define ATTACK(number_, name_, title_, reason_, ...)                           \
	{                                                                      \
		number_, name_, title_, reason_, 0, NEEDS_SERVING, withstands, \
			&(const struct attack)                                 \
		{                                                              \
			__VA_ARGS__                                            \
		}                                                              \
	}

static const char any_root_process[] =
	"any process of root can connect, and the node must not lose its devices because of a broken client";

static const struct conformance_case cases[] = {
	{ 60, "knows-its-methods", "answers an unknown method with UNIMPLEMENTED",
		"a later kubelet may try methods that an older plugin does not implement", 0,
		NEEDS_SERVING, knows_its_methods, NULL },
	{ 61, "ignores-unknown-fields", "ignores unknown fields", "a later kubelet may send more",
		0, NEEDS_SERVING, ignores_unknown_fields, NULL },
	{ 62, "refuses-malformed", "refuses malformed messages, and keeps working",
		any_root_process, 0, NEEDS_SERVING, refuses_malformed, NULL },
	{ 63, "refuses-compression", "does not read a compressed message as a plain one",
		any_root_process, 0, NEEDS_SERVING, refuses_compression, NULL },
	ATTACK(64, "garbage", "keeps working while a peer does not use HTTP/2", any_root_process,
		"garbage", attack_garbage),
	ATTACK(65, "half-a-preface", "keeps working while a peer stops sending", any_root_process,
		"half a preface", attack_half_a_preface),
	ATTACK(66, "oversized-frame", "keeps working while a peer sends frames of 16 MiB",
		any_root_process, "an oversized frame", attack_oversized_frame),
	ATTACK(67, "broken-headers",
		"keeps working while a peer sends headers that cannot be decoded", any_root_process,
		"broken headers", attack_broken_headers),
	ATTACK(68, "header-bomb", "bounds the size of expanded headers", any_root_process,
		"a header bomb", attack_header_bomb),
	ATTACK(69, "continuation-flood",
		"keeps working while a peer sends 16 MiB of headers that never end",
		any_root_process, "a flood of CONTINUATION frames", attack_continuation_flood),
	ATTACK(70, "reset-flood",
		"keeps working while a peer makes 5000 calls and resets each at once",
		any_root_process, "a flood of RST_STREAM frames", attack_reset_flood),
	ATTACK(71, "ping-flood", "limits answers that the peer does not read", any_root_process,
		"a flood of PING frames", attack_ping_flood),
	ATTACK(72, "settings-flood", "limits acknowledgements that the peer does not read",
		any_root_process, "a flood of SETTINGS frames", attack_settings_flood),
	ATTACK(73, "closed-windows", "keeps working while a peer lets its streams send nothing",
		"a kubelet that is stopped (SIGSTOP, swapping) reads nothing for a long time",
		"64 streams with closed windows", attack_closed_windows),
	ATTACK(74, "slow-reader", "keeps working while a peer does not read",
		"a kubelet that is stopped (SIGSTOP, swapping) reads nothing for a long time",
		"64 streams that are not read", attack_slow_reader),
	ATTACK(75, "huge-message",
		"does not allocate memory for a message that claims to have 1 GiB",
		any_root_process, "a message of 1 GiB", attack_huge_message),
	{ 76, "tolerates-idle-peers", "keeps working while 300 connections are idle",
		any_root_process, 0, NEEDS_SERVING, bears_idle_peers, NULL },
	{ 77, "refuses-others", "serves only root",
		"a process that can call Allocate gets paths and may start the plugin's commands",
		0, NEEDS_SERVING | NEEDS_ROOT, refuses_others, NULL },
};

const struct case_table hostile_cases = { cases, ARRAY_SIZE(cases) };
