/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what people see of evictions: what is held and how to go on, when pods are evicted, and
 * each pod that is not evicted, with the reason.
 */
#include "supervisor/ctl/evictions.h"

#include "dra/model/eviction-order.h"
#include "supervisor/ctl/members.h"
#include "supervisor/ctl/wrap.h"

#define INDENT 2

static json_t *clean_pods(const json_t *failure)
{
	static const char *const texts[] = { "namespace", "pod", "uid", "state", "text", NULL };
	json_t *pods = json_array(), *pod;
	size_t i;

	json_array_foreach(json_object_get(failure, "pods"), i, pod)(void)
		json_array_append_new(pods, add_clean_texts(json_object(), pod, texts));
	return pods;
}

json_t *evictions_clean(const json_t *resource)
{
	static const char *const texts[] = { "held", "problem", NULL };
	static const char *const failure_texts[] = { "device", "state", "hold", "text", "since",
		"due", NULL };
	const json_t *eviction = json_object_get(resource, "eviction");
	json_t *failures, *failure;
	size_t i;

	if (!json_is_object(eviction))
		return NULL;
	failures = json_array();
	json_array_foreach(json_object_get(eviction, "failures"), i, failure)(void)
		json_array_append_new(failures,
			add_clean_texts(json_pack("{s:o}", "pods", clean_pods(failure)), failure,
				failure_texts));
	return add_clean_texts(json_pack("{s:o}", "failures", failures), eviction, texts);
}

/* Whether the pod keeps the device although it is to be evicted. */
static bool is_left(const json_t *pod)
{
	enum eviction_result state = eviction_result_of(text_of(pod, "state"));

	return state == EVICTION_RESULT_REFUSED || state == EVICTION_RESULT_SKIPPED ||
		state == EVICTION_RESULT_WAITING;
}

static void print_pods(const json_t *resource, const json_t *failure, const char **gap)
{
	const json_t *pod;
	size_t i;

	json_array_foreach(json_object_get(failure, "pods"), i, pod)
	{
		if (!is_left(pod))
			continue;
		(void)fputs(*gap, stdout);
		print_wrapped(INDENT, "%s, device %s: pod %s/%s is not evicted: %s",
			text_of(resource, "name"), text_of(failure, "device"),
			text_of(pod, "namespace"), text_of(pod, "pod"), text_of(pod, "text"));
		*gap = "";
	}
}

void evictions_print(const json_t *resource, const char **gap)
{
	const json_t *eviction = json_object_get(resource, "eviction"), *failure;
	const char *held = text_of(eviction, "held"), *problem = text_of(eviction, "problem");
	const char *name = text_of(resource, "name");
	size_t i;

	if (*held) {
		(void)fputs(*gap, stdout);
		print_wrapped(INDENT,
			"%s: eviction is held: %s; to evict, run \"devplugctl evict %s\"", name,
			held, name);
		*gap = "";
	}
	if (*problem) {
		(void)fputs(*gap, stdout);
		print_wrapped(INDENT,
			"%s: pods cannot be evicted, because it is not known which pods use the devices: %s",
			name, problem);
		*gap = "";
	}
	json_array_foreach(json_object_get(eviction, "failures"), i, failure)
		print_pods(resource, failure, gap);
}

static void explain_pod(const json_t *pod)
{
	const char *text = text_of(pod, "text");

	print_wrapped(0, "Pod %s/%s: %s%s%s.", text_of(pod, "namespace"), text_of(pod, "pod"),
		text_of(pod, "state"), *text ? ": " : "", text);
}

void evictions_explain(const json_t *resource, const char *device)
{
	static const char *const holds[][2] = {
		{ "probe", "its probe could not run" },
		{ "configuration",
			"it has failed within 10 minutes after a change of the configuration" },
		{ "many",
			"more than half of the devices, or all of them, would lose their pods within an hour" },
	};
	const json_t *eviction = json_object_get(resource, "eviction"), *failure, *pod;
	size_t i, k;

	json_array_foreach(json_object_get(eviction, "failures"), i, failure)
	{
		const char *state = text_of(failure, "state"), *why = "";

		if (!streq(text_of(failure, "device"), device))
			continue;
		for (k = 0; k < ARRAY_SIZE(holds); k++)
			if (streq(holds[k][0], text_of(failure, "hold")))
				why = holds[k][1];
		if (streq(state, "held"))
			print_wrapped(0,
				"Its pods are not evicted, because %s. If the device is broken, run \"devplugctl evict %s\".",
				why, text_of(resource, "name"));
		else if (streq(state, "waiting"))
			print_wrapped(0, "Its pods are evicted at %s, unless it recovers.",
				text_of(failure, "due"));
		else
			print_wrapped(0, "The eviction of its pods began at %s.",
				text_of(failure, "due"));
		json_array_foreach(json_object_get(failure, "pods"), k, pod) explain_pod(pod);
	}
}
