/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains one resource in words. Each state has a paragraph: the reason, the time, the next
 * automatic step, and what the user can do.
 */
#include <inttypes.h>

#include "common/finding.h"
#include "common/json-read.h"
#include "common/text.h"
#include "configuration/config.h"
#include "configuration/shared-names.h"
#include "drivers/host/sysfs.h"
#include "supervisor/ctl/evictions.h"
#include "supervisor/ctl/notices.h"
#include "supervisor/ctl/show-usage.h"
#include "supervisor/ctl/show.h"
#include "supervisor/ctl/wrap.h"

#define INTERFACES "/sys/class/net"

static bool is_watched(const json_t *resource)
{
	return streq(text_of(resource, "registration"), "watcher");
}

/* "Its process is 123 with session 4; restarted 2 times." */
static void explain_child(const json_t *resource)
{
	long long pid = integer_of(resource, "pid");
	long long session = integer_of(resource, "session");
	long long restarts = integer_of(resource, "restarts");

	char process[64] = "The resource has no process", number[64] = "";

	if (pid > 0)
		(void)snprintf(process, sizeof(process), "Its process is %lld", pid);
	if (session > 0)
		(void)snprintf(number, sizeof(number), " with session %lld", session);
	print_wrapped(0, "%s%s; restarted %lld time%s.", process, number, restarts,
		restarts == 1 ? "" : "s");
}

static void explain_next_try(const json_t *resource, const char *what)
{
	const char *when = text_of(resource, "next_try");

	if (*when)
		print_wrapped(0, "%s at %s.", what, when);
}

static void explain_scan(const json_t *notes)
{
	for (size_t i = 0; i < json_array_size(notes); i++)
		print_wrapped(0, "The last scan for devices reports: %s.",
			json_string_value(json_array_get(notes, i)));
	if (json_array_size(notes) > 0)
		print_wrapped(
			0, "devplugd scans for devices again automatically, without a reload.");
}

static bool is_of_dra(const json_t *resource)
{
	return streq(text_of(resource, "registration"), "dra");
}

static void explain_serving(const json_t *resource)
{
	char use[96] = "";

	if (!json_is_null(json_object_get(resource, "in_use")))
		(void)snprintf(use, sizeof(use), ", %lld in use, %lld free",
			(long long)integer_of(resource, "in_use"),
			(long long)integer_of(resource, "free"));
	print_wrapped(0, "The kubelet has registered %s: %lld offered, %lld healthy%s.",
		is_of_dra(resource) ? "the DRA driver"
			: is_watched(resource)
			? "it through its plugin watcher and watches its devices"
			: "it by a call on its socket and watches its devices",
		(long long)integer_of(resource, "offered"),
		(long long)integer_of(resource, "healthy"), use);
	explain_child(resource);
	if (integer_of(resource, "devices_total") == 0 &&
		json_array_size(json_object_get(resource, "devices")) > 0)
		print_wrapped(0, "All matching devices belong to other resources, see below.");
	else if (integer_of(resource, "devices_total") == 0 &&
		json_array_size(json_object_get(resource, "scan_notes")) == 0)
		print_wrapped(0,
			"No device matches. Check that the hardware is present and that `match` "
			"names it; a device is offered as soon as it appears.");
}

static void explain_waiting(const json_t *resource)
{
	if (integer_of(resource, "pid") == 0)
		print_wrapped(0, "Its process is being started.");
	else
		explain_child(resource);
	explain_next_try(resource, "Next automatic retry");
	if (strstr(text_of(resource, "reason"), strerror(ECONNREFUSED)))
		print_wrapped(0,
			"No kubelet listens on that socket: it does not run, or hangs during its start. "
			"Try \"systemctl status kubelet\" and read its log.");
	if (is_of_dra(resource))
		print_wrapped(
			0, "It is served as soon as the kubelet has registered the DRA driver.");
	else if (is_watched(resource))
		print_wrapped(0,
			"If the kubelet runs, set kubelet.root_dir to the kubelet's "
			"--root-dir.");
	else
		print_wrapped(0,
			"It registers as soon as the kubelet's socket answers. If the kubelet runs, "
			"remove kubelet.device_plugin_dir if the configuration sets it: a kubelet "
			"always has its socket in /var/lib/kubelet/device-plugins, even with another "
			"--root-dir. In a container, mount that directory of the host at the same "
			"path.");
}

static void explain_registering(const json_t *resource)
{
	explain_child(resource);
	if (is_watched(resource))
		print_wrapped(0,
			"A running kubelet connects to the socket within seconds. If it does not, "
			"set kubelet.root_dir to the kubelet's --root-dir.");
	else
		print_wrapped(0,
			"The kubelet has 30 seconds; then devplugd opens a new session. If this "
			"repeats, read the kubelet's log.");
}

static void explain_stopping(const json_t *resource)
{
	explain_child(resource);
	print_wrapped(
		0, "A process that does not exit within 5 seconds is killed. No action is needed.");
}

static void explain_backoff(const json_t *resource)
{
	explain_child(resource);
	explain_next_try(resource, "Next automatic restart");
	print_wrapped(0,
		"The pause doubles with each failure, up to a minute, and each second of service "
		"halves it. Meanwhile the kubelet shows the devices as unhealthy; containers that use them keep running. The log has details: journalctl -u devplugd. After a "
		"change of the resource's configuration, \"devplugctl reload\" retries at once.");
}

static void explain_failed(const json_t *resource)
{
	explain_child(resource);
	explain_next_try(resource, "Next automatic retry of the same configuration");
	print_wrapped(
		0, "Correct the resource in the configuration file and run \"devplugctl reload\".");
}

static const struct {
	const char *state, *headline;
	void (*explain)(const json_t *resource);
} states[] = {
	{ "serving", "the kubelet can allocate its healthy devices", explain_serving },
	{ "waiting", "it has no session with the kubelet", explain_waiting },
	{ "registering", "the kubelet has not registered it yet", explain_registering },
	{ "stopping", "its process is being stopped", explain_stopping },
	{ "backoff", "its process failed and will be restarted", explain_backoff },
	{ "failed", "it cannot use its configuration", explain_failed },
};

static void explain_holders(const json_t *device)
{
	_cleanup_free_ char *holders = usage_name_holders(device);

	if (holders && json_array_size(json_object_get(device, "pods")) > 0 &&
		usage_is_taken(device))
		print_wrapped(0, "It is in use by %s.", holders);
}

static void explain_bookings(const json_t *device)
{
	const json_t *bookings = json_object_get(device, "booked"), *booking;
	size_t i;

	json_array_foreach(bookings, i, booking)
	{
		(void)puts("");
		print_wrapped(0,
			"Device %s is booked for container %s of the pod with the UID %s, which has been removed: the kubelet does not list it, and it has no directory in kubelet.pod_logs_dir. The kubelet frees the device when it admits the next pod.",
			text_of(booking, "id"), text_of(booking, "container"),
			text_of(booking, "pod_uid"));
	}
}

/* Healthy devices are not explained, but their claims are. */
static void explain_claims(const json_t *device)
{
	_cleanup_free_ char *holders = NULL;

	if (json_array_size(json_object_get(device, "claims")) == 0)
		return;
	holders = usage_name_holders(device);
	print_wrapped(0, "Device %s is prepared for %s.", text_of(device, "id"), holders ?: "");
}

/* What probes have found, without changing the health. */
static void explain_notices(const json_t *device)
{
	for (size_t i = 0; i < json_array_size(json_object_get(device, "findings")); i++) {
		const json_t *notice = notices_get(device, i);
		_cleanup_free_ char *name = notice ? notices_name(notice) : NULL;

		if (!name)
			continue;
		(void)puts("");
		print_wrapped(0, "Device %s has a %s: %s. A notice does not keep pods away.",
			text_of(device, "id"), name, text_of(notice, "text"));
	}
}

/* The probes that name a reason. */
static void explain_reasons(const json_t *device)
{
	const json_t *findings = json_object_get(device, "findings"), *finding;
	size_t i;

	json_array_foreach(findings, i, finding)
	{
		const char *reason = text_of(finding, "reason");

		if (*reason && !notices_get(device, i))
			print_wrapped(0, "A probe with the reason \"%s\" has failed: %s.", reason,
				text_of(finding, "text"));
	}
}

static void explain_device(const json_t *resource, const json_t *device)
{
	bool claimed = streq(text_of(device, "health"), "Claimed");
	const char *reason = text_of(device, "reason");
	const char *unless = is_of_dra(resource) ? ", unless their claim tolerates its taint" : "";

	explain_notices(device);
	if (streq(text_of(device, "health"), "Healthy"))
		return;
	(void)puts("");
	print_wrapped(0, "Device %s is %s since %s: %s.", text_of(device, "id"),
		claimed ? "not offered" : "unhealthy", text_of(device, "since"),
		*reason ? reason : "no reason is known");
	explain_reasons(device);
	explain_holders(device);
	evictions_explain(resource, text_of(device, "id"));
	if (claimed && startswith(reason, "in use by"))
		print_wrapped(0,
			"The resource has moved between the device plugin and DRA. The container keeps "
			"the device, and it is offered when the pod has ended.");
	else if (claimed && !strstr(reason, "but refused"))
		print_wrapped(0,
			"A device belongs to the first resource, in the order of the configuration, that finds it; other resources do not offer it. To offer it in both, set overlap = true in both, or overlap = \"exclusive\" so that only one of them is in use at a time.");
	else if (startswith(reason, WHY_IN_USE))
		print_wrapped(0,
			"Its resource has overlap = \"exclusive\": the hardware, or a part of it, is in use by "
			"one resource at a time. It is offered again when the other pod has ended.");
	else if (startswith(reason, WHY_CORDONED))
		print_wrapped(0,
			"New containers do not get it%s. \"devplugctl uncordon\" offers it again.",
			unless);
	else if (strstr(reason, "but assigned to a pod"))
		print_wrapped(0,
			"It leaves the list when no container uses it. It is offered again when it is "
			"found again: check the hardware, and what has changed in the configuration.");
	else
		print_wrapped(0,
			"New containers do not get it%s; containers that use it keep it. It is "
			"offered again automatically when the cause is removed.",
			unless);
}

static void explain_parameters(const json_t *resource)
{
	const json_t *parameter;
	size_t i;

	json_array_foreach(json_object_get(resource, "parameters"), i, parameter)
	{
		const char *text = set_text_of(parameter, "default");

		if (i == 0)
			print_wrapped(0,
				is_of_dra(resource)
					? "Claims may set parameters:"
					: "Containers get the defaults of its parameters:");
		print_wrapped(2, "\"%s\": %s; %s%s.", text_of(parameter, "name"),
			text_of(parameter, "permitted"), text ?: "",
			text ? " by default" : "required");
	}
}

static void explain_failures(const json_t *failures)
{
	static const struct {
		const char *call, *words;
	} calls[] = {
		{ "registration", "registration" },
		{ "allocation", "allocation" },
		{ "preferred_allocation", "preferred allocation" },
		{ "prestart", "preparation of a container" },
	};
	const json_t *failure;
	size_t i;

	json_array_foreach(failures, i, failure)
	{
		long long count = integer_of(failure, "count");
		const char *words = text_of(failure, "call");

		for (size_t k = 0; k < ARRAY_SIZE(calls); k++)
			if (streq(calls[k].call, words))
				words = calls[k].words;
		print_wrapped(0, "The last %s that failed, at %s (%lld in all): %s.", words,
			text_of(failure, "last"), count, text_of(failure, "text"));
	}
}

static const char *headline_of(const json_t *resource, size_t state)
{
	if (!streq(states[state].state, "serving") || integer_of(resource, "devices_healthy") > 0)
		return states[state].headline;
	return integer_of(resource, "devices_total") > 0
		? "it is registered, but none of its devices is healthy"
		: "it is registered, but has no device";
}

/* Ports that support virtual functions, but without any. */
static void explain_ports(const char *root)
{
	_cleanup_strings_ struct strings names = { 0 };

	if (sysfs_list(root, INTERFACES, &names) < 0)
		return;
	for (size_t i = 0; i < names.count; i++) {
		char directory[sizeof(INTERFACES) + NAME_MAX + sizeof("//device")];
		int64_t most;

		(void)snprintf(
			directory, sizeof(directory), INTERFACES "/%s/device", names.items[i]);
		if (sysfs_read_number(root, directory, "sriov_totalvfs", &most) >= 0 && most > 0 &&
			!sysfs_has_vfs(root, directory))
			print_wrapped(0,
				"%s supports %" PRId64
				" virtual functions, but none exist: enable a unit such as sriov-vfs@%s.service to create them.",
				names.items[i], most, names.items[i]);
	}
}

/* --- names that other resources use, too --- */

static const json_t *find_resource(const struct daemon_state *daemon, const char *name)
{
	const json_t *resource;
	size_t i;

	json_array_foreach(daemon->all, i, resource)
	{
		if (streq(text_of(resource, "name"), name))
			return resource;
	}
	return NULL;
}

static bool same_container(const json_t *a, const json_t *b)
{
	static const char *const members[] = { "namespace", "pod", "container" };

	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (!streq(text_of(a, members[i]), text_of(b, members[i])))
			return false;
	return true;
}

/* The first container that uses a device of the resource and passes the test, or NULL. */
static const json_t *find_container(const json_t *resource,
	bool (*test)(const json_t *container, const void *userdata), const void *userdata)
{
	const json_t *device, *container;
	size_t i, k;

	json_array_foreach(json_object_get(resource, "devices"), i, device)
	{
		json_array_foreach(json_object_get(device, "pods"), k, container)
		{
			if (test(container, userdata))
				return container;
		}
	}
	return NULL;
}

static bool is_container(const json_t *container, const void *userdata)
{
	return same_container(container, userdata);
}

static bool also_uses(const json_t *container, const void *userdata)
{
	return find_container(userdata, is_container, container);
}

/* The number of devices is wrong. */
static void explain_expected(const json_t *expect)
{
	if (*text_of(expect, "reason"))
		print_wrapped(0,
			"The resource should have %lld devices (expect), but %s. Check the hardware and its driver, or correct expect.",
			(long long)integer_of(expect, "count"), text_of(expect, "reason"));
}

struct explanation {
	const struct daemon_state *daemon;
	const json_t *resource;
};

static void on_shared_name(const struct shared_name *shared, void *userdata)
{
	const struct explanation *explanation = userdata;
	const char *name = text_of(explanation->resource, "name");
	bool later = streq(name, shared->declaration->name);
	const char *other = (later ? shared->other : shared->declaration)->name;
	const json_t *container;

	if (!later && !streq(name, shared->other->name))
		return;
	print_wrapped(0,
		"Note: %s also uses the %s %s. A container with devices of both resources gets only one of the two: choose another %s in the configuration.",
		other, shared->kind, shared->name, shared->kind);
	container = find_container(
		find_resource(explanation->daemon, other), also_uses, explanation->resource);
	if (container)
		print_wrapped(0, "Container %s/%s/%s has devices of both.",
			text_of(container, "namespace"), text_of(container, "pod"),
			text_of(container, "container"));
}

/* What only the configuration shows: names that other resources use, too, and, without a device,
 * which ones could be expected. */
static void explain_configuration(
	const struct daemon_state *daemon, const json_t *resource, const char *config_file)
{
	struct explanation explanation = { .daemon = daemon, .resource = resource };
	_cleanup_report_ struct report report = { 0 };
	_cleanup_config_ struct config *config = NULL;

	if (config_load(config_file, &report, &config) < 0)
		return;
	(void)shared_names_find(config, on_shared_name, &explanation);
	if (streq(text_of(resource, "driver"), "net") && integer_of(resource, "devices_total") == 0)
		explain_ports(streq(config->host_root, "/") ? "" : config->host_root);
}

int show_explanation(const struct daemon_state *daemon, const struct command_line *line)
{
	const json_t *resource = json_array_get(json_object_get(daemon->root, "resources"), 0);
	const json_t *devices = json_object_get(resource, "devices");
	const char *state = text_of(resource, "state"), *reason = text_of(resource, "reason");

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		if (!streq(states[i].state, state))
			continue;
		print_wrapped(0, "%s is in state \"%s\" since %s: %s.", text_of(resource, "name"),
			state, text_of(resource, "since"), headline_of(resource, i));
		if (*reason)
			print_wrapped(0, "The reason: %s.", reason);
		states[i].explain(resource);
	}
	explain_expected(json_object_get(resource, "expect"));
	explain_scan(json_object_get(resource, "scan_notes"));
	if (*text_of(resource, "note"))
		print_wrapped(0, "Note: %s.", text_of(resource, "note"));
	if (json_is_true(json_object_get(resource, "refused")))
		print_wrapped(0,
			"Its new configuration was refused, and the previous one stays applied. Correct it and run \"devplugctl reload\".");
	if (is_of_dra(resource))
		show_dra(daemon, text_of(resource, "dra_driver"), "");
	explain_parameters(resource);
	explain_failures(json_object_get(resource, "failures"));
	explain_configuration(daemon, resource, command_line_config_file(line, daemon));
	for (size_t i = 0; i < json_array_size(devices); i++)
		explain_claims(json_array_get(devices, i));
	for (size_t i = 0; i < json_array_size(devices); i++)
		explain_device(resource, json_array_get(devices, i));
	for (size_t i = 0; i < json_array_size(devices); i++)
		explain_bookings(json_array_get(devices, i));
	return 0;
}
