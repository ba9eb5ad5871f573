/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One resource in words. Each state has its paragraph: why, since when, what happens next by
 * itself, and what a person can do about it.
 */
#include "common/text.h"
#include "ctl/show.h"

static const char *text_of(const json_t *resource, const char *key)
{
	return snapshot_string(resource, key);
}

static bool is_watched(const json_t *resource)
{
	return streq(text_of(resource, "registration"), "watcher");
}

/* "The child is process 123, session 4, restarted 2 times." */
static void explain_child(const json_t *resource)
{
	long long pid = snapshot_integer(resource, "pid");
	long long session = snapshot_integer(resource, "session");
	long long restarts = snapshot_integer(resource, "restarts");

	if (pid == 0)
		(void)printf("It has no process now");
	else
		(void)printf("Its process is %lld", pid);
	if (session > 0)
		(void)printf(", the session with the kubelet is number %lld", session);
	(void)printf(
		", and it was started anew %lld time%s.\n", restarts, restarts == 1 ? "" : "s");
}

static void explain_next_try(const json_t *resource, const char *what)
{
	const char *when = text_of(resource, "next_try");

	if (*when)
		(void)printf("%s at %s, without anybody's help.\n", what, when);
}

static void explain_scan(const json_t *notes)
{
	for (size_t i = 0; i < json_array_size(notes); i++)
		(void)printf("The last look for devices met with a problem: %s.\n",
			json_string_value(json_array_get(notes, i)));
	(void)puts("Devices are looked for again by themselves, without a reload.");
}

static void explain_serving(const json_t *resource)
{
	(void)printf(
		"The kubelet has registered it %s and watches its devices: %lld, of which %lld "
		"are healthy.\n",
		is_watched(resource) ? "through its plugin watcher" : "by a call on its socket",
		(long long)snapshot_integer(resource, "devices_total"),
		(long long)snapshot_integer(resource, "devices_healthy"));
	explain_child(resource);
	if (snapshot_integer(resource, "devices_total") == 0 &&
		json_array_size(json_object_get(resource, "devices")) > 0)
		(void)puts("All devices that match belong to other resources, see below.");
	else if (json_array_size(json_object_get(resource, "scan_notes")) > 0)
		explain_scan(json_object_get(resource, "scan_notes"));
	else if (snapshot_integer(resource, "devices_total") == 0)
		(void)puts(
			"No device matches. See that the hardware is there and that `match` names "
			"it; a device is offered the moment it appears.");
}

static void explain_waiting(const json_t *resource)
{
	if (snapshot_integer(resource, "pid") == 0)
		(void)puts("Its process is being started.");
	else
		explain_child(resource);
	explain_next_try(resource, "The kubelet is tried again");
	if (is_watched(resource))
		(void)puts("If the kubelet runs, see that kubelet.plugins_registry_dir is "
			   "plugins_registry below the kubelet's --root-dir.");
	else
		(void)puts(
			"It registers as soon as the kubelet's socket answers. If the kubelet runs, "
			"see that kubelet.device_plugin_dir is device-plugins below the kubelet's "
			"default root, /var/lib/kubelet.");
}

static void explain_registering(const json_t *resource)
{
	explain_child(resource);
	if (is_watched(resource))
		(void)puts(
			"The kubelet comes to the socket by itself, within seconds when it runs. "
			"If it does not, see that kubelet.plugins_registry_dir is plugins_registry "
			"below the kubelet's --root-dir.");
	else
		(void)puts("The kubelet has 30 seconds; after that a new session is tried. If that "
			   "repeats, the kubelet's log says why.");
}

static void explain_stopping(const json_t *resource)
{
	explain_child(resource);
	(void)puts(
		"A process that does not end within 5 seconds is killed. Nothing has to be done.");
}

static void explain_backoff(const json_t *resource)
{
	explain_child(resource);
	explain_next_try(resource, "It is started again");
	(void)puts(
		"The pause doubles with each failure, up to a minute, and never ends. Until then "
		"the kubelet shows the devices as unhealthy; containers that have them go on. The "
		"log says more: journalctl -u devplugd. \"devplugctl reload\" after a change of "
		"the resource's configuration tries at once.");
}

static void explain_failed(const json_t *resource)
{
	explain_child(resource);
	explain_next_try(resource, "The same configuration is tried again");
	(void)puts("Correct the resource in the configuration file and run \"devplugctl reload\".");
}

static const struct {
	const char *state, *headline;
	void (*explain)(const json_t *resource);
} states[] = {
	{ "serving", "the kubelet may give its devices to containers", explain_serving },
	{ "waiting", "it has no session with a kubelet", explain_waiting },
	{ "registering", "the kubelet is to take it up", explain_registering },
	{ "stopping", "it is wanted no more, or to be started anew", explain_stopping },
	{ "backoff", "it has lost its process and pauses before the next", explain_backoff },
	{ "failed", "it cannot use its configuration", explain_failed },
};

static void explain_device(const json_t *device)
{
	bool claimed = streq(text_of(device, "health"), "Claimed");
	const char *reason = text_of(device, "reason");

	if (streq(text_of(device, "health"), "Healthy"))
		return;
	(void)printf("\nDevice %s is %s since %s: %s.\n", text_of(device, "id"),
		claimed ? "not offered" : "unhealthy", text_of(device, "since"),
		*reason ? reason : "no reason is known");
	if (claimed)
		(void)puts(
			"A device belongs to the first resource, in the order of the configuration, "
			"that finds it, and is not in the list of others. To offer it in both, set "
			"overlap = true in both.");
	else if (startswith(reason, "cordoned"))
		(void)puts(
			"New containers do not get it. \"devplugctl uncordon\" offers it again.");
	else
		(void)puts(
			"New containers do not get it, those that have it keep it. It is offered "
			"again by itself when the cause is gone.");
}

int show_explanation(const struct snapshot *snapshot)
{
	const json_t *resource = json_array_get(json_object_get(snapshot->root, "resources"), 0);
	const json_t *devices = json_object_get(resource, "devices");
	const char *state = text_of(resource, "state"), *reason = text_of(resource, "reason");

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		if (!streq(states[i].state, state))
			continue;
		(void)printf("%s is in state \"%s\" since %s: %s.\n", text_of(resource, "name"),
			state, text_of(resource, "since"), states[i].headline);
		if (*reason)
			(void)printf("The reason: %s.\n", reason);
		states[i].explain(resource);
	}
	if (*text_of(resource, "note"))
		(void)printf("Note: %s.\n", text_of(resource, "note"));
	if (json_is_true(json_object_get(resource, "refused")))
		(void)puts(
			"Its newest configuration was refused, so the one before stays in force. "
			"Correct it and run \"devplugctl reload\".");
	for (size_t i = 0; i < json_array_size(devices); i++)
		explain_device(json_array_get(devices, i));
	return 0;
}
