/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that a DRA driver is registered through plugins_registry, and stays registered over
 * restarts of the kubelet and of the driver.
 */
#include "kubelet/conformance/conformance.h"

#include <signal.h>

#include "kubelet/conformance/dra-calls.h"
#include "kubelet/registration-check.h"
#include "pluginregistration.pb-c.h"
#include "proto/methods.h"

#define DRIVER_NAME_MAX 63

static bool has_been_asked(struct trial *trial, const void *data)
{
	return trial_is_serving(trial, NULL) || trial->counts.refused > 0;
}

/* --- GetInfo --- */

static bool get_info(struct trial *trial, struct message *ret)
{
	_cleanup_reply_ struct reply reply = {};

	trial_ask_socket(trial, true);
	call_bytes(trial, METHOD_GET_INFO, "", 0, trial->options->timeout, &reply);
	trial_ask_socket(trial, false);
	if (reply.status == RPC_OK)
		*ret = message_unpack(
			&pluginregistration__plugin_info__descriptor, reply.data, reply.size);
	if (reply.status == RPC_OK && ret->base)
		return true;
	(void)trial_fail(trial, "GetInfo of %s failed: %s", trial->socket,
		reply.status == RPC_OK ? "the answer cannot be read" : reply.text);
	return false;
}

static bool announces(const Pluginregistration__PluginInfo *info, const char *service)
{
	for (size_t i = 0; i < info->n_supported_versions; i++)
		if (streq(info->supported_versions[i], service))
			return true;
	return false;
}

static enum outcome check_info(struct trial *trial, const Pluginregistration__PluginInfo *info)
{
	if (!streq(info->type, "DRAPlugin"))
		return trial_fail(trial, "the type is \"%s\", not DRAPlugin", info->type);
	if (!driver_name_is_valid(info->name))
		return trial_fail(trial,
			"\"%.80s\" is not a name of a driver: a DNS subdomain of up to %d characters",
			info->name, DRIVER_NAME_MAX);
	if (info->endpoint[0] != '\0' && info->endpoint[0] != '/')
		return trial_fail(
			trial, "the endpoint \"%s\" is not an absolute path", info->endpoint);
	if (!announces(info, "v1.DRAPlugin") && !announces(info, "v1beta1.DRAPlugin"))
		return trial_fail(trial,
			"it announces neither v1.DRAPlugin nor v1beta1.DRAPlugin, which are names of services and not versions");
	return OUTCOME_OK;
}

static bool begin(struct trial *trial)
{
	trial->faults = (struct kubelet_faults){};
	if (!trial_start_kubelet(trial))
		return false;
	return !trial_owns_plugin(trial) || plugin_process_is_running(&trial->plugin) ||
		trial_start_plugin(trial);
}

static enum outcome registers(struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message info = {};
	enum outcome outcome;

	if (!begin(trial))
		return OUTCOME_NOT_OK;
	if (!trial_await_register(trial, has_been_asked, NULL))
		return trial_await_serving(trial) ? OUTCOME_OK : OUTCOME_NOT_OK;
	if (!get_info(trial, &info))
		return OUTCOME_NOT_OK;
	outcome = check_info(trial, (const void *)info.base);
	if (outcome == OUTCOME_OK && !trial_is_serving(trial, NULL))
		return trial_fail(trial, "it was not registered: %s", trial->refused_by);
	if (outcome == OUTCOME_OK && !trial_client(trial))
		return trial_fail(trial, "the endpoint %s refuses connections", trial->endpoint);
	return outcome;
}

/* A call without claims, which changes nothing. */
static enum outcome check_service(struct trial *trial, const char *service)
{
	static const char suffix[] = ".DRAPlugin";
	size_t length = strlen(service);
	char method[CALL_METHOD_MAX];
	_cleanup_reply_ struct reply reply = {};

	if (length <= strlen(suffix) || !streq(service + length - strlen(suffix), suffix))
		return OUTCOME_OK;
	(void)snprintf(method, sizeof(method), "/k8s.io.kubelet.pkg.apis.dra.%.40s/" DRA_UNPREPARE,
		service);
	call_bytes(trial, method, "", 0, trial->options->timeout, &reply);
	if (reply.status == RPC_OK)
		return OUTCOME_OK;
	return trial_fail(trial, "it announces %s, but does not serve it: %s", service, reply.text);
}

static enum outcome serves_what_it_announces(
	struct trial *trial, const struct conformance_case *self)
{
	_cleanup_message_ struct message message = {};
	const Pluginregistration__PluginInfo *info;
	enum outcome outcome = OUTCOME_OK;

	if (!get_info(trial, &message))
		return OUTCOME_NOT_OK;
	info = (const void *)message.base;
	for (size_t i = 0; i < info->n_supported_versions && outcome == OUTCOME_OK; i++)
		outcome = check_service(trial, info->supported_versions[i]);
	return outcome;
}

/* --- restarts --- */

static enum outcome kubelet_restarts(struct trial *trial, const struct conformance_case *self)
{
	trial_kill_kubelet(trial);
	if (!trial_start_kubelet(trial) || !trial_await_serving(trial))
		return OUTCOME_NOT_OK;
	return trial_check_alive(trial, "a restart of the kubelet");
}

static enum outcome driver_restarts(struct trial *trial, const struct conformance_case *self)
{
	if (!trial_kill_plugin(trial) || !trial_start_plugin(trial) || !trial_await_serving(trial))
		return OUTCOME_NOT_OK;
	return trial_check_alive(trial, "a restart of the driver");
}

static enum outcome stops(struct trial *trial, const struct conformance_case *self)
{
	return trial_stop_plugin(trial) ? OUTCOME_OK : OUTCOME_NOT_OK;
}

static const struct conformance_case cases[] = {
	{ 101, "dra-registers",
		"answers GetInfo with DRAPlugin, its name, an endpoint and the services of claims",
		"a driver that the kubelet does not register prepares nothing (KEP-4381; pkg/kubelet/cm/dra/plugin)",
		0, 0, registers, NULL },
	{ 102, "dra-services", "serves each service of claims that it announces",
		"the kubelet uses the first service that it knows and never tries another one", 0,
		NEEDS_SERVING, serves_what_it_announces, NULL },
	{ 103, "dra-kubelet-restarts", "is registered after a restart of the kubelet",
		"a new kubelet calls GetInfo on each socket again", 0, NEEDS_SERVING,
		kubelet_restarts, NULL },
	{ 104, "dra-driver-restarts", "is registered after it was killed and started again",
		"the old socket still exists", 0, NEEDS_SERVING | NEEDS_COMMAND, driver_restarts,
		NULL },
	{ 105, "dra-stops", "ends on SIGTERM", "a driver that must be killed delays every update",
		0, NEEDS_SERVING | NEEDS_COMMAND, stops, NULL },
};

const struct case_table dra_registration_cases = { cases, ARRAY_SIZE(cases) };
